"""Sweeps, which combine learners, streams, measures, k, horizons and runs, defined in Python or in a TOML file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from peekrank._util.text import excerpt, pluralize, shown
from peekrank._util.untrusted_files import read_text
from peekrank._util.untrusted_toml import TOMLError, parse_toml
from peekrank._util.validate import check_choice, check_int
from peekrank.experiments.experiment import Experiment
from peekrank.jobs.results_dir import json_digest
from peekrank.measures import measure as measure_named
from peekrank.registry import LEARNERS, load
from peekrank.spec import format_spec, suggest
from peekrank.streams import stream as stream_named
from peekrank.types import RegretKind

_MANY = ("learners", "streams", "measures", "k", "horizons")
_MAX_RUNS, _MAX_ITEMS = 10**7, 10**6
_MAX_MESSAGE = 800  # characters
_MINIMUM = {"k": 1, "horizons": 1, "runs": 1, "seed": 0}
EXAMPLE = """\
# Which of four learners has the lowest regret, on two streams, by two measures? peekrank sweep FILE --out FOLDER
name = "example"                                             # a results folder belongs to one name
learners = ["doubtsort", "marginftrl", "rtop1f", "uniform"]  # see `peekrank list`
streams = ["ct15", "ct15:noise=0.5"]                         # or files: "votes.soc", "ratings.csv"
measures = ["dcg", "p@3+sum"]
k = 1                                                        # grades revealed per round; several: [1, 2]
horizons = [1000, 4000]                                      # rounds
runs = 10                                                    # of each learner in each setting
seed = 0
same_rounds = false                                          # each run draws its own rounds, for all learners
regret = "static"                                            # or "pseudo", "dynamic", "none"
"""


class FieldError(ValueError):
    """An invalid field of a sweep.

    Parameters
    ----------
    message
        The error message.
    field
        The name of the field.
    value
        The invalid value, if only one value of the field is invalid.
    """

    def __init__(self, message: str, field: str, value: object = None) -> None:
        super().__init__(message)
        self.field, self.value = field, value


@dataclass(frozen=True)
class Sweep:
    """The definition of a sweep: learners on all combinations of streams, measures, k and horizons.

    Every combination is a setting, an `Experiment` with the sweep's seed. ``peekrank simulate`` can repeat it.

    Parameters
    ----------
    name
        Name of the sweep. A results folder belongs to one name.
    learners
        Specifications. A specification without measure, horizon or max_grade gets those of the setting.
    streams
        Specifications, or paths of files with orders or ratings.
    measures
        Names of the measures that define the regret.
    k
        Numbers of top items whose relevance is revealed.
    horizons
        Numbers of rounds.
    runs
        Number of runs of each learner in each setting.
    seed
        Random seed.
    same_rounds
        Whether all runs have the same rounds, so that only the learner's random numbers differ.
    regret
        What regret compares with: ``static``, ``pseudo``, ``dynamic`` or ``none``, as in `best_values`.
    imports
        Python files and modules that define your own learners, measures, surrogates and streams. They are
        executed. In a TOML file, the key is ``import``.

    >>> sweep = Sweep("s", ("rtop1f", "uniform"), ("ct15",), ("dcg", "p@3+sum"), k=(1, 2), horizons=(100,), runs=5)
    >>> len(sweep.settings), sweep.digest[:8]
    (4, '08dc76f8')
    """

    name: str
    learners: tuple[str, ...]
    streams: tuple[str, ...]
    measures: tuple[str, ...]
    k: tuple[int, ...]
    horizons: tuple[int, ...]
    runs: int = 10
    seed: int = 0
    same_rounds: bool = False
    regret: RegretKind = "static"
    imports: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "imports", tuple(map(_import, self.imports)))  # first, because they define names
        for field in fields(self)[:-1]:
            raw: Any = getattr(self, field.name)
            if field.name not in _MANY:
                object.__setattr__(self, field.name, _normalise(field.name, raw))
                continue
            if not isinstance(raw, tuple | list) or not raw:
                raise FieldError(f"{field.name} = {shown(raw)}: must be a list of one or more", field.name)
            values = [_normalise(field.name, value) for value in raw]
            for i, value in enumerate(values):
                if value in values[:i]:
                    raise FieldError(f"{field.name} has {shown(value)} twice", field.name, raw[i])
            object.__setattr__(self, field.name, tuple(values))
        count = len(self.streams) * len(self.measures) * len(self.k) * len(self.horizons) * len(self.learners)
        if count * self.runs > _MAX_RUNS:
            raise FieldError(
                f"runs = {self.runs}: {count * self.runs:,} in total; must be at most {_MAX_RUNS:,}", "runs"
            )
        self._check_fit()

    @cached_property
    def settings(self) -> tuple[Experiment, ...]:
        """One experiment for each stream, measure, k and horizon. The horizon changes fastest."""
        return tuple(
            self._setting(*where) for where in product(self.streams, self.measures, self.k, self.horizons)
        )

    @property
    def digest(self) -> str:
        """A digest of all fields."""
        return json_digest(asdict(self))

    @property
    def rounds(self) -> int:
        """The total number of rounds of all learners in all runs of all settings."""
        each = len(self.streams) * len(self.measures) * len(self.k)
        return each * sum(self.horizons) * self.runs * len(self.learners)

    def toml(self) -> str:
        """Format the sweep as a TOML file that `read_sweep` can read.

        >>> print(Sweep("s", ("uniform",), ("ct15",), ("dcg",), (1,), (100,)).toml().splitlines()[1])
        learners = ["uniform"]
        """
        lines = {f.name: getattr(self, f.name) for f in fields(self)}
        lines["import"] = lines.pop("imports")
        return "".join(f"{name} = {_toml(value)}\n" for name, value in lines.items() if value != ())

    def _check_fit(self) -> None:
        """Raise FieldError unless every learner fits every setting and differs from the others there."""
        for stream, m in ((stream, stream_named(stream).m) for stream in self.streams):
            if max(self.k) > m:
                raise FieldError(
                    f"k = {max(self.k)}: stream '{stream}' has {pluralize(m, 'item')}", "k", max(self.k)
                )
        for setting in self.settings:
            seen: dict[str, str] = {}
            for learner, text in zip(self.learners, map(format_spec, setting.parts.learners), strict=True):
                if text in seen:
                    where = _setting_text(setting.stream, setting.measure, setting.k, setting.horizon)
                    message = f"learners '{seen[text]}' and '{learner}' are the same in {where}"
                    raise FieldError(message, "learners", learner)
                seen[text] = learner

    def _setting(self, stream: str, measure: str, k: int, horizon: int) -> Experiment:
        where = (stream, measure, k, horizon)
        try:
            return Experiment(self.learners, *where, self.runs, self.seed, self.same_rounds, self.regret)
        except (ValueError, OSError):
            for learner in self.learners:
                try:
                    Experiment((learner,), *where, regret=self.regret)
                except (ValueError, OSError) as error:
                    message = f"learner '{learner}' does not fit {_setting_text(*where)}: {error}"
                    raise FieldError(message, "learners", learner) from None
            raise


def _setting_text(stream: str, measure: str, k: int, horizon: int) -> str:
    return f"the setting with stream '{stream}', measure '{measure}', k = {k}, horizon {horizon}"


def read_sweep(path: Path) -> Sweep:
    """Read a sweep from a TOML file.

    Every field of `Sweep` is a key of the top table; ``imports`` is called ``import``. A single value may replace
    a list of one. Paths are relative to the working directory, as on the command line. Raises ValueError with file
    and line if the file is invalid.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "example.toml"
    ...     _ = file.write_text(EXAMPLE)
    ...     read_sweep(file).rounds
    800000
    """
    try:
        text = read_text(path)
        table = parse_toml(text)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    except TOMLError as error:
        where = f"{path}, line {error.line}: not valid TOML" if error.line else path
        raise ValueError(f"{where}: {error}") from None
    known = [f.name.replace("imports", "import") for f in fields(Sweep)]
    try:
        for key in table:
            if key not in known:
                raise FieldError(f"unknown key '{key}': {suggest(key, known)}", key)
        absent = [name for name in ("name", *_MANY) if name not in table]
        if absent:
            raise ValueError(f"{path}: {', '.join(absent)} missing; see `peekrank sweep --example`")
        many = (*_MANY, "import")
        values: dict[str, Any] = {key.replace("import", "imports"):
                 value if key not in many or isinstance(value, list) else [value]
                 for key, value in table.items()}  # fmt: skip
        return Sweep(**values)
    except FieldError as error:
        line = _line_of(text, error.field, error.value)
        raise ValueError(f"{path}, line {line}: {excerpt(str(error), _MAX_MESSAGE)}") from None


def _import(source: object) -> str:
    """Import a file or a module, and return its name."""
    try:
        if not isinstance(source, str) or not source.strip() or not source.isprintable():
            raise ValueError(f"import = {shown(source)}: must be a file such as mine.py, or a module")
        load(source)
    except (ValueError, OSError) as error:
        raise FieldError(str(error), "import", source) from None
    return source


def _line_of(text: str, key: str, value: object) -> int:
    """Find the line of a value of a key, or else of the key. tomllib does not report it."""
    word = value if isinstance(value, str) else shown(value)
    start = re.search(rf"""^\s*\[*["']?{re.escape(key)}["']?\s*[=.\]]""", text, re.M)
    position = 0 if start is None else start.end() - 1
    for token in _tokens(text, position):
        if value is not None and token[0].strip("\"'") == word:
            position = token.start()
            break
    return text.count("\n", 0, position) + 1


def _tokens(text: str, position: int) -> Iterator[re.Match[str]]:
    """Iterate over strings and plain values from a position on, without comments."""
    tokens = re.finditer(r""""(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*|[^\s=,\[\]#"']+""", text)
    return (token for token in tokens if token.start() >= position and not token[0].startswith("#"))


def _normalise(name: str, value: Any) -> Any:
    """Validate a value of a field and return its canonical form. Raises FieldError if it is invalid."""
    try:
        if name in _MINIMUM:
            check_int(name, value, _MINIMUM[name])
            return int(value)
        if name == "same_rounds":
            if value is not True and value is not False:
                raise ValueError(f"same_rounds = {shown(value)}: must be true or false")
            return value
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise ValueError(f"{name} = {shown(value)}: must be one line of text")
        if name == "regret":
            check_choice(name, value, RegretKind)
        if name == "streams":
            stream = stream_named(value)
            check_int("m", stream.m, 1, _MAX_ITEMS)  # this reads the stream's file, if it has one
            return format_spec(stream)
        if name == "measures":
            return str(measure_named(value))
        if name == "learners" and (kind := value.partition(":")[0]) not in LEARNERS:
            raise ValueError(f"unknown learner '{kind}': {suggest(kind, LEARNERS)}")
    except (ValueError, OSError) as error:
        raise FieldError(str(error), name, value) from None
    return value


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    # JSON's strings, numbers and booleans are valid TOML, except for one character that TOML requires escaped
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
