"""Shadow mode: the caller's own order is shown, learned from, and logged as such."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.services import HOME, service
from helpers.traffic import FEATURES, REGISTRY, put_some
from peekrank.service.api.messages import FeedbackRequest, Item, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config.file import Document
from peekrank.service.config.model import SlotConfig, parse_config
from peekrank.service.core.export import export_log
from peekrank.service.core.snapshots import replay, take_snapshot

SHADOW = tuple(replace(slot, mode="shadow") for slot in (HOME, FEATURES, REGISTRY))


def request(slot: SlotConfig, n: int, rng: np.random.Generator) -> RankRequest:
    """A list, and the caller's order of it."""
    more: dict[str, Any] = {"event_id": f"{slot.name}-{n}"}
    if slot.name == "home":
        names = [*slot.items, "new"] if n > 5 else ["d", "b", "new"] if n % 2 else list(slot.items)
        more["items"] = names
    elif slot.name == "search":
        names = ["x", "y", "z"]
        more["items"] = [Item(name, rng.normal(size=3).tolist()) for name in names]
    else:
        names = [f"s{i}" for i in range(6)]
        more |= {"context": [0.0, 1.0], "items": names if n % 2 else None}
    return RankRequest(baseline=rng.permutation(names).tolist(), **more)


def test_the_baseline_is_shown_and_learned_from(tmp_path: Path) -> None:
    it, _ = service(tmp_path, *SHADOW)
    put_some(it)
    rng = np.random.default_rng(0)
    for n in range(20):
        for slot in SHADOW:
            asked = request(slot, n, rng)
            shown = it.rank(slot.name, asked)
            assert (shown.ranking, shown.explored) == (asked.baseline, False)
            assert it.feedback(shown.event_id, FeedbackRequest({shown.top_k[0]: 1})).learned
    for slot in SHADOW:
        told = it.slot(slot.name)
        assert (told.mode, told.explored, told.answered) == ("shadow", 0, 20)
        state, _ = replay(it._store, slot.name)
        assert take_snapshot(state).body == take_snapshot(it._manager.slots[slot.name].state).body
        assert (state.agent.n_feedback, state.activity.counts.replay_mismatches) == (20, 0)
        log = export_log(it._store, slot.name)
        assert np.array_equal(log.propensity, log.position < np.repeat(log.k, np.diff(log.offsets)))
    it.close()
    live, _ = service(tmp_path, *(replace(slot, mode="live") for slot in SHADOW))  # what was learned is used
    assert live.slot("home").mode == "live"
    assert live._manager.slots["home"].state.agent.n_feedback == 20
    assert live.rank("home", RankRequest()).ranking
    live.close()


def test_a_baseline_is_the_list(tmp_path: Path) -> None:
    it, _ = service(tmp_path, *SHADOW)
    for baseline in (None, ["a"], ["a", "b", "c", "e"], ["a", "a", "b", "c"]):
        with pytest.raises(Problem, match="baseline") as problem:
            it.rank("home", RankRequest(baseline=baseline))
        assert problem.value.status == 422
    assert it.rank("home", RankRequest(baseline=["d", "c", "b", "a"])).top_k == ["d", "c"]
    it.close()


def test_not_every_learner_can() -> None:
    text = "[slots.home]\nlearner = 'blockftrl'\nitems = ['a', 'b']\nmode = 'shadow'"
    with pytest.raises(ValueError, match=r"line 4: slots\.home\.mode = .* cannot learn from other lists"):
        parse_config(Document(text, "service.toml"))
