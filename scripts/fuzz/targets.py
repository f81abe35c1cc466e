"""The kinds of files that peekrank reads, each with samples, mutants, its reader, and a use of the result."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fuzz import agents, saved, tables
from fuzz.mutations import Pool, json_bytes, json_mutant, mutant, pool
from fuzz.target import Target
from peekrank.data.dataset import Dataset, Provenance, check_finite, describe
from peekrank.data.letor import read_letor
from peekrank.data.peek import open_dataset, save_dataset
from peekrank.data.scaling import fit_standardisation, scale_within_queries
from peekrank.engine import Agent
from peekrank.evaluation.judged_batches import resume, with_next_batch
from peekrank.evaluation.judging import Judging, make_pool
from peekrank.evaluation.trec import Judgement, Run, read_qrels, read_run
from peekrank.experiments.sweep import EXAMPLE, Sweep, read_sweep
from peekrank.games.analysis import analyse
from peekrank.games.certificate import certificate
from peekrank.games.files import read_game
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.learners.mixed.learner import Mixed
from peekrank.learners.ridge.learner import Ridge
from peekrank.measures import DCG
from peekrank.service.config.model import read_config
from peekrank.service.config.reference import example
from peekrank.streams.adversary import Adversary
from peekrank.streams.preferences import Orders, Ratings
from peekrank.training.model import Model, load_model, preparation, save_model


def _text(suffix: str, made: Pool, read: Callable[[Path], Any], use: Callable[[Any], object]) -> Target:
    return Target(suffix, tuple(made.samples), partial(mutant, pool=made), read, use)


def letor() -> Target:
    """Make the target for LETOR and SVMlight text, plain or gzip."""
    samples = (
        "2 qid:7 1:0.5 3:1e-2\n0 qid:4\n1 qid:7 2:1 # late\n",
        "# head\n\n1 qid:1 0:3 1:-2 2:7 #docid = GX000-00 inc = 1\r\n0 qid:1 0:0.125\r\n3 qid:2 2:16777217.0\r\n",
        "qid:shoes 1:1 # d7\nqid:1234567890123456789 1:0.5\nqid:shoes 2:1 # docid: x\n",
        "0 1:1 2:0.000001 # 12\n1.5 1:0.33333333333333333333 5:1e10 # 12\n0 3:1 # 13\n",
        "\ufeff4 qid:10 1:1\n" + "".join(f"{n % 3} qid:{n // 4} 1:{n / 7} 2:{n}e-3 4:.5\n" for n in range(40)),
    )
    return _text(
        "",
        pool(samples, "qid: qid:1 1:1 2:0.5 #1 # -1 0:0 1048576:1 1:1e39 qid:999999999999999999"),
        partial(read_letor, relevance=False, documents=True),
        _use_data,
    )


def groups() -> Target:
    """Make the target for group files."""
    text = "".join(f"{n % 3} 1:{n} 2:{n / 3:.2f}\n" for n in range(9))

    def read(path: Path) -> Dataset:
        beside = path.with_name(path.name.removesuffix(".query"))
        beside.write_text(text)
        return read_letor(beside)

    samples = ("4\n5\n", "1\n\n2\r\n3\n3\n", "9")
    return _text(".txt.query", pool(samples, "0 -1 9 1e1 99999999999999999999"), read, _use_data)


def peek() -> Target:
    """Make the target for .peek files, with mutated headers and valid checksums."""
    samples = _peek_samples()

    def mutate(rng: Random) -> bytes:
        sample = rng.choice(samples)
        if rng.random() < 0.3:
            return mutant(rng, Pool(samples, (b"PEEKDATA", b"\x00" * 8)))
        length = int.from_bytes(sample[12:16], "little")
        header, rest = sample[48 : 48 + length], bytearray(sample[48 + length :])
        if rng.random() < 0.8:
            content = json_mutant(rng, json.loads(header))
            header = json_bytes(content) if rng.random() < 0.9 else mutant(rng, pool([json_bytes(content)]))
        else:
            for _ in range(rng.choice((1, 4))):
                at = 8 * rng.randrange(len(rest) // 8)
                rest[at : at + 8] = rng.choice(
                    (bytes(8), b"\xff" * 8, rng.randbytes(8), (2**40).to_bytes(8, "little"))
                )
        padding = bytes(-(48 + len(header)) % 64)
        body = bytes(rest).lstrip(b"\x00") if rng.random() < 0.05 else bytes(rest[-(48 + length) % 64 :])
        seal = len(header).to_bytes(4, "little") + hashlib.sha256(header).digest()
        return sample[:12] + seal + header + padding + body

    return Target(".peek", samples, mutate, open_dataset, _use_data)


def orders() -> Target:
    """Make the target for PrefLib orders with ties."""
    samples = (
        "# NUMBER ALTERNATIVES: 4\n# NUMBER VOTERS: 6\n3: 1,2,{3,4}\n2: {4,3,2},1\n1: 4,3,2,1\n",
        "# NUMBER ALTERNATIVES: 2\n# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 2: b\n 1 : { 2, 1 }\n4:2,1\n",
        "3\n1,a\n2,b, or so\n3,c\n4,4,2\n3,2,1,3\n1,3,{1,2}\n",
    )
    words = "NUMBER ALTERNATIVES: VOTERS: {1,2} {} 1: 1: ALTERNATIVE NAME # 999999999:"
    return _text(".toc", pool(samples, words), lambda path: Orders(path, "quantile3").in_memory(), _draw)


def ratings() -> Target:
    """Make the target for ratings as CSV."""
    samples = (
        "a,b,c\n1,2,3\n,4.5,\n-1,0,1e3\n",
        '"one","two, or so"\n1,2\n"3",4\n',
        "1,2,3\n4,,6\n\n7,8,9\n",
        "user,item,rating,time\n1,7,4,9\n1,8,2.5,9\n2,7,5,9\n",
    )
    return _text(".csv", pool(samples, '"" "," 1,2,3 1e999'), lambda path: Ratings(path).in_memory(), _draw)


def trec_run() -> Target:
    """Make the target for runs of TREC."""
    samples = (
        "q1 Q0 a 1 3 x\nq1 Q0 b 2 2.5 x\nq2 Q0 a 1 -1e3 x\n",
        "q2\tQ0\ta\t1\t0\tx\r\n\nq1 Q0 c 1 1 x\nq1 Q0 a 9 1 x\n",
    )
    fixed = {"q1": ["b", "a"], "q2": ["c"]}

    def use(run: Run) -> None:
        with suppress(ValueError):  # other queries, or the same order
            Judging(make_pool(run, fixed, DCG())).draw(2)

    return _text(".run", pool(samples, "Q0 nan 1e999 q1"), read_run, use)


def qrels() -> Target:
    """Make the target for qrels with sampled pairs."""
    pairs = make_pool({"q1": [*"abcd"], "q2": [*"ab"]}, {"q1": [*"dbca"], "q2": [*"bc"]}, DCG(), max_grade=2)
    known = [Judgement("q1", 0, "b", 2.0)]
    drawn = with_next_batch(resume(pairs, known), known, 3)
    text = "".join(f"{one.query} {one.iteration} {one.document} {abs(one.grade):g}\n" for one in drawn)

    def read(path: Path) -> Judging:
        return resume(pairs, read_qrels(path), path.name)

    def use(judging: Judging) -> None:
        if judging.left and not judging.missing:
            judging.draw(2)

    return _text(".qrels", pool((text, "q1 0 a 0\nq1 Q0 b -1\nq3 0 x 2\n"), "-1 1e999 9"), read, use)


def game_csv() -> Target:
    """Make the target for games as tables of losses and feedback."""
    samples = (
        ", good, rotten\n eat, 0, 1\n bin, 1/2, 0.1\n\n sweet, sour\n -, -",
        "0\t1\n1\t0\n\na\tb\na\ta\n",
        "0;1;2\n2;1;0\n1;1;1\n\n-;-;-\n-;-;-\na;b;c\n",
    )
    return _text(".csv", pool(samples, '"" 1/3 - 1/0 a;b 0,1'), read_game, _use_game)


def game_json() -> Target:
    """Make the target for games as JSON."""
    values = (
        {"loss": [[0, 1], ["1/2", 0.1]], "feedback": [["a", "b"], [None, True]], "actions": ["eat", "bin"]},
        {"loss": [[0, 1, 2], [2, 1, 0]], "feedback": [[[0, 1], [0, 1], [1, 1]], [0, 1, 2]], "outcomes": [1, 2, 3]},
    )
    return _json(".json", values, '"loss": "feedback": "actions": [[0]] "1/3"', read_game, _use_game)


def adversary() -> Target:
    """Make the target for certificates of hopeless games."""
    proof = certificate(analyse(ranking_game("ndcg", 3, 1)))
    small = {"game": {"outcomes": ["0 0", "0 1", "1 1"]}, "adversaries": {"p": [0.5, 0.25, 0.25], "q": [0, 0, 1]}}
    return _json(
        ".json", (small, small, json.loads(json.dumps(proof))), '"adversaries": "p": "0 1"', _adversary, _draw
    )


def sweep() -> Target:
    """Make the target for sweeps as TOML."""
    small = Sweep(
        "s", ("uniform", "blockftrl", "ftpl"), ("ct15:m=4",), ("p@1+sum",), (1, 2), (50,), runs=2, same_rounds=True
    )
    tops = Sweep(
        "t", ("setftrl", "permftrl"), ("bernoulli:means=0.9+0.1+0.5",), ("p@2+sum", "p@1+sum"), (2,), (100, 200)
    )
    words = (
        '"rtop1f" "rtop1f:order=fixed" "nw2" "feedexp3" "ct15:m=3" "ct15:noise=1e308" "ndcg" "ap" "p@0" "dcg@99" '
        '[1,2] [] true 1979-05-27 """ "graded" "switching" "drifting" "lists" "x.csv" learners= [learners] k.x='
    )
    return _text(".toml", pool((EXAMPLE, small.toml(), tops.toml()), words), read_sweep, _use_sweep)


