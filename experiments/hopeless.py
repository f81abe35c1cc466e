"""Hopeless games, played: the table of records/open-rates.json.

The games and the learners are those of `peekrank reproduce hopeless`.

    python experiments/hopeless.py                          print the table
    python experiments/hopeless.py --record   write it into records/open-rates.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import records

from peekrank.papers.ours.hopeless import CELLS, HORIZONS, LEARNERS, RUNS, PairResult, play, table


def main(arguments: Sequence[str] | None = None) -> None:
    """Play all cells."""
    parser = argparse.ArgumentParser(description="Play the certified adversaries of hopeless games.")
    parser.add_argument("--runs", type=int, default=RUNS)
    records.add_option(parser, "open-rates")
    options = parser.parse_args(arguments)
    results: list[PairResult] = []
    for cell in CELLS:
        results += play(cell, LEARNERS, HORIZONS, options.runs, lambda text: sys.stderr.write(text + "\n"))
    lines = table(results).markdown()
    sys.stdout.write("\n".join(lines) + "\n")
    if options.record:
        records.update(options.record, [records.parse_table("Adversaries played", lines)])


if __name__ == "__main__":
    main()
