"""Write docs/commands.md, the reference of the command line, from what the commands say of themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer

from peekrank.cli.app import COMMANDS, command_named

PAGE = Path(__file__).parent.parent / "docs" / "commands.md"
_PURPOSE = """\
What `peekrank COMMAND --help` says, for all commands. A command ends with code 0, with 2 after an error in what it
was given, which it names, and with 130 after Ctrl-C."""
_DEFAULT = re.compile(
    r"(?P<what>.*?)(?: Default: (?P<words>.*)\.)?(?:  \[(?:default: (?P<default>.*?)|(?P<required>required))\])?",
    re.S,
)


def reference() -> str:
    """The whole page."""
    overview = [f"| [`{name}`](#peekrank-{name}) | {line} |" for name, line in COMMANDS.items()]
    parts = [
        "# Commands",
        "<!-- Written by scripts/commands.py; make commands writes it anew. -->",
        _PURPOSE,
        _table(("command", "what it does"), overview),
        *(part for name in COMMANDS for part in _section(name, command_named(name))),
    ]
    return "\n\n".join(parts) + "\n"


def _section(name: str, command: Any) -> list[str]:
    """Heading, purpose, usage, and a table of arguments and options."""
    context = typer.Context(command, info_name=f"peekrank {name}")
    usage = command.get_usage(context).removeprefix("Usage: ")
    rows = [_row(parameter, context) for parameter in command.get_params(context) if parameter.name != "help"]
    table = [_table(("argument or option", "what", "default"), rows)] if rows else []
    return [f"## peekrank {name}", command.help, f"```text\n{usage}\n```", *table]


def _row(parameter: Any, context: Any) -> str:
    spelled, text = parameter.get_help_record(context)
    said = _DEFAULT.fullmatch(text)
    assert said is not None, f"{spelled}: no help"  # noqa: S101
    default = "needed" if said["required"] else said["default"] or said["words"] or ""
    # a bar would end the cell, and dialects of Markdown differ in how to write it
    return "| " + " | ".join(cell.replace("|", " or ") for cell in (f"`{spelled}`", said["what"], default)) + " |"


def _table(head: tuple[str, ...], rows: list[str]) -> str:
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows])


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