def config() -> Target:
    """Make the target for configurations of the service."""
    small = '[slots.home]\nitems = ["tea", "rice", "milk"]\nk = 1\n\n[store]\npath = "log.db"\n'
    words = "[slots.x] items features [[keys]] [limits] body = k = learner = 0x" + "f" * 5000
    return _text(".toml", pool((example(), small), words), read_config, repr)


def model() -> Target:
    """Make the target for models as JSON with valid checksums."""
    contents = _model_contents()

    def mutate(rng: Random) -> bytes:
        content = json_mutant(rng, rng.choice(contents))
        if rng.random() < 0.1:
            return mutant(rng, pool([json_bytes(content)], '"kind": "weights":'))
        if isinstance(content, dict) and rng.random() < 0.95:
            content.pop("checksum", None)
            content["checksum"] = hashlib.sha256(json_bytes(content, sort_keys=True)).hexdigest()
        return json_bytes(content)

    return Target(".json", tuple(map(json_bytes, contents)), mutate, load_model, _use_model)


def agent() -> Target:
    """Make the target for saved agents of every learner."""
    blobs = agents.samples()
    parts = [agents.parts_of(blob, Agent.load(blob)) for blob in blobs]
    return Target(".agent", blobs, partial(agents.mutate, parts=parts), agents.read, agents.use)


