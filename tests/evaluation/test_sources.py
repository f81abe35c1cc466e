"""Logs read in parts: the same numbers however they are cut, and errors that name file and row."""

from __future__ import annotations

import hashlib
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from helpers.made_logs import POLICIES, close, days, mixed_log
from peekrank import DCG, Agent, DoubtSort, PairwiseLoss, fixed_items, measure
from peekrank.evaluation import jsonl_source, sources
from peekrank.evaluation.evaluation import (
    Evaluation,
    Fold,
    Options,
    evaluate_log,
    evaluate_source,
)
from peekrank.evaluation.holdout import holdout_of_log
from peekrank.evaluation.log import Log, log_from_records, read_log, scope_of_log, write_log
from peekrank.evaluation.policies import policy, ranker
from peekrank.evaluation.position_bias import estimate_curve
from peekrank.evaluation.saved_fold import SavedFold
from peekrank.evaluation.simulated_log import simulate_log
from peekrank.evaluation.sources import MemorySource, _Events, open_source, whole_log
from peekrank.monitoring.alarms import Monitor
from peekrank.monitoring.tail import monitor_log


def folded(log: Log, cuts: list[int], judge: Any, options: Options, checkpoints: Any) -> Evaluation:
    scope = scope_of_log(log)
    rankers = [ranker(text, scope, measure=DCG()) for text in POLICIES if not _refused(text, judge)]
    fold = Fold([one.name for one in rankers], judge, scope, options, checkpoints)
    number = np.arange(len(log.k))
    for first, last in zip([0, *cuts], [*cuts, len(log.k)], strict=True):
        if first < last:
            part = log.select((number >= first) & (number < last))
            fold.add(part, [one.ranks(part) for one in rankers])
    return fold.result()


def _refused(text: str, judge: Any) -> bool:
    return text == "logged" and isinstance(judge, PairwiseLoss)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dcg", Options()),
        ("dcg@2", Options(regression="features", simultaneous=False)),
        ("dcg+linear", Options(regression="mean", clip=3.0, partial=True)),
        ("pairwiseloss", Options()),
    ],
)
def test_the_parts_of_a_log_make_no_difference(name: str, options: Options) -> None:
    judge: Any = measure(name)
    log = mixed_log()
    if name == "pairwiseloss":
        log = log._replace(pairs=_pairs_of(log))
    policies = [policy(text, log, measure=DCG()) for text in POLICIES if not _refused(text, judge)]
    alpha, simultaneous, regression, clip, partial = options
    checkpoints = np.array([1, 2, 40, 100, 200])
    whole = folded(log, [], judge, options, checkpoints)
    n = whole.answered
    at = np.append(checkpoints, n)
    close(
        whole,
        evaluate_log(
            log, policies, judge, alpha=alpha, simultaneous=simultaneous, regression=regression, clip=clip,
            partial=partial, checkpoints=at,
        ),
        0,
    )  # fmt: skip
    rng = np.random.default_rng(1)
    for _ in range(3):
        cuts = sorted(rng.choice(len(log.k), int(rng.integers(1, 60)), replace=False).tolist())
        close(whole, folded(log, cuts, judge, options, checkpoints), 1e-12)
    close(whole, folded(log, list(range(1, len(log.k))), judge, options, checkpoints), 1e-12)


def _pairs_of(log: Log) -> Any:
    """Propensities of pairs that need not be right, but are above 0."""
    sizes = log.lengths * (log.lengths - 1) // 2
    return np.random.default_rng(3).uniform(0.1, 1.0, int(sizes.sum()))


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "CANDIDATES", 40)
    monkeypatch.setattr(sources, "_SURVEYED", 7)
    monkeypatch.setattr(jsonl_source, "CANDIDATES", 40)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("kind", ["parquet", "folder", "pattern", "jsonl", "late", "lines"])
