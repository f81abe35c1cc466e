"""Records of measurements: records/NAME.json, which experiments write and the site renders.

A record has a title, a sentence or two on what it shows, the command that measures it, its runs, spread and
machine, tables, pictures and notes. An experiment writes its tables only. The words around them are written by
hand, and a new run leaves them as they are.

A cell of a table is a number, a text in Markdown, null, a `Figure`, or a list of these.

Experiments with the option --record write their record. The other scripts print tables in Markdown; this puts one
into a record:

    python experiments/champion.py | python experiments/records.py champion "Regret beside the members"
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from peekrank._util.atomic import write_whole

FOLDER = Path(__file__).resolve().parent.parent / "records"
_NUMBER = r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?"
_UNIT = r"(?P<unit> ?%|x| s| ms| µs)?"
_FIGURE = re.compile(rf"(?P<value>{_NUMBER})(?: ± (?P<sd>{_NUMBER}))?{_UNIT}")
_RANGE = re.compile(rf"(?P<low>{_NUMBER}) to (?P<high>{_NUMBER}){_UNIT}")
_MIDDLE = re.compile(rf"(?P<value>{_NUMBER}) \((?P<low>{_NUMBER}) to (?P<high>{_NUMBER})\){_UNIT}")
_PIPE = re.compile(r"`[^`]*`|\|")
_BOLD = re.compile(r"\*\*(?P<inner>.+)\*\*")


class Figure(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """A number with its spread (`sd`), or with a range from `low` to `high`; a `mark` is shown in bold."""

    value: int | float | None = None
    sd: int | float | None = None
    low: int | float | None = None
    high: int | float | None = None
    digits: int | None = None
    unit: str = ""
    mark: str = ""

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high go together")
        if self.value is None and (self.low is None or self.sd is not None):
            raise ValueError("a figure needs a value, or low and high without sd")

    def __str__(self) -> str:
        text = ""
        if self.value is not None:
            text = self._number(self.value)
        if self.sd is not None:
            text += f" ± {self._number(self.sd)}"
        if self.low is not None and self.high is not None:
            ends = f"{self._number(self.low)} to {self._number(self.high)}"
            text = f"{text} ({ends})" if text else ends
        text += self.unit if self.unit in ("", "x") else f" {self.unit}"
        return f"**{text}**" if self.mark else text

    def _number(self, number: int | float) -> str:
        return f"{number:,}" if self.digits is None else f"{number:,.{self.digits}f}"


Simple = int | float | str | Figure | None
Cell = Simple | list[Simple]


class Table(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A table with the text before it. `marks` explains each mark. Without columns, it is text only."""

    title: str
    text: list[str] = []
    columns: list[str] = []
    rows: list[list[Cell]] = []
    marks: dict[str, str] = {}
    notes: list[str] = []
    pictures: dict[str, str] = {}  # file in docs/pictures: what it shows
    command: str = ""
    runs: str = ""
    spread: str = ""
    machine: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.title}: {len(self.columns)} columns, but a row of {len(row)}: {row}")
        parts = (part for row in self.rows for cell in row for part in _parts(cell))
        used = {part.mark for part in parts if isinstance(part, Figure)}
        if used - {""} - set(self.marks):
            raise ValueError(f"{self.title}: unexplained marks {sorted(used - {''} - set(self.marks))}")

    def markdown(self) -> list[str]:
        """Return the words, the table, its notes and pictures as lines of Markdown, without the title."""
        lines = [line for paragraph in self.text for line in (paragraph, "")]
        lines += _facts(self)
        if self.columns:
            lines += [_row(self.columns), "|" + "---|" * len(self.columns)]
            lines += [_row(["; ".join(map(_text, _parts(cell))) for cell in row]) for row in self.rows]
            lines.append("")
        if self.marks:
            lines += ["Bold: " + "; ".join(self.marks.values()) + ".", ""]
        if self.notes:
            lines += [*(f"- {note}" for note in self.notes), ""]
        for file, words in self.pictures.items():
            lines += [f"![{words}](../pictures/{file})", ""]
        return lines


class Record(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The measurements of an experiment."""

    title: str
    shows: str
    command: str = ""
    runs: str = ""
    spread: str = ""
    machine: str = ""
    tables: list[Table] = []
    notes: list[str] = []

    def __post_init__(self) -> None:
        titles = [table.title for table in self.tables]
        if len(set(titles)) < len(titles):
            raise ValueError(f"{self.title}: two tables have the same title")

    def markdown(self) -> str:
        """Return the record's page."""
        lines = [f"# {self.title}", "", self.shows, "", *_facts(self)]
        if self.notes:
            lines += ["## Notes", "", *(f"- {note}" for note in self.notes), ""]
        for table in self.tables:
            lines += [f"## {table.title}", "", *table.markdown()]
        return "\n".join(lines)


def parse_cell(text: object, mark: str = "loses") -> Cell:
    """Parse a cell into numbers if possible. Bold numbers get the mark.

    >>> parse_cell("0.0100 ± 0.0012")
    Figure(value=0.01, sd=0.0012, low=None, high=None, digits=4, unit='', mark='')
    >>> parse_cell("1,234"), parse_cell("`ftpl`"), parse_cell("")
    (1234, '`ftpl`', None)
    >>> [str(part) for part in parse_cell("**12 ± 3**; 45%")]
    ['**12 ± 3**', '45 %']
    """
    words = " ".join(str(text).split())
    if not words:
        return None
    parts = [_parse(part, mark) for part in re.split("[,;] ", words)]
    if all(part is not None for part in parts):
        return parts[0] if len(parts) == 1 else parts
    return words


def parse_table(title: str, lines: Sequence[str], text: Iterable[str] = (), **fields: Any) -> Table:
    """Read the lines of a table in Markdown."""
    head, _, *rows = [
        [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]] for line in lines
    ]
    mark = next(iter(fields.get("marks", {"loses": ""})))
    cells = [[parse_cell(cell, mark) for cell in row] for row in rows]
    return Table(title, list(text), head, cells, **fields)


