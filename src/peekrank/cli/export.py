"""``peekrank export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from peekrank._util.text import counted
from peekrank.cli._options import Imports, import_all
from peekrank.cli._outputs import check_outputs, say


def command(
    log: Annotated[str, typer.Argument(help="The log of a service: its SQLite file, or postgresql://...")],
    slot: Annotated[str, typer.Argument(help="The slot.")],
    out: Annotated[Path, typer.Argument(help="The file to write: .parquet, or JSON lines.")],
    imports: Imports = None,
) -> None:
    """Write what a slot of a service decided, with chances and answers, to a file that can be evaluated."""
    from peekrank.evidence.log import write_log
    from peekrank.service.export import exported
    from peekrank.service.log.open import existing_log

    import_all(imports)
    check_outputs(out, read=[Path(log)])
    store = existing_log(log, [slot])
    found = exported(store, slot)
    store.close()
    write_log(out, found)
    say(Text(f"{counted(len(found.k), 'decision')} written to {out}"))
