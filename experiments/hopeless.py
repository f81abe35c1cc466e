"""Hopeless games, played: the table of docs/games/index.md.

The games and the learners are those of `peekrank reproduce hopeless`.

    python experiments/hopeless.py                          print the table
    python experiments/hopeless.py --page docs/games/index.md     put it into the page
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from peekrank.papers.ours.hopeless import CELLS, HORIZONS, LEARNERS, RUNS, Played, play, table
from peekrank.reports.markup import put_into

BEGIN = "<!-- begin: python experiments/hopeless.py --page docs/games/index.md -->"


def main(arguments: Sequence[str] | None = None) -> None:
    """Play all cells."""
    parser = argparse.ArgumentParser(description="Play the certified adversaries of hopeless games.")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--page", type=Path, help="a page to put the table into")
    options = parser.parse_args(arguments)
    results: list[Played] = []
    for cell in CELLS:
        results += play(cell, LEARNERS, HORIZONS, options.runs, lambda text: sys.stderr.write(text + "\n"))
    lines = table(results).markdown()
    sys.stdout.write("\n".join(lines) + "\n")
    if options.page:
        put_into(options.page, BEGIN, lines)


if __name__ == "__main__":
    main()
