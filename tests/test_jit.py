"""The cache notices edits in helpers of other files; results are the same without the compiler, and in bounds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import peekrank
from peekrank._jit import fingerprint

PACKAGE = Path(peekrank.__file__).parent

SORT = """
import numpy as np
from peekrank.learners._shared import perturbed_leader
from peekrank.kernels.sorting import sort_space
ranking = np.empty(3, np.int64)
perturbed_leader(np.array([1.0, 3.0, 2.0]), 0.0, np.zeros(3), np.zeros(3), ranking, sort_space(3))
print(*ranking)
"""

TRACE = """
import numpy as np
from peekrank import CT15, DCG, FTPL, RTop1F, Uniform, simulate
for m in (1 + 1, 10, 33):
    rounds = CT15(m=m).rounds(60, np.random.default_rng(1))
    for learner in (Uniform(), FTPL(DCG(), horizon=60), RTop1F(DCG(), horizon=60)):
        trace = simulate(learner, rounds, k=2, measure=DCG(), seed=4)
        print(trace.value[-1].hex(), trace.explored[-1])
"""


def run(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_edit_in_a_helper_of_another_file_is_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "peekrank"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    where = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run(SORT, **where) == "1 2 0\n"
    assert list((tmp_path / "cache").rglob("*perturbed_leader*.nbi")), "the caller is not cached at all"
    helper = copy / "kernels" / "sorting.py"
    helper.write_text(helper.read_text().replace("int(scores[j] < score)", "int(scores[j] > score)"))
    assert run(SORT, **where) == "0 2 1\n"


def test_fingerprint_sees_content_and_names(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    first = fingerprint(tmp_path)
    (tmp_path / "a.py").write_text("x = 2")
    second = fingerprint(tmp_path)
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({first, second, fingerprint(tmp_path)}) == 3


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert run(SORT, NUMBA_CACHE_DIR=str(blocked)) == "1 2 0\n"


@pytest.mark.parametrize("setting", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_same_bits_without_the_compiler_and_within_bounds(setting: str, tmp_path: Path) -> None:
    assert run(TRACE, **{setting: "1"}, NUMBA_CACHE_DIR=str(tmp_path)) == run(TRACE)


def test_import_compiles_nothing_and_loads_no_compiler() -> None:
    loaded = run("import sys, peekrank; print('numba' in sys.modules, 'matplotlib' in sys.modules)")
    assert loaded == "False False\n"


def test_unknown_name_of_the_package() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Ranker'"):
        _ = peekrank.Ranker


def test_every_public_name_is_there() -> None:
    assert all(getattr(peekrank, name) is not None for name in peekrank.__all__)
