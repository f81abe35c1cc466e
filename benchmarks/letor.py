"""Measure reading LETOR text, compared with other installed loaders.

Every loader reads the same 200 MB file (136 features, six decimals) with one thread, in turns, after a small file
that pays for compiling and importing. The best of the repetitions counts, and ratios are of processor time, since
machines are shared. xgboost is not among the requirements; without it, its line is missing.

    python benchmarks/letor.py
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from peekrank.data.dataset import describe
from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.data.letor import read_letor
from peekrank.data.peek import open_dataset, save_dataset
from peekrank.data.scaling import fit_standardisation, scale_within_queries, standardise

SIZE = 200e6
REPETITIONS = 3
BLOCK = DatasetShape(10, (120, 120), 136, (0.52, 0.32, 0.13, 0.02, 0.01))
REOPEN_LIMIT, SKLEARN_RATIO = 0.1, 15


def write_text(path: Path, size: float) -> None:
    """Write ten queries repeatedly, each time with other numbers."""
    data = make_dataset(BLOCK, np.random.default_rng(0))
    rows = [" ".join(f"{i}:{x:.6f}" for i, x in enumerate(row, 1)) for row in data.features.tolist()]
    lines = [
        f"{grade} qid:@{n // 120} {row}\n" for n, (grade, row) in enumerate(zip(data.relevance, rows, strict=True))
    ]
    block = "".join(lines)
    with path.open("w") as file:
        for number in range(1, max(2, round(size / len(block)))):
            file.write(block.replace("@", str(number)))


def with_sklearn(path: Path) -> object:
    from sklearn.datasets import load_svmlight_file

    return load_svmlight_file(str(path), query_id=True, dtype=np.float32)


def with_xgboost(path: Path) -> object:
    xgboost = import_module("xgboost")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xgboost.DMatrix(f"{path}?format=libsvm", nthread=1)


def seconds(action: Callable[[], object]) -> tuple[float, float]:
    """Return wall-clock time and CPU time."""
    begun, used = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - begun, time.process_time() - used


def best(action: Callable[[], object], repetitions: int = REPETITIONS) -> tuple[float, float]:
    clock, processor = zip(*(seconds(action) for _ in range(repetitions)), strict=True)
    return min(clock), min(processor)


def main() -> None:
    loaders: dict[str, Callable[[Path], object]] = {"peekrank": read_letor, "scikit-learn": with_sklearn}
    if find_spec("xgboost"):
        loaders["xgboost"] = with_xgboost
    with tempfile.TemporaryDirectory() as folder:
        path, small, compact = (Path(folder, name) for name in ("big.txt", "small.txt", "big.peek"))
        write_text(small, 1e5)
        write_text(path, SIZE)
        size = path.stat().st_size / 1e6
        for load in loaders.values():
            load(small)
        runs = [{name: seconds(partial(load, path)) for name, load in loaders.items()} for _ in range(REPETITIONS)]
        figures = {name: tuple(np.min([run[name] for run in runs], axis=0)) for name in loaders}
        table = Table("reading text", "seconds", "processor", "MB/s", "peekrank is", title=f"{size:.0f} MB")
        for name, (clock, processor) in figures.items():
            ratio = processor / figures["peekrank"][1]
            slow = (name == "scikit-learn" and ratio < SKLEARN_RATIO) or (name == "xgboost" and ratio < 1)
            row = (name, f"{clock:.2f}", f"{processor:.2f}", f"{size / processor:.0f}", f"{ratio:.1f} x")
            table.add_row(*row, style="red" if slow else "")
        Console().print(table)

        data = read_letor(path)
        scaled = Table("then", "seconds", "processor", title=f"{data.features.nbytes / 1e6:.0f} MB of features")
        steps: dict[str, Callable[[], object]] = {
            "save": lambda: save_dataset(data, compact),
            "reopen": lambda: open_dataset(compact),
            "describe": lambda: describe(data),
            "scale within queries": lambda: scale_within_queries(data),
            "fit and standardise": lambda: standardise(data, fit_standardisation(data)),
        }
        for name, step in steps.items():
            clock, processor = best(step)
            late = name == "reopen" and clock > REOPEN_LIMIT
            scaled.add_row(name, f"{clock:.4f}", f"{processor:.4f}", style="red" if late else "")
        Console().print(scaled)
    clock, processor = best(lambda: make_dataset("yahoo", np.random.default_rng(0)), 2)
    print(f"generate the shape of Yahoo LTRC set 1 (1.3 GB): {clock:.1f} s, processor {processor:.1f} s")


if __name__ == "__main__":
    main()
