"""Advice on learning a surrogate: whether k answers per round suffice, and a proof if they do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import product
from math import e, expm1, factorial, prod
from typing import Any, NamedTuple

import numpy as np

from peekrank._util.text import pluralize
from peekrank._util.validate import check_int
from peekrank.games.rates import Rate
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.surrogates import ListNet, NDCGSquared, RankSVM, Surrogate, softmax
from peekrank.surrogates import surrogate as surrogate_named

_MAX_GRADES = 10**6  # in all lists of a witness


class Witness(NamedTuple):
    """Two distributions of relevance that k answers cannot distinguish, although no scores are good for both.

    ``gap`` is the smallest total excess loss of any scores on p and q, compared with the best scores for each. The
    expected regret of every learner after T rounds is at least gap x T / 2 on one of the two.
    """

    relevance: tuple[tuple[int, ...], ...]
    p: tuple[float, ...]
    q: tuple[float, ...]
    gap: float


@dataclass(frozen=True)
class SurrogateAdvice:
    """Advice on a surrogate under top-k feedback, as returned by `advise_surrogate`.

    Parameters
    ----------
    surrogate, m, k, grades
        The problem: lists of up to m items.
    rate
        Growth of the regret in the surrogate: the guarantee of gradient descent with an unbiased estimate, or T if
        no learner can do better. None if neither is known.
    reason
        The reason, and whether this package has such a learner. If so, it is `RTopKF` with the steps of its
        theorem.
    witness
        Proof that the rate is T. None if the rate is not T, or if the lists are too many to write down (see
        `notes`).
    """

    surrogate: str
    m: int
    k: int
    grades: int
    rate: Rate | None
    reason: str
    witness: Witness | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the witness."""
        if self.rate is not Rate.LINEAR or self.witness is not None:
            return ()
        return (f"the advice omits the adversaries that prove it: their lists have over {_MAX_GRADES:,} grades",)

    def as_dict(self) -> dict[str, Any]:
        """Return the advice as a dictionary for JSON."""
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "witness": self.witness and self.witness._asdict(),
            "notes": list(self.notes),
        }

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Lines of the advice in words, each a label and a text."""
        size = f"m = {pluralize(self.m, 'item')}, k = {self.k:,} revealed"
        lines = [
            ("problem", f"{self.surrogate}, {size}, grades 0 to {self.grades - 1}"),
            ("rate", f"{self.rate or 'unknown'}: {self.reason}"),
        ]
        if self.witness:
            loss = f"{self.witness.gap / 2:.3g} per round"
            lines.append(("witness", f"two adversaries; on one of them regret is at least {loss}"))
        return lines + [("note", note) for note in self.notes]

    def __str__(self) -> str:
        return "\n".join(f"{label}: {text}" for label, text in self.rows)


def advise_surrogate(surrogate: str | Surrogate, m: int, k: int, grades: int = 2) -> SurrogateAdvice:
    """Say whether k answers per round suffice to learn a surrogate, with a proof if they do not.

    Parameters
    ----------
    surrogate
        Surrogate, or its name.
    m
        Number of items in the longest list.
    k
        Number of items, from the top, whose relevance is revealed.
    grades
        Number of relevance grades, 0 to grades - 1.

    >>> advice = advise_surrogate("ndcgsquared", m=10, k=1)
    >>> print(advice.rate, [row[:3] for row in advice.witness.relevance], round(advice.witness.gap, 4))
    T [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)] 0.0374

    References
    ----------
    docs/surrogates.md; CT16 Theorems 4.1 and 5.2.
    """
    phi = surrogate_named(surrogate) if isinstance(surrogate, str) else surrogate
    check_int("m", m, 1, 10**8)
    check_int("k", k, 1, m)
    check_int("grades", grades, 2, 256)
    answers = f"{k:,} answers per round" if k > 1 else "one answer per round"
    rate: Rate | None = Rate.TWO_THIRDS
    if k == m:
        rate, reason = Rate.SQRT, "all relevances are revealed, and it is convex: gradient descent"
    elif _cannot_be_learned(phi, m, k, grades):
        rate = Rate.LINEAR
        reason = f"hopeless: {answers} cannot identify the best scores (docs/theory/surrogates.md)"
    elif phi.min_k is not None and phi.min_k <= k:
        reason = f"its gradient has an unbiased estimate from {answers} (docs/learners/rtopkf.md)"
    elif isinstance(phi, ListNet):  # binary relevance, one answer missing
        reason = (
            f"its gradient has an unbiased estimate from {answers} (docs/theory/surrogates.md, Theorem 3), "
            "but no learner of this package uses it"
        )
    else:
        rate, reason = None, f"we know no unbiased estimate of its gradient from {answers}"
    if not phi.convex:
        rate, reason = None, "it is not convex: gradient descent may end anywhere"
    limit = RTopKF(phi).max_grade
    if grades - 1 > limit:
        reason += f"; but rtopkf accepts only grades up to {limit}"
    witness = _witness(phi, m, k) if rate is Rate.LINEAR and k < 20 and m * 2 ** (k + 1) <= _MAX_GRADES else None
    return SurrogateAdvice(str(phi), int(m), int(k), int(grades), rate, reason, witness)


def _cannot_be_learned(phi: Surrogate, m: int, k: int, grades: int) -> bool:
    """Apply Theorem 2 of docs/theory/surrogates.md, for k < m."""
    match phi:
        case NDCGSquared():
            return True
        case ListNet():
            return k < m - 1 or grades > 2
        case RankSVM():
            return k == 1 and (m > 2 or grades > 2)
    return False


def _witness(phi: Surrogate, m: int, k: int) -> Witness:
    """Return two adversaries: the page's for RankSVM, else an even or odd number of k + 1 relevant items."""
    if isinstance(phi, RankSVM):
        return _three_items_or_grades(m)
    highest = 2 if isinstance(phi, ListNet) and k == m - 1 else 1  # of all but the first
    chosen = list(product((0, 1), repeat=k + 1))
    relevance = tuple((first, *(highest * x for x in rest), *(0,) * (m - k - 1)) for first, *rest in chosen)
    even = np.array([sum(row) % 2 == 0 for row in chosen])
    p, q = even / even.sum(), ~even / even.sum()
    if isinstance(phi, ListNet):
        gap = _listnet_gap(relevance, k, highest)
    else:
        targets = np.array([NDCGSquared().target(row) for row in relevance])
        gap = float(np.sum(((p - q) @ targets) ** 2)) / 2
    return Witness(relevance, tuple(p.tolist()), tuple(q.tolist()), gap)


