"""``peekrank log audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from peekrank._util.extras import extra
from peekrank.cli._options import Imports, JsonFile, Quiet, import_all
from peekrank.cli._outputs import check_outputs, echo, write_json
from peekrank.cli._verbosity import configure_output

EXAMPLES = """\
# Check that the log gives the state that the service had.
peekrank log audit peekrank.db"""
JSON_KEYS = {
    "slots": "for each slot: slot, first, last, equal, different, rankings, machines, passed",
}


def command(
    log: Annotated[str, typer.Argument(help="Log of the service: its SQLite file or postgresql://...")],
    slot: Annotated[
        list[str] | None, typer.Option(help="Audit this slot only. Can be repeated.", show_default="all")
    ] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    imports: Imports = None,
) -> None:
    """Rebuild a service's state from its log, and check that it is identical.

    The service may be running. The exit code is 1 if anything differs.
    """
    with extra("serve"):
        from peekrank.service.core.audit import audit_slots
        from peekrank.service.event_log.open import open_log

    import_all(imports)
    configure_output(json_file, quiet=quiet)
    check_outputs(json_file, read=[Path(log)])
    store = open_log(log, slot)
    audits = []
    for audit in audit_slots(store, slot):
        echo(Text(str(audit)))
        audits.append(audit)
    store.close()
    write_json(json_file, {"slots": [{**audit._asdict(), "passed": audit.passed} for audit in audits]})
    if not all(audit.passed for audit in audits):
        raise typer.Exit(1)
