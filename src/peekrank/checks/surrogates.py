"""Checks that every surrogate must pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple
from itertools import permutations
from typing import NamedTuple

import numpy as np

from peekrank._jit import Kernel
from peekrank.checks.common import require, run_all, specification_round_trips
from peekrank.kernels.sorting import sort_space
from peekrank.learners import RTopKF
from peekrank.registry import SURROGATES
from peekrank.spec import format_spec
from peekrank.surrogates import Limits, Surrogate
from peekrank.surrogates.estimates import Estimates, Seen
from peekrank.types import Floats, Ints

_TRIES = 60
_STEP = 1e-6  # of finite differences
_ESTIMATORS = ("printed", "residual", "doubly_robust")
_LIMITS = [Limits(4, 1.0, 1.0, 1.0), Limits(5, 0.5, 3.0, 4.0), Limits(2, 2.0, 0.7, 2.0), Limits(1, 1.0, 1.0, 1.0)]


def check_surrogate(surrogate: Surrogate) -> None:
    """Run every check of a surrogate."""
    run_all(SURROGATE_CHECKS, surrogate)


class _Problem(NamedTuple):
    """Two score vectors and a relevance vector of one length."""

    scores: Floats
    others: Floats
    relevance: Floats


def _problems(surrogate: Surrogate, tries: int = _TRIES) -> Iterator[_Problem]:
    """Yield random problems with 1 to 5 items, scores from -3 to 3, and grades 0 to 4 or the estimators' limit."""
    rng = np.random.default_rng(0)
    top = 4 if surrogate.estimates is None else min(4, surrogate.estimates.max_grade)
    for n in rng.integers(1, 6, tries):
        relevance = rng.integers(0, top + 1, n).astype(np.float64)
        yield _Problem(rng.uniform(-3, 3, n), rng.uniform(-3, 3, n), relevance)


def every_member_is_there(surrogate: Surrogate) -> None:
    """Check that the surrogate has every member of `peekrank.surrogates.Surrogate`."""
    missing = SURROGATES.missing(type(surrogate))
    require(not missing, f"{type(surrogate).__name__} lacks {', '.join(missing)}")


def text_is_its_specification(surrogate: Surrogate) -> None:
    """Check that its text is its specification, which learners include in theirs, and parses to an equal value."""
    require(
        str(surrogate) == format_spec(surrogate),
        f"'{surrogate}' is not '{format_spec(surrogate)}': __str__ = format_spec",
    )
    specification_round_trips(surrogate)


def inputs_are_left_alone(surrogate: Surrogate) -> None:
    """Check that neither the value nor the gradient changes its arguments."""
    for scores, _, relevance in _problems(surrogate):
        copies = scores.copy(), relevance.copy()
        surrogate.value(scores, relevance)
        surrogate.gradient(scores, relevance)
        require(np.array_equal(copies[0], scores), "it changes the scores passed in")
        require(np.array_equal(copies[1], relevance), "it changes the relevance passed in")


def gradient_is_the_derivative(surrogate: Surrogate) -> None:
    """Check that the gradient agrees with finite differences of the value."""
    for scores, _, relevance in _problems(surrogate):
        moves = _STEP * np.eye(len(scores))
        ends = [[surrogate.value(scores + sign * move, relevance) for sign in (1, -1)] for move in moves]
        differences = np.array([(high - low) / (2 * _STEP) for high, low in ends])
        gradient = surrogate.gradient(scores, relevance)
        scale = 1 + np.abs(gradient).max()
        require(
            np.abs(gradient - differences).max() <= 1e-4 * scale,
            f"at scores {scores} and relevance {relevance} the gradient is {gradient}, differences {differences}",
        )


def labels_do_not_matter(surrogate: Surrogate) -> None:
    """Check that relabelling the items leaves the value unchanged and permutes the gradient."""
    rng = np.random.default_rng(1)
    for scores, _, relevance in _problems(surrogate):
        names = rng.permutation(len(scores))
        value, renamed = surrogate.value(scores, relevance), surrogate.value(scores[names], relevance[names])
        require(
            np.isclose(value, renamed), f"renaming items by {names} changes the value from {value} to {renamed}"
        )
        gradients = (
            surrogate.gradient(scores, relevance)[names],
            surrogate.gradient(scores[names], relevance[names]),
        )
        require(np.allclose(*gradients), f"renaming items by {names} changes the gradient")


def convex_if_it_says_so(surrogate: Surrogate) -> None:
    """Check that a surrogate that declares itself convex lies above its tangents and below its chords."""
    if not surrogate.convex:
        return
    for one, two, relevance in _problems(surrogate):
        low, high = surrogate.value(one, relevance), surrogate.value(two, relevance)
        slack = 1e-9 * (1 + abs(low) + abs(high))
        middle = surrogate.value((one + two) / 2, relevance)
        require(middle <= (low + high) / 2 + slack, f"it is not convex between scores {one} and {two}")
        tangent = low + float(surrogate.gradient(one, relevance) @ (two - one))
        require(high >= tangent - slack, f"at scores {two} it lies below its tangent at {one}")


