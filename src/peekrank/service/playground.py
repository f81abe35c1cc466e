"""The playground: a service with simulated visitors, in a temporary folder, with time sixty times as fast.

Visitors of a stress-relief app see ten exercises in the order that the service chooses. Some of them report
whether the first one helped. The service starts without knowledge, and the dashboard shows how it learns.
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
SPEED = 60  # simulated seconds per second
BANNER = (
    "Playground: visitors are simulated, and a minute passes every second. The service starts without knowing "
    "which exercises help. It asks each visitor about the first exercise only, and two in five answer."
)
# Percentage of visitors that each exercise helps
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
_ARRIVALS = 2.0  # visitors per simulated second
_RESPONSE_RATE = 0.4
_DELAY = 40.0  # mean simulated seconds until an answer
_TICK = 0.05  # real seconds


def playground_config(folder: Path, port: int) -> Config:
    """Configure a service with one slot, on this machine."""
    slot = SlotConfig(
        SLOT, learner="doubtsort", measure="dcg", k=1, items=tuple(TASTES), feedback_window=300.0, seed=1
    )
    store = StoreConfig(path=str(folder / "playground.db"), synchronous="normal")
    return Config((slot,), ServerConfig(port=port), store)


def fast_clock(speed: float = SPEED) -> Callable[[], float]:
    """Return a clock that starts now and runs faster."""
    start, reference = time.time(), time.monotonic()
    return lambda: start + speed * (time.monotonic() - reference)


class Visitors:
    """Simulated visitors, who sometimes answer.

    Parameters
    ----------
    service
        The service.
    clock
        The service's time.
    seed
        Random seed.
    """

    def __init__(self, service: Service, clock: Callable[[], float], seed: int = 0) -> None:
        self._service, self._clock = service, clock
        self._rng = np.random.default_rng(seed)
        self._answers: list[tuple[float, str, float]] = []  # time, event and grade
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="visitors", daemon=True)

    def start(self) -> None:
        """Start the visits."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the visits."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        last = self._clock()
        while not self._stopped.wait(_TICK):
            now = self._clock()
            if not self._service.unready_reason():
                elapsed = min(now - last, 4 * _TICK * SPEED)  # no burst of visitors after a pause
                for _ in range(self._rng.poisson(_ARRIVALS * elapsed)):
                    self._service.submit(Rank(SLOT, RankRequest())).add_done_callback(self._view)
                self._answer(now)
            last = now

    def _view(self, future: Future[RankReply]) -> None:
        """View a list, and perhaps schedule an answer. Runs in the service's writer thread."""
        if future.cancelled() or future.exception() is not None:
            return
        reply = future.result()
        with self._lock:
            response, like = self._rng.random(2)
            due = self._clock() + self._rng.exponential(_DELAY)
            if response < _RESPONSE_RATE:
                grade = float(100 * like < TASTES[reply.top_k[0]])
                heapq.heappush(self._answers, (due, reply.event_id, grade))

    def _answer(self, now: float) -> None:
        """Send the answers that are due. Some arrive after the feedback window."""
        with self._lock:
            while self._answers and self._answers[0][0] <= now:
                _, event_id, grade = heapq.heappop(self._answers)
                self._service.submit(SubmitFeedback(event_id, FeedbackRequest([grade])))
