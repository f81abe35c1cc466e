"""A service from a file: what it says, and what is said about what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from peekrank.service.config.file import Document
from peekrank.service.config.model import Config, parse_config, read_config

GOOD = """\
[server]
port = 8080

[store]
path = "log.db"
synchronous = "normal"
retention = "90 days"

[[keys]]
name = "web"
role = "app"
hash = "sha256:{zeros}"
slots = ["home"]

[slots.home]
learner = "doubtsort"
items = ["tea", "milk"]
feedback_window = "30 min"

[slots.search]
learner = "ridge"
features = 16
k = 3
max_grade = 4
feedback_window = 5
update = "on_close"
missing_feedback = 0
aggregate = "max"
""".format(zeros="0" * 64)


def parsed(text: str) -> Config:
    return parse_config(Document(text, "service.toml"))


def test_what_a_file_says(tmp_path: Path) -> None:
    (tmp_path / "service.toml").write_text(GOOD)
    config = read_config(tmp_path / "service.toml")
    home, search = config.slots
    assert (home.name, home.items, home.feedback_window, home.k) == ("home", ("tea", "milk"), 1800.0, 1)
    assert (search.d, search.k, search.missing_feedback, search.aggregate, search.feedback_window) == (
        16,
        3,
        0,
        "max",
        5.0,
    )
    assert (config.store.path, config.store.retention) == (str(tmp_path / "log.db"), 90 * 86400.0)
    assert (config.server.port, config.keys[0].slots) == (8080, ("home",))
    assert config.slot("search") is search


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("port = 8080", "port = 80800", "line 2: server.port = 80800: must be a whole number from 0 to 65535"),
        ("port = 8080", "prot = 8080", "line 2: unknown field server.prot: did you mean 'port'"),
        ("[server]", "[sever]", "line 1: unknown field sever: did you mean 'server'"),
        ('"normal"', '"often"', "line 6: store.synchronous = 'often': must be 'full' or 'normal'"),
        ('"90 days"', '"90 moons"', "line 7: store.retention = '90 moons': must be a time, for example '30 s'"),
        ('role = "app"', 'role = "ap"', "line 11: keys[0].role = 'ap': must be 'app' or 'reader' or 'admin'"),
        ('hash = "sha256:', 'hash = "md5:', "line 12: keys[0].hash: must be sha256:"),
        ('slots = ["home"]', 'slots = ["hme"]', "line 13: keys[0].slots = ['hme']: unknown slot 'hme'"),
        ('"doubtsort"', '"doubtsor"', "line 16: slots.home.learner = 'doubtsor': unknown learner"),
        ('items = ["tea", "milk"]', "items = 3", "line 17: slots.home.items = 3: must be a list of texts"),
        ('["tea", "milk"]', '["tea", "tea"]', "line 17: slots.home.items = ['tea', 'tea']: must name each"),
        ('= "30 min"', "= 0", "line 18: slots.home.feedback_window = 0: must be a time above 0"),
        ('learner = "ridge"', 'learner = "rtop1f"', "line 21: slots.search.learner = 'rtop1f': learner 'rtop1"),
        ('learner = "ridge"', 'learner = "ucb"', "line 22: slots.search.features = 16: ucb does not use features"),
        ("features = 16", "", "line 21: slots.search.learner = 'ridge': ridge needs features"),
        ("k = 3", "item_effects = 9", "line 23: slots.search.item_effects = 9: item effects need registered"),
        ("k = 3", "k = 300", "line 23: slots.search.k = 300: k = 300: must be between 1 and"),
        ("k = 3", 'measure = "dgc"', "line 23: slots.search.measure = 'dgc': unknown measure"),
        ('"on_close"', '"immediate"', "line 27: slots.search.missing_feedback = 0: immediate updates would"),
        ('"on_close"', '"onclose"', "did you mean 'on_close'"),
        ("feedback = 0", "feedback = 5", "line 27: slots.search.missing_feedback = 5: must be a whole number"),
        ("feedback = 0", "feedback = true", "line 27: slots.search.missing_feedback = True: must be 'missing' or"),
        ("[slots.home]", "[slots.'ho me']", "slots.ho me: a slot's name must be"),
        ("[server]", "[server", "line 1: this is not TOML"),
        ('learner = "doubtsort"', 'learner = "marginftrl"\nx = 1', "unknown field slots.home.x"),
        ('items = ["tea", "milk"]', 'items = ["\\n"]', "is not a valid name"),
    ],
)  # fmt: skip
def test_errors_give_line_and_field(was: str, now: str, said: str) -> None:
    assert was in GOOD
    with pytest.raises(ValueError) as error:
        parsed(GOOD.replace(was, now, 1))
    assert said in str(error.value)


def test_a_service_needs_a_slot() -> None:
    with pytest.raises(ValueError, match=r"service.toml: slots: must be a table with at least one slot"):
        parsed("")


def test_learners_of_fixed_items_need_them() -> None:
    with pytest.raises(ValueError, match="blockftrl ranks a fixed set of items: list them"):
        parsed("[slots.home]\nlearner = 'blockftrl'")
    with pytest.raises(ValueError, match="needs feedback on all items"):
        parsed("[slots.home]\nlearner = 'ftpl:horizon=100'\nitems = ['a', 'b']")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none.toml cannot be read: No such file"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(ValueError, match="is not UTF-8"):
        read_config(tmp_path / "bytes.toml")
