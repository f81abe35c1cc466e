"""A slot whose learner is made of several tells who is in charge, and how the others compare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helpers.asgi import Caller
from helpers.services import HOME, service
from helpers.strict_html import Page
from peekrank.service.api.endpoints import application
from peekrank.service.api.messages import FeedbackRequest, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.config.file import Document
from peekrank.service.config.model import SlotConfig, parse_config
from peekrank.service.core.audit import audit_slot
from peekrank.service.core.service import Service
from peekrank.service.event_log.open import open_log

TEAM = replace(HOME, learner="champion:measure=dcg,members=[doubtsort;marginftrl]", k=1)
NAMES = ["doubtsort:measure=dcg", "marginftrl:measure=dcg"]


def visit(it: Service, first: int, last: int) -> None:
    """Visitors of whom all like c, and nothing else."""
    for n in range(first, last):
        (asked,) = it.rank("home", RankRequest(event_id=f"e{n}")).top_k
        it.feedback(f"e{n}", FeedbackRequest({asked: int(asked == "c")}))


def test_a_learner_by_itself_has_no_members(tmp_path: Path) -> None:
    it, _ = service(tmp_path)
    assert it.slot("home").members == []
    it.close()


def test_a_champion_goes_on_where_it_stopped(tmp_path: Path) -> None:
    it, _ = service(tmp_path, TEAM, snapshot_every=100)
    assert [(one.name, one.role, one.value) for one in it.slot("home").members] == [
        (NAMES[0], "champion", None),
        (NAMES[1], "challenger", None),
    ]
    visit(it, 0, 120)
    before = it.slot("home").members
    it.close()
    it, _ = service(tmp_path, TEAM, snapshot_every=100)
    assert it.slot("home").members == before
    visit(it, 120, 150)
    assert it.rank("home", RankRequest(event_id="last")).ranking[0] == "c"
    it.close()
    assert audit_slot(open_log(str(tmp_path / "log.db")), "home").passed

    whole, _ = service(tmp_path / "whole", TEAM)
    visit(whole, 0, 150)
    champion, challenger = whole.slot("home").members
    whole.close()
    assert (champion.role, champion.value, challenger.role) == ("champion", None, "challenger")
    assert challenger.value is not None
    assert challenger.value.n == 150
    assert challenger.value.low <= challenger.value.mean <= challenger.value.high


def test_evidence_is_that_of_whole_answers(tmp_path: Path) -> None:
    it, _ = service(tmp_path, replace(TEAM, k=2))
    for n in range(10):
        asked = it.rank("home", RankRequest(event_id=f"e{n}")).top_k
        it.feedback(f"e{n}", FeedbackRequest(dict.fromkeys(asked[: 1 + n % 2], 1)))
    _, challenger = it.slot("home").members
    it.close()
    assert challenger.value is not None
    assert challenger.value.n == 5


def test_lists_in_the_shadow_teach_and_are_no_evidence(tmp_path: Path) -> None:
    it, _ = service(tmp_path, replace(TEAM, mode="shadow"))
    for n in range(10):
        it.rank("home", RankRequest(event_id=f"s{n}", baseline=["c", "a", "b", "d"]))
        assert it.feedback(f"s{n}", FeedbackRequest([1])).learned
    assert [one.value for one in it.slot("home").members] == [None, None]
    it.close()
    it, _ = service(tmp_path, TEAM)
    visit(it, 0, 10)
    _, challenger = it.slot("home").members
    it.close()
    assert challenger.value is not None
    assert challenger.value.n == 10
    assert audit_slot(open_log(str(tmp_path / "log.db")), "home").passed


def test_a_champion_ranks_a_fixed_set_of_items(tmp_path: Path) -> None:
    it, _ = service(tmp_path, TEAM)
    with pytest.raises(Problem, match="champion always ranks all 4 items of the slot"):
        it.rank("home", RankRequest(items=["a", "b"]))
    it.close()
    text = f"[slots.home]\nlearner = '{TEAM.learner}'"
    with pytest.raises(ValueError, match=r"line 1: slots.home.items: champion ranks a fixed set of items"):
        parse_config(Document(text, "service.toml"))
    (slot,) = parse_config(Document(f"{text}\nitems = ['a', 'b']", "service.toml")).slots
    assert slot == SlotConfig("home", learner=TEAM.learner, items=("a", "b"))


def test_the_dashboard_shows_a_champion(tmp_path: Path) -> None:
    configure_logging("critical")
    it, _ = service(tmp_path, TEAM)
    visit(it, 0, 20)
    page = Caller(application(it))("GET", "/dashboard/home").text
    it.close()
    assert Page(page).tags["main"] == 1
    for said in ("Champion and challengers", *NAMES, "challenger"):
        assert said in page
