"""A forked process says what it cannot use, instead of hanging."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, and names of threads")

BEGIN = """
import os, sys, warnings
warnings.simplefilter("ignore")  # Python 3.12 warns of forks with threads
from peekrank import DCG, Agent, DoubtSort

def child(do):
    if (process := os.fork()) == 0:
        try:
            do()
            print("fine", flush=True)
        except RuntimeError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(process, 0)

agent = Agent(DoubtSort(DCG()), m=3, k=1)
agent.rank()
"""


def said(script: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + script], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.splitlines()


def test_an_agent_that_no_thread_uses_can_be_copied_by_a_fork() -> None:
    assert said("child(agent.rank)") == ["fine"]


def test_an_agent_that_a_thread_uses_cannot() -> None:
    lines = said(
        """
with agent._lock:  # as a thread within a kernel
    child(agent.rank)
    child(lambda: child(agent.rank))
agent.rank()
print("here")
"""
    )
    assert len(lines) == 4
    assert all("a thread was using this agent when the process was forked" in line for line in lines[:2])
    assert lines[2:] == ["fine", "here"]


def test_polars_cannot_be_used_after_it_was_used_before() -> None:
    script = """
from peekrank.evaluation.log import frame_from_log, log_from_records
log = log_from_records([{"event": "1", "k": 1, "candidates": ["a", "b"], "position": [1, 0]}])
import polars as pl
frame = pl.DataFrame({"a": range(10_000), "b": range(10_000)}).sort("b").group_by("a").len()
child(lambda: frame_from_log(log))
frame_from_log(log)
print("here")
"""
    first, last = said(script)
    assert first.startswith("polars was used before this process was forked, and would hang here: start processes")
    assert last == "here"
