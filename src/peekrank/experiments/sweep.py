"""A sweep is a value: learners x streams x measures x k x horizons x runs, written in Python or in a TOML file."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from peekrank._util.text import excerpt, pluralize
from peekrank._util.validate import check_int
from peekrank.experiments.experiment import Experiment
from peekrank.jobs.results_dir import digest_of
from peekrank.measures import measure as measure_named
from peekrank.registry import LEARNERS, load
from peekrank.spec import format_spec, suggest
from peekrank.streams import stream as stream_named

_MANY = ("learners", "streams", "measures", "k", "horizons")
_MOST_RUNS, _MOST_ITEMS = 10**7, 10**6
_SHOWN = 800  # characters of what is wrong
_LEAST = {"k": 1, "horizons": 1, "runs": 1, "seed": 0}
EXAMPLE = """\
# Which of four learners loses least, on two streams, by two measures? peekrank sweep FILE --out FOLDER
name = "example"                                             # a folder holds the results of one name
learners = ["doubtsort", "marginftrl", "rtop1f", "uniform"]  # what `peekrank list` lists, with their fields
streams = ["ct15", "ct15:noise=0.5"]                         # or files of people: "votes.soc", "ratings.csv"
measures = ["dcg", "p@3+sum"]
k = 1                                                        # answers per round; several: [1, 2]
horizons = [1000, 4000]                                      # rounds
runs = 10                                                    # of each learner in each setting
seed = 0
same_rounds = false                                                # each run draws its own rounds, for all learners
"""


class FieldError(ValueError):
    """Something is wrong with a field of a sweep.

    Parameters
    ----------
    message
        What is wrong.
    field
        The name of the field.
    value
        Which of its values, if it is one.
    """

    def __init__(self, message: str, field: str, value: object = None) -> None:
        super().__init__(message)
        self.field, self.value = field, value


@dataclass(frozen=True)
class Sweep:
    """Which learners run on all combinations of streams, measures, k and horizons.

    Every combination is a setting, an `Experiment` with the seed of the sweep: ``peekrank simulate`` repeats it.

    Parameters
    ----------
    name
        What it is called; a folder holds the results of one name.
    learners
        Specifications; measure, horizon and max_grade are filled in where they leave them open.
    streams
        Specifications, or paths of files with orders or ratings.
    measures
        Names of the measures that regret is computed for.
    k
        Numbers of items, from the top, whose relevance is revealed.
    horizons
        Numbers of rounds.
    runs
        Number of runs of each learner in each setting.
    seed
        Randomness of everything.
    same_rounds
        Whether each run has rounds of its own; otherwise only the learner's randomness differs.
    imports
        Files and modules that define learners, measures, surrogates and streams of your own: they are run.
        ``import`` in a TOML file.

    >>> sweep = Sweep("s", ("rtop1f", "uniform"), ("ct15",), ("dcg", "p@3+sum"), k=(1, 2), horizons=(100,), runs=5)
    >>> len(sweep.settings), sweep.digest[:8]
    (4, '2e7a1cda')
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
    imports: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "imports", tuple(map(_imported, self.imports)))  # before names are looked up
        for field in fields(self)[:-1]:
            given: Any = getattr(self, field.name)
            if field.name not in _MANY:
                object.__setattr__(self, field.name, _take(field.name, given))
                continue
            if not isinstance(given, tuple | list) or not given:
                raise FieldError(f"{field.name} = {given!r}: must be a list of one or more", field.name)
            taken = [_take(field.name, value) for value in given]
            for i, value in enumerate(taken):
                if value in taken[:i]:
                    raise FieldError(f"{field.name} has {value!r} twice", field.name, given[i])
            object.__setattr__(self, field.name, tuple(taken))
        count = len(self.streams) * len(self.measures) * len(self.k) * len(self.horizons) * len(self.learners)
        if count * self.runs > _MOST_RUNS:
            raise FieldError(
                f"runs = {self.runs}: {count * self.runs:,} in all; must be {_MOST_RUNS:,} at most", "runs"
            )
        self._check_fit()

    @cached_property
    def settings(self) -> tuple[Experiment, ...]:
        """One experiment for each stream, measure, k and horizon, the last changing fastest."""
        return tuple(
            self._setting(*where) for where in product(self.streams, self.measures, self.k, self.horizons)
        )

    @property
    def digest(self) -> str:
        """Digest of everything that the sweep is."""
        return digest_of(asdict(self))

    @property
    def rounds(self) -> int:
        """Rounds of all learners in all runs of all settings."""
        each = len(self.streams) * len(self.measures) * len(self.k)
        return each * sum(self.horizons) * self.runs * len(self.learners)

    def toml(self) -> str:
        """The sweep as the text of a file that `read_sweep` reads.

        >>> print(Sweep("s", ("uniform",), ("ct15",), ("dcg",), (1,), (100,)).toml().splitlines()[1])
        learners = ["uniform"]
        """
        lines = {f.name: getattr(self, f.name) for f in fields(self)}
        lines["import"] = lines.pop("imports")
        return "".join(f"{name} = {_toml(value)}\n" for name, value in lines.items() if value != ())

    def _check_fit(self) -> None:
        """Raise unless every learner fits every setting, and is another one than the others there, naming both."""
        for stream, m in ((stream, stream_named(stream).m) for stream in self.streams):
            if max(self.k) > m:
                raise FieldError(
                    f"k = {max(self.k)}: stream '{stream}' has {pluralize(m, 'item')}", "k", max(self.k)
                )
        for setting in self.settings:
            seen: dict[str, str] = {}
            for learner, text in zip(self.learners, map(format_spec, setting.parts.learners), strict=True):
                if text in seen:
                    where = _position(setting.stream, setting.measure, setting.k, setting.horizon)
                    message = f"learners '{seen[text]}' and '{learner}' are the same in {where}"
                    raise FieldError(message, "learners", learner)
                seen[text] = learner

    def _setting(self, stream: str, measure: str, k: int, horizon: int) -> Experiment:
        where = (stream, measure, k, horizon)
        try:
            return Experiment(self.learners, *where, self.runs, self.seed, self.same_rounds)
        except (ValueError, OSError):
            for learner in self.learners:
                try:
                    Experiment((learner,), *where)
                except (ValueError, OSError) as error:
                    message = f"learner '{learner}' does not fit {_position(*where)}: {error}"
                    raise FieldError(message, "learners", learner) from None
            raise


