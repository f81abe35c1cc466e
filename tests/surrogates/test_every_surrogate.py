"""Every check crossed with every surrogate; broken ones fail the check that names the fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from peekrank import (
    KL,
    Agent,
    CheckError,
    ListNet,
    NDCGSquared,
    RankSVM,
    RTopKF,
    SmoothDCG,
    Squared,
    check_surrogate,
    kernel,
)
from peekrank.checks import SURROGATE_CHECKS
from peekrank.registry import SURROGATES
from peekrank.surrogates import Limits, Surrogate
from peekrank.surrogates.estimates import Estimates, Parameters, by_item
from peekrank.types import Floats

EVERY: list[Surrogate] = [
    Squared(),
    KL(),
    SmoothDCG(),
    SmoothDCG(0.5),
    RankSVM(),
    ListNet(),
    NDCGSquared(),
]


def test_every_registered_surrogate_is_checked() -> None:
    assert {type(phi) for phi in EVERY} == {SURROGATES[name] for name in SURROGATES.built_in}


@pytest.mark.parametrize("check", SURROGATE_CHECKS.values(), ids=SURROGATE_CHECKS.keys())
@pytest.mark.parametrize("phi", EVERY, ids=str)
def test_surrogate_passes(phi: Surrogate, check: Callable[[Surrogate], None]) -> None:
    check(phi)


@kernel
def _target(parameters: Parameters, relevance: float) -> float:
    return relevance


@kernel
def _half_slope(parameters: Parameters, score: float, target: float) -> float:
    return score - target


@kernel
def _not_affine(parameters: Parameters, score: float, target: float) -> float:
    return 2 * (score - target) + (target - 1) * target  # right for binary targets that are known


def _uncompiled(parameters: Parameters, seen: Any, slopes: Floats) -> None:
    raise AssertionError("never called")


class WrongGradient(Squared):
    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        return super().gradient(scores, relevance) / 2


class LikesTheFirstItem(Squared):
    def value(self, scores: Floats, relevance: Floats) -> float:
        return super().value(scores, relevance) + float(scores[0])

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        return np.asarray(super().gradient(scores, relevance) + np.eye(len(scores))[0])


class SaysItIsConvex(SmoothDCG):
    convex: ClassVar[bool] = True


class TooSmallConstant(Squared):
    def lipschitz(self, limits: Limits) -> float:
        return 0.9 * super().lipschitz(limits)


class FallingConstant(Squared):
    def lipschitz(self, limits: Limits) -> float:
        return super().lipschitz(limits._replace(items=100)) / limits.items


class SortsItsInput(Squared):
    def value(self, scores: Floats, relevance: Floats) -> float:
        relevance.sort()
        return super().value(scores, relevance)


class HalfTheEstimate(Squared):
    """As a learner had it that knew surrogates by numbers, and this one not."""

    estimates: ClassVar[Estimates | None] = by_item("half", _target, _half_slope)


class BiasedEstimate(Squared):
    estimates: ClassVar[Estimates | None] = by_item("biased", _target, _not_affine)


class PairsFromOneAnswer(RankSVM):
    min_k: ClassVar[int | None] = 1


class AllFromTwoAnswers(ListNet):
    min_k: ClassVar[int | None] = 2


class NotCompiled(Squared):
    estimates: ClassVar[Estimates | None] = Estimates(_uncompiled, _uncompiled)


class NoTarget(Squared):
    assert Squared.estimates is not None
    estimates: ClassVar[Estimates | None] = Squared.estimates._replace(target=None)


class NoEstimates(Squared):
    """To be looked at, and not learned."""

    estimates: ClassVar[Estimates | None] = None


class Numbered(Squared):
    estimates: ClassVar[Any] = 99


class TooManyGrades(KL):
    assert KL.estimates is not None
    estimates: ClassVar[Estimates | None] = KL.estimates._replace(max_grade=100)


class Misnamed(Squared):
    def __str__(self) -> str:
        return "kl"


@dataclass(frozen=True)
class Lacking:
    name: ClassVar[str] = "lacking"
    convex: ClassVar[bool] = True

    def value(self, scores: Floats, relevance: Floats) -> float:
        return 0.0


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        (Lacking(), "every_member_is_there: Lacking lacks min_k, estimates, gradient, lipschitz"),
        (Misnamed(), "text_is_its_specification: 'kl' is not 'squared'"),
        (SortsItsInput(), "inputs_are_left_alone: it changes the relevance passed in"),
        (WrongGradient(), "gradient_is_the_derivative: at scores"),
        (LikesTheFirstItem(), "labels_do_not_matter: renaming items by"),
        (SaysItIsConvex(0.5), "convex_if_it_says_so: "),
        (TooSmallConstant(), "no_gradient_is_longer_than_lipschitz: a gradient is"),
        (FallingConstant(), "no_gradient_is_longer_than_lipschitz: the constant falls"),
        (Numbered(), "estimates_are_compiled: estimates are a int"),
        (NotCompiled(), "estimates_are_compiled: the printed estimate is not a kernel"),
        (NoTarget(), "estimates_are_compiled: it has a doubly robust estimate, but no target"),
        (HalfTheEstimate(), "estimates_have_no_bias: with 1 of"),
        (BiasedEstimate(), "estimates_have_no_bias: with 1 of"),
        (PairsFromOneAnswer(), "estimates_have_no_bias: with 1 of"),
        (AllFromTwoAnswers(), "estimates_have_no_bias: with 2 of"),
        (TooManyGrades(), "slopes_fit_in_single_precision: with grades"),
    ],
    ids=lambda value: value.partition(":")[0] if isinstance(value, str) else type(value).__name__,
)
def test_broken_surrogate_fails_the_check_that_names_its_fault(broken: Any, fault: str) -> None:
    with pytest.raises(CheckError) as found:
        check_surrogate(broken)
    assert str(found.value).startswith(fault)


def test_one_without_estimates_passes_and_is_refused_by_learners() -> None:
    check_surrogate(NoEstimates())
    with pytest.raises(ValueError, match="squared: has no gradient estimates for rtopkf"):
        RTopKF(NoEstimates())


@pytest.mark.parametrize("broken", [Numbered(), Lacking(), 99], ids=str)
def test_what_has_no_estimates_is_refused_by_learners(broken: Any) -> None:
    with pytest.raises(ValueError, match=r"surrogate = .*has no gradient estimates for rtopkf"):
        RTopKF(broken)


def test_estimates_that_are_not_compiled_are_refused() -> None:
    with pytest.raises(TypeError, match=r"_uncompiled is not compiled: decorate it with peekrank\.kernel"):
        Agent(RTopKF(NotCompiled()), m=3, k=1, d=2)
