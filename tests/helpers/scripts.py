"""Loading the scripts of experiments/, scripts/ and benchmarks/, which are no packages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def load_experiment(name: str) -> Any:
    """The module of a script of experiments/."""
    return _load("experiments", name)


def load_script(name: str) -> Any:
    """The module of a script of scripts/."""
    return _load("scripts", name)


def load_benchmark(name: str) -> Any:
    """The module of a script of benchmarks/."""
    return _load("benchmarks", name)


def _load(folder: str, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"{folder}_{name}", ROOT / folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module