def test_every_source_gives_the_numbers_of_the_whole_log(kind: str, tmp_path: Path) -> None:
    log = mixed_log()
    several = ("folder", "lines", "pattern")
    path = {
        "folder": tmp_path / "days",
        "lines": tmp_path / "days",
        "pattern": tmp_path / "days" / "*" / "slot=home" / "*.parquet",
    }.get(kind, tmp_path / f"log.{'jsonl' if kind == 'late' else kind}")
    if kind in several:
        days(log, tmp_path / "days", "jsonl" if kind == "lines" else "parquet")
    else:
        write_log(path, log)
    for file in {"late": [path], "lines": sorted((tmp_path / "days").rglob("*.jsonl"))}.get(kind, []):
        answers_last(file)
    source = open_source(path)
    assert source.scope.names == log.names
    np.testing.assert_array_equal(source.scope.lengths, [2, 3, 4, 5])
    assert source.scope._replace(lengths=log.k) == scope_of_log(log)._replace(lengths=log.k)
    rankers = [ranker(text, source.scope, measure=DCG()) for text in POLICIES]
    found = evaluate_source(source, rankers, DCG(), checkpoints=np.array([10, 100]))
    assert len(list(source.parts())) > 20
    policies = [policy(text, log, measure=DCG()) for text in POLICIES]
    close(evaluate_log(log, policies, DCG(), checkpoints=np.array([10, 100, found.answered])), found, 1e-12)
    later = [log for part in source.parts(123) for log in part.events.to_list()]
    assert later == log.events.to_list()[123:]


def answers_last(path: Path) -> None:
    """Move answers into lines of their own, some at the end and one before its decision."""
    header, *lines = path.read_text().splitlines()
    decisions, answers = [], []
    for line in map(json.loads, lines):
        feedback = line.pop("feedback")
        given = {name: x for name, x in zip(line["candidates"], feedback, strict=True) if x is not None}
        decisions.append(json.dumps(line))
        answers += [json.dumps({"event": line["event"], "feedback": given})] if given else []
    rng = np.random.default_rng(5)
    mixed = [answers[3], *decisions, *rng.permutation([a for i, a in enumerate(answers) if i != 3]).tolist()]
    path.write_text("\n".join([header, *mixed]) + "\n")


def write_days(tmp_path: Path) -> Path:
    days(mixed_log(), tmp_path / "log")
    return tmp_path / "log"


def test_a_missing_file_or_day_is_named(tmp_path: Path) -> None:
    folder = write_days(tmp_path)
    for part in (folder / "day=2026-01-31" / "slot=home").iterdir():
        part.unlink()
    (folder / "day=2026-01-31" / "slot=home").rmdir()
    (folder / "day=2026-01-31").rmdir()
    with pytest.raises(ValueError, match="the day 2026-01-31 is missing between 2026-01-30 and 2026-02-01"):
        open_source(folder)
    (folder / "day=2026-01-31").mkdir()
    assert open_source(folder).scope.decisions == 200
    slot = folder / "day=2026-01-30" / "slot=home"
    (slot / "part-1.parquet").rename(slot / "part-2.parquet")
    with pytest.raises(ValueError, match=r"the file part-1\.parquet is missing, but there is part-2\.parquet"):
        open_source(folder)


def test_files_that_overlap_are_named(tmp_path: Path) -> None:
    folder = write_days(tmp_path)
    one, other = (folder / "day=2026-01-30" / "slot=home" / f"part-{i}.parquet" for i in (0, 1))
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    with pytest.raises(ValueError, match=r"part-1\.parquet, row 1, field 'time': 1000\.000 is before the end of"):
        open_source(folder)
    frame = pl.read_parquet(one)
    frame.with_columns(time=pl.lit(None, pl.Float64)).write_parquet(other)
    with pytest.raises(
        ValueError, match=r"part-1.parquet, row 1, field 'event': 'e50' occurs twice, first in .*row 1"
    ):
        open_source(folder)


def test_slots_and_ranges_are_not_mixed(tmp_path: Path) -> None:
    folder = write_days(tmp_path)
    shop = folder / "day=2026-02-01" / "slot=shop"
    shop.mkdir()
    (folder / "day=2026-02-01" / "slot=home" / "part-1.parquet").rename(shop / "part-1.parquet")
    with pytest.raises(ValueError, match=r"of 2 slots \(home, shop\).*choose one with --slot home"):
        open_source(folder)
    assert open_source(folder / "*" / "slot=shop" / "*").scope.decisions == 50
    assert [open_source(folder, slot).scope.decisions for slot in ("home", "shop")] == [250, 50]
    with pytest.raises(ValueError, match="has no folder slot=news"):
        open_source(folder, "news")
    (shop / "part-1.parquet").rename(folder / "day=2026-02-01" / "slot=home" / "part-1.parquet")
    last = folder / "day=2026-02-01" / "slot=home" / "part-1.parquet"
    pl.read_parquet(last).with_columns(max_feedback=pl.lit(4.0)).write_parquet(last)
    with pytest.raises(
        ValueError, match=r"part-1.parquet, row 1, field 'max_feedback': feedback is from 0 to 4, but"
    ):
        open_source(folder)


