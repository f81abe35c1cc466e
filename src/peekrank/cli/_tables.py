"""Tables that commands show and write: by groups, as text for a terminal, and for papers and pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from peekrank.cli._outputs import write_text
from peekrank.reports.markup import Table as PaperTable
from peekrank.reports.markup import code
from peekrank.reports.numbers import chance, interval

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

_MOST_ROWS = 60  # on a terminal
_NAMES = ("folder", "stream", "data", "measure", "learner", "minus")
_LEFT = (*_NAMES, "verdict")
_TERMINAL = 80  # columns; a table that does not fit has one space less between its own
_WIDE = 20  # characters that a line about a group has in the first column, at least


class Sheet(NamedTuple):
    """A table of texts; the first columns, `group` of them, tell which group a row is of."""

    heads: list[str]
    rows: list[list[str]]
    group: int


def shown(title: str, sheet: Sheet, rest: str) -> Iterator[RenderableType]:
    """A table of what varies, for a terminal of 80 columns.

    What is the same in all rows is in its title. A line above the rows of a group tells the group.

    Parameters
    ----------
    title
        What it begins with.
    sheet
        What to show.
    rest
        Where all rows are, if these are too many.

    >>> rows = [["1", "a", "5"], ["1", "b", "7"], ["2", "a", "4"], ["2", "b", "8"]]
    >>> title, table = shown("Regret", Sheet(["k", "learner", "regret"], rows, group=1), "")
    >>> str(title), list(table.columns[0].cells)
    ('Regret, by k', ['k 1', 'a', 'b', 'k 2', 'a', 'b'])
    """
    heads, rows, group = sheet
    varies = [len({row[c] for row in rows}) > 1 for c in range(len(heads))]
    grouped = len({tuple(row[:group]) for row in rows}) < len(rows)
    same = [c for c in _sayable(sheet, grouped=grouped) if not varies[c]]
    above = [c for c in range(group) if grouped and varies[c]]
    columns = [c for c in range(len(heads)) if c not in (*same, *above)]
    parts = [title, *(f"{heads[c]} {rows[0][c]}" for c in same)]
    parts += [f"by {', '.join(heads[c] for c in above)}"] if above else []
    widths = {c: max(len(row[c]) for row in [heads, *rows]) for c in columns}
    gap = 1 if sum(widths.values()) + 2 * len(columns) < _TERMINAL else 0
    yield Text(", ".join(parts), style="italic")  # that of the table itself would be wrapped to its width
    table = Table(box=SIMPLE, padding=(0, gap, 0, 0))
    for c in columns:
        table.add_column(
            heads[c],
            justify="left" if heads[c] in _LEFT else "right",
            overflow="fold",
            no_wrap=heads[c] not in _NAMES,
            max_width=max(_WIDE, widths[c]) if above and c == columns[0] else None,
        )
    numbers = [c for c in above if heads[c] not in _NAMES]
    said = numbers if len(numbers) > 1 or above == numbers else []  # one number among names is told by the title
    told: list[str] = []
    for row in rows[:_MOST_ROWS]:
        if told != (told := [f"{heads[c]} {row[c]}" if c in said else row[c] for c in above]):
            table.add_section()
            table.add_row(escape(", ".join(told)), style="bold")
        table.add_row(*(escape(row[c]) for c in columns))
    yield table
    if len(rows) > _MOST_ROWS:
        yield Text(f"{_MOST_ROWS} of {len(rows):,} rows; {rest}.")


def _sayable(sheet: Sheet, *, grouped: bool) -> list[int]:
    """The columns that a title can tell; those of learners stay where there is nothing else to see in a row."""
    names = len(sheet.rows) > 1 and not grouped
    return [c for c, head in enumerate(sheet.heads) if c < sheet.group or (names and head in _NAMES)]


def compared(table: pl.DataFrame, group: Sequence[str]) -> Sheet:
    """What `peekrank.experiments.comparison.compare` found; `group` names the columns that tell a group.

    >>> import numpy as np
    >>> from peekrank.experiments.comparison import compare
    >>> losses = {"a": np.array([5.0, 6, 5, 7]), "b": np.array([8.0, 9, 7, 10])}
    >>> compared(compare([({"k": 1}, losses)]), ["k"]).rows
    [['1', 'a', 'b', '-2.75, -3.55..-1.95', '0.002', 'better']]
    """
    rows = [
        [
            *group_texts(row, group),
            row["learner"],
            row["other"],
            interval(row["difference"], row["low"], row["high"]),
            chance(row["adjusted"]),
            _word(row),
        ]
        for row in table.iter_rows(named=True)
    ]
    return Sheet([*group, "learner", "minus", "difference, 95 %", "adj. p", "verdict"], rows, len(group))


def group_texts(row: dict[str, Any], group: Sequence[str]) -> list[str]:
    """What tells the group of a row."""
    return [f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in group]


def _word(row: dict[str, Any]) -> str:
    """The verdict on the learner of a row, which need not name it again."""
    from peekrank.experiments.comparison import UNCLEAR

    verdict = str(row["verdict"])
    words = {f"{row['learner']} is better": "better", f"{row['other']} is better": "worse", UNCLEAR: "unclear"}
    return words.get(verdict, verdict.partition(":")[0])


def verdicts_explained(test: str, *, few: bool = False) -> Text:
    """What to read in a table of comparisons made by this test; `few`: it says somewhere that runs are too few."""
    from peekrank.experiments.comparison import LEVEL

    too_few = " Too few: even a plain difference would not show; take more." if few else ""
    return Text(
        "A verdict is on the learner, against the one after minus. It is by the adjusted p-value "
        f"({test}, Holm's correction over all rows): chance alone makes a wrong one among them with probability "
        f"{LEVEL:.0%} at most. Unclear: no difference is shown, which is not to say that there is none.{too_few} "
        "Intervals are of single rows."
    )


def write_paper(sheet: Sheet, *, latex: Path | None, markdown: Path | None) -> None:
    """Write a table as papers and pages have it, into the files that are named."""
    heads, rows, _ = sheet
    named = [[code(e) if head in _NAMES else e for head, e in zip(heads, row, strict=True)] for row in rows]
    table = PaperTable(tuple(heads), named)
    if latex:
        write_text(latex, table.latex())
    if markdown:
        write_text(markdown, "\n".join(table.markdown()))
