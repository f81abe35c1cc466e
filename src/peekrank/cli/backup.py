"""``peekrank backup``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from peekrank.cli._options import Quiet
from peekrank.cli._outputs import check_outputs, say
from peekrank.cli._voice import speak

EXAMPLES = """\
# Copy the log while the service runs.
peekrank backup peekrank.db monday.db"""


def command(
    log: Annotated[Path, typer.Argument(help="The log of a service: its SQLite file.")],
    out: Annotated[Path, typer.Argument(help="The file to write.")],
    quiet: Quiet = False,
) -> None:
    """Copy the log of a service to another file, while the service runs.

    A log in PostgreSQL is backed up with its database, by `pg_dump` for instance.

    The copy is a log like any other: to restore it, put it in the place of the one that was lost.
    """
    from peekrank.service.event_log.sqlite import SQLiteStore

    speak(quiet=quiet)
    check_outputs(out, read=[log])
    store = SQLiteStore(log)
    store.slots()  # says so if it is no log
    store.backup(out)
    store.close()
    say(Text(f"Written to {out}"))
