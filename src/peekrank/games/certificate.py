"""Certificates: proofs of a game's class that NumPy alone can check (docs/theory/games.md).

A certificate is a JSON-serialisable dictionary. It contains the game itself (losses in floating point, feedback
symbols as numbers), its symmetries, and

- for rate ``sqrt(T)``: every neighbouring pair, with a distribution at which only this pair is optimal and an
  *observer*, which estimates the loss difference from the feedback of N+; and for the first action of each orbit
  a proof that it has no further neighbours: the excess loss of any other action is at least a sum of multiples of
  the excess losses of its neighbours;
- for rate ``T^(2/3)``: for every Pareto-optimal action an observer of its loss difference to the first one from
  all feedback, and an *unobservable pair* of neighbours with a direction that the feedback of its N+ does not
  reveal but that changes the difference;
- for rate ``T``: an unobservable pair for all feedback, and two *adversaries* that no feedback can distinguish,
  although the excess losses of every action against the two add up to at least ``gap``. On one of them, regret is
  at least gap T / 2.

A game with more than ten thousand pairs lists them up to symmetry: those of the first action of each orbit.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from peekrank.games.analysis import Analysis
from peekrank.games.cells import Border, Cells, least_within, pair_count
from peekrank.games.exact import flint
from peekrank.games.exact.numbers import PRECISIONS, UndecidedError, ball
from peekrank.games.exact.programs import maximise
from peekrank.games.game import Game
from peekrank.games.observability import Observer, Signals, observers, signals
from peekrank.games.rates import Rate
from peekrank.types import Floats, Ints

FORMAT = "peekrank certificate 1"
MAX_PAIRS = 10_000
_CANDIDATES = 4
_DENOMINATOR = 1 << 24


class Adversaries(NamedTuple):
    """Two outcome distributions p and q that no feedback can distinguish, and actions i and j good against them.

    ``gap`` is a certified lower bound on (loss_a - loss_i) . p + (loss_a - loss_j) . q over all actions a.
    """

    p: list[Fraction]
    q: list[Fraction]
    i: int
    j: int
    gap: float


def certificate(analysis: Analysis) -> dict[str, Any]:
    """Return the proof of an analysis, as a dictionary for JSON.

    >>> from peekrank.games.analysis import analyse
    >>> from peekrank.games.ranking import ranking_game
    >>> proof = certificate(analyse(ranking_game("ndcg", m=3, k=1)))
    >>> proof["rate"], round(proof["adversaries"]["gap"], 4)
    ('T', 0.0882)
    """
    game, known = analysis.game, analysis.cells
    if analysis.rate is None or known is None:
        raise UndecidedError(f"the rate is undecided, so it has no certificate: {analysis.undecided}")
    everything = signals(game, range(len(game.actions)))
    proof: dict[str, Any] = {
        "format": FORMAT,
        "rate": str(analysis.rate),
        "exact": game.rational,
        "game": {
            "loss": game.loss.tolist(),
            "feedback": game.signals.tolist(),
            "actions": list(game.actions),
            "outcomes": list(game.outcomes),
            "symbols": [str(symbol) for symbol in game.symbols],
        },
        "kinds": list(known.kind),
        "duplicate_of": known.duplicate_of.tolist(),
        "symmetries": [{"actions": a.tolist(), "outcomes": o.tolist()} for a, o in game.symmetries],
    }
    if analysis.rate == Rate.SQRT:
        of_borders = [
            o for b in known.borders for o in observers(game, [(b.i, b.j)], signals(game, b.neighborhood))
        ]
        few = pair_count(game, known) <= MAX_PAIRS
        proof["neighbours"] = [_border(b) for b in (all_borders(game, known) if few else known.borders)]
        proof["observers"] = [_observer(o) for o in (_everywhere(game, known, of_borders) if few else of_borders)]
        proof["no_neighbours"] = [
            apart for i in {b.i: None for b in known.borders} for apart in _apart(game, known, i)
        ]
    if analysis.rate == Rate.TWO_THIRDS:
        first, *others = (a for a, kind in enumerate(known.kind) if kind == "pareto")
        proof["observers"] = [_observer(o) for o in observers(game, [(a, first) for a in others], everything)]
    if analysis.unobservable_pair is not None and analysis.unobservable_direction is not None:
        actions = (
            analysis.unobservable_pair.neighborhood
            if analysis.rate == Rate.TWO_THIRDS
            else range(len(game.actions))
        )
        proof["unobservable_pair"] = {
            **_border(analysis.unobservable_pair),
            "actions": [int(a) for a in actions],
            "direction": [int(x) for x in analysis.unobservable_direction],
        }
    if analysis.rate == Rate.LINEAR:
        pair = adversaries(analysis, everything)
        proof["adversaries"] = {
            "p": [float(x) for x in pair.p],
            "q": [float(x) for x in pair.q],
            "exact_p": [str(x) for x in pair.p],
            "exact_q": [str(x) for x in pair.q],
            "good_against_p": pair.i,
            "good_against_q": pair.j,
            "gap": pair.gap,
        }
    return proof


def adversaries(analysis: Analysis, seen: Signals | None = None) -> Adversaries:
    """Find two adversaries for a hopeless game, with the largest gap among a few of the most different actions.

    The program maximises gap subject to (loss_a - loss_i) . p + (loss_a - loss_j) . q >= gap for all actions a,
    over distributions p and q whose signals agree. The function rounds the solution to p = c + v, q = c - v, where
    v is a rational combination of unobservable directions, and then computes the gap in balls.

    >>> from peekrank.games.analysis import analyse
    >>> from peekrank.games.ranking import ranking_game
    >>> round(adversaries(analyse(ranking_game("ap", m=3, k=1))).gap, 3)
    0.125

    References
    ----------
    CT16 Theorem 5.2 gives such a pair for NDCG with m = 3 and k = 1; Piccolboni & Schindelhauer (2001), Theorem 3.
    """
    game, blind = analysis.game, analysis.unobservable_pair
    if analysis.rate != Rate.LINEAR or blind is None:
        raise ValueError(f"the rate of the game is {analysis.rate}; only a game of rate T has such adversaries")
    seen = seen or signals(game, range(len(game.actions)))
    for i, j, p, q in _candidates(game, blind, seen, analysis.unobservable_direction):
        gap = _gap(game, (i, j), (p, q))
        if gap > 0:
            return Adversaries(list(p), list(q), i, j, gap)
    raise UndecidedError("a pair of adversaries in rational numbers")


def _candidates(game: Game, blind: Border, seen: Signals, unseen: Any) -> Iterator[tuple[int, int, Any, Any]]:
    """Yield pairs of rational distributions that no feedback can distinguish, the best first.

    The last resort moves from the border of the pair to both sides along the unobservable direction.
    """
    loss, i = game.loss - game.loss.min(axis=0), blind.i
    loss = loss / loss.max()
    different = np.argsort(-np.abs(loss - loss[i]).sum(axis=1), kind="stable")[:_CANDIDATES]
    try:
        trials = [(*_best_pair(loss, i, int(j), seen), int(j)) for j in (blind.j, *different)]
        _, p, q, j = max(trials, key=lambda trial: trial[0])
    except UndecidedError:
        p = q = np.zeros(0)
    if p.sum() > 0 and q.sum() > 0:
        basis = seen.unobservable_directions.T.astype(np.float64)
        coordinates = np.linalg.lstsq(basis, (p - q) / 2, rcond=None)[0]
        directions = seen.unobservable_directions.astype(object)
        move = np.array([_fraction(x) for x in coordinates], dtype=object) @ directions
        for mixing in (1e-6, 1e-4, 1e-2):  # some weight on every outcome absorbs the rounding
            centre = np.array([_fraction(x) for x in (1 - mixing) * (p + q) / 2 + mixing / len(p)])
            centre, shrunk = centre / centre.sum(), move * _fraction(1 - mixing)
            if (centre - abs(shrunk)).min() >= 0:
                yield i, j, centre + shrunk, centre - shrunk
    point = np.array([Fraction(x) for x in blind.point])
    move = unseen.astype(object) * min(x / abs(int(v)) for x, v in zip(point, unseen, strict=True) if v)
    total = point.sum()
    yield i, blind.j, (point + move) / total, (point - move) / total
    yield i, blind.j, (point - move) / total, (point + move) / total


def all_borders(game: Game, known: Cells) -> list[Border]:
    """Return every neighbouring pair once, including those that follow by symmetry."""
    borders = []
    for n, i, j, actions, outcomes in _all_pairs(game, known):
        border = known.borders[n]
        point = np.empty_like(border.point)
        point[outcomes] = border.point
        borders.append(Border(i, j, point, tuple(sorted(int(actions[a]) for a in border.neighborhood))))
    return borders


def _everywhere(game: Game, known: Cells, observers: list[Observer]) -> Iterator[Observer]:
    """Yield the observers of all pairs, in the order of `all_borders`, from those of the listed borders."""
    for n, i, j, actions, outcomes in _all_pairs(game, known):
        o = observers[n]
        action = actions[o.action]
        shows = [int(np.argmax(game.signals[a] == s)) for a, s in zip(o.action, o.symbol, strict=True)]
        yield Observer(i, j, action, game.signals[action, outcomes[shows]], o.value)


def _all_pairs(game: Game, known: Cells) -> Iterator[tuple[int, int, int, Ints, Ints]]:
    """Yield every neighbouring pair (i, j) once, with its border's number and the symmetry that maps to it."""
    done: set[frozenset[int]] = set()
    for actions, outcomes in _group(game):
        for n, border in enumerate(known.borders):
            i, j = (int(known.duplicate_of[actions[a]]) for a in (border.i, border.j))
            if frozenset((i, j)) not in done:
                done.add(frozenset((i, j)))
                yield n, i, j, actions, outcomes


