"""A clock that jumps, and what retention makes of it."""

from __future__ import annotations

from pathlib import Path

from helpers.services import SetClock, config, service
from helpers.traffic import live
from peekrank.service.api.messages import RankRequest
from peekrank.service.core.clock import SECOND, Clock
from peekrank.service.core.service import Service
from peekrank.service.core.slot_state import Jump, SlotState
from peekrank.service.core.snapshots import replay, take_snapshot
from peekrank.service.event_log.records import RecordType

YEAR = 365 * 86_400.0


def test_a_jump_is_what_the_time_gains_on_the_steady_clock() -> None:
    wall, steady = SetClock(1000.0), SetClock(5.0)
    clock = Clock(wall, steady)
    for seconds in (1.0, 3600.0):  # time that passes is no jump
        wall.now, steady.now = wall.now + seconds, steady.now + seconds
        clock.now()
    assert clock.jumped == 0
    wall.now += 59
    clock.now()
    assert clock.jumped == 0
    wall.now += 2  # little by little is one, too
    assert (clock.now(), clock.jumped) == (int(wall.now) * SECOND, 61 * SECOND)
    wall.now -= 500
    clock.now()
    wall.now += 500
    clock.now()
    assert clock.jumped == 561 * SECOND  # the service's time did not go back, and has now gained so much again


def test_ages_do_not_count_jumps() -> None:
    state = SlotState("home")
    assert state.time_before(1000, 100) == 900
    state.jumps = [Jump(300, 200), Jump(900, 500)]  # from 100 to 300, from 400 to 900
    assert state.time_before(1000, 100) == 900
    assert state.time_before(1000, 101) == 399
    assert state.time_before(1000, 150) == 350
    assert state.time_before(1000, 250) == 50


def jumping(path: Path, **changes: float) -> tuple[Service, SetClock, SetClock]:
    """A service that deletes old records, its clock, and the steady clock beside it."""
    wall, steady = SetClock(), SetClock()
    it = Service(config(path, snapshot_every=20, retention=200.0, **changes), clock=wall)
    it._clock._steady = steady
    it.start()
    return it, wall, steady


def test_a_jump_deletes_nothing(tmp_path: Path) -> None:
    it, wall, _ = jumping(tmp_path)
    for n in range(30):
        it.rank("home", RankRequest(f"before-{n}"))
    wall.now += YEAR
    for n in range(60):
        it.rank("home", RankRequest(f"after-{n}"))
    assert it._store.ends("home")[0] == 1
    assert sum(record.kind == RecordType.CLOCK for record in it._store.read("home")) == 1
    assert take_snapshot(replay(it._store, "home")[0]) == take_snapshot(it._manager.slots["home"].state)
    it.close()
    it, wall, steady = jumping(tmp_path)  # with a clock that is right again
    for n in range(60):
        it.rank("home", RankRequest(f"later-{n}"))
    assert it._store.ends("home")[0] == 1
    for n in range(60):  # time that passes counts
        wall.now, steady.now = wall.now + 10, steady.now + 10
        it.rank("home", RankRequest(f"last-{n}"))
    assert it._store.ends("home")[0] > 90
    it.close()


def test_a_start_with_a_clock_that_jumped_deletes_nothing(tmp_path: Path) -> None:
    it, _ = service(tmp_path, snapshot_every=20, retention=200.0)
    for n in range(30):
        it.rank("home", RankRequest(f"before-{n}"))
    it.close()
    it = Service(config(tmp_path, snapshot_every=20, retention=200.0), clock=SetClock(1000.0 + YEAR))
    it.start()
    for n in range(60):
        it.rank("home", RankRequest(f"after-{n}"))
    assert it._store.ends("home")[0] == 1
    it.close()


def test_a_restart_within_a_day_is_no_jump(tmp_path: Path) -> None:
    it, clock = service(tmp_path)
    live(it, clock, rounds=3)
    it.close()
    it = Service(config(tmp_path), clock=SetClock(clock.now + 86_000))
    it.start()
    assert it._manager.slots["home"].state.jumps == []
    it.close()
