"""Every number that CT15 (Chaudhuri and Tewari 2015) prints, recomputed with the package.

In the paper sigma maps an object to its rank: "sigma_5 = 312" ranks object 1 third. The package's rankings list
the items in display order, so each sigma is inverted first. Slips of the print that concern these numbers:

- Section 3 writes Prec@k as f(sigma) . r with 1(sigma(i) < k); by its own definition a line earlier it is <=.
- Appendix 14.1: with grades 0..n a signal matrix has (n + 1)^m columns, not 2^m.
- Appendix 15.1 closes a parenthesis too many in two entries of the NDCG vectors; "(1 + log2 3/2))/(1 + log2 3)" is
  (1 + (log2 3)/2) / (1 + log2 3), as the difference printed below it confirms. It writes 1/log2 3 once as
  log2 2/log2 3.
- Lemma 11 refers to Definition 1 for global observability; that is Definition 3.
- Theorem 7 prints min over sigma of SumLoss(sigma_t, r_t); sigma_t should read sigma.

All printed numbers are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import log2, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.ct15 import SIGNALS_3, SIGNALS_4, TABLE_1, TABLE_2, outcomes, ranking
from peekrank import DCG, PairwiseLoss, Precision, RTop1F, Shape, SumLoss, evaluate, fixed_items, measure, play
from peekrank._jit import kernel
from peekrank.types import Features, Floats, Ints, Kernels, Measure

LOG3 = log2(3)
MIXED = (1 + LOG3 / 2) / (1 + LOG3)
ENDS = 3 / (2 * (1 + 1 / LOG3))
STEP = LOG3 / (2 * (1 + LOG3))

Matrix = NDArray[np.float64]


def grades(text: str) -> list[int]:
    return [int(grade) for grade in text]


def sigmas(m: int) -> list[str]:
    return ["".join(map(str, ranks)) for ranks in permutations(range(1, m + 1))]


def loss_row(m: Measure, sigma: str) -> Matrix:
    """The value of a permutation against all relevance vectors, in the paper's order."""
    columns = outcomes(len(sigma))
    return np.array(evaluate(m, [ranking(sigma)] * len(columns), [grades(r) for r in columns]))


class Notes(NamedTuple):
    """The ranking to show, what was revealed so far, and in how many rounds."""

    order: Ints
    seen: Floats
    rounds: Ints


