"""CT16's Figure 1: average NDCG@10 against time, on a data file or on generated data of the paper's shapes.

The learners, the claims and the picture are those of `peekrank reproduce ct16-figure-1`, which plays on generated
data only. This script also takes your own data, and writes the record.

    python experiments/ct16.py --shape yandex --kind linear      print the table of one setting
    python experiments/ct16.py --data train.txt                  the same from a LETOR file or a .peek file
    python experiments/ct16.py ... --record                      write it into records/ct16.json, with a picture
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import records

from peekrank.data.generated import SHAPES, Kind
from peekrank.data.letor import read_letor
from peekrank.data.peek import open_dataset
from peekrank.papers.ct16.figure import (
    EXACT,
    PRINTED,
    ROUNDS,
    RUNS,
    FigureData,
    Setting,
    claims,
    of_unit_length,
    our_claims,
    picture,
    play,
    where,
)
from peekrank.reports.markup import row
from peekrank.reports.plots import save_as
from peekrank.types import Rounds

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"


def tables(played: FigureData, *, yahoo: bool = False) -> list[records.Table]:
    """Return where the curves are at a tenth of the rounds and at the end, and the verdicts."""
    printed, exact = (claims(played, version, yahoo=yahoo) for version in (PRINTED, EXACT))
    rows = [
        row(f"{one.what.partition(': ')[2]}: {one.expected}", *(f"{c.verdict} ({c.here})" for c in (one, two)))
        for one, two in zip(printed, exact, strict=True)
    ]
    ours = [row(c.what.partition(": ")[2], f"{c.verdict} ({c.here})") for c in our_claims(played, yahoo=yahoo)]
    title, pictures = f"Figure 1, {played.title}", {f"ct16-{played.title}.svg": "Average NDCG@10 against rounds"}
    heads = "| the paper | printed propensities | exact propensities |"
    return [
        records.parse_table(title, where(played).markdown(), pictures=pictures),
        records.parse_table(f"{title}: statements of the paper", [heads, "|---|---|---|", *rows]),
        records.parse_table(f"{title}: ours", ["| ours | here |", "|---|---|", *ours]),
    ]


def read_rounds(path: Path) -> Rounds:
    """Read a LETOR or .peek file, and round real-valued relevance to grades."""
    data = open_dataset(path) if path.suffix == ".peek" else read_letor(path)
    return data.graded().rounds()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one setting."""
    parser = argparse.ArgumentParser(description="Average NDCG@10 of CT16's learners, and of ours, against time.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, help="a file in LETOR format, or a .peek file")
    source.add_argument("--shape", choices=sorted(SHAPES), help="generate data of this shape")
    parser.add_argument("--kind", choices=get_args(Kind), default="linear", help="of generated relevance")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the queries to generate")
    parser.add_argument("--unit", action="store_true", help="divide features so that no document is longer than 1")
    parser.add_argument("--name", help="of the setting, in titles and in the name of the picture's file")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--runs", type=int, default=RUNS)
    records.add_option(parser, "ct16")
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    options = parser.parse_args(arguments)
    if options.runs < 2:
        parser.error("--runs: two at least, or there is no spread")
    if options.data:
        read = read_rounds(options.data)
        data = of_unit_length(read) if options.unit else read
        name = options.data.name.partition(".")[0] + ("-unit" if options.unit else "")
    else:
        setting = Setting(options.shape, options.kind, options.scale, options.unit)
        data, name = None, setting.name

    def draw(rng: np.random.Generator) -> Rounds:
        return data or setting.draw(rng)

    name = options.name or name
    played = play(
        name, draw, rounds=options.rounds, runs=options.runs, say=lambda text: sys.stderr.write(text + "\n")
    )
    made = tables(played, yahoo=options.shape == "yahoo")
    sys.stdout.write(records.show(made))
    if options.record:
        save_as(picture(played), options.pictures / f"ct16-{name}.svg")
        records.update(options.record, made)


if __name__ == "__main__":
    main()
