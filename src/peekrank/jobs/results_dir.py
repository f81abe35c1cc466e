"""The resumable folder: what is missing in it is done, and nothing else is ever mixed with what it holds.

Experiments, sweeps, studies, trainings and reproductions keep their results alike: ``manifest.json`` says what the
results are of, and which code made them; ``runs/`` has a Parquet file for each part that is finished, whose name
begins with a digest of all that determines its content; ``timings.csv`` says how long parts took, so that all
other files are the same whenever they are made.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from peekrank import __version__
from peekrank._util.atomic import remove_leftovers, write_whole
from peekrank._util.code_digest import code_digest
from peekrank._util.extras import extra
from peekrank.registry import modules_of, origins

with extra("cli"):
    import polars as pl

FORMAT = 3
_CODE = {"versions": "versions of packages", "sources": "code of peekrank"}
_TIMINGS = "timings.csv"
OURS = ("manifest.json", _TIMINGS)  # files of a folder that are no results


@cache
def versions() -> dict[str, str]:
    """The versions of the packages that results depend on."""
    return {"peekrank": __version__, **{name: version(name) for name in ("numpy", "numba", "scipy")}}


Belongs = Callable[[str, pl.DataFrame], bool]


class Code(NamedTuple):
    """The code that results depend on, and no other: neither the command line nor reports are part of it.

    `own` has the classes that are not of this package, with digests of their code.
    """

    versions: dict[str, str]
    sources: str
    own: dict[str, str]

    @classmethod
    def of(cls, *modules: str, values: Iterable[object] = ()) -> Code:
        """The code of modules, of the classes of values (learners, streams ...), and of all that they import.

        >>> Code.of("peekrank.regret") == Code.of("peekrank.regret", "peekrank.types")
        True
        """
        held = tuple(values)
        return cls(versions(), code_digest(*modules, *sorted(modules_of(*held))), origins(*held))


class ResultsDir:
    """A folder that is claimed for certain results: what is finished of them, and a way to keep more.

    Two processes may work in it for the same results: they write the same bytes.

    Parameters
    ----------
    path
        Where it is.
    kind
        What it holds results of: the field of the manifest that describes it.
    manifest
        The manifest.
    identity
        What distinguishes it from others of its kind.
    """

    def __init__(self, path: Path, kind: str, manifest: dict[str, Any], identity: _Identity) -> None:
        self.path, self.kind, self.manifest = path, kind, manifest
        self._identity = identity
        self._seen = _stamp(path)

    @classmethod
    def create(
        cls,
        path: Path,
        kind: str,
        about: Mapping[str, Any],
        *,
        code: Code | None,
        data: Sequence[str] = (),
        by: Sequence[str] | None = None,
        more: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> ResultsDir:
        """Make sure that a folder is for these results.

        One with results of something else, of other data or of other code is refused. A folder where nothing is
        finished yet may be taken over by others of its kind.

        Parameters
        ----------
        path
            Where results are, or will be.
        kind
            What they are results of: the field of the manifest that describes it.
        about
            The manifest, but for what is the same for all kinds.
        code
            The code that makes the results; None if it may change, because names of parts tell by which they were
            made.
        data
            Fields of `about` that describe data.
        by
            Fields of the description that results of other folders differ in; all, if None.
        more
            Fields of the manifest that only grow: names and what they stand for.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as position:
        ...     folder = Folder.claim(Path(position) / "new", "study", {"study": {"runs": 5}}, code=None)
        ...     folder.save("all", pl.DataFrame({"regret": [1.0]}), seconds=0.5)
        ...     folder.finished(["all", "more"], lambda *_: True).keys(), folder.seconds()
        (dict_keys(['all']), {'all': 0.5})
        """
        ours = json.loads(json.dumps({**about, **(code._asdict() if code else {}), **(more or {})}))
        names = tuple(ours[kind] if by is None else by)
        identity = _Identity.of(ours, kind, names, tuple(data), Code._fields if code else ())
        manifest = {"format": FORMAT, **ours, "digest": identity.digest, "python": platform.python_version()}
        if _holds_manifest(path):
            old = manifest_of(path, kind)
            if finished(path):
                identity.check(path, old)
                manifest = _grown(path, manifest, old, tuple(more or ()))
            if manifest == old:
                return cls(path, kind, manifest, identity)
        text = json.dumps(manifest, indent=2) + "\n"
        write_whole(path / "manifest.json", lambda part: part.write_text(text))
        return cls(path, kind, manifest, identity)

    @classmethod
    def open(cls, path: Path, kind: str) -> ResultsDir:
        """A folder of results of a kind, for reading."""
        manifest = manifest_of(path, kind)
        if not isinstance(manifest.get("digest"), str):
            raise ValueError(f"{path / 'manifest.json'} has no digest; choose another folder")
        return cls(path, kind, manifest, _Identity(kind, {}, {}, {}, manifest["digest"]))

    def file(self, part: str) -> Path:
        """Where a part is, or will be."""
        return self.path / "runs" / f"{self._identity.digest}-{part}.parquet"

    def read(self, part: str, belongs: Belongs) -> pl.DataFrame:
        """A part that is finished; a ValueError if it is not there, damaged or, by `belongs`, something else."""
        frame = read_table(self.file(part), f"the {self.kind} is not finished")
        if not belongs(part, frame):
            raise damaged(self.file(part), f"does not belong to this {self.kind}")
        return frame

    def finished(self, parts: Iterable[str], belongs: Belongs) -> dict[str, pl.DataFrame]:
        """Those of certain parts that are finished: what is wrong with one is told before new ones are begun."""
        return {part: self.read(part, belongs) for part in parts if self.file(part).exists()}

    def save(self, part: str, frame: pl.DataFrame, seconds: float) -> None:
        """Write a part that is finished, in one step, and how long it took."""
        self.write(self.file(part).stem, frame)
        self.time({part: seconds})

    def write(self, name: str, frame: pl.DataFrame) -> None:
        """Write a file of parts by its whole name, if the folder is still ours."""
        self.check()
        content = BytesIO()  # a full disk is then an OSError
        frame.write_parquet(content, compression="lz4", statistics=False)
        write_whole(self.path / "runs" / f"{name}.parquet", lambda path: path.write_bytes(content.getbuffer()))

    def check(self) -> None:
        """Raise a ValueError if the folder has been removed, or taken over for something else."""
        stamp = _stamp(self.path)
        if stamp is None:
            raise ValueError(
                f"{self.path} was removed, or its manifest.json, while results were made for it; "
                "the same command starts again"
            )
        if stamp != self._seen:
            self._identity.check(self.path, manifest_of(self.path, self.kind))
            self._seen = stamp

    def time(self, took: Mapping[str, float]) -> None:
        """Add to the timings how many seconds parts took."""
        with (self.path / _TIMINGS).open("a", encoding="utf-8") as file:
            head = "" if file.tell() else "part,seconds\n"
            file.write(head + "".join(f"{part},{seconds:.6g}\n" for part, seconds in took.items()))

    def seconds(self) -> dict[str, float]:
        """How long parts took, as far as it is known: a kill may leave half a line, which is passed over."""
        found: dict[str, float] = {}
        path = self.path / _TIMINGS
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        for line in text.split("\n")[:-1]:  # what follows the last end of a line is no line
            part, _, took = line.partition(",")
            with suppress(ValueError):
                found[part] = float(took)
        return found

    @contextmanager
    def resumable(self) -> Iterator[None]:
        """Say in the note of an error of the disk that what is finished is kept."""
        try:
            yield
        except OSError as error:
            if not isinstance(error, ConnectionError):
                error.add_note(f"what is finished is kept in {self.path}; the same command goes on from there")
            raise


class _Identity(NamedTuple):
    """What distinguishes results from others of their kind, and a digest of it."""

    kind: str
    description: dict[str, Any]
    data: dict[str, Any]
    code: dict[str, Any]
    digest: str

    @classmethod
    def of(
        cls, manifest: dict[str, Any], kind: str, by: Sequence[str], data: Sequence[str], code: Sequence[str]
    ) -> _Identity:
        parts = (
            {name: manifest[kind][name] for name in by},
            {name: manifest[name] or {} for name in data},
            {name: manifest[name] for name in code},
        )
        return cls(kind, *parts, digest_of([kind, *parts]))

    def check(self, path: Path, old: dict[str, Any]) -> None:
        """Refuse a folder whose manifest is, or has become, that of other results, data or code."""
        was = old[self.kind]
        differ = [name for name, value in self.description.items() if was.get(name) != value]
        for part, now in self.data.items():
            before = old.get(part) or {}
            differ += [f"{name} of the {part}" for name in {**before, **now} if before.get(name) != now.get(name)]
        own, before = self.code.get("own") or {}, old.get("own") or {}
        differ += [f"code of {name}" for name in {**before, **own} if before.get(name) != own.get(name)]
        if not differ:
            differ += [_CODE[name] for name in _CODE if old.get(name) != self.code.get(name, old.get(name))]
        if differ:
            raise ValueError(
                f"{path} holds results of another {self.kind}, with different {', '.join(differ)}; "
                "choose another folder"
            )


def median_seconds(took: Mapping[str, float], parts: Iterable[str]) -> float:
    """The median time that parts took, of those whose time is known; NaN if none is.

    >>> median_seconds({"0": 1.0, "2": 3.0}, ["0", "1", "2"])
    2.0
    """
    known = [took[part] for part in parts if part in took]
    return median(known) if known else math.nan


def digest_of(value: Any) -> str:
    """Digest of something that JSON can hold, whatever the order of its keys.

    >>> digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def manifest_of(path: Path, kind: str) -> dict[str, Any]:
    """The manifest of a folder, which must be one of this kind."""
    manifest = read_manifest(path)
    if not isinstance(manifest.get(kind), dict):
        raise ValueError(f"{path / 'manifest.json'} describes no {kind}; choose another folder")
    return manifest


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a folder, of whatever kind."""
    file = path / "manifest.json"
    try:
        manifest: dict[str, Any] = json.loads(file.read_text())
    except FileNotFoundError:
        raise ValueError(f"{path} holds no manifest.json: it is not a folder of results") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from None
    written = manifest.get("format") if type(manifest) is dict else None
    if type(written) is int and written < FORMAT:
        raise ValueError(
            f"{file} is of format {written}, of an earlier state of peekrank, and this one has format {FORMAT}; "
            "make the results again in another folder"
        )
    if written != FORMAT:
        raise ValueError(f"{file} is not a manifest of format {FORMAT}")
    return manifest


def finished(path: Path) -> int:
    """How many files of finished parts there are in a folder, and in those within."""
    return len(list(path.glob("**/runs/[0-9a-f]*-*.parquet")))


def read_table(path: Path, missing: str) -> pl.DataFrame:
    """The table in a Parquet file; a ValueError if it is not there, for the reason given, or damaged."""
    try:
        return pl.read_parquet(path)
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: {missing}") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise damaged(path, f"cannot be read ({error})") from None


def damaged(path: Path, why: str) -> ValueError:
    """The error that names a file with something wrong in it, and says what to do."""
    return ValueError(f"{path} {why}; remove it to have it done again")


def write_table(path: Path, frame: pl.DataFrame) -> None:
    """Write a table as CSV or Parquet, as the name of the file ends, in one step."""
    content = BytesIO()  # a full disk is then an OSError
    if path.suffix == ".csv":
        frame.write_csv(content)
    else:
        frame.write_parquet(content)
    write_whole(path, lambda part: part.write_bytes(content.getbuffer()))


def _holds_manifest(path: Path) -> bool:
    """Whether results are there already; a ValueError if something else is."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file: results need a folder")
    if not str(path).isprintable():
        raise ValueError(f"{str(path)!r}: the name of the folder must be printable text in UTF-8")
    remove_leftovers(path)
    if (path / "manifest.json").exists():
        return True
    if path.exists() and any(path.iterdir()):
        raise ValueError(f"{path} is not empty and holds no manifest.json; choose another folder")
    return False


def _grown(path: Path, manifest: dict[str, Any], old: dict[str, Any], more: Sequence[str]) -> dict[str, Any]:
    """A manifest with what earlier ones say in the fields that only grow; the old one, if it has none."""
    if not more:
        return old
    for name in more:
        if not isinstance(old.get(name), dict):
            raise ValueError(f"{path / 'manifest.json'} does not say what its {name} are; choose another folder")
    return {**manifest, **{name: dict(sorted({**old[name], **manifest[name]}.items())) for name in more}}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes when a manifest is written anew; None if there is none."""
    try:
        found = (path / "manifest.json").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
