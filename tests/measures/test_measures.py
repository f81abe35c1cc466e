"""Measures against their textbook twins, scikit-learn, their linear form, and their names."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import permutations, product
from typing import Any, ClassVar

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import Qrel, ScoredDoc
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, dcg_score, ndcg_score, roc_auc_score

from helpers import naive
from peekrank import BlockFTRL, learner, registry
from peekrank.measures import (
    DCG,
    ERR,
    NDCG,
    RBP,
    AUCLoss,
    AveragePrecision,
    Gains,
    Hit,
    LinearMeasureMixin,
    NoRelevant,
    PairwiseLoss,
    Precision,
    Recall,
    ReciprocalRank,
    SumLoss,
    evaluate,
    learnable,
    measure,
    name_of,
)
from peekrank.spec import format_spec
from peekrank.types import Ints, LinearMeasure, Measure

CUTOFFS = (None, 1, 2, 3, 7)
DTYPES = (np.bool_, np.int8, np.int16, np.int64, np.float32, np.float64)
GAINS: tuple[Gains, ...] = ("exponential", "linear")
NO_RELEVANT: tuple[NoRelevant, ...] = ("0", "1", "skip")
MEASURES: list[Any] = [
    SumLoss(),
    PairwiseLoss(),
    *(DCG(n, gains) for n in CUTOFFS for gains in GAINS),
    *(Precision(n, mean) for n in (1, 2, 3, 7) for mean in (False, True)),
    # every pair of values of two options occurs
    *(NDCG(n, GAINS[(i + j) % 2], value) for i, n in enumerate(CUTOFFS) for j, value in enumerate(NO_RELEVANT)),
    *(AveragePrecision(no_relevant) for no_relevant in NO_RELEVANT),
    *(AUCLoss(no_relevant) for no_relevant in NO_RELEVANT),
    *(RBP(n, p) for n in CUTOFFS for p in (0.5, 0.8, 0.95)),
    *(ReciprocalRank(n) for n in CUTOFFS),
    *(ERR(n, max_grade) for n in CUTOFFS for max_grade in (9, 12)),
    *(Recall(n, no_relevant) for n in (1, 2, 3, 7) for no_relevant in NO_RELEVANT),
    *(Hit(n) for n in (1, 2, 3, 7)),
]
LINEAR: list[LinearMeasure] = [m for m in MEASURES if isinstance(m, LinearMeasure)]
every_measure = pytest.mark.parametrize("m", MEASURES, ids=str)
every_linear_measure = pytest.mark.parametrize("m", LINEAR, ids=str)

Table = NDArray[Any]


def twin(m: Measure) -> Callable[[naive.Ranking, naive.Relevance], float]:
    options = asdict(m)  # type: ignore[call-overload]
    if "cutoff" in options:
        options["n"] = options.pop("cutoff")
    return partial(naive.TWINS[m.name], **options)


def crossed(lists: Table) -> tuple[Ints, Table]:
    """Every ranking with every list, one pair in each row."""
    pairs = list(product(permutations(range(lists.shape[1])), lists))
    return np.array([ranking for ranking, _ in pairs], np.int64), np.array([row for _, row in pairs])


def binary_lists(items: int) -> Table:
    return np.array(list(product((0, 1), repeat=items)), np.uint8)


def graded_lists(items: int, count: int, max_grade: int = 4) -> Table:
    rng = np.random.default_rng(items)
    return rng.integers(0, max_grade + 1, (count, items)).astype(np.uint8)


def assert_twin(m: Measure, rankings: Ints, relevance: Table) -> None:
    plain = twin(m)
    expected = [plain(r, row) for r, row in zip(rankings.tolist(), relevance.tolist(), strict=True)]
    np.testing.assert_allclose(m.values(rankings, relevance), expected, rtol=1e-13, atol=1e-13)


# --- values


@every_measure
def test_twin_on_all_rankings_and_binary_lists(m: Measure) -> None:
    for items in (1, 2, 3, 4):
        assert_twin(m, *crossed(binary_lists(items)))


@every_measure
def test_twin_on_all_rankings_and_graded_lists(m: Measure) -> None:
    for items in (1, 3, 5):
        assert_twin(m, *crossed(graded_lists(items, 6)))


@st.composite
def ranked_lists(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    relevance = draw(st.lists(st.integers(0, 9), min_size=1, max_size=6))
    return draw(st.permutations(range(len(relevance)))), relevance


@given(ranked_lists(), st.sampled_from(MEASURES))
def test_evaluate_is_the_twin(case: tuple[list[int], list[int]], m: Measure) -> None:
    assert evaluate(m, *case) == pytest.approx(twin(m)(*case), rel=1e-13, nan_ok=True)


@given(
    ranked_lists(),
    st.sampled_from([PairwiseLoss(), AUCLoss(), DCG(), SumLoss(), Precision(2), NDCG(), ERR(), RBP(), Recall(2)]),
)
def test_fractional_relevance(case: tuple[list[int], list[int]], m: Measure) -> None:
    ranking, relevance = case[0], [grade / 4 for grade in case[1]]
    assert evaluate(m, ranking, relevance) == pytest.approx(twin(m)(ranking, relevance), rel=1e-13)


@every_measure
def test_evaluate_takes_one_list_or_many(m: Measure) -> None:
    rankings, lists = crossed(graded_lists(3, 4))
    np.testing.assert_array_equal(
        evaluate(m, rankings, lists), [evaluate(m, r, row) for r, row in zip(rankings, lists, strict=True)]
    )


@every_measure
def test_type_of_relevance_does_not_matter(m: Measure) -> None:
    rankings, lists = crossed(binary_lists(3))
    expected = evaluate(m, rankings, lists)
    for dtype in DTYPES:
        np.testing.assert_array_equal(evaluate(m, rankings, lists.astype(dtype)), expected, err_msg=str(dtype))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int32, np.int64, np.float32, np.float64])
def test_large_exponential_gains_are_exact(dtype: type[np.generic]) -> None:
    assert evaluate(DCG(), [0, 1], np.array([40, 0], dtype)) == 2**40 - 1


@every_measure
def test_inputs_are_left_alone(m: Measure) -> None:
    rankings, lists = crossed(graded_lists(3, 2))
    before = rankings.copy(), lists.copy()
    evaluate(m, rankings, lists)
    np.testing.assert_array_equal(rankings, before[0])
    np.testing.assert_array_equal(lists, before[1])


def test_columns_order_of_memory_does_not_matter() -> None:
    rankings, lists = crossed(graded_lists(4, 3))
    for m in MEASURES:
        np.testing.assert_array_equal(
            evaluate(m, np.asfortranarray(rankings), np.asfortranarray(lists)), evaluate(m, rankings, lists)
        )


@every_measure
def test_best_and_worst_rankings(m: Measure) -> None:
    lists = graded_lists(8, 20)
    lists[0] = np.arange(8) == 3  # hit@7 is missed by a list with one relevant item only
    down = np.argsort(-lists.astype(int), axis=1, kind="stable")
    best, worst = evaluate(m, down, lists), evaluate(m, down[:, ::-1], lists)
    assert np.all(best >= worst if m.higher_is_better else best <= worst)
    assert np.any(best != worst)


# --- lists without relevant items


@pytest.mark.parametrize("kind", [NDCG, AveragePrecision, partial(Recall, 1)])
@pytest.mark.parametrize(("no_relevant", "value"), [("0", 0.0), ("1", 1.0), ("skip", np.nan)])
def test_lists_without_relevant_items(kind: Any, no_relevant: NoRelevant, value: float) -> None:
    got = evaluate(kind(no_relevant=no_relevant), [[2, 0, 1], [0, 1, 2]], [[0, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(got, [value, 1.0])


@pytest.mark.parametrize(("no_relevant", "value"), [("0", 0.0), ("1", 1.0), ("skip", np.nan)])
@pytest.mark.parametrize("flat", [0, 1, 3])
def test_auc_of_lists_without_comparable_pairs(no_relevant: NoRelevant, value: float, flat: int) -> None:
    got = evaluate(AUCLoss(no_relevant), [[2, 0, 1], [2, 1, 0]], [[flat] * 3, [1, 0, 0]])
    np.testing.assert_array_equal(got, [value, 1.0])


def test_default_conventions_are_the_papers() -> None:
    """CT15 appendix 15: NDCG = MAP = 1 and AUC = 0 in the first column, r = 0; AUC = 0 in the last, r = 1."""
    assert [evaluate(m, [0, 1], [0, 0]) for m in (NDCG(), AveragePrecision(), AUCLoss())] == [1, 1, 0]
    assert evaluate(AUCLoss(), [0, 1], [1, 1]) == 0


# --- the linear form


def linear_form(m: LinearMeasure, rankings: Ints, relevance: Table) -> Table:
    gains = m.gain(relevance)
    shown = np.array([row[ranking] for row, ranking in zip(gains, rankings, strict=True)])
    return m.offset(relevance) + shown @ m.discount(rankings.shape[1])


@every_linear_measure
@pytest.mark.parametrize("max_grade", [1, 2, 4])
def test_linear_form_holds_exactly_where_it_is_claimed(m: LinearMeasure, max_grade: int) -> None:
    lists = np.array(list(product(range(max_grade + 1), repeat=3)), np.uint8)
    rankings, relevance = crossed(lists)
    form, values = linear_form(m, rankings, relevance), m.values(rankings, relevance)
    assert np.allclose(form, values, rtol=1e-12, atol=1e-12, equal_nan=True) == m.linear(max_grade)


def test_which_measures_are_linear_and_separable() -> None:
    binary = {m.name for m in LINEAR if m.linear(1)}
    graded = {m.name for m in LINEAR if m.linear(2)}
    separable = {m.name for m in LINEAR if m.separable}
    assert binary == set(registry.MEASURES.built_in) - {"ap", "rr", "err", "hit"}
    assert graded == {"sumloss", "dcg", "p", "ndcg", "rbp", "recall"}
    assert separable == {"sumloss", "pairwiseloss", "dcg", "p", "rbp"}


@every_linear_measure
def test_separable_gains_work_item_by_item(m: LinearMeasure) -> None:
    """A gain of a list is the list of the gains of its items if, and only if, the measure says so."""
    lists = np.array(list(product(range(3), repeat=3)))
    alone = np.vectorize(lambda grade: m.gain(np.array([grade]))[0])(lists)
    assert np.array_equal(m.gain(lists), alone) == m.separable


def test_erratum_equation_2_needs_binary_relevance() -> None:
    """CT15 equation 2 says that PairwiseLoss and SumLoss differ by a constant of r; r = (0, 1, 2) refutes it."""
    rankings, relevance = crossed(np.array([[0, 1, 2]]))
    difference = SumLoss().values(rankings, relevance) - PairwiseLoss().values(rankings, relevance)
    assert difference.max() - difference.min() == 1
    assert difference.tolist() == [5, 5, 5, 4, 4, 4]


@pytest.mark.parametrize("items", [2, 3, 4])
def test_equation_2_holds_for_binary_relevance(items: int) -> None:
    for row in binary_lists(items):
        rankings, relevance = crossed(row[None])
        difference = SumLoss().values(rankings, relevance) - PairwiseLoss().values(rankings, relevance)
        s = int(row.sum())
        assert difference.tolist() == [s * (s + 1) / 2] * len(rankings)


def test_offsets_carry_the_value_of_lists_without_relevant_items() -> None:
    lists = np.array([[0, 0], [1, 0]])
    for no_relevant in NO_RELEVANT:
        np.testing.assert_array_equal(
            NDCG(no_relevant=no_relevant).offset(lists), [naive.no_relevant_value(no_relevant), 0]
        )
        np.testing.assert_array_equal(
            AUCLoss(no_relevant).offset(lists), [naive.no_relevant_value(no_relevant), -1]
        )


# --- scikit-learn


@pytest.fixture(scope="module")
def peers() -> tuple[Ints, Table, Table]:
    """Rankings, graded relevance, and scores without ties that sort into these rankings."""
    rng = np.random.default_rng(7)
    lists = rng.integers(0, 5, (200, 9))
    rankings = rng.permuted(np.tile(np.arange(9), (200, 1)), axis=1)
    return rankings, lists, -np.argsort(rankings, axis=1).astype(float)


@pytest.mark.parametrize("n", [None, 1, 4, 9, 20])
@pytest.mark.parametrize("gains", GAINS)
def test_dcg_and_ndcg_of_scikit_learn(peers: tuple[Ints, Table, Table], n: int | None, gains: Gains) -> None:
    rankings, lists, scores = peers
    truth = lists if gains == "linear" else 2**lists - 1
    pairs: list[tuple[Measure, Any]] = [(DCG(n, gains), dcg_score), (NDCG(n, gains, "0"), ndcg_score)]
    for ours, theirs in pairs:
        expected = [theirs(y[None], s[None], k=n) for y, s in zip(truth, scores, strict=True)]
        np.testing.assert_allclose(ours.values(rankings, lists), expected, rtol=1e-12)


def test_scikit_learn_scores_lists_without_relevant_items_0() -> None:
    zeros = np.zeros((1, 3))
    assert ndcg_score(zeros, [[3, 2, 1]]) == evaluate(measure("ndcg+norel0"), [0, 1, 2], zeros[0]) == 0


def test_average_precision_and_auc_of_scikit_learn(peers: tuple[Ints, Table, Table]) -> None:
    rankings, lists, scores = peers
    truth = (lists > 2).astype(int)
    mixed = (truth.min(axis=1) < 1) & (truth.max(axis=1) > 0)
    assert mixed.sum() > 150
    rankings, truth, scores = rankings[mixed], truth[mixed], scores[mixed]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ap = [average_precision_score(y, s) for y, s in zip(truth, scores, strict=True)]
        auc = [1 - roc_auc_score(y, s) for y, s in zip(truth, scores, strict=True)]
    np.testing.assert_allclose(AveragePrecision().values(rankings, truth), ap, rtol=1e-12)
    np.testing.assert_allclose(AUCLoss().values(rankings, truth), auc, rtol=1e-12, atol=1e-15)


# --- ir_measures, which calls trec_eval, the script of MS MARCO and gdeval


@pytest.fixture(scope="module")
def judged(peers: tuple[Ints, Table, Table]) -> tuple[Ints, Table, Any, Any]:
    """Lists with many relevant items, few, or none, their rankings, and both in the form of ir_measures."""
    rankings, lists = peers[0], np.where(np.arange(9) < np.arange(200)[:, None] % 9, 0, peers[1])
    lists[:3] = 0
    qrels = [Qrel(f"{q + 1}", f"d{i}", int(grade)) for q, row in enumerate(lists) for i, grade in enumerate(row)]
    run = [ScoredDoc(f"{q + 1}", f"d{i}", 9.0 - p) for q, row in enumerate(rankings) for p, i in enumerate(row)]
    return rankings, lists, qrels, run


IR_MEASURES = {
    "rr": ir_measures.RR,
    "rr@3": ir_measures.RR @ 3,
    "recall@1": ir_measures.R @ 1,
    "recall@5": ir_measures.R @ 5,
    "recall@20": ir_measures.R @ 20,
    "hit@1": ir_measures.Success @ 1,
    "hit@4": ir_measures.Success @ 4,
    "p@4": ir_measures.P @ 4,
    "ap+norel0": ir_measures.AP,
    "err@5": ir_measures.ERR @ 5,
    "err@20": ir_measures.ERR @ 20,
}


@pytest.mark.parametrize("name", IR_MEASURES)
def test_ir_measures(name: str, judged: tuple[Ints, Table, Any, Any]) -> None:
    rankings, lists, qrels, run = judged
    if name.startswith("err") and not shutil.which("perl"):
        pytest.skip("gdeval, the reference for ERR, is a script in Perl")
    theirs = {one.query_id: one.value for one in ir_measures.iter_calc([IR_MEASURES[name]], qrels, run)}
    ours = measure(name).values(rankings, lists)
    expected = [theirs.get(f"{q + 1}", 0.0) for q in range(len(lists))]  # gdeval omits lists with no relevance
    tolerance = 5e-6 if name.startswith("err") else 1e-12  # gdeval prints 5 digits
    np.testing.assert_allclose(ours, expected, atol=tolerance)


def test_values_by_hand() -> None:
    """The first is Moffat and Zobel's example of section 4: relevant at ranks 1, 3, 4 and 10."""
    ranking, relevance = list(range(10)), [1, 0, 1, 1, 0, 0, 0, 0, 0, 1]
    ps = {0.5: 0.5 + 0.125 + 0.0625 + 2**-10, 0.8: 0.2 * (1 + 0.64 + 0.512 + 0.8**9)}
    for p, value in ps.items():
        assert evaluate(RBP(p=p), ranking, relevance) == pytest.approx(value, rel=1e-14)
    # grades 4, 2, 0: the probabilities are 15/16, 3/16, 0
    assert evaluate(ERR(), [0, 1, 2], [4, 2, 0]) == 15 / 16 + 1 / 16 * 3 / 16 / 2
    assert evaluate(ERR(), [2, 1, 0], [4, 2, 0]) == pytest.approx(3 / 16 / 2 + 13 / 16 * 15 / 16 / 3, rel=1e-14)
    assert evaluate(ERR(1), [2, 1, 0], [4, 2, 0]) == 0
    assert [evaluate(measure(f"hit@{n}"), [2, 1, 0], [4, 2, 0]) for n in (1, 2, 9)] == [0, 1, 1]
    assert [evaluate(measure(f"recall@{n}"), [2, 1, 0], [4, 2, 0]) for n in (1, 2, 9)] == [0, 0.5, 1]


