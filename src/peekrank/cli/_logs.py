"""Logs that commands read: files, folders, and the log of a service."""

from __future__ import annotations

import weakref
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Annotated

import typer

from peekrank._util.extras import extra
from peekrank._util.text import pluralize
from peekrank.cli._errors import print_error

if TYPE_CHECKING:
    from peekrank.evaluation.sources import LogSource
    from peekrank.service.core.export_folder import Exported

LogArgument = Annotated[
    str,
    typer.Argument(
        help="Log: Parquet, JSON lines, a folder or quoted pattern of such files, the log of a service (SQLite or "
        "postgresql://...), Vowpal Wabbit's .dsjson or Open Bandit's .csv."
    ),
]
SlotOption = Annotated[
    str | None,
    typer.Option("--slot", help="Slot to read, if the log has several.", show_default="the only one"),
]
_SQLITE = b"SQLite format 3\0"


def open_named_log(where: str, slot: str | None = None) -> LogSource:
    """Open the log that an argument names."""
    from peekrank.evaluation.interop import read_dsjson, read_open_bandit
    from peekrank.evaluation.sources import MemorySource, open_source

    path = Path(where)
    if is_service_log(where):
        return _open_service_log(where, slot)
    if path.suffix == ".dsjson":
        return MemorySource(path.name, read_dsjson(path))
    return MemorySource(path.name, read_open_bandit(path)) if path.suffix == ".csv" else open_source(path, slot)


def is_service_log(where: str) -> bool:
    """Whether an argument names the log of a service: an address, or a file of SQLite."""
    if "://" in where:
        return True
    path = Path(where)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def is_lines(where: str) -> bool:
    """Whether an argument names one file of JSON lines."""
    path = Path(where)
    return path.is_file() and path.suffix not in (".parquet", ".dsjson", ".csv") and not is_service_log(where)


def _open_service_log(where: str, slot: str | None) -> LogSource:
    """Read the log of a service through temporary files, which end with the process."""
    from peekrank.evaluation.sources import open_source

    with extra("serve"):
        from peekrank.service.core.export_folder import export_to_folder
        from peekrank.service.event_log.open import open_log

    store = open_log(where, None if slot is None else [slot])
    try:
        slots = sorted(store.heads())
        if slot is None and len(slots) != 1:
            raise ValueError(
                f"the log has {pluralize(len(slots), 'slot')} ({', '.join(slots)}); choose one with --slot"
            )
        chosen = slot or slots[0]
        folder = Path(mkdtemp(prefix="peekrank-"), chosen)
        try:
            done = export_to_folder(store, chosen, folder)
            note_export(done)
            if not done.decisions:
                raise ValueError(f"slot '{chosen}' has no decision with final feedback yet")
            source = open_source(folder)
        except BaseException:
            rmtree(folder.parent)
            raise
    finally:
        store.close()
    weakref.finalize(source, rmtree, folder.parent)
    return source


def note_export(done: Exported) -> None:
    """Describe the decisions that an export left out."""
    if done.missing:
        first, last = done.missing
        print_error(
            f"records {first:,} to {last:,} of the log were deleted before they were exported, with the decisions "
            "in them; export more often, or raise 'retention'",
            "note: ",
        )
    if done.waiting:
        print_error(
            f"{pluralize(done.waiting, 'decision')} left out: feedback on them, or on earlier ones, is not final",
            "note: ",
        )
