"""Cell decomposition of a game: the outcome distributions at which each action is optimal, and adjacent cells.

The module represents a cell as the cone {q >= 0: c_j . q >= 0 for all j} with c_j = loss_j - loss_i.
Floating-point linear programs propose, exact arithmetic decides: it rounds points to integers and checks them,
and it proves infeasibility by multipliers. If that fails, exact linear programs settle a rational game, and any
other game is undecided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from peekrank._util.progress import Progress, no_progress, subprogress
from peekrank.games.exact import flint
from peekrank.games.exact.linear import coordinates, independent_columns, rank
from peekrank.games.exact.numbers import PRECISIONS, Exact, UndecidedError, ball, unit
from peekrank.games.exact.programs import maximise, maximise_exactly
from peekrank.games.game import Game
from peekrank.types import Floats, Ints

Kind = Literal["pareto", "degenerate", "dominated"]

_BATCHES = 10  # of a thousand rays
_ROUNDING = 1 << 40  # denominator of rounded points of the simplex
_TOLERANCE = 1e-9  # of floating-point programs; exact arithmetic decides


@dataclass(frozen=True)
class Border:
    """Two neighbouring Pareto-optimal actions, their N+ (`neighborhood`), and a point where only N+ is optimal."""

    i: int
    j: int
    point: NDArray[Any]
    neighborhood: tuple[int, ...]


@dataclass(frozen=True)
class Cells:
    """A cell decomposition.

    ``duplicate_of[i]`` is the first action with the losses of i. ``kind`` and ``dimension`` (of the cell, -1 if it
    is empty) have one entry per action. ``borders`` holds pairs (i, j), both first among their duplicates: i runs
    over one action of each orbit under the game's symmetries, and j over the neighbours of i.
    """

    duplicate_of: Ints
    kind: tuple[Kind, ...]
    dimension: Ints
    borders: tuple[Border, ...]


def cells(game: Game, progress: Progress = no_progress) -> Cells:
    """Compute the cell decomposition of a game (ZT, Definitions 2 to 4).

    Parameters
    ----------
    game
        Any finite game.
    progress
        Callback that receives the amount done and the total.

    >>> decomposition = cells(Game.of([[0, 1], [1, 0], ["1/2", "1/2"]], [[0, 0]] * 3))
    >>> decomposition.kind, decomposition.borders[0].neighborhood
    (('pareto', 'pareto', 'degenerate'), (0, 1, 2))
    """
    duplicate_of = _duplicates(game)
    classes = np.unique(duplicate_of)
    twin_of = duplicate_of[orbits(game)]
    kind: dict[int, Kind] = {}
    inside: dict[int, Floats] = {}
    dimension = np.full(len(duplicate_of), len(game.outcomes) - 1)
    for i in map(int, classes):
        twin = int(twin_of[i])
        if twin in kind:
            kind[i], dimension[i] = kind[twin], dimension[twin]
            continue
        others = classes[classes != i]
        point = _interior(game, i, others)
        if point is None:
            dimension[i] = _dimension(game, i, others)
            kind[i] = "degenerate" if dimension[i] >= 0 else "dominated"
        else:
            kind[i], inside[i] = "pareto", point
    borders: list[Border] = []
    for n, (i, point) in enumerate(inside.items()):
        borders += _borders(game, i, kind, duplicate_of, point, subprogress(progress, n, len(inside)))
    kinds = tuple(kind[int(i)] for i in duplicate_of)
    return Cells(duplicate_of, kinds, dimension[duplicate_of], tuple(borders))


def orbits(game: Game) -> Ints:
    """Return the first action of each action's orbit under the game's symmetries."""
    orbit = np.arange(len(game.actions))
    while True:
        before = orbit.copy()
        for actions, _ in game.symmetries:
            least = np.minimum(orbit, orbit[actions])
            orbit[actions] = least
            orbit = np.minimum(orbit, least)
        if np.array_equal(before, orbit):
            return orbit


def _duplicates(game: Game) -> Ints:
    rows = np.moveaxis(game.numerators, 0, 1).reshape(len(game.actions), -1)
    first: dict[tuple[Any, ...], int] = {}
    return np.array([first.setdefault(tuple(row), i) for i, row in enumerate(rows.tolist())])


def _against(game: Game, i: int, others: Ints) -> tuple[Exact, Floats]:
    """Return the c_j of the others, exactly and as floats scaled to a largest entry of 1."""
    exact = game.numerators[:, others] - game.numerators[:, [i]]
    return exact, _unit_rows(game, exact)


def _unit_rows(game: Game, exact: Exact) -> Floats:
    rows = game.as_float(exact)
    scaled: Floats = rows / np.abs(rows).max(axis=1, keepdims=True)
    return scaled


def _interior(game: Game, i: int, others: Ints) -> Floats | None:
    """Return a distribution at which only action i is optimal, or None if its cell is not full-dimensional."""
    n = len(game.outcomes)
    if len(others) == 0:
        return np.full(n, 1 / n)
    exact, rows = _against(game, i, others)
    point = _deepest(rows, np.zeros((0, n)))
    if point is not None:
        q = _whole(point)
        products = exact @ q
        if q.min() > 0 and all(game.sign(numbers) > 0 for numbers in products.T.tolist()):
            return point
    if not game.rational:
        raise UndecidedError(f"whether action {game.actions[i]} is Pareto-optimal")
    if _worse(exact[0], rows):
        return None
    settled = maximise_exactly(*_depth_program(exact[0], np.zeros((0, n), dtype=np.int64)))
    return np.array([float(x) for x in settled.x[:-1]]) if settled.value > 0 else None


def _dimension(game: Game, i: int, others: Ints) -> int:
    """Return the dimension of a lower-dimensional cell of a rational game, or -1 if it is empty.

    The largest slacks, each capped at one, identify the inequalities that are tight throughout the cone.
    """
    n = len(game.outcomes)
    exact, floats = _against(game, i, others)
    if _worse(exact[0], floats):
        return -1
    constraints = np.vstack([exact[0], np.eye(n, dtype=np.int64)])
    m = len(constraints)
    one, nothing = np.eye(m, dtype=np.int64), np.zeros((m, n), dtype=np.int64)
    rows = np.block([[-constraints, one], [nothing, one]])
    slack = maximise_exactly(np.repeat([0, 1], [n, m]), rows, np.repeat([0, 1], m)).x[n:]
    return n - rank(constraints[[s == 0 for s in slack]]) - 1


def _worse(exact: Exact, rows: Floats) -> bool:
    """Return whether some mixture of the others is better under every outcome, so that the cell is empty."""
    actions, n = rows.shape
    constraints = np.block([[rows.T, np.ones((n, 1))], [np.ones((1, actions)), np.zeros((1, 1))]])
    try:
        optimum = maximise(np.repeat([0.0, 1.0], [actions, 1]), constraints, np.repeat([0.0, 1.0], [n, 1]))
    except UndecidedError:
        return False
    share = optimum.x[:-1] / np.abs(exact.astype(np.float64)).max(axis=1)
    return bool(optimum.value > _TOLERANCE and (_whole(share / share.max()) @ exact.astype(object)).max() < 0)


def pair_count(game: Game, known: Cells) -> int:
    """Count the neighbouring pairs. All actions of an orbit have equally many neighbours."""
    neighbours = Counter(border.i for border in known.borders)
    first = known.duplicate_of[orbits(game)]
    return sum(neighbours[int(first[i])] for i in np.unique(known.duplicate_of)) // 2


def _borders(
    game: Game, i: int, kind: dict[int, Kind], duplicate_of: Ints, inside: Floats, progress: Progress
) -> Iterator[Border]:
    """Yield the borders of a Pareto-optimal action."""
    pareto = np.array([j for j, of in kind.items() if of == "pareto" and j != i], dtype=np.int64)
    if len(pareto) == 0:
        return
    rest = [j for j, of in kind.items() if of != "pareto"]
    try:
        facets = _facets(game, i, pareto, inside, progress)
    except UndecidedError:
        if not game.rational:
            raise
        facets = {int(j): None for j in pareto if _touch(game, i, int(j), pareto)}
    for j, near in facets.items():
        toward = game.difference(j, i)
        between = [d for d in rest if kind[d] == "degenerate" and _parallel(game.difference(d, i)[0], toward[0])]
        strict = np.setdiff1d([*pareto, *rest], [j, *between])
        point = _border_point(game, i, j, strict, near)
        if point is None:
            continue
        neighborhood = np.flatnonzero(np.isin(duplicate_of, np.array([i, j, *between])))
        yield Border(i, j, point, tuple(map(int, neighborhood)))


def _facets(game: Game, i: int, others: Ints, inside: Floats, progress: Progress) -> dict[int, Floats | None]:
    """Return the neighbours of i, each with a border point if one is known (Clarkson's algorithm).

    The algorithm tests each action against the facets found so far. A point that only this action cuts off leads
    to a new facet.
    """
    exact, rows = _against(game, i, others)
    shaken = inside * (1 + 1e-3 * np.random.default_rng(0).random(len(inside)))  # in general position
    if (rows @ shaken).min() > 0:
        inside = shaken
    found = _shoot(rows, inside)
    for j in range(len(others)):
        while j not in found:
            facets = list(found)
            least, point, multipliers = least_within(rows[j], rows[facets])
            if least > -_TOLERANCE:
                if not _redundant(game, exact[:, j], exact[:, facets], multipliers):
                    raise UndecidedError(
                        f"whether actions {game.actions[i]} and {game.actions[others[j]]} are neighbours"
                    )
                break
            new = _first_hits(rows, inside, point[None])
            if not new.keys() - found.keys():
                raise UndecidedError(f"the border of action {game.actions[i]}")
            found |= new
        progress(j + 1, len(others))
    least_margin = 1e-6 / len(inside)  # a point this far from other facets survives its rounding
    return {int(others[f]): point if margin > least_margin else None for f, (point, margin) in found.items()}


def _shoot(rows: Floats, inside: Floats) -> dict[int, tuple[Floats, float]]:
    """Return the facets that random rays from `inside` hit first, each with the hit farthest from other facets."""
    rng = np.random.default_rng(0)
    best: dict[int, tuple[Floats, float]] = {}
    for _ in range(_BATCHES):
        hits = _first_hits(rows, inside, rng.dirichlet(np.full(len(inside), 0.3), size=1000))
        best |= {f: hit for f, hit in hits.items() if f not in best or hit[1] > best[f][1]}
    return best


def _first_hits(rows: Floats, inside: Floats, ends: Floats) -> dict[int, tuple[Floats, float]]:
    """Return the rows that rays from `inside` hit first, each with its hit of largest margin and that margin."""
    depth = (rows @ inside)[:, None]
    fall = depth - rows @ ends.T
    ratio = np.where(fall > 0, depth / np.where(fall > 0, fall, 1), np.inf)
    first, rays = ratio.argmin(axis=0), np.arange(len(ends))
    points = inside + np.minimum(ratio[first, rays], 1)[:, None] * (ends - inside)
    distance = rows @ points.T
    distance[first, rays] = np.inf
    margin = np.minimum(distance.min(axis=0), points.min(axis=1))
    ascending = np.argsort(margin, kind="stable")  # the dictionary keeps the last hit of each row
    return {int(first[n]): (points[n], float(margin[n])) for n in ascending if ratio[first[n], n] < 1}


def _touch(game: Game, i: int, j: int, pareto: Ints) -> bool:
    """Decide by an exact program whether two Pareto-optimal actions of a rational game are neighbours."""
    exact = _against(game, i, pareto[pareto != j])[0][0]
    return bool(maximise_exactly(*_depth_program(exact, game.difference(j, i))).value > 0)


def _border_point(game: Game, i: int, j: int, strict: Ints, near: Floats | None) -> NDArray[Any] | None:
    """Return a distribution at which i and j tie and all of `strict` are worse, or None if none exists.

    The function corrects one coordinate r of the rounded point q by -(c_j . q) / c_j[r]. If that is irrational, it
    carries a ball through all other inequalities, which proves that the point exists, and returns floats near it.
    """
    tie = game.difference(j, i)
    exact = game.numerators[:, strict] - game.numerators[:, [i]]
    if near is None:
        near = _deepest(_unit_rows(game, exact), _unit_rows(game, tie[:, None]))
    if near is not None:
        q = _whole(near)
        r = int(np.argmax(np.abs(game.as_float(tie))))
        point = (
            _corrected(tie[0], exact[0], q, r) if game.rational else _corrected_in_balls(game, tie, exact, q, r)
        )
        if point is not None:
            return point
    if not game.rational:
        raise UndecidedError(f"the border of actions {game.actions[i]} and {game.actions[j]}")
    settled = maximise_exactly(*_depth_program(exact[0], tie))
    if settled.value == 0:  # it was a facet in floating point only
        return None
    x = settled.x[:-1]
    return np.array([Fraction(int(part.p), int(part.q)) for part in x / sum(x)])


def _corrected(tie: Exact, strict: Exact, q: Exact, r: int) -> NDArray[Any] | None:
    pivot = int(tie[r])
    moved = q * abs(pivot)
    moved[r] -= int(tie @ q) * (1 if pivot > 0 else -1)
    if moved.min() <= 0 or any(x <= 0 for x in strict.astype(object) @ moved):
        return None
    total = sum(moved)
    return np.array([Fraction(x, total) for x in moved])


def _corrected_in_balls(game: Game, tie: Exact, strict: Exact, q: Exact, r: int) -> Floats | None:
    if q.min() <= 0:
        return None
    for bits in PRECISIONS[1:]:
        units = [unit(b, bits) for b in game.bases]
        with flint.ctx.workprec(bits):
            shift = -ball(tie @ q, units) / ball(tie[:, r], units)
            pairs = zip((strict @ q).T, strict[:, :, r].T, strict=True)
            worse = (ball(at_q, units) + shift * ball(slope, units) > 0 for at_q, slope in pairs)
            if flint.arb(int(q[r])) + shift > 0 and all(worse):
                moved: Floats = q.astype(np.float64)
                moved[r] += float(shift)
                moved *= game.scale_values[game.column]  # from the cone of the numerators to that of the losses
                moved /= moved.sum()
                return moved
    return None


def _redundant(game: Game, c: Exact, facets: Exact, multipliers: Floats) -> bool:
    """Return whether c . q >= 0 provably follows from the facets and q >= 0.

    The proof is c >= a sum of positive multiples of facets. Irrational vectors all lie in a rational space. If
    its dimension is the number of facets in the sum, and these are independent, then c is exactly a combination of
    them, and balls around its coefficients show their signs.
    """
    support = np.flatnonzero(multipliers > _TOLERANCE)
    used = facets[:, support]
    if game.rational:
        slack = _unit_rows(game, c[:, None])[0] - multipliers[support] @ _unit_rows(game, used)
        tight = np.abs(slack) < 1e-7
        solution = coordinates(used[0][:, tight], c[:, tight])
        return solution is not None and _proves(*solution, used[0], c[0])
    pivots = independent_columns(np.concatenate([*np.moveaxis(used, 1, 0), c]))
    if len(pivots) != len(support):
        return False
    for bits in PRECISIONS[1:]:
        with flint.ctx.workprec(bits):
            units = [unit(b, bits) for b in game.bases]
            matrix = flint.arb_mat([[ball(used[:, f, r], units) for f in range(len(support))] for r in pivots])
            try:
                weights = matrix.solve(flint.arb_mat([[ball(c[:, r], units)] for r in pivots]))
            except ZeroDivisionError:
                continue
            if all(weights[n, 0] > 0 for n in range(len(support))):
                return True
    return False


def _proves(x: Exact, d: int, rows: Exact, c: Exact) -> bool:
    """Return whether the multipliers x / d are nonnegative and the rows they sum up are nowhere above c."""
    sums = x[0].astype(object) @ rows.astype(object)
    return bool(np.all(x >= 0) and np.all(sums <= d * c.astype(object)))


def _parallel(c: Exact, d: Exact) -> bool:
    """Return whether the rational vector c is a multiple of d."""
    r = int(np.flatnonzero(d)[0])
    return bool(np.array_equal(c.astype(object) * d[r], d.astype(object) * c[r]))


def _deepest(rows: Floats, equal: Floats) -> Floats | None:
    try:
        optimum = maximise(*_depth_program(rows, equal))
    except UndecidedError:
        return None
    return optimum.x[:-1] / optimum.x[:-1].sum() if optimum.value > _TOLERANCE else None


def _depth_program(rows: NDArray[Any], equal: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the program: maximise t s.t. rows @ q >= t, equal @ q = 0, n q >= t, sum q <= 1, over (q, t)."""
    n = rows.shape[1]
    q = np.vstack([-rows, -equal, equal, -n * np.eye(n, dtype=np.int64), np.ones((1, n), dtype=np.int64)])
    t = np.repeat([1, 0, 1, 0], [len(rows), 2 * len(equal), n, 1])
    limits = np.repeat([0, 1], [len(q) - 1, 1])
    return np.repeat([0, 1], [n, 1]), np.hstack([q, t[:, None]]), limits


def least_within(c: Floats, facets: Floats) -> tuple[float, Floats, Floats]:
    """Minimise c . q over the simplex within the facets.

    Return the value, the point and the facets' multipliers.
    """
    n = len(c)
    optimum = maximise(-c, np.vstack([-facets, np.ones((1, n))]), np.repeat([0.0, 1.0], [len(facets), 1]))
    return -optimum.value, optimum.x, optimum.multipliers[:-1]


def _whole(point: Floats) -> Exact:
    return np.array([round(x * _ROUNDING) for x in point.tolist()], dtype=object)
