"""TOML files as people write them: what is wrong is told with its line, its field and the nearest name."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

from peekrank._util.text import excerpt
from peekrank.spec import nearest

_HEADER = re.compile(r"\s*\[(\[)?\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_LINE = re.compile(r" \(at line (\d+), column \d+\)$| \(at end of document\)$")

Place = tuple[str | int, ...]  # names of tables, numbers of those in a list, the name of a field


class Document:
    r"""A TOML text with the lines of its fields.

    Parameters
    ----------
    text
        The text.
    name
        Where it is from, for what is said about it.

    >>> document = Document("[slots.home]\nk = 3", "service.toml")
    >>> document.content
    {'slots': {'home': {'k': 3}}}
    >>> document.refuse(("slots", "home", "k"), "must be 1")
    Traceback (most recent call last):
    ValueError: service.toml, line 2: slots.home.k = 3: must be 1
    """

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        try:
            self.content: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = _LINE.search(str(error))
            line = f", line {found[1]}" if found and found[1] else ""
            raise ValueError(f"{name}{line}: this is not TOML: {_LINE.sub('', str(error))}") from None
        self._lines = _lines(text)

    def at(self, place: Place, missing: Any = None) -> Any:
        """What is at a place, or something else if there is nothing."""
        found: Any = self.content
        for part in place:
            inside = part < len(found) if isinstance(part, int) else part in found
            if not inside:
                return missing
            found = found[part]
        return found

    def refuse(self, place: Place, why: str) -> NoReturn:
        """Raise a ValueError about a field, or about a table."""
        value = self.at(place)
        shown = "" if value is None or isinstance(value, dict) else f" = {excerpt(repr(value))}"
        raise ValueError(f"{self._where(place)}{_dotted(place)}{shown}: {why}")

    def refuse_unknown(self, place: Place, known: Collection[str]) -> None:
        """Raise a ValueError if a table has a field, or a table, that nobody knows."""
        for name in self.at(place):
            if name not in known:
                where = (*place, name)
                raise ValueError(f"{self._where(where)}there is no {_dotted(where)}: {nearest(name, known)}")

    def _where(self, place: Place) -> str:
        for end in range(len(place), 0, -1):
            if place[:end] in self._lines:
                return f"{self.name}, line {self._lines[place[:end]]}: "
        return f"{self.name}: "


def read_document(path: Path) -> Document:
    """The TOML file at a path; a ValueError if there is none that can be read."""
    try:
        return Document(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} cannot be read: byte {error.start} is not UTF-8") from None


def _dotted(place: Place) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def _lines(text: str) -> dict[Place, int]:
    """The line of each table and field, as far as they begin one: what stands within braces does not."""
    found: dict[Place, int] = {}
    tables: Place = ()
    counts: Counter[Place] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            tables = _parts(header[2])
            if header[1]:
                counts[tables] += 1
                tables = (*tables, counts[tables] - 1)
            found.setdefault(tables, number)
        elif key := _KEY.match(line):
            found.setdefault((*tables, *_parts(key[1])), number)
    return found


def _parts(dotted: str) -> Place:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))
