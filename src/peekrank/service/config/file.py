"""TOML files with line numbers: errors give the line, the field and the closest valid name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

from peekrank._util.text import excerpt
from peekrank._util.untrusted_files import read_text
from peekrank._util.untrusted_toml import TOMLError, parse_toml
from peekrank.spec import suggest

_HEADER = re.compile(r"\s*\[(\[)?\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")

_SECRETS = (
    "url",
    "hash",
    "upstream",
    "upstream_key",
)  # fields whose content may be a password or, by mistake, a key
_MAX_PATH = 200  # characters of a field in an error

FieldPath = tuple[str | int, ...]  # names of tables, indices into lists, and the name of a field


class Document:
    r"""A TOML document with the line of each field.

    Parameters
    ----------
    text
        The text.
    name
        Name of the document, for error messages.

    >>> document = Document("[slots.home]\nk = 3", "service.toml")
    >>> document.content
    {'slots': {'home': {'k': 3}}}
    >>> document.fail(("slots", "home", "k"), "must be 1")
    Traceback (most recent call last):
    ValueError: service.toml, line 2: slots.home.k = 3: must be 1
    """

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        try:
            self.content = parse_toml(text)
        except TOMLError as error:
            where = f"{name}, line {error.line}: this is not TOML" if error.line else name
            raise ValueError(f"{where}: {error}") from None
        self._lines = _lines(text)

    def get(self, path: FieldPath, default: Any = None) -> Any:
        """Return the value at a path, or the default."""
        value: Any = self.content
        for part in path:
            exists = part < len(value) if isinstance(part, int) else part in value
            if not exists:
                return default
            value = value[part]
        return value

    def fail(self, path: FieldPath, reason: str) -> NoReturn:
        """Raise ValueError about a field or a table."""
        value = self.get(path)
        is_hidden = value is None or isinstance(value, dict) or path[-1] in _SECRETS
        text = "" if is_hidden else f" = {excerpt(repr(value))}"
        raise ValueError(f"{self._where(path)}{excerpt(_dotted(path), _MAX_PATH)}{text}: {reason}")

    def check_names(self, path: FieldPath, known: Collection[str]) -> None:
        """Raise ValueError if a table has an unknown field or subtable."""
        for name in self.get(path):
            if name not in known:
                field = (*path, name)
                raise ValueError(
                    f"{self._where(field)}unknown field {excerpt(_dotted(field))}: {suggest(name, known)}"
                )

    def _where(self, path: FieldPath) -> str:
        for end in range(len(path), 0, -1):
            if path[:end] in self._lines:
                return f"{self.name}, line {self._lines[path[:end]]}: "
        return f"{self.name}: "


def read_document(path: Path) -> Document:
    """Read a TOML file. Raises ValueError if it cannot be read."""
    try:
        return Document(read_text(path), str(path))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} cannot be read: byte {error.start} is not UTF-8") from None


def _dotted(path: FieldPath) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _lines(text: str) -> dict[FieldPath, int]:
    """Find the line of each table and field. Fields in inline tables have no line of their own."""
    lines: dict[FieldPath, int] = {}
    table: FieldPath = ()
    counts: Counter[FieldPath] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _parts(header[2])
            if header[1]:
                counts[table] += 1
                table = (*table, counts[table] - 1)
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_parts(key[1])), number)
    return lines


def _parts(dotted: str) -> FieldPath:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))
