"""Kinds of feedback on the first k items, and the rates of ranking games under each, by theorem.

The proofs are on docs/theory/feedback.md.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from peekrank._util.validate import check_choice
from peekrank.games.rates import Rate, Verdict
from peekrank.games.theorems import plateaus, theorem_of
from peekrank.measures import ERR, NDCG, AUCLoss, AveragePrecision, Hit, PairwiseLoss, Recall, ReciprocalRank
from peekrank.measures import measure as measure_named
from peekrank.types import Ints, LinearMeasure, Measure

Feedback = Literal["answers", "order", "choice", "first", "sum", "any"]
MEANINGS: dict[str, str] = {
    "answers": "the relevance of each of the first k items",
    "order": "the order of the first k items by relevance, ties included",
    "choice": "which of the first k items is the most relevant; of equal ones, the upper one",
    "first": "which of the first k items is the first relevant one, if any",
    "sum": "one number for the first k items together: the sum of their relevance",
    "any": "whether any of the first k items is relevant",
}
_PAGE = "docs/theory/feedback.md"


class Shown(NamedTuple):
    """What each ranking shows under each outcome: numbers of symbols (actions, outcomes), and the symbols."""

    signals: Ints
    symbols: tuple[Hashable, ...]


def check_feedback(feedback: str) -> Feedback:
    """Return a kind of feedback. Raises ValueError if it is unknown."""
    check_choice("feedback", feedback, Feedback)
    return feedback  # type: ignore[return-value]


def observe(feedback: Feedback, relevance: Ints) -> Shown:
    """Return the signals of all rankings.

    Parameters
    ----------
    feedback
        Kind of feedback.
    relevance
        Relevance at the first k positions: (actions, outcomes, k).

    >>> top = np.array([[[0, 0], [1, 0], [0, 1], [1, 1]]])
    >>> {kind: observe(kind, top).signals[0].tolist() for kind in MEANINGS}
    {'answers': [0, 2, 1, 3], 'order': [0, 2, 1, 0], 'choice': [0, 0, 1, 0], 'first': [2, 0, 1, 0],
     'sum': [0, 1, 1, 2], 'any': [0, 1, 1, 1]}
    """
    rows = _rows(feedback, relevance)
    base = int(rows.max()) + 1
    found, signals = np.unique(rows @ base ** np.arange(rows.shape[2] - 1, -1, -1), return_inverse=True)
    symbols: tuple[Hashable, ...] = tuple(found.tolist())
    if feedback in ("answers", "order"):
        digits = found[:, None] // base ** np.arange(rows.shape[2] - 1, -1, -1) % base
        symbols = tuple(map(tuple, digits.tolist()))
    return Shown(signals.reshape(rows.shape[:2]).astype(np.int64), symbols)


def _rows(feedback: Feedback, relevance: Ints) -> NDArray[Any]:
    """Return what is shown as numbers: (actions, outcomes, numbers). Positions count from 1; k + 1 is none."""
    k = relevance.shape[2]
    match feedback:
        case "answers":
            return relevance
        case "order":  # the number of items below in relevance
            return np.asarray(np.count_nonzero(relevance[..., :, None] > relevance[..., None, :], axis=-1))
        case "choice":
            return np.asarray(1 + relevance.argmax(axis=-1, keepdims=True))
        case "first":
            hit = relevance > 0
            return np.asarray(
                np.where(hit.any(axis=-1, keepdims=True), 1 + hit.argmax(axis=-1, keepdims=True), k + 1)
            )
        case "sum":
            return np.asarray(relevance.sum(axis=-1, keepdims=True))
        case "any":
            return np.asarray((relevance > 0).any(axis=-1, keepdims=True).astype(np.int64))


def feedback_theorem(
    measure: Measure | str, m: int, k: int, grades: int = 2, feedback: Feedback = "answers"
) -> Verdict:
    """Return the growth rate of the minimax regret under a kind of feedback, by theorem alone.

    Parameters
    ----------
    measure
        A measure, or its name.
    m
        Number of items.
    k
        Number of items, from the top, that feedback is about.
    grades
        Number of relevance grades. With three or more, few theorems apply.
    feedback
        Kind of feedback: "answers", "order", "choice", "first", "sum" or "any".

    >>> [str(feedback_theorem("dcg", m=10, k=k, feedback="sum").rate) for k in (1, 9, 10)]
    ['T^(2/3)', 'T^(2/3)', 'T']
    >>> [str(feedback_theorem("p@3", m=10, k=k, feedback="sum").rate) for k in (1, 9, 10)]
    ['sqrt(T)', 'sqrt(T)', 'T']
    """
    measure = measure_named(measure) if isinstance(measure, str) else measure
    check_feedback(feedback)
    base = theorem_of(measure, m, k, grades)
    m, k, grades = int(m), int(k), int(grades)
    if feedback == "answers" or base.rate is Rate.ZERO:
        return base
    if k == 1 and feedback in ("order", "choice"):
        return _verdict(Rate.LINEAR, f"Feedback of the kind '{feedback}' about one item says nothing", 1)
    if base.rate is Rate.LINEAR:
        why = f"Even the relevance of each of the first {k} would not be enough. {base.reason}"
        return Verdict(Rate.LINEAR, "theorem", why)
    if base.rate is None:
        return base
    if k == 1 and (feedback == "sum" or grades == 2):
        return base
    if feedback == "sum" and k == m:
        return _verdict(Rate.LINEAR, "The sum over the whole list is the same for all rankings", 2)
    if grades > 2:
        return _graded(measure, m, k, grades, feedback)
    return _binary(measure, m, k, feedback, base)


def _graded(measure: Measure, m: int, k: int, grades: int, feedback: Feedback) -> Verdict:
    """Return the verdict for three or more grades, if answers would suffice."""
    linear = isinstance(measure, LinearMeasure) and not isinstance(measure, NDCG | PairwiseLoss | AUCLoss)
    gains = (
        measure.gain(np.arange(float(grades))) if linear and isinstance(measure, LinearMeasure) else np.arange(3.0)
    )
    alike = isinstance(measure, AveragePrecision | ReciprocalRank | Recall | Hit) or len(set(gains[1:])) == 1
    if feedback in ("first", "any"):
        if alike:
            return feedback_theorem(measure, m, k, 2, feedback)
        if linear:
            return _verdict(Rate.LINEAR, "Feedback of this kind does not show how relevant an item is", 5)
    elif linear and feedback in ("order", "choice"):
        return _verdict(Rate.LINEAR, "Comparisons do not show how large the differences of three grades are", 5)
    elif linear and np.ptp(np.diff(gains)) < 1e-12 * np.abs(gains).max():
        return _sum_of_linear(measure, m, k)
    return _open(measure, feedback, f"with {grades} grades")


def _binary(measure: Measure, m: int, k: int, feedback: Feedback, base: Verdict) -> Verdict:
    """Return the verdict for binary relevance; the base is that of answers, and better than T."""
    linear = _is_linear(measure, m)
    match feedback:
        case "any":
            if isinstance(measure, Hit) and measure.cutoff == k and not linear:
                return _verdict(Rate.SQRT, f"Feedback is the value of the ranking under {measure} itself", 3)
            why = "Whether any of two or more items is relevant does not show which of two rankings is better"
            return _verdict(Rate.LINEAR, why, 3)
        case "order":
            if k == m or 2 * k > m or linear or not isinstance(measure, ReciprocalRank | ERR | Hit):
                assert base.rate is not None  # noqa: S101
                why = "From two items on, their order is as good as their relevance for comparing rankings"
                return _verdict(base.rate, why, 4)
            return _open(measure, feedback, "if the first k are at most half of the list")
        case "first" | "choice":
            return _first(measure, m, feedback, base)
        case _:
            return _sum(measure, m, k)


def _first(measure: Measure, m: int, feedback: Feedback, base: Verdict) -> Verdict:
    """Return the verdict on `first`, and on `choice` with k of 2 or more."""
    if isinstance(measure, ReciprocalRank | Hit) and not _is_linear(measure, m):
        if feedback == "first":
            return _verdict(Rate.SQRT, f"Feedback determines the value of the ranking under {measure}", 4)
        return _open(measure, feedback, "")
    in_sets = plateaus(measure, m).number == 2
    if isinstance(measure, Recall):
        in_sets = min(measure.cutoff, m) in (1, m - 1)
    if base.rate is Rate.SQRT and in_sets:
        return _verdict(Rate.SQRT, "Good rankings in different orders compare any two items that compete", 4)
    why = (
        "Which item comes first shows nothing about two items below a relevant one, where good rankings have some"
    )
    return _verdict(Rate.TWO_THIRDS, why, 4)


def _sum(measure: Measure, m: int, k: int) -> Verdict:
    """Return the verdict on sums of 2 to m - 1 items."""
    if _is_linear(measure, m):
        return _sum_of_linear(measure, m, k)
    if isinstance(measure, Hit) and measure.cutoff == k:
        return _verdict(Rate.SQRT, f"Feedback determines the value of the ranking under {measure}", 3)
    if isinstance(measure, AveragePrecision) and m > 3:
        why = "Sums over all items but one do not show which items are relevant together, which ap counts"
        return _verdict(Rate.LINEAR, why, 6)
    if isinstance(measure, Recall):
        why = "Lists that hide one of two competing items compare them, and good rankings can hide either"
        return _verdict(Rate.SQRT, why, 6)
    if isinstance(measure, NDCG | AUCLoss | AveragePrecision):
        why = "Sums compare two items if lists hide one of them, but good rankings show both"
        return _verdict(Rate.TWO_THIRDS, why, 6)
    return _open(measure, "sum", "")


def _sum_of_linear(measure: Measure, m: int, k: int) -> Verdict:
    """Return the verdict on sums of fewer than m items for a measure that adds up item by item."""
    found = plateaus(measure, m)
    if found.last_but_one <= k < found.end_of_second:
        why = "Two good rankings differ by one of the first k items, and their sums compare the two items"
        return _verdict(Rate.SQRT, why, 2)
    why = (
        "Sums over lists that differ by one item compare the two items, but good rankings that exchange two items "
        "show both of them or neither"
    )
    return _verdict(Rate.TWO_THIRDS, why, 2)


def _is_linear(measure: Measure, m: int) -> bool:
    """Return whether loss differences are sums over items, on lists with relevant and irrelevant ones."""
    match measure:
        case NDCG():
            return m == 2 or measure.cutoff == 1
        case AUCLoss():
            return m <= 3
        case AveragePrecision():
            return m == 2
        case ReciprocalRank(n) | ERR(n) | Hit(n):
            return min(n or m, m - 1) == 1
        case Recall():
            return m == 2
    return True


def _verdict(rate: Rate, why: str, theorem: int) -> Verdict:
    return Verdict(rate, "theorem", f"{why} ({_PAGE}, Theorem {theorem}).")


def _open(measure: Measure, feedback: str, where: str) -> Verdict:
    reason = f"No theorem on {_PAGE} covers {measure} with feedback of the kind '{feedback}' {where}".rstrip()
    return Verdict(None, "undecided", f"{reason}.")


KINDS: tuple[Feedback, ...] = get_args(Feedback)
