"""``peekrank log backup``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from peekrank._util.extras import extra
from peekrank.cli._options import Quiet
from peekrank.cli._outputs import check_outputs, echo
from peekrank.cli._verbosity import configure_output

EXAMPLES = """\
# Copy the log while the service runs.
peekrank log backup peekrank.db monday.db"""


def command(
    log: Annotated[Path, typer.Argument(help="Log of the service: its SQLite file.")],
    out: Annotated[Path, typer.Argument(help="File to write.")],
    quiet: Quiet = False,
) -> None:
    """Copy a service's log while the service runs.

    The copy is an ordinary log. To restore it, replace the lost file with it.

    A log in PostgreSQL is backed up with its database, for example by `pg_dump`.
    """
    with extra("serve"):
        from peekrank.service.event_log.sqlite import SQLiteStore

    configure_output(quiet=quiet)
    check_outputs(out, read=[log])
    store = SQLiteStore(log)
    store.heads()  # raises StoreError if the file is not a log
    store.backup(out)
    store.close()
    echo(Text(f"Wrote {out}"))
