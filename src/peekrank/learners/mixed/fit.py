"""Variance ratios of items and cells by marginal likelihood, and the takeover by the twin."""

from __future__ import annotations

from math import log

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.column_moments import COUNT, column_precision
from peekrank.kernels.pair_table import add, find, reindex
from peekrank.kernels.triangular import cholesky
from peekrank.kernels.vectors import copy
from peekrank.learners.mixed.posterior import (
    SCORE_PRIOR,
    cell_of,
    fade_cell,
    fade_item,
    learn,
    prior_mean,
    solve_weights,
    start_prior,
)
from peekrank.learners.mixed.state import (
    ALARM,
    ANSWERS,
    CELL_LAST,
    HELD,
    ITEMS,
    LARGEST_COLUMN,
    LAST,
    LEFT,
    LU,
    LV,
    OWN_COLUMNS,
    REFIT,
    RESTARTS,
    SCORED,
    SQUARED,
    STALE,
    SY,
    VERSION,
    MixedState,
    Model,
    n_columns,
)
from peekrank.types import Features, Floats, Ints

LU_SCORED, LU_PLAIN, LV_START = 24.0, 2.0, 64.0
LOWEST, HIGHEST = 0.4, 5000.0  # variance ratios
_SPREAD_U, _SPREAD_V = 0.7, 1.4  # of the prior of the logarithms of the ratios
_STEP = 1.5
_FEWEST = 16  # answers for a fit of the ratios
_BOUND = 10.0  # evidence for a change, as a logarithm: a false restart takes e^10 answers at least, on average
_LEAST = 1e-9
_STALE = 0.1  # share of the answers that may be joined to a new score before a fit


@kernel
def start_ratio(s: MixedState) -> float:
    """Return the start of the items' variance ratio."""
    return LU_SCORED if s.fit[SCORED] == 1 else LU_PLAIN


@kernel
def eliminate(s: MixedState, model: Model, lu: float, lv: float) -> tuple[float, float]:
    """Fill the workspace with the equations of w at these ratios, factorised.

    Return the log evidence and the residual sum of squares.

    The evidence is the marginal likelihood of all answers with the noise variance integrated out, times the prior
    of the ratios.
    """
    columns, c = len(model.w), n_columns(s)
    first = columns - c
    squares, volume = model.sums[SQUARED], 0.0
    for j in range(columns):
        s.S_ends[j] = columns
        for i in range(columns):
            s.S[j, i] = model.raw[j, i] if i >= j else 0.0
        mean = prior_mean(j, columns)
        s.S[j, j] += model.prior[j]
        s.b[j, 0] = model.cross[j] + model.prior[j] * mean
        squares += model.prior[j] * mean**2
    keyed, n = s.cells.used[0] > 0, s.items.used[0]
    if keyed:
        for row in range(n):
            for j in range(c + 1):
                s.effective[row, j] = model.base[row, j]
        for cell in range(s.cells.used[0]):
            sums = model.cells[cell]
            row = find(s.items, 0, s.cells.pairs[cell, 1])
            volume += log(1 + sums[c - OWN_COLUMNS] / lv)
            a = 1 / (sums[c - OWN_COLUMNS] + lv)
            squares -= a * sums[c + SY] ** 2
            _take_out(s, sums, a)
            for j in range(c + 1):
                s.effective[row, j] += lv * a * sums[j]
    for row in range(n):
        sums = s.effective[row] if keyed else model.rows[row]
        volume += log(1 + max(0.0, sums[c - OWN_COLUMNS]) / lu)
        a = 1 / (sums[c - OWN_COLUMNS] + lu)
        squares -= a * sums[c + SY] ** 2
        _take_out(s, sums, a)
    cholesky(s.S, s.S_ends, s.b)
    for j in range(first, columns):
        if model.prior[j] > 0 and s.S[j, j] > 0:
            volume += 2 * log(s.S[j, j]) - log(model.prior[j])
        squares -= s.b[j, 0] ** 2
    squares = max(_LEAST, squares)
    value = -0.5 * volume - 0.5 * (model.sums[ANSWERS] + 2) * log(squares + 0.5)
    value -= 0.5 * (log(lu / start_ratio(s)) / _SPREAD_U) ** 2
    if keyed:
        value -= 0.5 * (log(lv / LV_START) / _SPREAD_V) ** 2
    return value, squares


