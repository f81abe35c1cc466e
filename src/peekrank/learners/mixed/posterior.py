"""Posterior of mixed: sums of items and cells, one rotation for each answer, and expected answers."""

from __future__ import annotations

from math import sqrt

from peekrank._jit import kernel
from peekrank.kernels.column_moments import COUNT, add_moments, column_precision
from peekrank.kernels.pair_table import add, find, replace
from peekrank.kernels.triangular import block_dot, rotate, solve
from peekrank.learners.mixed.state import (
    ANSWERS,
    CELL_LAST,
    CENTRED,
    CLOCK,
    HELD,
    ITEMS,
    LAST,
    LEFT,
    LISTS,
    LU,
    LV,
    NUMBER,
    OWN_COLUMNS,
    RENEW,
    SQUARED,
    SQUARES,
    STALE,
    SUM,
    SY,
    VERSION,
    MixedState,
    Model,
    n_columns,
    noise_variance,
)
from peekrank.types import Features, Floats

PRIOR_SLOPE = 0.1  # prior mean of each slope of the score
SCORE_PRIOR = 0.25 / PRIOR_SLOPE**2  # the slopes are as uncertain as they are large, for a noise variance of 1/4
_FEW = 10.0  # answers per item of the list that count as half known
_COMMON = 4.0  # answers that the common variance counts as
_HOLD = 5.0  # log likelihood that answers have to lose before a slope of the score may be negative


@kernel
def observe_features(s: MixedState, X: Features) -> None:
    """Fill U with the rows x of a list, and update the moments of the features.

    A feature is centred by its mean in the first list, unless an item of that list has a 0.
    """
    n, d, columns = len(X), len(s.centre), len(s.model.w)
    if d > 0 and s.fit[CENTRED] == 0:
        for j in range(d):
            mean, zero = 0.0, False
            for i in range(n):
                mean += X[i, j] / n
                zero |= X[i, j] == 0
            s.centre[j] = 0.0 if zero else mean
        s.fit[CENTRED] = 1
    first = columns - n_columns(s)
    for i in range(n):
        u = s.U[i]
        u[:first] = 0
        for j in range(d):
            u[first + j] = X[i, j] - s.centre[j]
        u[columns - 3], u[columns - 2], u[columns - 1] = 1.0, s.columns[i, 0], s.columns[i, 1]
    if d > 0:
        add_moments(s.moments, s.U, n)
        s.fit[ITEMS] += n
        for j in range(first, first + d):
            if s.model.prior[j] == 0 and s.moments[COUNT, j] > 0:
                start_prior(s, j, column_precision(s.moments, j, s.fit[ITEMS]))


@kernel
def start_prior(s: MixedState, j: int, precision: float) -> None:
    """Set the prior of a column that has been 0 so far."""
    s.model.prior[j] = s.twin.prior[j] = precision
    s.model.R[j, j] = s.twin.R[j, j] = sqrt(precision)


@kernel
def given_weights(s: MixedState, model: Model, row: int, cell: int, key: int, x: Floats) -> tuple[float, float]:
    """Return base and own: given w, an answer has mean ``base + cx . w`` and variance ``own`` times the noise.

    Parameters
    ----------
    s, model
        The state, and the model; rows that fade have been brought up to date.
    row, cell
        Rows of the item and of the cell, -1 if there were no answers.
    key
        The key of the list, -1 for none.
    x
        The columns of the item; becomes cx. Sums of the constant are numbers of answers.
    """
    c, lu, lv = n_columns(s), s.fit[LU], s.fit[LV]
    first = len(x) - c
    base, h, ac = 0.0, 1.0, 0.0
    if key >= 0:
        ac = 1 / lv
        if cell >= 0:
            sums = model.cells[cell]
            ac = 1 / (sums[c - OWN_COLUMNS] + lv)
            base = ac * sums[c + SY]
            for j in range(c):
                x[first + j] -= ac * sums[j]
        h = lv * ac
    ai = 1 / lu
    if row >= 0:
        sums = model.rows[row]
        ai = 1 / (sums[c - OWN_COLUMNS] + lu)
        base += h * ai * sums[c + SY]
        for j in range(c):
            x[first + j] -= h * ai * sums[j]
    return base, ac + h * h * ai


@kernel
def fill_means(s: MixedState, n: int) -> None:
    """Fill in the mean of each row of the list, its own variance in units of the noise, and cx in U.

    Also note how often the items return, as the share of all lists that they were in, and how well they are known.
    """
    key, c, answers, share = s.key[0], n_columns(s), 0.0, 0.0
    for r in range(n):
        item = s.present[r]
        row = find(s.items, 0, item)
        cell = find(s.cells, key, item) if key >= 0 and row >= 0 else -1
        base, s.spreads[r] = given_weights(s, s.model, row, cell, key, s.U[r])
        s.means[r] = base + block_dot(s.U[r], s.model.w)
        if cell >= 0:
            answers += s.model.cells[cell, c - OWN_COLUMNS] / n
        elif row >= 0 and key < 0:
            answers += s.model.rows[row, c + NUMBER] / n
        share += s.rounds[item] / (n * s.fit[LISTS])
    s.returning[0] = share * answers / (answers + _FEW)


