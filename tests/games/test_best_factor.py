"""The best factor: known values, an exact solver, random distributions, the checker; ceilings by enumeration."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from copy import deepcopy
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from peekrank import measure
from peekrank.advice import advise
from peekrank.cli.app import app
from peekrank.games.best_factor import BestFactor, best_factor, gain_game, products
from peekrank.games.ceilings import _value, factor_ceiling
from peekrank.games.exact.programs import maximise_exactly
from peekrank.games.ranking import ranking_game

CHECKER = Path(__file__).parents[2] / "examples" / "check_best_factor.py"
check: Callable[[dict[str, Any]], tuple[float, float]] = runpy.run_path(str(CHECKER))["check"]


@cache
def found(name: str, m: int, k: int, programs: int = 41, grades: int = 2) -> BestFactor:
    return best_factor(name, m, k, grades, programs)


# the best factors, certified to the last digit, or the best bounds known
KNOWN = {
    ("ndcg", 3, 1): (0.93382, 0.93383),
    ("ndcg", 4, 1): (0.88957, 0.88987),
    ("ap", 3, 1): (17 / 19, 17 / 19),
    ("ap", 4, 1): (49 / 59, 49 / 59),
    ("aucloss", 4, 1): (9 / 11, 9 / 11),
    ("ndcg", 4, 2): (0.95649, 0.98037),
    ("ap", 4, 2): (0.93235, 29 / 30),
    ("aucloss", 4, 2): (0.88807, 8 / 9),
}
# linear programs, and lower bounds a little below what they reach
REACHED = [("ndcg", 101, 0.936), ("ap", 101, 0.89), ("aucloss", 101, 0.874)]
SLOWLY = [("ndcg", 1_401, 0.95649), ("ap", 1_401, 0.93), ("aucloss", 401, 0.88189)]


@pytest.mark.parametrize("game", KNOWN, ids=str)
def test_the_bounds_contain_what_is_known(game: tuple[str, int, int]) -> None:
    bounds, (low, high) = found(*game), KNOWN[game]
    assert bounds.lower < high + 1e-6
    assert bounds.upper > low - 1e-6
    assert bounds.lower <= bounds.upper + 1e-9
    if game[2] == 1:
        assert bounds.upper - bounds.lower < 0.006


@pytest.mark.parametrize(
    ("name", "programs", "reached"), [*REACHED, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOWLY)]
)
def test_cuts_raise_the_lower_bound(name: str, programs: int, reached: float) -> None:
    assert check(found(name, 4, 2, programs).certificate)[0] > reached


def test_cuts_leave_the_probability_of_lists_that_earn_nothing_free() -> None:
    """For the area under the curve, lists where all items are relevant; otherwise the bound stays below 0.85."""
    cuts = np.array(found("aucloss", 4, 2).certificate["cuts"])
    assert np.abs(cuts @ products(np.ones((1, 4)), 2, 2)[0]).max() < 1e-10


@pytest.mark.parametrize(
    ("game", "value"), [(("ap", 3, 1), "17/19"), (("ap", 4, 1), "49/59"), (("ap", 4, 2), "29/30")]
)
def test_rational_adversaries_are_exact(game: tuple[str, int, int], value: str) -> None:
    """The value of an adversary in fractions, from its weights and exact losses alone."""
    bounds = found(*game)
    assert bounds.exact_upper == Fraction(value)
    proof, exact = bounds.certificate, ranking_game(game[0] + "+norel0", *game[1:])
    gain = [[-Fraction(int(x)) / exact.scales[0][0] for x in row[1:]] for row in exact.numerators[0]]
    weights = [[Fraction(w) for w in row] for row in proof["adversary"]["weights"]]
    shown = [flag_by_counting(proof["outcomes"], row, game[2]) for row in weights]
    mass = [sum(flag.values()) for flag in shown]
    assert all({key: v / n for key, v in flag.items()} == {key: v / mass[0] for key, v in shown[0].items()}
               for flag, n in zip(shown, mass, strict=True))  # fmt: skip
    mixture = [sum(column) for column in zip(*weights, strict=True)]
    best = max(sum(g * w for g, w in zip(row, mixture, strict=True)) for row in gain)
    mean = sum(
        g * w
        for s, row in zip(proof["adversary"]["rankings"], weights, strict=True)
        for g, w in zip(gain[s], row, strict=True)
    )
    assert best / mean == Fraction(value)


def flag_by_counting(outcomes: list[list[int]], weights: list[Fraction], k: int) -> dict[Any, Fraction]:
    """The weight of each pattern with a relevant item, for each k items."""
    flag: dict[Any, Fraction] = {}
    for items in permutations(range(len(outcomes[0])), k):
        for outcome, weight in zip(outcomes, weights, strict=True):
            pattern = tuple(outcome[i] for i in items)
            if any(pattern):
                flag[items, pattern] = flag.get((items, pattern), Fraction(0)) + weight
    return flag


def exact_cell(name: str, m: int, k: int, cuts: list[list[int]]) -> Fraction:
    """The value of a cell by the exact simplex method, from the definition."""
    game, _ = gain_game(measure(name), m, k, 2)
    gain = [[-Fraction(int(x)) / game.scales[0][0] for x in row] for row in game.numerators[0]]
    relevance = np.array(list(product((0, 1), repeat=m)))
    at = (products(relevance, k, 2).astype(int) @ np.array(cuts, dtype=int).T).tolist()
    n, J = len(gain), len(cuts)
    rows, limits = [], []
    for s in range(n):
        for r in range(1, 2**m):
            z = [Fraction(0)] * (n * J)
            z[s * J : (s + 1) * J] = [Fraction(x) for x in at[r]]
            rows.append([*(-gain[x][r] for x in range(n)), gain[s][r], *z])
            limits.append(Fraction(0))
    rows.append([Fraction(1)] * n + [Fraction(0)] * (1 + n * J))
    rows.append([Fraction(0)] * n + [Fraction(1)] + [Fraction(0)] * (n * J))
    limits += [Fraction(1), Fraction(1)]
    objective = np.array([Fraction(0)] * n + [Fraction(1)] + [Fraction(0)] * (n * J), dtype=object)
    best = maximise_exactly(objective, np.array(rows, dtype=object), np.array(limits, dtype=object))
    return Fraction(int(best.value.p), int(best.value.q))


def test_an_exact_solver_finds_the_same() -> None:
    order = [[1, -1, 0], [0, 1, -1]]
    root = best_factor("ap", 3, 1, programs=1).lower
    assert abs(exact_cell("ap", 3, 1, order) - root) < 1e-9
    alike = [*order, [-1, 1, 0], [0, -1, 1]]  # the flag at which all items look the same
    assert exact_cell("ap", 3, 1, alike) == Fraction(17, 19)


@pytest.mark.parametrize("game", [("ndcg", 3, 1), ("ap", 4, 2), ("aucloss", 4, 1), ("aucloss", 4, 2)], ids=str)
def test_the_cells_keep_their_promise_on_random_distributions(game: tuple[str, int, int]) -> None:
    """Find the cell of a flag, then compare the mean value of its mixed ranking with the best."""
    bounds = found(*game)
    proof, m, random = bounds.certificate, game[1], np.random.default_rng(1)
    gain, outcomes, cuts = (np.array(proof[key]) for key in ("gain", "outcomes", "cuts"))
    flags = products(outcomes, game[2], 2)
    worst = 2.0
    for _ in range(2_000):
        p = random.dirichlet(np.full(len(outcomes), 0.1))
        order = np.argsort(-(p @ flags[:, :m]), kind="stable")  # number the items by their means
        renamed = [proof["outcomes"].index(row) for row in outcomes[:, order].tolist()]
        flag = np.bincount(renamed, p, len(p)) @ flags
        assert np.all(np.diff(flag[:m]) <= 1e-12)
        (cell,) = [c for c in proof["cells"] if all(np.sign(n) * (cuts[abs(n) - 1] @ flag) > 0 for n in c["path"])]
        worst = min(
            worst, float(np.array(cell["mixed"]) @ gain @ np.bincount(renamed, p, len(p)) / (gain @ p).max())
        )
    assert bounds.lower - 1e-9 < worst < 1


@pytest.mark.parametrize("name", ["ndcg", "ap", "rr", "recall@1", "dcg"])
def test_no_share_is_lost_if_regret_is_sublinear(name: str) -> None:
    assert found(name, 2, 1, 9).lower == pytest.approx(1, abs=1e-6)
    assert found(name, 2, 2, 9, grades=3).upper == pytest.approx(1, abs=1e-6)  # no adversary


def test_three_grades_cost_more_than_two() -> None:
    assert found("ndcg", 2, 1, 61, 3).upper < 0.999
    assert check(found("ndcg", 2, 1, 61, 3).certificate)


PROOF = ("ap", 3, 1)


@pytest.mark.parametrize("game", KNOWN, ids=str)
def test_the_checker_accepts(game: tuple[str, int, int]) -> None:
    proof = json.loads(json.dumps(found(*game).certificate))
    lower, upper = check(proof)
    assert lower == pytest.approx(found(*game).lower, abs=1e-8)
    assert upper == pytest.approx(found(*game).upper, abs=1e-8)


def change_gain(proof: dict[str, Any]) -> None:
    proof["gain"][0][2] += 0.01


def drop_a_cell(proof: dict[str, Any]) -> None:
    del proof["cells"][3]


def claim_more(proof: dict[str, Any]) -> None:
    proof["lower"] += 1e-4


def claim_less(proof: dict[str, Any]) -> None:
    proof["upper"] -= 1e-4


def show_another_flag(proof: dict[str, Any]) -> None:
    row = proof["adversary"]["weights"][0]
    row[row.index("0")] = "1/7"


def change_the_mixed(proof: dict[str, Any]) -> None:
    proof["cells"][0]["mixed"] = [1.0, *[0.0] * 5]


def swap_sides(proof: dict[str, Any]) -> None:
    for cell in proof["cells"]:
        cell["path"] = [-n for n in cell["path"]]


@pytest.mark.parametrize(
    "change",
    [change_gain, drop_a_cell, claim_more, claim_less, show_another_flag, change_the_mixed, swap_sides],
    ids=lambda one: one.__name__,
)
def test_the_checker_rejects(change: Callable[[dict[str, Any]], None]) -> None:
    proof = deepcopy(found(*PROOF).certificate)
    change(proof)
    with pytest.raises(AssertionError):
        check(proof)


@pytest.mark.parametrize("name", ["sumloss", "ndcgg", "ap"])
def test_what_cannot_be_bounded(name: str) -> None:
    with pytest.raises(ValueError, match=r"no best factor|unknown measure|m = 6"):
        best_factor(name, 6 if name == "ap" else 3, 1)


def mean_by_listing(name: str, i: int, j: int, a: int, b: int) -> float:
    """The mean value of the first block first, over all places within the blocks."""
    rows = [
        [*first, *second]
        for first in product((0, 1), repeat=a)
        for second in product((0, 1), repeat=b)
        if sum(first) == i and sum(second) == j
    ]
    ranking = np.tile(np.arange(a + b), (len(rows), 1))
    values = measure(name).values(ranking, np.array(rows)).mean()
    return float(1 - values if name == "aucloss" else values)


@pytest.mark.parametrize("name", ["ndcg", "ndcg@3", "ap", "aucloss", "recall@2"])
def test_values_of_blocks_by_listing(name: str) -> None:
    for a, b in ((1, 4), (2, 3), (4, 1)):
        for i, j in product(range(a + 1), range(b + 1)):
            if 0 < i + j < a + b:
                value = _value(measure(name), np.array([float(i)]), np.array([float(j)]), a, b)[0]
                assert value == pytest.approx(mean_by_listing(name, i, j, a, b))


def z(n: int) -> float:
    return sum(1 / log2(1 + i) for i in range(1, n + 1))


@pytest.mark.parametrize("m", [3, 4, 10, 30])
def test_the_printed_adversary_is_no_better_than_the_ceiling(m: int) -> None:
    """Theorem 2 (c) of the page: one adversary for each a."""
    printed = [
        z(m) / m * (a + (m - a) / z(m - a)) / (z(a) + (z(m) - z(a)) / z(m - a)) for a in range(1, min(m, 4))
    ]
    ceiling = factor_ceiling("ndcg", m, 1)
    assert ceiling is not None
    assert z(m) / m < ceiling <= min(printed) + 1e-9
    if m <= 4:
        assert ceiling == pytest.approx(min(printed))


CEILINGS = {("ndcg", 10, 1): 0.7721, ("ndcg", 10, 2): 0.9493, ("ndcg", 20, 5): 0.9818, ("ap", 10, 1): 0.6667,
            ("ap", 10, 2): 0.9027, ("aucloss", 10, 1): 0.7407, ("aucloss", 10, 3): 0.9536}  # fmt: skip


@pytest.mark.parametrize("game", CEILINGS, ids=str)
def test_known_ceilings(game: tuple[str, int, int]) -> None:
    assert factor_ceiling(*game) == pytest.approx(CEILINGS[game], abs=1e-4)


@pytest.mark.parametrize("game", KNOWN, ids=str)
def test_a_ceiling_is_no_lower_than_what_can_be_guaranteed(game: tuple[str, int, int]) -> None:
    ceiling = factor_ceiling(*game)
    assert ceiling is not None
    assert found(*game).lower <= ceiling + 1e-9


def test_ceilings_of_many_items_and_of_other_measures() -> None:
    assert factor_ceiling("ndcg", 10**6, 2) == factor_ceiling("ndcg", 50, 2)
    assert factor_ceiling("aucloss", 51, 1) is None
    assert factor_ceiling("dcg", 5, 1) is None
    assert factor_ceiling("ap", 5, 4) == 1


def test_advice_says_how_much_can_be_promised() -> None:
    advice = advise("ndcg", m=10, k=2)
    assert advice.factor_ceiling == pytest.approx(0.9493, abs=1e-4)
    assert advice.notes[1] == (
        "ndcg cannot be learned from 2 of 10 answers: no learner can promise more than 94.93 % of the best "
        "(queries without relevant items are skipped)"
    )
    assert advise("dcg", m=10, k=2).factor_ceiling is None
    assert advise("rr", m=10, k=2).factor_ceiling is None
    assert advise("ndcg", m=3, k=2, grades=3).factor_ceiling is None  # hopeless, but no ceiling is known


def test_the_command(tmp_path: Path) -> None:
    proof, data = tmp_path / "proof.json", tmp_path / "data.json"
    arguments = ["game", "ap", "--m", "3", "--k", "1", "--best-factor", "--programs", "41"]
    result = CliRunner().invoke(app, [*arguments, "--certificate", str(proof), "--json", str(data)])
    assert result.exit_code == 0
    assert "= 17/19" in result.output
    said = json.loads(data.read_text())
    assert (said["exact_upper"], said["lower"]) == ("17/19", found("ap", 3, 1).lower)
    assert check(json.loads(proof.read_text()))[0] == pytest.approx(said["lower"], abs=1e-8)
    result = CliRunner().invoke(app, ["game", "ndcg", "--m", "10", "--k", "2", "--best-factor"])
    assert "at most 0.9492" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ndcg", "--m", "3", "--k", "1", "--programs", "5"], "--programs does not apply"),
        (["ndcg", "--m", "3", "--best-factor"], "needs --k"),
        (["ndcg", "--m", "9", "--k", "1", "--best-factor", "--certificate", "x.json"], "needs m up to 5"),
        (["rr", "--m", "9", "--k", "1", "--best-factor"], "needs m up to 5"),
        (["apple-tasting", "--best-factor"], "--best-factor does not apply"),
        (["ndcg", "--m", "3", "--k", "4", "--best-factor"], "k"),
        (["--m", "3", "--best-factor"], "--best-factor does not apply"),
    ],
)
def test_what_the_command_rejects(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["game", *arguments])
    assert result.exit_code != 0
    assert words in " ".join(f"{result.output} {result.exception}".split())
