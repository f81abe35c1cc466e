"""Scores of a reply, and ids of texts."""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise
from math import exp
from types import SimpleNamespace
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peekrank.service.core.rerank import MAX_TRACE, Texts, Traces, falling

UNIT = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 0.5, 0.5 + 1e-9, 1e-7]))


@given(st.lists(UNIT, min_size=1, max_size=60))
def test_scores_fall_strictly_from_0_to_1_and_stay_near_those_given(scores: list[float]) -> None:
    out, wanted = falling(scores, logit=False), sorted(scores, reverse=True)
    assert 0 <= out[-1] <= out[0] <= 1
    assert all(a - b > 0.99e-6 for a, b in pairwise(out))
    assert all(abs(a - b) <= 1.01e-6 * len(scores) for a, b in zip(out, wanted, strict=True))
    gaps = [a - b for a, b in pairwise(wanted)]
    if all(gap > 1.01e-6 for gap in gaps):  # nothing to draw apart
        assert out == pytest.approx(wanted, abs=1e-11)


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=60))
def test_logits_are_squashed(scores: list[float]) -> None:
    wanted = sorted((1 / (1 + exp(-score)) if score > -700 else 0.0 for score in scores), reverse=True)
    out = falling(scores, logit=True)
    assert all(a > b for a, b in pairwise(out))
    assert all(abs(a - b) <= 1.01e-6 * len(scores) for a, b in zip(out, wanted, strict=True))


@given(st.text(max_size=20), st.binary(min_size=32, max_size=32))
def test_ids_are_keyed_hashes_of_normal_forms(text: str, secret: bytes) -> None:
    wanted = blake2b(normalize("NFC", text.strip()).encode(), key=secret, digest_size=16, person=b"text")
    texts = Texts(secret)
    assert texts.item(text) == f"t:{wanted.hexdigest()}"
    assert texts.item(f"\n {normalize('NFD', text.strip())} ") == texts.item(text)
    assert len({texts.item(text)[2:], texts.key("query", text)[2:], texts.key("given", text)[2:]}) == 3
    assert texts.item(text) != Texts(bytes(31) + b"x").item(text)


def test_marks_without_an_end_are_not_normalised() -> None:
    texts, marks = Texts(bytes(32)), "\u0300\u0327"  # in the order of NFD: \u0327\u0300
    many = "a" + marks * 1_000_000  # takes hours to normalise
    wanted = blake2b(many.encode(), key=bytes(32), digest_size=16, person=b"text")
    assert texts.item(many) == f"t:{wanted.hexdigest()}"
    assert texts.item("\u0f73" * 1_000_000) != texts.item("\u0f71\u0f72" * 1_000_000)  # each decomposes into two
    assert texts.item("a" + marks * 15) == texts.item("a" + "\u0327" * 15 + "\u0300" * 15)


def test_a_trace_forgets_its_events_behind_an_older_one_that_is_open() -> None:
    known: Any = {
        "faq": SimpleNamespace(state=SimpleNamespace(open={"e0": 0}, recent={}, find=lambda event: event))
    }
    traces = Traces()
    traces.add(b"first", "faq", "e0")
    for n in range(1000):  # each closes before the next one
        traces.prune(known)
        traces.add(n.to_bytes(2), "faq", f"e{n + 1}")
    assert len(traces._events) < 10
    assert len(traces.find(b"first", known, ())) == 1


def test_feedback_on_a_trace_reaches_its_latest_events() -> None:
    known: Any = {"faq": SimpleNamespace(state=SimpleNamespace(find=lambda event: SimpleNamespace(id=event)))}
    traces = Traces()
    for n in range(3 * MAX_TRACE):
        traces.add(b"trace", "faq", f"e{n}")
    assert [event.id for _, event in traces.find(b"trace", known, ())] == [
        f"e{n}" for n in range(2 * MAX_TRACE, 3 * MAX_TRACE)
    ]
