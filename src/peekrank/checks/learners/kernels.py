"""Checks of a learner's optional kernels."""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from peekrank.checks.common import require
from peekrank.checks.learners import problem
from peekrank.engine import Agent, play, run_agents, simulate
from peekrank.engine.serialization import arrays_of
from peekrank.measures import measure as measure_named
from peekrank.streams import available_items
from peekrank.types import Grades, Ints, Learner

_DRAWS = 2000  # rounds drawn to check propensities
_DEVIATIONS = 6  # allowed error in standard deviations


def propensities_are_true(learner: Learner) -> None:
    """Check that propensities do not depend on the round's draw, add up to k, and match observed frequencies."""
    if learner.kernels.propensities is None:
        return
    agent, X, rng = problem.agent(learner), problem.features(learner), np.random.default_rng(9)
    k, draws, size = agent.shape.k, learner.n_uniforms(agent.shape), learner.token_size(agent.shape)
    for row in problem.relevance(learner)[:25]:
        problem.step(agent, row)
    state = deepcopy(agent.state)
    arrays = dict(arrays_of(state))
    for array in arrays.values():
        array.flags.writeable = True
    before = {name: arrays[name].copy() for name in learner.persistent}
    reported, seen = np.empty((_DRAWS, problem.M)), np.zeros(problem.M)
    shown = np.empty(problem.M, np.int64), np.zeros(size)
    rank = problem.on_state(learner.kernels.rank, state, X, np.empty(draws), *shown)
    propensities = problem.on_state(learner.kernels.propensities, state, X, *shown, reported[0])
    for t in range(_DRAWS):
        ranking, token = np.empty(problem.M, np.int64), np.zeros(size)
        rank(X, rng.random(draws), ranking, token)
        after = {name: arrays[name].copy() for name in before}
        propensities(X, ranking, token, reported[t])
        require(
            all(np.array_equal(arrays[name], after[name]) for name in before),
            "propensities changes persistent arrays of the state",
        )
        seen[ranking[:k]] += 1
        for name, array in before.items():
            arrays[name][...] = array
    if np.isnan(reported).all():
        return
    require(np.ptp(reported, axis=0).max() < 1e-9, "propensities depend on what was drawn in the round")
    p = reported[0]
    require(
        abs(p.sum() - k) < 1e-9 and p.min() >= 0 and p.max() <= 1 + 1e-12,
        f"{p} are not propensities of {k} positions",
    )
    error = np.abs(seen / _DRAWS - p)
    tolerance = _DEVIATIONS * np.sqrt(np.maximum(p * (1 - p), 1 / _DRAWS) / _DRAWS)
    require(
        np.all(error <= tolerance), f"items were seen in {seen / _DRAWS} of the rounds, but propensities are {p}"
    )


def own_decisions_are_on_policy(learner: Learner) -> None:
    """Check `off_policy` on the learner's own decisions: applying it twice changes nothing, and updates work."""
    kernels, shape = learner.kernels, problem.shape(learner)
    if kernels.off_policy is None or kernels.propensities is None:
        return
    features, ranking, p = problem.features(learner), np.empty(problem.M, np.int64), np.empty(problem.M)
    state, rng, token = learner.init(shape), np.random.default_rng(13), np.zeros(learner.token_size(shape))
    rank = problem.on_state(kernels.rank, state, features, p, ranking, token)
    propensities = problem.on_state(kernels.propensities, state, features, ranking, token, p)
    off_policy = problem.on_state(kernels.off_policy, state, features, ranking, p, token)
    update = problem.on_state(kernels.update, state, features, ranking, token, p)
    for _ in range(problem.ROUNDS):
        token[:] = 0
        rank(features, rng.random(learner.n_uniforms(shape)), ranking, token)
        propensities(features, ranking, token, p)
        off_policy(features, ranking, p, token)
        once = token.copy()
        off_policy(features, ranking, p, token)
        require(np.isfinite(token).all(), f"off_policy gives the token {token}, which is not finite")
        require(np.array_equal(token, once), "applying off_policy twice changes the token")
        update(features, ranking, token, rng.integers(0, 2, shape.k).astype(np.float64))


