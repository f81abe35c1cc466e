"""What a round must be: a permutation, from nothing but the uniforms and what was seen, in every driver alike."""

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
from peekrank.types import Learner, missing_members


def every_member_is_there(learner: Learner) -> None:
    """It has every member of `peekrank.types.Learner`."""
    missing = missing_members(learner)
    require(not missing, f"{type(learner).__name__} lacks {', '.join(missing)}")


def rankings_are_permutations(learner: Learner) -> None:
    """Every ranking holds every item once, and the explored mark of the token is 0 or 1."""
    agent = problem.agent(learner)
    for relevance in problem.relevance(learner):
        ranking, token = (decision := problem.rank(agent)).ranking, decision.token
        require(np.array_equal(np.sort(ranking), np.arange(problem.M)), f"{ranking} is not a permutation")
        require(np.isfinite(token).all(), f"token {token} is not finite")
        require(token[0] in (0, 1), f"token[0] = {token[0]} is no explored mark")
        agent.update(decision, relevance[ranking[: agent.shape.k]])


def inputs_stay_as_they_were(learner: Learner) -> None:
    """Kernels change their state, the ranking and the token they fill, and nothing else."""
    features, ranking = problem.features(learner), np.empty(problem.M, np.int64)
    shape = problem.shape(learner)
    state, rng = learner.init(shape), np.random.default_rng(0)
    for _ in range(problem.ROUNDS):
        uniforms, token = rng.random(learner.n_uniforms(shape)), np.zeros(learner.token_size(shape))
        before = uniforms.copy()
        learner.kernels.rank(state, features, uniforms, ranking, token)
        require(np.array_equal(before, uniforms), "rank changes the uniforms it is given")
        feedback = rng.integers(0, 2, shape.k).astype(np.float64)
        kept = ranking.copy(), token.copy(), feedback.copy()
        learner.kernels.update(state, features, ranking, token, feedback)
        for name, old, new in zip(("ranking", "token", "feedback"), kept, (ranking, token, feedback), strict=True):
            require(np.array_equal(old, new), f"update changes the {name} it is given")


def same_seed_same_trajectory(learner: Learner) -> None:
    """All randomness comes from the uniforms: no generator of its own, no global one."""
    relevance = problem.relevance(learner)
    require(
        np.array_equal(problem.shown(learner, relevance), problem.shown(learner, relevance)),
        "two simulations with the same seed differ",
    )


def play_equals_simulate(learner: Learner) -> None:
    """Step by step and compiled give the same bits, and leave the same memory and counts."""
    relevance = problem.relevance(learner)
    rounds, measure = problem.with_features(learner, relevance), measure_named("dcg")
    one = play(learner, rounds, k=problem.K, measure=measure, seed=3)
    two = simulate(learner, rounds, k=problem.K, measure=measure, seed=3)
    for name, a, b in zip(one._fields, one, two, strict=True):
        require(np.array_equal(a, b), f"play and simulate differ in their {name}")
    asked, driven = problem.agent(learner), problem.agent(learner)
    for row in relevance:
        problem.step(asked, row)
    run_agents([driven], rounds, measure=measure)
    require(
        asked.dump() == driven.dump(), "an agent that was driven remembers something else than one asked and told"
    )


def late_and_missing_answers(learner: Learner) -> None:
    """Answers may come late, in any order, in part or never; all is well, and the state stays finite."""
    rng = np.random.default_rng(5)
    agent = problem.agent(learner)
    for batch in problem.relevance(learner).reshape(-1, 10, problem.M):
        decisions = [problem.rank(agent) for _ in batch]
        for i in rng.permutation(len(batch))[:8]:
            answers = batch[i][decisions[i].ranking[: agent.shape.k]].astype(np.float64)
            answers[rng.random(len(answers)) < 0.3] = np.nan
            agent.update(decisions[i], answers)
        for decision in decisions:
            require(np.array_equal(np.sort(decision.ranking), np.arange(problem.M)), "a ranking is no permutation")
            require(np.isfinite(decision.token).all(), "a token is not finite")
    for name, array in arrays_of(agent._state):
        require(np.isfinite(array).all(), f"{name} of the state is not finite")


def only_the_top_k_is_seen(learner: Learner) -> None:
    """Whatever the relevance outside the shown top k, the whole trajectory stays the same."""
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
    """A wrong number, shape or grade is a ValueError that names what is wrong."""
    hints = get_type_hints(type(learner))
    for name in _fields(learner):
        kinds = {hints[name], *get_args(hints[name])}
        wrong = -1 if int in kinds else np.nan if float in kinds else None
        if wrong is not None:
            _raises(name, partial(type(learner), **{**_fields(learner), name: wrong}))
    for name, m, k in (("k", problem.M, problem.M + 1), ("k", problem.M, 0), ("m", 0, 1)):
        _raises(name, partial(Agent, learner, m=m, k=k, d=problem.features(learner).shape[1]))
    agent = problem.agent(learner)
    for wrong in (-1.0, 0.5, np.inf):
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
