"""Tables of commands: grouped, for the terminal, and as LaTeX or Markdown."""

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

_MAX_ROWS = 60  # on a terminal
_NAMES = ("folder", "stream", "data", "measure", "learner", "minus", "policy")
_LEFT = (*_NAMES, "verdict")
_EDGES = 2  # columns of a terminal
_NAME = 10  # minimum width of a folded name, in characters
_WIDE = 20  # minimum width of the first column if rows have groups


@dataclass(frozen=True)
class TerminalTable:
    """A table that adapts to the width of the terminal.

    Names are folded and heads broken at blanks; numbers are never broken. If that is not enough, each row
    becomes a list of labels and cells.

    >>> table = TerminalTable("Regret", ["learner", "regret", "rounds/s"], [("", ["a", "5.25", "9k"])])
    >>> for width in (40, 20):
    ...     console = Console(width=width, color_system=None)
    ...     with console.capture() as output:
    ...         console.print(table, highlight=False)
    ...     print([line.split() for line in output.get().splitlines() if line.strip(" ─")])
    [['Regret'], ['learner', 'regret', 'rounds/s'], ['a', '5.25', '9k']]
    [['Regret'], ['a'], ['regret', '5.25'], ['rounds/s', '9k']]
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]  # name of the group, and the cells
    names: Sequence[str] = _NAMES

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the table in the layout that fits."""
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
        yield from self._as_lists()

    def _cells(self, c: int) -> int:
        """Return the width of the widest cell in a column."""
        return max((len(row[c]) for _, row in self.rows), default=0)

    def _whole(self) -> list[int]:
        """Return the widths of columns without folding."""
        return [max(self._cells(c), len(head)) for c, head in enumerate(self.heads)]

    def _narrow(self) -> list[int]:
        """Return the minimum widths of columns."""
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
        current = ""
        for group, row in self.rows:
            if current != (current := group):
                table.add_section()
                table.add_row(escape(group), style="bold")
            table.add_row(*map(escape, row))
        return table

    def _as_lists(self) -> Iterator[RenderableType]:
        current = ""
        for group, (first, *cells) in self.rows:
            if current != (current := group):
                yield Text(f"\n{group}", style="bold")
            yield Text(f"\n{first if self.heads[0] in self.names else f'{self.heads[0]} {first}'}")
            grid = labelled()
            for head, cell in zip(self.heads[1:], cells, strict=True):
                grid.add_row(f"  {head}", escape(cell))
            yield grid
        yield ""


def _filled(narrow: Sequence[int], whole: Sequence[int], room: int) -> list[int]:
    """Widen columns, the first ones first, up to their whole width or until the room is used.

    >>> _filled([10, 6, 6], [18, 9, 6], 26)
    [14, 6, 6]
    """
    widths = list(narrow)
    for position, width in enumerate(whole):
        widths[position] += min(width - widths[position], room - sum(widths))
    return widths


class TextTable(NamedTuple):
    """A table of texts whose first `group` columns identify the group of a row."""

    heads: list[str]
    rows: list[list[str]]
    group: int