def broken() -> Target:
    """Make a reader with six planted faults that tests the fuzzer. It is not among `TARGETS`."""

    def read(path: Path) -> int:
        digit = path.read_bytes()[0] - ord("0")
        if digit == 1:
            raise KeyError("x")
        if digit == 2:
            raise ValueError("this does not say which file")
        if digit == 3:
            raise ValueError(f"{path.name}: two\nlines")
        if digit == 4:
            os.kill(os.getpid(), signal.SIGSEGV)
        if digit == 5:
            while True:
                pass
        if digit == 6:
            bytearray(1 << 40)
        if digit == 7:
            raise ValueError(f"{path.name}: holds a 7")
        return digit

    return Target(".txt", (b"0",), lambda rng: str(rng.randrange(9)).encode(), read, lambda _: None)


TARGETS: dict[str, Callable[[], Target]] = {
    made.__name__: made
    for made in (
        letor,
        groups,
        peek,
        orders,
        ratings,
        trec_run,
        qrels,
        game_csv,
        game_json,
        adversary,
        sweep,
        model,
        agent,
        config,
        tables.log,
        tables.watched,
        tables.log_parquet,
        tables.dsjson,
        tables.open_bandit,
        tables.manifest,
        tables.run_file,
        saved.comparison,
        saved.fold,
        saved.table,
        saved.rerank,
    )
}


