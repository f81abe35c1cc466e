"""Several machines: one owns the log, the others follow and take over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from helpers.postgresql import Server
from helpers.scripts import load_script
from helpers.services import HOME, config
from peekrank.service.api.messages import FeedbackRequest, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config import Config, StoreConfig
from peekrank.service.core import service as core
from peekrank.service.core.service import Service
from peekrank.service.core.snapshots import replay, take_snapshot
from peekrank.service.event_log.sqlite import SQLiteStore
from peekrank.service.event_log.store import NotOwnerError

pytestmark = [pytest.mark.postgresql, pytest.mark.slow]


@pytest.fixture
def shared(url: str) -> Config:
    return Config((replace(HOME, update="immediate"),), store=StoreConfig(url=url, snapshot_every=50))


def wait_until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def visit(service: Service, event: str, grade: int = 1) -> None:
    shown = service.rank("home", RankRequest(event_id=event))
    service.feedback(event, FeedbackRequest({shown.top_k[0]: grade}))


def visit_either(services: list[Service], event: str, grade: int) -> None:
    """As an app would: what is refused for now is tried again, elsewhere; the event's id makes that harmless."""
    for attempt in range(200):
        try:
            visit(services[attempt % len(services)], event, grade)
        except Problem as problem:
            if problem.status != 503:
                raise
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"{event} was never taken")


def test_a_second_process_follows_and_takes_over(shared: Config) -> None:
    owner, follower = Service(shared), Service(shared)
    owner.start()
    follower.start()
    try:
        visit(owner, "one")
        wait_until(lambda: follower.stats().sequence == owner.stats().sequence)
        assert (owner.stats().role, follower.stats().role) == ("owner", "follower")
        assert follower.event("one").learned
        assert not follower.ready()
        with pytest.raises(Problem) as refused:
            follower.rank("home", RankRequest())
        assert (refused.value.kind, refused.value.status) == ("not-owner", 503)
        owner.close()
        wait_until(follower.ready)
        assert (follower.stats().role, follower.stats().epoch) == ("owner", 2)
        visit(follower, "two")
        assert follower.event("one").state == "answered"
    finally:
        owner.close()
        follower.close()


def test_both_processes_reload_and_the_follower_takes_over_with_the_new_configuration(shared: Config) -> None:
    owner, follower = Service(shared), Service(shared)
    owner.start()
    follower.start()
    try:
        visit(owner, "one")
        wait_until(lambda: follower.stats().sequence == owner.stats().sequence)
        changed = replace(shared, slots=(replace(shared.slots[0], feedback_window=7.0),))
        text = ["slots.home.feedback_window: 100.0 -> 7.0"]
        assert follower.reload(changed) == text
        assert follower._manager.slots["home"].state.config.feedback_window == 100.0  # the owner's, still
        assert owner.reload(changed) == text
        wait_until(lambda: follower._manager.slots["home"].state.config.feedback_window == 7.0)
        visit(owner, "two")
        wait_until(lambda: follower.stats().sequence == owner.stats().sequence)
        sequence = owner.stats().sequence
        owner.close()
        wait_until(follower.ready)
        assert follower.stats().sequence == sequence  # it takes over without a change to the configuration
        visit(follower, "three")
        state = replay(follower._store, "home")[0]
        assert take_snapshot(state).digest == take_snapshot(follower._manager.slots["home"].state).digest
    finally:
        owner.close()
        follower.close()


def test_a_follower_says_how_far_it_is_behind(shared: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, follower = Service(shared), Service(shared)
    owner.start()
    follower.start()
    try:
        wait_until(lambda: follower.stats().role == "follower")
        monkeypatch.setattr(core, "_FOLLOW", 600.0)  # it looks at the log once more, at the most
        time.sleep(0.5)
        visit(owner, "unseen")
        stats = follower.stats()
        assert stats.lag == owner.stats().sequence - stats.sequence == 2
        assert owner.stats().lag == 0
    finally:
        owner.close()
        follower.close()


def cut_off_owners(server: Server) -> None:
    with psycopg.connect(server.url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid) "
            "WHERE locktype = 'advisory'"
        )


def test_an_owner_that_is_cut_off_follows_the_new_one(shared: Config, server: Server) -> None:
    """Its connection is dropped in the middle of it all: the other takes over, and nothing is written twice."""
    one, two = Service(shared), Service(shared)
    one.start()
    two.start()
    try:
        for n in range(20):
            visit_either([one, two], f"visit-{n}", n % 2)
            if n in (5, 12):
                cut_off_owners(server)
        wait_until(lambda: {one.stats().role, two.stats().role} == {"owner", "follower"})
        wait_until(lambda: one.stats().sequence == two.stats().sequence)
        states = [replay(one._store, "home")[0], *(it._manager.slots["home"].state for it in (one, two))]
        assert len({take_snapshot(state).digest for state in states}) == 1
        assert one.slot("home").ranked == two.slot("home").answered == 20
    finally:
        one.close()
        two.close()


def test_an_owner_that_is_cut_off_notices_without_being_called(shared: Config, server: Server) -> None:
    owner, follower = Service(shared), Service(shared)
    owner.start()
    follower.start()
    try:
        visit(owner, "one")
        cut_off_owners(server)
        wait_until(follower.ready)
        visit(follower, "two")
        wait_until(lambda: owner.stats().role == "follower")
        wait_until(lambda: owner.stats().sequence == follower.stats().sequence)
        assert owner.event("two").learned
    finally:
        owner.close()
        follower.close()


def test_a_file_cannot_be_followed(tmp_path: Path) -> None:
    with Service(config(tmp_path)), pytest.raises(NotOwnerError, match="in use by another peekrank process"):
        Service(config(tmp_path)).start()
    assert not SQLiteStore.shared


def test_owners_are_killed_and_nothing_acknowledged_is_lost() -> None:
    outcome = load_script("failover").failover(kills=3)
    assert (outcome.lost, outcome.mismatches) == (0, 0)
    assert outcome.acknowledged > 3