def rank_is_exploit_then_explore(learner: Learner) -> None:
    """Check that `exploit` gives a permutation, and that `exploit` and then `explore` do the same as `rank`."""
    kernels = learner.kernels
    if kernels.exploit is None or kernels.explore is None:
        return
    shape, features, rng = problem.shape(learner), problem.features(learner), np.random.default_rng(14)
    whole, halves = learner.init(shape), learner.init(shape)
    rankings, tokens = np.empty((2, problem.M), np.int64), np.zeros((2, learner.token_size(shape)))
    shown, feedback = (rankings[0], tokens[0]), np.empty(shape.k)
    rank = problem.on_state(kernels.rank, whole, features, feedback, *shown)
    exploit = problem.on_state(kernels.exploit, halves, features, *shown)
    explore = problem.on_state(kernels.explore, halves, features, feedback, *shown)
    updates = [problem.on_state(kernels.update, state, features, *shown, feedback) for state in (whole, halves)]
    for _ in range(problem.ROUNDS):
        uniforms, tokens[:] = rng.random(learner.n_uniforms(shape)), 0
        rank(features, uniforms, rankings[0], tokens[0])
        exploit(features, rankings[1], tokens[1])
        require(
            np.array_equal(np.sort(rankings[1]), np.arange(problem.M)),
            f"exploit gives {rankings[1]}, which is not a permutation",
        )
        explore(features, uniforms, rankings[1], tokens[1])
        require(np.array_equal(*rankings) and np.array_equal(*tokens), "rank is not exploit followed by explore")
        feedback = rng.integers(0, 2, shape.k).astype(np.float64)
        for update, ranking, token in zip(updates, rankings, tokens, strict=True):
            update(features, ranking, token, feedback)


def any_list_of_its_items(learner: Learner) -> None:
    """Check learners with `set_items` on subsets of items: drivers agree, and items can be added any time."""
    if learner.kernels.set_items is None:
        return
    rng, relevance = np.random.default_rng(12), problem.relevance(learner)
    mask = rng.random(relevance.shape) < 0.5
    mask[np.arange(problem.ROUNDS), rng.integers(0, problem.M, problem.ROUNDS)] = True
    rounds, measure = available_items(relevance, mask), measure_named("dcg")
    one, two = (run(learner, rounds, k=problem.K, measure=measure, seed=3) for run in (play, simulate))
    for name, a, b in zip(one._fields, one, two, strict=True):
        require(np.array_equal(a, b), f"play and simulate differ in their {name} if not all items are available")
    growing, grown = (Agent(learner, m=m, k=problem.K, seed=4) for m in (problem.K, problem.M))
    for t, (row, available) in enumerate(zip(relevance, mask, strict=True)):
        if t % 20 == 0 and growing.shape.m < problem.M:
            growing.add()
        known = np.flatnonzero(available[: growing.shape.m])
        if len(known):
            ranking, other = (_rank_and_update(agent, row, known) for agent in (growing, grown))
            require(np.array_equal(ranking, other), "an agent to which items were added ranks differently")


def _rank_and_update(agent: Agent, relevance: Grades, available: Ints) -> Ints:
    decision = agent.rank(available=available)
    agent.update(decision, relevance[decision.ranking[: agent.shape.k]])
    return decision.ranking


def knows_items_by_their_numbers(learner: Learner) -> None:
    """Check that learners with `set_items` learn about items, not about rows of the list.

    Lists of the items 0 and 1, and of 1 and 2, alternate. Items 0 and 2 are relevant, so rows carry no
    information.
    """
    if learner.kernels.set_items is None:
        return
    top = np.uint8(min(learner.max_grade, 4))
    rows = np.tile(np.array([[1, 0, 0], [0, 0, 1]], dtype=np.uint8) * top, (problem.ROUNDS, 1))
    mask = np.tile(np.array([[True, True, False], [False, True, True]]), (problem.ROUNDS, 1))
    agent = Agent(learner, m=3, k=1)
    run_agents([agent], available_items(rows, mask), measure=measure_named("dcg"))
    for pair, best in (([0, 1], 0), ([1, 2], 2)):
        first = int(agent.best_ranking(available=pair)[0])
        require(first == best, f"of the items {pair} it ranks {first} first, which never was relevant")
