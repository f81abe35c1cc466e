"""Registries of learners, measures, surrogates and streams by name, built-in and custom.

There are three ways to add a class. Decorate it with `register`. Let `load` import the file or module that defines
it (``--import mine.py`` on the command line, ``import = ["mine.py"]`` in a sweep). Or install a package that has
it as an entry point of the group ``peekrank.learners``, ``peekrank.measures``, ``peekrank.surrogates`` or
``peekrank.streams``. Built-in classes are stored as "module:Class" and imported on first use.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from inspect import get_annotations
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol, TypeVar

from peekrank._util.code_digest import Sources, text_digest

C = TypeVar("C", bound=type[Any])
T = TypeVar("T")

_OURS = {"peekrank", *sys.stdlib_module_names} - {"__main__"}
_NAME = re.compile(r"[A-Za-z]\w*(-\w+)*")  # needs no quotes and holds no character of the specification grammar


class Registry(Mapping[str, type[Any]]):
    """Classes of one kind by name: built-in ones, then those of entry points, then registered ones.

    Parameters
    ----------
    kind
        The kind of class in one word, such as "learner".
    protocol
        The protocol that the classes implement, as "module:Class".
    built_in
        The classes of this package: name -> "module:Class".

    >>> "rtop1f" in LEARNERS, LEARNERS["rtop1f"].__name__
    (True, 'RTop1F')
    """

    def __init__(self, kind: str, protocol: str, built_in: Mapping[str, str]) -> None:
        self.kind, self.group = kind, f"peekrank.{kind}s"
        self.built_in = built_in
        self._protocol = protocol
        self._known: dict[str, type[Any] | str] = dict(built_in)
        self._has_entry_points = False  # whether the entry points have been added

    def __getitem__(self, name: str) -> type[Any]:
        if name not in self:
            raise KeyError(name)
        cls = self._known[name]
        if isinstance(cls, str):
            cls = self._known[name] = _attribute(cls)
        return cls

    def __contains__(self, name: object) -> bool:
        if name not in self._known:
            self._add_entry_points()
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        self._add_entry_points()
        return iter(tuple(self._known))

    def __len__(self) -> int:
        self._add_entry_points()
        return len(self._known)

    def summary(self, name: str) -> str:
        """Return the first line of a class's docstring. A built-in class is not imported for it, if possible.

        >>> LEARNERS.summary("rtop1f") == LEARNERS["rtop1f"].__doc__.splitlines()[0]
        True
        """
        address = self.built_in.get(name, "")
        if self._known.get(name) == address:  # it is not imported yet
            module, _, class_name = address.partition(":")
            source = Path(__file__).parent.joinpath(*module.split(".")[1:]).with_suffix(".py")
            pattern = rf'^class {class_name}\b.*:\n    """(.+?)(?:"""|$)'
            if source.is_file() and (found := re.search(pattern, source.read_text(encoding="utf-8"), re.M)):
                return found[1]
        return (self[name].__doc__ or "").partition("\n")[0]

    def built_in_class(self, class_name: str) -> type[Any]:
        """Return the built-in class with this Python name. Raises AttributeError if there is none."""
        for address in self.built_in.values():
            if address.endswith(f":{class_name}"):
                return _attribute(address)
        raise AttributeError(f"no {self.kind} of this package is called {class_name}")

    def add(self, cls: type[Any]) -> None:
        """Register a class. Raises ValueError if its name is taken or the class is not of this kind."""
        missing = self.missing(cls)
        if missing:
            raise ValueError(f"{_origin(cls)} is not a {self.kind}: it has no {', '.join(missing)}")
        if not (is_dataclass(cls) and cls.__dataclass_params__.frozen):  # type: ignore[attr-defined]
            raise ValueError(
                f"{_origin(cls)} must be a frozen dataclass: its fields are the {self.kind}'s parameters"
            )
        name: object = cls.name  # type: ignore[attr-defined]
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{_origin(cls)} has the name {name!r}: must be letters, digits, _ and -")
        other = self._known.get(name)
        if other is not None and _address(other) != _address(cls):  # a class may be defined again, in a notebook
            raise ValueError(
                f"{self.kind} '{name}' is both {_origin(other)} and {_origin(cls)}: choose another name"
            )
        self._known[name] = cls

    def missing(self, cls: type[Any]) -> list[str]:
        """Return the members of the protocol that a class lacks; a dataclass field counts as a member."""
        own = {field.name for field in fields(cls)} if is_dataclass(cls) else set()
        return [name for name in self.members() if name not in own and not hasattr(cls, name)]

    def members(self) -> list[str]:
        """Return the public members of the protocol."""
        bases = [base for base in _attribute(self._protocol).__mro__ if base not in (*Protocol.__mro__, object)]
        names = [name for base in bases for name in (*get_annotations(base), *vars(base))]
        return [name for name in dict.fromkeys(names) if not name.startswith("_")]

    def _add_entry_points(self) -> None:
        """Add the classes of installed packages. An entry point that fails is skipped with a warning."""
        if self._has_entry_points:
            return
        self._has_entry_points = True
        from importlib.metadata import entry_points  # as slow as everything else here together

        for point in sorted(entry_points(group=self.group), key=lambda p: (p.name, p.value)):
            try:
                self.add(point.load())
            except Exception as error:
                package = point.dist.name if point.dist else "an unknown package"
                warnings.warn(
                    f"entry point '{point.name} = {point.value}' ({self.group}, of {package}) is skipped: "
                    f"{error if isinstance(error, ValueError) else _error_text(error)}",
                    stacklevel=2,
                )


LEARNERS = Registry(
    "learner",
    "peekrank.types:Learner",
    {
        "uniform": "peekrank.learners.uniform:Uniform",
        "ftpl": "peekrank.learners.ftpl:FTPL",
        "rtop1f": "peekrank.learners.rtop1f:RTop1F",
        "setftrl": "peekrank.learners.setftrl:SetFTRL",
        "permftrl": "peekrank.learners.permftrl:PermFTRL",
        "blockftrl": "peekrank.learners.blockftrl:BlockFTRL",
        "doubtsort": "peekrank.learners.doubtsort:DoubtSort",
        "greedy": "peekrank.learners.greedy:Greedy",
        "thompson": "peekrank.learners.thompson:Thompson",
        "ucb": "peekrank.learners.ucb:UCB",
        "marginftrl": "peekrank.learners.marginftrl.learner:MarginFTRL",
        "champion": "peekrank.learners.champion:Champion",
        "auto": "peekrank.learners.auto:Auto",
        "nw2": "peekrank.learners.nw2.learner:NW2",
        "feedexp3": "peekrank.learners.feedexp3.learner:FeedExp3",
        "rtopkf": "peekrank.learners.rtopkf.learner:RTopKF",
        "ridge": "peekrank.learners.ridge.learner:Ridge",
        "mixed": "peekrank.learners.mixed.learner:Mixed",
    },
)
MEASURES = Registry(
    "measure",
    "peekrank.types:Measure",
    {
        "sumloss": "peekrank.measures.pairs:SumLoss",
        "pairwiseloss": "peekrank.measures.pairs:PairwiseLoss",
        "dcg": "peekrank.measures.dcg:DCG",
        "p": "peekrank.measures.precision:Precision",
        "ndcg": "peekrank.measures.dcg:NDCG",
        "ap": "peekrank.measures.precision:AveragePrecision",
        "aucloss": "peekrank.measures.pairs:AUCLoss",
        "rbp": "peekrank.measures.cascade:RBP",
        "rr": "peekrank.measures.cascade:ReciprocalRank",
        "err": "peekrank.measures.cascade:ERR",
        "recall": "peekrank.measures.precision:Recall",
        "hit": "peekrank.measures.precision:Hit",
    },
)
SURROGATES = Registry(
    "surrogate",
    "peekrank.surrogates.protocol:Surrogate",
    {
        "squared": "peekrank.surrogates.squared:Squared",
        "kl": "peekrank.surrogates.kl:KL",
        "smoothdcg": "peekrank.surrogates.smoothdcg:SmoothDCG",
        "ranksvm": "peekrank.surrogates.ranksvm:RankSVM",
        "listnet": "peekrank.surrogates.listnet:ListNet",
        "ndcgsquared": "peekrank.surrogates.ndcgsquared:NDCGSquared",
    },
)
STREAMS = Registry(
    "stream",
    "peekrank.types:Stream",
    {
        "ct15": "peekrank.streams.synthetic:CT15",
        "bernoulli": "peekrank.streams.synthetic:Bernoulli",
        "joint": "peekrank.streams.synthetic:Joint",
        "binomial": "peekrank.streams.synthetic:Binomial",
        "switching": "peekrank.streams.synthetic:Switching",
        "drifting": "peekrank.streams.synthetic:Drifting",
        "available": "peekrank.streams.available:Available",
        "orders": "peekrank.streams.preferences:Orders",
        "ratings": "peekrank.streams.preferences:Ratings",
        "adversary": "peekrank.streams.adversary:Adversary",
        "clicks": "peekrank.streams.click_stream:Clicks",
    },
)
KINDS = (LEARNERS, MEASURES, SURROGATES, STREAMS)


def register(cls: C) -> C:
    """Register a class under its name as a learner, measure, surrogate or stream, and return it.

    Its members decide which of these it is. Use it as a decorator.

    >>> from dataclasses import dataclass
    >>> from peekrank.measures import DCG, measure
    >>> @register
    ... @dataclass(frozen=True)
    ... class FirstTwo(DCG):
    ...     name = "first-two"
    ...     cutoff: int = 2
    >>> measure("first-two")
    FirstTwo(cutoff=2, gains='exponential')
    """
    _nearest_kind(cls).add(cls)
    return cls


def load(source: str | Path) -> list[type[Any]]:
    """Import a file ``mine.py`` or a module, register the classes it defines, and return them.

    Classes whose names begin with an underscore are skipped. A file is imported once and cannot import its
    neighbours; put a module that needs other modules into a package and give the package's name.
    """
    if str(source).endswith(".py"):
        module = import_file(_read(Path(source)))
    else:
        module = _run(str(source), lambda: importlib.import_module(str(source)))
    defined = [cls for name, cls in vars(module).items() if _defines(module, cls) and not name.startswith("_")]
    classes = [cls for cls in defined if any(not kind.missing(cls) for kind in KINDS)]
    hints = [hint for cls in defined if cls not in classes and (hint := _lacking(cls))]
    if not classes:
        raise ValueError("; ".join([f"{source} defines no learner, measure, surrogate or stream", *hints]))
    for hint in hints:
        warnings.warn(f"{source}: {hint}", stacklevel=2)
    return [register(cls) for cls in classes]


def origins(*values: object) -> dict[str, str]:
    """Return the code outside this package that values depend on: class and file -> digest of the code.

    Nested values count as well, such as a learner's measure. For a class in a package, the digest covers its
    module and the modules of the package that it imports, without comments and docstrings.

    >>> from peekrank.measures import DCG
    >>> origins(DCG())
    {}
    """
    digests: dict[str, str] = {}
    for cls in _classes(*values):
        if cls.__module__.partition(".")[0] not in _OURS:
            file = Path(_origin(cls).rpartition(" of ")[2])
            digests[f"{cls.__qualname__} of {file.name}"] = _digest(cls.__module__)
    return digests


def modules_of(*values: object) -> set[str]:
    """Return the modules of this package that define the classes of values and of their nested values.

    >>> from peekrank.learners import learner
    >>> sorted(modules_of(learner("rtopkf:surrogate=kl", horizon=100)))[:2]
    ['peekrank.learners.rtopkf.learner', 'peekrank.surrogates.kl']
    """
    return {cls.__module__ for cls in _classes(*values) if cls.__module__.partition(".")[0] == "peekrank"}


def built_in_modules() -> list[str]:
    """Return the modules of all built-in classes.

    >>> built_in_modules()[0]
    'peekrank.learners.auto'
    """
    return sorted({address.partition(":")[0] for kind in KINDS for address in kind.built_in.values()})


def _classes(*values: object) -> Iterator[type[Any]]:
    """Yield the classes of values and of their nested values, including base classes."""
    for value in values:
        yield from type(value).__mro__
        if is_dataclass(value):
            yield from _classes(*(getattr(value, field.name) for field in fields(value)))


class ImportedFile(NamedTuple):
    """A file that `load` imported: the name of its module, its path and its content."""

    module: str
    path: Path
    code: bytes


def imported_files() -> list[ImportedFile]:
    """Return the files that `load` has imported, for processes on other machines."""
    return list(_FILES.values())


def import_file(file: ImportedFile) -> ModuleType:
    """Import a file that was read in this or another process, once, and return its module."""
    name, path, code = file
    if name not in _FILES:
        module = sys.modules[name] = ModuleType(name)  # dataclasses look their module up
        module.__file__ = str(path)
        try:
            _run(str(path), lambda: exec(compile(code, path, "exec"), vars(module)))  # noqa: S102
        except ValueError:
            del sys.modules[name]
            raise
        _FILES[name] = file
    return sys.modules[name]


def _nearest_kind(cls: type[Any]) -> Registry:
    return min(KINDS, key=lambda kind: len(kind.missing(cls)) / len(kind.members()))


def _lacking(cls: type[Any]) -> str:
    """Return what a class lacks if it has at least half of the members of its nearest kind, else an empty text."""
    kind = _nearest_kind(cls)
    missing = kind.missing(cls)
    if 2 * len(missing) > len(kind.members()):
        return ""
    return f"{cls.__qualname__} would be a {kind.kind} if it had {', '.join(missing)}"


def _attribute(address: str) -> type[Any]:
    module, _, name = address.partition(":")
    cls: type[Any] = getattr(importlib.import_module(module), name)
    return cls


def _address(cls: type[Any] | str) -> str:
    return cls if isinstance(cls, str) else f"{cls.__module__}:{cls.__qualname__}"


def _origin(cls: type[Any] | str) -> str:
    """Return a class with its module or file, for messages."""
    module, _, name = _address(cls).partition(":")
    return f"{name} of {_FILES[module].path if module in _FILES else module}"


_FILES: dict[str, ImportedFile] = {}  # by the names of their modules


def _read(path: Path) -> ImportedFile:
    """Read a file to import. The module gets a unique name, since files in different folders may share theirs."""
    location = path.resolve()
    if not location.is_file():
        raise ValueError(f"{path}: there is no such file to import")
    name = f"{path.stem}_{hashlib.sha256(str(location).encode()).hexdigest()[:8]}"
    return _FILES.get(name) or ImportedFile(name, path, location.read_bytes())


def _run(source: str, action: Callable[[], T]) -> T:
    """Import untrusted code. Turns every error into a ValueError with the reason and the line."""
    try:
        return action()
    except (Exception, SystemExit) as error:
        lines = [line for file, line, *_ in traceback.extract_tb(error.__traceback__) if file.endswith(source)]
        line = f", line {lines[-1]}" if lines else ""
        raise ValueError(f"{source}{line} cannot be imported: {_error_text(error)}") from error


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _defines(module: ModuleType, value: object) -> bool:
    """Return whether a value is a class of a module or of one of its submodules."""
    return isinstance(value, type) and f"{value.__module__}.".startswith(f"{module.__name__}.")


@cache
def _digest(module: str) -> str:
    """Return the digest of a module and of what it imports from its package, or an empty text without a file."""
    if module in _FILES:
        return text_digest(_FILES[module].code)
    package, file = sys.modules[module.partition(".")[0]], getattr(sys.modules[module], "__file__", None)
    if file is None:
        return ""
    if hasattr(package, "__path__"):
        return Sources(Path(package.__path__[0])).digest(module)
    return text_digest(Path(file).read_bytes())
