"""Resumable results folders. They store finished parts, and hold the results of one definition only.

Experiments, sweeps, studies, trainings and reproductions use the same layout. ``manifest.json`` describes the
results and the code that made them. ``runs/`` has a Parquet file for each finished part; its name begins with a
digest of everything that determines its content. ``timings.csv`` has the durations of the parts, so that all other
files are reproducible byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from peekrank import __version__
from peekrank._util.atomic import check_no_link, remove_leftovers, write_whole
from peekrank._util.code_digest import code_digest
from peekrank._util.extras import extra
from peekrank._util.fork import check_polars
from peekrank._util.text import excerpt, shown
from peekrank._util.untrusted_files import read_whole
from peekrank._util.untrusted_json import read_json
from peekrank.jobs.csv_text import csv_text
from peekrank.jobs.parquet import UnreadableError, read_parquet
from peekrank.registry import modules_of, origins

with extra("cli"):
    import polars as pl

FORMAT = 3
_CODE = {"versions": "versions of packages", "sources": "code of peekrank"}
_TIMINGS = "timings.csv"
_DIGEST = re.compile("[0-9a-f]{32}")  # names of files begin with it
_MAX_MANIFEST = 1 << 26  # bytes
_TABLES = ("versions", "own")  # fields of a manifest that are objects in every kind
_MAX_PARTS = 10**6
_MAX_WHY = 160  # characters of a reason
OURS = ("manifest.json", _TIMINGS)  # files of a folder that hold no results


@cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that results depend on."""
    return {"peekrank": __version__, **{name: version(name) for name in ("numpy", "numba", "scipy")}}


Validator = Callable[[str, pl.DataFrame], bool]


class Code(NamedTuple):
    """The code that results depend on. It excludes, for example, the command line and the reports.

    `own` holds the classes from outside this package, with digests of their code.
    """

    versions: dict[str, str]
    sources: str
    own: dict[str, str]

    @classmethod
    def of(cls, *modules: str, values: Iterable[object] = ()) -> Code:
        """Collect the code of modules, of the classes of values such as learners, and of everything they import.

        >>> Code.of("peekrank.regret") == Code.of("peekrank.regret", "peekrank.types")
        True
        """
        objects = tuple(values)
        return cls(versions(), code_digest(*modules, *sorted(modules_of(*objects))), origins(*objects))


