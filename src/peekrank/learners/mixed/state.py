"""State of mixed."""

from __future__ import annotations

from typing import NamedTuple

from peekrank._jit import kernel
from peekrank.kernels.exploration import DoubtSpace
from peekrank.kernels.pair_table import PairTable
from peekrank.kernels.quantiles import RecentNumbers
from peekrank.kernels.sorting import SortSpace
from peekrank.kernels.triangular import Panel
from peekrank.types import Floats, Ints

OWN_COLUMNS = 3  # after the features: the constant, the rank of the score in its list, and its quantile
LARGEST_COLUMN = 64.0  # of a score in a token
# Sums of a model: answers (faded), their squares, the residual sum of squares, answers ever, the prior to renew
ANSWERS, SQUARED, LEFT, CLOCK, RENEW = range(5)
# Numbers of the fit: variance ratios of items and cells, answers at the next fit, the evidence for a change,
# restarts; whether a score was ever given, and whether its slopes are held; items observed, one centred; lists;
# the version of the score; answers whose columns of the score came after the last fit
LU, LV, REFIT, ALARM, RESTARTS, SCORED, HELD, ITEMS, CENTRED, LISTS, VERSION, STALE = range(12)
# Columns of an item's row after the sums of x: sum of y (effective, like those of x), number, sum and squares
# of its answers, and the clock at its last change. A cell's row has the sum of y and the clock.
SY, NUMBER, SUM, SQUARES, LAST = range(5)
CELL_LAST = 1


class Model(NamedTuple):
    """Sums over answers; all columns of x are the last ones of a factor whose size is a multiple of eight."""

    R: Floats  # R'R is the precision of the weights, with items and cells integrated out
    ends: Ints
    z: Floats  # R'z is the precision times the mean
    w: Floats
    prior: Floats
    raw: Floats  # sum of xx', upper triangle
    cross: Floats  # sum of xy
    rows: Floats  # of items
    base: Floats  # part of an item's effective sums that comes from no cell
    cells: Floats
    sums: Floats
    decay: float


class MixedState(NamedTuple):
    """Two models of the answers, one with a short memory, and what is known about scores and features."""

    model: Model
    twin: Model
    items: PairTable
    cells: PairTable
    recently: Ints  # whether a cell was used since the hand passed it
    hand: Ints
    rounds: Floats  # in which an item was available
    versions: Floats  # of the score that the answers about an item are joined to
    moments: Floats
    centre: Floats  # of the features
    fit: Floats
    recent: RecentNumbers
    weights: Floats  # of the positions
    k: int
    lowest: float
    unit: float  # gains are lowest + unit (y + 1/2)
    floor: float
    earned: float
    safe: int
    key: Ints
    scored: Ints  # whether this list has a score
    version: Ints  # of the score of the next list, -1 for the latest
    returning: Floats  # how often the items of this list return and are answered, from 0 to 1
    present: Ints  # the item of each row of the list
    app: Ints  # rows in the order of the app
    kept: Floats  # scores of the list
    columns: Floats  # of the score
    x: Floats
    y: Floats
    cx: Floats
    U: Floats
    centre_of_list: Floats
    S: Floats  # workspace of a fit
    S_ends: Ints
    b: Floats
    effective: Floats
    panel: Panel
    means: Floats
    spreads: Floats
    order: Ints  # from this field on, arrays are by position
    sorted_means: Floats
    widths: Floats
    doubts: Floats
    costs: Floats
    explore_probs: Floats
    keys: Floats
    indices: Ints
    space: DoubtSpace
    sorting: SortSpace


@kernel
def n_columns(s: MixedState) -> int:
    """Return the number of columns of x."""
    return len(s.centre) + OWN_COLUMNS


@kernel
def noise_variance(s: MixedState) -> float:
    """Return the variance of the noise; 1/4 before there are answers."""
    return float((s.model.sums[LEFT] + 0.5) / (s.model.sums[ANSWERS] + 2))
