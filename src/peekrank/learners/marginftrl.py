"""Margin FTRL: questions at the price of the worst case, but only as long as margins leave room for doubt."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from math import exp, log, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank.kernels.permutahedron import (
    Pairs,
    Space,
    chances_with_questions,
    exchange,
    expect,
    find_exchanges,
    leader,
    pairs,
    space,
)
from peekrank.learners._shared import (
    check_parameters,
    fault_in_counts,
    fault_in_numbers,
    largest_gain,
    position_weights,
)
from peekrank.measures import learnable
from peekrank.measures import measure as measure_named
from peekrank.types import Features, Floats, Ints, Kernels, LinearMeasure, Shape

# The clock: answered rounds; those of them under the present plan, and for how many that is made (fewer than there
# were: it is over); pools of its leader (0: there is no plan yet); whether rates are those of the worst case
_ROUNDS, _ANSWERED, _LENGTH, _POOLS, _SAFE = range(5)
# The numbers: beta, what questions cost in a round, the chance of a question, and how far answers may move an item
# before the plan is over
_BETA, _PRICE, _ASKING, _REACH = range(4)

_SHARE = 0.5  # lambda: beta grows by this share of what is lost, over h
_LONGEST = 32  # answered rounds that a plan is made for, at most; items for each round of one that only explores
_NUDGE = 1 / 32  # z0: a plan is over when answers have moved an item's costs by this times beta
_PUSH = (
    0.5  # c: an answer moves costs by c sqrt(v(1) / (k x_i)) times beta at most, where that may change the leader
)
_HARDEST = 2.0  # and by this times beta
_MOST_ASKING = 0.9  # the chance of a question, at most
_MANY = 10_000  # places; beyond, the shift is chosen by means of their weights
_RARELY = 2.0**-40  # the least that questions are wanted
_CAUTION = 0.5  # alpha: how much doubt there must be about the order
_CALM = 0.2  # what is added to the logarithm of what a mistake may cost
_BOUNDLESS = 1e99  # a margin where nobody is to be passed
_SLACK = 1.5  # how many times as fast as in the worst case beta^q may grow before safe rates are taken


class Scale(NamedTuple):
    """The constants of the bound, for costs from 0 to 1."""

    shift: float  # a, which is added to all weights
    V: float  # sum of the shifted weights
    h: float  # range of their entropy
    E: float  # price of one question about every item
    power: float  # q: in the worst case beta^q grows in proportion to the rounds
    pace: float  # D: what it grows by in a round
    start: float  # beta_s, where safe rates begin
    jump: float  # a plan multiplies beta by 1 + jump at most,
    hop: float  # and adds hop to that
    exploring: int  # rounds of a plan that asks all the time


class MarginFTRLState(NamedTuple):
    """Estimated costs, what was seen of every item, the plan in force, the constants, and working memory."""

    costs: Floats  # estimated, without the hints of the plan in force
    sums: Floats  # of the costs seen
    squares: Floats  # of their deviations from the hints
    counts: Ints
    hints: Floats  # what each item is thought to cost a round, as long as the plan is in force
    moved: Floats  # what answers have added to the costs under this plan
    asked: Floats  # the chance of a question about each item
    chance: Floats  # of each item: to be asked about, or seen in a round without a question
    clock: Ints
    numbers: Floats
    weights: Floats  # shifted
    logs: Floats  # their logarithms
    drops: Floats  # how much the nearest place of another weight differs from each place
    seen_at: Floats  # the chance that an item drawn to this place is seen
    price_at: Floats  # what moving it from this place to place k costs at most
    k: int
    first_tie: int  # the places that weigh as much as place k
    last_tie: int
    scale: Scale
    growth: float  # lambda / h; 0 if all places weigh the same
    scores: Floats  # by item, as is point
    point: Floats
    seen: Floats  # by order, as are price, up and down
    price: Floats
    up: Floats
    down: Floats
    space: Space
    pairs: Pairs


@kernel
def _lost(s: MarginFTRLState) -> float:
    """How far the plan's point is from the best one for the costs as they are now."""
    m, beta, lowest = len(s.costs), s.numbers[_BETA], s.costs[0]
    for p in range(m):
        s.point[s.space.order[p]] = s.space.x[p]
    for i in range(m):
        s.scores[i] = -s.costs[i]
        lowest = min(lowest, s.costs[i])
    leader(s.scores, 1 / beta, s.weights, s.space)
    lost = 0.0
    for p in range(m):
        i, y = s.space.order[p], s.space.x[p]
        x = s.point[i]
        if x != y:
            lost += (x - y) * (s.costs[i] - lowest) + beta * (x * log(x) - y * log(y))
    return max(lost, 0.0)


