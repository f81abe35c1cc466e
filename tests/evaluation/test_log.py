"""Logs: what is written is read, in both forms, and what cannot be true is refused with file, row and field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from peekrank import DCG, Agent, DoubtSort, Mixed, Ridge, Thompson
from peekrank.evaluation.jsonl import LogWriter
from peekrank.evaluation.log import Log, log_from_records, read_log, single_learner, write_log
from peekrank.evaluation.simulated_log import simulate_log
from peekrank.types import Rounds

HEADER = {"format": "peekrank-log", "version": 1, "min_feedback": 0, "max_feedback": 2}


def record(**changes: Any) -> dict[str, Any]:
    right = {
        "event": "e1", "k": 2, "candidates": ["a", "b", "c"], "position": [2, 0, 1],
        "propensity": [0.25, 1.0, 0.75], "feedback": [None, 2, 0],
    }  # fmt: skip
    return {name: value for name, value in {**right, **changes}.items() if value is not ...}


def lines(path: Path, *records: Any, header: Any = HEADER) -> Path:
    path.write_text("".join(json.dumps(part) + "\n" for part in (header, *records)))
    return path


def same(one: Log, other: Log) -> None:
    assert one.events.to_list() == other.events.to_list()
    for name, mine in one._asdict().items():
        yours = getattr(other, name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == yours.dtype
            np.testing.assert_array_equal(mine, yours, err_msg=name)
        elif not isinstance(mine, pl.Series):
            assert mine == yours, name


def full() -> Log:
    more = {"learner": "x @ 1", "time": 3.5, "feedback_time": [None, 4.5, 4.5], "features": [[1.0], [0.5], [0]]}
    more["score"] = [None, -2.5, 7]
    other = {
        "event": "e2",
        "learner": "y",
        "reason": "none of yours",
        "propensity": ...,
        "features": [[3], [4], [5]],
    }
    pairs = [0.25, 0.0, 0.75]
    return log_from_records([record(**more, pairs=pairs), record(**other, pairs=pairs)], max_feedback=2)


@pytest.mark.parametrize("name", ["log.parquet", "log.jsonl"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    log = full()
    write_log(tmp_path / name, log)
    same(log, read_log(tmp_path / name))
    assert log.reasons == ("", "none of yours")
    assert np.isnan(log.propensity).tolist() == [False] * 3 + [True] * 3


def test_columns_are_what_the_records_say() -> None:
    log = full()
    assert log.seen.tolist() == [False, True, True] * 2
    assert log.owner.tolist() == [0, 0, 0, 1, 1, 1]
    assert [log.names[i] for i in log.item] == ["a", "b", "c"] * 2
    half = log.select(np.array([False, True]))
    assert half.events.to_list() == ["e2"]
    assert half.features is not None
    assert half.features.tolist() == [[3], [4], [5]]
    assert half.pairs is not None
    assert half.pairs.tolist() == [0.25, 0.0, 0.75]


def test_answers_may_come_later(tmp_path: Path) -> None:
    late = {"event": "e1", "feedback": {"c": 0, "b": 2}, "time": 9}
    log = read_log(lines(tmp_path / "log.jsonl", record(feedback=...), late))
    np.testing.assert_array_equal(log.feedback, [np.nan, 2, 0])
    np.testing.assert_array_equal(log.feedback_time, [np.nan, 9, 9])


WRONG = {
    "above 1": ({"propensity": [0.25, 1.5, 0.25]}, "field 'propensity': 1.5 of candidate 'b': must be a"),
    "propensity below 0": ({"propensity": [-0.25, 1.25, 1]}, "field 'propensity': -0.25 of candidate 'a'"),
    "probability of 0": ({"propensity": [1, 1, 0]}, "field 'propensity': 0 of candidate 'c', which was seen"),
    "of actions": ({"propensity": [0.2, 0.5, 0.3]}, ("field 'propensity': the propensities add up to 1, but must "
    "add")),
    "propensities of some": ({"propensity": [0.25, 1, None]}, ("field 'propensity': is missing for some "
    "candidates")),
    "too few propensities": ({"propensity": [1, 1]}, "field 'propensity': has 2 numbers for 3 candidates"),
    "not shown": ({"feedback": [1, 2, 0]}, "field 'feedback': 1 on candidate 'a', which was shown at position 3"),
    "grade too large": ({"feedback": [None, 3, 0]}, "field 'feedback': 3 on candidate 'b': must be from 0 to 2"),
    "k too large": ({"k": 4}, "field 'k': 4: must be from 1 to 3 candidates"),
    "no position": ({"position": [0, 0, 1]}, "field 'position': must contain each number"),
    "a position beyond": ({"position": [0, 1, 3]}, "field 'position': must contain each number"),
    "twice": ({"candidates": ["a", "a", "c"]}, "field 'candidates': candidate 'a' occurs twice"),
    "none": (
        {"candidates": [], "position": [], "propensity": ..., "feedback": ...},
        "field 'candidates': must have at least one name",
    ),
    "pairs": ({"pairs": [0.5]}, "field 'pairs': must have a number for each of 3 pairs"),
    "pair above 1": ({"pairs": [0.5, 2, 0.1]}, "field 'pairs': 2.0 is not a probability"),
    "features": ({"features": [[1], [2]]}, "field 'features': has 2 lists for 3 candidates"),
    "features differ": ({"features": [[1], [2, 3], [4]]}, ("field 'features': a candidate has 2 features, but "
    "the first")),
}  # fmt: skip


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize(("change", "said"), WRONG.values(), ids=WRONG)
def test_file_row_and_field_are_named(tmp_path: Path, change: dict[str, Any], said: str, suffix: str) -> None:
    good, bad = record(event="e0"), record(**change)
    if "features" in change:
        good["features"] = [[0], [0], [0]]
    if "pairs" in change:
        good["pairs"] = [0, 0, 0]
    path = lines(tmp_path / "log.jsonl", good, bad)
    where = "line 3"
    if suffix == "parquet":
        frame = pl.DataFrame([good, bad], strict=False).with_columns(**{n: pl.lit(v) for n, v in HEADER.items()})
        path, where = tmp_path / "log.parquet", "row 2"
        frame.write_parquet(path)
    with pytest.raises(ValueError) as raised:
        read_log(path)
    assert f"{path.name}, {where}, {said}" in str(raised.value)


LINES = {
    "unknown": ({**record(), "propensities": []}, "line 2: unknown field 'propensities'.*propensity"),
    "missing": (record(k=...), "line 2, field 'k': is missing"),
    "text": (record(k="2"), "line 2, field 'k': must be a whole number"),
    "number": (record(candidates=[1, 2, 3]), "line 2, field 'candidates': must be a list of strings"),
    "list": (record(propensity=1), "line 2, field 'propensity': must be a list"),
    "no object": ([1], "line 2: must be an object"),
    "time": (record(time="now"), "field 'time': must be a number"),
    "nan": (record(time=float("nan")), "field 'time': must be a number"),
    "who": ({"event": "e7", "feedback": {"a": 1}}, "line 2.*field 'event'|no decision"),
}


@pytest.mark.parametrize(("wrong", "said"), LINES.values(), ids=LINES)
def test_lines_of_other_kinds_are_refused(tmp_path: Path, wrong: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_log(lines(tmp_path / "log.jsonl", wrong))


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"z": 1}, "line 3, field 'feedback': 'z' is not a candidate"),
        ({"b": 1, "a": 1}, "field 'feedback': 1 on candidate 'a', which was shown at position 3"),
        ([1], "line 3, field 'feedback': must be an object"),
    ],
)
def test_late_answers_are_checked(tmp_path: Path, answers: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_log(lines(tmp_path / "log.jsonl", record(feedback=...), {"event": "e1", "feedback": answers}))


def test_an_answer_counts_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 3, field 'feedback': 'b' already has feedback"):
        read_log(lines(tmp_path / "log.jsonl", record(), {"event": "e1", "feedback": {"b": 1}}))


def test_an_event_occurs_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 2, field 'event': 'e1' occurs twice"):
        read_log(lines(tmp_path / "log.jsonl", record(), record()))


def test_a_truncated_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    write_log(path, full())
    content = path.read_bytes()
    for size in (0, 3, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"log.parquet is not a Parquet file, or it is damaged"):
            read_log(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name in ("none.parquet", "none.jsonl"):
        with pytest.raises(ValueError, match="does not exist"):
            read_log(tmp_path / name)
    (tmp_path / "a.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"a.jsonl is not a log"):
        read_log(tmp_path / "a.jsonl")
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a.parquet is not a log"):
        read_log(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="a log of version 2"):
        read_log(lines(tmp_path / "b.jsonl", record(), header={**HEADER, "version": 2}))
    with pytest.raises(ValueError, match="feedback from 2 to 2: min_feedback must be below"):
        read_log(lines(tmp_path / "b.jsonl", record(), header={**HEADER, "min_feedback": 2}))
    with pytest.raises(ValueError, match="contains no decision"):
        read_log(lines(tmp_path / "b.jsonl"))
    (tmp_path / "b.jsonl").write_text(json.dumps(HEADER) + "\n" + json.dumps(record()) + '\n{"event"')
    with pytest.raises(ValueError, match=r"b.jsonl, line 3 is not JSON and cut off"):
        read_log(tmp_path / "b.jsonl")


def test_mixed_learners_are_refused_where_it_matters() -> None:
    assert single_learner(full().select(np.array([True, False]))) == "x @ 1"
    with pytest.raises(ValueError, match=r"f.parquet, row 2, field 'learner': is 'y' after 'x @ 1'"):
        single_learner(full(), "f.parquet")


def test_a_log_file_goes_on_after_a_crash(tmp_path: Path) -> None:
    path, agent = tmp_path / "log.jsonl", Agent(DoubtSort(DCG()), m=4, k=2, seed=3)
    agent.retire([1])
    with LogWriter(path, agent.learner, version="7") as log:
        first = log.log_decision(agent.rank(), k=2, names=["a", "b", "c", "d"], time=1.0)
        second = log.log_decision(decision := agent.rank(), k=2, names={0: "a", 2: "c", 3: "d"})
        log.log_feedback(first, [1, np.nan], time=2.0)
    with path.open("a") as file:
        file.write('{"event": "3", "k":')
    with LogWriter(path, agent.learner, version="7") as log:
        with pytest.raises(ValueError, match="event '1': no open decision"):
            log.log_feedback(first, [1, 1])
        with pytest.raises(ValueError, match=r"feedback of shape \(3,\): must be 2 numbers"):
            log.log_feedback(second, [1, 1, 0])
        log.log_feedback(second, [0, 1])
        assert log.log_decision(agent.rank(), k=2) == "3"
    found = read_log(path)
    assert found.events.to_list() == ["1", "2", "3"]
    assert found.learners == ("doubtsort:measure=dcg @ 7",)
    assert decision.propensities is not None
    np.testing.assert_array_equal(found.propensity[3:6], decision.propensities)
    assert [found.names[i] for i in found.item[3:6]] == ["a", "c", "d"]
    shown = [["a", "c", "d"][row] for row in np.argsort(found.position[3:6])]
    assert shown == ["abcd"[i] for i in decision.ranking]
    told = dict(zip(shown, found.feedback[3:6][np.argsort(found.position[3:6])], strict=True))
    assert told[shown[0]] == 0
    assert told[shown[1]] == 1


def test_features_are_logged_and_those_without_propensities_say_why(tmp_path: Path) -> None:
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    agent = Agent(Ridge(), m=3, k=1, d=2)
    with LogWriter(tmp_path / "a.jsonl", agent.learner) as log:
        log.log_decision(agent.rank(X), k=1)
    features = read_log(tmp_path / "a.jsonl").features
    assert features is not None
    np.testing.assert_array_equal(features, X)
    other = Agent(Thompson(DCG()), m=3, k=1)
    with LogWriter(tmp_path / "b.jsonl", other.learner) as log:
        log.log_decision(other.rank(), k=1)
    found = read_log(tmp_path / "b.jsonl")
    assert np.isnan(found.propensity).all()
    assert found.reasons == ("thompson cannot compute propensities",)


def test_a_column_that_is_no_field_is_refused_in_both_formats(tmp_path: Path) -> None:
    """A misspelt field would otherwise be lost without a word."""
    shown = {"event": "1", "k": 1, "candidates": ["a", "b"], "position": [0, 1]}
    file = tmp_path / "log.parquet"
    write_log(file, log_from_records([shown]))
    pl.read_parquet(file).with_columns(propensities=pl.lit(None)).write_parquet(file)
    with pytest.raises(ValueError, match=r"log.parquet: unknown field 'propensities': did you mean 'propensity'"):
        read_log(file)
    lines = tmp_path / "log.jsonl"
    write_log(lines, log_from_records([shown]))
    lines.write_text(lines.read_text().replace('"k"', '"propensities": null, "k"'))
    with pytest.raises(ValueError, match="unknown field 'propensities': did you mean 'propensity'"):
        read_log(lines)


@pytest.mark.parametrize(("name", "content"), [("sales.jsonl", '{"shop": 1}\n'), ("sales.tsv", "shop\tsold\n")])
def test_an_unknown_file_says_which_columns_a_log_has(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(
        ValueError, match=r"is not a log: .* the columns event, k, candidates, position, .*/log.md"
    ):
        read_log(tmp_path / name)


def test_an_unknown_parquet_file_says_which_columns_it_lacks(tmp_path: Path) -> None:
    pl.DataFrame({"event": ["a"], "shop": [1]}).write_parquet(tmp_path / "sales.parquet")
    with pytest.raises(
        ValueError, match=r"sales.parquet is not a log: it has no column format, .* position\. A log"
    ):
        read_log(tmp_path / "sales.parquet")


def test_a_device_without_an_end_is_refused_at_its_first_line() -> None:
    with pytest.raises(ValueError, match="zero is not a log"):
        read_log("/dev/zero")


def test_messages_about_long_values_are_short(tmp_path: Path) -> None:
    long = "x" * 3_000_000
    path = lines(tmp_path / "a.jsonl", record(event=long), record(event=long))
    with pytest.raises(ValueError, match="occurs twice") as raised:
        read_log(path)
    assert len(str(raised.value)) < 300
    for field in ("learner", "reason"):
        path = lines(tmp_path / "b.jsonl", record(**{field: "a\0b"}))
        with pytest.raises(ValueError, match=f"line 2, field '{field}': must not contain the character NUL"):
            read_log(path)


@pytest.mark.parametrize("name", ["time", "k", "candidates"])
def test_a_column_of_another_type_is_named(name: str, tmp_path: Path) -> None:
    write_log(tmp_path / "a.parquet", log_from_records([record()], max_feedback=2))
    frame = pl.read_parquet(tmp_path / "a.parquet").with_columns(pl.Series(name, [{"x": 1}]))
    frame.write_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=rf"a.parquet, field '{name}': must be .* \("):
        read_log(tmp_path / "a.parquet")


def test_a_writer_keeps_the_order_and_the_scores_of_the_app(tmp_path: Path) -> None:
    path, agent = tmp_path / "log.jsonl", Agent(Mixed(), m=4, k=2)
    with LogWriter(path, agent.learner) as writer:
        decision = agent.rank(available=[3, 0, 2], scores=[0.5, np.nan, 0.9])
        writer.log_feedback(writer.log_decision(decision, k=2, names=list("abcd")), [1, 0])
        writer.log_decision(agent.rank(available=[2, 1]), k=2)
    log = read_log(path)
    assert [log.names[item] for item in log.item] == ["d", "a", "c", "2", "1"]
    np.testing.assert_array_equal(log.scores, [0.5, np.nan, 0.9, np.nan, np.nan])
    assert [log.names[log.item[row]] for row in np.argsort(log.position[:3])] == [
        "abcd"[item] for item in decision.ranking
    ]
    assert decision.propensities is not None
    by_name = dict(zip("acd", decision.propensities, strict=True))  # items ascend
    assert log.propensity[:3].tolist() == [by_name[name] for name in "dac"]


def test_scores_must_be_a_number_for_each_candidate(tmp_path: Path) -> None:
    for score, said in (([1, 2], "has 2 numbers for 3 candidates"), (["x", 1, 2], "must be numbers, or null")):
        with pytest.raises(ValueError, match=f"field 'score': {said}"):
            read_log(lines(tmp_path / "log.jsonl", record(score=score)))


def test_simulated_logs_have_the_scores_whether_the_learner_uses_them_or_not() -> None:
    rng = np.random.default_rng(4)
    items, scores = np.array([0, 2, 5, 1, 2, 3, 4]), rng.random(7)
    features, relevance = np.empty((7, 0), np.float32), rng.integers(0, 2, 7).astype(np.uint8)
    rounds = Rounds(features, relevance, np.array([0, 3, 7]), items, scores=scores, keys=np.array([8, -1]))
    for learner in (Mixed(cells=10), DoubtSort(DCG())):
        log = simulate_log(Agent(learner, m=6, k=1), rounds, sequence=np.array([1, 0, 1]))
        np.testing.assert_array_equal(log.scores, [*scores[3:], *scores[:3], *scores[3:]])
    log = simulate_log(Agent(Mixed(floor=0.0, earned=0.0), m=6, k=1), rounds)
    assert np.argsort(log.position[:3]).tolist() == np.argsort(-scores[:3]).tolist()
