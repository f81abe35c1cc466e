"""The accounts of all alarms, and the compiled step that lets them bet on one decision after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from peekrank.kernels.detectors import (
    HIGH,
    LOW,
    RECENT,
    against_less,
    against_more,
    begin,
    bet,
    forget,
    is_known,
    new_account,
    new_past,
    take,
    worth,
)

from peekrank._jit import kernel
from peekrank.types import Floats, Ints

# Kinds of alarms on all decisions, then on single items; each has an equal share of a round's coin.
UNEXPECTED, EXPECTED, RATE_FELL, GRADE_FELL, SILENT, STRAY = range(6)
HIDDEN, PUSHED, ITEM_RATE_FELL, ITEM_RATE_ROSE, ITEM_GRADE_FELL, ITEM_GRADE_ROSE = range(6)
OVERALL = PER_ITEM = 6
_SHARE = 1.0 / (OVERALL + PER_ITEM)
_RATE, _GRADE = range(2)  # pasts
SEEN, CHANCE = range(2)  # what is recent of an item
_RECENT = 0.05
_CERTAIN = 1e-9
_MOST_RAISED = 64


class Accounts(NamedTuple):
    """Money and pasts, overall and by item, and what was raised by the latest step; then constants."""

    overall: Floats  # kind x stake
    items: Floats  # item x kind x stake
    past: Floats  # rate, grade
    item_pasts: Floats  # item x (rate, grade)
    recent: Floats  # item x (seen, chance)
    shown: Floats  # recent sum of chances of what was seen, and what it should be
    rounds: Ints
    raised: Floats  # rows of kind, item (-1: all decisions), what was expected from and to, and what is recent
    number: Ints  # how many of these rows there are
    top: Floats  # space for the largest chances of a list
    alpha: float
    lowest: float
    highest: float
    least_rate: float
    stray_rate: float


def no_accounts(
    items: int, alpha: float, grades: tuple[float, float], least_rate: float, stray: float
) -> Accounts:
    """Empty accounts for so many items."""
    return Accounts(
        overall=new_account(OVERALL),
        items=new_account(items, PER_ITEM),
        past=new_past(2),
        item_pasts=new_past(items, 2),
        recent=np.zeros((items, 2)),
        shown=np.zeros(2),
        rounds=np.zeros(1, np.int64),
        raised=np.zeros((_MOST_RAISED, 5)),
        number=np.zeros(1, np.int64),
        top=np.zeros(0),
        alpha=alpha,
        lowest=grades[0],
        highest=grades[1],
        least_rate=least_rate,
        stray_rate=stray,
    )


@kernel
def _check(s: Accounts, account: Floats, kind: int, item: int, low: float, high: float, recent: float) -> bool:
    """Raise an alarm if an account holds enough, and empty it; the numbers tell what was expected and what is."""
    count = s.number[0]
    if worth(account) * s.alpha < 1.0 or count == len(s.raised):
        return False
    row = s.raised[count]
    row[0], row[1], row[2], row[3], row[4] = kind, item, low, high, recent
    s.number[0] = count + 1
    account[:] = 0.0
    return True


@kernel
def _changed(s: Accounts, past: Floats, accounts: Floats, kind: int, item: int, coin: float, x: float) -> bool:
    """Bet that a number has another mean than in the past, up or down: accounts `kind` and, for items, `kind` + 1.

    The first coins pay for knowing the past, and there are none for a change that cannot be. Of all decisions
    together (item -1) only a fall is an alarm: a learner that learns makes numbers rise.
    """
    if not is_known(past):
        begin(past, (2.0 if item >= 0 else 1.0) * coin * s.alpha)
        take(past, x)
        return False
    low, high = past[LOW], past[HIGH]
    take(past, x)
    recent = past[RECENT]
    bet(accounts[kind], coin if low > 0.0 else 0.0, against_less(x, low))
    changed = _check(s, accounts[kind], kind, item, low, high, recent)
    if item >= 0:
        bet(accounts[kind + 1], coin if high < 1.0 else 0.0, against_more(x, high))
        changed |= _check(s, accounts[kind + 1], kind + 1, item, low, high, recent)
    if changed:  # what is normal now has to be learned anew
        accounts[kind] = 0.0
        if item >= 0:
            accounts[kind + 1] = 0.0
        forget(past)
    return changed


@kernel
def _largest_sum(chances: Floats, top: Floats) -> float:
    """Sum of the largest chances, as many as `top` has room for."""
    k = len(top)
    top[:] = 0.0
    for i in range(len(chances)):
        chance = chances[i]
        if chance > top[k - 1]:
            j = k - 1
            while j > 0 and top[j - 1] < chance:
                top[j] = top[j - 1]
                j -= 1
            top[j] = chance
    return float(top.sum())


@kernel
def _shown(s: Accounts, items: Ints, chances: Floats, places: Ints, k: int) -> None:
    """Bet that what was shown is not what was ranked: sums of (seen - chance) are then no martingales."""
    n, total, squares, found = len(items), 0.0, 0.0, 0.0
    for r in range(n):
        if not 0.0 <= chances[r] <= 1.0 + _CERTAIN:
            return  # nothing is known of them
        total += chances[r]
        squares += chances[r] * chances[r]
        found += chances[r] if 0 <= places[r] < k else 0.0
    s.shown[0] += _RECENT * (found - s.shown[0])
    s.shown[1] += _RECENT * (squares - s.shown[1])
    lately, expected = s.shown[0], s.shown[1]
    room = _largest_sum(chances, s.top[:k]) - squares
    coin = _SHARE if room > _CERTAIN else 0.0  # of a list that is certain nothing can be learned
    bet(s.overall[UNEXPECTED], coin, (squares - found) / max(_CERTAIN, room))
    _check(s, s.overall[UNEXPECTED], UNEXPECTED, -1, expected, expected, lately)
    bet(s.overall[EXPECTED], coin, (found - squares) / max(_CERTAIN, squares))
    _check(s, s.overall[EXPECTED], EXPECTED, -1, expected, expected, lately)
    if not _CERTAIN < total < n - _CERTAIN:
        return
    for r in range(n):
        _item_shown(s, items[r], min(1.0, chances[r]), 1.0 if 0 <= places[r] < k else 0.0, n, total)


@kernel
def _item_shown(s: Accounts, item: int, chance: float, seen: float, n: int, total: float) -> None:
    """Bet that an item is shown less or more often than it is ranked to be.

    Coins go where they can win: in proportion to the chance, which adds up to k, or to what it lacks to 1.
    """
    recent, money = s.recent[item], s.items[item]
    recent[SEEN] += _RECENT * (seen - recent[SEEN])
    recent[CHANCE] += _RECENT * (chance - recent[CHANCE])
    bet(money[HIDDEN], _SHARE * chance / total, against_less(seen, min(chance, 1.0 - _CERTAIN)))
    _check(s, money[HIDDEN], HIDDEN, item, recent[CHANCE], recent[CHANCE], recent[SEEN])
    bet(money[PUSHED], _SHARE * (1.0 - chance) / (n - total), against_more(seen, max(chance, _CERTAIN)))
    _check(s, money[PUSHED], PUSHED, item, recent[CHANCE], recent[CHANCE], recent[SEEN])


@kernel
def _grade(s: Accounts, answer: float) -> float:
    """An answer as a number from 0 to 1."""
    return min(1.0, max(0.0, (answer - s.lowest) / (s.highest - s.lowest)))


@kernel
def _answers(s: Accounts, items: Ints, places: Ints, answers: Floats, k: int) -> None:
    """Bet that answers are no longer as they were: how many there are, and what they say."""
    seen, told, total = 0, 0, 0.0
    for r in range(len(items)):
        if 0 <= places[r] < k:
            seen += 1
            if not np.isnan(answers[r]):
                told += 1
                total += _grade(s, answers[r])
    if seen == 0:
        return
    _changed(s, s.past[_RATE], s.overall, RATE_FELL, -1, _SHARE, told / seen)
    bet(s.overall[SILENT], _SHARE, against_less(1.0 if told > 0 else 0.0, s.least_rate))
    _check(s, s.overall[SILENT], SILENT, -1, s.least_rate, 1.0, 0.0)
    if told > 0:
        _changed(s, s.past[_GRADE], s.overall, GRADE_FELL, -1, _SHARE, total / told)
        bet(s.overall[STRAY], _SHARE, against_more(0.0, s.stray_rate))
    for r in range(len(items)):
        if 0 <= places[r] < k:
            item, known = items[r], not np.isnan(answers[r])
            pasts, accounts = s.item_pasts[item], s.items[item]
            _changed(s, pasts[_RATE], accounts, ITEM_RATE_FELL, item, _SHARE / seen, 1.0 if known else 0.0)
            if known:
                x = _grade(s, answers[r])
                _changed(s, pasts[_GRADE], accounts, ITEM_GRADE_FELL, item, _SHARE / told, x)


@kernel
def observe(s: Accounts, items: Ints, chances: Floats, places: Ints, answers: Floats, k: int) -> None:
    """Take in a decision whose answers are final; what is raised is in ``raised[:number]``."""
    s.rounds[0] += 1
    if k < len(items):
        _shown(s, items, chances, places, k)
    _answers(s, items, places, answers, k)


@kernel
def observe_stray(s: Accounts) -> None:
    """Take in an answer to a decision that nobody knows of; no coin, since it is no round."""
    bet(s.overall[STRAY], 0.0, against_more(1.0, s.stray_rate))
    _check(s, s.overall[STRAY], STRAY, -1, 0.0, s.stray_rate, 1.0)


@kernel
def observe_many(
    s: Accounts, offsets: Ints, items: Ints, chances: Floats, places: Ints, answers: Floats, ks: Ints, first: int
) -> int:
    """Take in decisions from `first` on, until one raises something or all are done; how many are done by then."""
    for t in range(first, len(ks)):
        a, b = offsets[t], offsets[t + 1]
        observe(s, items[a:b], chances[a:b], places[a:b], answers[a:b], ks[t])
        if s.number[0] > 0:
            return t + 1
    return len(ks)
