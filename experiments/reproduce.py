"""The record of all reproductions: records/reproduce.json.

peekrank reproduce --all --out FOLDER          make it (about 19 minutes of processor time)
python experiments/reproduce.py FOLDER         write it into the record, with the pictures of CT15
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import records

from peekrank._util.atomic import write_whole
from peekrank.papers import ALL
from peekrank.papers.record import StoredResults, claims_table, read_record
from peekrank.reports.markup import Table

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
COPIED = {"ct15-figure-1": "figure-1.svg", "ct15-figure-2": "figure-2.svg"}


def tables(kept: dict[str, StoredResults]) -> list[records.Table]:
    """Return the totals, the list of reproductions, and every claim; reproductions that are missing say so."""
    rows: list[tuple[object, ...]] = []
    found: list[records.Table] = []
    for name, item in ALL.items():
        text = [f"{item.source}: {item.statement}."]
        pictures = {f"{name}.svg": name.replace("ct15-figure-", "CT15 Figure ")} if name in COPIED else {}
        if name in kept:
            claims, differ, seconds = kept[name].claims, kept[name].differ, kept[name].seconds
            rows.append((name, item.source, len(claims), differ, f"{seconds:,.0f} s"))
            found.append(records.parse_table(name, claims_table(claims).markdown(), text, pictures=pictures))
        else:
            rows.append((name, item.source, "not in this record", "", ""))
            found.append(records.Table(name, [*text, "Not in this record."]))
    heads = ("name", "source", "claims", "differ", "time")
    return [
        records.parse_table("Totals", totals(kept).markdown()),
        records.parse_table("Reproductions", Table(heads, rows).markdown()),
        *found,
    ]


def totals(kept: dict[str, StoredResults]) -> Table:
    """How many claims of each paper, of ours, and of all hold and differ."""
    made = [(ALL[name].source.split()[0], kept[name]) for name in ALL if name in kept]
    rows: list[tuple[object, ...]] = []
    for source in (*dict.fromkeys(source for source, _ in made), "all"):
        of_it = [one for whose, one in made if source in (whose, "all")]
        claims, differ = sum(len(one.claims) for one in of_it), sum(one.differ for one in of_it)
        rows.append((source, claims, claims - differ, differ))
    return Table(("source", "claims", "hold", "differ"), rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the record."""
    parser = argparse.ArgumentParser(description="Write the record of all reproductions.")
    parser.add_argument(
        "folder", type=Path, help=f"of peekrank reproduce --all, for instance reproduction{os.sep}"
    )
    parser.add_argument("--record", type=Path, default=records.FOLDER / "reproduce.json")
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    options = parser.parse_args(arguments)
    try:
        mode, kept = read_record(options.folder)
    except ValueError as error:
        parser.error(str(error))
    if mode != "full":
        parser.error(f"{options.folder} is of mode {mode}: the record has the full mode")
    records.update(options.record, tables(kept))
    for name, file in COPIED.items():
        source = options.folder / name / file
        if source.exists():
            write_whole(options.pictures / f"{name}.svg", partial(Path.write_bytes, data=source.read_bytes()))


if __name__ == "__main__":
    main()
