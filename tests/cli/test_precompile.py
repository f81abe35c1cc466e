"""``peekrank precompile``: what it has compiled, no later process compiles."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.command_line import refused
from peekrank.cli.precompile import _all_learners, _problem
from peekrank.learners import learner
from peekrank.registry import LEARNERS
from peekrank.surrogates import RankSVM

COUNTED = """
import numpy as np
from numba.core import event
compiled = event.RecordingListener()
event.register("numba:compile", compiled)

from peekrank import CT15, DCG, NDCG, Agent, Uniform, kernel, simulate
from peekrank.regret import best_values
agent = Agent(Uniform(), m=7, k=2)
agent.update(agent.rank(), [1, 0])
rounds = CT15(m=7).rounds(30, np.random.default_rng(0))
for measure in (DCG(), NDCG(3)):
    trace = simulate(Uniform(), rounds, k=2, measure=measure)
    best_values(measure, rounds, trace.checkpoints)
found = len(compiled.buffer)
kernel(lambda x: x)(1)
print(found, len(compiled.buffer) > 0)
"""


def python(*arguments: str, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "COLUMNS": "200"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_after_it_nothing_is_compiled(tmp_path: Path) -> None:
    said = python("-m", "peekrank", "precompile", "uniform", cache=tmp_path)
    assert said.returncode == 0, said.stderr
    kernels = list((tmp_path / "kernels").glob("*.kernel"))
    assert said.stdout.splitlines()[0].startswith("uniform: ")
    assert said.stdout.splitlines()[-1].startswith(f"{len(kernels)} kernels, ")
    assert said.stdout.rstrip().endswith(f"in {tmp_path / 'kernels'}")
    assert python("-c", COUNTED, cache=tmp_path).stdout == "0 True\n"


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = python("-m", "peekrank", "precompile", "uniform", cache=tmp_path / "file")
    assert said.returncode == 2
    assert f"{tmp_path / 'file' / 'kernels'} cannot be written" in said.stderr


def test_every_learner_is_named_and_has_a_problem_that_it_takes() -> None:
    named = list(_all_learners())
    assert {text.partition(":")[0] for text in named} == set(LEARNERS)
    assert "rtopkf:surrogate=ranksvm" in named
    assert learner("rtopkf:surrogate=ranksvm").surrogate == RankSVM()  # type: ignore[attr-defined]
    for text in named:
        assert _problem(text)[0].name == text.partition(":")[0]


def test_unknown_learners_are_refused() -> None:
    assert "unknown learner 'blockftr'" in refused("precompile", "blockftr")
