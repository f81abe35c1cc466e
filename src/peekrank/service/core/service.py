"""A service in process: slots, a log, and one thread that writes.

    submit  ->  queue  ->  the writer takes a batch (at most 256 commands), runs it in order, and commits once
            <-  future     resolves after the commit

The service acknowledges a call only after writing it. If the log cannot be written, the callers get an error. The
service then discards its state, replays the log, and rejects calls until that has worked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

import structlog

from peekrank.service.api import messages, problems
from peekrank.service.api.messages import EventReply, ItemsReply, RankReply, SlotReply, StatsReply
from peekrank.service.api.problems import Problem
from peekrank.service.config import Config
from peekrank.service.core.clock import Clock
from peekrank.service.core.commands import (
    Activate,
    CloseDueEvents,
    Command,
    PutItems,
    Rank,
    RetireItems,
    SubmitFeedback,
)
from peekrank.service.core.details import Details, details
from peekrank.service.core.reload import Reload
from peekrank.service.core.replies import event_reply, items_reply, slot_reply
from peekrank.service.core.slot_manager import SlotManager
from peekrank.service.event_log.open import open_store
from peekrank.service.event_log.store import NotOwnerError, Store, StoreError

_log = structlog.get_logger()
_BATCH = 256  # commands that share a commit
_FOLLOW = 0.25  # seconds between looks at the log of another owner
_RETRY = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # seconds between attempts to reach the store

Result = TypeVar("Result")


class _Stop(NamedTuple):
    """The last command: it stops the writer."""


_Queued = tuple[Any, "Future[Any]"]


class Service:
    """Ranks lists and learns from feedback. Its log is the only durable state.

    Parameters
    ----------
    config
        Configuration of the service.
    clock
        Returns seconds since 1970. The default is the system's clock, whose jumps the service notices.
    store
        The log. By default, the configured one.

    >>> import tempfile
    >>> from peekrank.service.api.messages import FeedbackRequest, RankRequest
    >>> from peekrank.service.config import SlotConfig, StoreConfig
    >>> folder = tempfile.TemporaryDirectory()
    >>> home = SlotConfig("home", learner="doubtsort", items=("tea", "milk", "juice"))
    >>> with Service(Config((home,), store=StoreConfig(f"{folder.name}/peekrank.db"))) as service:
    ...     reply = service.rank("home", RankRequest(event_id="visit-1"))
    ...     event = service.feedback("visit-1", FeedbackRequest({reply.top_k[0]: 1}))
    >>> len(reply.ranking), event.state, event.learned
    (3, 'answered', True)
    >>> folder.cleanup()
    """

    def __init__(
        self, config: Config, *, clock: Callable[[], float] = time.time, store: Store | None = None
    ) -> None:
        self._clock = Clock(clock, time.monotonic if clock is time.time else None)
        self._store = store or open_store(config.store, [slot.name for slot in config.slots])
        self._manager = SlotManager(config, self._clock, self._store)
        self._queue: SimpleQueue[_Queued] = SimpleQueue()
        self._lock = threading.Lock()  # held while the slots are ahead of the log
        self._reason = "the service has not been started"
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._started = 0.0

    @property
    def config(self) -> Config:
        """The configuration."""
        return self._manager.config

    # Start and stop

    def start(self) -> None:
        """Acquire the log, replay it, and take calls.

        If another process owns a log in a database, this one follows: it serves reads, and takes over when the
        owner ends. Raises StoreError if the log is a file that another process owns.
        """
        self._reason = "the log is being read"
        self._stopping.clear()
        self._closed = False
        try:
            self._become_owner()
        except NotOwnerError:
            if not self._store.shared:
                raise
            self._follow()
        except BaseException:
            self._closed = True
            self._store.close()
            raise
        self._started = time.time()
        self._thread = threading.Thread(target=self._run, name="peekrank-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Run the queued commands, save snapshots, and release the log."""
        self._closed = True
        if self._thread is None:
            return
        self._reason = "the service is stopping"
        self._stopping.set()
        self._queue.put((_Stop(), Future()))
        self._thread.join()
        self._thread = None
        self._reject_queue()
        self._store.close()

    def __enter__(self) -> Service:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Calls

    def submit(self, command: Command[Result]) -> Future[Result]:
        """Queue a command. The future resolves once it is in the log; a `Problem` is its exception."""
        future: Future[Result] = Future()
        if self._reason:
            future.set_exception(self._rejection())
        elif (length := self._queue.qsize()) >= self.config.limits.max_queue_length:
            future.set_exception(problems.overloaded(length))
        else:
            self._queue.put((command, future))
        return future

    def rank(self, slot: str, request: messages.RankRequest) -> RankReply:
        """Rank a list."""
        return self.submit(Rank(slot, request)).result()

    def feedback(self, event_id: str, request: messages.FeedbackRequest) -> EventReply:
        """Submit feedback on an event."""
        return self.submit(SubmitFeedback(event_id, request)).result()

    def activate(self, event_id: str) -> EventReply:
        """Report that a deferred list is now shown."""
        return self.submit(Activate(event_id)).result()

    def put_items(self, slot: str, request: messages.ItemsRequest) -> messages.ChangedReply:
        """Register items, or replace their features."""
        return self.submit(PutItems(slot, request)).result()

    def retire_items(self, slot: str, ids: Sequence[str]) -> messages.ChangedReply:
        """Retire items: the service no longer ranks them."""
        return self.submit(RetireItems(slot, tuple(ids))).result()

    def reload(self, config: Config) -> list[str]:
        """Change the configuration, without a restart. Returns a line for each field that changed.

        Raises a `Problem` that names the fields which need a restart; then nothing changes.
        """
        with self._lock:
            if self._manager.following:
                return self._manager.reload(config)
        return self.submit(Reload(config)).result()

    def close_due_events(self) -> None:
        """Close the events whose feedback window is over now, without waiting for the timer."""
        self.submit(CloseDueEvents()).result()

    # Reads

    def unready_reason(self) -> str:
        """Return why the service does not take calls, or an empty text."""
        return self._reason

    def ready(self) -> bool:
        """Check whether the service takes calls."""
        return not self._reason

    def live(self) -> bool:
        """Check whether the writer runs, or has not been started yet."""
        return not self._closed and (self._thread is None or self._thread.is_alive())

    def event(self, event_id: str, visible: Collection[str] = ()) -> EventReply:
        """Return an event of one of some slots, by default of any slot."""
        with self._lock:
            slot, event = self._manager.event(event_id, visible)
            return event_reply(slot.state, event)

    def slots(self) -> list[SlotReply]:
        """Return all slots, in the order of the configuration."""
        with self._lock:
            return [slot_reply(slot.state) for slot in self._manager.slots.values()]

    def slot(self, name: str) -> SlotReply:
        """Return a slot."""
        with self._lock:
            return slot_reply(self._manager.slot(name).state)

    def details(self, slot: str, key: str | None = None) -> Details:
        """Return details of a slot, with its ranking for a key."""
        with self._lock:
            return details(self._manager.slot(slot).state, key)

    def items(self, slot: str, *, after: str = "", limit: int = 100) -> ItemsReply:
        """Return one page of the items of a slot, sorted by id, from the first after `after`."""
        with self._lock:
            return items_reply(self._manager.slot(slot).state, after, limit)

    def secret(self) -> bytes:
        """Return the key of the hashes of texts. Raises StoreError if the store fails."""
        return self._store.secret()

    def stats(self) -> StatsReply:
        """Return the state of the service and of its log."""
        with self._lock:
            return StatsReply(
                role="follower" if self._manager.following else "owner",
                epoch=self._store.epoch,
                sequence=sum(slot.state.number for slot in self._manager.slots.values()),
                lag=self._lag(),
                snapshot=sum(self._manager.snapshots.values()),
                queued=self._queue.qsize(),
                log_bytes=self._log_bytes(),
                started=self._started,
            )

    def _lag(self) -> int | None:
        """Return the number of records that this process has not applied, or None while the log cannot be read."""
        if not self._manager.following:
            return 0  # an owner applies records before it writes them
        try:
            heads = self._store.heads()
        except StoreError:
            return None
        known = {name: slot.state.number for name, slot in self._manager.slots.items()}
        names = [
            slot.name for slot in self.config.slots if slot.name in heads
        ]  # the owner may not have them all yet
        return sum(max(heads[name].last - known.get(name, 0), 0) for name in names)

    def _log_bytes(self) -> int:
        """Return the size of the log, or 0 while it cannot be reached."""
        try:
            return self._store.size() if self.ready() else 0
        except StoreError:
            return 0

    # The writer

    def _run(self) -> None:
        stop = False
        while not stop:
            batch: list[_Queued] = []
            try:
                if self._reason and not self._stopping.is_set():
                    self._recover()
                batch = self._next_batch()
                stop = bool(batch) and isinstance(batch[-1][0], _Stop)
                self._process(batch[:-1] if stop else batch, stop=stop)
            except Exception as error:  # the writer survives every error
                self._discard_state(error)
                self._reject([future for _, future in batch], error)

    def _process(self, batch: list[_Queued], *, stop: bool) -> None:
        """Process a batch if this process owns the log, else reject it."""
        if not self._manager.slots or self._manager.following:
            self._reject([future for _, future in batch])
            return
        self._process_batch(batch)
        if stop:
            self._save_final_snapshots()

    def _next_batch(self) -> list[_Queued]:
        """Take all queued commands. Returns none if an event is due before a command arrives."""
        batch: list[_Queued] = []
        try:
            batch.append(self._queue.get(timeout=self._manager.idle()))
            while len(batch) < _BATCH and not isinstance(batch[-1][0], _Stop):
                batch.append(self._queue.get_nowait())
        except Empty:
            pass
        return batch

    def _process_batch(self, batch: list[_Queued]) -> None:
        """Run every command, commit once, then resolve the futures. All or nothing."""
        results: list[tuple[Future[Any], Any]] = []
        with self._lock:
            try:
                if self._store.epoch == 0:
                    raise NotOwnerError("the connection that owned the log was lost")
                self._manager.begin()
                for command, future in batch:
                    results.append((future, self._result(command)))
                self._manager.commit()
            except Exception as error:
                self._discard_state(error)
                self._reject([future for _, future in batch], error)
                return
        for future, result in results:
            _resolve(future, result)
        try:
            self._manager.save_snapshots(self.config.store.snapshot_every)
        except Exception as error:
            self._discard_state(error)

    def _result(self, command: Command[Any]) -> Any:
        """Run a command. Returns its reply or its `Problem`; any other exception is an internal error."""
        try:
            return command.run(self._manager)
        except Problem as problem:
            return problem

    # Recovery

    def _discard_state(self, error: Exception) -> None:
        """Discard the state, which may be ahead of the log."""
        self._manager.discard()
        if isinstance(error, StoreError):
            self._reason = "the log cannot be written"
            _log.error("store failed", reason=str(error))
        else:
            self._reason = "a call failed unexpectedly; the log is being read again"
            _log.exception("internal error")

    def _recover(self) -> None:
        """Replay the log as soon as it can be read. Follow it while another process owns it."""
        for attempt in range(1_000_000_000):
            pause = _RETRY[min(attempt, len(_RETRY) - 1)]
            try:
                try:
                    self._become_owner()
                except NotOwnerError:
                    if not self._store.shared:
                        raise
                    self._follow()
                    pause = _FOLLOW
            except Exception as error:
                self._manager.discard()
                self._reason = "the log cannot be read"
                if not isinstance(error, StoreError | ValueError):
                    _log.exception("internal error")
                elif attempt == 0:
                    _log.error("log cannot be read", reason=str(error))
            if not self._reason:
                _log.info("recovered", attempts=attempt + 1, epoch=self._store.epoch)
                return
            self._reject_queue()
            if self._stopping.wait(pause):
                return

    def _become_owner(self) -> None:
        """Acquire the log, replay it, and take calls."""
        self._store.acquire()
        with self._lock:
            self._manager.load()
        self._reason = ""

    def _follow(self) -> None:
        """Apply the records that the owner has written since the last look."""
        with self._lock:
            self._manager.follow()
        self._reason = "another process owns the log; this one is on standby"

    def _save_final_snapshots(self) -> None:
        try:
            self._manager.save_snapshots(every=1)
        except Exception as error:  # harmless: the next start replays more records
            _log.warning("final snapshot failed", reason=str(error))

    def _reject(self, futures: Sequence[Future[Any]], error: Exception | None = None) -> None:
        problem = problems.store_failed() if error else self._rejection()
        for future in futures:
            _resolve(future, problem)

    def _rejection(self) -> Problem:
        return problems.not_owner() if self._manager.following else problems.not_ready(self._reason)

    def _reject_queue(self) -> None:
        while True:
            try:
                command, future = self._queue.get_nowait()
            except Empty:
                return
            if isinstance(command, _Stop):
                self._queue.put((command, future))
                return
            self._reject([future])


def _resolve(future: Future[Any], result: Any) -> None:
    if future.done() or not future.set_running_or_notify_cancel():
        return  # the caller is gone; the log has the result
    if isinstance(result, Problem):
        future.set_exception(result)
    else:
        future.set_result(result)
