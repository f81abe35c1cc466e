"""A service in process: slots, a log, and one thread that writes.

    submit  ->  queue  ->  the writer takes all that waits (256 at most), does it in order, appends the records,
            <-  future     commits once, and only then lets callers know

Acknowledged means written. Should the log not take what was done, nobody is told that it was: memory is dropped
and folded from the log anew, and until that has worked calls are refused with a reason.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import structlog

from peekrank.service import messages, problems
from peekrank.service.clock import SECOND, Clock
from peekrank.service.commands import Activate, Answer, Command, PutItems, Rank, RetireItems
from peekrank.service.config import Config
from peekrank.service.fold import Event, Fold
from peekrank.service.log.open import open_store
from peekrank.service.log.records import Feedback, Ranked, Record, Settings, decode
from peekrank.service.log.store import NotOwnerError, Store, StoreError
from peekrank.service.messages import EventReply, ItemsReply, RankReply, SlotReply, StatsReply
from peekrank.service.problems import Problem
from peekrank.service.slots import Slot, event_reply, items_reply, slot_reply
from peekrank.service.snapshots import folded, followed, taken

_log = structlog.get_logger()
_BATCH = 256  # calls that share a commit
_IDLE = 1.0  # seconds between looks at the clock
_FOLLOW = 0.25  # seconds between looks at what the owner has written, and at whether it is still there
_RETRY = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # seconds between attempts to reach the store


class _Settle(NamedTuple):
    """Close what is due."""


class _Stop(NamedTuple):
    """Come to an end."""


_Waiting = tuple[Any, "Future[Any]"]


class Service:
    """Ranks lists and learns from answers, in a log that loses nothing.

    Parameters
    ----------
    config
        The service.
    clock
        Seconds since 1970.
    store
        The log; None: the one of the configuration.

    >>> import tempfile
    >>> from peekrank.service.config import SlotConfig, StoreConfig
    >>> from peekrank.service.messages import FeedbackRequest, RankRequest
    >>> folder = tempfile.TemporaryDirectory()
    >>> home = SlotConfig("home", learner="doubtsort", items=("tea", "milk", "juice"))
    >>> with Service(Config((home,), store=StoreConfig(f"{folder.name}/peekrank.db"))) as service:
    ...     shown = service.rank("home", RankRequest(event_id="visit-1"))
    ...     event = service.feedback("visit-1", FeedbackRequest({shown.ask[0]: 1}))
    >>> len(shown.ranking), event.state, event.learned
    (3, 'answered', True)
    >>> folder.cleanup()
    """

    def __init__(
        self, config: Config, *, clock: Callable[[], float] = time.time, store: Store | None = None
    ) -> None:
        self.config = config
        self._clock = Clock(clock)
        self._store = store or open_store(config.store, [slot.name for slot in config.slots])
        self._slots: dict[str, Slot] = {}
        self._snapshots: dict[str, int] = {}  # numbers of the latest ones
        self._queue: SimpleQueue[_Waiting] = SimpleQueue()
        self._lock = threading.Lock()  # held while memory is ahead of the log: nobody reads then
        self._reason = "the service has not been started"
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._started = 0.0
        self._following = False  # another process owns the log, and this one reads along

    # Begin and end

    def start(self) -> None:
        """Own the log, fold it, and take calls. If another process owns it, follow, or raise a StoreError.

        A log in a database can be followed: everything can be looked at, and this process takes over when the
        other ends.
        """
        self._reason = "the log is being read"
        self._stopping.clear()
        try:
            self._own()
        except NotOwnerError:
            if not self._store.shared:
                raise
            self._follow()
        except BaseException:
            self._store.close()
            raise
        self._started = time.time()
        self._thread = threading.Thread(target=self._run, name="peekrank-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Do what was submitted, take snapshots, and let go of the log."""
        if self._thread is None:
            return
        self._reason = "the service is stopping"
        self._stopping.set()
        self._queue.put((_Stop(), Future()))
        self._thread.join()
        self._thread = None
        self._refuse_rest()
        self._store.close()

    def __enter__(self) -> Service:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Calls

    def submit(self, command: Command) -> Future[Any]:
        """Have a command done; the result is there once it is in the log, or a `Problem` as an exception."""
        future: Future[Any] = Future()
        if self._reason:
            future.set_exception(self._refusal())
        elif (waiting := self._queue.qsize()) >= self.config.limits.queue:
            future.set_exception(problems.overloaded(waiting))
        else:
            self._queue.put((command, future))
        return future

    def rank(self, slot: str, request: messages.RankRequest) -> RankReply:
        """Rank a list."""
        reply: RankReply = self.submit(Rank(slot, request)).result()
        return reply

    def feedback(self, event_id: str, request: messages.FeedbackRequest) -> EventReply:
        """Tell the answers to an event."""
        reply: EventReply = self.submit(Answer(event_id, request)).result()
        return reply

    def activate(self, event_id: str) -> EventReply:
        """Say that a deferred list is shown now."""
        reply: EventReply = self.submit(Activate(event_id)).result()
        return reply

    def put_items(self, slot: str, request: messages.ItemsRequest) -> messages.ChangedReply:
        """Register items, or describe them anew."""
        reply: messages.ChangedReply = self.submit(PutItems(slot, request)).result()
        return reply

    def retire_items(self, slot: str, ids: Sequence[str]) -> messages.ChangedReply:
        """Leave items out from now on."""
        reply: messages.ChangedReply = self.submit(RetireItems(slot, tuple(ids))).result()
        return reply

    def settle(self) -> None:
        """Close what is due now, without waiting for the timer."""
        if self._reason:
            raise self._refusal()
        future: Future[Any] = Future()
        self._queue.put((_Settle(), future))
        future.result()

    # Looks

    def not_ready(self) -> str:
        """Why calls are not answered at present; empty if they are."""
        return self._reason

    def ready(self) -> bool:
        """Whether calls are answered."""
        return not self._reason

    def live(self) -> bool:
        """Whether the thread that writes is there."""
        return self._thread is not None and self._thread.is_alive()

    def event(self, event_id: str) -> EventReply:
        """An event as it stands."""
        with self._lock:
            slot, event = self._known(event_id)
            return event_reply(slot.fold, event)

    def slots(self) -> list[SlotReply]:
        """All slots, in the order of the configuration."""
        with self._lock:
            return [slot_reply(slot.fold) for slot in self._slots.values()]

    def slot(self, name: str) -> SlotReply:
        """A slot."""
        with self._lock:
            return slot_reply(self._slot(name).fold)

    def items(self, slot: str, *, after: str = "", limit: int = 100) -> ItemsReply:
        """Items of a slot in order of their ids, from the first after `after`."""
        with self._lock:
            return items_reply(self._slot(slot).fold, after, limit)

    def stats(self) -> StatsReply:
        """Where the log stands."""
        with self._lock:
            return StatsReply(
                role="follower" if self._following else "owner",
                epoch=self._store.epoch,
                sequence=sum(slot.fold.number for slot in self._slots.values()),
                snapshot=sum(self._snapshots.values()),
                queued=self._queue.qsize(),
                log_bytes=self._store.size() if self.ready() else 0,
                started=self._started,
            )

    # The writer

    def _run(self) -> None:
        while True:
            if self._reason and not self._stopping.is_set():
                self._recover()
            batch = self._take()
            stop = bool(batch) and isinstance(batch[-1][0], _Stop)
            decides = bool(self._slots) and not self._following
            if decides:
                self._work(batch[:-1] if stop else batch)
            else:
                self._refuse([future for _, future in batch])
            if stop:
                if decides:
                    self._keep_last_snapshots()
                return

    def _take(self) -> list[_Waiting]:
        """All that waits, or nothing if an event is due before anything comes."""
        batch: list[_Waiting] = []
        try:
            batch.append(self._queue.get(timeout=self._idle()))
            while len(batch) < _BATCH and not isinstance(batch[-1][0], _Stop):
                batch.append(self._queue.get_nowait())
        except Empty:
            pass
        return batch

    def _idle(self) -> float:
        """Seconds until the next event is due."""
        oldest = [(slot.fold, next(iter(slot.fold.open.values()), None)) for slot in self._slots.values()]
        times = [fold.deadline(event) for fold, event in oldest if event is not None]
        left = (min(times) - self._clock.now()) / SECOND if times else _IDLE
        return min(_IDLE, max(0.0, left))

    def _work(self, batch: list[_Waiting]) -> None:
        """Do what was asked for, write it, and tell those who asked; all or nothing."""
        done: list[tuple[Future[Any], Any]] = []
        with self._lock:
            try:
                self._begin()
                for command, future in batch:
                    done.append((future, self._outcome(command)))
                self._commit()
            except Exception as error:
                self._drop(error)
                self._refuse([future for _, future in batch], error)
                return
        for future, outcome in done:
            _tell(future, outcome)
        try:
            self._keep_snapshots(self.config.store.snapshot_every)
        except StoreError as error:
            self._drop(error)

    def _begin(self) -> None:
        """Go on to the present, and close what is due: an answer that comes after that is late."""
        now = self._clock.now()
        for slot in self._slots.values():
            slot.now = now
            for event in slot.fold.due(now):
                slot.close(event)

    def _commit(self) -> None:
        written: list[Record] = []
        for slot in self._slots.values():
            if slot.written:
                written += slot.written
                slot.written = []
        if written:
            self._store.append(written)

    def _outcome(self, command: Any) -> Any:
        """What a command comes to: a reply or a problem. Anything else that is raised is a fault of ours."""
        try:
            return self._do(command)
        except Problem as problem:
            return problem

    def _do(self, command: Any) -> Any:
        if isinstance(command, Rank):
            return self._rank(command)
        if isinstance(command, Answer):
            slot, event = self._known(command.event_id)
            return slot.answer(event, command.request)
        if isinstance(command, Activate):
            slot, event = self._known(command.event_id)
            return slot.activate(event)
        if isinstance(command, PutItems):
            return self._slot(command.slot).put_items(command.request)
        if isinstance(command, RetireItems):
            return self._slot(command.slot).retire_items(command.ids)
        return None

    def _rank(self, command: Rank) -> RankReply:
        slot, request = self._slot(command.slot), command.request
        known = self._find(request.event_id) if request.event_id is not None else None
        if known is None:
            return slot.rank(request)
        if known[0] is not slot:
            raise problems.other_request(known[1].id)
        return slot.again(known[1], request)

    def _slot(self, name: str) -> Slot:
        if name not in self._slots:
            raise problems.unknown_slot(name, self._slots)
        return self._slots[name]

    def _known(self, event_id: str) -> tuple[Slot, Event]:
        found = self._find(event_id)
        if found is None:
            raise problems.unknown_event(event_id)
        return found

    def _find(self, event_id: str) -> tuple[Slot, Event] | None:
        """An event and its slot, from memory or, if it was closed long ago, from the log."""
        for slot in self._slots.values():
            if event := slot.fold.open.get(event_id) or slot.fold.recent.get(event_id):
                return slot, event
        records = self._store.of_event(event_id)
        if not records or records[0].slot not in self._slots:
            return None
        event = closed_event(records)
        return None if event is None else (self._slots[records[0].slot], event)

    # The store fails, and comes back

    def _drop(self, error: Exception) -> None:
        """Forget what may be ahead of the log."""
        self._slots, self._snapshots = {}, {}
        if isinstance(error, StoreError):
            self._reason = f"the log cannot be written: {error}"
            _log.error("store failed", reason=str(error))
        else:
            self._reason = "a call failed in a way that it should not; the log is read again"
            _log.exception("fault")

    def _recover(self) -> None:
        """Fold the log anew, as soon as it can be had; read along as long as another process owns it."""
        for attempt in range(1_000_000_000):
            pause = _RETRY[min(attempt, len(_RETRY) - 1)]
            try:
                try:
                    self._own()
                except NotOwnerError:
                    if not self._store.shared:
                        raise
                    self._follow()
                    pause = _FOLLOW
            except (StoreError, ValueError) as error:
                self._slots, self._following = {}, False
                self._reason = f"the log cannot be read: {error}"
            if not self._reason:
                _log.info("recovered", attempts=attempt + 1, epoch=self._store.epoch)
                return
            self._refuse_rest()
            if self._stopping.wait(pause):
                return

    def _own(self) -> None:
        """Become the owner, fold what is missing, and take calls."""
        self._store.acquire()
        with self._lock:
            self._load()
        self._following, self._reason = False, ""

    def _follow(self) -> None:
        """Take in what the owner has written since the last look."""
        with self._lock:
            for config in self.config.slots:
                fold = self._fold(config.name)
                if fold.settings is not None:  # else the owner does not have this slot yet
                    self._slots[config.name] = Slot(fold, self.config.limits)
        if not self._following:
            _log.info("following", slots=list(self._slots))
        self._following, self._reason = True, "another process owns the log; this one follows, and would take over"

    def _fold(self, name: str) -> Fold:
        """A slot as the log has it now: what was followed goes on, anything else is folded anew."""
        if self._following and name in self._slots:
            return followed(self._store, self._slots[name].fold)
        fold, passed = folded(self._store, name)
        for reason in passed:
            _log.warning("snapshot passed over", reason=reason)
        return fold

    def _load(self) -> None:
        """Fold the log of each slot, and write down what is configured otherwise now."""
        slots: dict[str, Slot] = {}
        for config in self.config.slots:
            fold = self._fold(config.name)
            self._clock.not_before(fold.time)
            slot = slots[config.name] = Slot(fold, self.config.limits)
            before = fold.settings
            if before is None or before.config != config:
                slot.now = self._clock.now()
                slot.write(None, Settings(config, config.seed or (before.key if before else secrets.randbits(63))))
            self._snapshots[config.name] = fold.number
        if written := [record for slot in slots.values() for record in slot.written]:
            self._store.append(written)
            for slot in slots.values():
                slot.written = []
        self._slots = slots

    def _keep_snapshots(self, every: int) -> None:
        for name, slot in self._slots.items():
            if slot.fold.number - self._snapshots[name] >= every:
                self._store.keep_snapshot(taken(slot.fold))
                self._snapshots[name] = slot.fold.number
                self._forget(slot)

    def _keep_last_snapshots(self) -> None:
        try:
            self._keep_snapshots(every=1)
        except StoreError as error:  # the next start has more to fold, and that is all
            _log.warning("no snapshot at the end", reason=str(error))

    def _forget(self, slot: Slot) -> None:
        """Delete records that are old enough, and behind the snapshot before the latest."""
        keep, kept = self.config.store.keep, self._store.snapshots(slot.fold.slot)
        if keep and len(kept) > 1:
            before = self._clock.now() - int(max(keep, slot.fold.config.wait) * SECOND)
            while self._store.forget(slot.fold.slot, kept[-1].number, before):
                pass

    def _refuse(self, futures: Sequence[Future[Any]], error: Exception | None = None) -> None:
        problem = problems.store_failed(str(error)) if error else self._refusal()
        for future in futures:
            _tell(future, problem)

    def _refusal(self) -> Problem:
        return problems.not_owner() if self._following else problems.not_ready(self._reason)

    def _refuse_rest(self) -> None:
        while True:
            try:
                command, future = self._queue.get_nowait()
            except Empty:
                return
            if isinstance(command, _Stop):
                self._queue.put((command, future))
                return
            self._refuse([future])


def _tell(future: Future[Any], outcome: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return  # whoever asked has gone; what was done is in the log
    if isinstance(outcome, Problem):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def closed_event(records: Sequence[Record]) -> Event | None:
    """An event from its records, once it is closed: answered if anything was answered in time."""
    first = decode(records[0])
    if not isinstance(first, Ranked):
        return None  # what came before was forgotten
    said = [body for record in records if isinstance(body := decode(record), Feedback)]
    answers = [body.answer for body in said if not body.late]
    return Event(
        str(records[0].event),
        records[0].number,
        records[0].time,
        "answered" if answers else "expired",
        first,
        answers=answers,
        late=[body.answer for body in said if body.late],
        learned=bool(answers),
    )
