"""Logs of Vowpal Wabbit and Open Bandit: what is written is read, and what does not carry enough is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peekrank import Agent, Precision, Uniform, fixed_items
from peekrank.evaluation.evaluation import evaluate_log
from peekrank.evaluation.interop import read_dsjson, read_open_bandit, write_dsjson, write_open_bandit
from peekrank.evaluation.log import Log
from peekrank.evaluation.policies import fixed_order
from peekrank.evaluation.simulated_log import simulate_log

EVENT: dict[str, Any] = {
    "_label_cost": -1.0, "_label_probability": 0.5, "_label_Action": 2, "_labelIndex": 1, "EventId": "e1",
    "a": [2, 1, 3], "p": [0.5, 0.3, 0.2], "c": {"_multi": [{"id": "tea"}, {"_tag": "rice"}, {"x": 1}]},
}  # fmt: skip


def logged(k: int = 1) -> Log:
    relevance = (np.random.default_rng(2).random((200, 4)) < [0.8, 0.6, 0.4, 0.2]).astype(np.uint8)
    return simulate_log(Agent(Uniform(), m=4, k=k, seed=2), fixed_items(relevance))


def test_dsjson_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.dsjson"
    unanswered = {name: value for name, value in EVENT.items() if not name.startswith("_label")} | {
        "EventId": "e2"
    }
    path.write_text(json.dumps(EVENT) + "\n\n" + json.dumps(unanswered) + "\n")
    log = read_dsjson(path)
    assert log.names == ("tea", "rice", "3")
    assert log.position[:3].tolist() == [1, 0, 2]
    assert log.propensity[:3].tolist() == [0.3, 0.5, 0.2]
    np.testing.assert_array_equal(log.feedback, [np.nan, 1, np.nan, np.nan, np.nan, np.nan])


def test_both_ways(tmp_path: Path) -> None:
    log = logged()
    write_dsjson(tmp_path / "a.dsjson", log)
    same = read_dsjson(tmp_path / "a.dsjson")
    write_open_bandit(tmp_path / "a.csv", log)
    alike = read_open_bandit(tmp_path / "a.csv", position=1)
    order = ["3", "0", "2", "1"]
    values = [
        evaluate_log(x, [fixed_order(x, order)], Precision(1, mean=False)).estimates[0] for x in (log, same, alike)
    ]
    for other in values[1:]:
        assert other.ips == pytest.approx(values[0].ips)
        assert other.dr == pytest.approx(values[0].dr)
    np.testing.assert_array_equal(same.position, log.position)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"p": [0.5, 0.5]}, "line 1, field 'p': must have a probability for each action"),
        ({"a": [2, 2, 3]}, "line 1, field 'a': must contain each number from 1 to 3 once"),
        ({"a": "x"}, "line 1, field 'p'"),
        ({"_label_cost": "low"}, "line 1, field '_label_cost': must be a number"),
        ({"_label_cost": -3}, "field 'feedback': 3 on candidate 'rice': must be from 0 to 1"),
        ({"p": [0.5, 0.3, 0.1]}, "field 'propensity': the propensities add up to 0.9"),
        ({"_outcomes": []}, "line 1 must be a decision about one action"),
    ],
)
def test_other_dsjson_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    (tmp_path / "log.dsjson").write_text(json.dumps({**EVENT, **change}))
    with pytest.raises(ValueError, match=said):
        read_dsjson(tmp_path / "log.dsjson")


def test_open_bandit_logs_that_do_not_carry_enough_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bts.csv"
    path.write_text("timestamp,item_id,position,click,propensity_score\nx,1,1,0,0.5\nx,2,1,1,0.25\n")
    with pytest.raises(ValueError, match=r"bts.csv, row 3, field 'propensity_score': must be 1/2"):
        read_open_bandit(path)
    path.write_text("timestamp,item_id\nx,1\n")
    with pytest.raises(ValueError, match=r"bts.csv is not a log: it has no column position, click, prop.*/log.md"):
        read_open_bandit(path)
    path.write_text("item_id,position,click,propensity_score\nx,1,much,0.5\n")
    with pytest.raises(ValueError, match=r"bts.csv: cannot be read as an Open Bandit log \((?!.*PLAN)[^\n]*\)$"):
        read_open_bandit(path)
    with pytest.raises(ValueError, match="does not exist"):
        read_open_bandit(tmp_path / "none.csv")


def test_what_cannot_be_carried_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="event '1' has k = 2, but dsjson has one action per decision"):
        write_dsjson(tmp_path / "x", logged(k=2))
    without = logged()._replace(propensity=np.full(800, np.nan))
    with pytest.raises(ValueError, match="the log has decisions without them"):
        write_open_bandit(tmp_path / "x", without)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"a": ["2", 1, 3]}, "line 1, field 'a': must contain each number from 1 to 3 once"),
        ({"a": [2.0, 1, 3]}, "line 1, field 'a': must contain each number"),
        ({"_label_cost": 10**400}, "line 1, field '_label_cost': must be a number"),
        ({"_label_cost": float("nan")}, "line 1, field '_label_cost': must be a number"),
        ({"EventId": [[]]}, "line 1, field 'event': must be a string"),
        ({"c": {"_multi": [{"id": "\ud800"}]}}, "line 1, field 'candidates': must be a list of strings"),
        ({"c": [[]] * 3}, None),
    ],
)
def test_odd_dsjson_is_refused_in_words(tmp_path: Path, change: dict[str, Any], said: str | None) -> None:
    (tmp_path / "log.dsjson").write_text(json.dumps({**EVENT, **change}))
    if said is None:
        assert read_dsjson(tmp_path / "log.dsjson").names == ("1", "2", "3")
        return
    with pytest.raises(ValueError, match=said):
        read_dsjson(tmp_path / "log.dsjson")


def test_the_items_of_open_bandit_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    rows = "".join(f"{i},1,{i % 2},{1 / 11}\n" for i in range(11))
    (tmp_path / "a.csv").write_text(f"item_id,position,click,propensity_score\n{rows}")
    log = read_open_bandit(tmp_path / "a.csv")
    assert log.names == tuple(map(str, range(11)))
    shown = np.flatnonzero(log.position == 0)
    assert log.item[shown].tolist() == list(range(11))
    assert log.feedback[shown].tolist() == [i % 2 for i in range(11)]
    for t in range(11):
        assert sorted(log.position[log.offsets[t] : log.offsets[t + 1]].tolist()) == list(range(11))


def test_few_rows_cannot_take_all_memory(tmp_path: Path) -> None:
    rows = "".join(f"{i},1,0,{1 / 6000}\n" for i in range(6000))
    (tmp_path / "a.csv").write_text(f"item_id,position,click,propensity_score\n{rows}")
    with pytest.raises(ValueError, match=r"a.csv: 6,000 rows about 6,000 items would take more than"):
        read_open_bandit(tmp_path / "a.csv")


def test_items_that_are_formulas_are_written_as_text(tmp_path: Path) -> None:
    log = logged()._replace(names=("=1+1", "-1", "@x", "a=b"))
    write_open_bandit(tmp_path / "a.csv", log)
    assert set(read_open_bandit(tmp_path / "a.csv").names) == {"'=1+1", "-1", "'@x", "a=b"}