class ResultsDir:
    """A folder for the results of one definition, such as an experiment.

    Two processes may compute the same results in it at the same time, because they write the same bytes.

    Parameters
    ----------
    path
        Path of the folder.
    kind
        Kind of the results, such as ``experiment``. The manifest describes them in the field of this name.
    manifest
        The manifest.
    identity
        The fields that distinguish these results from others of the same kind.
    """

    def __init__(self, path: Path, kind: str, manifest: dict[str, Any], identity: _Identity) -> None:
        self.path, self.kind, self.manifest = path, kind, manifest
        self._identity = identity
        self._manifest_stamp = _stamp(path)

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
        """Create a results folder, or open an existing one with the same results.

        Raises ValueError if the folder holds results of another definition, of other data or of other code. If no
        part is finished yet, the new definition replaces the old one.

        Parameters
        ----------
        path
            Path of the folder.
        kind
            Kind of the results, such as ``experiment``. The manifest describes them in the field of this name.
        about
            The manifest, except for the fields that all kinds share.
        code
            The code that makes the results. None if it may change, because the names of the parts depend on it.
        data
            Fields of `about` that describe data.
        by
            Fields of the description that must be equal; None for all of them.
        more
            Fields of the manifest that map names to values and only grow.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as tmp:
        ...     folder = ResultsDir.create(Path(tmp) / "new", "study", {"study": {"runs": 5}}, code=None)
        ...     folder.save("all", pl.DataFrame({"regret": [1.0]}), seconds=0.5)
        ...     folder.read_finished(["all", "more"], lambda *_: True).keys(), folder.seconds()
        (dict_keys(['all']), {'all': 0.5})
        """
        fields = json.loads(json.dumps({**about, **(code._asdict() if code else {}), **(more or {})}))
        names = tuple(fields[kind] if by is None else by)
        identity = _Identity.of(fields, kind, names, tuple(data), Code._fields if code else ())
        manifest = {"format": FORMAT, **fields, "digest": identity.digest, "python": platform.python_version()}
        if _holds_manifest(path):
            old = read_manifest_of_kind(path, kind)
            if count_finished(path):
                identity.check(path, old)
                manifest = _merge_growing(path, manifest, old, tuple(more or ()))
            if manifest == old:
                return cls(path, kind, manifest, identity)
        text = json.dumps(manifest, indent=2) + "\n"
        write_whole(path / "manifest.json", lambda part: part.write_text(text))
        return cls(path, kind, manifest, identity)

    @classmethod
    def open(cls, path: Path, kind: str) -> ResultsDir:
        """Open an existing folder for reading. Raises ValueError if it holds no results of this kind."""
        manifest = read_manifest_of_kind(path, kind)
        if not _DIGEST.fullmatch(str(manifest.get("digest"))):
            raise ValueError(f"{path / 'manifest.json'} has no valid digest; choose another folder")
        return cls(path, kind, manifest, _Identity(kind, {}, {}, {}, manifest["digest"]))

    @contextmanager
    def described(self) -> Iterator[None]:
        """Raise ValueError that names the manifest if its description, used in this block, is not valid."""
        try:
            yield
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            why = excerpt(str(error), _MAX_WHY)
            raise ValueError(f"{self.path / 'manifest.json'} does not describe any {self.kind}: {why}") from None

    def file(self, part: str) -> Path:
        """Return the path of the file of a part."""
        return self.path / "runs" / f"{self._identity.digest}-{part}.parquet"

    def read(self, part: str, is_valid: Validator) -> pl.DataFrame:
        """Read a finished part. Raises ValueError if it is missing, damaged or not valid."""
        frame = read_table(self.file(part), f"the {self.kind} is not finished")
        if not is_valid(part, frame):
            raise damaged_file(self.file(part), f"does not belong to this {self.kind}")
        return frame

    def read_finished(self, parts: Iterable[str], is_valid: Validator) -> dict[str, pl.DataFrame]:
        """Read those of the given parts that are finished. Raises ValueError as `read` does."""
        return {part: self.read(part, is_valid) for part in parts if self.file(part).exists()}

    def save(self, part: str, frame: pl.DataFrame, seconds: float) -> None:
        """Write a finished part atomically, and record its duration."""
        self.write(self.file(part).stem, frame)
        self.add_timings({part: seconds})

    def write(self, name: str, frame: pl.DataFrame) -> None:
        """Write a file of parts by its full name, after `check`."""
        check_polars()
        self.check()
        content = BytesIO()  # so that a full disk is an OSError
        frame.write_parquet(content, compression="lz4", statistics=False)
        write_whole(self.path / "runs" / f"{name}.parquet", lambda path: path.write_bytes(content.getbuffer()))

    def check(self) -> None:
        """Raise ValueError if the folder was removed, or now belongs to other results."""
        stamp = _stamp(self.path)
        if stamp is None:
            raise ValueError(
                f"{self.path} or its manifest.json was removed during the computation; run the same command again"
            )
        if stamp != self._manifest_stamp:
            self._identity.check(self.path, read_manifest_of_kind(self.path, self.kind))
            self._manifest_stamp = stamp

    def add_timings(self, durations: Mapping[str, float]) -> None:
        """Append the durations of parts, in seconds, to the timings."""
        with (self.path / _TIMINGS).open("a", encoding="utf-8") as file:
            head = "" if file.tell() else "part,seconds\n"
            file.write(head + "".join(f"{part},{seconds:.6g}\n" for part, seconds in durations.items()))

    def seconds(self) -> dict[str, float]:
        """Return the known durations of parts in seconds. Skips a line that a killed process left incomplete."""
        durations: dict[str, float] = {}
        path = self.path / _TIMINGS
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        for line in text.split("\n")[:-1]:  # without the text after the last newline
            part, _, seconds = line.partition(",")
            with suppress(ValueError):
                durations[part] = float(seconds)
        return durations

    @contextmanager
    def resumable(self) -> Iterator[None]:
        """Add a note to disk errors: finished results are saved, and the same command continues."""
        try:
            yield
        except OSError as error:
            if not isinstance(error, ConnectionError):
                error.add_note(f"finished results are in {self.path}; run the same command again to resume")
            raise


class _Identity(NamedTuple):
    """The fields that distinguish results from others of the same kind, and their digest."""

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
        return cls(kind, *parts, json_digest([kind, *parts]))

    def check(self, path: Path, old: dict[str, Any]) -> None:
        """Raise ValueError if a manifest describes other results, data or code."""
        description = old[self.kind]
        differences = [name for name, value in self.description.items() if description.get(name) != value]
        for part, new in self.data.items():
            before = old.get(part) or {}
            changed = [name for name in {**before, **new} if before.get(name) != new.get(name)]
            differences += [f"{name} of the {part}" for name in changed]
        own, before = self.code.get("own") or {}, old.get("own") or {}
        differences += [f"code of {name}" for name in {**before, **own} if before.get(name) != own.get(name)]
        if not differences:
            differences += [_CODE[name] for name in _CODE if old.get(name) != self.code.get(name, old.get(name))]
        if differences:
            raise ValueError(
                f"{path} holds results of another {self.kind}, with different {', '.join(differences)}; "
                "choose another folder"
            )


