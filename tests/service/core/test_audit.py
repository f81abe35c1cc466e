"""Audits, backups and exports of a service's log."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import numpy as np
import pytest

from helpers.command_line import peekrank, refused
from helpers.services import HOME, reseal, service
from helpers.traffic import ALL, live, put_some
from peekrank.evaluation.log import read_log
from peekrank.service.api.messages import FeedbackRequest, RankRequest
from peekrank.service.core import snapshots
from peekrank.service.core.audit import audit_slot, audit_slots
from peekrank.service.core.events import pack_grades
from peekrank.service.core.export import export_log
from peekrank.service.core.snapshots import restore, sealed, take_snapshot
from peekrank.service.event_log.open import open_log
from peekrank.service.event_log.records import Feedback, Record, RecordType, decode
from peekrank.service.event_log.sqlite import SQLiteStore


def test_audits_of_all_slots_pass(tmp_path: Path) -> None:
    it, clock = service(tmp_path, *ALL, snapshot_every=30)
    put_some(it)
    live(it, clock, rounds=40)
    running = list(audit_slots(open_log(str(tmp_path / "log.db"))))  # while the service runs
    assert all(audit.passed and len(audit.equal) == 2 for audit in running)
    it.close()
    for audit in audit_slots(open_log(str(tmp_path / "log.db"))):
        assert audit.passed
        assert audit.equal[-1] == audit.last
        assert audit.first == 1
        assert "equal (rankings, and snapshots after record" in str(audit)


def test_audits_begin_where_the_log_does(tmp_path: Path) -> None:
    it, clock = service(tmp_path, snapshot_every=50, retention=200.0)
    live(it, clock, rounds=200)
    it.close()
    audit = audit_slot(open_log(str(tmp_path / "log.db")), "home")
    assert audit.passed
    assert audit.first > 1
    assert len(audit.equal) == 1  # the older snapshot is where it began


_OTHER_ANSWER = (
    "UPDATE log SET body = CAST(replace(body, X'F03F', X'E03F') AS BLOB) WHERE kind = 3 AND event = 'e'"
)


def changed(path: Path, statement: str, *values: bytes) -> None:
    store = SQLiteStore(path)
    store.acquire()
    assert store._writer is not None
    store._writer.execute(statement, values)
    store.close()


def test_audits_notice_what_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it, clock = service(tmp_path)
    live(it, clock)
    it.rank("home", RankRequest(event_id="e"))
    it.feedback("e", FeedbackRequest([1, 0]))
    it.close()
    log = tmp_path / "log.db"
    with monkeypatch.context() as patch:
        elsewhere = {**snapshots.machine(), "cpu": "pdp-11"}
        patch.setattr("peekrank.service.core.audit.machine", lambda: elsewhere)
        audit = audit_slot(open_log(str(log)), "home")
        assert audit.passed
        assert "and is 'pdp-11' now" in audit.machines[0]
    changed(log, _OTHER_ANSWER)
    (audit,) = audit_slots(open_log(str(log)))
    assert str(audit) == "home: DIFFERENT: record 56 of slot 'home' is damaged: its checksum does not match"
    reseal(log)  # as a version with another rule would have written it
    audit = audit_slot(open_log(str(log)), "home")
    assert "DIFFERENT: the snapshot after record" in str(audit)
    assert "has a different agent" in str(audit)
    done = peekrank("log", "audit", str(log))
    assert done.exit_code == 1
    assert "DIFFERENT" in done.output
    changed(log, "UPDATE snapshots SET body = X'00'")
    assert "is damaged" in str(audit_slot(open_log(str(log)), "home"))
    with sqlite3.connect(log) as other:
        other.execute("DELETE FROM log WHERE id % 1024 > 20")
    other.close()
    assert "was cut: it ends with record 20, but record 56 was written" in str(
        audit_slot(open_log(str(log)), "home")
    )
    assert peekrank("log", "audit", str(log)).exit_code == 1


def test_a_backup_can_be_restored(tmp_path: Path) -> None:
    it, clock = service(tmp_path)
    live(it, clock)
    assert peekrank("log", "backup", str(tmp_path / "log.db"), str(tmp_path / "copy.db")).exit_code == 0
    expected = take_snapshot(it._manager.slots["home"].state).body
    live(it, clock, seed=1)
    it.close()
    for part in tmp_path.glob("log.db*"):
        part.unlink()  # the disaster
    (tmp_path / "copy.db").rename(tmp_path / "log.db")
    it, _ = service(tmp_path)
    assert take_snapshot(it._manager.slots["home"].state).body == expected
    assert it.rank("home", RankRequest(event_id="new")).ranking
    it.close()
    assert peekrank("log", "audit", str(tmp_path / "log.db"), "--slot", "home").exit_code == 0


def test_a_damaged_log_is_not_backed_up(tmp_path: Path) -> None:
    it, clock = service(tmp_path)
    live(it, clock)
    it.close()
    (tmp_path / "copy.db").write_bytes(b"of yesterday")
    with sqlite3.connect(tmp_path / "log.db") as other:
        other.execute("UPDATE log SET body = X'00' WHERE id % 1024 = 20")
    other.close()
    done = peekrank("log", "backup", str(tmp_path / "log.db"), str(tmp_path / "copy.db"))
    assert done.exit_code == 2
    assert "is damaged: record 20" in " ".join(done.output.split())
    assert (tmp_path / "copy.db").read_bytes() == b"of yesterday"


def test_exports_have_what_was_shown_and_answered(tmp_path: Path) -> None:
    it, clock = service(tmp_path, *ALL)
    put_some(it)
    live(it, clock, rounds=60)
    for slot in ALL:
        log = export_log(it._store, slot.name)
        counts = it._manager.slots[slot.name].state.activity.counts
        assert counts.n_answered < len(log.k) < counts.n_ranked
        for n, event in enumerate(log.events):
            rows = slice(log.offsets[n], log.offsets[n + 1])
            names = np.array(log.names)[log.item[rows]]
            told = it.event(event)
            assert names[np.argsort(log.position[rows])].tolist() == told.ranking
            answers = {name: None if np.isnan(a) else a for name, a in zip(names, log.feedback[rows], strict=True)}
            assert told.grades == {name: answers[name] for name in told.top_k}
            assert np.isclose(np.nansum(log.propensity[rows]), log.k[n])
        if slot.features:
            assert log.features is not None
            assert log.features.shape == (len(log.item), slot.d)
    it.close()


def test_exports_have_positions_as_the_app_showed_them(tmp_path: Path) -> None:
    it, _ = service(tmp_path)
    ranking = it.rank("home", RankRequest(event_id="e")).ranking
    other = [ranking[0], ranking[3], ranking[1], ranking[2]]
    it.feedback("e", FeedbackRequest([1, 0], shown=other[:2]))
    log = export_log(it._store, "home")
    it.close()
    names = np.array(log.names)[log.item]
    assert names[np.argsort(log.position)].tolist() == other
    told = dict(zip(names.tolist(), log.feedback.tolist(), strict=True))
    assert told[ranking[0]] == 1
    assert np.isnan([told[name] for name in ranking[1:]]).all()  # the second was not among the first two shown
    assert np.isclose(log.propensity.sum(), 2)


def test_items_shown_with_propensity_zero_cannot_be_evaluated(tmp_path: Path) -> None:
    it, _ = service(tmp_path, mode="shadow")
    it.rank("home", RankRequest(event_id="e", baseline=["a", "b", "c", "d"]))
    it.feedback("e", FeedbackRequest([1, 0], shown=["a", "d"]))
    log = export_log(it._store, "home")
    it.close()
    assert np.isnan(log.propensity).all()
    assert log.reasons == ("the app showed an item whose propensity was zero",)


def test_logs_and_snapshots_of_before_are_read_without_what_was_shown(tmp_path: Path) -> None:
    """Fields that were added at the end are missing in what an older version wrote."""
    answer = pack_grades([1, None])
    old = Record("home", 2, 0, RecordType.FEEDBACK, "e", msgspec.msgpack.encode([answer, False]))
    assert decode(old) == Feedback(answer, late=False, shown=b"")
    it, clock = service(tmp_path)
    live(it, clock, rounds=20)
    it.close()
    store = open_log(str(tmp_path / "log.db"))
    newest = store.snapshots("home")[0]
    parts = msgspec.msgpack.decode(newest.body)
    events, waiting, early = parts[5], parts[7][1], parts[7][5]
    assert events
    assert waiting
    for one in (*events, *waiting, *early):
        assert one.pop() == b""
    body = msgspec.msgpack.encode(parts)
    before = sealed(newest._replace(body=body))
    assert take_snapshot(restore(before)).body == newest.body
    changed(tmp_path / "log.db", "UPDATE snapshots SET body = ?, digest = ?", body, before.digest)
    assert audit_slot(open_log(str(tmp_path / "log.db")), "home").passed


def test_exports_of_several_learners(tmp_path: Path) -> None:
    it, clock = service(tmp_path)
    live(it, clock, rounds=10)
    it.close()
    it, clock = service(tmp_path, learner="thompson")
    live(it, clock, rounds=10, seed=1)
    it.close()
    out = tmp_path / "log.parquet"
    assert peekrank("log", "export", str(tmp_path / "log.db"), "home", str(out)).exit_code == 0
    log = read_log(out)
    assert [text.partition(":")[0] for text in log.learners] == ["doubtsort", "thompson"]
    assert len(set(log.events)) == len(log.events)
    assert "thompson cannot compute propensities" in log.reasons[1]


def test_commands_refuse_what_is_no_log(tmp_path: Path) -> None:
    log = str(tmp_path / "log.db")
    for arguments in (["audit", log], ["backup", log, "x.db"], ["export", log, "home", "x.parquet"]):
        assert "no such file" in refused("log", *arguments)
    it, _ = service(tmp_path, HOME)
    it.close()
    assert "has no slot 'hme': did you mean 'home'" in refused("log", "audit", log, "--slot", "hme")
    assert "each output needs its own file" in refused("log", "backup", log, log)
    assert "has no decision" in refused("log", "export", log, "home", str(tmp_path / "x.parquet"))
