"""The playground: its visitors come in its own time, and what they like is found out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from peekrank.service.api.messages import FeedbackRequest, RankRequest
from peekrank.service.core.service import Service
from peekrank.service.playground import BANNER, SLOT, SPEED, TASTES, fast_clock, playground_config


def test_the_clock_runs_fast_and_never_back() -> None:
    clock = fast_clock(1000)
    seen = [clock() for _ in range(1000)]
    assert seen == sorted(seen)
    assert SPEED == 60
    assert "a minute passes every second" in BANNER


def test_what_visitors_like_comes_first(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with Service(playground_config(tmp_path, 0)) as service:
        for _ in range(3000):
            shown = service.rank(SLOT, RankRequest())
            grade = float(100 * rng.random() < TASTES[shown.top_k[0]])
            service.feedback(shown.event_id, FeedbackRequest([grade]))
        last = [service.rank(SLOT, RankRequest()).ranking[0] for _ in range(50)]
    assert last.count("music") > 25


def test_the_playground_is_on_this_machine_alone(tmp_path: Path) -> None:
    config = playground_config(tmp_path, 8000)
    assert config.server.host == "127.0.0.1"
    assert replace(config.server, port=0).port == 0
    assert Path(config.store.path).parent == tmp_path