@kernel
def _take_out(s: MixedState, sums: Floats, a: float) -> None:
    """Take a times the product of sums out of the equations of w."""
    c = n_columns(s)
    first = len(s.b) - c
    for j in range(c):
        scaled = a * sums[j]
        if scaled != 0:
            for i in range(j, c):
                s.S[first + j, first + i] -= scaled * sums[i]
            s.b[first + j, 0] -= scaled * sums[c + SY]


@kernel
def _climb(s: MixedState) -> None:
    """Move the ratios by steps to those of the largest evidence."""
    best, _ = eliminate(s, s.model, s.fit[LU], s.fit[LV])
    moved = True
    while moved:
        moved = False
        for direction in range(4):
            du = _STEP if direction == 0 else 1 / _STEP if direction == 1 else 1.0
            dv = _STEP if direction == 2 else 1 / _STEP if direction == 3 else 1.0
            if direction >= 2 and s.cells.used[0] == 0:
                break
            while LOWEST < s.fit[LU] * du < HIGHEST and LOWEST < s.fit[LV] * dv < HIGHEST:
                value, _ = eliminate(s, s.model, s.fit[LU] * du, s.fit[LV] * dv)
                if not value > best + 1e-9:
                    break
                best, moved = value, True
                s.fit[LU] *= du
                s.fit[LV] *= dv


@kernel
def refit(s: MixedState, climbs: int) -> None:
    """Rescale the prior to the features, fit the ratios, and eliminate items and cells again.

    The twin keeps its own equations unless earlier answers were joined to a new score.
    """
    model, c = s.model, n_columns(s)
    first = len(model.w) - c
    for j in range(first, len(model.w) - OWN_COLUMNS):
        if s.moments[COUNT, j] > 0:
            model.prior[j] = column_precision(s.moments, j, s.fit[ITEMS])
    if climbs == 1 and model.sums[ANSWERS] >= _FEWEST:
        _climb(s)
    for which in range(2 if s.fit[STALE] > 0 else 1):
        _solve_again(s, s.model if which == 0 else s.twin)
    s.fit[STALE] = 0


@kernel
def _solve_again(s: MixedState, model: Model) -> None:
    """Compute the equations of the weights from the sums, with items and cells eliminated."""
    c = n_columns(s)
    for row in range(s.items.used[0]):
        fade_item(s, model, row)
    for cell in range(s.cells.used[0]):
        fade_cell(s, model, cell)
    _, model.sums[LEFT] = eliminate(s, model, s.fit[LU], s.fit[LV])
    for j in range(len(model.w)):
        model.ends[j] = s.S_ends[j]
        model.z[j, 0] = s.b[j, 0]
        for i in range(len(model.w)):
            model.R[j, i] = s.S[j, i]
    if s.cells.used[0] > 0:
        for row in range(s.items.used[0]):
            for j in range(c + 1):
                model.rows[row, j] = s.effective[row, j]


@kernel
def _take_over(s: MixedState) -> None:
    """Replace the sums of the model by those of its twin, and start the ratios again."""
    model, twin, c = s.model, s.twin, n_columns(s)
    for row in range(s.items.used[0]):
        fade_item(s, twin, row)
        copy(twin.rows[row], model.rows[row])
        model.rows[row, c + LAST] = 0
        if len(model.base) > 0:
            copy(twin.base[row], model.base[row])
    for cell in range(s.cells.used[0]):
        fade_cell(s, twin, cell)
        copy(twin.cells[cell], model.cells[cell])
        model.cells[cell, c + CELL_LAST] = 0
    for j in range(len(model.w)):
        model.cross[j] = twin.cross[j]
        copy(twin.raw[j], model.raw[j])
    for which in (ANSWERS, SQUARED):
        model.sums[which] = twin.sums[which]
    s.fit[LU], s.fit[LV], s.fit[ALARM], s.fit[HELD] = start_ratio(s), LV_START, 0.0, 0.0
    s.fit[REFIT] = max(1.0 * _FEWEST, 1.5 * model.sums[ANSWERS])
    s.fit[RESTARTS] += 1


