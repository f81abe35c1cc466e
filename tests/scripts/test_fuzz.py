"""Readers hold against a few hundred mutants of each kind of file; the fuzzer finds the faults of a broken one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.agents import SAVED
from fuzz.batch import make_mutant, verdict
from fuzz.targets import TARGETS

from helpers.scripts import ROOT
from peekrank.registry import LEARNERS

MUTANTS = 300


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_a_file_holds_it_is_read_or_refused(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]()
    verdicts = {"read": 0, "refused": 0}
    for number in range(MUTANTS):
        path = tmp_path / f"{number}{target.suffix}"
        path.write_bytes(make_mutant(target, name, 1, number))
        found = verdict(target, path)
        assert found in verdicts, f"{path}: {found}"
        verdicts[found] += 1
    assert min(verdicts.values()) > MUTANTS // 50  # mutants are neither all nonsense nor all the same


def test_agents_of_every_learner_are_tried() -> None:
    assert {text.partition(":")[0] for text, *_ in SAVED} == set(LEARNERS.built_in)


def test_the_same_seed_makes_the_same_mutants() -> None:
    for name, make in TARGETS.items():
        one, two = make(), make()
        assert [make_mutant(one, name, 3, n) for n in range(20)] == [
            make_mutant(two, name, 3, n) for n in range(20)
        ]


def test_every_fault_of_a_broken_reader_is_found_and_kept(tmp_path: Path) -> None:
    path = os.pathsep.join([str(ROOT / "scripts"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    words = ["--target", "broken", "--mutants", "8", "--seed", "634", "--patience", "1", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    kept = {file.read_text() for file in tmp_path.iterdir()}
    assert kept == {"1", "2", "3", "4", "5", "6"}
    for fault in ("KeyError", "does not name the file", "MemoryError", "SIGSEGV", "SIGPROF"):
        assert fault in done.stdout
