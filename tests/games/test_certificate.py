"""Certificates against the checker examples/check_certificate.py: it accepts the right and rejects the changed."""

from __future__ import annotations

import json
import random
import re
import runpy
import shlex
from collections.abc import Callable
from copy import deepcopy
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers.naive import game_twin
from peekrank.cli.app import app
from peekrank.games import certificate as witness
from peekrank.games.analysis import Analysis, analyse
from peekrank.games.certificate import FORMAT, adversaries, certificate
from peekrank.games.classic import CLASSIC, classic
from peekrank.games.exact.numbers import UndecidedError
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.games.theorems import theorem_of
from peekrank.measures import measure
from peekrank.papers.ct16 import table as ct16_table
from peekrank.registry import MEASURES

Proof = dict[str, Any]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "games" / "index.md").read_text(encoding="utf-8")
CHECKER = ROOT / "examples" / "check_certificate.py"


def printed_checker() -> Callable[[Proof], str]:
    """Return the function `check` of examples/check_certificate.py, which may use NumPy alone."""
    checker: Callable[[Proof], str] = runpy.run_path(str(CHECKER))["check"]
    return checker


check = printed_checker()


@cache
def analysis_of(name: str, m: int, k: int, grades: int = 2) -> Analysis:
    return analyse(ranking_game(name, m, k, grades), analysis_of(name, m, m, grades).cells if k < m else None)


@cache
def proof_of(name: str, m: int, k: int, grades: int = 2) -> Proof:
    return certificate(analysis_of(name, m, k, grades))


CUT = ("p", "recall", "hit")  # measures that have a cut-off always
NAMES = [name for name in MEASURES.built_in if name not in CUT] + [
    "p@1+sum",
    "p@2+sum",
    "p@3+sum",
    "dcg@1",
    "dcg@2",
    "ndcg@1",
    "ndcg@2",
    "ndcg@3",
    "recall@2",
    "hit@2",
]
CORNERS = [(name, *size) for name in NAMES for size in ((4, 1, 2), (3, 2, 3))]
EVERY = [(name, m, k, 2) for name in NAMES for m in (2, 3, 4) for k in range(1, m + 1)]
EVERY += [(name, m, k, 3) for name in NAMES for m in (2, 3) for k in range(1, m + 1)]
SAMPLE = random.Random(0).sample([game for game in EVERY if game not in CORNERS], 14)  # noqa: S311
GAMES = CORNERS + SAMPLE + [("ndcg+linear", 3, 2, 3), ("ap", 5, 4, 2), ("p@2+sum", 5, 1, 2), ("dcg", 5, 2, 2)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "m", "k", "grades"), GAMES)
def test_certificates_of_ranking_games_pass_the_printed_check(name: str, m: int, k: int, grades: int) -> None:
    analysis = analysis_of(name, m, k, grades)
    proof = json.loads(json.dumps(proof_of(name, m, k, grades)))
    assert check(proof) == analysis.rate
    assert proof == proof_of(name, m, k, grades)
    assert proof["format"] == FORMAT
    assert proof["exact"] == analysis.game.rational


@pytest.mark.parametrize("name", CLASSIC)
def test_certificates_of_classic_games_pass_the_printed_check(name: str) -> None:
    proof = certificate(analyse(classic(name)))
    assert check(json.loads(json.dumps(proof))) == CLASSIC[name].rate
    assert proof["game"]["actions"] == list(classic(name).actions)


