"""Learners of finite games in the arena: classic games and some rankings, against the opponents of each game.

python experiments/arena.py                          print the table
python experiments/arena.py --page docs/arena.md     put it into the page
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from peekrank.arena import Crossing, cross
from peekrank.files import put_into
from peekrank.games.classic import CLASSIC
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.learners.feedexp3 import FeedExp3
from peekrank.learners.nw2 import NW2
from peekrank.types import Learner

LEARNERS: dict[str, Callable[[Game, int], Learner]] = {"feedexp3": FeedExp3, "nw2": NW2}
HORIZONS = (1_000, 4_000, 16_000, 64_000)
RUNS = 6
RANKINGS = (("ndcg", 1), ("ndcg", 2), ("ap", 2), ("dcg", 1), ("dcg", 2), ("p@1", 1), ("p@2", 1))
BEGIN = "<!-- begin: python experiments/arena.py --page docs/arena.md -->"


def games() -> dict[str, Game]:
    """The classic games, and rankings of three items."""
    rankings = {f"`{measure}` m = 3, k = {k}": ranking_game(measure, m=3, k=k) for measure, k in RANKINGS}
    return {name: example.game for name, example in CLASSIC.items()} | rankings


def table(results: Sequence[Crossing]) -> list[str]:
    """A table in Markdown, at the largest horizon; +- is the standard deviation over runs."""
    lines = [
        "| game | rate | learner | worst regret | bound | exponent | worst opponent |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in results:
        if r.reason:
            why = re.split(r"\. |; | \(", r.reason)[0]
            lines.append(f"| {r.game} | {r.rate} | `{r.learner}` | {why} | | | |")
            continue
        bound = "" if r.bound is None else f"{r.bound:,.0f}"
        slope = "" if r.exponent != r.exponent else f"{r.exponent:.2f}"
        lost = f"{r.worst[-1]:,.0f} ± {r.spread[-1]:,.0f}"
        lines.append(f"| {r.game} | {r.rate} | `{r.learner}` | {lost} | {bound} | {slope} | {r.opponent} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Play all games."""
    parser = argparse.ArgumentParser(description="Cross learners of finite games with games.")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--page", type=Path, help="a page to put the table into")
    options = parser.parse_args(arguments)
    results = cross(games(), LEARNERS, HORIZONS, options.runs, say=lambda text: sys.stderr.write(text + "\n"))
    lines = table(results)
    sys.stdout.write("\n".join(lines) + "\n")
    if options.page:
        put_into(options.page, BEGIN, lines)


if __name__ == "__main__":
    main()
