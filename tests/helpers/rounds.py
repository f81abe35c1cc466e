"""The next round of an agent, to be ranked many times from the same state."""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from peekrank import Agent
from peekrank._jit import compile_for, pinned
from peekrank.engine.serialization import arrays_of
from peekrank.types import Features, Floats, Ints


class NextRound:
    """Calls the kernels of a learner that knows its propensities, on a copy of the agent's state.

    Kernels get the state by its address, as in an agent: code that takes a large one apart is slow to compile.
    """

    def __init__(self, agent: Agent, X: Features) -> None:
        learner, shape, self.state = agent.learner, agent.shape, deepcopy(agent.state)
        self.arrays = dict(arrays_of(self.state))
        for array in self.arrays.values():
            array.flags.writeable = True
        self.before = {name: self.arrays[name].copy() for name in learner.persistent}
        self.draws, self.token = learner.n_uniforms(shape), np.zeros(learner.token_size(shape))
        ranking, told = np.empty(len(X), np.int64), np.empty(len(X))
        self._arguments, self._address, self._told = (ranking, self.token), pinned(self.state), told
        self._X, kernels = X, learner.kernels
        assert kernels.propensities is not None
        self._rank = compile_for(kernels.rank, self._address, X, np.empty(self.draws), *self._arguments)
        self._propensities = compile_for(kernels.propensities, self._address, X, *self._arguments, told)

    def rank(self, uniforms: Floats) -> Ints:
        for name, array in self.before.items():
            self.arrays[name][...] = array
        self.token[:] = 0
        self._rank(self._address, self._X, uniforms, *self._arguments)
        return self._arguments[0]

    def propensities(self) -> Floats:
        """Of the latest ranking."""
        self._propensities(self._address, self._X, *self._arguments, self._told)
        return self._told