@kernel
def join_answers(s: MixedState, n: int) -> None:
    """Give earlier answers about the items of a list its columns of the score, unless they have that version's."""
    c = n_columns(s)
    for r in range(n):
        item, latest = s.present[r], s.fit[VERSION]
        if s.versions[item] == latest:
            continue
        s.versions[item] = latest
        row = find(s.items, 0, item)
        if row < 0:
            continue
        s.fit[STALE] += s.model.rows[row, c - OWN_COLUMNS]
        for which in range(2):
            model = s.model if which == 0 else s.twin
            fade_item(s, model, row)
            one, two = s.columns[r, 0], s.columns[r, 1]
            if len(model.base) == 0:
                _join(s, model, model.rows[row], one, two)
                continue
            _join(s, model, model.base[row], one, two)
            for cell in range(s.cells.used[0]):
                if s.cells.pairs[cell, 1] == item:
                    fade_cell(s, model, cell)
                    _join(s, model, model.cells[cell], one, two)
            model.rows[row, c - 2] = one * model.rows[row, c - OWN_COLUMNS]
            model.rows[row, c - 1] = two * model.rows[row, c - OWN_COLUMNS]


@kernel
def _join(s: MixedState, model: Model, sums: Floats, one: float, two: float) -> None:
    """Give the answers of an item or cell, which have none, two columns of the score."""
    c = n_columns(s)
    first, last, number = len(model.w) - c, len(model.w) - 1, sums[c - OWN_COLUMNS]
    for j in range(c - 2):
        model.raw[first + j, last - 1] += one * sums[j]
        model.raw[first + j, last] += two * sums[j]
    model.raw[last - 1, last - 1] += one * one * number
    model.raw[last - 1, last] += one * two * number
    model.raw[last, last] += two * two * number
    model.cross[last - 1] += one * sums[c + SY]
    model.cross[last] += two * sums[c + SY]
    sums[c - 2], sums[c - 1] = one * number, two * number


@kernel
def item_noise(s: MixedState, item: int, noise: float) -> float:
    """Return the variance of an item's answers, the common one counting as four; with a key the common one."""
    row = find(s.items, 0, item) if s.key[0] < 0 else -1
    if row < 0:
        return noise
    sums, c = s.model.rows[row], n_columns(s)
    number = sums[c + NUMBER]
    if number <= 0:
        return noise
    deviations = sums[c + SQUARES] - sums[c + SUM] ** 2 / number
    return float((max(0.0, deviations) + _COMMON * noise) / (number + _COMMON))


@kernel
def solve_weights(s: MixedState, model: Model) -> None:
    """Solve for the weights. A slope of the score below 0 is held at 0, unless the answers contradict that.

    The two slopes are the last columns, so their part of the problem is a triangle of two rows.
    """
    w, last = model.w, len(model.w) - 1
    for j in range(len(w)):
        w[j] = model.z[j, 0]
    a, b, c = model.R[last - 1, last - 1], model.R[last - 1, last], model.R[last, last]
    if s.fit[HELD] == 1 and a > 0 and c > 0:
        p, q = w[last - 1], w[last]
        if q < 0 or p * c < b * q:
            lost, one, two = p * p + q * q, 0.0, 0.0
            if p > 0 and q * q < lost:
                lost, one = q * q, p / a
            slope = (b * p + c * q) / (b * b + c * c)
            if slope > 0 and p * p + q * q - slope * (b * p + c * q) < lost:
                lost, one, two = p * p + q * q - slope * (b * p + c * q), 0.0, slope
            if lost <= 2 * noise_variance(s) * _HOLD:
                w[last - 1], w[last] = a * one + b * two, c * two
    solve(model.R, model.ends, s.panel, w)


@kernel
def _fade(model: Model, sums: Floats, width: int, last: int) -> None:
    """Bring faded sums up to date."""
    if model.decay < 1:
        factor = model.decay ** (model.sums[CLOCK] - sums[last])
        for j in range(width):
            sums[j] *= factor
        sums[last] = model.sums[CLOCK]


@kernel
def fade_item(s: MixedState, model: Model, row: int) -> None:
    """Bring the sums of an item up to date."""
    c = n_columns(s)
    if model.decay < 1 and len(model.base) > 0:
        factor = model.decay ** (model.sums[CLOCK] - model.rows[row, c + LAST])
        for j in range(c + 1):
            model.base[row, j] *= factor
    _fade(model, model.rows[row], c + LAST, c + LAST)


@kernel
def fade_cell(s: MixedState, model: Model, cell: int) -> None:
    """Bring the sums of a cell up to date."""
    c = n_columns(s)
    _fade(model, model.cells[cell], c + CELL_LAST, c + CELL_LAST)


