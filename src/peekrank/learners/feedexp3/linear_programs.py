"""The two linear programs of a game: the estimates of least width, and the exploration of least cost.

The functions import SciPy themselves, because that takes longer than all other imports together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from peekrank._util.extras import extra
from peekrank.games.game import Game
from peekrank.learners.feedexp3.signals import SignalGroups
from peekrank.types import Floats, Ints

ADVICE = "No learner can help; show more feedback or change the measure"
_EXACT = 1e-10  # largest bias of an estimate, relative to the largest loss difference
_INFEASIBLE = 2  # SciPy's status code
_NOTHING = 1e-9  # numerical zero of the solver


def estimates(game: Game, class_of: Ints, first: Ints, seen: SignalGroups) -> tuple[Floats, Floats]:
    """Return the v of least width, as (rows, classes), and the width of each group.

    Relabellings that leave the game unchanged map the v of one class to another's, so one variable serves a whole
    orbit of (class, row). Averaging over relabellings shows that this loses nothing.
    """
    with extra("games"):
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, eye_array, hstack, vstack

    loss = game.loss[first]
    wanted = loss - loss.mean(axis=0)  # the reference is common to all classes and does not depend on labels
    size = np.abs(wanted).max()
    N, R = len(first), len(seen.owner)
    moves = [_moved(game, class_of, first, seen, *symmetry) for symmetry in game.symmetries]
    variable = _orbits([(c[:, None] * R + r).ravel() for c, r in moves], N * R).reshape(N, R)
    row = _orbits([r for _, r in moves], R)
    kind = _orbits([_induced(seen.owner, r) for _, r in moves], int(seen.owner.max()) + 1)
    heads = np.unique(_orbits([c for c, _ in moves], N), return_index=True)[1]

    X, Y, G = (int(numbers.max()) + 1 for numbers in (variable, row, kind))
    row_of, kind_of = np.empty(X, dtype=np.int64), np.empty(Y, dtype=np.int64)
    row_of[variable] = row
    kind_of[row] = kind[seen.owner]
    one_row, one_kind = _choice(row_of, Y), _choice(kind_of, G)
    x, y, no_x = eye_array(X), eye_array(Y), csr_array((Y, X))
    within = vstack(  # columns: the v, the minimum and maximum of a row, the width of a group
        [
            hstack([-x, one_row, csr_array((X, Y)), csr_array((X, G))]),
            hstack([x, csr_array((X, Y)), -one_row, csr_array((X, G))]),
            hstack([no_x, -y, y, -one_kind]),
        ]
    )
    unbiased = vstack([csr_array(seen.outcomes.T) @ _choice(variable[i], X) for i in heads])
    found = linprog(
        np.r_[np.zeros(X + 2 * Y), np.bincount(kind)],
        A_ub=within,
        b_ub=np.zeros(within.shape[0]),
        A_eq=hstack([unbiased, csr_array((unbiased.shape[0], 2 * Y + G))]),
        b_eq=(wanted[heads] / size).ravel(),
        bounds=(None, None),
    )
    if found.status == _INFEASIBLE:
        raise ValueError(f"hopeless: no combination of the feedback estimates the loss differences. {ADVICE}")
    solution = _solution(found)
    v = solution[variable].T
    v -= (v.max(axis=1, keepdims=True) + v.min(axis=1, keepdims=True)) / 2
    used = (solution[-G:] > _NOTHING)[kind][seen.owner]
    v[~used] = 0
    # Remove the remaining bias of the solution, up to a constant common to all classes.
    bias = wanted.T / size - seen.outcomes.T @ v
    bias -= bias.mean(axis=1, keepdims=True)
    # A singular value this small of a 0-1 matrix is a rounding error and counts as 0.
    v[used] += np.linalg.pinv(seen.outcomes[used].T, rtol=_EXACT) @ bias
    off = wanted.T / size - seen.outcomes.T @ v
    if np.ptp(off, axis=1).max() > _EXACT:
        raise ValueError("the losses of this game differ too much in size for estimates in floating point")
    v *= size
    width = np.zeros(G)  # groups of the same orbit must have equal widths despite rounding
    np.maximum.at(width, kind[seen.owner], np.ptp(v, axis=1))
    return np.ascontiguousarray(v), width[kind]


def _moved(
    game: Game, class_of: Ints, first: Ints, seen: SignalGroups, actions: Ints, outcomes: Ints
) -> tuple[Ints, Ints]:
    """Return the permutations of classes and rows under a symmetry of the game."""
    rows = np.empty(len(seen.owner), dtype=np.int64)
    here = np.take_along_axis(seen.row, game.signals, axis=1)  # the row of each action and outcome
    rows[here] = here[actions][:, outcomes]
    return class_of[actions[first]], rows


def _induced(owner: Ints, rows: Ints) -> Ints:
    """Return the permutation of groups that a permutation of rows induces."""
    moved = np.empty(owner.max() + 1, dtype=np.int64)
    moved[owner] = owner[rows]
    return moved


def _orbits(permutations: list[Ints], n: int) -> Ints:
    """Return the index of each point's orbit."""
    with extra("games"):
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

    here, there = np.tile(np.arange(n), len(permutations)), np.concatenate([np.empty(0, np.int64), *permutations])
    graph = csr_array((np.ones(len(here)), (here, there.astype(np.int64))), shape=(n, n))
    orbits: Ints = connected_components(graph, directed=False)[1].astype(np.int64)
    return orbits


def _choice(column: Ints, columns: int) -> Any:
    """Return the 0-1 matrix with a 1 in the given column of each row."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(column)), (np.arange(len(column)), column)), shape=(len(column), columns))


def _solution(found: Any) -> Floats:
    if found.x is None:
        raise ValueError(f"SciPy could not solve a linear program of this game: {found.message}")
    x: Floats = found.x
    return x


def exploration(game: Game, action: Ints, seen: SignalGroups, share: Floats) -> Floats:
    """Return the distribution over actions with these group shares that has the least worst-case loss."""
    from scipy.optimize import linprog

    loss = game.loss
    least = loss[action].min(axis=0)
    useful = share[seen.group] > 0
    orbit = _orbits([actions for actions, _ in game.symmetries], len(game.actions))
    orbits, members = np.unique(orbit[useful], return_inverse=True)
    count = np.bincount(members)
    mean = np.stack([np.bincount(members, column[useful]) for column in loss.T]) / count
    groups = np.stack([np.bincount(members, seen.group[useful] == g) for g in np.flatnonzero(share)]) / count
    found = linprog(
        np.r_[np.zeros(len(orbits)), 1],
        A_ub=np.hstack([mean, -np.ones((len(mean), 1))]),
        b_ub=least,
        A_eq=np.hstack([groups, np.zeros((len(groups), 1))]),
        b_eq=share[share > 0],
        bounds=[(0, None)] * len(orbits) + [(None, None)],
    )
    q = np.zeros(len(seen.group))
    q[useful] = (_solution(found)[:-1].clip(0) / count)[members]
    by_group = np.bincount(seen.group, q)
    q *= np.divide(share, by_group, out=np.zeros_like(share), where=by_group > 0)[seen.group]
    return q
