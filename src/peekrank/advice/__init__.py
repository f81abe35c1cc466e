"""Advice before the first round: whether a measure can be learned, how fast, and with which learner."""

from peekrank.advice.changes import Change
from peekrank.advice.measures import Advice, Evidence, advise
from peekrank.advice.surrogates import SurrogateAdvice, Witness, advise_surrogate

__all__ = ["Advice", "Change", "Evidence", "SurrogateAdvice", "Witness", "advise", "advise_surrogate"]
