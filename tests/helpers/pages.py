"""Pages that are followed as a reader would: their blocks, and what their scripts print."""

from __future__ import annotations

import doctest
import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```(console|python|text|toml)\n(.*?)^```$", re.M | re.S)
_LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page: Path) -> list[tuple[str, str]]:
    """The blocks of a page, each with its kind."""
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def commands(console: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what it prints; a line that ends with a backslash goes on."""
    parts = re.split(r"^\$ ", console.replace("\\\n", ""), flags=re.M)[1:]
    return [(line, printed) for line, _, printed in (part.partition("\n") for part in parts)]


def is_like(expected: str, printed: str) -> bool:
    """Whether this was printed, where ... stands for anything, and any blanks for others."""
    return doctest.OutputChecker().check_output(expected, printed, _LIKE)


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
