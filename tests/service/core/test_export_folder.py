"""Exports to a folder that grows: each final decision once, whatever happens in between."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from helpers.command_line import peekrank, refused
from helpers.services import HOME, SetClock, service
from helpers.traffic import ALL, CLICKS, REGISTRY, live, put_some
from peekrank.evaluation.sources import open_source, whole_log
from peekrank.service.config import StoreConfig
from peekrank.service.core.export import Export, export_log
from peekrank.service.core.export_folder import Exported, export_to_folder
from peekrank.service.core.service import Service
from peekrank.service.event_log.open import open_log, open_store

DAY = 86_400
MONDAY = 20_000 * DAY + 1000.0


def events_of(folder: Path, slot: str = "home") -> list[str]:
    """Events in the order of the names of files, as any other tool sees them."""
    files = sorted(folder.glob(f"day=*/slot={slot}/part-*.parquet"), key=lambda file: int(file.stem.split("-")[3]))
    return [event for file in files for event in pl.read_parquet(file)["event"].to_list()]


def closed_events(it: Service, slot: str = "home") -> list[str]:
    """Closed events that were shown, by the replies of the service, up to the first that is not closed."""
    found = []
    for record in it._store.read(slot):
        if record.kind == 1:
            told = it.event(str(record.event))
            if told.state in ("open", "shown"):
                break
            deferred = int(str(record.event).rpartition("-")[2]) % 7 == 3
            if told.state == "answered" or not deferred:
                found.append(str(record.event))
    return found


def later(clock: SetClock, days: int) -> None:
    """Some days without visits."""
    clock.now = (clock.now // DAY + days) * DAY + 500.0


@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
def test_a_folder_grows_with_the_log(where: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("url") if where == "postgresql" else ""
    slots = (HOME, CLICKS, REGISTRY)
    names = [slot.name for slot in slots]
    store = open_store(StoreConfig(url=url), names) if url else None
    it, clock = service(tmp_path, *slots, store=store, snapshot_every=20)
    clock.now = MONDAY
    put_some(it)
    log, folder, resumed, total = open_log(url or str(tmp_path / "log.db")), tmp_path / "out", 0, 0
    for n in range(6):  # the service runs on
        live(it, clock, rounds=15, seed=n)
        if n in (2, 4):
            later(clock, days=n - 1)
        for slot in names:
            closed = closed_events(it, slot)
            done = export_to_folder(log, slot, folder, candidates=30)
            total += done.decisions
            assert done.missing is None
            if closed == closed_events(it, slot):  # the service closed none meanwhile
                assert (done.waiting > 0) == (len(closed) < len(export_log(log, slot).k))
        resumed += Export(
            log, "home", int(max(f.stem.split("-")[4] for f in folder.rglob("*slot=home/*.parq*")))
        ).first
    assert resumed > 0  # not from the first record
    whole = {slot: export_log(log, slot) for slot in names}
    for slot in names:
        expected = closed_events(it, slot)
        assert events_of(folder, slot) == expected
        source = open_source(folder, slot)  # which checks days, parts, records, times and names
        log_read, first = whole_log(source), np.arange(len(whole[slot].k)) < len(expected)
        alone = whole[slot].select(first)
        for name in ("time", "k", "position", "propensity", "feedback", "feedback_time", "offsets"):
            np.testing.assert_array_equal(getattr(log_read, name), getattr(alone, name), err_msg=name)
        assert [alone.names[i] for i in alone.item] == [log_read.names[i] for i in log_read.item]
    assert total == sum(len(closed_events(it, slot)) for slot in names)
    it.close()
    for one in (log, store):
        if one is not None:
            one.close()


@pytest.fixture
def lived(tmp_path: Path) -> tuple[Service, Path]:
    it, clock = service(tmp_path)
    live(it, clock, rounds=60)
    return it, tmp_path / "log.db"


KILLED = """
import os, pathlib, signal, sys
from peekrank.service.core.export_folder import export_to_folder
from peekrank.service.event_log.open import open_log
moment, nth = sys.argv[3], int(sys.argv[4])
replace, count = pathlib.Path.replace, 0
def dying(path, target):
    global count
    count += 1
    if count == nth and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(path, target)
    if count == nth:
        os.kill(os.getpid(), signal.SIGKILL)
pathlib.Path.replace = dying
export_to_folder(open_log(sys.argv[1]), "home", pathlib.Path(sys.argv[2]), candidates=40)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_killed_export_is_continued(lived: tuple[Service, Path], tmp_path: Path) -> None:
    it, path = lived
    folder, before = tmp_path / "out", 0
    for moment, nth in (("before", "1"), ("before", "2"), ("after", "2")):
        command = [sys.executable, "-c", KILLED, str(path), str(folder), moment, nth]
        assert subprocess.run(command, check=False).returncode == -9
        assert len(list(folder.rglob(".*.part"))) == (moment == "before")
        before = len(events_of(folder))
    assert 0 < before < len(closed_events(it))
    store = open_log(str(path))
    done = export_to_folder(store, "home", folder, candidates=40)
    assert events_of(folder) == closed_events(it)
    assert done.decisions == len(closed_events(it)) - before
    assert not list(folder.rglob(".*.part"))
    assert export_to_folder(store, "home", folder) == Exported(0, 0, done.waiting, None)
    it.close()


