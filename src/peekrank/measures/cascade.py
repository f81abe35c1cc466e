"""Cascade measures, for a reader who goes down the list and may stop at each item: RBP, reciprocal rank, ERR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from peekrank._util.validate import check_int, check_open_unit
from peekrank.measures.base import LinearMeasureMixin, Relevance, check_fields, depth
from peekrank.measures.dcg import DCG
from peekrank.measures.evaluation import cascade, first_relevant
from peekrank.measures.names import name_of
from peekrank.types import Floats, Ints


@dataclass(frozen=True)
class RBP(LinearMeasureMixin):
    """Rank-biased precision (1 - p) sum_i p^(rank(i) - 1) 1[R(i) > 0]: the reader continues with probability p.

    Parameters
    ----------
    cutoff
        Number of positions that count; None for all. The weights of the positions below are not redistributed.
    p
        Persistence, between 0 and 1: the reader looks at 1 / (1 - p) items on average.

    >>> from peekrank import evaluate
    >>> round(evaluate(RBP(p=0.5), [0, 1, 2], [1, 0, 1]), 4)
    0.625

    References
    ----------
    Moffat & Zobel (2008), Rank-biased precision for measurement of retrieval effectiveness, equation 4.
    """

    cutoff: int | None = None
    p: float = 0.8
    name: ClassVar[str] = "rbp"
    higher_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_open_unit("p", self.p)
        object.__setattr__(self, "p", float(self.p))

    def discount(self, m: int) -> Floats:
        """Return (1 - p) p^(rank - 1), and 0 below the cutoff."""
        weights = np.zeros(m)
        top = weights[: self.cutoff]
        top[:] = (1 - self.p) * self.p ** np.arange(len(top))
        return weights

    def gain(self, relevance: Relevance) -> Floats:
        """Return 1[R > 0]."""
        return np.sign(relevance.astype(np.float64))


@dataclass(frozen=True)
class ReciprocalRank:
    """Reciprocal rank of the first relevant item, 0 if there is none; its mean over lists is called MRR.

    Parameters
    ----------
    cutoff
        Number of positions that count; None for all.

    >>> from peekrank import evaluate
    >>> evaluate(ReciprocalRank(), [0, 1, 2], [0, 1, 1])
    0.5
    >>> evaluate(ReciprocalRank(1), [0, 1, 2], [0, 1, 1])
    0.0
    """

    cutoff: int | None = None
    name: ClassVar[str] = "rr"
    higher_is_better: ClassVar[bool] = True
    __str__ = name_of

    def __post_init__(self) -> None:
        check_fields(self)

    def values(self, rankings: Ints, relevance: Relevance) -> Floats:
        """Return the value of each row."""
        out = np.empty(len(rankings))
        first_relevant(rankings, relevance > 0, depth(self.cutoff, rankings), out)
        return np.divide(1, out, out=out)


@dataclass(frozen=True)
class ERR:
    """Expected reciprocal rank of the item that satisfies the reader: sum_p q_p prod_{i<p} (1 - q_i) / p.

    q_p = (2^R - 1) / 2^max_grade is the probability that the item at position p satisfies the reader. The value is
    0 if none does.

    Parameters
    ----------
    cutoff
        Number of positions that count; None for all.
    max_grade
        The largest possible grade. The default is 4, as in the TREC web tracks. A larger grade in a list is an
        error.

    >>> from peekrank import evaluate
    >>> evaluate(ERR(max_grade=1), [0, 1, 2], [1, 0, 1])  # 1/2 + 1/2 x 1/2 / 3
    0.5833333333333334

    References
    ----------
    Chapelle, Metzler, Zhang & Grinspan (2009), Expected reciprocal rank for graded relevance, section 4.
    """

    cutoff: int | None = None
    max_grade: int = 4
    name: ClassVar[str] = "err"
    higher_is_better: ClassVar[bool] = True
    __str__ = name_of

    def __post_init__(self) -> None:
        check_fields(self)
        check_int("max_grade", self.max_grade, 1, 255)

    def check_grade(self, largest: float) -> None:
        """Raise ValueError if a grade is above `max_grade`: its probability could be above 1."""
        if largest > self.max_grade:
            raise ValueError(
                f"a list has grade {largest}, above the max_grade = {self.max_grade} of {self}: "
                f"err:max_grade={int(np.ceil(largest))} takes it"
            )

    def values(self, rankings: Ints, relevance: Relevance) -> Floats:
        """Return the value of each row."""
        self.check_grade(relevance.max(initial=0))
        out = np.empty(len(rankings))
        cascade(rankings, DCG().gain(relevance) / 2.0**self.max_grade, depth(self.cutoff, rankings), out)
        return out
