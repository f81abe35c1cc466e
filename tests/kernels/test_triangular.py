"""Triangular factors against NumPy's dense algebra."""

from __future__ import annotations

import numpy as np
import pytest

from peekrank.kernels.triangular import (
    cholesky,
    panel,
    rotate,
    row_ends,
    solve,
    solve_transposed,
    square,
    whole_blocks,
)
from peekrank.types import Floats, Ints

Factor = tuple[Floats, Ints, Floats]
SIZES = [1, 2, 7, 8, 9, 16, 21, 40, 300]


def filled_up(rows: Floats) -> Floats:
    """Columns of zeros to the next multiple of eight."""
    return np.pad(rows, ((0, 0), (0, whole_blocks(rows.shape[1]) - rows.shape[1])))


def rotated(rows: Floats, answers: Floats, diagonal: float = 1.0) -> tuple[Factor, Floats]:
    """The factor of all rows and a diagonal, and the sums of squares of what is left of each answer."""
    d, D = rows.shape[1], whole_blocks(rows.shape[1])
    factor = diagonal * np.diag(np.arange(D) < d).astype(float), row_ends(D), np.zeros((D, answers.shape[1]))
    left = np.zeros(answers.shape[1])
    for x, y in zip(filled_up(rows), answers.copy(), strict=True):
        rotate(*factor, x, y)
        assert not x.any()
        left += y**2
    return factor, left


@pytest.mark.parametrize("d", SIZES)
def test_rotations_give_the_factor_of_a_ridge_regression(d: int) -> None:
    rng = np.random.default_rng(d)
    rows, answers = rng.normal(size=(60, d)), rng.normal(size=(60, 2))
    (R, ends, B), left = rotated(rows, answers, 2.0)
    A = 4 * np.eye(d) + rows.T @ rows
    assert np.array_equal(R, np.triu(R))
    assert np.allclose((R.T @ R)[:d, :d], A)
    assert np.allclose((R.T @ B)[:d], rows.T @ answers)
    assert not R[d:].any()
    assert not R[:, d:].any()
    w = np.linalg.solve(A, rows.T @ answers)
    assert np.allclose(left, ((answers - rows @ w) ** 2).sum(0) + 4 * (w**2).sum(0))
    assert np.all(ends[:d] == whole_blocks(d))


@pytest.mark.parametrize("d", SIZES)
def test_solutions_are_those_of_numpy(d: int) -> None:
    rng = np.random.default_rng(d)
    (R, ends, _), _ = rotated(rng.normal(size=(30, d)), np.zeros((30, 1)))
    b, U = filled_up(rng.normal(size=(1, d)))[0], filled_up(rng.normal(size=(9, d)))
    expected, all_at_once = np.linalg.solve(R[:d, :d], b[:d]), np.linalg.solve(R[:d, :d].T, U[:6, :d].T).T
    untouched = U[6:].copy()
    solve(R, ends, panel(0), b)
    solve_transposed(R, ends, panel(6), U, 6)
    assert np.allclose(b[:d], expected)
    assert np.allclose(U[:6, :d], all_at_once)
    assert not b[d:].any()
    assert not U[:, d:].any()
    assert np.array_equal(U[6:], untouched)


def blocks(count: int, size: int) -> Floats:
    """Rows that have numbers in one block of columns each."""
    rng = np.random.default_rng(0)
    rows = np.zeros((10 * count, count, size))
    rows[np.arange(10 * count), np.arange(10 * count) % count] = rng.normal(size=(10 * count, size))
    return rows.reshape(len(rows), -1)


def test_one_hot_blocks_stay_apart() -> None:
    rows = blocks(5, 16)
    (R, ends, B), _ = rotated(rows, np.ones((len(rows), 1)))
    assert np.array_equal(ends, np.repeat([16, 32, 48, 64, 80], 16))
    U = rows[:7].copy()
    solve_transposed(R, ends, panel(7), U, 7)
    assert np.allclose(U, np.linalg.solve(R.T, rows[:7].T).T)
    kept = R.copy(), ends.copy(), B.copy()
    square(R, ends, B)
    cholesky(R, ends, B)
    assert np.array_equal(ends, kept[1])
    assert np.allclose(R, kept[0])
    assert np.allclose(B, kept[2])


def test_an_early_dense_row_fills_what_it_meets() -> None:
    rows = blocks(4, 6)
    rows[0] = np.random.default_rng(1).normal(size=24)
    (R, ends, _), _ = rotated(rows, np.zeros((len(rows), 1)))
    assert np.allclose(R.T @ R, np.eye(24) + rows.T @ rows)
    assert np.all(ends == 24)


@pytest.mark.parametrize("d", SIZES)
def test_square_and_cholesky_undo_each_other_and_change_the_diagonal(d: int) -> None:
    rng = np.random.default_rng(d)
    rows, answers = rng.normal(size=(25, d)), rng.normal(size=(25, 3))
    (R, ends, B), _ = rotated(rows, answers)
    square(R, ends, B)
    A = np.eye(d) + rows.T @ rows
    assert np.allclose(R[:d, :d], np.triu(A))
    assert np.allclose(B[:d], rows.T @ answers)
    more = rng.uniform(-0.9, 5, d)
    R[np.arange(d), np.arange(d)] += more
    cholesky(R, ends, B)
    assert np.array_equal(R, np.triu(R))
    assert np.allclose((R.T @ R)[:d, :d], A + np.diag(more))
    assert np.allclose((R.T @ B)[:d], rows.T @ answers)


def test_a_square_has_room_for_columns_that_meet_only_in_it() -> None:
    """Rows 0 and 1 end differently; their product does not."""
    R, ends, B = np.eye(24), row_ends(24), np.zeros((24, 1))
    R[0, 9], R[0, 20], ends[0] = 2.0, 3.0, 24
    A = R.T @ R
    square(R, ends, B)
    assert np.array_equal(R, np.triu(A))
    assert ends[9] == 24
    cholesky(R, ends, B)
    assert np.allclose(R.T @ R, A)


def test_columns_that_were_never_there_have_no_part() -> None:
    rows = np.random.default_rng(2).normal(size=(20, 8))
    rows[:, [1, 4]] = 0
    (R, ends, B), _ = rotated(rows, np.ones((20, 1)), 0.0)
    there = np.delete(np.arange(8), [1, 4])
    expected = np.linalg.lstsq(rows[:, there], np.ones(20), rcond=None)[0]
    square(R, ends, B)
    cholesky(R, ends, B)
    w, U = B[:, 0].copy(), rows[:5].copy()
    solve(R, ends, panel(0), w)
    solve_transposed(R, ends, panel(5), U, 5)
    assert np.allclose(w[there], expected)
    assert np.all(w[[1, 4]] == 0)
    assert np.isfinite(U).all()
    assert np.all(U[:, [1, 4]] == 0)


def test_powers_of_two_go_through_unchanged() -> None:
    """Rotations and solutions are the same numbers, times these powers, if columns are multiplied by them."""
    rng = np.random.default_rng(3)
    rows, answers, powers = rng.normal(size=(30, 16)), rng.normal(size=(30, 1)), 2.0 ** rng.integers(-40, 40, 16)
    (R, ends, B), left = rotated(rows, answers, 0.0)
    (S, _, C), same = rotated(rows * powers, answers, 0.0)
    assert np.array_equal(S, R * powers)
    assert np.array_equal(C, B)
    assert np.array_equal(same, left)
    b, c = B[:, 0].copy(), C[:, 0].copy()
    solve(R, ends, panel(0), b)
    solve(S, ends, panel(0), c)
    assert np.array_equal(c * powers, b)