@kernel
def _find_margins(s: MarginFTRLState) -> None:
    """How far the cost of an item alone in its pool can fall (up) and rise (down) without changing the leader.

    Pools have levels, which rise along the order; moving an item's cost moves its level. Items that are alone and
    whose places weigh the same can pass each other.
    """
    order, first, pools, beta = s.space.order, s.space.first, s.clock[_POOLS], s.numbers[_BETA]
    level, limit = _BOUNDLESS, _BOUNDLESS  # of the pool just visited; of the nearest one of another weight
    for b in range(pools - 1, -1, -1):
        p, end = first[b], first[b + 1]
        if end < len(order) and not _can_pass(s, b):
            limit = level
        share = s.logs[p] if end - p == 1 else log(s.space.mass[b] / s.space.total[b])
        level = beta * share - s.scores[order[p]]
        s.down[p] = max(limit - level, 0.0) if end - p == 1 else 0.0
        s.up[p] = level
        s.down[p + 1 : end] = 0
        s.up[p + 1 : end] = 0
    before, limit = -_BOUNDLESS, -_BOUNDLESS
    for b in range(pools):
        p, end = first[b], first[b + 1]
        if b > 0 and not _can_pass(s, b - 1):
            limit = before
        before = s.up[p]
        s.up[p] = max(before - limit, 0.0) if end - p == 1 else 0.0


@kernel
def _can_pass(s: MarginFTRLState, b: int) -> bool:
    """Whether this pool and the next one are single items whose places weigh the same."""
    p, first = s.space.first[b], s.space.first
    return bool(first[b + 1] - p == 1 and first[b + 2] - p == 2 and s.weights[p] == s.weights[p + 1])


@kernel
def _wanted(s: MarginFTRLState, p: int) -> float:
    """How often the item at p of the order should be seen: enough for the worst case, and for what is in doubt."""
    i, beta, x, price, rounds = (
        s.space.order[p],
        s.numbers[_BETA],
        s.space.x[p],
        s.price[p],
        s.clock[_ROUNDS] + 1.0,
    )
    hint, variance = s.hints[i], (s.squares[i] + 0.5) / (s.counts[i] + 2)
    push = min(_PUSH * sqrt(s.weights[0] / (s.k * x)), _HARDEST)
    wanted = max(hint, 1 - hint) / (push * beta)
    if price > 0:
        wanted = max(wanted, sqrt(variance * x / (2 * beta * price)))
    part, spare = (1.0 if s.k == 1 else 0.5), 2 * _NUDGE * beta
    up, down = part * s.up[p] - spare, part * s.down[p] - spare
    if up > 0 and down > 0:
        enough, margin = max(hint / up, (1 - hint) / down), min(s.up[p], s.down[p])
        if margin < _BOUNDLESS and enough < wanted:
            gap = min(margin / rounds, 1.0)
            mistake = s.drops[p] * gap**3 * rounds / (max(price, 1e-9) * variance)
            doubt = variance * rounds / (margin * margin) + 0.5 / margin
            enough = max(enough, _CAUTION * (_CALM + log(1 + mistake)) * doubt)
        wanted = min(wanted, enough)
    chance: float = min(max(wanted, _RARELY), 1.0)
    return chance


