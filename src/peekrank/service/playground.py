"""A service to look at: simulated visitors, in a time that runs sixty times as fast, in a folder that goes away.

Visitors of an app against stress see ten exercises in the order that the service chooses, and some of them say
whether the first one helped. Nobody has told the service what helps; the board shows how it finds out.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import numpy as np

from peekrank.service.api.messages import FeedbackRequest, RankReply, RankRequest
from peekrank.service.config import Config, ServerConfig, SlotConfig, StoreConfig
from peekrank.service.core.commands import Rank, SubmitFeedback
from peekrank.service.core.service import Service

SLOT = "exercises"
SPEED = 60  # seconds of the playground in one of ours
BANNER = (
    "Playground: visitors are simulated, and a minute passes every second. Nobody has told the service what "
    "helps them; they are asked about the first exercise only, and two in five answer."
)
# How many of a hundred visitors each exercise helps
TASTES = {
    "body scan": 20,
    "breathing": 50,
    "cold shower": 5,
    "colouring": 15,
    "diary": 10,
    "meditation": 25,
    "music": 85,
    "stretching": 55,
    "talking": 60,
    "walk": 70,
}
_PER_SECOND = 2.0  # visitors, in the playground's time
_ANSWERS = 0.4  # of all visitors
_HESITATES = 40.0  # seconds that an answer takes on average
_TICK = 0.05  # seconds of ours


def playground_config(folder: Path, port: int) -> Config:
    """A service with one slot, on this machine."""
    slot = SlotConfig(
        SLOT, learner="doubtsort", measure="dcg", k=1, items=tuple(TASTES), feedback_window=300.0, seed=1
    )
    store = StoreConfig(path=str(folder / "playground.db"), synchronous="normal")
    return Config((slot,), ServerConfig(port=port), store)


def fast_clock(speed: float = SPEED) -> Callable[[], float]:
    """A clock that starts at the present and runs faster."""
    begin, since = time.time(), time.monotonic()
    return lambda: begin + speed * (time.monotonic() - since)


class Visitors:
    """People who come, look, and sometimes answer, until told to stop.

    Parameters
    ----------
    service
        What they visit.
    clock
        Its time.
    seed
        Randomness of who comes, what they like and whether they answer.
    """

    def __init__(self, service: Service, clock: Callable[[], float], seed: int = 0) -> None:
        self._service, self._clock = service, clock
        self._rng = np.random.default_rng(seed)
        self._answers: list[tuple[float, str, float]] = []  # when, to which event, which grade
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="visitors", daemon=True)

    def start(self) -> None:
        """Let them come."""
        self._thread.start()

    def stop(self) -> None:
        """Send them home."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        last = self._clock()
        while not self._stopped.wait(_TICK):
            now = self._clock()
            if not self._service.unready_reason():
                passed = min(now - last, 4 * _TICK * SPEED)  # after a standstill, not everybody comes at once
                for _ in range(self._rng.poisson(_PER_SECOND * passed)):
                    self._service.submit(Rank(SLOT, RankRequest())).add_done_callback(self._look)
                self._tell(now)
            last = now

    def _look(self, done: Future[RankReply]) -> None:
        """See a list, which the service's thread hands over, and perhaps decide to answer later."""
        if done.cancelled() or done.exception() is not None:
            return
        shown = done.result()
        with self._lock:
            answers, likes = self._rng.random(2)
            when = self._clock() + self._rng.exponential(_HESITATES)
            if answers < _ANSWERS:
                grade = float(100 * likes < TASTES[shown.top_k[0]])
                heapq.heappush(self._answers, (when, shown.event_id, grade))

    def _tell(self, now: float) -> None:
        """Give the answers whose time has come; some come too late."""
        with self._lock:
            while self._answers and self._answers[0][0] <= now:
                _, event_id, grade = heapq.heappop(self._answers)
                self._service.submit(SubmitFeedback(event_id, FeedbackRequest([grade])))
