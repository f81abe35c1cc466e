"""Mutants of saved comparisons, unfinished evaluations, tables of a training, and rerank calls."""

from __future__ import annotations

import atexit
import hashlib
import json
from io import BytesIO
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import polars as pl

from fuzz.agents import change_numbers
from fuzz.mutations import Pool, json_bytes, json_mutant, mutant, pool
from fuzz.tables import simulated, table_mutant
from fuzz.target import Target
from helpers.asgi import Caller
from helpers.reranking import PLAIN, app_of, reranking
from peekrank import DCG
from peekrank.data.dataset import Dataset, check_finite
from peekrank.evaluation.comparison.comparison import Comparison
from peekrank.evaluation.evaluation import Fold, Options, evaluate_source
from peekrank.evaluation.log import write_log
from peekrank.evaluation.policies import Ranker, ranker
from peekrank.evaluation.saved_fold import SavedFold
from peekrank.evaluation.sources import open_source
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.core.service import Service
from peekrank.training.table_files import TableOptions, read_table

_COMPARISON = b"PEEKRANK-COMPARISON "
_FOLD = b"peekrank-evaluation 1 "


def comparison() -> Target:
    """Make the target for saved comparisons with valid checksums."""
    blobs = tuple(_compared(mode, outside, curve).dump() for mode, outside, curve in _MODES)
    contents = [json.loads(blob.partition(b"\n")[2]) for blob in blobs]

    def mutate(rng: Random) -> bytes:
        content = json_mutant(rng, rng.choice(contents))
        if isinstance(content, dict) and rng.random() < 0.3 and isinstance(content.get("evidence"), dict):
            content["evidence"] = json_mutant(rng, content["evidence"])
        text = json_bytes(content)
        blob = _COMPARISON + hashlib.sha256(text).hexdigest().encode() + b"\n" + text
        return mutant(rng, pool([blob])) if rng.random() < 0.05 else blob

    def read(path: Path) -> Comparison:
        try:
            return Comparison.load(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path.name}: {error}") from None

    return Target(".comparison", blobs, mutate, read, _use_comparison)


_MODES: tuple[tuple[Any, float, tuple[float, ...]], ...] = (
    ("union", 0.0, ()), ("union", 0.5, ()), ("coin", 0.0, ()), ("union", 0.0, (1.0, 0.5)),
)  # fmt: skip


def _compared(mode: Any, outside: float, curve: tuple[float, ...]) -> Comparison:
    made = Comparison(DCG(2), k=2, mode=mode, outside=outside, examination=curve)
    _play(made, 12, np.random.default_rng(1))
    return made


def _play(made: Comparison, rounds: int, rng: np.random.Generator) -> None:
    for _ in range(rounds):
        shown = made.rank([0, 1, 2, "x"], [2, 0, "x", 1])
        if rng.random() < 0.8:
            made.update(shown.event, rng.integers(0, 2, min(made.settings.k, 4)))


def _use_comparison(made: Comparison) -> None:
    str(made.verdict()), str(made.forecast()) if made.shown else None, repr(made)
    _play(made, 4, np.random.default_rng(2))
    assert Comparison.load(made.dump()).dump() == made.dump()


def fold() -> Target:
    """Make the target for evaluations that were interrupted, with valid checksums."""
    top, log, texts = Path(mkdtemp(prefix="fuzz-")), simulated(2), ("logged",)
    atexit.register(rmtree, top, ignore_errors=True)
    write_log(top / "log.parquet", log)
    source = open_source(top / "log.parquet")

    def made() -> tuple[Fold, list[Ranker]]:
        rankers = [ranker(text, source.scope, measure=DCG()) for text in texts]
        return Fold(list(texts), DCG(), source.scope, Options(), np.array([10])), rankers

    begun, rankers = made()
    half = log.select(np.arange(len(log.k)) < 10)
    begun.add(half, [one.ranks(half) for one in rankers])
    SavedFold(top / "sample", source, {}, pause=0.0).save(begun, rankers)
    sample = (top / "sample").read_bytes()
    about = json.loads(sample.partition(b"\n")[2].partition(b"\n")[0])
    arrays = begun.state()

    def mutate(rng: Random) -> bytes:
        changed = {name: part.copy() for name, part in arrays.items()}
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            change_numbers(rng, rng.choice([*changed.values()]))
        if rng.random() < 0.2:
            changed[rng.choice([*changed])] = rng.choice(_ARRAYS)
        if rng.random() < 0.1:
            del changed[rng.choice([*changed])]
        file = BytesIO()
        (np.savez_compressed if rng.random() < 0.2 else np.savez)(file, allow_pickle=False, **changed)
        packed = mutant(rng, pool([file.getvalue()])) if rng.random() < 0.2 else file.getvalue()
        text = json_bytes(json_mutant(rng, about) if rng.random() < 0.2 else about)
        body = text + b"\n" + packed
        blob = _FOLD + hashlib.blake2b(body, digest_size=32).hexdigest().encode() + b"\n" + body
        return mutant(rng, pool([blob])) if rng.random() < 0.05 else blob

    def read(path: Path) -> tuple[Path, SavedFold]:
        saved = SavedFold(path, source, {})
        saved.load(*made())
        return path, saved

    def use(read: tuple[Path, SavedFold]) -> None:
        _, rankers = made()
        try:
            with (
                np.errstate(all="ignore"),
                catch_warnings(),
            ):  # numbers that cannot be make a result that cannot be
                simplefilter("ignore", RuntimeWarning)
                evaluate_source(source, rankers, DCG(), checkpoints=np.array([10]), saved=read[1])
        finally:
            read[0].touch()  # the caller removes it

    return Target(".state", (sample,), mutate, read, use)


