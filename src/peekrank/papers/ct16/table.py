"""CT16 Table 1: two adversaries that one answer cannot distinguish, and Theorem 5.2."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from peekrank.games.observability import signals
from peekrank.games.ranking import ranking_game
from peekrank.papers.record import Claim, Options, Results
from peekrank.reports.markup import Table
from peekrank.reports.numbers import number
from peekrank.surrogates import NDCGSquared

PAIR = {  # relevance, p, p tilde
    "000": ("0", "0"),
    "110": ("0.1", "0.3"),
    "101": ("0.15", "0"),
    "011": ("0.05", "0"),
    "100": ("0.2", "0.15"),
    "010": ("0.3", "0.15"),
    "001": ("0.2", "0.4"),
    "111": ("0", "0"),
}
SIDES = ("p", "p~")
MEAN = ("9/20", "9/20", "2/5")
NORMALISED = {"p": (0.3533, 0.3920, 0.3226), "p~": (0.3339, 0.3339, 0.4000)}
BEST = {"p": {"213"}, "p~": {"312", "321"}}  # objects in the order shown
_PRINTED = 5e-5  # four decimals
_SAME = 1e-12


def certificate() -> dict[str, Any]:
    """Return the pair in the format of a certificate. The gap is the smallest total loss of any ranking.

    >>> round(certificate()["adversaries"]["gap"], 4)
    0.0284
    """
    game = ranking_game("ndcg", m=3, k=1)
    names = ["".join(map(str, row)) for row in product((0, 1), repeat=3)]
    p, q = ([Fraction(PAIR[name][side]) for name in names] for side in (0, 1))
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


def reproduce(options: Options) -> Results:  # noqa: ARG001 - nothing random
    """Check the table, the expectations below it, and the step from them to linear regret."""
    rows = [(side, *(pair[n] for pair in PAIR.values())) for n, side in enumerate(SIDES)]
    table = Table(("relevance", *PAIR), rows)
    frame = pl.DataFrame([{"relevance": r, "p": float(p), "p_tilde": float(q)} for r, (p, q) in PAIR.items()])
    return Results(list(claims(PAIR)), {"table-1": table}, data={"table-1": frame})


def claims(pair: dict[str, tuple[str, str]]) -> Iterator[Claim]:
    """Yield the paper's claims on a pair."""
    relevance = np.array([[int(grade) for grade in r] for r in pair])
    distributions = {side: [Fraction(sides[n]) for sides in pair.values()] for n, side in enumerate(SIDES)}
    for side, distribution in distributions.items():
        yield Claim(f"{side} is a distribution", "total 1", str(sum(distribution)), sum(distribution) == 1)
    for side, distribution in distributions.items():
        mean = tuple(str(sum(c for c, r in zip(distribution, row, strict=True) if r)) for row in relevance.T)
        yield Claim(f"expected relevance on {side}", ", ".join(MEAN), ", ".join(mean), mean == MEAN)
    targets = np.array([NDCGSquared().target(row) for row in relevance])
    for side, distribution in distributions.items():
        found = np.array(distribution, dtype=float) @ targets
        yield Claim(
            f"expected gain over largest DCG on {side}",
            ", ".join(f"{x:.4f}" for x in NORMALISED[side]),
            ", ".join(f"{x:.4f}" for x in found),
            bool((np.abs(found - NORMALISED[side]) < _PRINTED).all()),
        )
    yield from _game_claims(relevance, distributions)


def _game_claims(relevance: Any, distributions: dict[str, list[Fraction]]) -> Iterator[Claim]:
    game = ranking_game("ndcg", m=3, k=1)
    columns = [game.outcomes.index(" ".join(map(str, row))) for row in relevance]
    exact = {side: np.array(distribution, dtype=object) for side, distribution in distributions.items()}
    rows = signals(game, range(len(game.actions))).rows[:, columns].astype(object)
    apart = int(np.count_nonzero(rows @ exact["p"] != rows @ exact["p~"]))
    yield Claim(
        "one answer does not distinguish p and p~",
        "all answers equally likely on both, for every ranking",
        f"{len(rows) - apart} of {len(rows)} are",
        apart == 0,
    )
    costs = {side: game.loss[:, columns] @ distribution.astype(float) for side, distribution in exact.items()}
    shown = ["".join(str(int(item) + 1) for item in action.split()) for action in game.actions]
    best = {side: {shown[a] for a in np.flatnonzero(cost < cost.min() + _SAME)} for side, cost in costs.items()}
    for side in SIDES:
        yield Claim(f"best rankings on {side}", _words(BEST[side]), _words(best[side]), best[side] == BEST[side])
    both = costs["p"] - costs["p"].min() + costs["p~"] - costs["p~"].min()
    gap = float(both.min())
    yield Claim(
        "Theorem 5.2: on p and p~ together every ranking loses a constant per round",
        "more than 0",
        f"{number(gap)} at least",
        gap > _SAME,
    )
    least = shown[int(both.argmin())]
    played = best["p"] | best["p~"]
    yield Claim(
        "Theorem 5.2, proof: the learner plays a best ranking of p or of p~",
        f"no other costs less on both together than {_words(played)}",
        f"{least} does, {both.min():.4f} against {min(both[shown.index(name)] for name in played):.4f}"
        if least not in played
        else f"{least} costs least",
        least in played,
    )


def _words(rankings: set[str]) -> str:
    return " or ".join(sorted(rankings))
