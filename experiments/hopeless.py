"""Hopeless games, played: the certified pairs of adversaries against learners that see the top k only.

On one adversary of a pair a learner may do well, on the other it then does badly: regret on p plus regret on q is
at least gap x T in expectation, whatever it does. The table shows both regrets, their sum, and how the sum grows.

    python experiments/hopeless.py                          print the table
    python experiments/hopeless.py --page docs/games.md     put it into the page
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from peekrank.engine import simulate
from peekrank.experiment import Experiment
from peekrank.files import put_into
from peekrank.games.classify import analyse
from peekrank.games.ranking import ranking_game
from peekrank.games.witness import certificate
from peekrank.regret import best_values, regret
from peekrank.types import Floats

LEARNERS = ("uniform", "rtop1f:measure=dcg")
HORIZONS = (2_500, 5_000, 10_000, 20_000, 40_000)
RUNS = 10
BEGIN = "<!-- begin: python experiments/hopeless.py --page docs/games.md -->"


class Cell(NamedTuple):
    """A hopeless game; ``printed`` means the pair of CT16 instead of one that is computed."""

    measure: str
    m: int
    k: int
    printed: bool = False


CELLS = (
    Cell("ndcg", 3, 1),
    Cell("ndcg", 3, 1, printed=True),
    Cell("ndcg", 4, 2),
    Cell("ap", 4, 2),
    Cell("auc", 4, 2),
    Cell("auc", 5, 2),
)

CT16_PAIR = {  # Table 1: relevance, p, p tilde
    "000": ("0", "0"),
    "110": ("0.1", "0.3"),
    "101": ("0.15", "0"),
    "011": ("0.05", "0"),
    "100": ("0.2", "0.15"),
    "010": ("0.3", "0.15"),
    "001": ("0.2", "0.4"),
    "111": ("0", "0"),
}


class Played(NamedTuple):
    """Regret per round of one learner on one pair: (horizons, runs) on either side."""

    cell: Cell
    gap: float
    learner: str
    horizons: tuple[int, ...]
    on_p: Floats
    on_q: Floats

    @property
    def total(self) -> Floats:
        """Regret per round on p plus that on q."""
        return self.on_p + self.on_q

    @property
    def exponent(self) -> float:
        """Slope of log(regret on p + regret on q) against log(horizon)."""
        return 1 + float(np.polyfit(np.log(self.horizons), np.log(self.total.mean(axis=1)), 1)[0])


def ct16_certificate() -> dict[str, Any]:
    """CT16's pair, with what a certificate says of adversaries; the gap is the least that any ranking loses."""
    game = ranking_game("ndcg", m=3, k=1)
    names = ["".join(map(str, row)) for row in product((0, 1), repeat=3)]
    p, q = ([Fraction(CT16_PAIR[name][side]) for name in names] for side in (0, 1))
    cost_p, cost_q = game.loss @ np.array(p, dtype=float), game.loss @ np.array(q, dtype=float)
    return {
        "game": {"outcomes": list(game.outcomes), "loss": game.loss.tolist(), "feedback": game.signals.tolist()},
        "adversaries": {
            "p": [float(x) for x in p],
            "q": [float(x) for x in q],
            "exact_p": [str(x) for x in p],
            "exact_q": [str(x) for x in q],
            "good_against_p": int(cost_p.argmin()),
            "good_against_q": int(cost_q.argmin()),
            "gap": float((cost_p + cost_q).min() - cost_p.min() - cost_q.min()),
        },
    }


def proof_of(cell: Cell) -> dict[str, Any]:
    """The certificate of a cell."""
    if cell.printed:
        return ct16_certificate()
    return certificate(analyse(ranking_game(cell.measure, cell.m, cell.k)))


def play(
    cell: Cell, learners: Sequence[str], horizons: Sequence[int], runs: int, say: Callable[[str], object]
) -> list[Played]:
    """Play both adversaries of a cell, every horizon by itself since learners are tuned to it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json"
        proof = proof_of(cell)
        path.write_text(json.dumps(proof))
        found = np.empty((len(learners), 2, len(horizons), runs))
        for side, (h, horizon) in product((0, 1), enumerate(horizons)):
            stream = f"adversary:path={path},side={'pq'[side]}"
            experiment = Experiment(tuple(learners), stream, cell.measure, cell.k, horizon, runs, seed=side)
            measure, at = experiment.make_measure(), np.array([horizon])
            for run in range(runs):
                rounds = experiment.rounds(run)
                best = best_values(measure, rounds, at)
                for n, learner in enumerate(experiment.make_learners()):
                    trace = simulate(
                        learner, rounds, k=cell.k, measure=measure, at=at, seed=experiment.learner_seed(run)
                    )
                    found[n, side, h, run] = regret(measure, trace, best)[0] / horizon
            say(f"{cell.measure} m = {cell.m} k = {cell.k}: {horizon:,} rounds on {'pq'[side]} done")
    gap = proof["adversaries"]["gap"]
    return [
        Played(cell, gap, learner, tuple(horizons), found[n, 0], found[n, 1]) for n, learner in enumerate(learners)
    ]


def table(results: Sequence[Played]) -> list[str]:
    """A table in Markdown, at the largest horizon; +- is the standard deviation over runs."""
    lines = [
        "| game | gap | learner | regret / T on p | on q | sum | exponent |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in results:
        name = f"`{r.cell.measure}` m = {r.cell.m}, k = {r.cell.k}" + (", CT16's pair" if r.cell.printed else "")
        on_p, on_q, total = (f"{x[-1].mean():.4f} ± {x[-1].std(ddof=1):.4f}" for x in (r.on_p, r.on_q, r.total))
        lines.append(f"| {name} | {r.gap:.4f} | `{r.learner}` | {on_p} | {on_q} | {total} | {r.exponent:.2f} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Play all cells."""
    parser = argparse.ArgumentParser(description="Play the certified adversaries of hopeless games.")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--page", type=Path, help="a page to put the table into")
    options = parser.parse_args(arguments)
    results: list[Played] = []
    for cell in CELLS:
        results += play(cell, LEARNERS, HORIZONS, options.runs, lambda text: sys.stderr.write(text + "\n"))
    lines = table(results)
    sys.stdout.write("\n".join(lines) + "\n")
    if options.page:
        put_into(options.page, BEGIN, lines)


if __name__ == "__main__":
    main()
