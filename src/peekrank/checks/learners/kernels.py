"""The kernels that a learner need not have."""

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

_DRAWS = 2000  # by which propensities are checked
_DEVIATIONS = 6  # standard deviations by which they may be off


def propensities_are_true(learner: Learner) -> None:
    """What `propensities` says of a round is the same whatever is drawn, adds up to k, and comes true."""
    rank, propensities = learner.kernels.rank, learner.kernels.propensities
    if propensities is None:
        return
    agent, X, rng = problem.agent(learner), problem.features(learner), np.random.default_rng(9)
    k, draws, size = agent.shape.k, learner.n_uniforms(agent.shape), learner.token_size(agent.shape)
    for row in problem.relevance(learner)[:25]:
        problem.step(agent, row)
    state = deepcopy(agent.state)
    arrays = dict(arrays_of(state))
    for array in arrays.values():
        array.flags.writeable = True
    kept = {name: arrays[name].copy() for name in learner.persistent}
    said, seen = np.empty((_DRAWS, problem.M)), np.zeros(problem.M)
    for t in range(_DRAWS):
        ranking, token = np.empty(problem.M, np.int64), np.zeros(size)
        rank(state, X, rng.random(draws), ranking, token)
        after = {name: arrays[name].copy() for name in kept}
        propensities(state, X, ranking, token, said[t])
        require(
            all(np.array_equal(arrays[name], after[name]) for name in kept),
            "propensities changes the memory of its state",
        )
        seen[ranking[:k]] += 1
        for name, array in kept.items():
            arrays[name][...] = array
    if np.isnan(said).all():
        return
    require(np.ptp(said, axis=0).max() < 1e-9, "propensities depends on what was drawn in the round")
    p = said[0]
    require(
        abs(p.sum() - k) < 1e-9 and p.min() >= 0 and p.max() <= 1 + 1e-12,
        f"{p} are no propensities of {k} positions",
    )
    off = np.abs(seen / _DRAWS - p)
    most = _DEVIATIONS * np.sqrt(np.maximum(p * (1 - p), 1 / _DRAWS) / _DRAWS)
    require(np.all(off <= most), f"items were seen in {seen / _DRAWS} of the rounds, their propensities being {p}")


def own_decisions_are_on_policy(learner: Learner) -> None:
    """If it learns from others: what it showed itself can be adopted, any number of times, and be learned from."""
    kernels, shape = learner.kernels, problem.shape(learner)
    if kernels.off_policy is None or kernels.propensities is None:
        return
    features, ranking, told = problem.features(learner), np.empty(problem.M, np.int64), np.empty(problem.M)
    state, rng = learner.init(shape), np.random.default_rng(13)
    for _ in range(problem.ROUNDS):
        token = np.zeros(learner.token_size(shape))
        kernels.rank(state, features, rng.random(learner.n_uniforms(shape)), ranking, token)
        kernels.propensities(state, features, ranking, token, told)
        kernels.off_policy(state, features, ranking, told, token)
        once = token.copy()
        kernels.off_policy(state, features, ranking, told, token)
        require(np.isfinite(token).all(), f"the token {token} of an adopted decision is not finite")
        require(np.array_equal(token, once), "adopting a decision twice changes the token")
        kernels.update(state, features, ranking, token, rng.integers(0, 2, shape.k).astype(np.float64))


def rank_is_exploit_then_explore(learner: Learner) -> None:
    """If `rank` has two halves: they do what it does, and the first one leaves nothing to chance."""
    best, explore = learner.kernels.exploit, learner.kernels.explore
    if best is None or explore is None:
        return
    shape, features, rng = problem.shape(learner), problem.features(learner), np.random.default_rng(14)
    whole, halves = learner.init(shape), learner.init(shape)
    rankings, tokens = np.empty((2, problem.M), np.int64), np.zeros((2, learner.token_size(shape)))
    for _ in range(problem.ROUNDS):
        uniforms, tokens[:] = rng.random(learner.n_uniforms(shape)), 0
        learner.kernels.rank(whole, features, uniforms, rankings[0], tokens[0])
        best(halves, features, rankings[1], tokens[1])
        require(
            np.array_equal(np.sort(rankings[1]), np.arange(problem.M)), f"its best order {rankings[1]} is none"
        )
        explore(halves, features, uniforms, rankings[1], tokens[1])
        require(np.array_equal(*rankings) and np.array_equal(*tokens), "rank is not best and explore in turn")
        feedback = rng.integers(0, 2, shape.k).astype(np.float64)
        for state, ranking, token in zip((whole, halves), rankings, tokens, strict=True):
            learner.kernels.update(state, features, ranking, token, feedback)


def any_list_of_its_items(learner: Learner) -> None:
    """If it knows items one by one: drivers agree on lists of some of them, and items can be added at any time."""
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
    for t, (row, here) in enumerate(zip(relevance, mask, strict=True)):
        if t % 20 == 0 and growing.shape.m < problem.M:
            growing.add()
        known = np.flatnonzero(here[: growing.shape.m])
        if len(known):
            one_shown, other_shown = (_told(agent, row, known) for agent in (growing, grown))
            require(
                np.array_equal(one_shown, other_shown), "an agent to which items were added shows other rankings"
            )


def _told(agent: Agent, relevance: Grades, available: Ints) -> Ints:
    decision = agent.rank(available=available)
    agent.update(decision, relevance[decision.ranking[: agent.shape.k]])
    return decision.ranking


def knows_items_by_their_numbers(learner: Learner) -> None:
    """If it knows items one by one: what it learns of an item is not taken for what it learns of a position in lists.

    Lists of the items 0 and 1, and of 1 and 2, take turns; 0 and 2 are relevant: rows of lists tell nothing.
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
        require(
            first == best, f"of the items {pair} it takes {first} for the better one, which never was relevant"
        )
