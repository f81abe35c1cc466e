"""Visits to slots of all kinds, for tests of what becomes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from helpers.services import HOME, SetClock
from peekrank.service.api.messages import FeedbackRequest, Item, ItemsRequest, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config import SlotConfig
from peekrank.service.core.service import Service

FEATURES = SlotConfig("search", learner="ridge", features=3, max_list_length=8, k=2, feedback_window=100.0, seed=3)
REGISTRY = replace(FEATURES, name="shop", features_from="registry", item_effects=4, context=2, k=2)
LISTS = SlotConfig("lists", learner="uniform", max_list_length=5, k=1, seed=1)
FIXED = SlotConfig("fixed", learner="blockftrl", items=("a", "b", "c", "d", "e"), k=2, seed=5)
CLICKS = replace(HOME, name="clicks", update="on_close", missing_feedback=0)
SCORED = SlotConfig("scored", learner="mixed:cells=20", k=2, feedback_window=100.0, seed=2)
ALL = (HOME, FEATURES, REGISTRY, LISTS, FIXED, CLICKS, SCORED)


def live(it: Service, clock: SetClock, rounds: int = 30, seed: int = 0) -> None:
    """Some visits to all slots: answered at once, later, never, in part."""
    rng = np.random.default_rng(seed)
    waiting: list[Any] = []
    for n in range(rounds):
        clock.now += float(rng.integers(1, 12))
        for slot in it.config.slots:
            request: dict[str, Any] = {"event_id": f"{slot.name}-{seed}-{n}", "defer": n % 7 == 3}
            if slot.features_from == "registry":
                request["context"] = rng.normal(size=slot.context).tolist()
            elif slot is SCORED:
                scores = rng.normal(size=4).tolist()
                request["items"] = [Item(f"i{i}", score=score) for i, score in zip("4213", scores, strict=True)]
                request["key"] = f"key {n % 3}"
            elif slot.learner in ("ridge", "uniform"):
                names = [f"i{i}" for i in range(rng.integers(1, 6))]
                rows = [Item(name, rng.normal(size=3).tolist()) for name in names]
                request["items"] = rows if slot.features else names
            elif n % 5 == 4 and slot.learner == "doubtsort":
                request["items"] = ["a", "b", f"new{n // 10}"]
            waiting.append(it.rank(slot.name, RankRequest(**request)))
        for reply in [waiting.pop(int(rng.integers(len(waiting)))) for _ in range(len(waiting) // 2)]:
            if rng.random() < 0.2:
                continue  # never answered
            answers: dict[str, float | None] = {
                name: int(rng.integers(0, 2)) for name in reply.top_k if rng.random() < 0.8
            }
            if reply.event_id.startswith("scored"):
                answers = {name: 0.75 * (grade or 0) for name, grade in answers.items()}
            try:
                it.feedback(reply.event_id, FeedbackRequest(answers))
            except Problem as late:
                if late.status != 410:
                    raise


def put_some(it: Service) -> None:
    rng = np.random.default_rng(9)
    it.put_items("shop", ItemsRequest([Item(f"s{n}", rng.normal(size=3).tolist()) for n in range(6)]))
