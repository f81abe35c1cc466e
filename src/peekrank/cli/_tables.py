"""Tables that commands show and write: by groups, as text for a terminal, and for papers and pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from peekrank.cli._outputs import labelled, write_text
from peekrank.reports.markup import Table as PaperTable
from peekrank.reports.markup import code
from peekrank.reports.numbers import interval, p_value_text

if TYPE_CHECKING:
    import polars as pl
    from rich.console import ConsoleOptions, RenderableType

_MOST_ROWS = 60  # on a terminal
_NAMES = ("folder", "stream", "data", "measure", "learner", "minus", "policy")
_LEFT = (*_NAMES, "verdict")
_EDGES = 2  # columns of a terminal
_NAME = 10  # characters of a name that stay in a line, at least
_WIDE = 20  # characters that a line about a group has in the first column, at least


@dataclass(frozen=True)
class TerminalTable:
    """A table that fits the terminal, however narrow: names are folded, heads broken at blanks, numbers never.

    Where that is not enough, the table is turned on its side.

    >>> table = TerminalTable("Regret", ["learner", "regret", "rounds/s"], [("", ["a", "5.25", "9k"])])
    >>> for width in (40, 20):
    ...     console = Console(width=width, color_system=None)
    ...     with console.capture() as shown:
    ...         console.print(table, highlight=False)
    ...     print([line.split() for line in shown.get().splitlines() if line.strip(" ─")])
    [['Regret'], ['learner', 'regret', 'rounds/s'], ['a', '5.25', '9k']]
    [['Regret'], ['a'], ['regret', '5.25'], ['rounds/s', '9k']]
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]  # what tells the group, and the cells
    names: Sequence[str] = _NAMES

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The table, in the form that fits."""
        yield Text(self.title, style="italic")
        for gap in (1, 0):
            room = options.max_width - _EDGES - (1 + gap) * len(self.heads)
            narrow, whole = self._narrow(), self._whole()
            if sum(narrow if gap == 0 else whole) <= room:
                widths = _filled(narrow, whole, room)
                if any(group for group, _ in self.rows):
                    widths = _filled(widths, [max(widths[0], _WIDE), *widths[1:]], room)
                yield self._upright(widths, gap)
                return
        yield from self._on_its_side()

    def _cells(self, c: int) -> int:
        """The width of the widest cell in a column."""
        return max((len(row[c]) for _, row in self.rows), default=0)

    def _whole(self) -> list[int]:
        """How wide columns are if nothing is folded."""
        return [max(self._cells(c), len(head)) for c, head in enumerate(self.heads)]

    def _narrow(self) -> list[int]:
        """How wide columns must be."""
        words = [max(map(len, head.split())) for head in self.heads]
        cells = [
            min(self._cells(c), _NAME) if h in self.names else self._cells(c) for c, h in enumerate(self.heads)
        ]
        return list(map(max, words, cells))

    def _upright(self, widths: Sequence[int], gap: int) -> Table:
        table = Table(box=SIMPLE, padding=(0, gap, 0, 0))
        for head, width in zip(self.heads, widths, strict=True):
            left = head in (*self.names, *_LEFT)
            table.add_column(head, justify="left" if left else "right", overflow="fold", width=width)
        told = ""
        for group, row in self.rows:
            if told != (told := group):
                table.add_section()
                table.add_row(escape(group), style="bold")
            table.add_row(*map(escape, row))
        return table

    def _on_its_side(self) -> Iterator[RenderableType]:
        told = ""
        for group, (first, *cells) in self.rows:
            if told != (told := group):
                yield Text(f"\n{group}", style="bold")
            yield Text(f"\n{first if self.heads[0] in self.names else f'{self.heads[0]} {first}'}")
            grid = labelled()
            for head, cell in zip(self.heads[1:], cells, strict=True):
                grid.add_row(f"  {head}", escape(cell))
            yield grid
        yield ""


def _filled(narrow: Sequence[int], whole: Sequence[int], room: int) -> list[int]:
    """Widths between the narrow and the whole ones that fill the room, the first columns first.

    >>> _filled([10, 6, 6], [18, 9, 6], 26)
    [14, 6, 6]
    """
    widths = list(narrow)
    for position, width in enumerate(whole):
        widths[position] += min(width - widths[position], room - sum(widths))
    return widths


class TextTable(NamedTuple):
    """A table of texts; the first columns, `group` of them, tell which group a row is of."""

    heads: list[str]
    rows: list[list[str]]
    group: int


def shown(title: str, sheet: TextTable, rest: str) -> Iterator[RenderableType]:
    """A table of what varies.

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
    >>> (table,) = shown("Regret", TextTable(["k", "learner", "regret"], rows, group=1), "")
    >>> table.title, table.rows
    ('Regret, by k', [('k 1', ['a', '5']), ('k 1', ['b', '7']), ('k 2', ['a', '4']), ('k 2', ['b', '8'])])
    """
    heads, rows, group = sheet
    varies = [len({row[c] for row in rows}) > 1 for c in range(len(heads))]
    grouped = len({tuple(row[:group]) for row in rows}) < len(rows)
    same = [c for c in _sayable(sheet, grouped=grouped) if not varies[c]]
    above = [c for c in range(group) if grouped and varies[c]]
    columns = [c for c in range(len(heads)) if c not in (*same, *above)]
    parts = [title, *(f"{heads[c]} {rows[0][c]}" for c in same)]
    parts += [f"by {', '.join(heads[c] for c in above)}"] if above else []
    numbers = [c for c in above if heads[c] not in _NAMES]
    said = numbers if len(numbers) > 1 or above == numbers else []  # one number among names is told by the title
    shown_rows = [
        (", ".join(f"{heads[c]} {row[c]}" if c in said else row[c] for c in above), [row[c] for c in columns])
        for row in rows[:_MOST_ROWS]
    ]
    yield TerminalTable(", ".join(parts), [heads[c] for c in columns], shown_rows)
    if len(rows) > _MOST_ROWS:
        yield Text(f"{_MOST_ROWS} of {len(rows):,} rows; {rest}.")


def _sayable(sheet: TextTable, *, grouped: bool) -> list[int]:
    """The columns that a title can tell; those of learners stay where there is nothing else to see in a row."""
    names = len(sheet.rows) > 1 and not grouped
    return [c for c, head in enumerate(sheet.heads) if c < sheet.group or (names and head in _NAMES)]


def compared(table: pl.DataFrame, group: Sequence[str]) -> TextTable:
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
            p_value_text(row["adjusted"]),
            _word(row),
        ]
        for row in table.iter_rows(named=True)
    ]
    return TextTable([*group, "learner", "minus", "difference, 95 %", "adj. p", "verdict"], rows, len(group))


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


def write_paper(sheet: TextTable, *, latex: Path | None, markdown: Path | None) -> None:
    """Write a table as papers and pages have it, into the files that are named."""
    heads, rows, _ = sheet
    named = [[code(e) if head in _NAMES else e for head, e in zip(heads, row, strict=True)] for row in rows]
    table = PaperTable(tuple(heads), named)
    if latex:
        write_text(latex, table.latex())
    if markdown:
        write_text(markdown, "\n".join(table.markdown()))
