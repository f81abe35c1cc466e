"""A slot whose learner is made of several tells who is in charge, and how the others compare."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from helpers.services import service
from peekrank.learners.doubtsort import DoubtSort


class Standing(NamedTuple):
    member: str
    in_charge: bool
    difference: float
    low: float
    high: float


def test_members_of_a_team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = [
        Standing("doubtsort", in_charge=True, difference=0.0, low=0.0, high=0.0),
        Standing("greedy", in_charge=False, difference=0.1, low=-0.1, high=0.3),
        Standing("ucb", in_charge=False, difference=math.nan, low=math.nan, high=math.nan),
    ]

    def standings(self: Any, state: Any) -> list[Standing]:
        return told

    it, _ = service(tmp_path)
    assert it.slot("home").members == []
    monkeypatch.setattr(DoubtSort, "standings", standings, raising=False)
    champion, better, unknown = it.slot("home").members
    assert (champion.name, champion.role, champion.value) == ("doubtsort", "champion", None)
    assert better.value is not None
    assert (better.role, better.value.mean, better.value.low, better.value.high) == ("challenger", 0.1, -0.1, 0.3)
    assert unknown.value is None
    it.close()