def test_lists_without_relevant_items_have_value_0_in_measures_that_do_not_divide() -> None:
    for name in ("rbp", "rr", "err", "hit@2", "recall@2"):
        assert evaluate(measure(name), [2, 0, 1], [0, 0, 0]) == 0


def test_weights_of_far_positions_vanish_in_silence() -> None:
    far = RBP(p=0.5).discount(5000)
    assert far[-1] == 0
    assert far.sum() == 1


# --- names


@every_measure
def test_names_round_trip(m: Measure) -> None:
    assert measure(str(m)) == m


def test_names_are_unique() -> None:
    assert len({str(m) for m in MEASURES}) == len(MEASURES)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sumloss", SumLoss()),
        ("pairwiseloss", PairwiseLoss()),
        ("dcg", DCG()),
        ("dcg@10", DCG(10)),
        ("dcg+linear", DCG(gains="linear")),
        ("p@3+sum", Precision(3, mean=False)),
        ("p@3", Precision(3)),
        ("ndcg@10+linear+norel0", NDCG(10, "linear", "0")),
        ("ndcg@10+norel0+linear", NDCG(10, "linear", "0")),
        ("ndcg+norel1", NDCG()),
        ("ap+skip", AveragePrecision("skip")),
        ("aucloss", AUCLoss("0")),
        ("aucloss+norel1", AUCLoss("1")),
        ("rbp", RBP(p=0.8)),
        ("rbp:p=0.80", RBP()),
        ("rbp@10:p=0.95", RBP(10, 0.95)),
        ("err@20", ERR(20, max_grade=4)),
        ("err:max_grade=1", ERR(max_grade=1)),
        ("rr@10", ReciprocalRank(10)),
        ("recall@5+skip", Recall(5, "skip")),
        ("hit@3", Hit(3)),
        ("ndcg:cutoff=10,gains=linear,no_relevant=0", NDCG(10, "linear", "0")),
        ("ndcg@10:gains=linear", NDCG(10, "linear")),
    ],
)
def test_names_by_hand(name: str, expected: Measure) -> None:
    assert measure(name) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is not the name of a measure, such as dcg, p@3, ndcg@10.linear or rbp:p=0.8"),
        ("dcg@", "is not the name of a measure"),
        ("dcg@3@4", "is not the name of a measure"),
        ("dcg@-1", "is not the name of a measure"),
        ("dcg@x", "is not the name of a measure"),
        ("dcg +linear", "is not the name of a measure"),
        ("dcg+", "is not the name of a measure"),
        ("x" * 5000, "^unknown measure 'x{60}...': known.{50,300}$"),
        ("{" * 5000, "^'[{]{60}...' is not the name of a measure.{40,90}$"),
        ("dcg+" + "x" * 5000, "^measure 'dcg.x{56}...': no option 'x{60}...': .{10,90}$"),
        ("ndgc", "unknown measure 'ndgc': did you mean 'ndcg'"),
        ("precision@3", "unknown measure 'precision'.*known: ap, aucloss, dcg, err, hit, ndcg, p, pairwiseloss"),
        ("DCG", "unknown measure 'DCG'"),
        ("dcg+linaer", "no option 'linaer': did you mean 'linear'"),
        ("sumloss@3", "'sumloss' has no cut-off"),
        ("ap@3", "'ap' has no cut-off"),
        ("dcg+sum", "'dcg' has no field 'mean'"),
        ("p@3+linear", "'p' has no field 'gains'"),
        ("dcg+norel0", "'dcg' has no field 'no_relevant'"),
        ("p", "needs a cut-off, as in 'p@3'"),
        ("p@0", "cut-off n = 0"),
        ("dcg@0", "cut-off n = 0"),
        ("ndcg@0", "cut-off n = 0"),
        ("rbp:", "is not the name of a measure"),
        ("rbp:p", "'p' is not of the form field=value"),
        ("rbp:q=0.5", "measure 'rbp' has no field 'q'"),
        ("rbp:p=x", "field p: 'x' is not a number"),
        ("rbp:p=1", "p = 1.0: must be a number above 0 and below 1"),
        ("rbp:p=0.5,p=0.6", "sets p twice"),
        ("dcg@3:cutoff=4", "sets cutoff twice"),
        ("err:max_grade=0", "max_grade = 0: must be a whole number, from 1 to 255"),
        ("recall", "needs a cut-off, as in 'recall@3'"),
        ("hit+skip", "'hit' has no field 'no_relevant'"),
        ("p:mean=true", "needs cutoff, as in"),
    ],
)
def test_bad_names(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measure(name)


@pytest.mark.parametrize("p", [1e-7, 1 / 3, 0.1 + 0.2, np.float64(0.25), np.float32(0.1), 1 - 2**-53])
def test_parameters_of_any_value_are_in_the_name(p: Any) -> None:
    made = RBP(p=p)
    assert measure(str(made)) == made
    assert len({made, measure(str(made))}) == 1


@dataclass(frozen=True)
class Mine(LinearMeasureMixin):
    """A measure with several parameters of its own."""

    cutoff: int | None = 3
    shape: float = 1.0
    tuned: bool = False
    higher_is_better: ClassVar[bool] = True
    name: ClassVar[str] = "mine"

    def discount(self, m: int) -> Any:
        return np.arange(m, 0, -1) ** self.shape

    def gain(self, relevance: Any) -> Any:
        return relevance.astype(np.float64)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (Mine(), "mine"),
        (Mine(5), "mine@5"),
        (Mine(None), "mine:cutoff=none"),
        (Mine(shape=1e300, tuned=True), "mine:shape=1e300,tuned=true"),
    ],
)
def test_a_measure_with_several_parameters_is_known_by_name_also_within_a_learner(
    made: Mine, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.MEASURES._known, "mine", Mine)
    assert name_of(made) == str(made) == name
    assert measure(name) == made
    for text in ("ftpl:horizon=50", "blockftrl:horizon=50,decay=0.9"):
        one = learner(text, measure=made)
        assert learner(format_spec(one)) == one
        assert ("[mine:shape=1e300,tuned=true]" in format_spec(one)) == (name == "mine:shape=1e300,tuned=true")


