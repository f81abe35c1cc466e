"""Online ranking with top-k feedback: learn a whole ranking from feedback on its top k items.

Names are imported when they are first used, so that importing the package is quick and compiles nothing. The names
below and the built-in classes of `peekrank.registry` are public. Editors and type checkers find them in
``__init__.pyi``, which ``make stub`` writes.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"

_HOMES = {
    "_jit": ("kernel",),
    "advice": ("advise", "advise_surrogate"),
    "checks": ("CheckError", "CheckWarning", "check_learner", "check_measure", "check_stream", "check_surrogate"),
    "engine": ("Agent", "AtMost", "Rules", "play", "replay", "simulate"),
    "evaluation.comparison.comparison": ("Comparison",),
    "experiments.experiment": ("Experiment",),
    "experiments.runs": ("run",),
    "games.analysis": ("analyse",),
    "games.best_factor": ("best_factor",),
    "games.ceilings": ("factor_ceiling",),
    "games.certificate": ("certificate",),
    "games.game": ("Game",),
    "games.lower_bounds": ("lower_bound",),
    "games.ranking": ("ranking_game",),
    "games.minimax": ("rate_of",),
    "learners": ("learner",),
    "learners.defaults": ("LearnerDefaults",),
    "measures": ("evaluate", "measure"),
    "experiments.sweep": ("Sweep",),
    "experiments.sweep_runs": ("run_sweep",),
    "registry": ("register",),
    "regret": ("best_values",),
    "reports.compare": ("LearnerComparison", "compare"),
    "streams": ("available_items", "fixed_items", "stream"),
    "surrogates": ("surrogate",),
    "types": ("Decision", "Rounds", "Shape", "Trace"),
}


def _addresses() -> dict[str, str]:
    """Return the module of each public name."""
    from peekrank.registry import KINDS

    addresses = {name: f"peekrank.{home}" for home, names in _HOMES.items() for name in names}
    classes = (address.split(":") for kind in KINDS for address in kind.built_in.values())
    return addresses | {name: module for module, name in classes}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        value: Any = ["__version__", *sorted(_addresses())]
    elif name.startswith("_") or name not in (homes := _addresses()):
        raise AttributeError(f"module 'peekrank' has no attribute '{name}'", name=name)
    else:
        value = getattr(importlib.import_module(homes[name]), name)
    globals()[name] = value  # the next access does not call this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
