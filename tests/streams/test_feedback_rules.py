"""Forms of feedback: unbiased by enumeration where that is claimed, biased where that is said."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peekrank.streams.forms import Form, Rule, cascade_prefix, correct, form

from peekrank import DCG, Agent, DoubtSort, RTop1F
from peekrank.streams.clicks import Cascade, DependentClick, PositionBased, draw_clicks

CURVE = PositionBased((0.95, 0.7, 0.4), (0.15, 0.1, 0.0))


def click_chance(place: int, relevance: float, curve: PositionBased) -> float:
    """The probability of a click, written out as in the paper: theta (eps+ R + eps- (1 - R))."""
    return curve.relevant[place] * relevance + curve.irrelevant[place] * (1 - relevance)


@pytest.mark.parametrize("relevance", [(1, 0, 0), (1, 1, 0), (0, 0, 0), (0.3, 0.8, 0.5)])
def test_corrected_clicks_over_chances_are_unbiased_by_enumeration(relevance: tuple[float, ...]) -> None:
    """All rankings of a policy, all outcomes of all clicks: the expectation of estimate / chance is R."""
    rankings = list(permutations(range(3)))
    weights = np.arange(1, 7) / 21  # a policy that favours some rankings
    k = 2
    chances = np.zeros(3)
    for ranking, weight in zip(rankings, weights, strict=True):
        chances[list(ranking[:k])] += weight
    expected = np.zeros(3)
    for ranking, weight in zip(rankings, weights, strict=True):
        for clicks in product([0, 1], repeat=k):
            chance = weight
            for place, click in enumerate(clicks):
                p = click_chance(place, relevance[ranking[place]], CURVE)
                chance *= p if click else 1 - p
            estimates = correct(clicks, CURVE)
            for place in range(k):
                expected[ranking[place]] += chance * estimates[place] / chances[ranking[place]]
    assert expected == pytest.approx(relevance, abs=1e-12)


def test_grades_seen_through_a_curve_are_unbiased_by_enumeration() -> None:
    """Rules with several grades: looked at with probability theta, then the grade is told; else silence."""
    made = form("purchase = 4, click = 1; curve 0.8 0.5")
    for place, theta in enumerate((0.8, 0.5)):
        cases: list[tuple[dict[str, float], int]] = [({"purchase": 1, "click": 1}, 4), ({"click": 1}, 1), ({}, 0)]
        for report, grade in cases:
            silent: list[dict[str, float]] = [{}, {}]
            told = [made.estimates(reports)[place] for reports in (silent, [report, report])]
            assert (1 - theta) * told[0] + theta * told[1] == pytest.approx(grade)


def test_a_wrong_curve_is_biased_by_the_ratio_of_the_curves() -> None:
    true, wrong = PositionBased((1.0, 0.4)), PositionBased((1.0, 0.8))
    expected = [p * correct([1, 1], wrong)[place] for place, p in enumerate(true.relevant)]
    assert expected == pytest.approx([1.0, 0.5])


def test_grades_made_of_estimates_keep_the_order_at_every_place() -> None:
    made = Form((Rule("click", 1),), "curve", CURVE)
    low, high = made.spread
    for relevance in (0.0, 0.25, 1.0):
        for place in range(3):
            p = click_chance(place, relevance, CURVE)
            mean = 0.0
            for click, chance in ((0, 1 - p), (1, p)):
                estimate = correct([click] * 3, CURVE)[place]
                coins = (np.arange(10_000) + 0.5) / 10_000
                mean += chance * made.as_grades(np.full(10_000, estimate), coins).mean()
            assert mean == pytest.approx((relevance - low) / (high - low), abs=2e-4)
    assert np.isnan(made.as_grades([np.nan], [0.5]))
    assert form("click = 1; seen").as_grades([1.0, np.nan], [0.9, 0.9]).tolist()[0] == 1.0


def test_a_cascade_prefix_is_right_where_nobody_skips() -> None:
    """Mean grade of what was looked at is the relevance: items are liked independently of each other."""
    relevance = np.array([0.3, 0.6, 0.2])
    clicks = draw_clicks(Cascade(), np.tile(relevance, (60_000, 1)), np.random.default_rng(0))
    assert np.nanmean(cascade_prefix(clicks), axis=0) == pytest.approx(relevance, abs=0.012)


def test_a_cascade_prefix_misses_those_who_go_on_and_like_nothing() -> None:
    clicks = draw_clicks(
        DependentClick((0.6, 0.3)), np.tile([0.3, 0.6, 0.2], (60_000, 1)), np.random.default_rng(0)
    )
    clicked, later, never = 0.88 * 0.6, 0.88 * 0.4 * 0.2, 0.7 * 0.4 * 0.8  # at place 2, at 3 only, at all
    expected = clicked / (clicked + later + never)
    assert np.nanmean(cascade_prefix(clicks), axis=0)[:2] == pytest.approx([0.3, expected], abs=0.012)


def test_a_cascade_prefix_underestimates_what_people_skip() -> None:
    clicks = draw_clicks(Cascade(skip=0.5), np.tile([0.6, 0.6], (60_000, 1)), np.random.default_rng(1))
    means = np.nanmean(cascade_prefix(clicks), axis=0)
    assert means == pytest.approx([0.3, 0.3], abs=0.012)


def test_rules_take_the_largest_grade_that_holds() -> None:
    made = form("purchase = 4, dwell >= 0.5 min = 3, dwell > 500 ms = 2, click=1; seen")
    for report, grade in (
        ({}, 0),
        ({"click": 0}, 0),
        ({"click": 2}, 1),
        ({"dwell": 0.5}, 0),
        ({"dwell": 0.51}, 2),
        ({"dwell": 30}, 3),
        ({"dwell": 1000, "purchase": 1}, 4),
    ):
        assert made.grade(report) == grade
    assert made.max_grade == 4
    assert made.whole
    assert not made.unbiased


def test_what_was_not_looked_at_is_unknown() -> None:
    made = form("click = 1; seen")
    assert made.estimates([{}, None, {"click": 1}], seen=[True, False, True]).tolist() == pytest.approx(
        [0.0, np.nan, 1.0], nan_ok=True
    )
    with pytest.raises(ValueError, match="place 1 has the grade 1 and was not looked at"):
        made.estimates([{"click": 1}], seen=[False])
    with pytest.raises(ValueError, match="`seen` must be given"):
        made.estimates([{}])
    with pytest.raises(ValueError, match="seen tells of 2 places: must tell of each of the 1 reported"):
        made.estimates([{}], seen=[True, True])


def test_grades_that_are_told_pass_through() -> None:
    assert form(" grades ").estimates([3, None, 0]).tolist() == pytest.approx([3, np.nan, 0], nan_ok=True)
    with pytest.raises(ValueError, match="signals need rules"):
        Form().estimates([{"click": 1}])


@pytest.mark.parametrize("text", ["clicks", "click = 1", "purchase = 4, dwell > 30s = 2"])
def test_clicks_without_a_word_on_examination_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"does not say who looked at what|must be 'signal = grade'"):
        form(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rule 1, '': must be"),
        ("click; seen", "rule 1, 'click': must be 'signal = grade'"),
        ("click = 1, = 2; seen", "rule 2"),
        ("click = 0; seen", "a grade is from 1 to 255"),
        ("click = 256; seen", "a grade is from 1 to 255"),
        ("click = 1.5; seen", "must be 'signal = grade'"),
        ("dwell > 30 sec = 1; seen", "unit 'sec'"),
        ("click = 1, click = 2; seen", "rule 2, 'click = 2': the same condition"),
        ("click = 1; sen", "did you mean 'seen'"),
        ("click = 1; seen 3", "it stands alone"),
        ("click = 1; ", "known: cascade, curve, seen"),
        ("click = 1; curve", "one at least"),
        ("click = 1; curve 1 x", "curve, place 2: 'x' must be the probability"),
        ("click = 1; curve 1 nan", "place 2"),
        ("click = 1; curve 0.5 0/0", "place 2: a click has probability 0.0"),
        ("click = 2; curve 0.9/0.1", "where there is one grade, 1"),
        ("grades; seen", "grades stand alone"),
        ("__import__('os') = 1; seen", "rule 1"),
    ],
)
def test_errors_say_what_is_wrong_and_where(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(".", r"\.")):
        form(text)


def test_signals_are_checked() -> None:
    made = form("click = 1; cascade")
    with pytest.raises(ValueError, match="did you mean 'click'"):
        made.estimates([{"clik": 1}])
    with pytest.raises(ValueError, match="click = nan: must be a finite number"):
        made.estimates([{"click": float("nan")}])
    with pytest.raises(ValueError, match="must be signals with their numbers"):
        made.estimates([1.0])
    with pytest.raises(ValueError, match="a list of 2 places: the curve describes the first 1"):
        form("click = 1; curve 0.5").estimates([{}, {}])


def test_forms_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValueError, match="examination 'blind'"):
        Form((Rule("click", 1),), "blind")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="does not say who looked"):
        Form((Rule("click", 1),), "told")
    with pytest.raises(ValueError, match="need no examination"):
        Form((), "seen")
    with pytest.raises(ValueError, match="a curve goes with"):
        Form((Rule("click", 1),), "seen", CURVE)


SIGNALS = st.sampled_from(["click", "dwell", "add-to-cart", "x_1"])
RULES = st.builds(Rule, SIGNALS, st.integers(1, 255), st.floats(0, 1e6).map(lambda x: round(x, 4)), st.booleans())


@given(
    st.lists(RULES, min_size=1, max_size=4, unique_by=lambda rule: (rule.signal, rule.bound, rule.reached)),
    st.sampled_from(["seen", "cascade"]),
)
def test_a_form_is_what_its_text_says(rules: list[Rule], examination: str) -> None:
    made = Form(tuple(rules), examination)  # type: ignore[arg-type]
    assert form(str(made)) == made


@given(st.text("abc=,;>.019/ seen curve cascade", max_size=40))
def test_any_text_is_a_form_or_a_clear_error(text: str) -> None:
    try:
        made = form(text)
    except ValueError:
        return
    assert form(str(made)) == made


@pytest.mark.parametrize("available", [None, [1, 3, 4]])
def test_what_is_told_is_item_estimate_and_chance(available: list[int] | None) -> None:
    decision = Agent(DoubtSort(DCG()), m=5, k=2, seed=3).rank(available=available)
    told = form("click = 1; cascade").told(decision, [{"click": 1}, {}])
    assert told.items.tolist() == decision.ranking[:1].tolist()
    assert told.estimates.tolist() == [1.0]
    known = np.arange(5) if decision.items is None else decision.items
    assert decision.chances is not None
    assert told.chances is not None
    assert told.chances.tolist() == decision.chances[known == told.items[0]].tolist()
    silent = Agent(RTop1F(DCG(), horizon=10), m=5, k=1).rank()
    assert form("grades").told(silent, [1]).chances is None


def test_a_curve_is_what_its_text_says() -> None:
    made = Form((Rule("click", 1),), "curve", CURVE)
    assert form(str(made)) == made
    assert str(form("click = 1; curve 1 0.5")) == "click = 1; curve 1.0 0.5"
    assert str(Form()) == "grades"