def _three_items_or_grades(m: int) -> Witness:
    """Return the adversaries for RankSVM: two items need three grades, three items need two."""
    if m == 2:
        cycles = ((0, 1), (1, 2), (2, 0), (1, 0), (2, 1), (0, 2))
        often, never = (1 / 3,) * 3, (0.0,) * 3
        return Witness(cycles, often + never, never + often, gap=2 / 3)
    lists = ((0, 0, 0), (1, 1, 1), (1, 0, 0), (1, 1, 0), (0, 0, 1), (0, 1, 1))
    others = (0,) * (m - 3)
    return Witness(
        tuple(row + others for row in lists), (0.4, 0.4, 0.1, 0.1, 0, 0), (0, 0, 0.3, 0.3, 0.2, 0.2), gap=0.1
    )


def _listnet_gap(relevance: Sequence[Sequence[int]], k: int, highest: int) -> float:
    """Return KL(A, M) + KL(B, M). A - B is in closed form, because rounding would dominate a sum over lists."""
    m, growth = len(relevance[0]), expm1(highest)
    terms = [one / prod(total + growth * i for i in range(k + 1)) for one, total in ((e, m - 1 + e), (1, m))]
    first = factorial(k) * (growth / 2) ** k * (terms[0] - terms[1]) / 2  # of (A - B)/2, up to the sign
    alike = k + 1 if highest == 1 else 1  # items like the first; all others are like each other
    half = np.full(m, -first * alike / (m - alike))  # A and B have the same sum
    half[:alike] = first
    middle = np.mean([softmax(row) for row in relevance], axis=0)
    x = half / middle
    # (1 + x) log(1 + x) + (1 - x) log(1 - x), of order x^2, without terms of order x
    return float(middle @ (2 * x * np.arctanh(x) + np.log1p(-x * x)))
