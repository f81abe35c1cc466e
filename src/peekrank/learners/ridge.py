"""Ridge: Bayesian linear regression of relevance on features; explores where a list is in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from math import e, log, sqrt
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel, sum_kernel
from peekrank._util.validate import choice, positive, whole
from peekrank.kernels.doubt import DoubtSpace, asked, doubt_space, fill_doubts, fill_prices, fill_questions
from peekrank.kernels.sorting import SortSpace, move_up, sort_descending, sort_space
from peekrank.kernels.triangular import (
    BLOCK,
    cholesky,
    rotate,
    row_ends,
    solve,
    solve_transposed,
    square,
    whole_blocks,
)
from peekrank.kernels.vectors import all_finite, copy, dot, fill_normals
from peekrank.learners._shared import fault_in_numbers
from peekrank.types import Features, Floats, Ints, Kernels, Shape

Explore = Literal["doubt", "sampling"]
MOST_COLUMNS = 2000  # of the factor, which is a matrix of so many rows and columns
_LAST_REFRESH = 2048  # rounds after which the prior is as it is
_ROUNDING = 1e-12  # share of the sum of squares below which what is left of it is none
_FORCED = 0.3  # a round that samples forces a question with chance min(1, 0.3 k) t^(-1/3)
_GOLDEN = (sqrt(5) - 1) / 2  # its multiples, modulo 1, are spread evenly
# Rows of the moments
_COUNT, _SUM, _SQUARES = range(3)
# Columns of the sides
_ONE, _ANSWER = range(2)
# Sums: rounds and answers learned from, squares of the answers, what the regression leaves of them, items looked
# at, the round of the next refresh, the column whose prior is renewed next
_ROUNDS, _ANSWERS, _SQUARED, _LEFT, _ITEMS, _REFRESH, _RENEW = range(7)


class RidgeState(NamedTuple):
    """What was learned, as a triangular factor, what the prior's scale comes from, and memory for one round."""

    R: Floats  # R'R is the precision of the weights
    ends: Ints  # of its rows
    sides: Floats  # the columns of the constant 1 and of the answers; the last row is the constant's own
    w: Floats
    prior: Floats  # how much of each diagonal entry of R'R is prior
    moments: Floats  # of each column, over all items looked at
    sums: Floats
    width: float
    share: float
    forget: float
    k: int
    d: int
    reserve: float  # lifted columns for each feature, 1 at least
    weights: Floats  # of the places
    factors: Ints  # two for each lifted column
    x: Floats
    y: Floats
    U: Floats  # items x columns
    centre: Floats
    inverses: Floats
    scores: Floats
    sampled: Floats
    order: Ints
    drawn: Ints
    means: Floats  # from here on by place
    widths: Floats
    doubts: Floats
    prices: Floats
    questions: Floats
    space: DoubtSpace
    sorting: SortSpace


@kernel
def _lift(features: Features, factors: Ints, out: Floats) -> None:
    """An item's features, then the products, then zeros."""
    copy(features, out)
    d = len(features)
    for p in range(factors.shape[1]):
        out[d + p] = out[factors[0, p]] * out[factors[1, p]]
    out[d + factors.shape[1] :] = 0


@kernel
def _fill_scores(X: Features, factors: Ints, w: Floats, row: Floats, scores: Floats) -> None:
    for i in range(len(X)):
        _lift(X[i], factors, row)
        scores[i] = dot(row, w)


@kernel
def _look_at(s: RidgeState, X: Features) -> None:
    """Score all items, take notice of their features, and keep them."""
    d = len(s.w)
    count, total, squares = s.moments[_COUNT], s.moments[_SUM], s.moments[_SQUARES]
    for i in range(len(X)):
        x = s.U[i]
        _lift(X[i], s.factors, x)
        s.scores[i] = dot(x, s.w)
        for j in range(d):
            count[j] += x[j] != 0
            total[j] += x[j]
            squares[j] += x[j] * x[j]
    s.sums[_ITEMS] += len(X)
    for j in range(d):
        if s.prior[j] == 0 and count[j] > 0:
            _start(s, j, _precision(s, j))


@kernel
def _precision(s: RidgeState, j: int) -> float:
    """The prior precision of a weight: the column's variance, or its mean square if it is constant.

    It is divided by the share of items for which the column is not 0: the weight of a one-hot column has the same
    prior however rarely it is hot. All lifted columns together are expected to matter as much as all features.
    """
    squares = s.moments[_SQUARES, j]
    spread = squares - s.moments[_SUM, j] ** 2 / s.sums[_ITEMS]
    precision: float = (spread if spread > _ROUNDING * squares else squares) / s.moments[_COUNT, j]
    return precision * s.reserve if j >= s.d else precision


