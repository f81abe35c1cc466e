"""Fuzz every kind of file that peekrank reads.

PYTHONPATH=scripts:tests python -m fuzz --help

Whatever a file holds, its reader must return, or raise a ValueError that says in one line which file is wrong and
why. Each mutant that is answered otherwise, or ends, blocks or bloats the process, is kept in a folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from tempfile import TemporaryDirectory

from fuzz.batch import State, make_mutant, make_target
from fuzz.targets import TARGETS

_BATCH = 20_000  # mutants tried by one process
_MOST_FINDINGS = 20  # kinds of faults after which a target is given up


@dataclass
class Report:
    """The result of a target."""

    mutants: int = 0
    read: int = 0
    refused: int = 0
    seconds: float = 0.0
    findings: dict[str, Path] = field(default_factory=dict)


def fuzz(name: str, given: Namespace, seconds: float) -> Report:
    """Try the mutants of a target in consecutive processes until they are done or the time is over."""
    report, target, start = Report(), make_target(name), time.monotonic()
    mutants, seed, out = given.mutants or sys.maxsize, given.seed, given.out
    while report.mutants < mutants and len(report.findings) < _MOST_FINDINGS:
        left = seconds - (time.monotonic() - start)
        if left <= 0:
            break
        first, last = report.mutants, min(report.mutants + _BATCH, mutants)
        with TemporaryDirectory() as folder:
            words = [name, seed, first, last, left, given.patience, folder]
            command = [sys.executable, "-m", "fuzz.batch", *map(str, words)]
            quiet = {**os.environ, "RUST_BACKTRACE": "0"}  # polars prints one for every panic
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=quiet)  # noqa: S603
            if done.returncode > 0:
                raise SystemExit(f"{name}: the process of mutants {first} to {last} ended with {done.returncode}")
            state = State.load(Path(folder))
        found = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode < 0:
            found.append([state.at, f"the process was ended by {Signals(-done.returncode).name}"])
        for number, text in found:
            what = text.partition("\n")[0]  # one mutant for each kind of fault is enough
            if what not in report.findings:
                sys.stdout.write(f"  mutant {number} of {name}: {' '.join(text.splitlines())}\n")
                report.findings[what] = out / f"{name}-{seed}-{number}{target.suffix}"
                out.mkdir(parents=True, exist_ok=True)
                report.findings[what].write_bytes(make_mutant(target, name, seed, number))
        report.mutants = state.at + (done.returncode < 0)
        report.read += state.read
        report.refused += state.refused
    report.seconds = time.monotonic() - start
    return report


def main() -> int:
    """Fuzz the selected targets and print the results. Returns 1 if there are findings."""
    parser = ArgumentParser(prog="fuzz", description="Try mutants of files that peekrank reads.")
    parser.add_argument("--target", choices=[*TARGETS, "broken"], help="one kind of file; by default all")
    parser.add_argument("--mutants", type=int, help="how many of each kind")
    parser.add_argument("--seconds", type=float, help="how long in all; by default 60 if no number is given")
    parser.add_argument("--patience", type=float, default=10, help="seconds of processor time for one mutant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, default=Path("fuzz-findings"), help="folder for mutants that are answered wrongly"
    )
    given = parser.parse_args()
    names = [given.target] if given.target else list(TARGETS)
    seconds = given.seconds or (float("inf") if given.mutants else 60)
    found = 0
    for name in names:
        report = fuzz(name, given, seconds / len(names))
        sys.stdout.write(
            f"{name:10} {report.mutants:>9,} mutants, {report.read:>9,} read, {report.refused:>9,} refused, "
            f"{len(report.findings)} findings, {report.seconds:,.0f} s\n"
        )
        for what, path in report.findings.items():
            sys.stdout.write(f"  kept as {path}: {what}\n")
        sys.stdout.flush()
        found += len(report.findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
