"""Models of clicks against their definitions, list by list."""

from __future__ import annotations

import numpy as np
import pytest

from peekrank.streams.clicks import Cascade, DependentClick, PositionBased, click_model, draw_clicks

N = 40_000


def rate(clicks: np.ndarray) -> np.ndarray:
    return np.asarray(clicks.mean(axis=0))


def test_position_based_clicks_come_with_the_stated_propensities() -> None:
    model = PositionBased((0.9, 0.6, 0.3), (0.2, 0.1, 0.0))
    lists = np.tile([1.0, 0.5, 0.0], (N, 1))
    assert rate(draw_clicks(model, lists, np.random.default_rng(1))) == pytest.approx([0.9, 0.35, 0.0], abs=0.012)


def test_a_cascade_ends_with_its_first_click() -> None:
    clicks = draw_clicks(Cascade(), np.tile([0.5, 0.5, 1.0], (N, 1)), np.random.default_rng(2))
    assert clicks.sum(axis=1).tolist() == [1] * N
    assert rate(clicks) == pytest.approx([0.5, 0.25, 0.25], abs=0.012)


def test_after_a_click_some_go_on() -> None:
    clicks = draw_clicks(DependentClick((0.5, 0.25)), np.ones((N, 3)), np.random.default_rng(3))
    assert rate(clicks) == pytest.approx([1.0, 0.5, 0.125], abs=0.012)


def test_who_skips_a_position_does_not_click_there() -> None:
    clicks = draw_clicks(Cascade(skip=0.25), np.ones((N, 2)), np.random.default_rng(4))
    assert rate(clicks) == pytest.approx([0.75, 0.25 * 0.75], abs=0.012)
    assert not draw_clicks(Cascade(skip=1.0), np.ones((10, 2)), np.random.default_rng(5)).any()


def test_the_same_generator_draws_the_same_clicks() -> None:
    for model in (PositionBased((0.5, 0.4)), Cascade(0.1), DependentClick((0.3,))):
        one, two = (draw_clicks(model, np.full((50, 2), 0.4), np.random.default_rng(6)) for _ in range(2))
        assert np.array_equal(one, two)


def test_what_makes_no_sense_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least one"):
        PositionBased(())
    with pytest.raises(ValueError, match="must have as many as if_relevant, 2"):
        PositionBased((0.5, 0.4), (0.1,))
    with pytest.raises(ValueError, match=r"position 2: a click has probability 0\.1 if relevant and 0\.1 if not"):
        PositionBased((0.5, 0.1), (0.1, 0.1))
    with pytest.raises(ValueError, match=r"skip = 1\.5: must be a probability"):
        Cascade(1.5)
    with pytest.raises(ValueError, match=r"continuation = -1: must be a probability"):
        DependentClick((-1,))
    with pytest.raises(ValueError, match="relevance must be from 0 to 1"):
        draw_clicks(Cascade(), [[2]], np.random.default_rng(0))
    with pytest.raises(ValueError, match="a list of 3 positions: the curve describes the first 2"):
        draw_clicks(PositionBased((0.5, 0.4)), [[1, 1, 1]], np.random.default_rng(0))


def test_models_are_known_by_their_names() -> None:
    for text in (
        "position:if_relevant=0.9+0.5,if_irrelevant=0.1+0.0",
        "cascade:skip=0.25",
        "dependent:continuation=0.5+0.1",
    ):
        assert str(click_model(text)) == text
    with pytest.raises(ValueError, match="unknown click model 'cascad': did you mean 'cascade'"):
        click_model("cascad")