@kernel
def _start(s: RidgeState, j: int, precision: float) -> None:
    """Give a column its prior that has been 0 so far."""
    s.prior[j] = precision
    s.R[j, j] = sqrt(precision)


@kernel
def _deviation(s: RidgeState) -> float:
    """Standard deviation of answers from what is expected; any number will do before there is one to explain."""
    return sqrt(s.sums[_LEFT] / s.sums[_ANSWERS]) if s.sums[_LEFT] > _ROUNDING * s.sums[_SQUARED] else 1.0


@sum_kernel
def _square_distance(x: Floats, y: Floats) -> float:
    total = 0.0
    for j in range(len(x)):
        total += (x[j] - y[j]) * (x[j] - y[j])
    return total


@kernel
def _fill_widths(s: RidgeState, n: int) -> None:
    """How far each score may be off, but for what all of the list have in common; by item."""
    d, own = len(s.w), s.sides[len(s.w), _ONE]
    solve_transposed(s.R, s.ends, s.inverses, s.U, n)
    centre, ones = s.centre, s.x
    centre[:] = 0
    for i in range(n):
        u = s.U[i]
        for j in range(d):
            centre[j] += u[j]
    for j in range(d):
        centre[j] /= n
        ones[j] = s.sides[j, _ONE] / own if own > 0 else 0.0
    unit, common = s.width * _deviation(s) * sqrt(log(e + s.sums[_ROUNDS])), dot(centre, ones)
    for i in range(n):
        constant = dot(s.U[i], ones) - common
        s.sampled[i] = unit * sqrt(_square_distance(s.U[i], centre) + constant * constant)


@kernel
def _ask(s: RidgeState, k: int, uniform: float, ranking: Ints) -> None:
    """Move the item that a question is about to place k."""
    n = len(ranking)
    means, widths, weights, questions = s.means[:n], s.widths[:n], s.weights[:n], s.questions[:n]
    _fill_widths(s, n)
    if not all_finite(s.sampled[:n]):
        return
    for p in range(n):
        means[p], widths[p] = s.scores[ranking[p]], s.sampled[ranking[p]]
    fill_doubts(means, widths, weights, s.doubts[:n], s.space)
    fill_prices(means, weights, k, s.prices[:n])
    fill_questions(s.doubts[:n], widths, s.prices[:n], k, s.share, questions)
    place = asked(questions, k, uniform)
    if place >= 0:
        move_up(ranking, place, k - 1)


@kernel
def _sample(s: RidgeState, k: int, uniforms: Floats, ranking: Ints) -> None:
    """Show the k best by weights drawn from the posterior, one of them replaced by a uniform item now and then."""
    n, d = len(ranking), len(s.w)
    fill_normals(uniforms[2:], s.y)
    own = s.sides[d, _ONE]
    constant = s.y[d] / own if own > 0 else 0.0
    for j in range(d):
        s.x[j] = s.y[j] - s.sides[j, _ONE] * constant
    solve(s.R, s.ends, s.x)
    unit, sampled = s.width * _deviation(s), s.sampled[:n]
    copy(s.scores[:n], sampled)
    for i in range(n):
        sampled[i] += unit * dot(s.U[i], s.x)
    if not all_finite(sampled):
        return
    sort_descending(sampled, s.drawn[:n], s.sorting)
    forced = uniforms[0] < min(0.5, min(1.0, _FORCED * k) * (s.sums[_ROUNDS] + 1) ** (-1 / 3))
    chosen = sampled  # from here on: whether an item is shown
    chosen[:] = 0
    for p in range(k):
        chosen[s.drawn[p]] = 1
    item = min(n - 1, int(uniforms[1] * n))
    if forced and chosen[item] == 0:
        chosen[s.drawn[k - 1]] = 0
        chosen[item] = 1
    above, below = 0, k
    for p in range(n):
        item = s.order[p]
        if chosen[item] == 1:
            ranking[above] = item
            above += 1
        else:
            ranking[below] = item
            below += 1


@kernel
def _sort(s: RidgeState, X: Features, ranking: Ints) -> bool:
    """Show the items by score; whether something can be asked about."""
    n = len(ranking)
    order = s.order[:n]
    _look_at(s, X)
    s.questions[:n] = 0
    if not all_finite(s.scores[:n]):  # of weights that have overflowed nothing can be learned
        for i in range(n):
            order[i] = ranking[i] = i
        return False
    sort_descending(s.scores[:n], order, s.sorting)
    copy(order, ranking)
    return s.k < n


