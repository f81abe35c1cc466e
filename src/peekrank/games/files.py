"""Game files: JSON, or CSV tables of losses and feedback."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from peekrank._util.text import excerpt
from peekrank._util.untrusted_files import read_text
from peekrank._util.untrusted_json import read_json
from peekrank.games.exact.numbers import rational
from peekrank.games.game import Game
from peekrank.spec import suggest

_KEYS = ("loss", "feedback", "actions", "outcomes")


class _Row(NamedTuple):
    line: int
    cells: list[str]


class _LineError(ValueError):
    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")


def read_game(path: str | PathLike[str]) -> Game:
    r"""Read a game from a UTF-8 file that ends in ``.json`` or ``.csv``.

    **JSON**: an object with ``loss`` and ``feedback``, each a list of rows, one per action with an entry per
    outcome, and optionally the names ``actions`` and ``outcomes``. Losses are decimal numbers or text such as
    "1/3". Feedback symbols are text, numbers, true, false, null, or lists of these.

    **CSV**: the rows of losses, a blank line, the rows of feedback. The separator is the tab if the first line has
    one, else the semicolon if it has one, else the comma.

    - The first row of losses names the outcomes if its first cell is empty or if none of its cells is a number.
    - The first column of losses names the actions if that row has an empty first cell or if no cell below it is a
      number.
    - The feedback may repeat the names of outcomes, actions, or both; it then has an additional row or column.

    Raises ValueError with the file and the line if the file is not a game.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "apples.csv"
    ...     _ = path.write_text(", good, rotten\n eat, 0, 1\n bin, 1/2, 0.1\n\n sweet, sour\n -, -")
    ...     game = read_game(path)
    >>> game.actions, game.outcomes, game.symbols
    (('eat', 'bin'), ('good', 'rotten'), ('sweet', 'sour', '-'))
    >>> game.loss
    array([[0. , 1. ],
           [0.5, 0.1]])
    """
    path = Path(path)
    readers = {".json": _json, ".csv": _csv}
    if path.is_dir() or path.suffix.lower() not in readers:
        folder = "is a folder; " if path.is_dir() else ""
        raise ValueError(f"{path.name}: {folder}the name of a game file must end in .json or .csv")
    try:
        text = read_text(path, "utf-8-sig")
        if not text.strip():
            raise ValueError("the file is empty")
        return readers[path.suffix.lower()](text)
    except UnicodeDecodeError:
        raise ValueError(f"{path.name}: the file is not UTF-8 text") from None
    except _LineError as error:
        raise ValueError(f"{path.name}, {error}") from None
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def _json(text: str) -> Game:
    try:
        content = read_json(text, parse_float=_decimal, parse_constant=_decimal, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise _LineError(error.lineno, f"column {error.colno}: not JSON: {error.msg}") from None
    if not isinstance(content, dict):
        raise ValueError('expected an object, {"loss": [[...]], "feedback": [[...]]}')
    for key in content:
        if key not in _KEYS:
            raise ValueError(f"unknown key '{excerpt(key)}': {suggest(key, _KEYS)}")
    for key in ("loss", "feedback"):
        rows = content.get(key)
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise ValueError(f"'{key}' must be a list of lists: one per action, with one entry per outcome")
    return Game.of(
        content["loss"],
        content["feedback"],
        actions=_names(content, "actions"),
        outcomes=_names(content, "outcomes"),
    )


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:  # the exponent is out of range
        number = Decimal("inf")
    if not number.is_finite():
        raise ValueError(f"{excerpt(text)} is not a finite number")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _check_distinct("keys", [key for key, _ in pairs])
    return dict(pairs)


def _names(content: dict[str, Any], key: str) -> list[str] | None:
    if key not in content:
        return None
    if not isinstance(content[key], list) or not all(
        isinstance(name, str | int | Decimal) for name in content[key]
    ):
        raise ValueError(f"'{key}' must be a list of names")
    names = list(map(str, content[key]))
    _check_distinct(key, names)
    return names


def _csv(text: str) -> Game:
    losses, feedback = _blocks(text)
    line, head = losses[0]
    corner = not head[0]
    header = None if not corner and any(map(_meant_as_number, head)) else losses.pop(0)
    if not losses:
        raise _LineError(line, "no losses follow the names of the outcomes")
    named = corner or (len(head) > 1 and not any(_is_number(row.cells[0]) for row in losses))
    actions = [row.cells[0] for row in losses] if named else None
    outcomes = header.cells[named:] if header else None
    _check_distinct("actions", actions or [])
    _check_distinct("outcomes", outcomes or [])
    table = [[_loss(row.line, c, cell) for c, cell in enumerate(row.cells[named:], 1 + named)] for row in losses]
    symbols = _symbols(feedback, len(table), len(table[0]), actions, outcomes)
    return Game.of(table, symbols, actions=actions, outcomes=outcomes)


def _blocks(text: str) -> tuple[list[_Row], list[_Row]]:
    """Return the rows before and after the blank line."""
    blocks: list[list[_Row]] = []
    ended = True
    for row in _rows(text):
        if not row.cells:
            ended = True
        elif ended:
            blocks.append([row])
            ended = False
        elif len(row.cells) != len(blocks[-1][0].cells):
            first = blocks[-1][0]
            raise _LineError(row.line, f"{len(row.cells)} cells, but line {first.line} has {len(first.cells)}")
        else:
            blocks[-1].append(row)
    if not blocks:
        raise ValueError("the file is empty")
    if len(blocks) == 1:
        raise ValueError(
            "the feedback is missing: after the losses, add a blank line and one row of feedback per action"
        )
    if len(blocks) > 2:
        raise _LineError(
            blocks[2][0].line, "unexpected third block; a game file has losses, a blank line, and feedback"
        )
    return blocks[0], blocks[1]


def _rows(text: str) -> Iterator[_Row]:
    """Yield rows of trimmed cells, without the empty cells that spreadsheets add at the end of a row."""
    first = next(line for line in text.split("\n") if line.strip())
    separator = next((mark for mark in "\t;" if mark in first), ",")
    table = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True, strict=True)
    try:
        for row in table:
            cells = [cell.strip() for cell in row]
            while cells and not cells[-1]:
                cells.pop()
            yield _Row(table.line_num, cells)
    except csv.Error as error:
        raise _LineError(table.line_num, f"not a row of a CSV file: {excerpt(str(error))}") from None


def _symbols(
    feedback: list[_Row], rows: int, columns: int, actions: list[str] | None, outcomes: list[str] | None
) -> list[list[str]]:
    """Return the symbols, without the names around them."""
    first, height, width = feedback[0], len(feedback), len(feedback[0].cells)
    if height == rows + 1 and first.cells[-columns:] == outcomes:
        feedback = feedback[1:]
    repeated = width == columns + 1 and [row.cells[0] for row in feedback] == actions
    if (len(feedback), width - repeated) != (rows, columns):
        hint = "".join(
            f"; the first {what} of losses has no numbers and names the {kind}"
            for what, kind, names in (("row", "outcomes", outcomes), ("column", "actions", actions))
            if names
        )
        size = f"feedback has {height} rows of {width} cells"
        raise _LineError(first.line, f"{size}, expected {rows} actions and {columns} outcomes{hint}")
    for row in feedback:
        if "" in row.cells:
            raise _LineError(
                row.line, f"column {row.cells.index('') + 1} is empty; write - if the learner sees nothing"
            )
    return [row.cells[repeated:] for row in feedback]


def _loss(line: int, column: int, cell: str) -> str:
    if not _is_number(cell):
        raise _LineError(
            line, f"column {column}: '{excerpt(cell)}' is not a finite number, such as 3, 0.25 or 1/3"
        )
    return cell


def _is_number(cell: str) -> bool:
    return _reads(rational, cell)


def _meant_as_number(cell: str) -> bool:
    """Return whether a cell is meant as a number, valid or not.

    NaN, infinity and overlong numbers are not names.
    """
    return _reads(rational, cell) or _reads(float, cell)


def _reads(read: Callable[[str], object], cell: str) -> bool:
    try:
        read(cell)
    except ValueError:
        return False
    return True


def _check_distinct(kind: str, names: list[str]) -> None:
    for name in names:
        if not name or names.count(name) > 1:
            raise ValueError(
                f"two {kind} are named '{excerpt(name)}'" if name else f"one of the {kind} has an empty name"
            )
