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
# Decisions of a slot, for peekrank evaluate.
peekrank log export peekrank.db home home.parquet"""


def command(
    log: Annotated[str, typer.Argument(help="The log of a service: its SQLite file, or postgresql://...")],
    slot: Annotated[str, typer.Argument(help="Whose decisions to write.")],
    out: Annotated[Path, typer.Argument(help="The file to write: .parquet, or JSON lines.")],
    quiet: Quiet = False,
    imports: Imports = None,
) -> None:
    """Write the decisions of a slot, with propensities and answers, to a file that can be evaluated."""
    from peekrank.evaluation.log import write_log

    with extra("serve"):
        from peekrank.service.export import exported
        from peekrank.service.log.open import existing_log

    import_all(imports)
    configure_output(quiet=quiet)
    check_outputs(out, read=[Path(log)])
    store = existing_log(log, [slot])
    found = exported(store, slot)
    store.close()
    write_log(out, found)
    echo(Text(f"{pluralize(len(found.k), 'decision')} written to {out}"))
