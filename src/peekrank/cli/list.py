"""``peekrank list``."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from peekrank.cli._options import Imports, JsonFile, import_all
from peekrank.cli._outputs import check_outputs, echo, write_json
from peekrank.cli._verbosity import configure_output
from peekrank.registry import KINDS, Registry

EXAMPLES = """\
# List all names with a description.
peekrank list
# Print the list as JSON.
peekrank list --json -"""
JSON_KEYS = {
    "learners, measures, surrogates, streams": "lists of name and description (what)",
}


def command(json_file: JsonFile = None, imports: Imports = None) -> None:
    """List all learners, measures, surrogates and streams."""
    import_all(imports)
    configure_output(json_file)
    check_outputs(json_file)
    for kind in KINDS:
        table = Table(kind.kind, "description", box=None, pad_edge=False)
        for one in _described(kind):
            table.add_row(one["name"], escape(one["what"]))
        echo(table, "")
    write_json(json_file, lambda: {f"{kind.kind}s": _described(kind) for kind in KINDS})


def _described(kind: Registry) -> list[dict[str, Any]]:
    return [{"name": name, "what": kind.summary(name)} for name in kind]