def render(title: str, sheet: TextTable, rest: str) -> Iterator[RenderableType]:
    """Render a table for the terminal, without columns that are the same in all rows.

    The title contains the constant columns, and a line above each group names the group.

    Parameters
    ----------
    title
        Beginning of the title.
    sheet
        The table.
    rest
        Where to find all rows, printed if there are too many for the terminal.

    >>> rows = [["1", "a", "5"], ["1", "b", "7"], ["2", "a", "4"], ["2", "b", "8"]]
    >>> (table,) = render("Regret", TextTable(["k", "learner", "regret"], rows, group=1), "")
    >>> table.title, table.rows
    ('Regret, by k', [('k 1', ['a', '5']), ('k 1', ['b', '7']), ('k 2', ['a', '4']), ('k 2', ['b', '8'])])
    """
    heads, rows, group = sheet
    varies = [len({row[c] for row in rows}) > 1 for c in range(len(heads))]
    grouped = len({tuple(row[:group]) for row in rows}) < len(rows)
    same = _constant_columns(sheet)
    above = [c for c in range(group) if grouped and varies[c]]
    columns = [c for c in range(len(heads)) if c not in (*same, *above)]
    parts = [title, *(f"{heads[c]} {rows[0][c]}" for c in same)]
    parts += [f"by {', '.join(heads[c] for c in above)}"] if above else []
    numbers = [c for c in above if heads[c] not in _NAMES]
    prefixed = numbers if len(numbers) > 1 or above == numbers else []  # the title names a single one
    visible = [
        (", ".join(f"{heads[c]} {row[c]}" if c in prefixed else row[c] for c in above), [row[c] for c in columns])
        for row in rows[:_MAX_ROWS]
    ]
    yield TerminalTable(", ".join(parts), [heads[c] for c in columns], visible)
    if len(rows) > _MAX_ROWS:
        yield Text(f"{_MAX_ROWS} of {len(rows):,} rows; {rest}.")


def _constant_columns(sheet: TextTable) -> list[int]:
    """Return columns that are the same in all rows. Names stay in the table if rows have nothing else."""
    groups = {tuple(row[: sheet.group]) for row in sheet.rows}
    names = len(sheet.rows) > 1 and len(groups) == len(sheet.rows)
    return [
        c
        for c, head in enumerate(sheet.heads)
        if (c < sheet.group or (names and head in _NAMES)) and len({row[c] for row in sheet.rows}) == 1
    ]


def compared(table: pl.DataFrame, group: Sequence[str]) -> TextTable:
    """Format the result of `peekrank.experiments.comparison.compare`; `group` names the columns of a group.

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
    return TextTable([*group, "learner", "minus", "difference, 95% CI", "adj. p", "verdict"], rows, len(group))


def group_texts(row: dict[str, Any], group: Sequence[str]) -> list[str]:
    """Return the texts of the group columns of a row."""
    return [f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in group]


def _word(row: dict[str, Any]) -> str:
    """Return the verdict on the learner of a row in one word."""
    from peekrank.experiments.comparison import UNCLEAR

    verdict = str(row["verdict"])
    words = {f"{row['learner']} is better": "better", f"{row['other']} is better": "worse", UNCLEAR: "unclear"}
    return words.get(verdict, verdict.partition(":")[0])


def verdicts_explained(test: str, *, few: bool = False) -> Text:
    """Explain the verdicts of a table made with this test; `few` adds the meaning of "too few"."""
    from peekrank.experiments.comparison import LEVEL

    too_few = " Too few: no difference could reach significance with so few runs; run more." if few else ""
    return Text(
        "The verdict compares the learner with the one in the column minus, by the adjusted p-value "
        f"({test}, Holm's correction over all rows): the probability of any wrong verdict in the table is at most "
        f"{LEVEL:.0%}. Unclear: the data show no difference, but there may be one.{too_few} "
        "The intervals are not adjusted."
    )


def write_paper(sheet: TextTable, *, latex: Path | None, markdown: Path | None) -> None:
    """Write a table as LaTeX and as Markdown, to those files that are given. Constant columns stand above it."""
    constant = _constant_columns(sheet)
    heads = [head for c, head in enumerate(sheet.heads) if c not in constant]
    named = [
        [
            code(e) if head in _NAMES else e
            for c, (head, e) in enumerate(zip(sheet.heads, row, strict=True))
            if c not in constant
        ]
        for row in sheet.rows
    ]
    same = ", ".join(f"{sheet.heads[c]} {sheet.rows[0][c]}" for c in constant)
    table = PaperTable(tuple(heads), named)
    if latex:
        write_text(latex, (f"% {same}\n" if same else "") + table.latex())
    if markdown:
        write_text(markdown, "\n".join([*([same, ""] if same else []), *table.markdown()]))