@kernel
def renew_score(s: MixedState, version: int) -> None:
    """Set the version of the next list's score. If it is a new one, forget how far the score can be trusted.

    What was learned about items, cells and features stays. Earlier answers count as answers without a score until
    their item is listed with the new one.
    """
    s.version[0] = version
    if version <= s.fit[VERSION]:
        return
    s.fit[VERSION] = version
    if s.fit[SCORED] == 0:
        return
    reindex(s.items)  # a loaded state has no index yet
    reindex(s.cells)
    s.recent.total[0] = 0
    s.recent.ascending[:] = 0
    s.fit[REFIT] = 1.25 * s.model.sums[ANSWERS]
    s.fit[LU], s.fit[LV], s.fit[ALARM], s.fit[HELD], s.fit[STALE] = LU_SCORED, LV_START, 0.0, 1.0, 0.0
    for which in range(2):
        model = s.model if which == 0 else s.twin
        _forget_score(s, model)
        _solve_again(s, model)
        solve_weights(s, model)


@kernel
def _forget_score(s: MixedState, model: Model) -> None:
    """Set the columns of the score to 0 in all sums."""
    c, columns = n_columns(s), len(model.w)
    for row in range(s.items.used[0]):
        fade_item(s, model, row)
        model.rows[row, c - 2 : c] = 0
        if len(model.base) > 0:
            model.base[row, c - 2 : c] = 0
    for cell in range(s.cells.used[0]):
        fade_cell(s, model, cell)
        model.cells[cell, c - 2 : c] = 0
    for j in range(columns - 2, columns):
        model.raw[:, j] = 0
        model.cross[j] = 0
        model.prior[j] = SCORE_PRIOR


@kernel
def _learn_both(s: MixedState, row: int, cell: int, y: float) -> None:
    """Let both models learn an answer, and refit when it is time or the twin has proved better.

    Each kernel is called in one place, because every call is compiled again where kernels are inlined.
    """
    gain = 0.0
    for which in range(2):
        error = y - learn(s, s.model if which == 0 else s.twin, row, cell, y)
        gain += 2 * error**2 if which == 0 else -2 * error**2
    s.fit[ALARM] = max(0.0, s.fit[ALARM] + gain)
    changed, due = s.fit[ALARM] > _BOUND, s.model.sums[ANSWERS] >= s.fit[REFIT]
    is_stale = s.fit[STALE] > _STALE * s.model.sums[ANSWERS]
    if changed:
        _take_over(s)
    elif due:
        s.fit[REFIT] = 2 * s.model.sums[ANSWERS]
    if changed or due or is_stale:
        refit(s, int(changed or due))
    for which in range(2):
        solve_weights(s, s.model if which == 0 else s.twin)


@kernel
def update_from_answers(s: MixedState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    """Learn from each answer with the columns of the score in the token, or without those of an old version."""
    d, columns = len(s.centre), len(s.model.w)
    first, is_old = columns - n_columns(s), token[len(token) - 1] < s.fit[VERSION]
    for p in range(len(feedback)):
        if np.isnan(feedback[p]):
            continue
        item = s.present[ranking[p]]
        row = add(s.items, 0, item)
        cell = cell_of(s, item, row)
        s.x[:first] = 0
        for j in range(d):
            s.x[first + j] = X[ranking[p], j] - s.centre[j]
            if s.x[first + j] != 0 and s.model.prior[first + j] == 0:  # the decision came from another learner
                start_prior(s, first + j, s.x[first + j] ** 2)
        s.x[columns - OWN_COLUMNS] = 1
        for j in range(2):
            column = 0.0 if is_old else token[1 + 2 * p + j]
            s.x[columns - 2 + j] = min(LARGEST_COLUMN, max(-LARGEST_COLUMN, column))
        _learn_both(s, row, cell, (feedback[p] - s.lowest) / s.unit - 0.5)
