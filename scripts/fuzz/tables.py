"""The kinds of logs and folders of results that peekrank reads: samples, mutants, readers, and uses."""

from __future__ import annotations

import atexit
import json
from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np
import polars as pl

from fuzz.mutations import MOST_BYTES, json_bytes, json_mutant, mutant, pool
from fuzz.target import Target
from peekrank import Agent, Uniform, fixed_items
from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.evaluation.interop import read_dsjson, read_open_bandit, write_dsjson, write_open_bandit
from peekrank.evaluation.log import Log, frame_from_log, read_log, write_log
from peekrank.evaluation.position_bias import estimate_curve
from peekrank.evaluation.simulated_log import simulate_log
from peekrank.experiments import runs as experiment_runs
from peekrank.experiments.experiment import Experiment
from peekrank.monitoring.alarms import Monitor
from peekrank.monitoring.tail import monitor_log
from peekrank.training import runs as training_runs
from peekrank.training.training import Training, prepare_data
from peekrank.types import Rounds

_FOOTER = 400  # bytes before the end of a Parquet file: most of its footer
_CELLS: tuple[Any, ...] = (
    None, True, 0, -1, 2, 2**31, 2**53, 2**63 - 1, -(2**63), 0.5, -1.0, 1e308, float("nan"), float("inf"), "", "a",
    "\0", "=1", "x" * 5000, b"\xff", [], [0], [None], ["a"], [[1.0]], [[]], {"x": 1},
)  # fmt: skip


def log() -> Target:
    """Make the target for decision logs as JSON lines."""
    return _lines(".jsonl", _decisions(), read_log, estimate_curve)


def watched() -> Target:
    """Make the target for logs that are monitored while they grow."""

    def read(path: Path) -> Monitor:
        return monitor_log(path, lambda low, high: Monitor(0.01, grades=(low, high)), lambda _: None, window=2)

    return _lines(".jsonl", _decisions(), read, Monitor.metrics)


def dsjson() -> Target:
    """Make the target for Vowpal Wabbit's decisions."""
    records = [json.loads(line) for line in _written(write_dsjson, "log.dsjson", simulated()).splitlines()]
    records[0] |= {"c": {"_multi": [{"_tag": "a"}, {"id": 7}, {}]}, "EventId": "x"}
    return _lines(".dsjson", records, read_dsjson, frame_from_log)


def open_bandit() -> Target:
    """Make the target for the CSV files of Open Bandit."""
    made = pool(
        [_written(write_open_bandit, "log.csv", simulated())], '"" 0.3333333333333333 item_id, =1 click 1e999'
    )
    return Target(".csv", tuple(made.samples), partial(mutant, pool=made), read_open_bandit, frame_from_log)


def log_parquet() -> Target:
    """Make the target for decision logs as Parquet, with mutated bytes, footers, types and values."""
    samples = tuple(_written(write_log, "log.parquet", simulated(2, features=each)) for each in (False, True))
    return Target(".parquet", samples, partial(table_mutant, samples=samples), read_log, frame_from_log)


def manifest() -> Target:
    """Make the target for manifests of finished experiments and trainings."""
    results = _Results()
    values = [json.loads((folder / "manifest.json").read_bytes()) for folder in results.folders]
    words = '"experiment" "training" "digest": ../x 10000000'

    def mutate(rng: Random) -> bytes:
        value = rng.choice(values)
        if rng.random() < 0.3:
            return mutant(rng, pool([json_bytes(value)], words))
        kind = "training" if "training" in value else "experiment"
        if rng.random() < 0.5:  # a field that determines the results, which is rarely hit otherwise
            name = rng.choice([*value[kind]])
            changed = json_mutant(rng, [value[kind][name]])
            part = changed[0] if isinstance(changed, list) and changed else changed
            return json_bytes({**value, kind: {**value[kind], name: part}})
        return json_bytes(json_mutant(rng, value))

    def read(path: Path) -> Any:
        return results.read(path, lambda folder: folder / "manifest.json")

    return Target(".json", tuple(map(json_bytes, values)), mutate, read, lambda result: result.summaries())


def run_file() -> Target:
    """Make the target for the files of finished runs."""
    results = _Results()
    samples = tuple(_first_run(folder).read_bytes() for folder in results.folders)
    mutate = partial(table_mutant, samples=samples)
    return Target(
        ".parquet", samples, mutate, lambda path: results.read(path, _first_run), lambda result: result.summaries()
    )


def _first_run(folder: Path) -> Path:
    return min((folder / "runs").iterdir())


class _Results:
    """Folders with a finished experiment and a finished training, of which one file at a time is a mutant."""

    def __init__(self) -> None:
        top = mkdtemp(prefix="fuzz-")
        atexit.register(rmtree, top, ignore_errors=True)
        self.folders = [Path(top, name) for name in ("experiment", "training")]
        experiment = Experiment(("uniform",), "ct15:m=4", "dcg", k=1, horizon=20, runs=2)
        experiment_runs.run(experiment, self.folders[0])
        shape = DatasetShape(queries=6, documents=(2, 4), features=2, shares=(0.6, 0.4))
        data = prepare_data(make_dataset(shape, np.random.default_rng(1)))
        training_runs.run_training(Training(("uniform",), rounds=20, runs=2), data, self.folders[1])

    def read(self, path: Path, file_of: Callable[[Path], Path]) -> Any:
        """Read results with a mutant in the place of a file. Errors have to name the folder."""
        content = path.read_bytes()
        training = b"training" in content or b"held_out" in content
        folder = self.folders[training]
        file = file_of(folder)
        before = file.read_bytes()
        file.write_bytes(content)
        try:
            return (training_runs.read_training if training else experiment_runs.read)(folder)
        except ValueError as error:
            if str(folder) not in str(error):
                raise
            raise ValueError(str(error).replace(str(folder), path.name)) from None
        finally:
            file.write_bytes(before)