@kernel
def _fade_model(s: MixedState, model: Model, target: Floats) -> None:
    """Fade the weights' equations by one answer, and renew the prior of the next column."""
    first, columns = len(model.w) - n_columns(s), len(model.w)
    root = sqrt(model.decay)
    for j in range(first, columns):
        for i in range(j, columns):
            model.R[j, i] *= root
            model.raw[j, i] *= model.decay
        model.z[j, 0] *= root
        model.cross[j] *= model.decay
        model.prior[j] *= model.decay
    for which in (ANSWERS, SQUARED, LEFT):
        model.sums[which] *= model.decay
    j = first + int(model.sums[RENEW])
    model.sums[RENEW] = (model.sums[RENEW] + 1) % n_columns(s)
    lost = target[j] - model.prior[j]
    if lost > 0:
        model.prior[j] = target[j]
        s.cx[:] = 0
        s.cx[j] = sqrt(lost)
        s.y[0] = sqrt(lost) * prior_mean(j, columns)
        rotate(model.R, model.ends, model.z, s.cx, s.y)


@kernel
def prior_mean(j: int, columns: int) -> float:
    """Return the prior mean of a weight: 0 except for the slopes of the score, the last two."""
    return PRIOR_SLOPE if j >= columns - 2 else 0.0


@kernel
def learn(s: MixedState, model: Model, row: int, cell: int, y: float) -> float:
    """Learn the answer y about an item and cell with the columns in `s.x`; return its expectation."""
    c, lv, columns = n_columns(s), s.fit[LV], len(model.w)
    first, keyed = columns - c, cell >= 0
    model.sums[CLOCK] += 1
    if model.decay < 1:
        _fade_model(s, model, s.model.prior)
    fade_item(s, model, row)
    if keyed:
        fade_cell(s, model, cell)
    for j in range(columns):
        s.cx[j] = s.x[j]
    base, own = given_weights(s, model, row, cell, s.key[0], s.cx)
    expected = base + block_dot(s.cx, model.w)
    root = sqrt(1 / (1 + own))
    for j in range(first, columns):
        s.cx[j] *= root
        x = s.x[j]
        for i in range(j, columns):
            model.raw[j, i] += x * s.x[i]
        model.cross[j] += x * y
    s.y[0] = root * (y - base)
    rotate(model.R, model.ends, model.z, s.cx, s.y)
    model.sums[LEFT] += s.y[0] ** 2
    model.sums[ANSWERS] += 1
    model.sums[SQUARED] += y * y
    item = model.rows[row]
    if keyed:
        sums = model.cells[cell]
        before = lv / (sums[c - OWN_COLUMNS] + lv)
        after = lv / (sums[c - OWN_COLUMNS] + 1 + lv)
        for j in range(c + 1):
            new = s.x[first + j] if j < c else y
            item[j] += after * (sums[j] + new) - before * sums[j]
            sums[j] += new
    else:
        for j in range(c + 1):
            new = s.x[first + j] if j < c else y
            item[j] += new
            if len(model.base) > 0:
                model.base[row, j] += new
    item[c + NUMBER] += 1
    item[c + SUM] += y
    item[c + SQUARES] += y * y
    return float(expected)


@kernel
def cell_of(s: MixedState, item: int, row: int) -> int:
    """Return the row of the present key's cell of an item, in place of an old one if there is no room.

    The cells are a clock: a hand passes those that were used since it last passed, and takes the first other one.
    Its answers stay in the sums of its item as they are.
    """
    key = s.key[0]
    if key < 0:
        return -1
    cell, capacity = find(s.cells, key, item), len(s.recently)
    if cell < 0 and s.cells.used[0] < capacity:
        cell = add(s.cells, key, item)
    elif cell < 0:
        hand = s.hand[0]
        while s.recently[hand] == 1:
            s.recently[hand] = 0
            hand = (hand + 1) % capacity
        s.hand[0] = (hand + 1) % capacity
        cell = hand
        old = find(s.items, 0, s.cells.pairs[cell, 1])
        for which in range(2):
            _let_go(s, s.model if which == 0 else s.twin, old, cell)
        replace(s.cells, cell, key, item)
    s.recently[cell] = 1
    return int(cell)


@kernel
def _let_go(s: MixedState, model: Model, row: int, cell: int) -> None:
    """Clear a cell; its share of the item's sums stays, and what its own level explains is taken for explained."""
    c, lv = n_columns(s), s.fit[LV]
    first = len(model.w) - c
    fade_item(s, model, row)
    fade_cell(s, model, cell)
    sums = model.cells[cell]
    a = 1 / (sums[c - OWN_COLUMNS] + lv)
    for j in range(c):
        for i in range(j, c):
            model.raw[first + j, first + i] -= a * sums[j] * sums[i]
        model.cross[first + j] -= a * sums[j] * sums[c + SY]
    model.sums[SQUARED] -= a * sums[c + SY] ** 2
    for j in range(c + 1):
        model.base[row, j] += lv * a * sums[j]
    sums[:] = 0
    sums[c + CELL_LAST] = model.sums[CLOCK]
