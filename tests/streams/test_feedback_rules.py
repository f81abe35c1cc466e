"""Forms of feedback: unbiased by enumeration where that is claimed, biased where that is said."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peekrank import DCG, Agent, DoubtSort, RTop1F
from peekrank.streams.clicks import Cascade, DependentClick, PositionBased, draw_clicks
from peekrank.streams.feedback_rules import FeedbackRules, Rule, cascade_prefix, correct, parse_rules

CURVE = PositionBased((0.95, 0.7, 0.4), (0.15, 0.1, 0.0))


def click_propensity(position: int, relevance: float, curve: PositionBased) -> float:
    """The probability of a click, written out as in the paper: theta (eps+ R + eps- (1 - R))."""
    return curve.if_relevant[position] * relevance + curve.if_irrelevant[position] * (1 - relevance)


@pytest.mark.parametrize("relevance", [(1, 0, 0), (1, 1, 0), (0, 0, 0), (0.3, 0.8, 0.5)])
def test_corrected_clicks_over_propensities_are_unbiased_by_enumeration(relevance: tuple[float, ...]) -> None:
    """All rankings of a policy, all outcomes of all clicks: the expectation of estimate / propensity is R."""
    rankings = list(permutations(range(3)))
    weights = np.arange(1, 7) / 21  # a policy that favours some rankings
    k = 2
    propensities = np.zeros(3)
    for ranking, weight in zip(rankings, weights, strict=True):
        propensities[list(ranking[:k])] += weight
    expected = np.zeros(3)
    for ranking, weight in zip(rankings, weights, strict=True):
        for clicks in product([0, 1], repeat=k):
            propensity = weight
            for position, click in enumerate(clicks):
                p = click_propensity(position, relevance[ranking[position]], CURVE)
                propensity *= p if click else 1 - p
            estimates = correct(clicks, CURVE)
            for position in range(k):
                expected[ranking[position]] += propensity * estimates[position] / propensities[ranking[position]]
    assert expected == pytest.approx(relevance, abs=1e-12)


def test_grades_seen_through_a_curve_are_unbiased_by_enumeration() -> None:
    """Several grades: an item is examined with probability theta, then its grade is observed; else no signal."""
    made = parse_rules("purchase = 4, click = 1; curve 0.8 0.5")
    for position, theta in enumerate((0.8, 0.5)):
        cases: list[tuple[dict[str, float], int]] = [({"purchase": 1, "click": 1}, 4), ({"click": 1}, 1), ({}, 0)]
        for report, grade in cases:
            silent: list[dict[str, float]] = [{}, {}]
            told = [made.estimates(reports)[position] for reports in (silent, [report, report])]
            assert (1 - theta) * told[0] + theta * told[1] == pytest.approx(grade)


def test_a_wrong_curve_is_biased_by_the_ratio_of_the_curves() -> None:
    true, wrong = PositionBased((1.0, 0.4)), PositionBased((1.0, 0.8))
    expected = [p * correct([1, 1], wrong)[position] for position, p in enumerate(true.if_relevant)]
    assert expected == pytest.approx([1.0, 0.5])


def test_grades_made_of_estimates_keep_the_order_at_every_position() -> None:
    made = FeedbackRules((Rule("click", 1),), "curve", CURVE)
    low, high = made.spread
    for relevance in (0.0, 0.25, 1.0):
        for position in range(3):
            p = click_propensity(position, relevance, CURVE)
            mean = 0.0
            for click, propensity in ((0, 1 - p), (1, p)):
                estimate = correct([click] * 3, CURVE)[position]
                coins = (np.arange(10_000) + 0.5) / 10_000
                mean += propensity * made.as_grades(np.full(10_000, estimate), coins).mean()
            assert mean == pytest.approx((relevance - low) / (high - low), abs=2e-4)
    assert np.isnan(made.as_grades([np.nan], [0.5]))
    assert parse_rules("click = 1; seen").as_grades([1.0, np.nan], [0.9, 0.9]).tolist()[0] == 1.0


def test_a_cascade_prefix_is_right_if_no_user_skips() -> None:
    """The mean grade of examined items is the relevance, because items are liked independently of each other."""
    relevance = np.array([0.3, 0.6, 0.2])
    clicks = draw_clicks(Cascade(), np.tile(relevance, (60_000, 1)), np.random.default_rng(0))
    assert np.nanmean(cascade_prefix(clicks), axis=0) == pytest.approx(relevance, abs=0.012)


def test_a_cascade_prefix_misses_those_who_go_on_and_like_nothing() -> None:
    clicks = draw_clicks(
        DependentClick((0.6, 0.3)), np.tile([0.3, 0.6, 0.2], (60_000, 1)), np.random.default_rng(0)
    )
    clicked, later, never = 0.88 * 0.6, 0.88 * 0.4 * 0.2, 0.7 * 0.4 * 0.8  # at position 2, at 3 only, at all
    expected = clicked / (clicked + later + never)
    assert np.nanmean(cascade_prefix(clicks), axis=0)[:2] == pytest.approx([0.3, expected], abs=0.012)


def test_a_cascade_prefix_underestimates_what_people_skip() -> None:
    clicks = draw_clicks(Cascade(skip=0.5), np.tile([0.6, 0.6], (60_000, 1)), np.random.default_rng(1))
    means = np.nanmean(cascade_prefix(clicks), axis=0)
    assert means == pytest.approx([0.3, 0.3], abs=0.012)


def test_rules_take_the_largest_grade_that_holds() -> None:
    made = parse_rules("purchase = 4, dwell >= 0.5 min = 3, dwell > 500 ms = 2, click=1; seen")
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


def test_unexamined_items_are_unknown() -> None:
    made = parse_rules("click = 1; seen")
    assert made.estimates([{}, None, {"click": 1}], seen=[True, False, True]).tolist() == pytest.approx(
        [0.0, np.nan, 1.0], nan_ok=True
    )
    with pytest.raises(ValueError, match="position 1 has the grade 1 but was not examined"):
        made.estimates([{"click": 1}], seen=[False])
    with pytest.raises(ValueError, match="`seen` is required"):
        made.estimates([{}])
    with pytest.raises(ValueError, match="seen covers 2 positions: must cover each of the 1 reported"):
        made.estimates([{}], seen=[True, True])


def test_explicit_grades_pass_through() -> None:
    assert parse_rules(" grades ").estimates([3, None, 0]).tolist() == pytest.approx([3, np.nan, 0], nan_ok=True)
    with pytest.raises(ValueError, match="signals need rules"):
        FeedbackRules().estimates([{"click": 1}])


@pytest.mark.parametrize("text", ["clicks", "click = 1", "purchase = 4, dwell > 30s = 2"])
def test_clicks_without_a_word_on_examination_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"does not say which positions were examined|must be 'signal = grade'"):
        parse_rules(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rule 1, '': must be"),
        ("click; seen", "rule 1, 'click': must be 'signal = grade'"),
        ("click = 1, = 2; seen", "rule 2"),
        ("click = 0; seen", "a grade must be from 1 to 255"),
        ("click = 256; seen", "a grade must be from 1 to 255"),
        ("click = 1.5; seen", "must be 'signal = grade'"),
        ("dwell > 30 sec = 1; seen", "unit 'sec'"),
        ("click = 1, click = 2; seen", "rule 2, 'click = 2': another rule has the same condition"),
        ("click = 1; sen", "did you mean 'seen'"),
        ("click = 1; seen 3", "it takes no numbers"),
        ("click = 1; ", "known: cascade, curve, seen"),
        ("click = 1; curve", "at least one"),
        ("click = 1; curve 1 x", "curve, position 2: 'x' must be the probability"),
        ("click = 1; curve 1 nan", "position 2"),
        ("click = 1; curve 0.5 0/0", "position 2: a click has probability 0.0"),
        ("click = 2; curve 0.9/0.1", "only if 1 is the only grade"),
        ("grades; seen", "'grades' takes no examination"),
        ("__import__('os') = 1; seen", "rule 1"),
    ],
)
def test_errors_say_what_is_wrong_and_where(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(".", r"\.")):
        parse_rules(text)


def test_signals_are_checked() -> None:
    made = parse_rules("click = 1; cascade")
    with pytest.raises(ValueError, match="did you mean 'click'"):
        made.estimates([{"clik": 1}])
    with pytest.raises(ValueError, match="click = nan: must be a finite number"):
        made.estimates([{"click": float("nan")}])
    with pytest.raises(ValueError, match="must be signals with numbers"):
        made.estimates([1.0])
    with pytest.raises(ValueError, match="a list of 2 positions: the curve describes the first 1"):
        parse_rules("click = 1; curve 0.5").estimates([{}, {}])


def test_forms_that_contradict_themselves_are_rejected() -> None:
    with pytest.raises(ValueError, match="examination 'blind'"):
        FeedbackRules((Rule("click", 1),), "blind")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="does not say which positions"):
        FeedbackRules((Rule("click", 1),), "explicit")
    with pytest.raises(ValueError, match="need no examination"):
        FeedbackRules((), "seen")
    with pytest.raises(ValueError, match="a curve is required with"):
        FeedbackRules((Rule("click", 1),), "seen", CURVE)


SIGNALS = st.sampled_from(["click", "dwell", "add-to-cart", "x_1"])
RULES = st.builds(Rule, SIGNALS, st.integers(1, 255), st.floats(0, 1e6).map(lambda x: round(x, 4)), st.booleans())


@given(
    st.lists(RULES, min_size=1, max_size=4, unique_by=lambda rule: (rule.signal, rule.bound, rule.reached)),
    st.sampled_from(["seen", "cascade"]),
)
def test_a_form_is_what_its_text_says(rules: list[Rule], examination: str) -> None:
    made = FeedbackRules(tuple(rules), examination)  # type: ignore[arg-type]
    assert parse_rules(str(made)) == made


@given(st.text("abc=,;>.019/ seen curve cascade", max_size=40))
def test_any_text_is_a_form_or_a_clear_error(text: str) -> None:
    try:
        made = parse_rules(text)
    except ValueError:
        return
    assert parse_rules(str(made)) == made


@pytest.mark.parametrize("available", [None, [1, 3, 4]])
def test_item_estimates_hold_items_estimates_and_propensities(available: list[int] | None) -> None:
    decision = Agent(DoubtSort(DCG()), m=5, k=2, seed=3).rank(available=available)
    told = parse_rules("click = 1; cascade").item_estimates(decision, [{"click": 1}, {}])
    assert told.items.tolist() == decision.ranking[:1].tolist()
    assert told.estimates.tolist() == [1.0]
    known = np.arange(5) if decision.items is None else decision.items
    assert decision.propensities is not None
    assert told.propensities is not None
    assert told.propensities.tolist() == decision.propensities[known == told.items[0]].tolist()
    silent = Agent(RTop1F(DCG(), horizon=10), m=5, k=1).rank()
    assert parse_rules("grades").item_estimates(silent, [1]).propensities is None


def test_a_curve_is_what_its_text_says() -> None:
    made = FeedbackRules((Rule("click", 1),), "curve", CURVE)
    assert parse_rules(str(made)) == made
    assert str(parse_rules("click = 1; curve 1 0.5")) == "click = 1; curve 1.0 0.5"
    assert str(FeedbackRules()) == "grades"