def _decisions() -> list[Any]:
    """Return the lines of a log, with feedback in lines of its own."""
    records: list[Any] = [{"format": "peekrank-log", "version": 1, "min_feedback": 0.0, "max_feedback": 1.0}]
    for t in range(6):
        shown = {"k": 2, "candidates": ["a", "b", "c"], "position": [t % 3, (t + 1) % 3, (t + 2) % 3]}
        records.append({"event": str(t), "time": 1.5 * t, "propensity": [0.75, 0.75, 0.5], **shown})
        records[-1]["score"] = [None, 0.5, t]
        records.append({"event": str(t), "feedback": {"abc"[-t % 3]: 1, "abc"[(1 - t) % 3]: t % 2}})
    return records


def _lines(suffix: str, records: list[Any], read: Callable[[Path], Any], use: Callable[[Any], object]) -> Target:
    """Make the target for lines of JSON, with mutated bytes, or mutated objects in the lines."""
    made = pool(
        [b"".join(json_bytes(record) + b"\n" for record in records)], '"event" "feedback" null -1 NaN 1e999 []'
    )

    def mutate(rng: Random) -> bytes:
        if rng.random() < 0.5:
            return mutant(rng, made)
        position = rng.randrange(len(records))
        changed = [*records[:position], json_mutant(rng, records[position]), *records[position + 1 :]]
        return b"".join(json_bytes(record) + b"\n" for record in changed)

    return Target(suffix, tuple(made.samples), mutate, read, use)


def simulated(k: int = 1, *, features: bool = False) -> Log:
    """Return a small log."""
    rng = np.random.default_rng(1)
    if features:
        lists = Rounds(
            rng.normal(size=(60, 2)).astype(np.float32), rng.integers(0, 2, 60, np.uint8), np.arange(21) * 3
        )
        return simulate_log(Agent(Uniform(), m=3, k=k, d=2), lists)
    return simulate_log(Agent(Uniform(), m=3, k=k), fixed_items(rng.integers(0, 2, (8, 3))))


def _written(write: Callable[[Path, Log], None], name: str, log: Log) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        write(path, log)
        return path.read_bytes()


def table_mutant(rng: Random, samples: Sequence[bytes]) -> bytes:
    """Mutate the bytes of a Parquet file, its footer, or the types and values of its table."""
    kind = rng.random()
    if kind < 0.3:
        return mutant(rng, pool(samples, "PAR1 \x15"))
    sample = rng.choice(samples)
    if kind < 0.6:
        return _footer_mutant(rng, sample)
    file = BytesIO()
    compression: Any = rng.choice(("zstd", "snappy", "gzip", "lz4", "uncompressed"))
    try:
        _frame_mutant(rng, pl.read_parquet(sample)).write_parquet(file, compression=compression)
    except (pl.exceptions.PolarsError, ArithmeticError, TypeError, ValueError):  # Parquet has no such values
        return sample
    return file.getvalue() if len(file.getvalue()) <= MOST_BYTES else sample


def _footer_mutant(rng: Random, sample: bytes) -> bytes:
    """Change bytes of the footer, where sizes and types are, or of the pages' headers near the begin."""
    changed = bytearray(sample)
    first, last = (len(sample) - _FOOTER, len(sample)) if rng.random() < 0.7 else (4, 200)
    for _ in range(rng.choice((1, 1, 2, 4))):
        changed[rng.randrange(max(first, 0), min(last, len(sample)))] = rng.choice(
            (0, 1, 127, 128, 255, rng.randrange(256))
        )
    return bytes(changed)


def _frame_mutant(rng: Random, frame: pl.DataFrame) -> pl.DataFrame:
    """Drop, rename, retype or repeat columns, or change their values."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice(frame.columns or ["event"])
        change = rng.randrange(7)
        if not frame.columns or change == 0:
            frame = frame.with_columns(
                pl.Series("event" if rng.random() < 0.5 else "x", [rng.choice(_CELLS)] * len(frame), strict=False)
            )
        elif change == 1:
            frame = frame.drop(name)
        elif change == 2 and name + "x" not in frame.columns:
            frame = frame.rename({name: name + "x"})
        elif change == 3:
            frame = frame.with_columns(frame[name].shuffle(rng.randrange(99)))
        elif change == 4:
            frame = (
                pl.concat([frame] * rng.choice((2, 300)))
                if rng.random() < 0.5
                else frame[rng.randrange(len(frame) + 1) :]
            )
        else:
            values = frame[name].to_list()
            if values:
                at = rng.randrange(len(values))
                values[at] = rng.choice(
                    (None, rng.choice(_CELLS), [rng.choice(_CELLS)], values[0], json_mutant(rng, [values[at]]))
                )
            series = pl.Series(name, values, strict=False)
            frame = frame.with_columns(series) if len(series) == len(frame) else frame
    return frame
