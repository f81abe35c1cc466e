"""``peekrank monitor`` as a user meets it."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import peekrank, refused
from helpers.logs import HEADER, decisions
from peekrank.evaluation.log import read_log, write_log
from peekrank.monitoring import tail
from peekrank.monitoring.alarms import Monitor

pytestmark = pytest.mark.usefixtures("empty_folder")


def write(name: str, *records: dict[str, Any]) -> Path:
    path = Path(name)
    path.write_text("".join(json.dumps(record) + "\n" for record in (HEADER, *records)))
    return path


def hide_apple(positions: list[int]) -> list[int]:
    return [3, *(position - (position > positions[0]) for position in positions[1:])]


def test_a_good_log_raises_nothing() -> None:
    write("log.jsonl", *decisions(300))
    done = peekrank("monitor", "log.jsonl")
    assert done.exit_code == 0
    assert done.stdout == "No alarm in 300 decisions. The expected number of false alarms is at most 0.0003.\n"


def test_a_fault_is_reported_with_cause_and_action_and_as_json() -> None:
    write("log.jsonl", *decisions(300), *decisions(100, 1, hide_apple, first=300))
    done = peekrank("monitor", "log.jsonl", "--json", "alarms.json")
    assert "item-hidden" in done.stdout
    assert "Item 'apple' was recently seen in" in done.stdout
    assert "The app probably leaves the item out" in done.stdout
    made = json.loads(Path("alarms.json").read_text())
    assert (made["decisions"], made["tolerance"]) == (400, 0.2)
    assert "tolerance = 1.0: must be from 0 to below 1" in refused("monitor", "log.jsonl", "--tolerance", "1")
    assert {"unexpected-order", "item-hidden"} <= {alarm["name"] for alarm in made["alarms"]}
    assert all(300 < alarm["since"] <= alarm["latest"] <= 400 for alarm in made["alarms"])


def test_parquet_and_lines_raise_the_same() -> None:
    write("log.jsonl", *decisions(300), *decisions(100, 1, hide_apple, first=300))
    write_log("log.parquet", read_log("log.jsonl"))
    said = [peekrank("monitor", name).stdout for name in ("log.jsonl", "log.parquet")]
    assert said[0] == said[1]


def test_answers_in_lines_of_their_own_count_and_stray_ones_are_noticed() -> None:
    records: list[dict[str, Any]] = []
    for record in decisions(400):
        told = {
            name: answer
            for name, answer in zip(record["candidates"], record.pop("feedback"), strict=True)
            if answer is not None
        }
        records += [record, {"event": record["event"], "feedback": told}]
    late = write("late.jsonl", *records)
    write("log.jsonl", *decisions(400))
    assert peekrank("monitor", late, "--window", "5").stdout == peekrank("monitor", "log.jsonl").stdout
    strays = [{"event": f"x{i}", "feedback": {"apple": 1}} for i in range(10)]
    assert "orphan-feedback" in peekrank("monitor", write("stray.jsonl", *records, *strays)).stdout
    about_others = [{"event": "399", "feedback": {"apples": 1, "pears": 1}} for i in range(5)]
    assert "orphan-feedback" in peekrank("monitor", write("others.jsonl", *records, *about_others)).stdout


def test_answers_about_what_was_not_seen_are_stray() -> None:
    unseen = [record | {"feedback": [1.0] * 4} for record in decisions(5, 2, first=100)]
    assert "orphan-feedback" in peekrank("monitor", write("log.jsonl", *decisions(100), *unseen)).stdout


def test_a_growing_file_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another thread writes, the last line in two halves, is observed; the file then becomes shorter."""
    monkeypatch.setattr(tail, "_PAUSE", 0.01)
    path = write("log.jsonl", *decisions(20))
    rounds: list[int] = []
    more = "".join(json.dumps(record) + "\n" for record in decisions(30, first=20))

    def grow() -> None:
        for part in (more[:-40], more[-40:]):
            with path.open("a") as file:
                file.write(part)
            time.sleep(0.1)
        deadline = time.time() + 20
        while (not rounds or rounds[-1] < 49) and time.time() < deadline:
            time.sleep(0.02)
        path.write_text("")

    writer = threading.Thread(target=grow)
    writer.start()
    with pytest.raises(ValueError, match="has become shorter"):
        tail.monitor_log(
            path,
            lambda low, high: Monitor(grades=(low, high)),
            lambda w: rounds.append(w.rounds),
            follow=True,
            window=1,
        )
    writer.join()
    assert rounds[-1] == 49  # the last decision waits for later ones


def test_what_is_wrong_is_reported() -> None:
    assert "nothing.jsonl does not exist" in refused("monitor", "nothing.jsonl")
    Path("bad.jsonl").write_text("{}\n")
    assert "bad.jsonl is not a log" in refused("monitor", "bad.jsonl")
    Path("huge.jsonl").write_text(json.dumps(HEADER | {"max_feedback": 10**400}) + "\n")
    assert "min_feedback must be below max_feedback" in refused("monitor", "huge.jsonl")
    Path("empty.jsonl").write_text("")
    assert "empty.jsonl is not a log" in refused("monitor", "empty.jsonl")
    one = next(decisions(1))
    assert "line 2, field 'event': must be a string" in refused("monitor", write("a.jsonl", one | {"event": 1}))
    assert "line 3, field 'event': '0' occurs twice" in refused("monitor", write("b.jsonl", one, one))
    assert "line 2, field 'k': must be at least 1" in refused("monitor", write("c.jsonl", one | {"k": 0}))
    assert "line 2, field 'candidates': is missing" in refused("monitor", write("d.jsonl", {"event": "1", "k": 1}))
    late = {"event": "0", "feedback": {"apple": 1}}
    half = write("i.jsonl", one | {"candidates": ["\ud800", "b", "c", "d"]})
    assert "line 2, field 'candidates': must be a list of strings" in refused("monitor", half)
    short = write("h.jsonl", one | {"feedback": [None]}, late)
    assert "line 2, field 'feedback': has 1 numbers for 4 candidates" in refused("monitor", short)
    write("e.jsonl", one)
    with Path("e.jsonl").open("a") as file:
        file.write('{"event": "2"')
    assert "e.jsonl, line 3 is not JSON and cut off" in refused("monitor", "e.jsonl")
    Path("f.jsonl").write_text(json.dumps(HEADER) + "\n[1]\n")
    assert "f.jsonl, line 2: must be an object" in refused("monitor", "f.jsonl")
    assert "alpha = 1.5" in refused("monitor", "e.jsonl", "--alpha", "1.5")
    assert "window = 0" in refused("monitor", "e.jsonl", "--window", "0")
    write_log("log.parquet", read_log(write("g.jsonl", one)))
    assert "a Parquet file does not grow" in refused("monitor", "log.parquet", "--follow")
