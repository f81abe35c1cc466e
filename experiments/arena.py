"""Learners of finite games in the arena: the table of records/arena.json.

The games are those of `peekrank reproduce arena`.

    python experiments/arena.py                          print the table
    python experiments/arena.py --record   write it into records/arena.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import records

from peekrank.experiments.arena import run_arena
from peekrank.papers.ours.arena import HORIZONS, LEARNERS, RUNS, games, table


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all games."""
    parser = argparse.ArgumentParser(description="Cross learners of finite games with games.")
    parser.add_argument("--runs", type=int, default=RUNS)
    records.add_option(parser, "arena")
    options = parser.parse_args(arguments)
    results = run_arena(games(), LEARNERS, HORIZONS, options.runs, echo=lambda text: sys.stderr.write(text + "\n"))
    lines = table(results).markdown()
    sys.stdout.write("\n".join(lines) + "\n")
    if options.record:
        records.update(options.record, [records.parse_table("Games and learners", lines)])


if __name__ == "__main__":
    main()
