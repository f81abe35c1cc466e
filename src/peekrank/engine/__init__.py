"""Running a learner: `Agent` one round at a time, `play` a loop in Python, `simulate` the same loop compiled.

All three call the same two kernels of the learner and draw the same random numbers: their results are equal bit
for bit. A learner sees its k answers and nothing else.
"""

from peekrank.engine.agent import Agent
from peekrank.engine.replay import replay
from peekrank.engine.simulation import LearningStoppedWarning, play, run_agents, simulate, simulate_all
from peekrank.engine.validation import Seed, make_rng, problem_shape

__all__ = [
    "Agent",
    "LearningStoppedWarning",
    "Seed",
    "make_rng",
    "play",
    "problem_shape",
    "replay",
    "run_agents",
    "simulate",
    "simulate_all",
]
