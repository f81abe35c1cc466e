"""Reproductions that are made up."""

from __future__ import annotations

from typing import Any

from peekrank.papers.record import Claim, Reproduction, Results


def invented(name: str = "mine", *, holds: bool = True, make: Any = None) -> Reproduction:
    claim = Claim("the answer", "42", "42" if holds else "41", holds)
    return Reproduction(name, "nobody", "an answer", (1, 1), make or (lambda _: Results([claim])))