def test_a_learner_takes_a_measure_with_a_parameter() -> None:
    made = learner("blockftrl:measure=rbp@5:p=0.95,horizon=1000")
    assert made == BlockFTRL(RBP(5, 0.95), horizon=1000)
    assert format_spec(made) == "blockftrl:measure=rbp@5:p=0.95,horizon=1000"
    assert learner("blockftrl:measure=[rbp@5:p=0.95],horizon=1000") == made


# --- bad input


@pytest.mark.parametrize("p", [0, 1, -0.5, 1.5, np.nan, "0.8", None, True])
def test_bad_persistence(p: Any) -> None:
    with pytest.raises(ValueError, match=r"p = .*: must be a number above 0 and below 1"):
        RBP(p=p)


def test_a_grade_above_the_largest_is_no_probability() -> None:
    with pytest.raises(
        ValueError, match=r"grade 3, above the max_grade = 2 of err@5:max_grade=2: err:max_grade=3"
    ):
        evaluate(ERR(5, max_grade=2), [0, 1], [3, 0])


@pytest.mark.parametrize("kind", [DCG, Precision, NDCG])
@pytest.mark.parametrize("n", [0, -3, 2.5])
def test_bad_cutoffs(kind: Any, n: Any) -> None:
    with pytest.raises(ValueError, match="n = "):
        kind(n)


