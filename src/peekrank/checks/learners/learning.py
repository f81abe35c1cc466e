"""Checks of learning: the learner beats random rankings and keeps its regret bound."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from peekrank.checks.common import CheckWarning, require
from peekrank.checks.learners import problem
from peekrank.engine import simulate
from peekrank.learners import Uniform
from peekrank.measures import measure as measure_named
from peekrank.regret import best_values, regret
from peekrank.streams import fixed_items
from peekrank.types import Floats, Learner, LinearMeasure, Rounds

_LONG_ENOUGH = 2000  # rounds in which a learner must have learned
_NO_HORIZON = 4000  # rounds for a learner that is tuned to none
_SEEDS = 4
_FAR = 0.75  # of the loss of random rankings


def keeps_its_bound(learner: Learner) -> None:
    """Check that mean regret stays below the bound if relevance is clear, close, pure noise, or turns around."""
    horizon = learner.horizon or _NO_HORIZON
    bound = learner.bound(problem.shape(learner), horizon)
    if bound is None:
        return
    measure, end = _measure(learner), np.array([horizon])
    for name, means in _streams(horizon).items():
        lost = 0.0
        for seed in range(_SEEDS):
            rounds = _rounds(learner, means, seed)
            trace = simulate(learner, rounds, k=problem.K, measure=measure, seed=seed, checkpoints=end)
            lost += float(regret(measure, trace, best_values(measure, rounds, end))[0]) / _SEEDS
        require(lost <= bound, f"mean regret {lost:.1f} is above the bound {bound:.1f} on the stream '{name}'")


def learns(learner: Learner) -> None:
    """Check that a learner with a bound beats random rankings if a few items are clearly better.

    Feedback on the top items carries no information about the others. A learner that sums feedback without
    counting how often each item was shown locks on to the first items it saw, and fails here.
    """
    if not (horizon := _horizon_to_learn_in(learner)):
        return
    measure, half = _measure(learner), np.array([horizon // 2, horizon])
    lost, random_loss = np.zeros(2), 0.0
    for seed in range(_SEEDS):
        rounds = _rounds(learner, _streams(horizon)["turn after a twentieth"], seed)
        best = best_values(measure, rounds, half)
        trace = simulate(learner, rounds, k=problem.K, measure=measure, seed=seed, checkpoints=half)
        lost += regret(measure, trace, best) / _SEEDS
        random_loss += _random_loss(measure, rounds, best[-1]) / _SEEDS
    require(
        lost[1] - lost[0] <= 0.25 * random_loss,
        f"in the second half it loses {lost[1] - lost[0]:.1f}, random rankings {random_loss / 2:.1f}",
    )


def beats_random_rankings(learner: Learner) -> None:
    """Warn if a learner without a bound does not clearly beat random rankings on an easy stream.

    A learner that sums feedback without dividing it by propensities, or by how often the item was shown, locks on
    to the items it saw first.
    """
    horizon = max(learner.horizon or 0, _NO_HORIZON)
    measure, half = _measure(learner), np.array([horizon // 2, horizon])
    if learner.contextual or not isinstance(measure, LinearMeasure) or _horizon_to_learn_in(learner):
        return
    lost, random_loss = 0.0, 0.0
    for seed in range(_SEEDS):
        rounds = _rounds(learner, _streams(horizon)["clear"], seed)
        best = best_values(measure, rounds, half)
        trace = simulate(learner, rounds, k=problem.K, measure=measure, seed=seed, checkpoints=half)
        lost += float(np.diff(regret(measure, trace, best))[0]) / _SEEDS
        random_loss += _random_loss(measure, rounds, best[-1]) / 2 / _SEEDS
    if lost > _FAR * random_loss:
        warnings.warn(
            f"beats_random_rankings: in the second half of {horizon:,} easy rounds it loses {lost:.0f}, random "
            f"rankings {random_loss:.0f}. Does `rank` use what `update` stores, in the right direction? Does it "
            "explore? Does `update` divide feedback by the propensity, or by how often the item was shown?",
            CheckWarning,
            stacklevel=2,
        )


def learns_though_answers_are_missing(learner: Learner) -> None:
    """Check that it learns if only 6 of 10 rounds bring full feedback, 1 half NaN, 2 all NaN, and 1 none."""
    if not (horizon := _horizon_to_learn_in(learner)):
        return
    measure, rng = _measure(learner), np.random.default_rng(8)
    rounds = _rounds(learner, _streams(horizon)["clear"], seed=0)
    relevance, agent = rounds.relevance.reshape(-1, problem.M), problem.agent(learner)
    shown = np.empty((horizon, problem.M), dtype=np.int64)
    for t, (row, luck) in enumerate(zip(relevance, rng.random(horizon), strict=True)):
        decision = problem.rank(agent)
        shown[t] = decision.ranking
        if luck < 0.9:
            answers = row[shown[t, : agent.shape.k]].astype(np.float64)
            answers[: 0 if luck < 0.6 else len(answers) // 2 if luck < 0.7 else None] = np.nan
            agent.update(decision, answers)
    late = relevance[horizon // 2 :]
    value = float(measure.values(shown[horizon // 2 :], late).sum())
    best = float(best_values(measure, fixed_items(late), np.array([len(late)]))[0])
    random_loss = _random_loss(measure, fixed_items(late), best)
    require(
        abs(best - value) <= 0.5 * random_loss,
        f"in the second half it loses {abs(best - value):.1f}, random rankings {random_loss:.1f}",
    )


def learns_from_features(learner: Learner) -> None:
    """Check that it loses at most half of what random rankings lose if relevance is linear in the features."""
    if not learner.contextual:
        return
    rng, measure = np.random.default_rng(6), measure_named("ndcg")
    lengths = rng.integers(2, problem.M + 1, _NO_HORIZON)
    features = rng.normal(size=(lengths.sum(), problem.FEATURES.shape[1])).astype(np.float32)
    relevance = np.digitize(features @ [1.0, -0.5, 0.25, 0.0], [0.5, 1.5]).astype(np.uint8)
    rounds = Rounds(features, relevance, np.r_[0, np.cumsum(lengths)])
    half = np.array([_NO_HORIZON // 2, _NO_HORIZON])
    lost = []
    for one in (learner, Uniform()):
        value = simulate(one, rounds, k=problem.K, measure=measure, checkpoints=half).value
        lost.append(1 - float(value[1] - value[0]) / (_NO_HORIZON / 2))
    require(lost[0] <= 0.5 * lost[1], f"in the second half it loses {lost[0]:.3f} per round, random {lost[1]:.3f}")


def _measure(learner: Learner) -> Any:
    return measure_named("dcg") if learner.measure is None else learner.measure


def _horizon_to_learn_in(learner: Learner) -> int | None:
    """Return the number of rounds in which a learner must have learned, or None if it has no bound."""
    horizon: int = learner.horizon or _NO_HORIZON
    bound = learner.bound(problem.shape(learner), horizon)
    return None if bound is None or horizon < _LONG_ENOUGH else horizon


def _streams(horizon: int) -> dict[str, Floats]:
    """Return the probability of each of six items to be relevant in each round, for each stream."""
    clear = np.tile([0.5, 0.5, 0.1, 0.1, 0.9, 0.9], (horizon, 1))
    early, late = clear.copy(), clear.copy()
    early[: horizon // 20] = [1, 1, 0, 0, 0, 0]
    late[horizon // 2 :] = late[horizon // 2 :, ::-1]
    return {
        "clear": clear,
        "close": np.tile([0.5, 0.5, 0.48, 0.46, 0.5, 0.52], (horizon, 1)),
        "noise": np.full((horizon, problem.M), 0.5),
        "turn after a twentieth": early,
        "turn after a half": late,
    }


def _rounds(learner: Learner, means: Floats, seed: int) -> Rounds:
    """Draw rounds with these probabilities, the items in random order; relevant items have the largest grade."""
    rng = np.random.default_rng([1, seed])  # independent of the learner's random numbers, as the theorems require
    relevant = rng.random(means.shape) < means[:, rng.permutation(problem.M)]
    return fixed_items(relevant.astype(np.uint8) * np.uint8(min(learner.max_grade, 4)))


def _random_loss(measure: Any, rounds: Rounds, best: float) -> float:
    """Return the expected regret of uniformly random rankings, whose mean value is the mean over all rankings."""
    relevance = rounds.relevance.reshape(-1, problem.M)
    value = measure.offset(relevance).sum() + measure.discount(problem.M).mean() * measure.gain(relevance).sum()
    return float(abs(best - value))
