"""A surrogate that is calibrated for NDCG, played: the table of docs/surrogates/index.md.

The pairs and the learners are those of `peekrank reproduce calibrated`.

    python experiments/calibrated.py                             print the table
    python experiments/calibrated.py --page docs/surrogates/index.md   put it into the page
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from peekrank.papers.ours.calibrated import AT, CELLS, RUNS, Played, play, table
from peekrank.reports.markup import put_into

BEGIN = "<!-- begin: python experiments/calibrated.py --page docs/surrogates/index.md -->"


def main(arguments: Sequence[str] | None = None) -> None:
    """Play all cells."""
    parser = argparse.ArgumentParser(description="Play adversaries against learners of calibrated surrogates.")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--page", type=Path, help="a page to put the table into")
    options = parser.parse_args(arguments)
    results: list[Played] = []
    for cell in CELLS:
        results += play(cell, AT, options.runs, lambda text: sys.stderr.write(text + "\n"))
    lines = table(results).markdown()
    sys.stdout.write("\n".join(lines) + "\n")
    if options.page:
        put_into(options.page, BEGIN, lines)


if __name__ == "__main__":
    main()