def random_game(seed: int) -> tuple[list[list[int]], list[list[int]]]:
    rng = np.random.default_rng(seed)
    actions, outcomes = rng.integers(2, 5, size=2)
    loss = rng.integers(0, rng.integers(2, 6), size=(actions, outcomes))
    return loss.tolist(), rng.integers(0, rng.integers(1, 4), size=(actions, outcomes)).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_certificates_of_random_games_pass_the_printed_check(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        loss, feedback = random_game(seed)
        proof = certificate(analyse(Game.of(loss, feedback)))
        assert check(json.loads(json.dumps(proof))) == game_twin(loss, feedback).rate, seed


@pytest.mark.slow
def test_random_games_are_of_all_classes() -> None:
    rates = {analyse(Game.of(*random_game(seed))).rate for seed in range(60)}
    assert rates == set(Rate)


def test_every_pair_of_neighbours_is_listed() -> None:
    for name, expected in (("dcg", 24 * 3 // 2), ("p@2+sum", 6 * 4 // 2)):  # rankings, or sets, times exchanges
        pairs = [frozenset((pair["i"], pair["j"])) for pair in proof_of(name, 4, 4)["neighbours"]]
        assert len(pairs) == len(set(pairs)) == expected


def test_many_pairs_are_listed_up_to_symmetry(monkeypatch: pytest.MonkeyPatch) -> None:
    found = analyse(ranking_game("dcg@1", 4, 1))  # four classes, each a neighbour of the others: six pairs
    for limit, listed in ((6, 6), (5, 3)):
        monkeypatch.setattr(witness, "MAX_PAIRS", limit)
        proof = certificate(found)
        assert len(proof["neighbours"]) == len(proof["observers"]) == listed
        assert check(proof) == "sqrt(T)"


@pytest.mark.parametrize("size", ["1e-40", "1e-9", 1, "1e10", "1e100"])
def test_the_scale_of_losses_does_not_matter(size: Any) -> None:
    blind = analyse(Game.of([[0, size], [size, 0]], [["-", "-"]] * 2))
    assert check(json.loads(json.dumps(certificate(blind)))) == "T"
    seen = certificate(analyse(Game.of([[0, size], [size, 0]], [["h", "t"]] * 2)))
    assert check(seen) == "sqrt(T)"
    with pytest.raises(AssertionError):
        check(seen | {"rate": "0"})
    forged = certificate(blind) | {"game": seen["game"]}
    with pytest.raises(AssertionError):
        check(forged)


@pytest.mark.parametrize("size", ["1e-30", "1e-8", "1e-3"])
def test_a_hopeless_game_has_adversaries_however_fine_it_is(size: str) -> None:
    loss = [[0, 1, 0], [1, 0, 0], [size, size, f"-{size}"]]
    assert adversaries(analyse(Game.of(loss, [["-", "-", "x"]] * 3))).gap > 0


def shift(values: list[Any], by: Any) -> None:
    values[0] += by


def leave_out_a_pair(proof: Proof) -> None:
    del proof["neighbours"][0], proof["observers"][0]


def move_mass(values: list[float]) -> None:
    low, high = int(np.argmin(values)), int(np.argmax(values))
    values[low], values[high] = values[low] + 0.01, values[high] - 0.01


def other(action: int, proof: Proof) -> int:
    return (action + 1) % len(proof["game"]["loss"])


TAMPERED: dict[str, tuple[str, int, int, Callable[[Proof], None]]] = {
    "a loss (0)": ("p@2+sum", 2, 1, lambda p: p["game"]["loss"].__setitem__(0, [0.0, -2.0, -0.5, -1.5])),
    "a loss (sqrt)": ("dcg", 3, 2, lambda p: shift(p["game"]["loss"][2], 0.01)),
    "a loss (2/3)": ("ap", 3, 2, lambda p: shift(p["game"]["loss"][2], 0.01)),
    "a loss (T)": ("aucloss", 4, 2, lambda p: shift(p["game"]["loss"][2], 0.01)),
    "a symbol": ("dcg", 3, 2, lambda p: p["game"]["feedback"][0].reverse()),
    "a point": ("dcg", 3, 2, lambda p: p["neighbours"][0]["point"].reverse()),
    "a point that is no distribution": ("dcg", 3, 2, lambda p: shift(p["neighbours"][0]["point"], 0.1)),
    "N+": ("p@2+sum", 3, 1, lambda p: p["neighbours"][0]["neighborhood"].pop()),
    "a pair": ("dcg", 3, 2, lambda p: p["neighbours"][0].update(j=p["neighbours"][0]["i"])),
    "a value (sqrt)": ("dcg", 3, 2, lambda p: shift(p["observers"][0]["value"], 1e-3)),
    "a value (2/3)": ("aucloss", 4, 3, lambda p: shift(p["observers"][-1]["value"], 1e-3)),
    "an action of an observer": (
        "dcg",
        3,
        2,
        lambda p: p["observers"][0]["action"].__setitem__(0, other(p["observers"][0]["action"][0], p)),
    ),
    "an observer from outside N+": ("dcg", 4, 3, lambda p: p["neighbours"][0].update(p["neighbours"][1])),
    "an observer left out (sqrt)": ("dcg", 3, 2, lambda p: p["observers"].pop()),
    "an observer left out (2/3)": ("ap", 3, 2, lambda p: p["observers"].pop()),
    "no neighbours": ("dcg", 3, 2, lambda p: p.update(neighbours=[], observers=[])),
    "a neighbour left out": ("dcg", 4, 3, leave_out_a_pair),
    "a pair that may be neighbours": ("dcg", 4, 3, lambda p: p["no_neighbours"].pop()),
    "a multiple": ("dcg", 4, 3, lambda p: shift(p["no_neighbours"][0]["multiples"], 1e-3)),
    "a negative multiple": ("dcg", 4, 3, lambda p: p["no_neighbours"][0]["multiples"].__setitem__(0, -1.0)),
    "a multiple of a stranger": (
        "dcg",
        4,
        3,
        lambda p: p["no_neighbours"][0].update(of=[p["no_neighbours"][0]["j"]]),
    ),
    "a direction (2/3)": ("ap", 3, 2, lambda p: shift(p["unobservable_pair"]["direction"], 1)),
    "a direction (T)": ("ndcg", 3, 1, lambda p: shift(p["unobservable_pair"]["direction"], 1)),
    "a direction of zeros": ("ap", 3, 2, lambda p: p["unobservable_pair"].update(direction=[1] + [0] * 7)),
    "blind actions (T)": ("aucloss", 4, 2, lambda p: p["unobservable_pair"]["actions"].pop()),
    "blind actions (2/3)": ("ap", 3, 2, lambda p: p["unobservable_pair"]["actions"].pop()),
    "an adversary": ("aucloss", 4, 2, lambda p: move_mass(p["adversaries"]["p"])),
    "the other adversary": ("ndcg", 4, 2, lambda p: move_mass(p["adversaries"]["q"])),
    "an adversary that adds up to more": ("ap", 4, 2, lambda p: shift(p["adversaries"]["p"], 0.01)),
    "equal adversaries": ("ap", 4, 2, lambda p: p["adversaries"].update(q=p["adversaries"]["p"])),
    "the gap": ("ap", 4, 2, lambda p: p["adversaries"].update(gap=p["adversaries"]["gap"] + 1e-6)),
    "no gap": ("ap", 4, 2, lambda p: p["adversaries"].update(gap=0.0)),
    "a good action": ("ndcg", 3, 1, lambda p: p["adversaries"].update(good_against_p=None)),
    "a symmetry of actions": ("dcg", 3, 2, lambda p: p["symmetries"][0]["actions"].reverse()),
    "a symmetry that is none": ("dcg", 3, 2, lambda p: p["symmetries"][1].update(outcomes=list(range(8)))),
    "a symmetry that is no permutation": ("p@2+sum", 2, 1, lambda p: p["symmetries"][0].update(actions=[0, 0])),
    "a rate": ("dcg", 3, 2, lambda p: p.update(rate="0")),
    "a rate, the other way": ("dcg", 3, 2, lambda p: p.update(rate="T")),
    "a rate that there is not": ("ap", 4, 2, lambda p: p.update(rate="T^(3/4)")),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_changed_certificates_are_rejected(what: str) -> None:
    name, m, k, change = TAMPERED[what]
    proof = deepcopy(proof_of(name, m, k))
    assert check(proof) == proof["rate"]
    change(proof)
    with pytest.raises((AssertionError, KeyError, TypeError, ValueError, RuntimeWarning)):
        check(proof)


def test_what_makes_a_certificate_of_sqrt_is_no_certificate_of_two_thirds() -> None:
    """Nor the other way round, by taking over all fields of the other."""
    easy, hard = proof_of("dcg", 3, 2), proof_of("dcg", 3, 1)
    for proof in ({**easy, **hard, "rate": "sqrt(T)"}, {**hard, **easy, "rate": "T^(2/3)"}):
        with pytest.raises(AssertionError):
            check(proof)


HOPELESS = [game for game in GAMES if game[0] in ("ndcg", "ap", "aucloss", "pairwiseloss", "ndcg@2")]
HOPELESS = [game for game in HOPELESS if theorem_of(measure(game[0]), *game[1:]).rate == Rate.LINEAR]


def exact_sides(proof: Proof) -> tuple[list[Fraction], list[Fraction]]:
    p, q = ([Fraction(x) for x in proof["adversaries"][f"exact_{side}"]] for side in "pq")
    return p, q


def tell_apart(feedback: list[list[Any]], p: list[Fraction], q: list[Fraction]) -> bool:
    """Whether some action shows some symbol more often under one than under the other: exactly."""
    for row in feedback:
        seen: dict[Any, Fraction] = {}
        for symbol, x, y in zip(row, p, q, strict=True):
            seen[symbol] = seen.get(symbol, Fraction(0)) + x - y
        if any(seen.values()):
            return True
    return False


@pytest.mark.parametrize(("name", "m", "k", "grades"), HOPELESS)
def test_adversaries_are_exact(name: str, m: int, k: int, grades: int) -> None:
    proof = proof_of(name, m, k, grades)
    p, q = exact_sides(proof)
    assert sum(p) == sum(q) == 1
    assert min(p + q) >= 0
    assert not tell_apart(proof["game"]["feedback"], p, q)
    assert np.allclose(
        [float(x) for x in p + q], proof["adversaries"]["p"] + proof["adversaries"]["q"], atol=1e-15
    )


@pytest.mark.parametrize(("name", "m", "k", "grades"), [game for game in HOPELESS if "ndcg" not in game[0]])
def test_the_gap_of_a_rational_game_is_exact(name: str, m: int, k: int, grades: int) -> None:
    game, proof = ranking_game(name, m, k, grades), proof_of(name, m, k, grades)
    ((scale,),) = game.scales
    loss = [[Fraction(int(x)) / scale for x in row] for row in game.numerators[0]]
    cost = [[sum(x * y for x, y in zip(row, side, strict=True)) for row in loss] for side in exact_sides(proof)]
    i, j = proof["adversaries"]["good_against_p"], proof["adversaries"]["good_against_q"]
    gap = min(on_p + on_q for on_p, on_q in zip(*cost, strict=True)) - cost[0][i] - cost[1][j]
    assert gap > 0
    assert gap >= Fraction(proof["adversaries"]["gap"]) >= gap - Fraction(1, 10**12)


def test_the_pair_of_ct16_cannot_be_told_apart_but_has_other_best_rankings() -> None:
    """CT16 Table 1 and the expectations printed below it."""
    proof = ct16_table.certificate()
    p, q = exact_sides(proof)
    assert sum(p) == sum(q) == 1
    assert not tell_apart(proof["game"]["feedback"], p, q)
    relevance = [tuple(map(int, name.split())) for name in proof["game"]["outcomes"]]
    for side in (p, q):
        means = [sum(x * row[item] for x, row in zip(side, relevance, strict=True)) for item in range(3)]
        assert means == [Fraction(9, 20), Fraction(9, 20), Fraction(2, 5)]
    best = [(1 / np.log2(np.arange(2, 2 + sum(row)))).sum() or 1 for row in relevance]
    gains = np.array(relevance) / np.array(best)[:, None]
    expected = [np.array(side, dtype=float) @ gains for side in (p, q)]
    assert np.round(expected[0], 4).tolist() == [0.3533, 0.3920, 0.3226]
    assert np.round(expected[1], 4).tolist() == [0.3339, 0.3339, 0.4000]
    cost = [np.array(proof["game"]["loss"]) @ np.array(side, dtype=float) for side in (p, q)]
    ranked = [np.flatnonzero(np.isclose(c, c.min(), atol=1e-12)) for c in cost]
    names = ranking_game("ndcg", 3, 1).actions
    assert [[names[a] for a in side] for side in ranked] == [["1 0 2"], ["2 0 1", "2 1 0"]]
    full = {**deepcopy(proof_of("ndcg", 3, 1)), "adversaries": proof["adversaries"]}
    assert check(full) == "T"
    assert 0 < proof["adversaries"]["gap"] < proof_of("ndcg", 3, 1)["adversaries"]["gap"]


def test_an_undecided_analysis_has_no_certificate() -> None:
    game = ranking_game("ndcg", 3, 1)
    with pytest.raises(UndecidedError, match="no certificate: the border of action 3"):
        certificate(Analysis(game, None, None, undecided="the border of action 3"))


@pytest.mark.parametrize(("name", "m", "k"), [("p@2+sum", 2, 1), ("dcg", 3, 2), ("dcg", 3, 1)])
def test_only_hopeless_games_have_adversaries(name: str, m: int, k: int) -> None:
    with pytest.raises(ValueError, match="only a game of rate T has"):
        adversaries(analyse(ranking_game(name, m, k)))


@pytest.mark.slow
def test_the_page_says_what_its_commands_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file and the commands of docs/games/index.md that need files, in their order."""
    monkeypatch.chdir(tmp_path)
    (table,) = re.findall(r"```csv\n(.*?)```", PAGE, flags=re.S)
    Path("pump.csv").write_text(table)
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.replace("\\\n", ""), flags=re.S)
    commands = [line for block in blocks for line in block.splitlines()]
    assert len(commands) == 8
    for command in commands:
        program, *arguments = shlex.split(command, comments=True)
        assert program == "peekrank"
        if arguments[0] == "simulate":
            arguments += ["--horizon", "500", "--runs", "2"]
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    assert check(json.loads(Path("pump.json").read_text())) == "T^(2/3)"
    assert check(json.loads(Path("ndcg.json").read_text())) == "T"
