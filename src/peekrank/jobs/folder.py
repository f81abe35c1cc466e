"""Manifests: what a folder of results holds, and of which code, so that nothing else is ever mixed with it."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from peekrank import __version__
from peekrank._jit import sources
from peekrank._util.atomic import remove_leftovers, write_whole

FORMAT = 2


def versions() -> dict[str, str]:
    """Of the packages that results depend on."""
    return {"peekrank": __version__, **{name: version(name) for name in ("numpy", "numba", "scipy")}}


def claim(
    folder: Path, kind: str, about: Mapping[str, Any], *, begun: bool, parts: Sequence[str] = ()
) -> dict[str, Any]:
    """Make sure that a folder is for these results: its manifest.

    A folder where nothing is finished yet may be taken over by others of its kind.

    Parameters
    ----------
    folder
        Where results are, or will be.
    kind
        What they are results of: the field of the manifest that describes it.
    about
        The manifest, but for what is the same for all kinds.
    begun
        Whether something is finished there.
    parts
        Fields that describe data.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     claim(Path(folder) / "new", "study", {"study": {"runs": 5}}, begun=False)["study"]
    {'runs': 5}
    """
    manifest: dict[str, Any] = {
        "format": FORMAT,
        **json.loads(json.dumps(about)),
        "versions": versions(),
        "sources": sources(),
        "python": platform.python_version(),
    }
    if holds_manifest(folder):
        old = manifest_of(folder, kind)
        if begun:
            check_same(folder, kind, manifest, parts)
            return old
    write_manifest(folder, manifest)
    return manifest


def check_same(folder: Path, kind: str, manifest: dict[str, Any], parts: Sequence[str] = ()) -> None:
    """Refuse a folder whose manifest is, or has become, that of other results, data (`parts`) or code."""
    old = manifest_of(folder, kind)
    differ = [name for name in manifest[kind] if old[kind].get(name) != manifest[kind][name]]
    for part in parts:
        was, now = old.get(part) or {}, manifest[part] or {}
        differ += [f"{name} of the {part}" for name in {**was, **now} if was.get(name) != now.get(name)]
    was, now = old.get("own") or {}, manifest.get("own") or {}
    differ += [f"code of {name}" for name in {**was, **now} if was.get(name) != now.get(name)]
    code = {"versions": "versions of packages", "sources": "code of peekrank"}
    differ += [what for name, what in code.items() if not differ and old.get(name) != manifest[name]]
    if differ:
        raise ValueError(
            f"{folder} holds results of another {kind}, with different {', '.join(differ)}; choose another folder"
        )


def holds_manifest(folder: Path, name: str = "manifest.json") -> bool:
    """Whether results are there already, with a manifest of this name; a ValueError if something else is."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: results need a folder")
    if not str(folder).isprintable():
        raise ValueError(f"{str(folder)!r}: the name of the folder must be printable text in UTF-8")
    remove_leftovers(folder)
    if (folder / name).exists():
        return True
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no {name}; choose another folder")
    return False


def manifest_of(folder: Path, kind: str) -> dict[str, Any]:
    """The manifest of a folder, which must be one of this kind."""
    manifest = read_manifest(folder)
    if not isinstance(manifest.get(kind), dict):
        raise ValueError(f"{folder / 'manifest.json'} describes no {kind}; choose another folder")
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder, of whatever kind."""
    path = folder / "manifest.json"
    try:
        manifest: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"{folder} holds no manifest.json: it is not a folder of results") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if type(manifest) is not dict or manifest.get("format") != FORMAT:
        raise ValueError(f"{path} is not a manifest of format {FORMAT}")
    return manifest


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest, in one step."""
    write_whole(folder / "manifest.json", lambda path: path.write_text(json.dumps(manifest, indent=2) + "\n"))


def finished(folder: Path) -> int:
    """How many runs are finished in a folder."""
    return len(list((folder / "runs").glob("[0-9]*.parquet")))
