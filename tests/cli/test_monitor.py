"""``peekrank watch`` as a user meets it."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from peekrank.evidence.alarms import Watch
from peekrank.evidence.log import read_log, write_log

from helpers.command_line import peekrank, refused
from helpers.logs import HEADER, decisions
from peekrank.evidence import following


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, *records: dict[str, Any]) -> Path:
    path = Path(name)
    path.write_text("".join(json.dumps(record) + "\n" for record in (HEADER, *records)))
    return path


def hide_apple(places: list[int]) -> list[int]:
    return [3, *(place - (place > places[0]) for place in places[1:])]


def test_a_good_log_raises_nothing() -> None:
    write("log.jsonl", *decisions(300))
    done = peekrank("watch", "log.jsonl")
    assert done.exit_code == 0
    assert done.stdout == "No alarm in 300 decisions; by chance 0.0003 at most are expected.\n"


def test_a_fault_is_told_with_cause_and_action_and_as_json() -> None:
    write("log.jsonl", *decisions(300), *decisions(100, 1, hide_apple, first=300))
    done = peekrank("watch", "log.jsonl", "--json", "alarms.json")
    assert "item-hidden" in done.stdout
    assert "Item 'apple' was seen in" in done.stdout
    assert "Likely the app leaves the item out" in done.stdout
    made = json.loads(Path("alarms.json").read_text())
    assert made["decisions"] == 400
    assert {"unexpected-order", "item-hidden"} <= {alarm["name"] for alarm in made["alarms"]}
    assert all(300 < alarm["since"] <= alarm["latest"] <= 400 for alarm in made["alarms"])


def test_parquet_and_lines_raise_the_same() -> None:
    write("log.jsonl", *decisions(300), *decisions(100, 1, hide_apple, first=300))
    write_log("log.parquet", read_log("log.jsonl"))
    said = [peekrank("watch", name).stdout for name in ("log.jsonl", "log.parquet")]
    assert said[0] == said[1]


def test_answers_in_lines_of_their_own_count_and_stray_ones_are_noticed() -> None:
    records: list[dict[str, Any]] = []
    for record in decisions(400):
        told = {
            name: answer
            for name, answer in zip(record["candidates"], record.pop("answer"), strict=True)
            if answer is not None
        }
        records += [record, {"event": record["event"], "answers": told}]
    late = write("late.jsonl", *records)
    write("log.jsonl", *decisions(400))
    assert peekrank("watch", late, "--wait", "5").stdout == peekrank("watch", "log.jsonl").stdout
    strays = [{"event": f"x{i}", "answers": {"apple": 1}} for i in range(10)]
    assert "stray-answers" in peekrank("watch", write("stray.jsonl", *records, *strays)).stdout
    about_others = [{"event": "399", "answers": {"apples": 1, "pears": 1}} for i in range(5)]
    assert "stray-answers" in peekrank("watch", write("others.jsonl", *records, *about_others)).stdout


def test_answers_about_what_was_not_seen_are_stray() -> None:
    unseen = [record | {"answer": [1.0] * 4} for record in decisions(5, 2, first=100)]
    assert "stray-answers" in peekrank("watch", write("log.jsonl", *decisions(100), *unseen)).stdout


def test_a_growing_file_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another thread writes, the last line in two halves, is observed; the file then becomes shorter."""
    monkeypatch.setattr(following, "_PAUSE", 0.01)
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
        following.watch_log(
            path,
            lambda low, high: Watch(grades=(low, high)),
            lambda w: rounds.append(w.rounds),
            follow=True,
            wait=1,
        )
    writer.join()
    assert rounds[-1] == 49  # the last decision waits for later ones


def test_what_is_wrong_is_told() -> None:
    assert "there is no such file" in refused("watch", "nothing.jsonl")
    Path("bad.jsonl").write_text("{}\n")
    assert "bad.jsonl is no log" in refused("watch", "bad.jsonl")
    Path("huge.jsonl").write_text(json.dumps(HEADER | {"highest": 10**400}) + "\n")
    assert "lowest must be below highest" in refused("watch", "huge.jsonl")
    Path("empty.jsonl").write_text("")
    assert "empty.jsonl is no log" in refused("watch", "empty.jsonl")
    one = next(decisions(1))
    assert "line 2, field 'event': must be a text" in refused("watch", write("a.jsonl", one | {"event": 1}))
    assert "line 3, field 'event': '0' occurs twice" in refused("watch", write("b.jsonl", one, one))
    assert "line 2, field 'k': must be 1 at least" in refused("watch", write("c.jsonl", one | {"k": 0}))
    assert "line 2, field 'candidates': is missing" in refused("watch", write("d.jsonl", {"event": "1", "k": 1}))
    late = {"event": "0", "answers": {"apple": 1}}
    half = write("i.jsonl", one | {"candidates": ["\ud800", "b", "c", "d"]})
    assert "line 2, field 'candidates': must be a list of texts" in refused("watch", half)
    short = write("h.jsonl", one | {"answer": [None]}, late)
    assert "line 2, field 'answer': has 1 numbers for 4 candidates" in refused("watch", short)
    write("e.jsonl", one)
    with Path("e.jsonl").open("a") as file:
        file.write('{"event": "2"')
    assert "e.jsonl, line 3: it is cut off, is no JSON" in refused("watch", "e.jsonl")
    Path("f.jsonl").write_text(json.dumps(HEADER) + "\n[1]\n")
    assert "f.jsonl, line 2: must be an object" in refused("watch", "f.jsonl")
    assert "alpha = 1.5" in refused("watch", "e.jsonl", "--alpha", "1.5")
    assert "wait = 0" in refused("watch", "e.jsonl", "--wait", "0")
    write_log("log.parquet", read_log(write("g.jsonl", one)))
    assert "a Parquet file is written at once" in refused("watch", "log.parquet", "--follow")