@kernel
def _choose_rates(s: MarginFTRLState) -> None:
    """The chances of questions, and with them the price of a round and for how many rounds the plan is."""
    m, beta, order = len(s.costs), s.numbers[_BETA], s.space.order
    safe = sqrt(s.scale.V / (8 * beta * s.scale.E)) if s.scale.E > 0 else 0.5 / m
    most = 0.0  # that all questions together can take
    for p in range(m):
        s.asked[order[p]] = safe if s.clock[_SAFE] else _wanted(s, p)
        most += max(s.asked[order[p]] - 0.5 * s.seen[p], 0.0)
    asking, price = 0.0, 0.0
    for p in range(m):
        i = order[p]
        if most > 0.5:
            share = max(s.asked[i] - 0.5 * s.seen[p], 0.0) / most
            s.asked[i] = min(most, _MOST_ASKING) * 0.5 * (1 / m + share)
        else:
            s.asked[i] = max(s.asked[i] - (1 - most) * s.seen[p], 0.0)
        asking += s.asked[i]
        price += s.asked[i] * s.price[p]
    for p in range(m):
        s.chance[order[p]] = s.asked[order[p]] + (1 - asking) * s.seen[p]
    s.numbers[_ASKING], s.numbers[_PRICE] = asking, price
    s.numbers[_REACH] = _BOUNDLESS
    if s.clock[_SAFE]:
        s.clock[_LENGTH] = 1
    elif most > 0.5:
        s.clock[_LENGTH] = s.scale.exploring
    else:
        length = min(1 + 2 * _NUDGE * beta, float(_LONGEST))
        if asking * length > 0.5:
            length = 0.5 / asking
        s.clock[_LENGTH] = int(max(length, 1.0))
        s.numbers[_REACH] = _NUDGE * beta


@kernel
def _make_plan(s: MarginFTRLState) -> None:
    m, answered = len(s.costs), s.clock[_ANSWERED]
    if answered > 0:
        for i in range(m):
            s.costs[i] += answered * s.hints[i]
        if s.clock[_POOLS] > 0:
            s.numbers[_BETA] += s.growth * (answered * s.numbers[_PRICE] + _lost(s))
        s.clock[_ANSWERED] = 0
    highest = (1 + s.scale.jump) * s.numbers[_BETA] + s.scale.hop
    allowed = s.scale.start**s.scale.power + _SLACK * s.scale.pace * s.clock[_ROUNDS]
    if s.clock[_SAFE] == 0 and s.growth > 0 and highest**s.scale.power > allowed:
        s.clock[_SAFE] = 1
        s.numbers[_BETA] = max(s.numbers[_BETA], s.scale.start)
    for i in range(m):
        s.hints[i] = 0.5 if s.clock[_SAFE] else (s.sums[i] + 0.5) / (s.counts[i] + 1)
        s.scores[i] = -(s.costs[i] + s.hints[i])
        s.moved[i] = 0
    s.clock[_POOLS] = leader(s.scores, 1 / s.numbers[_BETA], s.weights, s.space)
    find_exchanges(s.weights, s.clock[_POOLS], s.space)
    for p in range(m):
        s.seen[p], s.price[p] = s.seen_at[p], s.price_at[p]
    expect(s.seen, s.space)
    expect(s.price, s.space)
    if s.clock[_SAFE] == 0:
        _find_margins(s)
    _choose_rates(s)


