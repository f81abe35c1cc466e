"""Advice before the first round: whether a measure can be learned, how fast, and with which learner."""

from peekrank.advice.measures import Advice, Change, Evidence, advise
from peekrank.advice.surrogates import SurrogateAdvice, Witness, advise_surrogate

__all__ = ["Advice", "Change", "Evidence", "SurrogateAdvice", "Witness", "advise", "advise_surrogate"]
