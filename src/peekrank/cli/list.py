"""``peekrank list``."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from peekrank.cli._options import Imports, import_all
from peekrank.cli._outputs import say
from peekrank.registry import KINDS


def command(imports: Imports = None) -> None:
    """List the learners, measures, surrogates and streams, with what each is."""
    import_all(imports)
    for kind in KINDS:
        table = Table(kind.kind, "what it is", box=None, pad_edge=False)
        for name, cls in kind.items():
            table.add_row(name, escape((cls.__doc__ or "").splitlines()[0]))
        say(table, "")
