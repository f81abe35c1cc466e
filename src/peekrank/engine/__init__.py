"""Run a learner: `Agent` one round at a time, `play` in a Python loop, `simulate` in the same loop compiled.

All three call the learner's two kernels with the same random numbers, so their results agree bit for bit. A
learner sees the feedback about its top k items and nothing else.
"""

from peekrank.engine.agent import Agent
from peekrank.engine.replay import replay
from peekrank.engine.rules import AtMost, Rules
from peekrank.engine.simulation import LearningStoppedWarning, play, run_agents, simulate, simulate_all
from peekrank.engine.validation import Seed, make_rng, problem_shape

__all__ = [
    "Agent",
    "AtMost",
    "LearningStoppedWarning",
    "Rules",
    "Seed",
    "make_rng",
    "play",
    "problem_shape",
    "replay",
    "run_agents",
    "simulate",
    "simulate_all",
]