def check_parts(number: int) -> None:
    """Raise ValueError if a manifest asks for more parts than a folder can have."""
    if number > _MAX_PARTS:
        raise ValueError(f"it has {shown(number)} parts: must be at most {_MAX_PARTS:,}")


def median_seconds(durations: Mapping[str, float], parts: Iterable[str]) -> float:
    """Return the median duration of the parts whose duration is known, or NaN if there are none.

    >>> median_seconds({"0": 1.0, "2": 3.0}, ["0", "1", "2"])
    2.0
    """
    known = [durations[part] for part in parts if part in durations]
    return median(known) if known else math.nan


def json_digest(value: Any) -> str:
    """Compute the digest of a JSON value, independent of the order of keys.

    >>> json_digest({"a": 1, "b": 2}) == json_digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def read_manifest_of_kind(path: Path, kind: str) -> dict[str, Any]:
    """Read the manifest of a folder. Raises ValueError if it describes results of another kind."""
    manifest = read_manifest(path)
    if not isinstance(manifest.get(kind), dict):
        raise ValueError(f"{path / 'manifest.json'} does not describe any {kind}; choose another folder")
    return manifest


def read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest of a folder of any kind. Raises ValueError if there is none, or if it cannot be read."""
    file = path / "manifest.json"
    try:
        manifest: dict[str, Any] = read_json(read_whole(file, _MAX_MANIFEST))
    except FileNotFoundError:
        raise ValueError(f"{path} has no manifest.json: it is not a results folder") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read: {excerpt(str(error), _MAX_WHY)}") from None
    if type(manifest) is not dict or not all(type(manifest.get(name, {})) is dict for name in _TABLES):
        raise ValueError(f"{file} is not a manifest of format {FORMAT}")
    written = manifest.get("format")
    if type(written) is int and written < FORMAT:
        raise ValueError(
            f"{file} has format {written} of an earlier peekrank, but this one needs format {FORMAT}; "
            "compute the results again in another folder"
        )
    if written != FORMAT:
        raise ValueError(f"{file} is not a manifest of format {FORMAT}")
    return manifest


def count_finished(path: Path) -> int:
    """Count the files of finished parts in a folder and its subfolders."""
    return len(list(path.glob("**/runs/[0-9a-f]*-*.parquet")))


def read_table(path: Path, missing: str) -> pl.DataFrame:
    """Read a Parquet file. Raises ValueError if it is damaged, or if it is missing, for the reason `missing`."""
    try:
        return read_parquet(path)
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: {missing}") from None
    except UnreadableError as error:
        raise damaged_file(path, f"cannot be read: it {error}") from None


def damaged_file(path: Path, reason: str) -> ValueError:
    """Make the error for a damaged file."""
    return ValueError(f"{path} {reason}; remove the file to compute it again")


def write_table(path: Path, frame: pl.DataFrame) -> None:
    """Write a table atomically, as CSV or Parquet depending on the suffix of the file."""
    content = BytesIO()  # so that a full disk is an OSError
    if path.suffix == ".csv":
        content.write(csv_text(frame).encode())
    else:
        frame.write_parquet(content)
    write_whole(path, lambda part: part.write_bytes(content.getbuffer()))


def _holds_manifest(path: Path) -> bool:
    """Return whether a folder holds results already. Raises ValueError if it cannot be used for results."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file, but results need a folder")
    if not str(path).isprintable():
        raise ValueError(f"{str(path)!r}: the name of the folder must be printable text in UTF-8")
    inside = [*path.iterdir()] if path.exists() else []
    for each in inside:
        check_no_link(each)  # somebody else's folder must not lead to files outside of it
    remove_leftovers(path)
    if (path / "manifest.json").exists():
        return True
    if any(path.iterdir() if inside else ()):
        raise ValueError(f"{path} is not empty and has no manifest.json; choose another folder")
    return False


def _merge_growing(
    path: Path, manifest: dict[str, Any], old: dict[str, Any], more: Sequence[str]
) -> dict[str, Any]:
    """Merge the growing fields of the old manifest into the new one. Returns the old one if there are none."""
    if not more:
        return old
    for name in more:
        if not isinstance(old.get(name), dict):
            raise ValueError(f"{path / 'manifest.json'} has no field {name}; choose another folder")
    return {**manifest, **{name: dict(sorted({**old[name], **manifest[name]}.items())) for name in more}}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return a value that changes whenever the manifest is rewritten, or None if there is no manifest."""
    try:
        status = (path / "manifest.json").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
