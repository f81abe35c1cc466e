"""Write docs/commands.md, the reference of the command line, from what the commands say of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from peekrank.cli._help import explained
from peekrank.cli.app import COMMANDS, command_module, command_named

PAGE = Path(__file__).parent.parent / "docs" / "commands.md"
_PURPOSE = """\
What `peekrank COMMAND --help` says, for all commands; `peekrank` alone lists them. A command ends with
one of these codes:

| code | when |
|---|---|
| 0 | all is well |
| 1 | `log audit` found something that differs |
| 2 | an error in what the command was given, or in what it found there; it is named on standard error |
| 130 | Ctrl-C |
| 141 | nobody reads on, as when `head` has enough |

Answers go to standard output; progress, notes and errors go to standard error. For scripts, `--json FILE` writes
the answer as one JSON object, with the keys listed below; `--json -` prints the object instead of the text. What
is unknown or not finite is `null`. `--quiet` prints neither answer nor progress."""


def reference() -> str:
    """The whole page."""
    overview = [(f"[`{name}`](#peekrank-{name.replace(' ', '-')})", line) for name, line in COMMANDS.items()]
    parts = [
        "# Commands",
        "<!-- Written by scripts/commands.py; make commands writes it anew. -->",
        _PURPOSE,
        _table(("command", "what it does"), overview),
        *(part for name in COMMANDS for part in _section(name, command_named(name))),
    ]
    return "\n\n".join(parts) + "\n"


def _section(name: str, command: Any) -> list[str]:
    """Heading, purpose, usage, examples, a table of arguments and options, and one of the keys of the JSON."""
    context = typer.Context(command, info_name=f"peekrank {name}")
    usage = " ".join([f"peekrank {name}", *command.collect_usage_pieces(context)])
    parameters = [one for one in command.get_params(context) if one.name != "help"]
    rows = [(f"`{spelled}`", what, default) for spelled, what, default in map(explained, parameters)]
    keys = getattr(command_module(name), "JSON_KEYS", {})
    named = [(", ".join(f"`{key}`" for key in some.split(", ")), what) for some, what in keys.items()]
    return [
        f"## peekrank {name}",
        command.help,
        f"```text\n{usage}\n```",
        "```sh\n" + "\n".join(command.examples) + "\n```",
        *([_table(("argument or option", "what", "default"), rows)] if rows else []),
        *([_table(("key of the JSON", "what"), named)] if named else []),
    ]


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    # a bar would end the cell, and dialects of Markdown differ in how to write it
    lines = [" | ".join(cell.replace("|", " or ") for cell in row) for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {line} |" for line in lines)])


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
