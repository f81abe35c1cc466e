"""Every check crossed with every measure; broken ones fail the check that names the fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from peekrank import DCG, measure
from peekrank.checks import MEASURE_CHECKS, CheckError, check_measure
from peekrank.registry import MEASURES
from peekrank.types import Floats, Ints, Measure

NAMES = [
    "sumloss",
    "pairwiseloss",
    "dcg",
    "dcg@2",
    "dcg+linear",
    "p@1+sum",
    "p@2",
    "ndcg",
    "ndcg@2",
    "ndcg@3+linear+norel0",
    "ndcg+skip",
    "ap",
    "ap+norel0",
    "ap+skip",
    "aucloss",
    "aucloss+norel1",
    "aucloss+skip",
    "rbp",
    "rbp@2:p=0.95",
    "rr",
    "rr@2",
    "err",
    "err@2:max_grade=2",
    "recall@1",
    "recall@2+skip",
    "hit@1",
    "hit@2",
]


def test_every_registered_measure_is_checked() -> None:
    assert {type(measure(name)) for name in NAMES} == {MEASURES[name] for name in MEASURES.built_in}


@pytest.mark.parametrize("check", MEASURE_CHECKS.values(), ids=MEASURE_CHECKS.keys())
@pytest.mark.parametrize("name", NAMES)
def test_measure_passes(name: str, check: Callable[[Measure], None]) -> None:
    check(measure(name))


class LikesItemZero(DCG):
    def values(self, rankings: Ints, relevance: Any) -> Floats:
        return np.asarray(super().values(rankings, relevance) + (rankings[:, 0] == 0))


class UpsideDown(DCG):
    def values(self, rankings: Ints, relevance: Any) -> Floats:
        return -super().values(rankings, relevance)


class Misnamed(DCG):
    __str__ = lambda self: "dcg@1"  # noqa: E731


class WrongForm(DCG):
    def gain(self, relevance: Any) -> Floats:
        return np.asarray(super().gain(relevance) * (2 if relevance.ndim == 2 and len(relevance) > 4 else 1))

    def values(self, rankings: Ints, relevance: Any) -> Floats:
        return DCG().values(rankings, relevance)


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        (Misnamed(), "name_round_trips"),
        (LikesItemZero(), "labels_do_not_matter"),
        (UpsideDown(), "sorting_by_relevance_is_best"),
        (WrongForm(), "linear_form_holds"),
    ],
)
def test_broken_measure_fails_the_check_that_names_its_fault(broken: Measure, fault: str) -> None:
    with pytest.raises(CheckError):
        MEASURE_CHECKS[fault](broken)


def test_check_measure_names_the_check() -> None:
    with pytest.raises(CheckError, match=r"^name_round_trips: "):
        check_measure(Misnamed())
