"""Games from matrices, from measures and from files, and their symmetries."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from helpers.ct15 import SIGNALS_3, SIGNALS_4, TABLE_1, TABLE_2, outcomes, ranking
from helpers.games import exact_losses
from peekrank import Precision, evaluate, measure
from peekrank.games.analysis import analyse
from peekrank.games.cells import orbits
from peekrank.games.files import read_game
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.types import Floats, Ints


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split()]


# --- from matrices


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (0.1, Fraction(1, 10)),
        (1e-7, Fraction(1, 10**7)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.int64(-3), Fraction(-3)),
        ("1/3", Fraction(1, 3)),
        (" -0.25 ", Fraction(-1, 4)),
        ("1e3", Fraction(1000)),
        (Fraction(2, 7), Fraction(2, 7)),
        (Decimal("0.30"), Fraction(3, 10)),
        (10**30 + 1, Fraction(10**30 + 1)),
        (f"{10**40}/{10**40 + 1}", Fraction(10**40, 10**40 + 1)),
        (True, Fraction(1)),
    ],
)
def test_losses_are_exact(value: Any, exact: Fraction) -> None:
    game = Game.of([[value, 0], [0, "1/6"]], [[0, 1], [0, 1]])
    assert exact_losses(game) == [[exact, Fraction(0)], [Fraction(0), Fraction(1, 6)]]
    assert game.loss[0, 0] == pytest.approx(float(exact), rel=1e-15)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "nan", "-inf", "abc", "", "1/0", None, 1j])
def test_losses_that_are_no_finite_numbers(value: Any) -> None:
    with pytest.raises(ValueError, match=r"loss of action 1 under outcome 0: .* is not a finite number"):
        Game.of([[0, 1], [value, 0]], [[0, 1], [0, 1]])


def test_arrays_make_games() -> None:
    loss = np.array([[0.5, 0.1], [0.2, 0.3]])
    game = Game.of(loss, np.array([[0, 1], [1, 1]]))
    np.testing.assert_allclose(game.loss, loss, rtol=1e-15)
    assert game.signals.tolist() == [[0, 1], [1, 1]]


def test_symbols() -> None:
    game = Game.of([[0, 1, 2]] * 2, [["a", None, (1, 2)], [[1, 2], "b", [[1], 2]]])
    assert game.symbols == ("a", None, (1, 2), "b", ((1,), 2))
    assert game.signals.tolist() == [[0, 1, 2], [2, 3, 4]]


@pytest.mark.parametrize(
    ("symbol", "message"),
    [({}, "not hashable"), ({1}, "not hashable"), ([[{}]], "not hashable"), (float("nan"), "must equal itself")],
)
def test_symbols_that_are_none(symbol: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"feedback of action 0 under outcome 1.* {message}"):
        Game.of([[0, 1]], [["a", symbol]])


@pytest.mark.parametrize(
    ("loss", "feedback", "message"),
    [
        ([], [], "empty"),
        ([[]], [[]], "empty"),
        ([[0, 1], [1, 0]], [[0, 1]], "loss has 2 rows and feedback 1"),
        ([[0, 1], [1]], [[0, 1], [0, 1]], "row 1 of loss has 1 columns, row 0 of loss 2"),
        ([[0, 1]], [[0, 1, 2]], "row 0 of feedback has 3 columns, row 0 of loss 2"),
        ([1, 2], [1, 2], "loss is not a matrix"),
        ([["1e301"]], [[0]], "more than 300 digits"),
        ([[10**400]], [[0]], "more than 300 digits"),
        ([[f"1/{10**n + 1}" for n in range(1, 60)]], [[0] * 59], "more than 300 digits"),
    ],
)
def test_wrong_shapes(loss: Any, feedback: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Game.of(loss, feedback)


def test_names() -> None:
    game = Game.of([[0, 1]], [[0, 1]], outcomes=["x", "y"])
    assert (game.actions, game.outcomes) == (("0",), ("x", "y"))
    with pytest.raises(ValueError, match="got 3 names for 2 outcomes"):
        Game.of([[0, 1]], [[0, 1]], outcomes=["x", "y", "z"])
    with pytest.raises(ValueError, match="names of actions must be distinct"):
        Game.of([[0], [1]], [[0], [1]], actions=["x", "x"])
    with pytest.raises(ValueError, match="names of outcomes must be distinct"):
        Game.of([[0, 1]], [[0, 1]], outcomes=["1", 1])  # type: ignore[list-item]


def test_signal_matrices() -> None:
    game = Game.of([[0, 1, 2]] * 2, [["b", "a", "b"], ["c", "c", "c"]])
    assert game.signal_matrix(0).tolist() == [[1, 0, 1], [0, 1, 0]]
    assert game.signal_matrix(1).tolist() == [[1, 1, 1]]


# --- from measures

MEASURES = [
    "sumloss",
    "pairwiseloss",
    "dcg",
    "p@2+sum",
    "ndcg",
    "ap",
    "aucloss",
    "rbp",
    "rr",
    "err",
    "recall@2",
    "hit@2",
]
OPTIONS = [
    "rbp@2:p=0.5",
    "rr@2",
    "err@2:max_grade=7",
    "recall@1+norel1",
    "dcg@2+linear",
    "p@2",
    "ndcg@1",
    "ndcg@2+linear+norel0",
    "ndcg+skip",
    "ap+norel0",
    "ap+skip",
    "aucloss+norel1",
    "aucloss+skip",
]


@pytest.mark.parametrize(("m", "grades"), [(1, 2), (2, 3), (3, 2), (3, 4), (4, 2), (4, 3), (5, 2)])
@pytest.mark.parametrize("name", MEASURES + OPTIONS)
def test_losses_are_those_of_the_measure(name: str, m: int, grades: int) -> None:
    """A list that a measure skips costs nothing."""
    game, x = ranking_game(name, m, 1, grades), measure(name)
    relevance = [numbers(outcome) for outcome in game.outcomes]
    assert (len(set(game.actions)), len(set(game.outcomes))) == (len(game.actions), grades**m)
    for action, row in zip(game.actions, game.loss, strict=True):
        values = np.nan_to_num(evaluate(x, [numbers(action)] * len(relevance), relevance))
        np.testing.assert_allclose(row, -values if x.higher_is_better else values, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("m", "k", "grades"), [(1, 1, 2), (3, 1, 2), (3, 2, 3), (4, 2, 2), (4, 4, 2)])
def test_feedback_is_the_first_k(m: int, k: int, grades: int) -> None:
    game = ranking_game("dcg", m, k, grades)
    for a, action in enumerate(game.actions):
        for r, outcome in enumerate(game.outcomes):
            relevance = numbers(outcome)
            seen = tuple(relevance[item] for item in numbers(action)[:k])
            assert game.symbols[game.signals[a, r]] == seen


def test_average_precision_is_exact() -> None:
    """CT15 appendix 15.1 prints the row of the ranking 0 1 2."""
    printed = ["1", "1/3", "1/2", "7/12", "1", "5/6", "1", "1"]
    assert exact_losses(ranking_game("ap", 3, 1))[0] == [-Fraction(value) for value in printed]


def index(game: Game, sigma: str) -> int:
    return game.actions.index(" ".join(map(str, ranking(sigma))))


def test_ct15_tables() -> None:
    game = ranking_game("sumloss", 3, 1)
    assert [outcome.replace(" ", "") for outcome in game.outcomes] == outcomes(3)
    for sigma, losses in TABLE_1.items():
        assert game.loss[index(game, sigma)].tolist() == losses
    for sigma, feedback in TABLE_2.items():
        assert [game.symbols[s] for s in game.signals[index(game, sigma)]] == [(grade,) for grade in feedback]


def test_ct15_signal_matrices() -> None:
    three, four = ranking_game("sumloss", 3, 1), ranking_game("aucloss", 4, 1)
    for sigmas, printed in SIGNALS_3.items():
        for sigma in sigmas:
            assert three.signal_matrix(index(three, sigma)).tolist() == printed
    order = [four.outcomes.index(" ".join(outcome)) for outcome in outcomes(4)]
    for a, action in enumerate(four.actions):
        assert four.signal_matrix(a)[:, order].tolist() == SIGNALS_4[numbers(action)[0] + 1]


@dataclass(frozen=True)
class FirstHit:
    """1 / rank of the first relevant item."""

    name: ClassVar[str] = "firsthit"
    higher_is_better: ClassVar[bool] = True

    def values(self, rankings: Ints, relevance: Any) -> Floats:
        hits = np.take_along_axis(relevance, rankings, axis=1) > 0
        return np.where(hits.any(axis=1), 1 / (1 + hits.argmax(axis=1)), 0)


def test_a_measure_of_ones_own() -> None:
    game = ranking_game(FirstHit(), 3, 1)
    assert game.loss[0].tolist() == [0, -0.3333333333333333, -0.5, -0.5, -1, -1, -1, -1]


def test_a_game_too_large_for_memory() -> None:
    with pytest.raises(ValueError, match=r"^m = 12: .* need about 251,1\d\d GB of memory"):
        ranking_game("dcg", 12, 1)
    with pytest.raises(ValueError, match="more than a petabyte"):
        ranking_game("dcg", 1000, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dcg", 3, 4), "k = 4: must be a whole number, from 1 to 3"),
        (("dcg", 3, 0), "k = 0"),
        (("dcg", 0, 1), "m = 0"),
        (("dcg", 3, 1, 1), "grades = 1"),
        (("dgc", 3, 1), "unknown measure 'dgc': did you mean 'dcg'"),
    ],
)
def test_impossible_ranking_games(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ranking_game(*arguments)


# --- symmetries


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize(("m", "k", "grades"), [(2, 1, 2), (3, 2, 3), (4, 3, 2)])
def test_relabelling_items_is_a_symmetry(name: str, m: int, k: int, grades: int) -> None:
    game = ranking_game(name, m, k, grades)
    assert len(game.symmetries) == 2
    for actions, results in game.symmetries:
        assert sorted(actions) == list(range(len(game.actions)))
        assert sorted(results) == list(range(len(game.outcomes)))
        np.testing.assert_allclose(game.loss[np.ix_(actions, results)], game.loss, rtol=1e-15)
        for old, new in enumerate(actions):
            moved = {tuple(row) for row in game.signal_matrix(new)[:, results].tolist()}
            assert moved == {tuple(row) for row in game.signal_matrix(old).tolist()}


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_all_rankings_are_one_orbit(m: int) -> None:
    assert not orbits(ranking_game("aucloss", m, 1)).any()


def test_orbits_by_hand() -> None:
    game = Game.of([[0, 1], [2, 2], [1, 0]], [["a", "b"], ["c", "c"], ["d", "e"]])
    assert orbits(game).tolist() == [0, 1, 2]
    assert orbits(replace(game, symmetries=((np.array([2, 1, 0]), np.array([1, 0])),))).tolist() == [0, 1, 0]


def test_a_symmetry_that_is_none_is_refused() -> None:
    ranking, (actions, results) = ranking_game("dcg", 3, 1), ranking_game("dcg", 3, 1).symmetries[0]
    for wrong in ((actions, np.arange(8)), (np.arange(6), results), (np.arange(6)[::-1], np.arange(8)[::-1])):
        with pytest.raises(ValueError, match="changes its losses or its feedback"):
            replace(ranking, symmetries=(wrong,))
    swap = (np.array([1, 0]), np.array([1, 0]))
    replace(Game.of([[0, 1], [1, 0]], [["a", "b"], ["c", "d"]]), symmetries=(swap,))
    with pytest.raises(ValueError, match="changes its losses or its feedback"):  # only the feedback differs
        replace(Game.of([[0, 1], [1, 0]], [["a", "b"], ["c", "c"]]), symmetries=(swap,))


# --- from files

PLAIN = "0,1/2\n1,0.1\n\na,b\n-,-\n"
NAMED = "game,x,y\nleft,0,1/2\nright,1,0.1\n\n"


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("text", "actions", "outcomes"),
    [
        (PLAIN, "0 1", "0 1"),
        ("\ufeff" + PLAIN.replace("\n", "\r\n"), "0 1", "0 1"),
        (PLAIN.replace("\n", "\r"), "0 1", "0 1"),
        ("\n\n" + PLAIN.replace(",", " ; ").replace("\n\n", "\n \n\n") + "\n\n", "0 1", "0 1"),
        (PLAIN.replace(",", "\t"), "0 1", "0 1"),
        (PLAIN.replace("\n\n", "\n,\n").replace("b\n", "b,,\n"), "0 1", "0 1"),
        ("x,y\n" + PLAIN, "0 1", "x y"),
        ("x,y\n" + PLAIN.replace("\n\n", "\n\nx,y\n"), "0 1", "x y"),
        ("left,0,1/2\nright,1,0.1\n\na,b\n-,-", "left right", "0 1"),
        ("left,0,1/2\nright,1,0.1\n\nleft,a,b\nright,-,-", "left right", "0 1"),
        (NAMED + "a,b\n-,-", "left right", "x y"),
        (NAMED + "x,y\na,b\n-,-", "left right", "x y"),
        (NAMED + "left,a,b\nright,-,-", "left right", "x y"),
        (NAMED + "game,x,y\nleft,a,b\nright,-,-", "left right", "x y"),
        (NAMED + ",x,y\nleft,a,b\nright,-,-", "left right", "x y"),
        (",7,8\n1,0,1/2\n2,1,0.1\n\na,b\n-,-", "1 2", "7 8"),
        (",7,8\n1,0,1/2\n2,1,0.1\n\n,7,8\n1,a,b\n2,-,-", "1 2", "7 8"),
    ],
)
def test_tables(tmp_path: Path, text: str, actions: str, outcomes: str) -> None:
    game = read_game(written(tmp_path, "game.csv", text))
    assert exact_losses(game) == [[Fraction(0), Fraction(1, 2)], [Fraction(1), Fraction(1, 10)]]
    assert (game.symbols, game.signals.tolist()) == (("a", "b", "-"), [[0, 1], [2, 2]])
    assert (game.actions, game.outcomes) == (tuple(actions.split()), tuple(outcomes.split()))


def test_feedback_that_equals_the_names_is_feedback(tmp_path: Path) -> None:
    game = read_game(written(tmp_path, "game.csv", "x,y\n0,1\n1,0\n\nx,y\nx,y\n"))
    assert (game.symbols, game.signals.tolist()) == (("x", "y"), [[0, 1], [0, 1]])


def test_tables_of_one_column(tmp_path: Path) -> None:
    for text, names in (("0\n1\n\na\na", ("0",)), ("x\n0\n1\n\na\na", ("x",)), ("x\n0\n1\n\nx\na\na", ("x",))):
        game = read_game(written(tmp_path, "game.csv", text))
        assert (game.loss.tolist(), game.outcomes, game.symbols) == ([[0], [1]], names, ("a",))


def test_quoted_cells(tmp_path: Path) -> None:
    text = '"do, then look", 0, 1\n"do ""not""", 1, 0\n\n"a, b", c\nc, c'
    game = read_game(written(tmp_path, "game.csv", text))
    assert (game.actions, game.symbols) == (("do, then look", 'do "not"'), ("a, b", "c"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "game.csv: the file is empty"),
        (" \n,,\n", "game.csv: the file is empty"),
        ("0,1\n1,0\n", "game.csv: the feedback is missing"),
        ("0,1\n1\n\na,b\na,b", "game.csv, line 2: 1 cells, but line 1 has 2"),
        ("0,1\n1,0\n\na,b\na", "game.csv, line 5: 1 cells, but line 4 has 2"),
        (
            "0,1\n1,0\n\na,b",
            "game.csv, line 4: feedback has 1 rows of 2 cells, expected 2 actions and 2 outcomes$",
        ),
        ("0,1\n1,0\n\na,b,c\na,b,c", "game.csv, line 4: feedback has 2 rows of 3 cells, expected 2 actions"),
        ("0,1\n1,0\n\na,b\na,b\n\n3,4", "game.csv, line 7: unexpected third block"),
        ("0,1,1\n1,O,0\n\na,b,c\na,b,c", "game.csv, line 2: column 2: 'O' is not a finite number"),
        ("0,1,1\n1,nan,0\n\na,b,c\na,b,c", "game.csv, line 2: column 2: 'nan' is not a finite number"),
        ("0,1,1\n1,0,-inf\n\na,b,c\na,b,c", "game.csv, line 2: column 3: '-inf' is not a finite number"),
        ("0,1,1\n1,1/0,0\n\na,b,c\na,b,c", "game.csv, line 2: column 2: '1/0' is not a finite number"),
        ("0;0,5\n1;0\n\na;b\na;b", "game.csv, line 1: column 2: '0,5' is not a finite number, such as 3, 0.25"),
        ("x;y\n1;0\n\na;b\na;b", "has no numbers and names the outcomes"),
        ("1;0\n0;0,5\n\na;b\na;b", "game.csv, line 2: column 2: '0,5' is not a finite number, such as 3, 0.25"),
        ("l,0,,1\nr,1,0,1\n\na,b,c\na,b,c", "game.csv, line 1: column 3: '' is not a finite number"),
        ("0,1\n1,0\n\n,b\na,b", "game.csv, line 4: column 1 is empty"),
        ("x,x\n0,1\n\na,b", "game.csv: two outcomes are named 'x'"),
        ("l,x,,y\nl,0,1,2\n\na,b,c", "game.csv: one of the outcomes has an empty name"),
        ("l,0,1\nl,1,0\n\na,b\na,b", "game.csv: two actions are named 'l'"),
        ("x,y\n\na,b", "game.csv, line 1: no losses follow the names of the outcomes"),
        ('0,"1\n1,0\n\na,b', "game.csv, line .*: not a row of a CSV file"),
        ('0\t"1"2\n1\t0\n\na\tb', r"game.csv, line 1: not a row of a CSV file: '\\t' expected after"),
    ],
)
def test_wrong_tables(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_game(written(tmp_path, "game.csv", text))


GOOD = '{"loss": [[0, 0.1], ["1/3", 1e-2]], "feedback": [["a", 1], [true, 1.0]]'


def test_json(tmp_path: Path) -> None:
    game = read_game(str(written(tmp_path, "game.JSON", GOOD + "}")))
    assert exact_losses(game) == [[Fraction(0), Fraction(1, 10)], [Fraction(1, 3), Fraction(1, 100)]]
    assert (game.symbols, game.signals.tolist()) == (("a", 1, True), [[0, 1], [2, 1]])
    assert (game.actions, game.outcomes) == (("0", "1"), ("0", "1"))


def test_json_with_names(tmp_path: Path) -> None:
    text = "\ufeff" + GOOD + ', "actions": ["left", "right"], "outcomes": [1, 2.50]}'
    game = read_game(written(tmp_path, "game.json", text))
    assert (game.actions, game.outcomes) == (("left", "right"), ("1", "2.50"))


def test_json_symbols(tmp_path: Path) -> None:
    symbols = [1, "1", True, False, None, [1, [2, None]], 1.0]
    text = json.dumps({"loss": [[0] * 7], "feedback": [symbols]})
    game = read_game(written(tmp_path, "game.json", text))
    assert game.symbols == (1, "1", True, False, None, (1, (2, None)))
    assert game.signals.tolist() == [[0, 1, 2, 3, 4, 5, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "game.json: the file is empty"),
        ("[1, 2]", "game.json: expected an object"),
        (GOOD, "game.json, line 1: column 72: not JSON: Expecting ',' delimiter"),
        ('{"loss": [[0,\n 1],\n', "game.json, line 3: column 1: not JSON"),
        ('{"loss": [[0, NaN]], "feedback": [[1, 2]]}', "game.json: NaN is not a finite number"),
        ('{"loss": [[0, -Infinity]], "feedback": [[1, 2]]}', "game.json: -Infinity is not a finite number"),
        (
            '{"loss": [[0, 1e99999999999999999999]], "feedback": [[1, 2]]}',
            "game.json: 1e9.* is not a finite number",
        ),
        (
            '{"loss": [[0, "one"]], "feedback": [[1, 2]]}',
            "game.json: loss of action 0 under outcome 1: 'one' is not",
        ),
        (
            '{"loss": [[0, null]], "feedback": [[1, 2]]}',
            "game.json: loss of action 0 under outcome 1: 'None' is not",
        ),
        ('{"loss": [[0, 1], [1]], "feedback": [[1, 2]]}', "game.json: row 1 of loss has 1 columns"),
        ('{"loss": [[0, 1]], "feedback": [[1, 2], [1, 2]]}', "game.json: loss has 1 rows and feedback 2"),
        ('{"loss": [[0, 1]], "feedback": [[1]]}', "game.json: row 0 of feedback has 1 columns"),
        ('{"loss": [], "feedback": []}', "game.json: the game is empty"),
        ('{"loss": [[0, 1]]}', "game.json: 'feedback' must be a list of lists"),
        ('{"loss": "01", "feedback": [[1, 2]]}', "game.json: 'loss' must be a list of lists"),
        ('{"loss": ["01"], "feedback": [[1, 2]]}', "game.json: 'loss' must be a list of lists"),
        ('{"losses": [[0, 1]], "feedback": [[1, 2]]}', "unknown key 'losses': did you mean 'loss'"),
        ('{"loss": [[0]], "loss": [[1]], "feedback": [[1]]}', "game.json: two keys are named 'loss'"),
        ('{"loss": [[0]], "feedback": [[{"a": 1}]]}', "game.json: feedback of action 0 under outcome 0"),
        (GOOD + ', "actions": "ab"}', "game.json: 'actions' must be a list of names"),
        (GOOD + ', "actions": [["a"], "b"]}', "game.json: 'actions' must be a list of names"),
        (GOOD + ', "actions": ["1", 1]}', "game.json: two actions are named '1'"),
        (GOOD + ', "outcomes": ["a"]}', "game.json: got 1 names for 2 outcomes"),
        ("[" * 100_000, "game.json: is nested too deeply"),
        ('{"loss": [[1' + "0" * 5000 + "]]}", "game.json: has a number of too many digits"),
    ],
)
def test_wrong_json(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_game(written(tmp_path, "game.json", text))


@pytest.mark.parametrize("name", ["game.csv", "game.json"])
def test_files_that_are_not_text(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: the file is not UTF-8 text"):
        read_game(written(tmp_path, name, "0,1\n1,0\n\na,b\na,é".encode("latin-1")))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"game\.csv"):
        read_game(tmp_path / "game.csv")
    with pytest.raises(ValueError, match=r"game\.txt: the name of a game file must end in \.json or \.csv"):
        read_game(tmp_path / "game.txt")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match=r"folder\.csv: is a folder"):
        read_game(tmp_path / "folder.csv")


