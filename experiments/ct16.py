"""CT16's Figure 1: average NDCG@10 against time, on a data file or on generated data of the paper's shapes.

The learners, the claims and the picture are those of `peekrank reproduce ct16-figure-1`, which plays on generated
data only. This script takes data of one's own too, and writes the page.

    python experiments/ct16.py --shape yandex --kind linear      print the table of one setting
    python experiments/ct16.py --data train.txt                  the same from a LETOR file or a .peek file
    python experiments/ct16.py ... --page docs/papers/ct16.md  put it into the page, and a picture beside it
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np

from peekrank.data.generated import LAYOUTS, Kind
from peekrank.data.letor import read_letor
from peekrank.data.peek import open_dataset
from peekrank.papers.ct16.figure import (
    ROUNDS,
    RUNS,
    Played,
    Setting,
    claims,
    of_unit_length,
    picture,
    play,
    where,
)
from peekrank.reports.markup import put_into, row
from peekrank.reports.plots import save_as
from peekrank.types import Rounds


def table(played: Played, *, yahoo: bool = False) -> list[str]:
    """Where the curves are at a tenth of the rounds and at the end, and the verdicts, in Markdown."""
    lines = [f"### {played.title}", "", *where(played).markdown(), "", "| the paper | here |", "|---|---|"]
    said = ((claim.what.removeprefix(f"{played.title}: "), claim) for claim in claims(played, yahoo=yahoo))
    return lines + [row(f"{what}: {claim.expected}", f"{claim.verdict} ({claim.here})") for what, claim in said]


def write_page(path: Path, name: str, lines: Sequence[str]) -> None:
    """Put lines into a page, between the marks of this name."""
    put_into(path, f"<!-- begin: {name} -->", lines)


def read_rounds(path: Path) -> Rounds:
    """A LETOR file or a compact one; relevance that is real-valued is rounded to grades."""
    data = open_dataset(path) if path.suffix == ".peek" else read_letor(path)
    return data.graded().rounds()


def main(arguments: Sequence[str] | None = None) -> None:
    """Play on one setting."""
    parser = argparse.ArgumentParser(description="Average NDCG@10 of CT16's learners, and of ours, against time.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, help="a file in LETOR format, or a .peek file")
    source.add_argument("--shape", choices=sorted(LAYOUTS), help="generate data of this shape")
    parser.add_argument("--kind", choices=get_args(Kind), default="linear", help="of generated relevance")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the queries to generate")
    parser.add_argument("--unit", action="store_true", help="divide features so that no document is longer than 1")
    parser.add_argument("--name", help="of the setting: in titles, in marks of the page and of the picture's file")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--page", type=Path, help="a page to put the table into, with a picture in ../pictures/")
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
    lines = table(played, yahoo=options.shape == "yahoo")
    sys.stdout.write("\n".join(lines) + "\n")
    if options.page:
        save_as(picture(played), options.page.parents[1] / "pictures" / f"ct16-{name}.svg")
        write_page(options.page, name, lines)


if __name__ == "__main__":
    main()
