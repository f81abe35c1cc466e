"""Pages that are followed as a reader would: their blocks, and what their scripts print."""

from __future__ import annotations

import doctest
import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```(console|python|sh|text|toml)\n(.*?)^```$", re.M | re.S)
_LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_RULE = re.compile(r"─+")


def blocks(page: Path) -> list[tuple[str, str]]:
    """The blocks of a page, each with its kind."""
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def commands(console: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what it prints; a line that ends with a backslash goes on."""
    parts = re.split(r"^\$ ", console.replace("\\\n", ""), flags=re.M)[1:]
    return [(line, printed) for line, _, printed in (part.partition("\n") for part in parts)]


def shell_commands(page: Path, program: str) -> list[str]:
    """The commands of the shell blocks of a page that call this program, comments included."""
    shell = "".join(content for kind, content in blocks(page) if kind == "sh").replace("\\\n", "")
    return re.findall(rf"^({program} .*)$", shell, re.M)


def is_like(expected: str, printed: str) -> bool:
    """Whether this was printed. ``...`` stands for anything, and blanks and rules may have any length."""
    return doctest.OutputChecker().check_output(_RULE.sub("─", expected), _RULE.sub("─", printed), _LIKE)


class Scripts:
    """The scripts of a page, one after the other, and what they print."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._said = ""

    def run(self, source: str) -> None:
        """Run a script that has no prompts."""
        assert not self._said, "the page does not tell what the script before this one prints"
        said = io.StringIO()
        with redirect_stdout(said):
            exec(source, self.names)  # noqa: S102 - the page's own script
        self._said = said.getvalue()

    def told(self, content: str) -> None:
        """The page tells what the script printed."""
        assert self._said == content
        self._said = ""
