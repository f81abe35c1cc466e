"""``peekrank audit``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from peekrank.cli._options import Imports, import_all
from peekrank.cli._outputs import say


def command(
    log: Annotated[str, typer.Argument(help="The log of a service: its SQLite file, or postgresql://...")],
    slot: Annotated[list[str] | None, typer.Option(help="A slot to audit.", show_default="all")] = None,
    imports: Imports = None,
) -> None:
    """Fold the log of a service anew, and say whether it comes to what the service had, bit for bit.

    The service may be running. Ends with code 1 if anything differs.
    """
    from peekrank.service.audit import audited
    from peekrank.service.log.open import existing_log

    import_all(imports)
    store = existing_log(log, slot)
    passed = True
    for audit in audited(store, slot):
        say(Text(str(audit)))
        passed &= audit.passed
    store.close()
    if not passed:
        raise typer.Exit(1)
