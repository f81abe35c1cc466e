"""Running a learner: `Agent` one round at a time, `play` a loop in Python, `simulate` the same loop compiled.

All three call the same two kernels of the learner and draw the same random numbers: their results are equal bit
for bit. A learner sees its k answers and nothing else.
"""

from peekrank.engine.agent import Agent
from peekrank.engine.border import Seed, generator, problem_shape
from peekrank.engine.loop import LearningStoppedWarning, drive, play, simulate, simulate_all
from peekrank.engine.replay import replay

__all__ = [
    "Agent",
    "LearningStoppedWarning",
    "Seed",
    "drive",
    "generator",
    "play",
    "problem_shape",
    "replay",
    "simulate",
    "simulate_all",
]