class Third(Precision):
    """P@n as somebody else wrote it: thirds come out rounded."""


class Odd(Precision):
    def values(self, rankings: Any, relevance: Any) -> Any:
        return super().values(rankings, relevance) * np.sqrt(2)


def test_own_measures_are_taken_for_the_fractions_they_are() -> None:
    game = ranking_game(Third(3, mean=True), 4, 1)
    np.testing.assert_array_equal(game.numerators, ranking_game("p@3+sum", 4, 1).numerators)
    assert analyse(game).rate == Rate.SQRT
    with pytest.raises(ValueError, match=r"not a fraction .* with Game\.of"):
        ranking_game(Odd(2), 3, 1)


def test_gains_beyond_64_bits_are_exact() -> None:
    game = ranking_game("dcg", 2, 1, 70)
    assert game.loss[0, game.outcomes.index("65 3")] == pytest.approx(-(2.0**65 - 1 + 7 / np.log2(3)))
    assert ranking_game("dcg", 2, 1, 40).numerators.dtype == object
    assert np.isfinite(ranking_game("ndcg@1", 1, 1, 256).loss).all()


def test_true_and_one_are_two_symbols(tmp_path: Path) -> None:
    assert Game.of([[0, 1]], [[True, 1]]).signals.tolist() == [[0, 1]]
    path = tmp_path / "game.json"
    path.write_text('{"loss": [[0, 1, 2, 3]], "feedback": [[true, "true", null, "null"]]}')
    assert read_game(path).signals.tolist() == [[0, 1, 2, 3]]


def test_what_is_no_game_is_refused() -> None:
    game = ranking_game("dcg", 2, 1)
    with pytest.raises(ValueError, match="symmetry"):
        replace(game, symmetries=((np.zeros(2, dtype=np.int64), np.zeros(4, dtype=np.int64)),))
    with pytest.raises(ValueError, match="positive"):
        replace(game, scales=((Fraction(-1), Fraction(0)),))


@pytest.mark.parametrize("cell", ["nan", "inf", "1e301", "0.5x"])
def test_a_wrong_number_in_the_first_row_is_no_header(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "game.csv"
    path.write_text(f"0,{cell}\n1,0\n0,1\n\nx,y\n-,-\n")
    with pytest.raises(ValueError, match=r"game\.csv, line 1: column 2"):
        read_game(path)
