"""Games read from files: JSON, or tables of losses and feedback."""

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
    r"""Read a game from a ``.json`` or ``.csv`` file in UTF-8; what does not fit is a ValueError with its position.

    **JSON**: an object with ``loss`` and ``feedback``, lists of rows, one per action with an entry per outcome,
    and where wanted ``actions`` and ``outcomes``, their names. Losses are numbers, taken for the decimals they are
    written as, or text such as "1/3". Symbols of feedback are text, numbers, true, false, null, or lists of these.

    **CSV**: the rows of losses, a blank line, the rows of feedback. Cells are separated by tabs if the first line
    has one, else by semicolons if it has one, else by commas.

    - The first row of losses names the outcomes if its first cell is empty, or if no cell of it is a number.
    - The first column of losses names the actions if that row has an empty first cell, or if no cell below it is a
      number.
    - The feedback may repeat the names of outcomes, of actions, or both; it then has a row or a column more.

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
        raise ValueError(f"{path.name}: {folder}a game is read from a file that ends in .json or .csv")
    try:
        text = path.read_text(encoding="utf-8-sig")
        if not text.strip():
            raise ValueError("is empty")
        return readers[path.suffix.lower()](text)
    except UnicodeDecodeError:
        raise ValueError(f"{path.name}: is not text in UTF-8") from None
    except _LineError as error:
        raise ValueError(f"{path.name}, {error}") from None
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def _json(text: str) -> Game:
    try:
        found = read_json(text, parse_float=_decimal, parse_constant=_decimal, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise _LineError(error.lineno, f"column {error.colno}: not JSON: {error.msg}") from None
    if not isinstance(found, dict):
        raise ValueError('must hold an object, {"loss": [[...]], "feedback": [[...]]}')
    for key in found:
        if key not in _KEYS:
            raise ValueError(f"unknown key '{excerpt(key)}': {suggest(key, _KEYS)}")
    for key in ("loss", "feedback"):
        rows = found.get(key)
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise ValueError(f"'{key}' must be there, a list of lists: one per action, with one entry per outcome")
    return Game.of(
        found["loss"],
        found["feedback"],
        actions=_listed(found, "actions"),
        outcomes=_listed(found, "outcomes"),
    )


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent beyond all bounds
        number = Decimal("inf")
    if not number.is_finite():
        raise ValueError(f"{excerpt(text)} is not a finite number")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _check_distinct("keys", [key for key, _ in pairs])
    return dict(pairs)


def _listed(found: dict[str, Any], key: str) -> list[str] | None:
    if key not in found:
        return None
    if not isinstance(found[key], list) or not all(isinstance(name, str | int | Decimal) for name in found[key]):
        raise ValueError(f"'{key}' must be a list of names")
    names = list(map(str, found[key]))
    _check_distinct(key, names)
    return names


def _csv(text: str) -> Game:
    losses, feedback = _blocks(text)
    line, head = losses[0]
    corner = not head[0]
    header = None if not corner and any(map(_meant_as_number, head)) else losses.pop(0)
    if not losses:
        raise _LineError(line, "names of outcomes, without losses below")
    named = corner or (len(head) > 1 and not any(_is_number(row.cells[0]) for row in losses))
    actions = [row.cells[0] for row in losses] if named else None
    outcomes = header.cells[named:] if header else None
    _check_distinct("actions", actions or [])
    _check_distinct("outcomes", outcomes or [])
    table = [[_loss(row.line, c, cell) for c, cell in enumerate(row.cells[named:], 1 + named)] for row in losses]
    shown = _shown(feedback, len(table), len(table[0]), actions, outcomes)
    return Game.of(table, shown, actions=actions, outcomes=outcomes)


def _blocks(text: str) -> tuple[list[_Row], list[_Row]]:
    """The rows before and after the blank line."""
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
            raise _LineError(row.line, f"{len(row.cells)} cells where line {first.line} has {len(first.cells)}")
        else:
            blocks[-1].append(row)
    if not blocks:
        raise ValueError("is empty")
    if len(blocks) == 1:
        raise ValueError("has no feedback: it comes after the losses and a blank line, one row per action")
    if len(blocks) > 2:
        raise _LineError(blocks[2][0].line, "a third block; a game has losses, a blank line, and feedback")
    return blocks[0], blocks[1]


def _rows(text: str) -> Iterator[_Row]:
    """Trimmed cells; empty ones at the end of a row, which spreadsheets add, are left out."""
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


def _shown(
    feedback: list[_Row], rows: int, columns: int, actions: list[str] | None, outcomes: list[str] | None
) -> list[list[str]]:
    """The symbols, without the names around them."""
    first, height, width = feedback[0], len(feedback), len(feedback[0].cells)
    if height == rows + 1 and first.cells[-columns:] == outcomes:
        feedback = feedback[1:]
    repeated = width == columns + 1 and [row.cells[0] for row in feedback] == actions
    if (len(feedback), width - repeated) != (rows, columns):
        taken = "".join(
            f"; a first {what} of losses without numbers was taken for the names of {kind}"
            for what, kind, names in (("row", "outcomes", outcomes), ("column", "actions", actions))
            if names
        )
        have = f"{height} rows of {width} cells of feedback"
        raise _LineError(first.line, f"{have} for {rows} actions and {columns} outcomes{taken}")
    for row in feedback:
        if "" in row.cells:
            raise _LineError(row.line, f"column {row.cells.index('') + 1} is empty; write - where nothing is seen")
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
    """Whether a text is a number, if a wrong one: nan, infinity and numbers that are too long are no names."""
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
