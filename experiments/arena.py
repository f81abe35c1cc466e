"""Learners of finite games in the arena: the table of docs/experiments/arena.md.

The games are those of `peekrank reproduce arena`.

    python experiments/arena.py                          print the table
    python experiments/arena.py --page docs/experiments/arena.md     put it into the page
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from peekrank.experiments.arena import run_arena
from peekrank.papers.ours.arena import HORIZONS, LEARNERS, RUNS, games, table
from peekrank.reports.markup import put_into

BEGIN = "<!-- begin: python experiments/arena.py --page docs/experiments/arena.md -->"


def main(arguments: Sequence[str] | None = None) -> None:
    """Play all games."""
    parser = argparse.ArgumentParser(description="Cross learners of finite games with games.")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--page", type=Path, help="a page to put the table into")
    options = parser.parse_args(arguments)
    results = run_arena(games(), LEARNERS, HORIZONS, options.runs, say=lambda text: sys.stderr.write(text + "\n"))
    lines = table(results).markdown()
    sys.stdout.write("\n".join(lines) + "\n")
    if options.page:
        put_into(options.page, BEGIN, lines)


if __name__ == "__main__":
    main()