def no_gradient_is_longer_than_lipschitz(surrogate: Surrogate) -> None:
    """Check that, within limits, no derivative by the weights exceeds `lipschitz`, which grows with the list."""
    rng = np.random.default_rng(2)
    for limits in _LIMITS:
        constant = surrogate.lipschitz(limits)
        require(
            surrogate.lipschitz(limits._replace(items=limits.items + 1)) >= constant,
            f"the constant falls with the number of items from {limits}",
        )
        for _ in range(5 * _TRIES):
            X, w, relevance = _linear_problem(limits, rng)
            longest = float(np.linalg.norm(X.T @ surrogate.gradient(X @ w, relevance)))
            require(
                longest <= constant * (1 + 1e-9) + 1e-12,
                f"a gradient is {longest:.6g} long, but lipschitz({limits}) is {constant:.6g}",
            )


def _linear_problem(limits: Limits, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Draw features, weights and relevance within the limits, most of them on the boundary."""
    w = rng.normal(size=2)
    w *= limits.radius * rng.choice([0.0, rng.random(), 1.0]) / np.linalg.norm(w)
    X = rng.normal(size=(limits.items, 2)) + rng.choice([0, 10]) * w
    if rng.random() < 0.5:
        X = np.sign(X[:, :1]) * X[0]
    X *= limits.norm / np.linalg.norm(X, axis=1)[:, None]
    shares = rng.choice([rng.random(limits.items), rng.integers(0, 2, limits.items), X @ w > 0, X @ w < 0])
    return X, w, limits.grade * shares


def estimates_are_compiled(surrogate: Surrogate) -> None:
    """Check that its estimators, if any, are kernels that learners can call, and that rtopkf accepts it."""
    if surrogate.estimates is None:
        return
    estimates: object = surrogate.estimates
    require(isinstance(estimates, Estimates), f"estimates are a {type(estimates).__name__}, not Estimates")
    for name in _ESTIMATORS:
        kernel: object = getattr(estimates, name)
        if not (name == "doubly_robust" and kernel is None):
            require(isinstance(kernel, Kernel), f"the {name} estimate is not a kernel")
    robust, target = surrogate.estimates.doubly_robust, surrogate.estimates.target
    require(
        robust is None or isinstance(target, Kernel), "it has a doubly robust estimate, but no target to predict"
    )
    RTopKF(surrogate)


def estimates_have_no_bias(surrogate: Surrogate) -> None:
    """Check that each estimator is unbiased over all rankings, for every sufficient number of answers."""
    if surrogate.estimates is None:
        return
    rng = np.random.default_rng(3)
    for scores, predicted, relevance in _problems(surrogate, 8):
        n = len(scores)
        rankings = np.array(list(permutations(range(n))), dtype=np.int64)
        probabilities = rng.dirichlet(np.ones(len(rankings)))
        gradient = surrogate.gradient(scores, relevance)
        for k in range(min(n, surrogate.min_k or n), n + 1):
            for estimator in _ESTIMATORS:
                prediction = np.zeros(0) if estimator != "doubly_robust" else predicted
                mean = _mean_estimate(
                    surrogate, estimator, _Round(scores, relevance, prediction, k), rankings, probabilities
                )
                require(
                    mean is None or np.abs(mean - gradient).max() <= 1e-7 * (1 + np.abs(gradient).max()),
                    f"with {k} of {n} answers the {estimator} estimate has the mean {mean}, the gradient is "
                    f"{gradient}",
                )


class _Round(NamedTuple):
    """Inputs of an estimate before a ranking is drawn."""

    scores: Floats
    relevance: Floats
    predicted: Floats
    k: int


def _mean_estimate(
    surrogate: Surrogate, estimator: str, round_: _Round, rankings: Ints, probabilities: Floats
) -> Floats | None:
    """Return the expectation of an estimate over rankings with these probabilities, or None if there is none."""
    estimate = getattr(surrogate.estimates, estimator)
    if estimate is None:
        return None
    scores, relevance, predicted, k = round_
    n = len(scores)
    shown = np.zeros((len(rankings), n))
    np.put_along_axis(shown, rankings[:, :k], 1.0, axis=1)
    both = shown.T @ (probabilities[:, None] * shown)  # the diagonal holds the propensities of single items
    mean = np.zeros(n)
    for ranking, probability in zip(rankings, probabilities, strict=True):
        top, slopes = ranking[:k], np.zeros(n)
        pairs = both[np.ix_(top, top)] if k < n else np.zeros((0, 0))
        seen = Seen(
            scores.copy(), ranking.copy(), relevance[top], both[top, top] if k < n else np.ones(n),
            np.ascontiguousarray(pairs), predicted.copy(), np.zeros(n), np.zeros(n, np.int64), sort_space(n),
        )  # fmt: skip
        estimate(astuple(surrogate), seen, slopes)
        mean += probability * slopes
    return mean


def slopes_fit_in_single_precision(surrogate: Surrogate) -> None:
    """Check that gradients fit in single precision up to the largest grade that the estimators accept."""
    if surrogate.estimates is None:
        return
    top = surrogate.estimates.max_grade
    for relevance in (np.array([top, 0.0]), np.array([0.0, top]), np.array([top, top])):
        largest = np.abs(surrogate.gradient(np.zeros(2), relevance.astype(np.float64))).max()
        require(largest < np.finfo(np.float32).max, f"with grades {relevance} a slope is {largest:.3g}")


SURROGATE_CHECKS: dict[str, Callable[[Surrogate], None]] = {
    check.__name__: check
    for check in (
        every_member_is_there,
        text_is_its_specification,
        estimates_are_compiled,
        inputs_are_left_alone,
        gradient_is_the_derivative,
        labels_do_not_matter,
        convex_if_it_says_so,
        no_gradient_is_longer_than_lipschitz,
        estimates_have_no_bias,
        slopes_fit_in_single_precision,
    )
}