def test_other_files_and_other_exports_are_noticed(
    lived: tuple[Service, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, path = lived
    folder, store = tmp_path / "out", open_log(str(path))
    export_to_folder(store, "home", folder)
    (tmp_path / "other").mkdir()
    other, clock = service(tmp_path / "other")
    live(other, clock, rounds=60, seed=1)
    with pytest.raises(ValueError, match=r"parquet is of another log, which has no event 'home-0-\d+' in record"):
        export_to_folder(other._store, "home", folder)
    other.close()
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(ValueError, match="another export writes to"):
        export_to_folder(store, "home", folder)
    os.close(handle)
    (file,) = folder.rglob("*.parquet")
    file.rename(file.with_name("a.parquet"))
    with pytest.raises(ValueError, match=r"a\.parquet was not written by an export; choose another folder"):
        export_to_folder(store, "home", folder)
    it.close()


@pytest.mark.parametrize("level", [0, 1])
def test_nothing_is_written_through_a_link(level: int, lived: tuple[Service, Path], tmp_path: Path) -> None:
    it, path = lived
    store, folder, elsewhere = open_log(str(path)), tmp_path / "out", tmp_path / "elsewhere"
    export_to_folder(store, "home", folder)
    (file,) = folder.rglob("*.parquet")
    link = file.parents[level]
    link.rename(elsewhere)
    file = next(elsewhere.rglob("*.parquet"))
    file.unlink()
    link.symlink_to(elsewhere)
    with pytest.raises(ValueError, match="is a symbolic link, and nothing is written through one"):
        export_to_folder(store, "home", folder)
    assert not list(elsewhere.rglob("*.parquet"))
    it.close()


def test_a_file_that_is_missing_in_the_middle_is_named(lived: tuple[Service, Path], tmp_path: Path) -> None:
    it, path = lived
    folder = tmp_path / "out"
    export_to_folder(open_log(str(path)), "home", folder, candidates=60)
    it.close()
    files = sorted(folder.rglob("*.parquet"), key=lambda file: int(file.stem.split("-")[3]))
    assert len(files) > 3
    files[1].rename(tmp_path / "kept")
    second = folder / "day=1970-01-02" / "slot=home"
    second.mkdir(parents=True)
    files[2].rename(second / files[2].name.replace("part-2", "part-0"))  # the numbers of a day start again
    for file in files[3:]:
        file.unlink()
    begins = int(files[2].stem.split("-")[3])
    with pytest.raises(
        ValueError, match=rf"begins with record {begins} of the log, but part-0.* a file is missing"
    ):
        open_source(folder)


def test_deleted_records_are_reported(tmp_path: Path) -> None:
    it, clock = service(tmp_path, snapshot_every=20, retention=100.0)
    folder = tmp_path / "out"
    store = open_log(str(tmp_path / "log.db"), None)
    live(it, clock, rounds=10)
    first = export_to_folder(store, "home", folder)
    assert first.missing is None
    last = int(next(folder.rglob("*.parquet")).stem.split("-")[4])
    live(it, clock, rounds=200, seed=1)
    done = export_to_folder(store, "home", folder)
    assert done.missing is not None
    assert done.missing[0] == last + 1
    assert store.heads()["home"].deleted <= done.missing[1]
    events = events_of(folder)
    assert len(set(events)) == len(events)
    assert "were deleted before they were exported" in peekrank(
        "log", "export", str(tmp_path / "log.db"), "home", str(tmp_path / "new")
    ).output.replace("\n", " ")
    it.close()


def test_commands_read_the_log_of_a_service(
    lived: tuple[Service, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, path = lived
    monkeypatch.chdir(tmp_path)
    done = peekrank("log", "export", path.name, "home", "out")
    n = len(closed_events(it))
    assert f"Added {n} decisions to out{os.sep}, in 1 file" in done.output
    assert "feedback on them, or on earlier ones, is not final" in done.output.replace("\n", " ")
    found = [
        peekrank("evaluate", where, "--policy", "order:a,b,c,d", "--policy", "order:d,c,b,a", "--json", "-").output
        for where in ("log.db", "out")
    ]
    assert f'"decisions": {n}' in found[1]
    assert found[0].partition("{")[2] == found[1].partition("{")[2]
    assert f"in {n} decisions" in peekrank("monitor", "log.db").output
    assert peekrank("position-bias", "log.db", "--slot", "home").output
    assert "has no slot 'shop'" in refused("evaluate", "log.db", "--slot", "shop", "--policy", "logged")
    assert "one file, which has no slots" in refused(
        "evaluate", str(next(Path("out").rglob("*.parquet"))), "--slot", "home", "--policy", "logged"
    )
    it.close()
    (tmp_path / "new").mkdir()
    empty, _ = service(tmp_path / "new", *ALL)
    empty.close()
    assert "7 slots" in refused("evaluate", "new/log.db", "--policy", "logged")
    assert "no decision with final feedback yet" in refused(
        "evaluate", "new/log.db", "--slot", "home", "--policy", "logged"
    )
