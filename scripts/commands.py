"""Render the reference of the command line from the commands' own help; the site has it as commands.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer

from peekrank.cli._help import explained
from peekrank.cli.app import COMMANDS, command_module, command_named

_PURPOSE = """\
This page is the output of `peekrank COMMAND --help` for all commands. `peekrank` alone lists them. A command
ends with one of these exit codes:

| code | when |
|---|---|
| 0 | success |
| 1 | the audit of a log found a difference |
| 2 | an error in the input; standard error names it |
| 130 | Ctrl-C |
| 141 | the reading end of the pipe was closed, for example by `head` |

Results go to standard output; progress, notes and errors go to standard error. For scripts, `--json FILE`
writes the result as one JSON object, with the keys listed below; `--json -` prints the object instead of the
text. A value that is unknown or not finite is `null`. `--quiet` prints neither result nor progress."""


def reference() -> str:
    """Return the whole page."""
    overview = [(f"[`{name}`](#peekrank-{name.replace(' ', '-')})", line) for name, line in COMMANDS.items()]
    parts = [
        "# Commands",
        _PURPOSE,
        _table(("command", "what it does"), overview),
        *(part for name in COMMANDS for part in _section(name, command_named(name))),
    ]
    return "\n\n".join(parts) + "\n"


def _section(name: str, command: Any) -> list[str]:
    """Render heading, purpose, usage, examples, and tables of arguments, options and JSON keys."""
    context = typer.Context(command, info_name=f"peekrank {name}")
    usage = " ".join([f"peekrank {name}", *command.collect_usage_pieces(context)])
    parameters = [one for one in command.get_params(context) if one.name != "help"]
    rows = [(f"`{spelled}`", what, default) for spelled, what, default in map(explained, parameters)]
    keys = getattr(command_module(name), "JSON_KEYS", {})
    named = [(", ".join(f"`{key}`" for key in some.split(", ")), what) for some, what in keys.items()]
    return [
        f"## peekrank {name}",
        command.help,
        f"```sh\n{usage}\n```",
        "```sh\n" + "\n".join(command.examples) + "\n```",
        *([_table(("argument or option", "what", "default"), rows)] if rows else []),
        *([_table(("JSON key", "what"), named)] if named else []),
    ]


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    # a bar would end the cell, and dialects of Markdown differ in how to write it
    lines = [" | ".join(cell.replace("|", " or ") for cell in row) for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {line} |" for line in lines)])