def _group(game: Game) -> Iterator[tuple[Ints, Ints]]:
    """Yield the identity, and for each other action a symmetry that maps the first action of its orbit to it."""
    reached: dict[int, tuple[Ints, Ints]] = {}
    identity = (np.arange(len(game.actions)), np.arange(len(game.outcomes)))
    yield identity
    for start in range(len(game.actions)):
        if start in reached:
            continue
        reached[start] = identity
        queue = [start]
        for action in queue:
            for actions, outcomes in game.symmetries:
                image = int(actions[action])
                if image not in reached:
                    so_far = reached[action]
                    reached[image] = (actions[so_far[0]], outcomes[so_far[1]])
                    queue.append(image)
                    yield reached[image]


def _apart(game: Game, known: Cells, i: int) -> Iterator[dict[str, Any]]:
    """Yield, for each action that is no neighbour of i, multiples of the neighbours' excess losses below its own.

    Wherever all neighbours are worse than i, that action is worse too: its inequality adds no border to the cell.
    """
    near = [b.j for b in known.borders if b.i == i]
    lost = (game.loss - game.loss[i]) / np.abs(game.loss - game.loss[i]).max()
    for j in np.setdiff1d(known.duplicate_of, [i, *near]):
        _, _, multipliers = least_within(lost[j], lost[near])
        used = np.flatnonzero(multipliers > 1e-9)
        tight = np.abs(lost[j] - multipliers @ lost[near]) < 1e-7  # linear programs are not exact
        multiples = np.linalg.lstsq(lost[near][used][:, tight].T, lost[j][tight], rcond=None)[0]
        yield {"i": i, "j": int(j), "of": [near[n] for n in used], "multiples": multiples.clip(0).tolist()}