def _json(
    suffix: str, values: tuple[Any, ...], words: str, read: Callable[[Path], Any], use: Callable[[Any], object]
) -> Target:
    made = pool([json_bytes(value) for value in values], words)

    def mutate(rng: Random) -> bytes:
        if rng.random() < 0.5:
            return mutant(rng, made)
        return json_bytes(json_mutant(rng, rng.choice(values)))

    return Target(suffix, tuple(made.samples), mutate, read, use)


def _data() -> Dataset:
    features = np.array([[0.5, 1, -2], [1, 0, 3], [0, 2, 0], [4, 4, 4.5]], np.float32)
    return Dataset(
        features, np.array([2, 0, 1, 3], np.uint8), np.array([0, 3, 4]), np.array([7, 4]), Provenance("x", "00")
    )


def _peek_samples() -> tuple[bytes, ...]:
    data = _data()
    real = data._replace(
        relevance=np.array([0.5, 1, 2, 3], np.float32), about=Provenance("y", warnings={"blank_lines": 2})
    )
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / "a.peek", Path(folder) / "b.peek"]
        for path, each in zip(paths, (data, real), strict=True):
            save_dataset(each, path)
        return tuple(path.read_bytes() for path in paths)


def _model_contents() -> tuple[dict[str, Any], ...]:
    weights = np.array([0.5, -1, 2], np.float32)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        contents = []
        blob = Agent(Ridge(), m=4, k=1, d=3).dump()
        for scaling in ("none", "query", "global", "robust"):
            made = Model(weights, preparation(_data(), scaling), "ridge", 1, "ndcg@10", 9, 0, 0, "x", "00", blob)
            save_model(made, path)
            contents.append(json.loads(path.read_bytes()))
        blob = Agent(Mixed(), m=9, k=1, d=2).dump()
        made = Model(weights[:0], preparation(_data()), "mixed", 1, "ndcg@10", 9, 0, 0, "x", "00", blob, 2)
        save_model(made, path)
        contents.append(json.loads(path.read_bytes()))
        return tuple(contents)


def _use_data(data: Dataset) -> None:
    check_finite(data, data.about.source)
    describe(data)
    graded = data.graded()
    assert graded.rounds().relevance.shape == (int(data.offsets[-1]),)
    if data.features.size <= 10_000 and data.about.scaling == "none":
        scale_within_queries(graded)
        fit_standardisation(graded)


def _draw(stream: Any) -> None:
    rounds = stream.rounds(5, np.random.default_rng(0))
    assert rounds.relevance.max(initial=0) <= stream.max_grade


def _adversary(path: Path) -> Adversary:
    made = Adversary(path)
    assert made.m >= 2
    return made


def _use_game(game: Game) -> None:
    assert np.isfinite(game.loss).all()
    str(game)
    if game.signals.size <= 9:
        analyse(game)


def _use_sweep(sweep: Sweep) -> None:
    assert sweep.rounds > 0
    with TemporaryDirectory() as folder:
        path = Path(folder) / "again.toml"
        path.write_text(sweep.toml(), encoding="utf-8")
        assert read_sweep(path) == sweep


def _use_model(model: Model) -> None:
    data = _data()
    ranked = model.rank(data)
    if model.agent and model.score is None:
        agent = Agent.from_model(model, m=9)
        agent.update(agent.rank(model.prepare(data.features[:3])), [1])
    assert sorted(ranked.rankings[:3].tolist()) == [0, 1, 2]
    assert np.isfinite(ranked.scores).all()
