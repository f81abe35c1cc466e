"""Checks of single rounds: valid rankings from uniforms and feedback alone, equal in every driver."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, get_args, get_type_hints

import numpy as np

from peekrank.checks.common import CheckError, require
from peekrank.checks.learners import problem
from peekrank.engine import Agent, play, run_agents, simulate
from peekrank.engine.serialization import arrays_of
from peekrank.measures import measure as measure_named
from peekrank.types import Learner, RealAnswers, missing_members


def every_member_is_there(learner: Learner) -> None:
    """Check that the learner has every member of `peekrank.types.Learner`."""
    missing = missing_members(learner)
    require(not missing, f"{type(learner).__name__} lacks {', '.join(missing)}")


def rankings_are_permutations(learner: Learner) -> None:
    """Check that every ranking is a permutation, and that the token's exploration mark is 0 or 1."""
    agent = problem.agent(learner)
    for relevance in problem.relevance(learner):
        ranking, token = (decision := problem.rank(agent)).ranking, decision.token
        require(np.array_equal(np.sort(ranking), np.arange(problem.M)), f"{ranking} is not a permutation")
        require(np.isfinite(token).all(), f"token {token} is not finite")
        require(token[0] in (0, 1), f"token[0] = {token[0]}: the exploration mark must be 0 or 1")
        agent.update(decision, relevance[ranking[: agent.shape.k]])


def inputs_stay_as_they_were(learner: Learner) -> None:
    """Check that kernels change only the state, and the ranking and token that they fill."""
    features, ranking = problem.features(learner), np.empty(problem.M, np.int64)
    shape = problem.shape(learner)
    state, rng = learner.init(shape), np.random.default_rng(0)
    token = np.zeros(learner.token_size(shape))
    rank = problem.on_state(learner.kernels.rank, state, features, np.empty(0), ranking, token)
    update = problem.on_state(learner.kernels.update, state, features, ranking, token, np.empty(0))
    for _ in range(problem.ROUNDS):
        uniforms, token = rng.random(learner.n_uniforms(shape)), np.zeros(learner.token_size(shape))
        before = uniforms.copy()
        rank(features, uniforms, ranking, token)
        require(np.array_equal(before, uniforms), "rank changes the uniforms passed in")
        feedback = rng.integers(0, 2, shape.k).astype(np.float64)
        copies = ranking.copy(), token.copy(), feedback.copy()
        update(features, ranking, token, feedback)
        for name, old, new in zip(
            ("ranking", "token", "feedback"), copies, (ranking, token, feedback), strict=True
        ):
            require(np.array_equal(old, new), f"update changes the {name} passed in")


def same_seed_same_trajectory(learner: Learner) -> None:
    """Check that all randomness comes from the uniforms, not from another generator."""
    relevance = problem.relevance(learner)
    require(
        np.array_equal(problem.shown(learner, relevance), problem.shown(learner, relevance)),
        "two simulations with the same seed differ",
    )


def play_equals_simulate(learner: Learner) -> None:
    """Check that `play` and `simulate` give the same bits, and leave the same state and counts."""
    relevance = problem.relevance(learner)
    rounds, measure = problem.with_features(learner, relevance), measure_named("dcg")
    one = play(learner, rounds, k=problem.K, measure=measure, seed=3)
    two = simulate(learner, rounds, k=problem.K, measure=measure, seed=3)
    for name, a, b in zip(one._fields, one, two, strict=True):
        require(np.array_equal(a, b), f"play and simulate differ in their {name}")
    stepped, compiled = problem.agent(learner), problem.agent(learner)
    for row in relevance:
        problem.step(stepped, row)
    run_agents([compiled], rounds, measure=measure)
    require(stepped.dump() == compiled.dump(), "run_agents leaves another state than rank and update")


def late_and_missing_answers(learner: Learner) -> None:
    """Check that late, reordered, partial and missing feedback works, and that the state stays finite."""
    rng = np.random.default_rng(5)
    agent = problem.agent(learner)
    for batch in problem.relevance(learner).reshape(-1, 10, problem.M):
        decisions = [problem.rank(agent) for _ in batch]
        for i in rng.permutation(len(batch))[:8]:
            answers = batch[i][decisions[i].ranking[: agent.shape.k]].astype(np.float64)
            answers[rng.random(len(answers)) < 0.3] = np.nan
            agent.update(decisions[i], answers)
        for decision in decisions:
            require(
                np.array_equal(np.sort(decision.ranking), np.arange(problem.M)), "a ranking is not a permutation"
            )
            require(np.isfinite(decision.token).all(), "a token is not finite")
    for name, array in arrays_of(agent._state):
        require(np.isfinite(array).all(), f"{name} of the state is not finite")


def only_the_top_k_is_seen(learner: Learner) -> None:
    """Check that the relevance outside the shown top k does not affect the trajectory."""
    relevance = problem.relevance(learner)
    shown = problem.shown(learner, relevance)
    k = problem.shape(learner).k
    scrambled = relevance.max() - relevance
    np.put_along_axis(scrambled, shown[:, :k], np.take_along_axis(relevance, shown[:, :k], 1), 1)
    require(
        np.array_equal(problem.shown(learner, scrambled), shown),
        "relevance outside the top k changes the trajectory",
    )


def bad_parameters_are_named(learner: Learner) -> None:
    """Check that a bad parameter, shape or grade raises a ValueError that names it."""
    hints = get_type_hints(type(learner))
    for name in _fields(learner):
        kinds = {hints[name], *get_args(hints[name])}
        wrong = -1 if int in kinds else np.nan if float in kinds else None
        if wrong is not None:
            _raises(name, partial(type(learner), **{**_fields(learner), name: wrong}))
    for name, m, k in (("k", problem.M, problem.M + 1), ("k", problem.M, 0), ("m", 0, 1)):
        _raises(name, partial(Agent, learner, m=m, k=k, d=problem.features(learner).shape[1]))
    agent = problem.agent(learner)
    low, high = learner.answer_range if isinstance(learner, RealAnswers) else (0, 0)
    for wrong in (low - 1, high + 0.5, np.inf):
        answers = np.full(agent.shape.k, wrong)
        _raises("feedback", partial(agent.update, problem.rank(agent), answers))


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _raises(name: str, action: Callable[[], object]) -> None:
    try:
        action()
    except ValueError as error:
        require(name in str(error), f"the error for a bad {name} does not name it: {error}")
    else:
        raise CheckError(f"a bad {name} passes silently")
