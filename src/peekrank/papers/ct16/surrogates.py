"""CT16 section 4: the number of answers that the gradient of a surrogate needs, and convexity.

By its Lemma 1, a gradient has an unbiased estimate from k answers only if it is a sum of terms with k relevances
each. The module finds the largest term by expanding the gradient over sets of items, at many random scores.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from peekrank.papers.record import Claim, Options, Results
from peekrank.reports.markup import Table
from peekrank.surrogates import KL, ListNet, RankSVM, SmoothDCG, Squared, Surrogate

ITEMS = (3, 4)
GRADES = (2, 3)
_SEGMENTS = 2_000
_SCORES = 20
_NOTHING = 1e-9
_SMOOTH = SmoothDCG(1.0)  # the smoothing changes neither terms nor convexity; with 0.01 most gradients are 0


class PaperClaim(NamedTuple):
    """The paper's claim on a surrogate: the smallest k (None for all answers), and whether it is convex."""

    where: str
    surrogate: Surrogate
    min_k: int | None
    convex: bool


PAPER = (
    PaperClaim("section 4.1", Squared(), 1, convex=True),
    PaperClaim("section 4.1", KL(), 1, convex=True),
    PaperClaim("section 4.1.1", _SMOOTH, 1, convex=False),
    PaperClaim("Lemma 2", RankSVM(), 2, convex=True),
    PaperClaim("Lemma 3", ListNet(), None, convex=True),
)


def reproduce(options: Options) -> Results:  # noqa: ARG001 - takes a second
    """Expand all gradients, and search for segments on which a surrogate is not convex."""
    sizes = list(product(ITEMS, GRADES))
    found = {claim.surrogate.name: [largest_term(claim.surrogate, m, g) for m, g in sizes] for claim in PAPER}
    bent = {claim.surrogate.name: not_convex(claim.surrogate) for claim in PAPER}
    heads = ("surrogate", *(f"m = {m}, {g} grades" for m, g in sizes), f"not convex on, of {_SEGMENTS:,} segments")
    rows = [(f"`{name}`", *terms, bent[name]) for name, terms in found.items()]
    return Results(claims(found, bent), {"terms": Table(heads, rows)})


def claims(found: dict[str, list[int]], bent: dict[str, int]) -> list[Claim]:
    """Return the paper's claims, for largest terms by surrogate (in the order of ITEMS x GRADES)."""
    checked = []
    sizes = list(product(ITEMS, GRADES))
    for where, surrogate, min_k, convex in PAPER:
        name, terms = surrogate.name, found[surrogate.name]
        expected = [m if min_k is None else min_k for m, _ in sizes]
        wrong = [
            f"{term} at m = {m} with {g} grades"
            for (m, g), term, value in zip(sizes, terms, expected, strict=True)
            if term != value
        ]
        checked.append(
            Claim(
                f"{where}: answers that the gradient of `{name}` needs, m = {ITEMS[0]}, {ITEMS[-1]}",
                "all m" if min_k is None else str(min_k),
                "; ".join(wrong) if wrong else f"the same in all {len(sizes)} cases",
                not wrong,
            )
        )
        checked.append(
            Claim(
                f"{where}: `{name}` is convex" if convex else f"{where}: `{name}` is not convex",
                f"none of {_SEGMENTS:,} segments contradicts it"
                if convex
                else f"some of {_SEGMENTS:,} segments prove it",
                f"{bent[name]:,} do",
                (bent[name] == 0) is convex,
            )
        )
    return checked


def largest_term(surrogate: Surrogate, m: int, grades: int) -> int:
    """Return the number of relevances in the largest term of the gradient, over random scores.

    >>> [largest_term(surrogate, 3, 2) for surrogate in (Squared(), RankSVM(), ListNet())]
    [1, 2, 2]
    """
    rng = np.random.default_rng(0)
    lists = np.array(list(product(range(grades), repeat=m)), dtype=np.float64)
    size = (lists > 0).sum(axis=1)
    largest = 0
    for _ in range(_SCORES):
        scores = rng.normal(size=m)
        terms = np.array([surrogate.gradient(scores, R) for R in lists]).reshape((grades,) * m + (m,))
        for axis in range(m):
            rest = (slice(None),) * axis
            terms[(*rest, slice(1, None))] -= terms[(*rest, slice(0, 1))]
        present = np.abs(terms).reshape(-1, m).max(axis=1) > _NOTHING
        largest = max(largest, int(size[present].max(initial=0)))
    return largest


def not_convex(surrogate: Surrogate) -> int:
    """Count the random segments, of 2,000, whose middle is above the mean of the ends.

    >>> not_convex(Squared())
    0
    """
    rng, violations = np.random.default_rng(0), 0
    for _ in range(_SEGMENTS):
        a, b = rng.normal(size=(2, 4))
        R = rng.integers(0, 3, size=4).astype(float)
        middle, ends = surrogate.value((a + b) / 2, R), (surrogate.value(a, R) + surrogate.value(b, R)) / 2
        violations += middle > ends + _NOTHING
    return violations