def test_a_file_without_answers_is_not_taken_for_one_without_them(tmp_path: Path) -> None:
    folder = write_days(tmp_path)
    last = folder / "day=2026-02-01" / "slot=home" / "part-0.parquet"
    frame = pl.read_parquet(last)
    for missing, kept in (("feedback", "propensity"), ("propensity", "feedback")):
        frame.drop(missing).write_parquet(last)
        message = rf"day=2026-02-01/slot=home/part-0.parquet, row 1: .* it has {kept}, but day=2026-01-30/.*part-0"
        with pytest.raises(ValueError, match=message):
            open_source(folder)


@pytest.mark.usefixtures("small_parts")
def test_errors_in_a_later_part_name_file_and_row(tmp_path: Path) -> None:
    folder = write_days(tmp_path)
    last = folder / "day=2026-02-01" / "slot=home" / "part-0.parquet"
    frame = pl.read_parquet(last)
    wrong = pl.Series("k", [2] * 30 + [9] + [2] * 19)
    frame.with_columns(wrong).write_parquet(last)
    source = open_source(folder)
    with pytest.raises(
        ValueError, match=r"day=2026-02-01/slot=home/part-0.parquet, row 31, field 'k': 9: must be"
    ):
        list(source.parts())


@pytest.mark.usefixtures("small_parts")
def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    log = mixed_log()
    path = tmp_path / "log.parquet"
    write_log(path, log)
    source = open_source(path)
    parts = source.parts()
    next(parts)
    write_log(path, log.select(np.arange(300) < 299))
    with pytest.raises(ValueError, match=r"log\.parquet, row \d+: the file has changed while it was read"):
        list(parts)
    lines = tmp_path / "log.jsonl"
    write_log(lines, log)
    source = open_source(lines)
    with lines.open("a") as file:
        file.write('{"event": "new", "k": 1, "candidates": ["a"], "position": [0]}\n')
    assert sum(len(part.k) for part in source.parts()) == 300  # a log may grow
    lines.write_text("\n".join(lines.read_text().splitlines()[:200]) + "\n")
    with pytest.raises(ValueError, match=r"log\.jsonl, line \d+: the file has (become shorter|changed)"):
        list(source.parts())