def _position(stream: str, measure: str, k: int, horizon: int) -> str:
    return f"the setting with stream '{stream}', measure '{measure}', k = {k}, horizon {horizon}"


def read_sweep(path: Path) -> Sweep:
    """Read a sweep from a TOML file.

    Every field of `Sweep` is a key of the top table, ``imports`` as ``import``; one value may stand for a list of
    one. Paths are relative to the working folder, as on the command line. What is wrong is a ValueError with file
    and line.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "example.toml"
    ...     _ = file.write_text(EXAMPLE)
    ...     read_sweep(file).rounds
    800000
    """
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).partition(" (at ")
        found = re.match(r"line (\d+)", where)
        line = int(found[1]) if found else max(1, len(text.splitlines()))
        raise ValueError(f"{path}, line {line}: {what[:1].lower()}{excerpt(what[1:], _SHOWN)}; not TOML") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{path}: has numbers of thousands of digits, or lists within lists, too deep") from None
    known = [f.name.replace("imports", "import") for f in fields(Sweep)]
    try:
        for key in table:
            if key not in known:
                raise FieldError(f"unknown key '{key}': {suggest(key, known)}", key)
        needed = [name for name in ("name", *_MANY) if name not in table]
        if needed:
            raise ValueError(f"{path}: {', '.join(needed)} missing; `peekrank sweep --example` shows a whole one")
        many = (*_MANY, "import")
        given: dict[str, Any] = {key.replace("import", "imports"):
                 value if key not in many or isinstance(value, list) else [value]
                 for key, value in table.items()}  # fmt: skip
        return Sweep(**given)
    except FieldError as error:
        line = _line_of(text, error.field, error.value)
        raise ValueError(f"{path}, line {line}: {excerpt(str(error), _SHOWN)}") from None


def _imported(source: object) -> str:
    """Import a file or a module, by its name."""
    try:
        if not isinstance(source, str) or not source.strip() or not source.isprintable():
            raise ValueError(f"import = {source!r}: must be a file mine.py, or a module")
        load(source)
    except (ValueError, OSError) as error:
        raise FieldError(str(error), "import", source) from None
    return source


def _line_of(text: str, key: str, value: object) -> int:
    """The line where a value of a key stands, or else the key: tomllib does not tell."""
    start = re.search(rf"""^\s*\[*["']?{re.escape(key)}["']?\s*[=.\]]""", text, re.M)
    position = 0 if start is None else start.end() - 1
    for token in _tokens(text, position):
        if value is not None and token[0].strip("\"'") == str(value):
            position = token.start()
            break
    return text.count("\n", 0, position) + 1


def _tokens(text: str, position: int) -> Iterator[re.Match[str]]:
    """Strings and plain values from a position on, without comments."""
    found = re.finditer(r""""(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*|[^\s=,\[\]#"']+""", text)
    return (token for token in found if token.start() >= position and not token[0].startswith("#"))


def _take(name: str, value: Any) -> Any:
    """A value of a field as it is kept: specifications in their one form."""
    try:
        if name in _LEAST:
            check_int(name, value, _LEAST[name])
            return int(value)
        if name == "same_rounds":
            if value is not True and value is not False:
                raise ValueError(f"same_rounds = {value!r}: must be true or false")
            return value
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise ValueError(f"{name} = {value!r}: must be a text of one line")
        if name == "streams":
            made = stream_named(value)
            check_int("m", made.m, 1, _MOST_ITEMS)  # for which a file must be there, and make sense
            return format_spec(made)
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
    # JSON's texts, numbers, true and false are TOML's, but for one letter that TOML does not allow as it is
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
