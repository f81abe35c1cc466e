"""``peekrank log export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from peekrank._util.extras import extra
from peekrank._util.text import pluralize
from peekrank.cli._options import Imports, Quiet, import_all
from peekrank.cli._outputs import check_outputs, echo
from peekrank.cli._verbosity import configure_output

EXAMPLES = """\
# Write the decisions of a slot for peekrank evaluate.
peekrank log export peekrank.db home home.parquet"""


def command(
    log: Annotated[str, typer.Argument(help="Log of the service: its SQLite file or postgresql://...")],
    slot: Annotated[str, typer.Argument(help="Slot whose decisions to write.")],
    out: Annotated[Path, typer.Argument(help="File to write: .parquet or JSON lines.")],
    quiet: Quiet = False,
    imports: Imports = None,
) -> None:
    """Write the decisions of a slot to a file for `peekrank evaluate`.

    Each decision has its propensities and the feedback that arrived in time.
    """
    from peekrank.evaluation.log import write_log

    with extra("serve"):
        from peekrank.service.core.export import export_log
        from peekrank.service.event_log.open import open_log

    import_all(imports)
    configure_output(quiet=quiet)
    check_outputs(out, read=[Path(log)])
    store = open_log(log, [slot])
    decisions = export_log(store, slot)
    store.close()
    write_log(out, decisions)
    echo(Text(f"Wrote {pluralize(len(decisions.k), 'decision')} to {out}"))