def test_lines_name_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write_log(path, mixed_log())
    content = path.read_text()
    path.write_text(content + '{"event": "unknown", "feedback": {"1": 1}}\n')
    with pytest.raises(ValueError, match=r"log\.jsonl, line 302, field 'event': no decision has this name"):
        open_source(path)
    path.write_text(content + content.splitlines()[5] + "\n")
    with pytest.raises(ValueError, match=r"log\.jsonl, line 302, field 'event': 'e4' occurs twice"):
        open_source(path)
    with pytest.raises(ValueError, match="does not exist"):
        open_source(tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match="does not exist"):
        open_source(tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="no file matches"):
        open_source(tmp_path / "none-*.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"a folder without files that end with \.parquet or \.jsonl"):
        open_source(tmp_path / "empty")


def test_files_of_lines_are_one_log(tmp_path: Path) -> None:
    days(mixed_log(), tmp_path / "log", "jsonl")
    folder = tmp_path / "log"
    one, other = (folder / f"day=2026-01-3{i}" / "slot=home" / "part-0.jsonl" for i in (0, 1))
    before, content = one.read_text(), other.read_text()
    other.write_text(content + before.splitlines()[7] + "\n")
    first = "day=2026-01-30/slot=home/part-0.jsonl, line 8"
    again = "day=2026-01-31/slot=home/part-0.jsonl, line 52, field 'event': 'e6' occurs twice"
    with pytest.raises(ValueError, match=f"^{again}, first in {first}$"):
        open_source(folder)
    other.write_text(content.replace('"max_feedback": 2', '"max_feedback": 4', 1))
    with pytest.raises(
        ValueError, match=r"-31/.*part-0\.jsonl, line 1, field 'max_feedback': feedback is from 0 to 4,"
    ):
        open_source(folder)
    one.write_text(content)
    other.write_text(before)
    with pytest.raises(
        ValueError, match=r"part-1\.jsonl, line 2, field 'time': event 'e50' is before the end of .*part-0"
    ):
        list(open_source(folder).parts())
    (folder / "more.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match="has Parquet files and others"):
        open_source(folder)


def test_repeated_events_are_found_in_runs_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_RUN", 100)
    rng = np.random.default_rng(0)
    hashes = rng.integers(0, 2**64, 1050, np.uint64, endpoint=False)
    for repeated in ([], [0, 1049], [3, 500], [99, 100], [1000, 1001], [3, 8], [98, 99]):
        values, events = hashes.copy(), _Events()
        if repeated:
            values[repeated[1]] = values[repeated[0]]
        for first in range(0, 1050, 33):
            events.add(values[first : first + 33])
        assert events.repeated() == ({int(values[repeated[0]])} if repeated else set())
    for count in (100, 1050):  # values that many runs share, also across what is read together
        events = _Events()
        for first in range(0, count, 10):
            events.add(np.arange(10, dtype=np.uint64) * np.uint64(2**60) + np.uint64(first % 30 == 0))
        assert events.repeated() == {i * 2**60 for i in range(10)} | {i * 2**60 + 1 for i in range(10)}


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", ["dcg", "pairwiseloss"])
def test_an_interrupted_evaluation_continues(name: str, tmp_path: Path) -> None:
    log, judge = mixed_log(), measure(name)
    log = log._replace(pairs=_pairs_of(log))
    path, state = tmp_path / "log.parquet", tmp_path / "state"
    write_log(path, log)
    texts = [text for text in ("logged", "score", "order:3,0,1") if not _refused(text, judge)]

    def evaluated(stop_after: float = np.inf, settings: str = "") -> Evaluation:
        source = open_source(path)
        saved = SavedFold(state, source, {"policies": texts, "settings": settings}, pause=0.0)
        done = 0

        def progress(n: int) -> None:
            nonlocal done
            done += n
            if done > stop_after:
                raise KeyboardInterrupt

        rankers = [ranker(text, source.scope, measure=DCG()) for text in texts]
        result = evaluate_source(source, rankers, judge, saved=saved, progress=progress)
        assert saved.resumed == (stop_after == np.inf and begun)
        return result

    begun = False
    whole = evaluated()
    assert not state.exists()
    for stop in (100, 250):
        with pytest.raises(KeyboardInterrupt):
            evaluated(stop)
    assert state.exists()
    with pytest.raises(ValueError, match="another settings"):
        evaluated(settings="others")
    begun = True
    kept = state.read_bytes()
    close(whole, evaluated(), 0)
    state.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(ValueError, match="is damaged; remove it"):
        evaluated()
    state.write_bytes(kept)
    write_log(path, log.select(np.arange(300) < 299))
    with pytest.raises(ValueError, match="another log"):
        evaluated()


def test_the_state_of_another_evaluation_is_refused() -> None:
    log = mixed_log()
    scope = scope_of_log(log)
    order = policy("order:3,0,1", log, measure=DCG())
    folds = [Fold(names, DCG(), scope, Options(), np.array([5, 9])) for names in (["a"], ["a", "b"])]
    for fold, count in zip(folds, (1, 2), strict=True):
        fold.add(log, [order.ranks] * count)
    with pytest.raises(ValueError, match="of another evaluation"):
        Fold(["a"], DCG(), scope, Options(), np.array([5, 9])).restore(folds[1].state())
    with pytest.raises(ValueError, match="of another evaluation"):
        Fold(["a"], DCG(), scope, Options(), np.array([5])).restore(folds[0].state())


def test_a_forged_state_is_refused_in_a_line_that_names_the_file(tmp_path: Path) -> None:
    path, state = tmp_path / "log.parquet", tmp_path / "state"
    log = mixed_log(n=60)
    write_log(path, log)
    source = open_source(path)
    scope = source.scope

    def fold() -> Fold:
        return Fold(["score"], DCG(), scope, Options(), np.array([50]))

    begun, first = fold(), log.select(np.arange(len(log.k)) < 20)
    begun.add(first, [ranker("score", scope, measure=DCG()).ranks(first)])
    SavedFold(state, source, {}, pause=0.0).save(begun, [])
    head, _, body = state.read_bytes().partition(b"\n")
    about, arrays = json.loads(body.partition(b"\n")[0]), begun.state()
    infinite = {"0.sums": np.full(len(arrays["0.sums"]), np.inf)}
    forged = [
        ({"log": about["log"]}, {}),
        ({**about, "rankers": 7}, {}),
        ([], {}),
        (about, {"counts": np.array([10**6, 10, 10, 1])}),
        (about, {"counts": np.array([20, 10, -10, 1])}),
        (about, {"counts": np.zeros(0, np.int64)}),
        (about, infinite),
        (about, {"x": np.zeros(1)}),
        (about, {"0.sums": np.array(["x"])}),
        (about, None),
    ]
    for text, change in forged:
        packed = BytesIO()
        if change is not None:
            np.savez(packed, **{**arrays, **change})  # type: ignore[arg-type]
        content = json.dumps(text).encode() + b"\n" + packed.getvalue()
        seal = hashlib.blake2b(content, digest_size=32).hexdigest().encode()
        state.write_bytes(head[: -len(seal)] + seal + b"\n" + content)
        with pytest.raises(ValueError, match=r"state is damaged .* remove it to evaluate from the beginning"):
            SavedFold(state, source, {}).load(fold(), [])


def test_a_source_in_memory_begins_anywhere() -> None:
    source = MemorySource("log", mixed_log())
    assert [part.events[0] for part in source.parts(7)] == ["e7"]
    assert [len(part.k) for part in source.parts()] == [300]


def test_the_logging_policy_is_one_learner_in_all_parts(tmp_path: Path) -> None:
    relevance = (np.random.default_rng(1).random((60, 4)) < 0.5).astype(np.uint8)
    log = simulate_log(Agent(DoubtSort(DCG()), m=4, k=1, seed=1), fixed_items(relevance))
    for number in range(2):
        write_log(
            tmp_path / "log" / f"part-{number}.parquet",
            log._replace(
                events=pl.Series([f"{number}-{t}" for t in range(60)]),
                learners=(f"doubtsort:measure=dcg @ {number}",),
            ),
        )
    source = open_source(tmp_path / "log")
    with pytest.raises(ValueError, match=r"event '1-0', field 'learner': is 'doubtsort.* @ 1' after 'doubtsort"):
        evaluate_source(source, [ranker("logged", source.scope, measure=DCG())], DCG())
    assert len(read_log(tmp_path / "log" / "part-0.parquet").k) == 60


@pytest.mark.usefixtures("small_parts")
def test_position_bias_is_that_of_the_whole_log(tmp_path: Path) -> None:
    log = mixed_log()
    days(log, tmp_path / "log")
    for periods in (1, 7):
        whole, parts = (estimate_curve(one, periods=periods) for one in (log, open_source(tmp_path / "log")))
        for one, other in zip(whole, parts, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("small_parts")
def test_alarms_are_those_of_the_whole_log(tmp_path: Path) -> None:
    log = mixed_log(n=3000)
    spoiled = log.feedback.copy()
    spoiled[log.owner > 2000] = np.where(np.isnan(spoiled), np.nan, 0)[log.owner > 2000]
    log = log._replace(feedback=spoiled)
    write_log(tmp_path / "log.parquet", log)
    whole = Monitor(1e-3, grades=(0, 2))
    whole.name_of = log.names.__getitem__
    whole.observe_many(log.offsets, log.item, log.propensity, log.position, log.feedback, log.k)
    path = tmp_path / "log.parquet"
    parts = monitor_log(path, lambda low, high: Monitor(1e-3, grades=(low, high)), lambda _: None)
    assert parts.raised() == whole.raised()
    assert len(whole.raised()) > 0


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_holdout_and_repeated_lists_are_those_of_the_whole_log(kind: str, tmp_path: Path) -> None:
    rng, records = np.random.default_rng(2), list[dict[str, Any]]()
    for t in range(200):
        held = int(rng.random() < 0.3)
        record: dict[str, Any] = {
            "event": f"e{t}", "k": 1, "candidates": ["a", "b"], "propensity": [0.65, 0.35],
            "position": [0, 1] if held or rng.random() < 0.5 else [1, 0], "learner": "uniform:measure=dcg",
        }  # fmt: skip
        record["feedback"] = [int(rng.random() < 0.5) if p == 0 else None for p in record["position"]]
        if t < 150:
            record |= {"arm": "own" if held else "learner", "share": 0.3, "own": [0, 1], "expected": [0.5, 0.5]}
        if 5 < t < 40:
            earlier = records[t - 3]
            record = earlier | {"event": f"e{t}", "cluster": earlier.get("cluster", earlier["event"])}
        records.append(record)
    log = log_from_records(records)
    path = tmp_path / f"log.{kind}"
    write_log(path, log)
    source = open_source(path)
    assert len(list(source.parts())) > 5
    assert source.scope.holdout
    verdict = holdout_of_log(whole_log(source), DCG())
    assert verdict == holdout_of_log(log, DCG())
    assert verdict is not None
    assert verdict.visitors < verdict.lists
    order, at = ranker("order:b,a", source.scope, measure=DCG()), np.array([1])
    found = evaluate_source(source, [order], DCG(), checkpoints=at)
    at = np.append(at, found.answered)
    expected = evaluate_log(log, [policy("order:b,a", log, measure=DCG())], DCG(), checkpoints=at)
    assert found.decisions == 200 - 34
    close(found, expected, 1e-12)
