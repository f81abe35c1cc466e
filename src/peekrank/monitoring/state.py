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
UNEXPECTED, EXPECTED, RATE_FELL, GRADE_FELL, SILENT, STRAY, EQUAL = range(7)
HIDDEN, PUSHED, ITEM_RATE_FELL, ITEM_RATE_ROSE, ITEM_GRADE_FELL, ITEM_GRADE_ROSE = range(6)
OVERALL, PER_ITEM = 7, 6
_SHARE = 1.0 / (OVERALL + PER_ITEM)
_RATE, _GRADE = range(2)  # rows of references, of all decisions or of a cell
SEEN, PROPENSITY = range(2)  # columns of recent averages of an item
_RECENT = 0.05
_CERTAIN = 1e-9
_EQUAL = 0.95  # largest share of lists whose answers are equal, of those with two answers or more, not all lowest
_MAX_RAISED = 64


class MonitorState(NamedTuple):
    """E-processes and references, overall and by item, and the alarms of the latest step; then constants.

    The references of an item are by position, because people may answer by position. A cell is an item at a
    position. It gets a row of `references` when it is seen for the first time.
    """

    overall: Floats  # kind x stake
    items: Floats  # item x kind x stake
    reference: Floats  # rate, grade
    cells: Ints  # item x position: row of `references`, or -1
    references: Floats  # row x (rate, grade)
    used: Ints  # number of these rows in use
    recent: Floats  # item x (seen, propensity)
    shown: Floats  # recent sum of the propensities of items seen, and its expectation
    rounds: Ints
    raised: Floats  # rows of kind, item (-1: all decisions), position, expected low and high, recent value
    number: Ints  # number of these rows
    top: Floats  # space for the largest propensities of a list
    alpha: float
    min_feedback: float
    max_feedback: float
    min_feedback_rate: float
    max_orphan_rate: float
    tolerance: float  # largest share by which a mean may fall without a fault


def new_monitor_state(
    alpha: float, grades: tuple[float, float], min_feedback_rate: float, max_orphan_rate: float, tolerance: float
) -> MonitorState:
    """Return the initial state, without items."""
    return MonitorState(
        overall=new_e_process(OVERALL),
        items=new_e_process(0, PER_ITEM),
        reference=new_reference(2),
        cells=np.zeros((0, 0), np.int64),
        references=new_reference(0, 2),
        used=np.zeros(1, np.int64),
        recent=np.zeros((0, 2)),
        shown=np.zeros(2),
        rounds=np.zeros(1, np.int64),
        raised=np.zeros((_MAX_RAISED, 6)),
        number=np.zeros(1, np.int64),
        top=np.zeros(0),
        alpha=alpha,
        min_feedback=grades[0],
        max_feedback=grades[1],
        min_feedback_rate=min_feedback_rate,
        max_orphan_rate=max_orphan_rate,
        tolerance=tolerance,
    )


def with_room(s: MonitorState, items: int, positions: int, references: int, k: int) -> MonitorState:
    """Return the state with room for so many items, positions, rows of references, and propensities."""
    old, places = s.cells.shape
    if items > old or positions > places:
        items, positions = max(items, old), max(positions, places)
        cells = np.full((items, positions), -1)
        cells[:old, :places] = s.cells
        more = items - old
        s = s._replace(
            cells=cells,
            items=np.concatenate([s.items, new_e_process(more, PER_ITEM)]),
            recent=np.concatenate([s.recent, np.zeros((more, 2))]),
        )
    if references > len(s.references):
        fresh = new_reference(references - len(s.references), 2)
        s = s._replace(references=np.concatenate([s.references, fresh]))
    return s._replace(top=np.zeros(k)) if k > len(s.top) else s


@kernel
def _check(
    s: MonitorState, e_process: Floats, kind: int, item: int, position: int, low: float, high: float, recent: float
) -> bool:
    """Raise an alarm and reset the e-process if its wealth reaches 1 / alpha; note expected and recent values."""
    count = s.number[0]
    if wealth(e_process) * s.alpha < 1.0 or count == len(s.raised):
        return False
    row = s.raised[count]
    row[0], row[1], row[2], row[3], row[4], row[5] = kind, item, position, low, high, recent
    s.number[0] = count + 1
    e_process[:] = 0.0
    return True


@kernel
def _fell(s: MonitorState, deposit: float, which: int, x: float) -> None:
    """Bet that a mean over all decisions has fallen below its reference by more than the tolerance.

    Only a fall is an alarm, because a learner that learns makes the numbers rise. The first deposit pays for
    estimating the reference.
    """
    kind, reference = RATE_FELL + which, s.reference[which]
    if not is_known(reference):
        begin(reference, deposit * s.alpha)
        update_reference(reference, x)
        return
    low, high = reference[LOW], reference[HIGH]
    update_reference(reference, x)
    if low > 0.0:
        bet(s.overall[kind], deposit, bet_below(x, (1.0 - s.tolerance) * low))
        if _check(s, s.overall[kind], kind, -1, -1, low, high, reference[RECENT]):
            reset(reference)


