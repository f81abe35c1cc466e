"""The record of all reproductions, put into docs/papers/reproduce.md.

peekrank reproduce --all --out FOLDER          make it (about 19 minutes of processor time)
python experiments/reproduce.py FOLDER         put it into the page, with the pictures of CT15
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from peekrank._util.atomic import write_whole
from peekrank.papers import ALL
from peekrank.papers.record import Kept, claims_table, read_record
from peekrank.reports.markup import Table, put_into

ROOT = Path(__file__).parent.parent
PAGE, PICTURES = ROOT / "docs" / "papers" / "reproduce.md", ROOT / "docs" / "pictures"
BEGIN = "<!-- begin: python experiments/reproduce.py FOLDER -->"
BEGIN_TOTALS = "<!-- begin: python experiments/reproduce.py FOLDER, totals -->"
COPIED = {"ct15-figure-1/figure-1.svg": "ct15-figure-1.svg", "ct15-figure-2/figure-2.svg": "ct15-figure-2.svg"}


def page_lines(kept: dict[str, Kept]) -> list[str]:
    """What came out: how much of it, then every claim; what is not made yet is said."""
    rows: list[tuple[object, ...]] = []
    lines: list[str] = []
    for name, item in ALL.items():
        lines += ["", f"### {name}", "", f"{item.source}: {item.statement}.", ""]
        if name in kept:
            claims, differ, seconds = kept[name].claims, kept[name].differ, kept[name].seconds
            rows.append((f"[{name}](#{name})", item.source, len(claims), differ, f"{seconds:,.0f} s"))
            lines += folded(f"{len(claims)} claims, {differ} differ", claims_table(claims).markdown())
        else:
            rows.append((f"[{name}](#{name})", item.source, "not in this record", "", ""))
            lines.append("Not in this record.")
    return [*Table(("name", "source", "claims", "differ", "time"), rows).markdown(), *lines]


def folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Lines that a reader unfolds, in the site and wherever Markdown is shown."""
    return ['<details markdown="1">', f"<summary>{summary}</summary>", "", *lines, "", "</details>"]


def totals(kept: dict[str, Kept]) -> Table:
    """How many claims of each paper, of ours, and of all hold and differ."""
    made = [(ALL[name].source.split()[0], kept[name]) for name in ALL if name in kept]
    rows: list[tuple[object, ...]] = []
    for source in (*dict.fromkeys(source for source, _ in made), "all"):
        of_it = [one for whose, one in made if source in (whose, "all")]
        claims, differ = sum(len(one.claims) for one in of_it), sum(one.differ for one in of_it)
        rows.append((source, claims, claims - differ, differ))
    return Table(("source", "claims", "hold", "differ"), rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description="Put the record of all reproductions into the page.")
    parser.add_argument(
        "folder", type=Path, help=f"of peekrank reproduce --all, for instance reproduction{os.sep}"
    )
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    options = parser.parse_args(arguments)
    try:
        mode, kept = read_record(options.folder)
    except ValueError as error:
        parser.error(str(error))
    if mode != "full":
        parser.error(f"{options.folder} is of mode {mode}: the page has the full record")
    put_into(options.page, BEGIN_TOTALS, totals(kept).markdown())
    put_into(options.page, BEGIN, page_lines(kept))
    for source, name in COPIED.items():
        if not (options.folder / source).exists():
            continue
        content = (options.folder / source).read_bytes()
        write_whole(options.pictures / name, partial(Path.write_bytes, data=content))


if __name__ == "__main__":
    main()
