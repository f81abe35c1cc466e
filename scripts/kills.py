"""Kill commands at random moments, restart them, and compare their results with an undisturbed run.

    python scripts/kills.py                           # 200 kills of simulate, learn, sweep and rates
    python scripts/kills.py --kills 20 --only sweep

Each folder is hit up to eight times by SIGKILL, which nobody can catch, at moments from just before the
undisturbed run wrote its manifest until it ended; then the same command is left to end. All files but timings.csv
must be the same, byte for byte, and there must be no others. The script reports what differs, keeps its folder,
and exits with code 1.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.data.peek import save_dataset
from peekrank.jobs.results_dir import count_finished

MOST_KILLS = 8  # of a folder
EARLY = 0.9  # of the time until the manifest is written, from which on kills are drawn
SWEEP = """\
name = "kills"
learners = ["rtop1f", "blockftrl"]
streams = "ct15"
measures = "dcg"
k = 1
horizons = 100000
runs = 24
"""
COMMANDS = {
    "simulate": "rtop1f blockftrl uniform --horizon 200000 --runs 8",
    "learn": "data.peek rtopkf rtopkf:surrogate=kl --rounds 100000 --runs 8 --scaling online",
    "sweep": "kills.toml",
    "rates": "p@2+sum setftrl rtop1f --m 4 --k 1 --horizons 8000,16000 --runs 4",
}


class Moments(NamedTuple):
    """Seconds until a command wrote its manifest, and until it ended."""

    claimed: float
    ended: float


class Found(NamedTuple):
    """The result for a folder: when its command was killed, and which files differ from the undisturbed run."""

    kills: Counter[str]
    differ: list[str]


def contents(folder: Path) -> dict[str, bytes]:
    """Read all files of a folder, except the timings."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "timings.csv")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def run(command: Sequence[str], folder: Path) -> Moments:
    """Run a command that writes to a folder. Raises RuntimeError with its output if it fails."""
    began, claimed = time.monotonic(), None
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, cwd=folder.parent, stdout=said, stderr=said) as process,  # noqa: S603
    ):
        while process.poll() is None:
            if claimed is None and (folder / "manifest.json").exists():
                claimed = time.monotonic() - began
            time.sleep(0.01)
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{' '.join(command)} ended with code {process.returncode}: {said.read()}")
    return Moments(claimed or 0.0, time.monotonic() - began)


def killed(command: Sequence[str], where: Path, after: float) -> bool:
    """Kill a command after some seconds. Return whether it was still running."""
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=where, stdout=nowhere, stderr=nowhere) as process:  # noqa: S603
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait() < 0
    return False


def stage(folder: Path, whole: Path) -> str:
    """Describe the progress of a folder compared with the complete one."""
    there, parts = count_finished(folder), count_finished(whole)
    if there < parts:
        return "between parts" if there else "before the first part"
    return "at the tables" if len(contents(folder)) < len(contents(whole)) else "when all was written once"


def try_folder(
    command: Sequence[str], folder: Path, whole: Path, moments: Moments, kills: int, luck: random.Random
) -> Found:
    """Kill a command several times, then let it finish, and compare its folder with the complete one."""
    hits = Counter[str]()
    for _ in range(kills):
        if killed(command, folder.parent, luck.uniform(EARLY * moments.claimed, moments.ended)):
            hits[stage(folder, whole)] += 1
    run(command, folder)
    expected, found = contents(whole), contents(folder)
    return Found(hits, sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name)))


def try_command(name: str, kills: int, luck: random.Random) -> int:
    """Kill a command this many times, in separate folders, and print how many files differ."""
    where = Path(tempfile.mkdtemp(prefix=f"kills-{name}-"))
    layout = DatasetShape(queries=300, documents=(5, 15), features=10, shares=(0.6, 0.3, 0.1))
    save_dataset(make_dataset(layout, np.random.default_rng(1)), where / "data.peek")
    (where / "kills.toml").write_text(SWEEP)
    command = [sys.executable, "-m", "peekrank", name, *COMMANDS[name].split(), "--out"]
    run([*command, "warm"], where / "warm")  # compiles
    whole = where / "whole"
    moments = run([*command, "whole"], whole)
    hits, folders, differ = Counter[str](), 0, []
    while hits.total() < kills:
        folder = where / f"folder-{folders}"
        most = min(MOST_KILLS, kills - hits.total())
        found = try_folder([*command, folder.name], folder, whole, moments, most, luck)
        hits += found.kills
        folders += 1
        differ += [str(folder / file) for file in found.differ]
        if not found.differ:
            shutil.rmtree(folder)
    when = ", ".join(f"{count} {moment}" for moment, count in hits.most_common())
    sys.stdout.write(
        f"| `{name}` | {hits.total()} | {when} | {folders} | {len(contents(whole))} | {len(differ)} |\n"
    )
    sys.stdout.flush()
    for file in differ:
        sys.stderr.write(f"{file} is not as in {whole}\n")
    if not differ:
        shutil.rmtree(where)
    return len(differ)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all commands, and print a table."""
    parser = argparse.ArgumentParser(description="Kill commands at random moments, and compare what they come to.")
    parser.add_argument("--kills", type=int, default=200, help="in all")
    parser.add_argument("--only", choices=list(COMMANDS), help="one command")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    names = [options.only] if options.only else list(COMMANDS)
    luck = random.Random(options.seed)  # noqa: S311 - nothing is secret
    sys.stdout.write("| command | kills | when | folders | files each | different |\n|---|---|---|---|---|---|\n")
    differ = [try_command(name, (options.kills + n) // len(names), luck) for n, name in enumerate(names)]
    return int(any(differ))


if __name__ == "__main__":
    sys.exit(main())