def test_an_offset_of_whole_numbers_is_no_trap() -> None:
    class Shifted(DCG):
        def offset(self, relevance: Any) -> Any:
            return np.full(relevance.shape[:-1], 2)

    assert evaluate(Shifted(), [0, 1], [0, 1]) == 2 + evaluate(DCG(), [0, 1], [0, 1])


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (DCG, {"gains": "Linear"}),
        (NDCG, {"gains": "log"}),
        (NDCG, {"no_relevant": "2"}),
        (AveragePrecision, {"no_relevant": "none"}),
        (AUCLoss, {"no_relevant": 0}),
    ],
)
def test_bad_options(kind: Any, bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        kind(**bad)


@pytest.mark.parametrize(
    ("ranking", "relevance", "message"),
    [
        ([0, 1], [0.0, np.nan], "finite and not negative"),
        ([0, 1], ["a", "b"], "must be numbers"),
        ([0, 1], [np.inf, 0.0], "finite and not negative"),
        ([0, 1], [-1, 0], "finite and not negative"),
        ([1, 1], [0, 1], "each of the items 0 to 1 exactly once"),
        ([1, 2], [0, 1], "each of the items 0 to 1 exactly once"),
        ([-1, 0], [0, 1], "each of the items 0 to 1 exactly once"),
        ([0.5, 1], [0, 1], "each of the items 0 to 1 exactly once"),
        ([0, np.nan], [0, 1], "each of the items 0 to 1 exactly once"),
        ([[0, 1], [0, 0]], [[0, 1], [0, 1]], "exactly once"),
        ([0, 1], [0, 1, 1], r"\(2,\) and relevance of shape \(3,\)"),
        ([[0, 1]], [0, 1], r"\(1, 2\) and relevance of shape \(2,\)"),
        ([], [], "not empty"),
        ([[]], [[]], "not empty"),
        (0, 1, "one list per row"),
        ([[[0, 1]]], [[[0, 1]]], "one list per row"),
    ],
)
@pytest.mark.parametrize("m", [SumLoss(), AveragePrecision(), AUCLoss()], ids=str)
def test_bad_input(m: Measure, ranking: Any, relevance: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(m, ranking, relevance)


# --- what can be learned


@pytest.mark.parametrize("max_grade", [1, 4])
def test_learnable_measures_are_the_separable_linear_ones(max_grade: int) -> None:
    for m in MEASURES:
        if m.name in {"sumloss", "dcg", "p", "rbp"} or (m.name == "pairwiseloss" and max_grade == 1):
            assert learnable(m, max_grade) is m
        else:
            with pytest.raises(ValueError, match=rf"cannot be learned .* grades 0 to {max_grade}.*measure=dcg"):
                learnable(m, max_grade)
