"""A surrogate that is calibrated for NDCG, played: the table of records/surrogates.json.

The pairs and the learners are those of `peekrank reproduce calibrated`.

    python experiments/calibrated.py                             print the table
    python experiments/calibrated.py --record   write it into records/surrogates.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import records

from peekrank.papers.ours.calibrated import AT, CELLS, RUNS, PairResult, play, table


def main(arguments: Sequence[str] | None = None) -> None:
    """Play all cells."""
    parser = argparse.ArgumentParser(description="Play adversaries against learners of calibrated surrogates.")
    parser.add_argument("--runs", type=int, default=RUNS)
    records.add_option(parser, "surrogates")
    options = parser.parse_args(arguments)
    results: list[PairResult] = []
    for cell in CELLS:
        results += play(cell, AT, options.runs, lambda text: sys.stderr.write(text + "\n"))
    lines = table(results).markdown()
    sys.stdout.write("\n".join(lines) + "\n")
    if options.record:
        records.update(options.record, [records.parse_table("Pairs and learners", lines)])


if __name__ == "__main__":
    main()