@kernel
def _changed(s: MonitorState, item: int, position: int, deposit: float, which: int, x: float) -> None:
    """Bet that the mean of an item has fallen below its reference at this position, or risen above it.

    The bets of all positions use the same two e-processes, and an alarm resets all references behind them. The
    first deposits for a position pay for estimating its reference, and impossible changes get none.
    """
    kind, accounts = ITEM_RATE_FELL + 2 * which, s.items[item]
    reference = s.references[s.cells[item, position], which]
    if not is_known(reference):
        begin(reference, 2.0 * deposit * s.alpha)
        update_reference(reference, x)
        return
    low, high, changed = reference[LOW], reference[HIGH], False
    least, most = (1.0 - s.tolerance) * low, high / (1.0 - s.tolerance)
    update_reference(reference, x)
    recent = reference[RECENT]
    if least > 0.0:
        bet(accounts[kind], deposit, bet_below(x, least))
        changed = _check(s, accounts[kind], kind, item, position, low, high, recent)
    if most < 1.0:
        bet(accounts[kind + 1], deposit, bet_above(x, most))
        changed |= _check(s, accounts[kind + 1], kind + 1, item, position, low, high, recent)
    if changed:  # estimate new references
        accounts[kind : kind + 2] = 0.0
        for p in range(s.cells.shape[1]):
            if s.cells[item, p] >= 0:
                reset(s.references[s.cells[item, p], which])


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
    _check(s, s.overall[UNEXPECTED], UNEXPECTED, -1, -1, expected, expected, recent)
    bet(s.overall[EXPECTED], deposit, (observed - squares) / max(_CERTAIN, squares))
    _check(s, s.overall[EXPECTED], EXPECTED, -1, -1, expected, expected, recent)
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
    _check(s, accounts[HIDDEN], HIDDEN, item, -1, recent[PROPENSITY], recent[PROPENSITY], recent[SEEN])
    bet(accounts[PUSHED], _SHARE * (1.0 - propensity) / (n - total), bet_above(seen, max(propensity, _CERTAIN)))
    _check(s, accounts[PUSHED], PUSHED, item, -1, recent[PROPENSITY], recent[PROPENSITY], recent[SEEN])


@kernel
def _grade(s: MonitorState, answer: float) -> float:
    """Scale feedback to [0, 1]."""
    return min(1.0, max(0.0, (answer - s.min_feedback) / (s.max_feedback - s.min_feedback)))


@kernel
def _answers(s: MonitorState, items: Ints, positions: Ints, answers: Floats, k: int) -> None:
    """Bet that feedback has changed: its rate or its mean."""
    seen, answered, total, least, most = 0, 0, 0.0, 1.0, 0.0
    for r in range(len(items)):
        if 0 <= positions[r] < k:
            seen += 1
            if not np.isnan(answers[r]):
                answered += 1
                grade = _grade(s, answers[r])
                total, least, most = total + grade, min(least, grade), max(most, grade)
    if seen == 0:
        return
    _fell(s, _SHARE, _RATE, answered / seen)
    bet(s.overall[SILENT], _SHARE, bet_below(1.0 if answered > 0 else 0.0, s.min_feedback_rate))
    _check(s, s.overall[SILENT], SILENT, -1, -1, s.min_feedback_rate, 1.0, 0.0)
    if answered > 0:
        _fell(s, _SHARE, _GRADE, total / answered)
        bet(s.overall[STRAY], _SHARE, bet_above(0.0, s.max_orphan_rate))
    if answered > 1 and most > 0.0:
        bet(s.overall[EQUAL], _SHARE, bet_above(1.0 if least == most else 0.0, _EQUAL))
        _check(s, s.overall[EQUAL], EQUAL, -1, -1, 0.0, _EQUAL, 1.0)
    for r in range(len(items)):
        if 0 <= positions[r] < k:
            item, position, known = items[r], min(positions[r], len(items) - 1), not np.isnan(answers[r])
            if s.cells[item, position] < 0:
                s.cells[item, position] = s.used[0]
                s.used[0] += 1
            _changed(s, item, position, _SHARE / seen, _RATE, 1.0 if known else 0.0)
            if known:
                _changed(s, item, position, _SHARE / answered, _GRADE, _grade(s, answers[r]))


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
    _check(s, s.overall[STRAY], STRAY, -1, -1, 0.0, s.max_orphan_rate, 1.0)


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
