"""The laboratory's grid: how fast the worst regret of every learner grows, and what was expected of it.

The grid and the claims are those of `peekrank reproduce rates`; this script writes the page.

    python experiments/rates.py            all of it: docs/experiments/study.md and docs/pictures/
    python experiments/rates.py --quick    a look: short horizons, few runs, nothing written but results/

Ctrl-C keeps what is finished; the same command goes on from there.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from peekrank.experiments.findings import Findings

from peekrank.jobs.executor import InterruptedRunError
from peekrank.papers.ours.rates import (
    CT15_RUNS,
    PAGES,
    QUICK_RUNS,
    Game,
    claims,
    game_table,
    play,
    play_ct15,
)
from peekrank.papers.record import How, claims_table
from peekrank.reports import plots
from peekrank.reports.markup import put_into

ROOT = Path(__file__).parent.parent
PAGE, PICTURES = ROOT / "docs" / "experiments" / "study.md", ROOT / "docs" / "pictures"
BEGIN = "<!-- begin: python experiments/rates.py -->"


def game_lines(game: Game, findings: Findings) -> list[str]:
    """The section of a game: its table and its picture."""
    head = ["", f"### {game.title}: {findings.study.rate}", ""]
    return [
        *head,
        *game_table(findings).markdown(),
        "",
        f"![worst regret against rounds](../pictures/{game.name}.svg)",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the grid."""
    parser = argparse.ArgumentParser(description="Worst regret against the horizon, for all learners.")
    parser.add_argument("--quick", action="store_true", help="a look: short horizons, few runs, no page")
    parser.add_argument("--out", type=Path, default=None, help="folder for the results of all games")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    folder = options.out or Path("results") / ("rates-quick" if options.quick else "rates")
    try:
        found = play(How(folder, quick=options.quick, workers=options.workers, progress=_say))
    except InterruptedRunError:
        sys.exit(f"stopped; what is finished is kept in {folder}, and the same command goes on from there")
    made = list(claims(found, play_ct15(QUICK_RUNS if options.quick else CT15_RUNS)))
    lines = claims_table(made).markdown()
    for game, findings in found.items():
        lines += game_lines(game, findings)
    sys.stdout.write("\n".join(lines) + "\n")
    if not options.quick:
        put_into(PAGE, BEGIN, lines)
        draw(found, PICTURES)


def _say(done: float, of: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done / of:.0%} of {of:,} rounds done")


def draw(found: dict[Game, Findings], folder: Path) -> None:
    """A picture of each game, and one for the page of each learner."""
    for game, findings in found.items():
        plots.save_as(plots.worst_regret(findings), folder / f"{game.name}.svg")
    for name, (game, learners) in PAGES.items():
        plots.save_as(plots.worst_regret(found[game], learners=learners), folder / f"{name}.svg")


if __name__ == "__main__":
    main()
