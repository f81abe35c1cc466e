"""Checks that every learner, measure, surrogate and stream must pass, built-in or custom.

``check_learner(MyLearner(...))`` returns None, or raises a `CheckError` whose message begins with the name of the
check that failed. Probable mistakes are a `CheckWarning`.
"""

from peekrank.checks.common import CheckError, CheckWarning
from peekrank.checks.learners import LEARNER_CHECKS, check_learner
from peekrank.checks.measures import MEASURE_CHECKS, check_measure
from peekrank.checks.streams import STREAM_CHECKS, check_stream
from peekrank.checks.surrogates import SURROGATE_CHECKS, check_surrogate

__all__ = [
    "LEARNER_CHECKS",
    "MEASURE_CHECKS",
    "STREAM_CHECKS",
    "SURROGATE_CHECKS",
    "CheckError",
    "CheckWarning",
    "check_learner",
    "check_measure",
    "check_stream",
    "check_surrogate",
]
