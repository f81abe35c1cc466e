"""Which checks to run on which learners: all for each set of kernels, and some for further parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from peekrank.checks import LEARNER_CHECKS
from peekrank.types import Learner

# Their result depends on parameters. The others depend on the kernels alone.
DEPEND_ON_PARAMETERS = (
    "rankings_are_permutations",
    "propensities_are_true",
    "specification_round_trips",
    "keeps_its_bound",
    "learns",
    "learns_though_answers_are_missing",
)


def cases(learners: Iterable[Learner]) -> list[Any]:
    """Return every check for the first learner of each set of kernels, and those above for the others."""
    known: list[Any] = []
    result = []
    for learner in learners:
        names = DEPEND_ON_PARAMETERS if learner.kernels in known else tuple(LEARNER_CHECKS)
        known.append(learner.kernels)
        result += [pytest.param(learner, LEARNER_CHECKS[name], id=f"{learner}-{name}") for name in names]
    return result


def further_cases(learners: Iterable[Learner]) -> list[Any]:
    """Return the checks that depend on parameters, for learners whose kernels are checked elsewhere."""
    return [
        pytest.param(learner, LEARNER_CHECKS[name], id=f"{learner}-{name}")
        for learner in learners
        for name in DEPEND_ON_PARAMETERS
    ]