@kernel
def _rank(state: Notes, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    for p in range(len(ranking)):
        ranking[p] = state.order[p]


@kernel
def _update(state: Notes, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    for p in range(len(feedback)):
        state.seen[state.rounds[0] + p] = feedback[p]
    state.rounds[0] += len(feedback)


@dataclass(frozen=True)
class Show:
    """A learner that shows one ranking and records the feedback."""

    notes: Notes
    name: ClassVar[str] = "show"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    max_grade: ClassVar[int] = 255
    horizon: ClassVar[None] = None
    measure: ClassVar[None] = None
    kernels: ClassVar[Kernels] = Kernels(_rank, _update)
    persistent: ClassVar[tuple[str, ...]] = ("seen", "rounds")

    def init(self, shape: Shape) -> Notes:
        return self.notes

    def validate_state(self, state: Notes) -> None:
        pass

    def scores(self, state: Notes, X: Features) -> Floats:
        return np.zeros(len(X))

    def token_size(self, shape: Shape) -> int:
        return 1

    def n_uniforms(self, shape: Shape) -> int:
        return 0

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        return relevance.astype(np.float64)

    def bound(self, shape: Shape, horizon: int) -> None:
        return None


def feedback_row(sigma: str) -> list[float]:
    """What the engine reveals of a shown permutation for all relevance vectors: a row of H."""
    columns = [grades(r) for r in outcomes(len(sigma))]
    notes = Notes(np.array(ranking(sigma)), np.full(len(columns), -1.0), np.zeros(1, dtype=np.int64))
    play(Show(notes), fixed_items(columns), k=1, measure=SumLoss())
    return [float(grade) for grade in notes.seen]


def signal_matrix(sigma: str) -> Matrix:
    """Definition 2."""
    row = np.array(feedback_row(sigma))
    return np.array([row == 0, row == 1], dtype=np.float64)


def distance(vector: Matrix, signals: Sequence[Matrix]) -> float:
    """How far a vector is from the span of the columns of the transposed signal matrices."""
    columns = np.vstack(signals).T
    solution = np.linalg.lstsq(columns, vector, rcond=None)[0]
    return float(np.linalg.norm(columns @ solution - vector))


def largest_distance(m: Measure, items: int) -> float:
    """The largest distance of a loss difference from what can be observed: Definition 3 asks for 0."""
    signals = [signal_matrix(sigma) for sigma in sigmas(items)]
    rows = {sigma: loss_row(m, sigma) for sigma in sigmas(items)}
    return max(distance(rows[a] - rows[b], signals) for a, b in combinations(rows, 2))


# --- Tables 1 and 2, equation 8


def test_table_1() -> None:
    assert sigmas(3) == list(TABLE_1)
    for sigma, losses in TABLE_1.items():
        assert loss_row(SumLoss(), sigma).tolist() == losses


def test_table_2() -> None:
    for sigma, feedback in TABLE_2.items():
        assert feedback_row(sigma) == feedback


def test_example_of_section_5() -> None:
    """L_{3,4} = 2 * 0 + 1 * 1 + 3 * 1 = 4 and H_{3,4} = r_4(2) = 1."""
    assert evaluate(SumLoss(), ranking("213"), grades("011")) == 4
    assert ranking("213")[0] == 2 - 1
    assert feedback_row("213")[3] == 1


def test_equation_8() -> None:
    difference = loss_row(SumLoss(), "123") - loss_row(SumLoss(), "132")
    assert difference.tolist() == [0, 1, -1, 0, 0, 1, -1, 0]
    for sigma in ("123", "132"):
        assert signal_matrix(sigma).tolist() == [[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]]


@pytest.mark.parametrize("m", [SumLoss(), PairwiseLoss(), DCG()], ids=str)
def test_theorem_4_local_observability_fails(m: Measure) -> None:
    """The neighbours 123 and 132 both show object 1 on top: their difference is orthogonal to their signals."""
    difference = loss_row(m, "123") - loss_row(m, "132")
    assert distance(difference, [signal_matrix("123")]) == pytest.approx(float(np.linalg.norm(difference)))
    assert distance(difference, [signal_matrix("123")]) > 0.2


# --- Theorem 1: global observability


@pytest.mark.parametrize("items", [2, 3, 4])
@pytest.mark.parametrize("m", [SumLoss(), PairwiseLoss(), DCG(), Precision(2, mean=False)], ids=str)
def test_theorem_1_global_observability(m: Measure, items: int) -> None:
    assert largest_distance(m, items) < 1e-12


@pytest.mark.parametrize("items", [3, 4])
def test_proof_of_theorem_1(items: int) -> None:
    """A loss row is the sum over ranks j of j times the feedback of a permutation with that object on top."""
    for sigma in sigmas(items):
        total = np.zeros(2**items)
        for j, item in enumerate(ranking(sigma), start=1):
            others = [other for other in range(items) if other != item]
            top = "".join(str([item, *others].index(i) + 1) for i in range(items))
            total += j * signal_matrix(top)[1]
        np.testing.assert_array_equal(total, loss_row(SumLoss(), sigma))


# --- appendix 14.1.1 and 15


@pytest.mark.parametrize(
    ("sigma", "printed"),
    [
        ("123", [0, 1 / 2, 1 / LOG3, 1 / 2 + 1 / LOG3, 1, 3 / 2, 1 + 1 / LOG3, 3 / 2 + 1 / LOG3]),
        ("132", [0, 1 / LOG3, 1 / 2, 1 / 2 + 1 / LOG3, 1, 1 + 1 / LOG3, 3 / 2, 3 / 2 + 1 / LOG3]),
    ],
)
def test_dcg_vectors(sigma: str, printed: list[float]) -> None:
    np.testing.assert_allclose(loss_row(DCG(), sigma), printed, rtol=1e-15)


NORMALISED: dict[str, tuple[str, str, list[float], list[float], list[float]]] = {
    "ndcg": (
        "123",
        "321",
        [1, 1 / 2, 1 / LOG3, MIXED, 1, ENDS, 1, 1],
        [1, 1, log2(2) / LOG3, 1, 1 / 2, ENDS, MIXED, 1],
        [0, -1 / 2, 0, -STEP, 1 / 2, 0, STEP, 0],
    ),
    "ap": (
        "123",
        "321",
        [1, 1 / 3, 1 / 2, 7 / 12, 1, 5 / 6, 1, 1],
        [1, 1, 1 / 2, 1, 1 / 3, 5 / 6, 7 / 12, 1],
        [0, -2 / 3, 0, -5 / 12, 2 / 3, 0, 5 / 12, 0],
    ),
    "aucloss": (
        "1234",
        "4321",
        [0, 1, 2 / 3, 1 / 3, 0, 1, 3 / 4, 1 / 2, 1 / 2, 1 / 4, 0, 1, 2 / 3, 1 / 3, 0, 0],
        [0, 0, 1 / 3, 2 / 3, 1, 0, 1 / 4, 1 / 2, 1 / 2, 3 / 4, 1, 0, 1 / 3, 2 / 3, 1, 0],
        [0, 1, 1 / 3, -1 / 3, -1, 1, 1 / 2, 0, 0, -1 / 2, -1, 1, 1 / 3, -1 / 3, -1, 0],
    ),
}


@pytest.mark.parametrize("name", NORMALISED)
def test_normalised_vectors_and_their_differences(name: str) -> None:
    first, last, first_row, last_row, difference = NORMALISED[name]
    rows = [loss_row(measure(name), sigma) for sigma in (first, last)]
    np.testing.assert_allclose(rows[0], first_row, rtol=1e-14)
    np.testing.assert_allclose(rows[1], last_row, rtol=1e-14)
    np.testing.assert_allclose(rows[0] - rows[1], difference, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", NORMALISED)
def test_lemma_11_the_difference_is_not_observable(name: str) -> None:
    first, _, _, _, difference = NORMALISED[name]
    signals = [signal_matrix(sigma) for sigma in sigmas(len(first))]
    assert distance(np.array(difference), signals) > 0.1


def test_signal_matrices_of_three_objects() -> None:
    for owners, printed in SIGNALS_3.items():
        for sigma in owners:
            assert signal_matrix(sigma).tolist() == printed
    assert sorted(sigma for owners in SIGNALS_3 for sigma in owners) == sigmas(3)


def test_signal_matrices_of_four_objects() -> None:
    """Groups of 6 permutations share one of four matrices, by the object on top."""
    owners = [ranking(sigma)[0] + 1 for sigma in sigmas(4)]
    assert [owners.count(top) for top in SIGNALS_4] == [6, 6, 6, 6]
    for sigma, top in zip(sigmas(4), owners, strict=True):
        assert signal_matrix(sigma).tolist() == SIGNALS_4[top]


def test_auc_of_three_objects_is_globally_observable() -> None:
    assert largest_distance(measure("aucloss"), 3) < 1e-12
    assert largest_distance(measure("aucloss"), 4) > 0.1


# --- section 3


def test_precision_counts_position_k_itself() -> None:
    """The printed f(sigma) has 1(sigma(i) < k), which would leave position k out."""
    assert [evaluate(Precision(2, mean=False), [0, 1, 2], r) for r in ([1, 0, 0], [0, 1, 0], [0, 0, 1])] == [
        1,
        1,
        0,
    ]


# --- Theorems 7, 9 and 10: the parameters

SIZES = [(2, 4), (3, 100), (5, 1000), (10, 10_000), (10, 12_345), (20, 1_000_000), (50, 10**7)]


@pytest.mark.parametrize(("m", "horizon"), SIZES)
@pytest.mark.parametrize("loss", [SumLoss(), PairwiseLoss(), DCG(), Precision(2, mean=False)], ids=str)
def test_number_of_blocks(m: int, horizon: int, loss: Any) -> None:
    """K = m^(-1/3) T^(2/3) is the cube root of T^2 / m, rounded."""
    K = RTop1F(loss, horizon=horizon).block_count(Shape(m, 0, 1), horizon)
    assert m * (2 * K - 1) ** 3 <= 8 * horizon**2 <= m * (2 * K + 1) ** 3


def test_number_of_blocks_in_the_simulation() -> None:
    """Section 10: m = 10, T = 10000, hence K = 10^(7/3) = 215.4."""
    assert RTop1F(DCG(), horizon=10_000).init(Shape(10, 0, 1)).blocks == 215


@pytest.mark.parametrize(("m", "horizon"), SIZES)
@pytest.mark.parametrize(
    ("loss", "n", "largest"),
    [
        (SumLoss(), 1, 1),
        (PairwiseLoss(), 1, 1),
        (Precision(2, mean=False), 1, 1),
        (Precision(2, mean=False), 4, 1),
        (DCG(), 1, 1),
        (DCG(), 2, 3),
        (DCG(), 4, 15),
    ],
    ids=str,
)
def test_epsilon(m: int, horizon: int, loss: Any, n: int, largest: int) -> None:
    """sqrt(1 / (m K)); for DCG with grades 0..n, sqrt(1 / ((2^n - 1)^2 m K))."""
    learner, shape = RTop1F(loss, horizon=horizon, max_grade=n), Shape(m, 0, 1)
    K = learner.block_count(shape, horizon)
    epsilon = sqrt(1 / (largest**2 * m * K))
    assert learner.noise(shape, horizon) == pytest.approx(epsilon, rel=1e-14)
    assert learner.init(shape).width == pytest.approx(1 / epsilon, rel=1e-14)


def test_given_parameters_win() -> None:
    learner, shape = RTop1F(SumLoss(), horizon=1000, blocks=7, epsilon=0.25), Shape(5, 0, 1)
    state = learner.init(shape)
    assert (state.blocks, state.width) == (7, 4.0)
    assert RTop1F(SumLoss(), horizon=1000, blocks=7).noise(shape, 1000) == pytest.approx(1 / sqrt(35))