def show(tables: Iterable[Table]) -> str:
    """Return tables as Markdown, with their titles."""
    return "\n".join(line for table in tables for line in (f"## {table.title}", "", *table.markdown()))


def add_option(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the option --record, which is records/NAME.json if no file is given."""
    words = f"record to write the tables into; records/{name}.json if no file is given"
    parser.add_argument("--record", type=Path, nargs="?", const=FOLDER / f"{name}.json", help=words)


def read(path: Path) -> Record:
    """Read and validate a record. Raises ValueError with the file's name."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except (ValueError, msgspec.ValidationError) as error:
        raise ValueError(f"{path}: {error}") from error


def write(path: Path, record: Record) -> None:
    """Write a record, a line for each row of a table."""
    text = _dump(msgspec.to_builtins(record), 0) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))


def _dump(value: Any, depth: int) -> str:
    words = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if isinstance(value, list) and (depth > 3 or (words and len(str(value)) < 200)):
        return json.dumps(value, ensure_ascii=False)
    pad = "\n" + " " * (depth + 1)
    if isinstance(value, dict) and value:
        inside = [f"{json.dumps(key)}: {_dump(one, depth + 1)}" for key, one in value.items()]
        return "{" + pad + f",{pad}".join(inside) + pad[:-1] + "}"
    if isinstance(value, list) and value:
        return "[" + pad + f",{pad}".join(_dump(one, depth + 1) for one in value) + pad[:-1] + "]"
    return json.dumps(value, ensure_ascii=False)


def update(path: Path, tables: Iterable[Table], *, title: str = "", shows: str = "") -> None:
    """Put new rows and pictures into a record, and keep the text that was written by hand."""
    record = read(path) if path.exists() else Record(title or path.stem, shows)
    indices = {table.title: i for i, table in enumerate(record.tables)}
    for new in tables:
        if new.title not in indices:
            record.tables.append(new)
            continue
        old = record.tables[indices[new.title]]
        old.columns, old.rows, old.pictures = new.columns, new.rows, new.pictures or old.pictures
        old.text, old.marks = new.text or old.text, new.marks or old.marks
        old.__post_init__()
    record.__post_init__()
    write(path, record)


def read_all(folder: Path = FOLDER) -> dict[str, Record]:
    """Read all records of a folder, by name."""
    return {path.stem: read(path) for path in sorted(folder.glob("*.json"))}


def index(records: dict[str, Record]) -> str:
    """Return the page that lists all records."""
    lines = [
        "# Records",
        "",
        "Every measurement that these pages quote, with its command, runs, spread and notes.",
        "Each record is a JSON file in `records/`. The experiments write the files, and the site renders them.",
        "",
        "| record | what it shows |",
        "|---|---|",
        *(_row([f"[{record.title}]({name}.md)", record.shows]) for name, record in records.items()),
    ]
    return "\n".join(lines) + "\n"


def _parse(text: str, mark: str) -> Simple:
    """Parse one figure. Returns None if the text has other words."""
    bold = _BOLD.fullmatch(text)
    inner = bold["inner"] if bold else text
    found = _FIGURE.fullmatch(inner) or _RANGE.fullmatch(inner) or _MIDDLE.fullmatch(inner)
    if found is None:
        return None
    numbers = {key: part for key, part in found.groupdict().items() if part is not None and key != "unit"}
    values: dict[str, Any] = {key: _value(part) for key, part in numbers.items()}
    unit, flag = (found["unit"] or "").strip(), mark if bold else ""
    decimals = {len(part.partition(".")[2]) for part in numbers.values()}
    plain = Figure(**values, unit=unit, mark=flag)
    exact = all(f"{values[key]:,}" == part.removeprefix("+") for key, part in numbers.items())
    figure = plain if exact or len(decimals) > 1 else Figure(**values, digits=max(decimals), unit=unit, mark=flag)
    return values["value"] if "value" in values and figure == Figure(values["value"]) else figure


def _value(text: str) -> int | float:
    number = text.replace(",", "")
    return float(number) if "." in number else int(number)


def _parts(cell: Cell) -> list[Simple]:
    return cell if isinstance(cell, list) else [cell]


def _text(part: Simple) -> str:
    if part is None:
        return ""
    return f"{part:,}" if isinstance(part, (int, float)) else str(part)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_PIPE.sub(_escaped, cell) for cell in cells) + " |"


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("`") else r"\|"


def _facts(part: Table | Record) -> list[str]:
    named = {"Runs": part.runs, "Spread": part.spread, "Machine": part.machine}
    facts = [f"- **{name}:** {words}" for name, words in named.items() if words]
    command = ["```sh", *part.command.splitlines(), "```", ""] if part.command else []
    return [*command, *facts, ""] if facts else command


def main(arguments: Sequence[str] | None = None) -> None:
    """Put a table in Markdown from standard input into a record."""
    parser = argparse.ArgumentParser(description="Put a table in Markdown from standard input into a record.")
    parser.add_argument("name", help="of the record")
    parser.add_argument("title", help="of its table, which is replaced or added")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    path = options.folder / f"{options.name}.json"
    marks = next((t.marks for t in read(path).tables if t.title == options.title), {}) if path.exists() else {}
    lines = [line for line in sys.stdin.read().splitlines() if line.startswith("|")]
    update(path, [parse_table(options.title, lines, marks=marks or {"bold": "marked in the script"})])


if __name__ == "__main__":
    main()