def _best_pair(loss: Floats, i: int, j: int, seen: Signals) -> tuple[float, Floats, Floats]:
    """Return the largest gap for i and j, with p and q. Two inequalities stand for each equality."""
    n = loss.shape[1]
    rows = np.unique(np.hstack([loss[i] - loss, loss[j] - loss]), axis=0)
    equal = seen.rows.astype(np.float64)
    nothing = np.zeros((len(equal), 1))
    constraints = np.vstack(
        [
            np.hstack([rows, np.ones((len(rows), 1))]),
            np.hstack([equal, -equal, nothing]),
            np.hstack([-equal, equal, nothing]),
            np.r_[np.ones(n), np.zeros(n + 1)][None],
        ]
    )
    limits = np.r_[np.zeros(len(constraints) - 1), 1.0]
    gap, x, _ = maximise(np.r_[np.zeros(2 * n), 1.0], constraints, limits)
    return gap, x[:n], x[n : 2 * n]


def _gap(game: Game, good: tuple[int, int], pair: tuple[Any, Any]) -> float:
    """Return a certified lower bound on the minimum over a of (loss_a - loss_i) . p + (loss_a - loss_j) . q."""
    bits = PRECISIONS[1]
    least = float("inf")
    every = list(product(range(len(game.bases)), range(len(game.scales))))
    balls = dict(zip(every, game.weights(every, bits), strict=True))
    common = lcm(*(x.denominator for side in pair for x in side))
    whole = [np.array([int(x * common) for x in side], dtype=object) for side in pair]
    with flint.ctx.workprec(bits):
        for a in range(len(game.actions)):
            total = flint.arb(0)
            for other, weights in zip(good, whole, strict=True):
                rows, keys = game.terms(game.difference(a, other))
                total += ball(rows.astype(object) @ weights, [balls[key] for key in keys])
            least = min(least, float(np.nextafter(float((total / common).lower()), -np.inf)))
    return least


def _fraction(x: float) -> Fraction:
    return Fraction(round(x * _DENOMINATOR), _DENOMINATOR)


def _border(border: Border) -> dict[str, Any]:
    return {
        "i": border.i,
        "j": border.j,
        "point": [float(x) for x in border.point],
        "neighborhood": list(border.neighborhood),
    }


def _observer(o: Observer) -> dict[str, Any]:
    return {
        "i": o.i,
        "j": o.j,
        "action": [int(a) for a in o.action],
        "symbol": [int(s) for s in o.symbol],
        "value": o.value,
    }
