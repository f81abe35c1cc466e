"""Advice before the first round: what to expect, which learner to use, and what would help."""

from peekrank.advice.measures import Advice, Change, Evidence, advise
from peekrank.advice.surrogates import SurrogateAdvice, Witness, advise_surrogate

__all__ = ["Advice", "Change", "Evidence", "SurrogateAdvice", "Witness", "advise", "advise_surrogate"]
