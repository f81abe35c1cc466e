"""Run the grid of studies: how fast the worst regret of every learner grows, and the claims about it.

The grid and the claims are those of `peekrank reproduce rates`; this script writes the record.

    python experiments/rates.py            all of it: records/study.json and docs/pictures/
    python experiments/rates.py --quick    a look: short horizons, few runs, nothing written but results/

Finished runs survive Ctrl-C. Run the same command again to continue.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import records

from peekrank.experiments.study_result import StudyResult
from peekrank.jobs.executor import InterruptedRunError
from peekrank.papers.ours.rates import (
    CT15_RUNS,
    QUICK_RUNS,
    Game,
    claims,
    game_table,
    play,
    play_ct15,
)
from peekrank.papers.record import Options, claims_table
from peekrank.reports import plots

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"


def tabulated(game: Game, findings: StudyResult) -> records.Table:
    """Return the table of a game, with its picture."""
    title = f"{game.title}: {findings.study.rate}".replace("`", "")
    pictures = {f"{game.name}.svg": "Worst regret against rounds"}
    return records.parse_table(title, game_table(findings).markdown(), pictures=pictures)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the grid."""
    parser = argparse.ArgumentParser(description="Worst regret against the horizon, for all learners.")
    parser.add_argument("--quick", action="store_true", help="a look: short horizons, few runs, no record")
    parser.add_argument("--out", type=Path, default=None, help="folder for the results of all games")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    folder = options.out or Path("results") / ("rates-quick" if options.quick else "rates")
    try:
        found = play(Options(folder, quick=options.quick, workers=options.workers, progress=_say))
    except InterruptedRunError:
        sys.exit(f"stopped; what is finished is kept in {folder}, and the same command goes on from there")
    made = list(claims(found, play_ct15(QUICK_RUNS if options.quick else CT15_RUNS)))
    tables = [records.parse_table("Claims", claims_table(made).markdown())]
    tables += [tabulated(game, findings) for game, findings in found.items()]
    sys.stdout.write(records.show(tables))
    if not options.quick:
        records.update(records.FOLDER / "study.json", tables)
        draw(found, PICTURES)


def _say(done: float, of: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done / of:.0%} of {of:,} rounds done")


def draw(found: dict[Game, StudyResult], folder: Path) -> None:
    """Draw a picture of each game."""
    for game, findings in found.items():
        plots.save_as(plots.worst_regret(findings), folder / f"{game.name}.svg")


if __name__ == "__main__":
    main()
