"""Learn a whole ranking from a peek at its top: online ranking with top-k feedback.

Names are loaded when they are first used: importing the package costs nothing and compiles nothing. Public are the
names below and the built-in classes of `peekrank.registry`. Editors and type checkers find them in
``__init__.pyi``, which ``make stub`` writes.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"

_HOMES = {
    "_jit": ("kernel",),
    "advice": ("advise", "advise_surrogate"),
    "checks": ("CheckError", "check_learner", "check_measure", "check_stream", "check_surrogate"),
    "engine": ("Agent", "play", "replay", "simulate"),
    "experiments.experiment": ("Experiment",),
    "experiments.runs": ("run",),
    "games.analysis": ("analyse",),
    "games.certificate": ("certificate",),
    "games.game": ("Game",),
    "games.ranking": ("ranking_game",),
    "games.minimax": ("rate_of",),
    "learners": ("learner",),
    "measures": ("evaluate", "measure"),
    "registry": ("register",),
    "streams": ("available_items", "fixed_items", "stream"),
    "surrogates": ("surrogate",),
    "types": ("Decision", "Rounds", "Shape", "Trace"),
}


def _addresses() -> dict[str, str]:
    """The module of each public name."""
    from peekrank.registry import KINDS

    named = {name: f"peekrank.{home}" for home, names in _HOMES.items() for name in names}
    registered = (address.split(":") for kind in KINDS for address in kind.built_in.values())
    return named | {name: module for module, name in registered}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        found: Any = ["__version__", *sorted(_addresses())]
    elif name.startswith("_") or name not in (homes := _addresses()):
        raise AttributeError(f"module 'peekrank' has no attribute '{name}'", name=name)
    else:
        found = getattr(importlib.import_module(homes[name]), name)
    globals()[name] = found  # so that it is asked for once
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
