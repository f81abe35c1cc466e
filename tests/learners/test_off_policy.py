"""Learning from what another learner showed: the kernel `off_policy`, by enumeration and over many rounds."""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from peekrank import Agent, Ridge, RTopKF, Shape
from peekrank.surrogates import RankSVM
from peekrank.types import Floats, Ints, Kernels, State

M, D = 6, 4
X = np.random.default_rng(0).normal(size=(M, D)).astype(np.float32)
GRADES = np.array([0.0, 2.0, 1.0, 0.0, 1.0, 0.0])


def adopted(kernels: Kernels, state: State, shape: Shape, size: int, ranking: Ints, propensities: Floats) -> State:
    """A copy of the state after an answer to somebody else's ranking."""
    state, token = deepcopy(state), np.zeros(size)
    kernels.rank(state, X, np.full(8, 0.5), np.empty(M, np.int64), token)
    assert kernels.off_policy is not None
    kernels.off_policy(state, X, ranking, propensities, token)
    kernels.update(state, X, ranking, token, GRADES[ranking[: shape.k]])
    return state


def test_gradients_of_rtopkf_have_no_bias_whoever_chose_the_ranking() -> None:
    """The mean step over all that another one may have shown is the one that all relevances would give."""
    learner, shape = RTopKF(step="theorem", horizon=1000, clip=0.0), Shape(M, D, 1)
    state = learner.init(shape)
    state.w[:] = [0.5, -0.25, 0.0, 1.0]
    propensities = np.array([0.05, 0.3, 0.1, 0.25, 0.2, 0.1])
    mean = np.zeros(D)
    for first in range(M):
        ranking = np.roll(np.arange(M), -first)
        new = adopted(learner.kernels, state, shape, learner.token_size(shape), ranking, propensities)
        mean += propensities[first] * (new.w.astype(np.float64) - state.w)
    slopes = 2 * (X.astype(np.float64) @ state.w - GRADES)
    assert np.allclose(mean, -state.step * X.T.astype(np.float64) @ slopes, rtol=1e-4, atol=1e-7)


def test_ridge_weighs_what_others_showed_by_how_seldom_they_show_it() -> None:
    learner, shape = Ridge(), Shape(M, D, 1)
    agent, token = Agent(learner, m=M, k=1, d=D, seed=0), np.zeros(learner.token_size(shape))
    off_policy = learner.kernels.off_policy
    assert off_policy is not None
    for answers in range(41):
        most = max(1.0, answers / D) ** 0.6
        for p in (1.0, 0.4, 0.01, 0.0):
            off_policy(agent.state, X, np.arange(M), np.full(M, p), token)
            assert np.isclose(token[1], min(most, 1 / p) if p else most)
        decision = agent.rank(X)
        agent.update(decision, GRADES[decision.ranking[:1]])


def test_who_needs_propensities_of_pairs_does_not_adopt() -> None:
    assert RTopKF(RankSVM()).kernels.off_policy is None
    assert RTopKF().kernels.off_policy is not None


def test_rtopkf_learns_from_what_ridge_shows() -> None:
    rng, learner, shape = np.random.default_rng(1), RTopKF(), Shape(M, D, 2)
    agent, state = Agent(Ridge(explore_rate=0.2), m=M, k=2, d=D, seed=0), learner.init(shape)
    kernels, ranking = learner.kernels, np.empty(M, np.int64)
    assert kernels.off_policy is not None
    for _ in range(2000):
        features = rng.normal(size=(M, D)).astype(np.float32)
        decision = agent.rank(features)
        answers = np.clip(np.round(features[decision.ranking[:2]] @ [1.0, -1.0, 0.0, 0.5]), 0, 4)
        agent.update(decision, answers)
        token, shown = np.zeros(learner.token_size(shape)), decision.ranking.copy()
        assert decision.propensities is not None
        kernels.rank(state, features, rng.random(learner.n_uniforms(shape)), ranking, token)
        kernels.off_policy(state, features, shown, decision.propensities.copy(), token)
        kernels.update(state, features, shown, token, answers.astype(np.float64))
    assert np.corrcoef(state.w, [1.0, -1.0, 0.0, 0.5])[0, 1] > 0.95