_ARRAYS = (
    np.zeros(0), np.zeros((3, 3)), np.array(["x"]), np.array([1 + 2j]), np.array(7), np.zeros(100_000),
    np.array([-1, 5, 5, 1]), np.array([2**62, 0, 0, 0]), np.array([10, 10, -5, 1]), np.array([True]),
)  # fmt: skip


def table() -> Target:
    """Make the target for tables of a training: CSV, JSON lines and Parquet."""
    frame = pl.DataFrame(
        {"q": ["a", "a", "b", "b", "b"], "doc": [1, 2, 3, 4, 5], "grade": [1, 0, 2, 0, 1],
         "price": [1.5, None, 3.0, 2.5, 1e9], "colour": ["red", "blue", "red", None, "=1"], "n": [1, 2, 3, 4, 5]}
    )  # fmt: skip
    files = {".csv": BytesIO(), ".jsonl": BytesIO(), ".parquet": BytesIO()}
    frame.write_csv(files[".csv"])
    frame.write_ndjson(files[".jsonl"])
    frame.write_parquet(files[".parquet"])
    samples = {suffix: file.getvalue() for suffix, file in files.items()}
    texts: dict[str, Pool] = {
        suffix: pool([samples[suffix]], 'q,doc grade "" "a,b" null {"q": 1e999 -1 NaN red ; 2^53')
        for suffix in (".csv", ".jsonl")
    }
    options = TableOptions("grade", "q", "doc", categories=("colour",), missing="median")

    def mutate(rng: Random) -> bytes:
        suffix = rng.choice([*samples])
        made = mutant(rng, texts[suffix]) if suffix in texts else table_mutant(rng, [samples[suffix]])
        return suffix.encode() + b"\n" + made

    def read(path: Path) -> Dataset:
        suffix, _, content = path.read_bytes().partition(b"\n")
        file = path.with_suffix(suffix.decode())
        file.write_bytes(content)
        try:
            with catch_warnings():
                simplefilter("ignore", UserWarning)  # of columns that are left out
                return read_table(file, options)
        except ValueError as error:
            raise ValueError(str(error).replace(file.name, path.name)) from None
        finally:
            file.unlink()

    tagged = tuple(suffix.encode() + b"\n" + content for suffix, content in samples.items())
    return Target(".table", tagged, mutate, read, lambda data: check_finite(data, "table"))


def rerank() -> Target:
    """Make the target for the bodies of rerank calls, with a service that answers them."""
    configure_logging("critical")
    top = Path(mkdtemp(prefix="fuzz-"))
    atexit.register(rmtree, top, ignore_errors=True)
    service = Service(reranking(top, PLAIN))
    call = Caller(app_of(service))
    values = [
        {"query": "q", "documents": ["a", "b", {"text": "c"}], "top_n": 2, "return_documents": True},
        {
            "query": "q",
            "model": "faq",
            "event_id": "e1",
            "documents": [{"id": "x", "score": 0.5}, {"id": 7, "score": 1}],
        },
        {"query": "", "texts": ["a", "a"], "return_text": "true", "truncate": True},
    ]
    words = pool([json_bytes(value) for value in values], '"documents": "texts": "id": "score": "model": "key":')

    def mutate(rng: Random) -> bytes:
        return mutant(rng, words) if rng.random() < 0.5 else json_bytes(json_mutant(rng, rng.choice(values)))

    def read(path: Path) -> Any:
        if service.unready_reason():
            service.start()
            atexit.register(service.close)
        reply = call("POST", "/v1/rerank", content=path.read_bytes(), headers={"content-type": "application/json"})
        if reply.status_code in (400, 404, 409, 413, 422):
            raise ValueError(f"{path.name}: {reply.json()['message']}")
        assert reply.status_code == 200, reply.text
        return reply.json()

    def use(reply: Any) -> None:
        results = reply if isinstance(reply, list) else reply["results"]
        scores = [one.get("score", one.get("relevance_score")) for one in results]
        assert scores == sorted(scores, reverse=True)
        assert len({one["index"] for one in results}) == len(results)

    return Target(".json", tuple(map(json_bytes, values)), mutate, read, use)
