"""``peekrank log export``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from peekrank._util.extras import extra
from peekrank._util.text import pluralize
from peekrank.cli._logs import note_export
from peekrank.cli._options import Imports, Quiet, import_all
from peekrank.cli._outputs import check_outputs, echo
from peekrank.cli._verbosity import configure_output

EXAMPLES = """\
# Write the decisions of a slot for peekrank evaluate.
peekrank log export peekrank.db home home.parquet
# Add what is new to a folder of Parquet files, by day.
peekrank log export peekrank.db home decisions"""


def command(
    log: Annotated[str, typer.Argument(help="Log of the service: its SQLite file or postgresql://...")],
    slot: Annotated[str, typer.Argument(help="Slot whose decisions to write.")],
    out: Annotated[
        Path,
        typer.Argument(
            help="File to write, .parquet or .jsonl; or a folder, to which each export adds the decisions whose "
            "feedback is final, in files by day."
        ),
    ],
    quiet: Quiet = False,
    imports: Imports = None,
) -> None:
    """Write the decisions of a slot to a file or folder for `peekrank evaluate`.

    Each decision has its propensities and the feedback that arrived in time. A folder gets each decision once,
    even if an export is killed.
    """
    from peekrank.evaluation.log import write_log

    with extra("serve"):
        from peekrank.service.core.export import export_log
        from peekrank.service.core.export_folder import export_to_folder
        from peekrank.service.event_log.open import open_log

    import_all(imports)
    configure_output(quiet=quiet)
    as_folder = out.is_dir() or not out.suffix
    if not as_folder:
        check_outputs(out, read=[Path(log)])
    store = open_log(log, [slot])
    try:
        if as_folder:
            done = export_to_folder(store, slot, out)
            note_export(done)
            files = pluralize(done.files, "file")
            echo(Text(f"Added {pluralize(done.decisions, 'decision')} to {out}{os.sep}, in {files}"))
            return
        decisions = export_log(store, slot)
    finally:
        store.close()
    write_log(out, decisions)
    echo(Text(f"Wrote {pluralize(len(decisions.k), 'decision')} to {out}"))
