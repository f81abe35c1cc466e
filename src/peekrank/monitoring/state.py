"""State of all e-detectors, and the compiled step that updates them with a decision."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.e_detectors import (
    HIGH,
    LOW,
    RECENT,
    begin,
    bet,
    bet_above,
    bet_below,
    is_known,
    new_e_process,
    new_reference,
    reset,
    update_reference,
    wealth,
)
from peekrank.types import Floats, Ints

# Alarms on all decisions, then on single items; each gets an equal share of the deposit of a round.
UNEXPECTED, EXPECTED, RATE_FELL, GRADE_FELL, SILENT, STRAY = range(6)
HIDDEN, PUSHED, ITEM_RATE_FELL, ITEM_RATE_ROSE, ITEM_GRADE_FELL, ITEM_GRADE_ROSE = range(6)
OVERALL = PER_ITEM = 6
_SHARE = 1.0 / (OVERALL + PER_ITEM)
_RATE, _GRADE = range(2)  # rows of references
SEEN, PROPENSITY = range(2)  # columns of recent averages of an item
_RECENT = 0.05
_CERTAIN = 1e-9
_MAX_RAISED = 64


class MonitorState(NamedTuple):
    """E-processes and references, overall and by item, and the alarms of the latest step; then constants."""

    overall: Floats  # kind x stake
    items: Floats  # item x kind x stake
    reference: Floats  # rate, grade
    item_references: Floats  # item x (rate, grade)
    recent: Floats  # item x (seen, propensity)
    shown: Floats  # recent sum of the propensities of items seen, and its expectation
    rounds: Ints
    raised: Floats  # rows of kind, item (-1: all decisions), expected low and high, recent value
    number: Ints  # number of these rows
    top: Floats  # space for the largest propensities of a list
    alpha: float
    min_feedback: float
    max_feedback: float
    min_feedback_rate: float
    max_orphan_rate: float


def new_monitor_state(
    items: int, alpha: float, grades: tuple[float, float], min_feedback_rate: float, max_orphan_rate: float
) -> MonitorState:
    """Return the initial state for a number of items."""
    return MonitorState(
        overall=new_e_process(OVERALL),
        items=new_e_process(items, PER_ITEM),
        reference=new_reference(2),
        item_references=new_reference(items, 2),
        recent=np.zeros((items, 2)),
        shown=np.zeros(2),
        rounds=np.zeros(1, np.int64),
        raised=np.zeros((_MAX_RAISED, 5)),
        number=np.zeros(1, np.int64),
        top=np.zeros(0),
        alpha=alpha,
        min_feedback=grades[0],
        max_feedback=grades[1],
        min_feedback_rate=min_feedback_rate,
        max_orphan_rate=max_orphan_rate,
    )


@kernel
def _check(
    s: MonitorState, e_process: Floats, kind: int, item: int, low: float, high: float, recent: float
) -> bool:
    """Raise an alarm and reset the e-process if its wealth reaches 1 / alpha; note expected and recent values."""
    count = s.number[0]
    if wealth(e_process) * s.alpha < 1.0 or count == len(s.raised):
        return False
    row = s.raised[count]
    row[0], row[1], row[2], row[3], row[4] = kind, item, low, high, recent
    s.number[0] = count + 1
    e_process[:] = 0.0
    return True


@kernel
def _changed(
    s: MonitorState, reference: Floats, accounts: Floats, kind: int, item: int, deposit: float, x: float
) -> bool:
    """Bet that a mean has fallen below its reference (`kind`) or, for items, risen above it (`kind` + 1).

    The first deposits pay for estimating the reference, and impossible changes get none. For all decisions
    together (item -1) only a fall is an alarm, because a learner that learns makes the numbers rise.
    """
    if not is_known(reference):
        begin(reference, (2.0 if item >= 0 else 1.0) * deposit * s.alpha)
        update_reference(reference, x)
        return False
    low, high = reference[LOW], reference[HIGH]
    update_reference(reference, x)
    recent = reference[RECENT]
    bet(accounts[kind], deposit if low > 0.0 else 0.0, bet_below(x, low))
    changed = _check(s, accounts[kind], kind, item, low, high, recent)
    if item >= 0:
        bet(accounts[kind + 1], deposit if high < 1.0 else 0.0, bet_above(x, high))
        changed |= _check(s, accounts[kind + 1], kind + 1, item, low, high, recent)
    if changed:  # estimate a new reference
        accounts[kind] = 0.0
        if item >= 0:
            accounts[kind + 1] = 0.0
        reset(reference)
    return changed


@kernel
def _largest_sum(propensities: Floats, top: Floats) -> float:
    """Return the sum of the ``len(top)`` largest propensities."""
    k = len(top)
    top[:] = 0.0
    for i in range(len(propensities)):
        propensity = propensities[i]
        if propensity > top[k - 1]:
            j = k - 1
            while j > 0 and top[j - 1] < propensity:
                top[j] = top[j - 1]
                j -= 1
            top[j] = propensity
    return float(top.sum())


@kernel
def _shown(s: MonitorState, items: Ints, propensities: Floats, positions: Ints, k: int) -> None:
    """Bet that lists are not shown as ranked, so that sums of (seen - propensity) are not martingales."""
    n, total, squares, observed = len(items), 0.0, 0.0, 0.0
    for r in range(n):
        if not 0.0 <= propensities[r] <= 1.0 + _CERTAIN:
            return  # unknown
        total += propensities[r]
        squares += propensities[r] * propensities[r]
        observed += propensities[r] if 0 <= positions[r] < k else 0.0
    s.shown[0] += _RECENT * (observed - s.shown[0])
    s.shown[1] += _RECENT * (squares - s.shown[1])
    recent, expected = s.shown[0], s.shown[1]
    room = _largest_sum(propensities, s.top[:k]) - squares
    deposit = _SHARE if room > _CERTAIN else 0.0  # a deterministic list carries no information
    bet(s.overall[UNEXPECTED], deposit, (squares - observed) / max(_CERTAIN, room))
    _check(s, s.overall[UNEXPECTED], UNEXPECTED, -1, expected, expected, recent)
    bet(s.overall[EXPECTED], deposit, (observed - squares) / max(_CERTAIN, squares))
    _check(s, s.overall[EXPECTED], EXPECTED, -1, expected, expected, recent)
    if not _CERTAIN < total < n - _CERTAIN:
        return
    for r in range(n):
        _item_shown(s, items[r], min(1.0, propensities[r]), 1.0 if 0 <= positions[r] < k else 0.0, n, total)


@kernel
def _item_shown(s: MonitorState, item: int, propensity: float, seen: float, n: int, total: float) -> None:
    """Bet that an item is shown less or more often than its propensity says.

    Deposits are proportional to the propensity, or to 1 minus the propensity.
    """
    recent, accounts = s.recent[item], s.items[item]
    recent[SEEN] += _RECENT * (seen - recent[SEEN])
    recent[PROPENSITY] += _RECENT * (propensity - recent[PROPENSITY])
    bet(accounts[HIDDEN], _SHARE * propensity / total, bet_below(seen, min(propensity, 1.0 - _CERTAIN)))
    _check(s, accounts[HIDDEN], HIDDEN, item, recent[PROPENSITY], recent[PROPENSITY], recent[SEEN])
    bet(accounts[PUSHED], _SHARE * (1.0 - propensity) / (n - total), bet_above(seen, max(propensity, _CERTAIN)))
    _check(s, accounts[PUSHED], PUSHED, item, recent[PROPENSITY], recent[PROPENSITY], recent[SEEN])


@kernel
def _grade(s: MonitorState, answer: float) -> float:
    """Scale feedback to [0, 1]."""
    return min(1.0, max(0.0, (answer - s.min_feedback) / (s.max_feedback - s.min_feedback)))


@kernel
def _answers(s: MonitorState, items: Ints, positions: Ints, answers: Floats, k: int) -> None:
    """Bet that feedback has changed: its rate or its mean."""
    seen, answered, total = 0, 0, 0.0
    for r in range(len(items)):
        if 0 <= positions[r] < k:
            seen += 1
            if not np.isnan(answers[r]):
                answered += 1
                total += _grade(s, answers[r])
    if seen == 0:
        return
    _changed(s, s.reference[_RATE], s.overall, RATE_FELL, -1, _SHARE, answered / seen)
    bet(s.overall[SILENT], _SHARE, bet_below(1.0 if answered > 0 else 0.0, s.min_feedback_rate))
    _check(s, s.overall[SILENT], SILENT, -1, s.min_feedback_rate, 1.0, 0.0)
    if answered > 0:
        _changed(s, s.reference[_GRADE], s.overall, GRADE_FELL, -1, _SHARE, total / answered)
        bet(s.overall[STRAY], _SHARE, bet_above(0.0, s.max_orphan_rate))
    for r in range(len(items)):
        if 0 <= positions[r] < k:
            item, known = items[r], not np.isnan(answers[r])
            references, accounts = s.item_references[item], s.items[item]
            _changed(s, references[_RATE], accounts, ITEM_RATE_FELL, item, _SHARE / seen, 1.0 if known else 0.0)
            if known:
                x = _grade(s, answers[r])
                _changed(s, references[_GRADE], accounts, ITEM_GRADE_FELL, item, _SHARE / answered, x)


@kernel
def observe(s: MonitorState, items: Ints, propensities: Floats, positions: Ints, answers: Floats, k: int) -> None:
    """Observe a decision with final feedback. Alarms are in ``raised[:number]``."""
    s.rounds[0] += 1
    if k < len(items):
        _shown(s, items, propensities, positions, k)
    _answers(s, items, positions, answers, k)


@kernel
def observe_stray(s: MonitorState) -> None:
    """Observe feedback on an unknown decision. It gets no deposit, because it is not a round."""
    bet(s.overall[STRAY], 0.0, bet_above(1.0, s.max_orphan_rate))
    _check(s, s.overall[STRAY], STRAY, -1, 0.0, s.max_orphan_rate, 1.0)


@kernel
def observe_many(
    s: MonitorState,
    offsets: Ints,
    items: Ints,
    propensities: Floats,
    positions: Ints,
    answers: Floats,
    ks: Ints,
    first: int,
) -> int:
    """Observe decisions from `first` on until one raises an alarm. Return the number of decisions done."""
    for t in range(first, len(ks)):
        a, b = offsets[t], offsets[t + 1]
        observe(s, items[a:b], propensities[a:b], positions[a:b], answers[a:b], ks[t])
        if s.number[0] > 0:
            return t + 1
    return len(ks)
