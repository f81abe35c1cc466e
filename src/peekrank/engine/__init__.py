"""Run a learner: `Agent` one round at a time, `play` in a Python loop, `simulate` in the same loop compiled.

All three call the learner's two kernels with the same random numbers, so their results agree bit for bit. A
learner sees the feedback about its top k items and nothing else.
"""

from peekrank.engine.agent import Agent
from peekrank.engine.border import Seed, generator, problem_shape
from peekrank.engine.loop import TroubleWarning, drive, play, simulate, simulate_all
from peekrank.engine.replay import replay

__all__ = [
    "Agent",
    "Seed",
    "TroubleWarning",
    "drive",
    "generator",
    "play",
    "problem_shape",
    "replay",
    "simulate",
    "simulate_all",
]
