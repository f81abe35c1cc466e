"""A learner, a measure, a surrogate and a stream for peekrank."""

from own_ranking.learner import Sometimes
from own_ranking.measure import ReciprocalDiscount
from own_ranking.stream import OneHot
from own_ranking.surrogate import Logistic

__all__ = ["Logistic", "OneHot", "ReciprocalDiscount", "Sometimes"]
