"""Learn a whole ranking from a peek at its top: online ranking with top-k feedback.

Names are loaded when they are first used: importing the package costs nothing and compiles nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peekrank._jit import kernel
    from peekrank.advice import advise, advise_surrogate
    from peekrank.engine import Agent, play, simulate
    from peekrank.games.analysis import analyse
    from peekrank.games.certificate import certificate
    from peekrank.games.game import Game
    from peekrank.games.ranking import ranking_game
    from peekrank.games.theorems import rate_of
    from peekrank.learners import FTPL, NW2, BlockFTRL, FeedExp3, PermFTRL, RTop1F, SetFTRL, Uniform, learner
    from peekrank.measures import (
        AUC,
        DCG,
        NDCG,
        AveragePrecision,
        PairwiseLoss,
        Precision,
        SumLoss,
        evaluate,
        measure,
    )
    from peekrank.streams import CT15, fixed_items, stream
    from peekrank.types import Decision, Rounds, Shape, Trace

_HOMES = {
    "_jit": ("kernel",),
    "advice": ("advise", "advise_surrogate"),
    "engine": ("Agent", "play", "simulate"),
    "games.analysis": ("analyse",),
    "games.game": ("Game",),
    "games.ranking": ("ranking_game",),
    "games.theorems": ("rate_of",),
    "games.certificate": ("certificate",),
    "learners": ("FTPL", "NW2", "BlockFTRL", "FeedExp3", "PermFTRL", "RTop1F", "SetFTRL", "Uniform", "learner"),
    "measures": (
        "AUC", "DCG", "NDCG", "AveragePrecision", "PairwiseLoss", "Precision", "SumLoss", "evaluate", "measure",
    ),
    "streams": ("CT15", "fixed_items", "stream"),
    "types": ("Decision", "Rounds", "Shape", "Trace"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AUC",
    "CT15",
    "DCG",
    "FTPL",
    "NDCG",
    "NW2",
    "Agent",
    "AveragePrecision",
    "BlockFTRL",
    "Decision",
    "FeedExp3",
    "Game",
    "PairwiseLoss",
    "PermFTRL",
    "Precision",
    "RTop1F",
    "Rounds",
    "SetFTRL",
    "Shape",
    "SumLoss",
    "Trace",
    "Uniform",
    "advise",
    "advise_surrogate",
    "analyse",
    "certificate",
    "evaluate",
    "fixed_items",
    "kernel",
    "learner",
    "measure",
    "play",
    "ranking_game",
    "rate_of",
    "simulate",
    "stream",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'peekrank' has no attribute '{name}'")
    return getattr(importlib.import_module(f"peekrank.{_HOME_OF[name]}"), name)