@kernel
def _mark(s: RidgeState, ranking: Ints, token: Floats) -> None:
    for p in range(min(s.k, len(ranking))):
        if ranking[p] != s.order[p]:
            token[0] = 1


@kernel
def _rank_by_doubt(s: RidgeState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    if _sort(s, X, ranking):
        _ask(s, s.k, uniforms[0], ranking)
        _mark(s, ranking, token)


@kernel
def _rank_by_sampling(s: RidgeState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    if _sort(s, X, ranking):
        _sample(s, s.k, uniforms, ranking)
        _mark(s, ranking, token)


@kernel
def _chances(s: RidgeState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    """After `_rank_by_doubt`; by sampling they are integrals over the posterior."""
    n = len(ranking)
    k, questions = min(s.k, n), 0.0
    for p in range(n):
        out[s.order[p]] = 1.0 if p < k else s.questions[p]
        questions += s.questions[p]
    out[s.order[k - 1]] -= questions


@kernel
def _absorb(s: RidgeState, one: float, answer: float) -> None:
    """Rotate the row (x | one, answer) into the factor; x is 0 afterwards."""
    y, last = s.y[:2], s.sides[len(s.w)]
    y[_ONE], y[_ANSWER] = one, answer
    rotate(s.R, s.ends, s.sides, s.x, y)
    if y[_ONE] != 0:
        length = sqrt(last[_ONE] ** 2 + y[_ONE] ** 2)
        cosine, sine = last[_ONE] / length, y[_ONE] / length
        above = last[_ANSWER]
        last[_ONE], last[_ANSWER] = length, cosine * above + sine * y[_ANSWER]
        y[_ANSWER] = cosine * y[_ANSWER] - sine * above
    s.sums[_LEFT] += y[_ANSWER] ** 2


@kernel
def _forget(s: RidgeState) -> None:
    """Let all that was learned fade, and renew the prior of each column within 1/(1 - forget) answers."""
    d, shrink = len(s.w), sqrt(s.forget)
    for j in range(d):
        for i in range(j, s.ends[j]):
            s.R[j, i] *= shrink
        s.prior[j] *= s.forget
    for j in range(d + 1):
        s.sides[j, _ONE] *= shrink
        s.sides[j, _ANSWER] *= shrink
    s.sums[_ANSWERS] *= s.forget
    s.sums[_SQUARED] *= s.forget
    s.sums[_LEFT] *= s.forget
    for _ in range(int(d * (1 - s.forget)) + 1):
        j = int(s.sums[_RENEW])
        s.sums[_RENEW] = (j + 1) % d
        lost = _precision(s, j) - s.prior[j] if s.moments[_COUNT, j] > 0 else 0.0
        if lost > 0:
            s.prior[j] += lost
            s.x[:] = 0
            s.x[j] = sqrt(lost)
            _absorb(s, 0.0, 0.0)


@kernel
def _refresh(s: RidgeState) -> None:
    """Change the prior to today's scale of the columns."""
    d = len(s.w)
    ones = both = answers = 0.0  # of the last row's triangle: it is what the others leave of these sums
    for j in range(d + 1):
        ones += s.sides[j, _ONE] ** 2
        both += s.sides[j, _ONE] * s.sides[j, _ANSWER]
        answers += s.sides[j, _ANSWER] ** 2
    square(s.R, s.ends, s.sides)
    for j in range(d):
        if s.moments[_COUNT, j] > 0:
            precision = _precision(s, j)
            s.R[j, j] += precision - s.prior[j]
            s.prior[j] = precision
    cholesky(s.R, s.ends, s.sides)
    for j in range(d):
        ones -= s.sides[j, _ONE] ** 2
        both -= s.sides[j, _ONE] * s.sides[j, _ANSWER]
        answers -= s.sides[j, _ANSWER] ** 2
    last = s.sides[d]
    last[_ONE] = sqrt(max(0.0, ones))
    last[_ANSWER] = both / last[_ONE] if ones > 0 else 0.0
    s.sums[_LEFT] = max(0.0, s.sums[_LEFT] + answers - last[_ANSWER] ** 2)


@kernel
def _update(s: RidgeState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    d, answers = len(s.w), 0
    for p in range(len(feedback)):
        if not np.isnan(feedback[p]):
            answers += 1
            if s.forget < 1:
                _forget(s)
            _lift(X[ranking[p]], s.factors, s.x)
            for j in range(d):
                if s.prior[j] == 0 and s.x[j] != 0:  # in a decision of another learner
                    _start(s, j, s.x[j] ** 2)
            _absorb(s, 1.0, feedback[p])
            s.sums[_ANSWERS] += 1
            s.sums[_SQUARED] += feedback[p] ** 2
    if answers == 0:
        return
    s.sums[_ROUNDS] += 1
    if s.sums[_ROUNDS] == s.sums[_REFRESH]:
        s.sums[_REFRESH] = 2 * s.sums[_ROUNDS] if s.sums[_ROUNDS] < _LAST_REFRESH else 0
        _refresh(s)
    last = s.sides[d]
    constant = last[_ANSWER] / last[_ONE] if last[_ONE] > 0 else 0.0
    for j in range(d):
        s.w[j] = s.sides[j, _ANSWER] - s.sides[j, _ONE] * constant
    solve(s.R, s.ends, s.w)


_BY_DOUBT = Kernels(_rank_by_doubt, _update, _chances, clocked=True)  # rank looks at columns
_BY_SAMPLING = Kernels(_rank_by_sampling, _update, clocked=True)


@dataclass(frozen=True)
class Ridge:
    """Order items by a Bayesian linear regression of relevance on features; ask where the order is in doubt.

    Relevance is taken for ``w . x + c`` plus noise of unknown variance, where c may be anything, and the weight of
    a column of variance v has the prior variance noise/v. The weights are solved for after each round: few rounds
    suffice, there is no step size, and columns may have any scale. Answers count whenever they come, whatever was
    answered beside them.

    By doubt (see doubtsort): u_i is how far the score of item i may be off against the mean of its list, D_i what
    this puts at stake in the list, by the discount of DCG. An item below place k is moved to place k with chance
    ``share u_i D_i / price``, where the price is what that costs by the scores. By sampling: the k best by weights
    drawn from the posterior are shown, in the order of their scores; now and then a uniform item replaces one.

    A round takes time in proportion to the square of the number of columns; columns that are mostly 0, such as
    one-hot ones, cost less.

    Parameters
    ----------
    explore
        By doubt, or by posterior sampling, which takes a quarter of the time where features are many.
    width
        Factor of the posterior's deviation; of what is drawn, too.
    share
        Share of what doubt may cost that is spent on questions.
    forget
        What was learned is multiplied by this at each answer: less than 1 to follow change.
    lift
        Columns to add: squares of features, then products of two; some of them, well spread, if there are more.

    >>> from peekrank import Agent
    >>> agent = Agent(Ridge(), m=5, k=1, d=3, seed=0)
    >>> for t in range(200):
    ...     X = np.sin(np.arange(15.0) * (t + 1)).reshape(5, 3) * [1e-6, 1.0, 1e6]
    ...     decision = agent.rank(X)
    ...     agent.update(decision, [int(X[decision.ranking[0], 2] > 0)])  # only the last feature counts
    >>> X = [[0.0, 0.0, -1e6], [0.0, 0.0, 2e6], [0.0, 0.0, 1e6]]
    >>> Ridge().scores(agent.state, np.float32(X)).argsort()
    array([0, 2, 1])
    """

    explore: Explore = "doubt"
    width: float = 2.0
    share: float = 0.01
    forget: float = 1.0
    lift: int = 0
    name: ClassVar[str] = "ridge"
    contextual: ClassVar[bool] = True
    any_length: ClassVar[bool] = True
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    max_grade: ClassVar[int] = 255
    horizon: ClassVar[None] = None
    measure: ClassVar[None] = None
    memory: ClassVar[tuple[str, ...]] = ("R", "ends", "sides", "w", "prior", "moments", "sums")

    def __post_init__(self) -> None:
        choice("explore", self.explore, Explore)
        positive("width", self.width)
        positive("share", self.share)
        if not 0.5 <= self.forget <= 1:
            raise ValueError(f"forget = {self.forget!r}: must be a number from 0.5 to 1, as in 0.999")
        whole("lift", self.lift, 0, MOST_COLUMNS)

    @property
    def kernels(self) -> Kernels:
        """Those that explore in this way."""
        return _BY_DOUBT if self.explore == "doubt" else _BY_SAMPLING

    def init(self, shape: Shape) -> RidgeState:
        """State before the first round."""
        m, columns, factors = shape.m, self._columns(shape.d), _products(shape.d, self.lift)
        sums = np.zeros(7)
        sums[_REFRESH] = 1
        scores, sampled, means, widths, doubts, prices, questions = (np.zeros(m) for _ in range(7))
        return RidgeState(
            R=np.zeros((columns, columns)),
            ends=row_ends(columns),
            sides=np.zeros((columns + 1, 2)),
            w=np.zeros(columns),
            prior=np.zeros(columns),
            moments=np.zeros((3, columns)),
            sums=sums,
            width=self.width,
            share=self.share,
            forget=self.forget,
            k=shape.k,
            d=shape.d,
            reserve=max(1.0, factors.shape[1] / shape.d),
            weights=1 / np.log2(np.arange(2.0, m + 2)),
            factors=factors,
            x=np.zeros(columns),
            y=np.zeros(columns + 2),
            U=np.zeros((m, columns)),
            centre=np.zeros(columns),
            inverses=np.zeros(columns),
            scores=scores,
            sampled=sampled,
            order=np.zeros(m, np.int64),
            drawn=np.zeros(m, np.int64),
            means=means,
            widths=widths,
            doubts=doubts,
            prices=prices,
            questions=questions,
            space=doubt_space(m),
            sorting=sort_space(m),
        )

    def _columns(self, d: int) -> int:
        columns = d + _products(d, self.lift).shape[1]
        if columns > MOST_COLUMNS:
            lifted = f" and lift = {self.lift}" if self.lift else ""
            raise ValueError(
                f"d = {d:,}{lifted}: {self.name} keeps a matrix of {columns:,} rows and columns, and its time "
                f"grows with the square; it takes {MOST_COLUMNS:,} at most. Use rtopkf, whose time grows with d"
            )
        return whole_blocks(columns)

    def token_size(self, shape: Shape) -> int:
        """The explored mark: whether the first k are others than the best ones by score."""
        return 1

    def draws(self, shape: Shape) -> int:
        """One for a question; or two for a forced one, and one for each column and for the constant, made even."""
        return 1 if self.explore == "doubt" else 2 + 2 * (self._columns(shape.d) // 2 + 1)

    def perceive(self, relevance: NDArray[Any]) -> Floats:
        """The grades as they are."""
        return np.asarray(relevance, dtype=np.float64)

    def weights(self, state: RidgeState) -> Features:
        """The weight of each column: the features, then what the lift adds."""
        return state.w[: state.d + state.factors.shape[1]].astype(np.float32)

    def scores(self, state: RidgeState, X: Features) -> Floats:
        """What is expected of each item, but for a constant."""
        scores = np.empty(len(X))
        _fill_scores(X, state.factors, state.w, np.empty(len(state.w)), scores)
        return scores

    def fault(self, state: RidgeState) -> str:
        """What is wrong with a memory that was read."""
        columns = len(state.w)
        if fault := fault_in_numbers(state, *self.memory):
            return fault
        if not np.all((row_ends(columns) <= state.ends) & (state.ends <= columns) & (state.ends % BLOCK == 0)):
            return "its rows do not end where they can"
        if np.tril(state.R, -1).any():
            return "there is something below the diagonal of its triangle"
        own, moments = state.sides[-1:, _ONE], state.moments[[_COUNT, _SQUARES]]
        if min(numbers.min() for numbers in (np.diag(state.R), own, state.prior, moments, state.sums)) < 0:
            return "its sums of squares are below 0"
        return "" if state.sums[_RENEW] < columns else "there is no column whose prior it could renew"

    def trouble(self, state: RidgeState) -> str:
        """Why nothing is learned any more; empty if nothing is wrong."""
        return "" if np.isfinite(state.w).all() else "weights have overflowed: features are too large"

    def bound(self, shape: Shape, horizon: int) -> None:
        """None: nothing is promised if relevance is not linear in the features."""


def _products(d: int, most: int) -> Ints:
    """Two factors of each lifted column: squares, then products; if there are more than `most`, well spread.

    >>> _products(2, 5)
    array([[0, 1, 0],
           [0, 1, 1]])
    """
    squares, products = np.tile(np.arange(d), (2, 1)), np.array(np.triu_indices(d, 1))
    chosen: list[Ints] = []
    for kind in (squares, products):
        scattered = np.argsort(np.arange(kind.shape[1]) * _GOLDEN % 1)
        some = scattered[: most - sum(part.shape[1] for part in chosen)]
        chosen.append(kind[:, np.sort(some)])
    return np.ascontiguousarray(np.hstack(chosen), dtype=np.int64)