@kernel
def _rank(s: MarginFTRLState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    if s.clock[_ANSWERED] >= s.clock[_LENGTH]:
        _make_plan(s)
    else:
        find_exchanges(s.weights, s.clock[_POOLS], s.space)
    m, k = len(ranking), s.k
    exchange(uniforms[1:], ranking, s.space)
    if s.last_tie - s.first_tie > 1:
        for p in range(s.first_tie, k):
            j = p + int(uniforms[1 + m + p] * (s.last_tie - p))
            ranking[p], ranking[j] = ranking[j], ranking[p]
    token[0] = 0
    if uniforms[0] >= s.numbers[_ASKING]:
        for p in range(k):
            token[1 + p] = s.chance[ranking[p]]
        return
    item, left = 0, uniforms[0] - s.asked[0]
    while left >= 0 and item < m - 1:
        item += 1
        left -= s.asked[item]
    place = 0
    while ranking[place] != item:
        place += 1
    if place >= k:
        for p in range(place, k - 1, -1):
            ranking[p] = ranking[p - 1]
        ranking[k - 1] = item
        place = k - 1
        token[0] = 1
    for p in range(k):
        token[1 + p] = s.chance[item] if p == place else 0.0


@kernel
def _update(s: MarginFTRLState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    for p in range(len(feedback)):
        if not (token[1 + p] == 0 or 0.5 * _RARELY <= token[1 + p] <= 1 + 1e-9):
            raise ValueError("the token of this decision is not one of this agent's")
    answers, far = 0, False
    for p in range(len(feedback)):
        if not np.isnan(feedback[p]):
            answers += 1
            i = ranking[p]
            off = feedback[p] - s.hints[i]
            if token[1 + p] > 0:
                s.costs[i] += off / token[1 + p]
                s.moved[i] += off / token[1 + p]
                far = far or abs(s.moved[i]) > s.numbers[_REACH]
            s.squares[i] += off * off
            s.sums[i] += feedback[p]
            s.counts[i] += 1
    if answers > 0:
        s.clock[_ROUNDS] += 1
        s.clock[_ANSWERED] += 1
        if far:
            s.clock[_LENGTH] = 0


@kernel
def _chances(s: MarginFTRLState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    for p in range(len(out)):
        s.seen[p] = s.seen_at[p]
    expect(s.seen, s.space)
    chances_with_questions(s.asked, s.seen, s.clock[_POOLS], s.space, s.pairs, out)


@dataclass(frozen=True)
class MarginFTRL:
    """Follow the leader regularised by entropy, and ask about items as often as their margins leave doubt.

    The leader is that of blockftrl, for costs estimated round by round, but all positions weigh a little more. It
    is then exactly a ranking as soon as costs differ enough, and estimates that move an item by less than its
    margin change nothing: so rare questions about it are safe against every sequence. How rare they become is up
    to the variance of its answers and to what a mistake would cost. A question moves its item to position k. beta,
    by which the entropy is multiplied, grows by what is lost, as that becomes known; if it grows faster than it
    can in the worst case, questions are asked at the rates of the worst case from then on.

    With v = w + a the shifted weights, V their sum, ``h = sum_p v(p) ln(m v(p) / V)``, g the largest gain and E
    the sum of w(k) - w(p) over p > k, the expected regret after every T is at most
    ``2.58 g (h V E)^(1/3) T^(2/3)`` and lower order, which `bound` includes; docs/learners/marginftrl.md has proof
    and algorithm.

    - Of k answers those that came count. A round without any leaves everything as it was.
    - Answers may come late and in any order; the bound is for those that come before the next ranking.

    Parameters
    ----------
    measure
        What is to be learned; must be separable.
    max_grade
        Largest relevance grade.

    >>> from peekrank.measures import DCG
    >>> round(MarginFTRL(DCG()).bound(Shape(10, 0, 1), 100_000))
    12098
    """

    measure: LinearMeasure = field(metadata={"read": measure_named})
    max_grade: int = 1
    name: ClassVar[str] = "marginftrl"
    contextual: ClassVar[bool] = False
    any_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    horizon: ClassVar[None] = None
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, _chances, clocked=True)
    memory: ClassVar[tuple[str, ...]] = (
        *("costs", "sums", "squares", "counts", "hints", "moved", "asked", "chance", "clock", "numbers"),
        *("space.order", "space.x", "space.first"),  # of the leader, which is followed as long as the plan is
    )

    def __post_init__(self) -> None:
        check_parameters(horizon=1, max_grade=self.max_grade)
        learnable(self.measure, self.max_grade)

    def init(self, shape: Shape) -> MarginFTRLState:
        """State before the first round."""
        m, k = shape.m, shape.k
        w, scale = position_weights(self.measure, m), self.scale(shape)
        tied = np.flatnonzero(w == w[k - 1])
        first, last = int(tied[0]), int(tied[-1]) + 1
        places = np.arange(m)
        inside = np.where((places >= first) & (places < last), (k - first) / (last - first), 0.0)
        return MarginFTRLState(
            costs=np.zeros(m),
            sums=np.zeros(m),
            squares=np.zeros(m),
            counts=np.zeros(m, dtype=np.int64),
            hints=np.full(m, 0.5),
            moved=np.zeros(m),
            asked=np.zeros(m),
            chance=np.ones(m),
            clock=np.zeros(5, dtype=np.int64),
            numbers=np.array([1.0, 0.0, 0.0, 0.0]),
            weights=w + scale.shift,
            logs=np.log(w + scale.shift),
            drops=_drops(w),
            seen_at=np.where(places < first, 1.0, inside),
            price_at=np.maximum(w[k - 1] - w, 0.0),
            k=k,
            first_tie=first,
            last_tie=last,
            scale=scale,
            growth=_SHARE / scale.h if scale.h else 0.0,
            scores=np.zeros(m),
            point=np.zeros(m),
            seen=np.zeros(m),
            price=np.zeros(m),
            up=np.zeros(m),
            down=np.zeros(m),
            space=space(m),
            pairs=pairs(m, k, range(first, last)),
        )

    def fault(self, state: MarginFTRLState) -> str:
        """What is wrong with a memory that was read."""
        floats = ("costs", "sums", "squares", "hints", "moved", "asked", "chance", "numbers", "space.x")
        if fault := fault_in_numbers(state, *floats):
            return fault
        if fault := fault_in_counts(state, "counts", "clock", "space.order", "space.first"):
            return fault
        m, clock, first = len(state.costs), state.clock, state.space.first
        if not np.array_equal(np.sort(state.space.order), np.arange(m)):
            return "its space.order must hold each item once"
        if state.numbers[_BETA] < 1 or state.numbers.min() < 0:
            return "its numbers must be beta, 1 at least, and a price, a chance and a reach, 0 at least"
        if state.squares.min() < 0 or state.asked.min() < 0:
            return "its squares and asked must not be below 0"
        if not (np.all(state.chance >= _RARELY / 2) and np.all(state.chance <= 1 + 1e-9)):
            return "its chance must be probabilities"
        if clock[_LENGTH] > 0 and clock[_POOLS] == 0:
            return "its clock has a plan without pools"
        pools, whole = clock[_POOLS], state.space.x > 0
        ends = first[0] == 0 and first[min(pools, m)] == m and np.all(np.diff(first[: pools + 1]) > 0)
        if pools > 0 and not (pools <= m and ends and whole.all()):
            return "its space.first must cut the items into pools, and its space.x be above 0"
        return ""

    def scores(self, state: MarginFTRLState, X: Features) -> Floats:
        """What an item costs in a round, as estimated, with a minus sign."""
        costs = state.costs + state.clock[_ANSWERED] * state.hints
        return np.asarray(-costs / max(1, state.clock[_ROUNDS]))

    def token_size(self, shape: Shape) -> int:
        """The explored mark and, for each of the k items, the chance of such an answer; 0 if it does not teach."""
        return 1 + shape.k

    def draws(self, shape: Shape) -> int:
        """One for whom to ask about, a coin for each item, and one for each place that ties are shuffled to."""
        return 1 + shape.m + shape.k

    def perceive(self, relevance: NDArray[Any]) -> Floats:
        """The cost: what the measure's gain lacks to the largest one, as a part of that."""
        return 1 - self.measure.gain(relevance) / largest_gain(self.measure, self.max_grade)

    def scale(self, shape: Shape) -> Scale:
        """The constants of the bound."""
        return _scale(self.measure, shape.m, shape.k)

    def bound(self, shape: Shape, horizon: int) -> float:
        """``g h ((1 + 1/lambda) (beta_s^q + 1.5 D (T + 31))^(1/q) - 1/lambda)``."""
        c = self.scale(shape)
        highest = (c.start**c.power + _SLACK * c.pace * (horizon + _LONGEST - 1)) ** (1 / c.power)
        return float(largest_gain(self.measure, self.max_grade) * c.h * ((1 + 1 / _SHARE) * highest - 1 / _SHARE))


@lru_cache(maxsize=64)
def _scale(measure: LinearMeasure, m: int, k: int) -> Scale:
    w, (shift, V, h) = position_weights(measure, m), _entropy(measure, m)
    first, top = float(w[0]) + shift, float(w[:k].sum()) + k * shift
    E = float(np.maximum(w[k - 1] - w, 0).sum())
    if w[0] == 0:
        return Scale(shift, V, 0.0, 0.0, 1.5, 0.0, 1.0, 0.0, 0.0, 1)
    grow = _SHARE / h
    pushed = max(_phi(-z - 2 * _NUDGE) / z**2 for z in (_PUSH / sqrt(k), _HARDEST))
    jump = grow * (V * _phi(-2 * _NUDGE) + _PUSH**2 * first * pushed)
    n = min(max(m // _LONGEST, 1), _LONGEST)
    hop = grow * (float(w[0]) * m * (4 * n * k + (n - 1) / 2) + n * float(w[k - 1]))
    if E > 0:
        power, start = 1.5, max(V * m * m / (2 * E), 50 * E / V, 4 * E / h, 4 * (1 + jump + hop))
        R = sqrt(E * V / 2)
        most = R / (2 * sqrt(start)) + 1.08 * E * top / V
        pace = 1.5 * grow * R * (1 + sqrt(2 * E / (V * start)) / 4) * (1 + grow * most / (4 * start))
    else:
        power, start = 2.0, max(5.0 * m, 4 * (1 + jump + hop))
        most = 0.54 * top * m * m / start
        pace = 2 * grow * 0.27 * V * m * (1 + grow * most / (2 * start))
    return Scale(shift, V, h, E, power, pace, start, jump, hop, n)


def _phi(z: float) -> float:
    return exp(-z) - 1 + z


@lru_cache(maxsize=64)
def _entropy(measure: LinearMeasure, m: int) -> tuple[float, float, float]:
    """The shift a from a quarter of the last weight to the mean, on a grid, that makes h V least; with V and h."""
    w = position_weights(measure, m)
    if w[0] == 0:
        return 1.0, float(m), 0.0
    last, mean = max(float(w[w > 0][-1]), _RARELY * float(w[0])), float(w.mean())

    def found(a: float, w: Floats, places: Ints | int) -> tuple[float, float, float]:
        v = w + a  # summed by NumPy: a product would wake the threads of BLAS
        return a, float(np.sum(places * v)), float(np.sum(places * v * np.log(v / (mean + a))))

    means, sizes = _in_blocks(w)
    grid = (found(float(a), means, sizes) for a in np.geomspace(last / 4, max(mean, last), 40))
    return found(min(grid, key=lambda f: f[1] * f[2])[0], w, 1)


def _in_blocks(w: Floats) -> tuple[Floats, Ints]:
    """Weights of many places as means over blocks that grow, with their sizes: enough to choose a shift by."""
    m = len(w)
    if m <= _MANY:
        return w, np.ones(m, dtype=np.int64)
    edges = np.unique(np.geomspace(1, m, _MANY).astype(np.int64)) - 1
    sizes = np.diff(edges, append=m)
    return np.add.reduceat(w, edges) / sizes, sizes


def _drops(w: Floats) -> Floats:
    """The larger of the two steps from each place to the nearest ones of another weight."""
    edges = [0, *(np.flatnonzero(np.diff(w)) + 1).tolist(), len(w)]
    steps = [0.0, *(-np.diff(w)[np.diff(w) != 0]).tolist(), 0.0]
    drops = np.zeros(len(w))
    for group, (begin, end) in enumerate(pairwise(edges)):
        drops[begin:end] = max(steps[group], steps[group + 1])
    return drops
