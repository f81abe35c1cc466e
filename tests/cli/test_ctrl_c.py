"""Ctrl-C while the command line starts: code 130, a word, and no traceback, whatever is being imported."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

POLARS = "polars._plr" if find_spec("polars._plr") else "polars.polars"  # as it was called before 1.34
# A process that gets Ctrl-C at the moment that it first imports a module: a clock would be late or early.
INTERRUPTED = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

from peekrank.cli import main
sys.meta_path.insert(0, CtrlC())
sys.argv[1:] = ["simulate", "uniform", "--horizon", "10", "--runs", "1", "--out", {folder!r}]
main()
"""


def interrupted(module: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = INTERRUPTED.format(module=module, folder=str(folder))
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("module", ["typer", "pydantic", "peekrank.cli.simulate", "numpy", POLARS, "llvmlite"])
def test_ctrl_c_within_an_import(module: str, tmp_path: Path) -> None:
    done = interrupted(module, tmp_path / "out")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, "stopped")
    assert "Traceback" not in done.stderr
    assert "panicked" not in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("ctrl_c")
def test_begun_with_ctrl_c_ignored_it_goes_on(tmp_path: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    done = interrupted("numpy", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").exists()
