"""A service in process: slots, a log, and one thread that writes.

    submit  ->  queue  ->  the writer takes all that waits (256 at most), does it in order, appends the records,
            <-  future     commits once, and only then lets callers know

Acknowledged means written. Should the log not take what was done, nobody is told that it was: memory is dropped
and folded from the log again, and until that has worked calls are refused with a reason.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import structlog

from peekrank.service.api import messages, problems
from peekrank.service.api.messages import EventReply, ItemsReply, RankReply, SlotReply, StatsReply
from peekrank.service.api.problems import Problem
from peekrank.service.config import Config
from peekrank.service.core.clock import Clock
from peekrank.service.core.commands import Activate, Command, PutItems, Rank, RetireItems, SubmitFeedback
from peekrank.service.core.slot_manager import SlotManager
from peekrank.service.core.slots import event_reply, items_reply, slot_reply
from peekrank.service.event_log.open import open_store
from peekrank.service.event_log.store import NotOwnerError, Store, StoreError

_log = structlog.get_logger()
_BATCH = 256  # calls that share a commit
_IDLE = 1.0  # seconds between looks at the clock
_FOLLOW = 0.25  # seconds between looks at what the owner has written, and at whether it is still there
_RETRY = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # seconds between attempts to reach the store


class _CloseDueEvents(NamedTuple):
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
    >>> from peekrank.service.api.messages import FeedbackRequest, RankRequest
    >>> folder = tempfile.TemporaryDirectory()
    >>> home = SlotConfig("home", learner="doubtsort", items=("tea", "milk", "juice"))
    >>> with Service(Config((home,), store=StoreConfig(f"{folder.name}/peekrank.db"))) as service:
    ...     shown = service.rank("home", RankRequest(event_id="visit-1"))
    ...     event = service.feedback("visit-1", FeedbackRequest({shown.top_k[0]: 1}))
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
        self._manager = SlotManager(config, self._clock, self._store)
        self._queue: SimpleQueue[_Waiting] = SimpleQueue()
        self._lock = threading.Lock()  # held while memory is ahead of the log: nobody reads then
        self._reason = "the service has not been started"
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._started = 0.0

    # Begin and end

    def start(self) -> None:
        """Own the log, fold it, and take calls. If another process owns it, follow, or raise a StoreError.

        A log in a database can be followed: everything can be looked at, and this process takes over when the
        other ends.
        """
        self._reason = "the log is being read"
        self._stopping.clear()
        try:
            self._become_owner()
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
        elif (waiting := self._queue.qsize()) >= self.config.limits.max_queue_length:
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
        reply: EventReply = self.submit(SubmitFeedback(event_id, request)).result()
        return reply

    def activate(self, event_id: str) -> EventReply:
        """Say that a deferred list is shown now."""
        reply: EventReply = self.submit(Activate(event_id)).result()
        return reply

    def put_items(self, slot: str, request: messages.ItemsRequest) -> messages.ChangedReply:
        """Register items, or replace their descriptions."""
        reply: messages.ChangedReply = self.submit(PutItems(slot, request)).result()
        return reply

    def retire_items(self, slot: str, ids: Sequence[str]) -> messages.ChangedReply:
        """Leave items out from now on."""
        reply: messages.ChangedReply = self.submit(RetireItems(slot, tuple(ids))).result()
        return reply

    def close_due_events(self) -> None:
        """Close what is due now, without waiting for the timer."""
        if self._reason:
            raise self._refusal()
        future: Future[Any] = Future()
        self._queue.put((_CloseDueEvents(), future))
        future.result()

    # Looks

    def unready_reason(self) -> str:
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
            slot, event = self._manager.known(event_id)
            return event_reply(slot.state, event)

    def slots(self) -> list[SlotReply]:
        """All slots, in the order of the configuration."""
        with self._lock:
            return [slot_reply(slot.state) for slot in self._manager.slots.values()]

    def slot(self, name: str) -> SlotReply:
        """A slot."""
        with self._lock:
            return slot_reply(self._manager.slot(name).state)

    def items(self, slot: str, *, after: str = "", limit: int = 100) -> ItemsReply:
        """Items of a slot in order of their ids, from the first after `after`."""
        with self._lock:
            return items_reply(self._manager.slot(slot).state, after, limit)

    def stats(self) -> StatsReply:
        """Where the log stands."""
        with self._lock:
            return StatsReply(
                role="follower" if self._manager.following else "owner",
                epoch=self._store.epoch,
                sequence=sum(slot.state.number for slot in self._manager.slots.values()),
                snapshot=sum(self._manager.snapshots.values()),
                queued=self._queue.qsize(),
                log_bytes=self._log_bytes(),
                started=self._started,
            )

    def _log_bytes(self) -> int:
        """0 while the log cannot be reached."""
        try:
            return self._store.size() if self.ready() else 0
        except StoreError:
            return 0

    # The writer

    def _run(self) -> None:
        while True:
            if self._reason and not self._stopping.is_set():
                self._recover()
            batch = self._next_batch()
            stop = bool(batch) and isinstance(batch[-1][0], _Stop)
            decides = bool(self._manager.slots) and not self._manager.following
            if decides:
                self._process_batch(batch[:-1] if stop else batch)
            else:
                self._refuse([future for _, future in batch])
            if stop:
                if decides:
                    self._keep_last_snapshots()
                return

    def _next_batch(self) -> list[_Waiting]:
        """All that waits, or nothing if an event is due before anything comes."""
        batch: list[_Waiting] = []
        try:
            batch.append(self._queue.get(timeout=self._manager.idle()))
            while len(batch) < _BATCH and not isinstance(batch[-1][0], _Stop):
                batch.append(self._queue.get_nowait())
        except Empty:
            pass
        return batch

    def _process_batch(self, batch: list[_Waiting]) -> None:
        """Do what was asked for, write it, and tell those who asked; all or nothing."""
        done: list[tuple[Future[Any], Any]] = []
        with self._lock:
            try:
                if self._store.epoch == 0:
                    raise NotOwnerError("the connection that owned the log was lost")
                self._manager.begin()
                for command, future in batch:
                    done.append((future, self._outcome(command)))
                self._manager.commit()
            except Exception as error:
                self._discard_state(error)
                self._refuse([future for _, future in batch], error)
                return
        for future, outcome in done:
            _resolve(future, outcome)
        try:
            self._manager.keep_snapshots(self.config.store.snapshot_every)
        except StoreError as error:
            self._discard_state(error)

    def _outcome(self, command: Any) -> Any:
        """The result of a command: a reply or a problem. Anything else that is raised is a fault of ours."""
        try:
            return None if isinstance(command, _CloseDueEvents) else self._manager.do(command)
        except Problem as problem:
            return problem

    # The store fails, and comes back

    def _discard_state(self, error: Exception) -> None:
        """Forget what may be ahead of the log."""
        self._manager.drop()
        if isinstance(error, StoreError):
            self._reason = f"the log cannot be written: {error}"
            _log.error("store failed", reason=str(error))
        else:
            self._reason = "a call failed in a way that it should not; the log is read again"
            _log.exception("internal error")

    def _recover(self) -> None:
        """SlotState the log again as soon as it can be read; follow it as long as another process owns it."""
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
            except (StoreError, ValueError) as error:
                self._manager.drop()
                self._reason = f"the log cannot be read: {error}"
            if not self._reason:
                _log.info("recovered", attempts=attempt + 1, epoch=self._store.epoch)
                return
            self._refuse_rest()
            if self._stopping.wait(pause):
                return

    def _become_owner(self) -> None:
        """Become the owner, fold what is missing, and take calls."""
        self._store.acquire()
        with self._lock:
            self._manager.load()
        self._reason = ""

    def _follow(self) -> None:
        """Take in what the owner has written since the last look."""
        with self._lock:
            self._manager.follow()
        self._reason = "another process owns the log; this one follows, and would take over"

    def _keep_last_snapshots(self) -> None:
        try:
            self._manager.keep_snapshots(every=1)
        except StoreError as error:  # the next start has more to state, and that is all
            _log.warning("final snapshot failed", reason=str(error))

    def _refuse(self, futures: Sequence[Future[Any]], error: Exception | None = None) -> None:
        problem = problems.store_failed(str(error)) if error else self._refusal()
        for future in futures:
            _resolve(future, problem)

    def _refusal(self) -> Problem:
        return problems.not_owner() if self._manager.following else problems.not_ready(self._reason)

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


def _resolve(future: Future[Any], outcome: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return  # whoever asked has gone; what was done is in the log
    if isinstance(outcome, Problem):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
