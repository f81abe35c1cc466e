"""What the papers say of observability, cells and neighbours, from the definitions.

CT15 is Chaudhuri and Tewari 2015, CT16 Chaudhuri and Tewari 2016, ZT Zhang and Tewari. Slips of the print that
concern these claims:

- ZT Table 4 lists five rows of signals within a group. For n = 1 the row of zeros does not occur; for n >= 2, N+
  also holds rankings with another of the first n items on top, whose rows are constant: (1 1 1 1) is missing.
- ZT Table 2 lists the row of zeros, which does not occur for m = 3: no other item is shown.
- CT15 Lemma 11 refers to Definition 1 for global observability; that is Definition 3.
- ZT Lemma 9 and Theorem 12 include n = m, where all actions are duplicates and the rate is 0, not sqrt(T).
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations, product
from math import factorial

import numpy as np
import pytest

from peekrank.games.analysis import Analysis, analyse
from peekrank.games.cells import Border
from peekrank.games.game import Game
from peekrank.games.observability import signals, unobservable_change
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.types import Floats, Ints

STRICT = ["sumloss", "pairwiseloss", "dcg"]  # ZT Assumption 1; the pairwise loss by ZT equation 5


@cache
def game(name: str, m: int, k: int) -> Game:
    return ranking_game(name, m, k)


@cache
def analysis(name: str, m: int, k: int) -> Analysis:
    return analyse(game(name, m, k), known=None if k == 1 else analysis(name, m, 1).cells)


def borders(name: str, m: int) -> tuple[Border, ...]:
    """Of the ranking 1, 2, ..., m; those of others look the same after renaming items."""
    found = analysis(name, m, 1).cells
    assert found is not None
    assert {border.i for border in found.borders} <= {0}
    return found.borders


def ranking(index: int, m: int) -> tuple[int, ...]:
    return list(permutations(range(m)))[index]


def index_of(order: tuple[int, ...]) -> int:
    return list(permutations(range(len(order)))).index(order)


def in_span(difference: Floats, rows: Ints) -> bool:
    fit = np.linalg.lstsq(rows.T.astype(float), difference, rcond=None)[0]
    return bool(np.abs(rows.T @ fit - difference).max() < 1e-9)


def stacked(g: Game, actions: tuple[int, ...]) -> Ints:
    return np.vstack([g.signal_matrix(a) for a in actions]).astype(np.int64)


# --- CT15


@pytest.mark.slow
@pytest.mark.parametrize("m", [2, 3, 4, 5])
@pytest.mark.parametrize("name", [*STRICT, "p@1+sum", "p@2+sum", "p@3+sum"])
def test_ct15_theorem_1_global_observability(name: str, m: int) -> None:
    """Theorem 1 (Definition 3), section 8: SumLoss, PairwiseLoss by equation 2, DCG, Prec@k; all pairs, k = 1."""
    g = game(name, m, 1)
    seen = signals(g, range(len(g.actions)))
    for j in range(1, len(g.actions)):
        assert unobservable_change(g, g.difference(0, j), seen) is None
    assert analysis(name, m, 1).globally_observable


@pytest.mark.parametrize("m", [3, 4, 5])
@pytest.mark.parametrize("name", STRICT)
def test_ct15_theorem_4_and_14_1_1_no_local_observability(name: str, m: int) -> None:
    """Theorem 4 (Definition 5), 14.1.1 for DCG: the neighbours 123 and 132 (equation 8) show the same item."""
    found = analysis(name, m, 1)
    assert found.globally_observable
    assert not found.locally_observable
    last = index_of((*range(m - 2), m - 1, m - 2))
    border = next(border for border in borders(name, m) if border.j == last)
    g = game(name, m, 1)
    np.testing.assert_array_equal(g.signal_matrix(0), g.signal_matrix(last))
    assert unobservable_change(g, g.difference(0, last), signals(g, border.neighborhood)) is not None


def test_ct15_equation_8() -> None:
    g = game("sumloss", 3, 1)
    assert g.difference(0, 1).tolist() == [[0, 1, -1, 0, 0, 1, -1, 0]]
    assert sorted(g.signal_matrix(0).tolist()) == [[0, 0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0, 0]]


@pytest.mark.parametrize(("name", "m"), [("ndcg", 3), ("ap", 3), ("aucloss", 4)])
def test_ct15_lemma_11_and_theorem_12_no_global_observability(name: str, m: int) -> None:
    """Appendix 15.1: at k = 1 the first ranking against its reverse; three items, four for AUC. Linear regret."""
    g = game(name, m, 1)
    assert analysis(name, m, 1).rate == Rate.LINEAR
    seen = signals(g, range(len(g.actions)))
    v = unobservable_change(g, g.difference(0, len(g.actions) - 1), seen)
    assert v is not None
    assert not (seen.rows @ v).any()
    assert not in_span(g.loss[0] - g.loss[-1], seen.rows)


@pytest.mark.parametrize("name", ["ndcg", "ap", "aucloss"])
def test_ct15_three_items_of_auc_are_an_exception(name: str) -> None:
    """The remark in appendix 15.1: global observability does hold for AUC with m = 3."""
    assert analysis(name, 3, 1).globally_observable == (name == "aucloss")


# --- ZT, section 6: losses with a strictly increasing f


@pytest.mark.parametrize("m", [3, 4, 5])
@pytest.mark.parametrize("name", STRICT)
def test_zt_lemma_3_all_are_pareto_optimal(name: str, m: int) -> None:
    found = analysis(name, m, 1).cells
    assert found is not None
    assert found.kind == ("pareto",) * factorial(m)
    assert (found.dimension == 2**m - 1).all()
    assert found.duplicate_of.tolist() == list(range(factorial(m)))


@pytest.mark.parametrize("m", [3, 4, 5])
@pytest.mark.parametrize("name", STRICT)
def test_zt_lemmas_4_and_5_neighbours_swap_adjacent_items(name: str, m: int) -> None:
    """Lemma 4: exactly these are neighbours. Lemma 5: N+ is the two."""
    swaps = [(*range(p), p + 1, p, *range(p + 2, m)) for p in range(m - 1)]
    assert {border.j for border in borders(name, m)} == {index_of(swap) for swap in swaps}
    assert all(border.neighborhood == tuple(sorted((border.i, border.j))) for border in borders(name, m))


@pytest.mark.parametrize("m", [3, 4])
def test_zt_remark_2_entries_of_differences(m: int) -> None:
    for loss, border in [(game(name, m, 1).loss, border) for name in STRICT for border in borders(name, m)]:
        difference = loss[border.i] - loss[border.j]
        entries = difference[np.abs(difference) > 1e-12]
        assert len(entries) == 2 ** (m - 1)
        assert (entries > 0).sum() == 2 ** (m - 2)
        assert np.abs(entries) == pytest.approx(np.abs(entries[0]))


@pytest.mark.parametrize("m", [2, 3, 4, 5])
@pytest.mark.parametrize("name", STRICT)
def test_zt_theorem_6_and_corollaries_7_and_8(name: str, m: int) -> None:
    """Local observability fails for k <= m - 2 and holds for k = m - 1, m; global observability always holds."""
    for k in range(1, m + 1):
        found = analysis(name, m, k)
        assert found.locally_observable == (k >= m - 1)
        assert found.rate == (Rate.SQRT if k >= m - 1 else Rate.TWO_THIRDS)


def groups(m: int, a: int, b: int) -> list[list[int]]:
    """Outcomes that differ in items a and b only, in the order 00, 01, 10, 11."""
    outcomes = list(product((0, 1), repeat=m))
    found = []
    for rest in product((0, 1), repeat=m - 2):
        group = []
        for x, y in product((0, 1), repeat=2):
            others = iter(rest)
            group.append(outcomes.index(tuple(x if i == a else y if i == b else next(others) for i in range(m))))
        found.append(group)
    return found


def types_of_rows(g: Game, actions: tuple[int, ...], group: list[int]) -> set[tuple[int, ...]]:
    return {tuple(row) for row in stacked(g, actions)[:, group].tolist()}


ZERO, ALL_ONES = (0, 0, 0, 0), (1, 1, 1, 1)
SHOWS_A, SHOWS_B = {(1, 1, 0, 0), (0, 0, 1, 1)}, {(1, 0, 1, 0), (0, 1, 0, 1)}
SHOWS_BOTH = {(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)}


@pytest.mark.parametrize("m", [3, 4, 5])
@pytest.mark.parametrize("name", STRICT)
def test_zt_table_1(name: str, m: int) -> None:
    """k = m - 2, the last two items: both rankings show neither."""
    g, last = game(name, m, m - 2), index_of((*range(m - 2), m - 1, m - 2))
    difference = g.loss[0] - g.loss[last]
    for group in groups(m, m - 2, m - 1):
        step = difference[group][1]
        assert step > 0  # f(m) - f(m - 1)
        assert difference[group] == pytest.approx([0, step, -step, 0])
        assert types_of_rows(g, (0, last), group) == {ALL_ONES, ZERO}
    assert not in_span(difference, stacked(g, (0, last)))


@pytest.mark.parametrize("m", [3, 4, 5])
@pytest.mark.parametrize("name", STRICT)
def test_zt_tables_2_and_3(name: str, m: int) -> None:
    """k = m - 1: rankings that swap positions p and p + 1, the last two in Table 3 and others in Table 2."""
    g = game(name, m, m - 1)
    for border in borders(name, m):
        order = ranking(border.j, m)
        p = next(position for position in range(m) if order[position] != position)
        difference = g.loss[border.i] - g.loss[border.j]
        wanted = SHOWS_A | SHOWS_B | {ZERO} if p == m - 2 else SHOWS_BOTH | ({ZERO} if m > 3 else set())
        for group in groups(m, p, p + 1):
            step = difference[group][1]
            assert step > 0  # f(p + 1) - f(p)
            assert difference[group] == pytest.approx([0, step, -step, 0])
            assert types_of_rows(g, border.neighborhood, group) == wanted
        assert in_span(difference, stacked(g, border.neighborhood))


def test_zt_combination_of_table_3() -> None:
    assert np.array([1, 1, 0, 0]) - np.array([1, 0, 1, 0]) == pytest.approx([0, 1, -1, 0])


# --- ZT, section 7: precision


PRECISION = [(m, n) for m in (2, 3, 4, 5) for n in range(1, m)]


@pytest.mark.parametrize(("m", "n"), PRECISION)
def test_zt_lemma_9_and_remark_4(m: int, n: int) -> None:
    """All are Pareto-optimal; the classes of duplicates are the sets of the first n items."""
    found = analysis(f"p@{n}+sum", m, 1).cells
    assert found is not None
    assert set(found.kind) == {"pareto"}
    tops = [frozenset(order[:n]) for order in permutations(range(m))]
    assert [tops.index(top) for top in tops] == found.duplicate_of.tolist()
    assert len(set(tops)) == len(np.unique(found.duplicate_of))


@pytest.mark.parametrize(("m", "n"), PRECISION)
def test_zt_lemmas_10_and_11(m: int, n: int) -> None:
    """Neighbours exchange one item; N+ is both classes, 2 n! (m - n)! rankings."""
    tops = [frozenset(order[:n]) for order in permutations(range(m))]
    found = borders(f"p@{n}+sum", m)
    assert sorted(sorted(tops[border.j]) for border in found) == sorted(
        sorted(chosen) for chosen in combinations(range(m), n) if len(tops[0] - set(chosen)) == 1
    )
    for border in found:
        both = (tops[border.i], tops[border.j])
        assert list(border.neighborhood) == [a for a, top in enumerate(tops) if top in both]
        assert len(border.neighborhood) == 2 * factorial(n) * factorial(m - n)


@pytest.mark.parametrize(("m", "n"), PRECISION)
def test_zt_theorem_12(m: int, n: int) -> None:
    for k in range(1, m + 1):
        assert analysis(f"p@{n}+sum", m, k).locally_observable
        assert analysis(f"p@{n}+sum", m, k).rate == Rate.SQRT


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_zt_theorem_12_with_n_equal_to_m(m: int) -> None:
    for k in range(1, m + 1):
        assert analysis(f"p@{m}+sum", m, k).locally_observable
        assert analysis(f"p@{m}+sum", m, k).rate == Rate.ZERO


@pytest.mark.parametrize(("m", "n"), PRECISION)
def test_zt_table_4(m: int, n: int) -> None:
    """k = 1: the difference is (0 1 -1 0) in every group, in the span of rows with a or b on top."""
    g = game(f"p@{n}+sum", m, 1)
    for border in borders(f"p@{n}+sum", m):
        top, other = set(range(n)), set(ranking(border.j, m)[:n])
        (a,), (b,) = top - other, other - top
        difference = g.difference(border.i, border.j)[0]
        for group in groups(m, a, b):
            assert difference[group].tolist() == [0, 1, -1, 0]
            constant = {ALL_ONES, ZERO} if n > 1 else set()
            assert types_of_rows(g, border.neighborhood, group) == SHOWS_A | SHOWS_B | constant
    rows = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    assert (np.array([2, 1, -2, -1]) @ rows).tolist() == [0, 1, -1, 0]


# --- CT16, Theorem 5.2

TABLE = ["000", "110", "101", "011", "100", "010", "001", "111"]
P = [0.0, 0.1, 0.15, 0.05, 0.2, 0.3, 0.2, 0.0]
P_TILDE = [0.0, 0.3, 0.0, 0.0, 0.15, 0.15, 0.4, 0.0]
PRINTED = {"p": (0.3533, 0.3920, 0.3226), "p~": (0.3339, 0.3339, 0.4000)}


def in_order_of_the_game(probabilities: list[float]) -> Floats:
    """In hundredths, exactly."""
    numbers = {text: round(100 * x) for text, x in zip(TABLE, probabilities, strict=True)}
    return np.array([numbers["".join(map(str, r))] for r in product((0, 1), repeat=3)], dtype=np.float64)


PAIR = {"p": in_order_of_the_game(P), "p~": in_order_of_the_game(P_TILDE)}


def test_ct16_table_1_means() -> None:
    outcomes = np.array(list(product((0, 1), repeat=3)))
    for distribution in PAIR.values():
        assert distribution.sum() == 100
        assert (distribution @ outcomes).tolist() == [45, 45, 40]


def test_ct16_theorem_5_2_printed_expectations() -> None:
    outcomes = np.array(list(product((0, 1), repeat=3)))
    best = np.array([sum(1 / np.log2(1 + p) for p in range(1, 1 + r.sum())) for r in outcomes])
    scaled = outcomes / np.maximum(best, 1)[:, None]
    for name, printed in PRINTED.items():
        assert PAIR[name] @ scaled / 100 == pytest.approx(printed, abs=5e-5)


def test_ct16_theorem_5_2_no_signal_tells_them_apart() -> None:
    for name in ("ndcg", "ap", "dcg"):
        g = game(name, 3, 1)
        for action in range(6):
            S = g.signal_matrix(action)
            assert (S @ PAIR["p"]).tolist() == (S @ PAIR["p~"]).tolist()
    S = game("ndcg", 3, 2).signal_matrix(0)
    assert (S @ PAIR["p"]).tolist() != (S @ PAIR["p~"]).tolist(), "two answers do tell them apart"


def test_ct16_theorem_5_2_best_rankings_differ() -> None:
    g = game("ndcg", 3, 1)
    best = {}
    for name, distribution in PAIR.items():
        expected = g.loss @ distribution / 100
        best[name] = {ranking(int(a), 3) for a in np.flatnonzero(expected < expected.min() + 1e-12)}
    assert best == {"p": {(1, 0, 2)}, "p~": {(2, 0, 1), (2, 1, 0)}}


def test_ct16_theorem_5_2_regret_is_linear() -> None:
    found = analysis("ndcg", 3, 1)
    assert found.rate == Rate.LINEAR
    move = PAIR["p"] - PAIR["p~"]
    seen = signals(game("ndcg", 3, 1), range(6))
    assert not (seen.rows @ move).any()
    assert in_span(move, seen.unobservable_directions)
