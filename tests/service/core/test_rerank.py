"""Scores of a reply, and ids of texts."""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise
from math import exp
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peekrank.service.core.rerank import Texts, falling

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
