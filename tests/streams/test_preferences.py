"""Files of orders and ratings, the rules that grade them, and the streams made of them."""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter
from math import isnan, nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from peekrank.streams import Orders, Ratings, preference_files, read_orders, read_ratings, stream
from peekrank.streams.preferences import Above, Quantile, Top, parse_rule
from peekrank.types import Floats

SOC = """# FILE NAME: sushi.soc
# NUMBER ALTERNATIVES: 4
# NUMBER VOTERS: 6
# ALTERNATIVE NAME 1: ebi
# ALTERNATIVE NAME 2: anago: the eel
# ALTERNATIVE NAME 3: maguro
# ALTERNATIVE NAME 4: ika
3: 2,1,4,3
2: 1,2,3,4
1: 4,3,2,1
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def rows(path: Path, text: str, n: int, seed: int = 0) -> list[tuple[int, ...]]:
    rounds = stream(text.format(path)).rounds(n, np.random.default_rng(seed))
    return [tuple(row) for row in rounds.relevance.reshape(n, -1).tolist()]


# --- readers


@pytest.mark.parametrize(
    "text", [SOC, SOC.replace("\n", "\r\n"), "\ufeff" + SOC, SOC.replace(",", " , ") + "\n\n"]
)
def test_orders_by_hand(tmp_path: Path, text: str) -> None:
    orders = read_orders(written(tmp_path, "sushi.soc", text))
    assert orders.scores.tolist() == [[-1, 0, -3, -2], [0, -1, -2, -3], [-3, -2, -1, 0]]
    assert orders.counts.tolist() == [3, 2, 1]
    assert orders.items == ("ebi", "anago: the eel", "maguro", "ika")


def test_ties_and_gaps_by_hand(tmp_path: Path) -> None:
    text = "# NUMBER ALTERNATIVES: 5\n2: {2, 5},{3},1\n1: 4\n"
    orders = read_orders(str(written(tmp_path, "votes.toi", text)))
    expected = [[-2, 0, -1, nan, 0], [nan, nan, nan, 0, nan]]
    np.testing.assert_array_equal(orders.scores, expected)
    assert orders.items == ("1", "2", "3", "4", "5")


HEAD = "# NUMBER ALTERNATIVES: 3\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.soc", HEAD + "1: 1,2,11\n", "a.soc, line 2: item 11 is not one of the 3 alternatives"),
        ("a.soc", HEAD + "1: 0,1,2\n", "a.soc, line 2: item 0 is not one of the 3 alternatives"),
        ("a.soc", HEAD + "1: 1,2,3\n\n1: 1,2,2\n", "a.soc, line 4: item 2 comes twice"),
        ("a.toc", HEAD + "1: {1,1},2,3\n", "a.toc, line 2: item 1 comes twice"),
        (
            "a.soc",
            HEAD + "1: 1,3\n",
            "a.soc, line 2: 2 of the 3 alternatives, but a .soc file holds complete orders",
        ),
        (
            "a.toc",
            HEAD + "1: {1,3}\n",
            "a.toc, line 2: 2 of the 3 alternatives, but a .toc file holds complete orders",
        ),
        (
            "a.soc",
            HEAD + "1: 1,{2,3}\n",
            "a.soc, line 2: items [2, 3] are tied, but a .soc file holds strict orders",
        ),
        (
            "a.soi",
            HEAD + "1: {2,3}\n",
            "a.soi, line 2: items [2, 3] are tied, but a .soi file holds strict orders",
        ),
        (
            "a.soc",
            HEAD + "x: 1,2,3\n",
            "a.soc, line 2: the count before ':' is 'x', not a whole number, at least 1",
        ),
        (
            "a.soc",
            HEAD + "0: 1,2,3\n",
            "a.soc, line 2: the count before ':' is '0', not a whole number, at least 1",
        ),
        (
            "a.soc",
            HEAD + "-1: 1,2,3\n",
            "a.soc, line 2: the count before ':' is '-1', not a whole number, at least 1",
        ),
        (
            "a.soc",
            HEAD + "1,2,3\n",
            "a.soc, line 2: the count before ':' is '1,2,3', not a whole number, at least 1",
        ),
        ("a.soc", HEAD + "1: 1,,2\n", "a.soc, line 2: '1,,2' is not an order like 1,2,{3,4},5"),
        ("a.soc", HEAD + "1: 1 2,3\n", "a.soc, line 2: '1 2,3' is not an order like 1,2,{3,4},5"),
        ("a.soc", HEAD + "1: 1,b,3\n", "a.soc, line 2: '1,b,3' is not an order like 1,2,{3,4},5"),
        ("a.toc", HEAD + "1: {1,2,3\n", "a.toc, line 2: '{1,2,3' is not an order like 1,2,{3,4},5"),
        ("a.soi", HEAD + "1:\n", "a.soi, line 2: '' is not an order like 1,2,{3,4},5"),
        (
            "a.soc",
            "1: 1,2\n",
            "a.soc, line 1: expected a header with '# NUMBER ALTERNATIVES: m' before the first order",
        ),
        (
            "a.soc",
            "# NUMBER ALTERNATIVES: few\n1: 1,2\n",
            "a.soc, line 1: NUMBER ALTERNATIVES is 'few', not a whole number, at least 1",
        ),
        (
            "a.soc",
            "# NUMBER VOTERS: 3\n" + HEAD + "2: 1,2,3\n",
            "a.soc, line 1: NUMBER VOTERS is 3 but the orders add up to 2; truncated?",
        ),
        (
            "a.soi",
            HEAD + "# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 3: c\n1: 1\n",
            "a.soi, line 1: NUMBER ALTERNATIVES is 3 but ALTERNATIVE NAME 2 is missing",
        ),
        (
            "a.soi",
            HEAD + "".join(f"# ALTERNATIVE NAME {i}: a\n" for i in range(1, 5)) + "1: 1\n",
            "a.soi, line 1: NUMBER ALTERNATIVES is 3 but ALTERNATIVE NAME 4 is present as well",
        ),
        ("a.soc", "", "a.soc: holds no orders"),
        ("a.soc", HEAD, "a.soc: holds no orders"),
        ("a.txt", HEAD + "1: 1,2,3\n", "a.txt: orders are read from files that end in .soc, .soi, .toc, .toi"),
    ],
)
def test_faults_in_orders_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(ValueError) as error:
        read_orders(path)
    assert str(error.value) == message


@pytest.mark.parametrize("head", ["", "a,b,c\n", '"a", b ,c\r\n', "\ufeffa,b,c\n"])
def test_ratings_by_hand(tmp_path: Path, head: str) -> None:
    ratings = read_ratings(written(tmp_path, "jokes.csv", head + "1,-2.5,\r\n\n, 3e1 ,0\n"))
    np.testing.assert_array_equal(ratings.scores, [[1, -2.5, nan], [nan, 30, 0]])
    assert ratings.counts.tolist() == [1, 1]
    assert ratings.items == (("a", "b", "c") if head else ("1", "2", "3"))


def test_a_first_row_of_nothing_is_a_person(tmp_path: Path) -> None:
    assert read_ratings(written(tmp_path, "a.csv", ",\n1,2\n")).scores.shape == (2, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3,x\n", "a.csv, line 2: column 2: 'x' is not a finite number; empty means unrated"),
        ("1,x\n3,4\n", "a.csv, line 1: column 2: 'x' is not a finite number; empty means unrated"),
        ("a,b\n3,4\nc,d\n", "a.csv, line 3: column 1: 'c' is not a finite number; empty means unrated"),
        ("1,2\n\nnan,2\n", "a.csv, line 3: column 1: 'nan' is not a finite number; empty means unrated"),
        ("1,-inf\n", "a.csv, line 1: column 2: '-inf' is not a finite number; empty means unrated"),
        ("1,2\n1,2,3\n", "a.csv, line 2: 3 cells where the first row has 2"),
        ("a,b\n1\n", "a.csv, line 2: 1 cells where the first row has 2"),
        (",a\n1,2\n", "a.csv, line 1: without a number, this row must name the items, but column 1 has no name"),
        (
            "a,a\n1,2\n",
            "a.csv, line 1: without a number, this row must name the items, but column 2 repeats the name 'a'",
        ),
        ('1,2\n"3,4\n', "a.csv, line 2: not a row of a CSV file: unexpected end of data"),
        ("", "a.csv: holds no ratings"),
        ("a,b\n", "a.csv: holds no ratings"),
    ],
)
def test_faults_in_ratings_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, "a.csv", text)
    with pytest.raises(ValueError) as error:
        read_ratings(path)
    assert str(error.value) == message


def test_files_that_are_not_text_are_named(tmp_path: Path) -> None:
    for name, read in (("a.soc", read_orders), ("a.csv", read_ratings)):
        (tmp_path / name).write_bytes(b"1,\xff\n")
        with pytest.raises(ValueError, match=f"{name}: is not text in UTF-8"):
            read(tmp_path / name)


# --- rules

SCORES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=8),
    elements=st.sampled_from([nan, 1.0, 2.0, 3.0, 4.0]),
)


def better(scores: Floats, person: int, item: int) -> int:
    return sum(bool(other > scores[person, item]) for other in scores[person])


@given(SCORES, st.integers(1, 9))
def test_top_against_its_definition(scores: Floats, t: int) -> None:
    for (person, item), grade in np.ndenumerate(Top(t).grades(scores)):
        assert grade == (not isnan(scores[person, item]) and better(scores, person, item) < t)


@given(SCORES, st.integers(2, 9))
def test_quantile_against_its_definition(scores: Floats, q: int) -> None:
    for (person, item), grade in np.ndenumerate(Quantile(q).grades(scores)):
        if isnan(scores[person, item]):
            assert grade == 0
        else:
            rated = int((~np.isnan(scores[person])).sum())
            assert grade == q - 1 - q * better(scores, person, item) // rated


def test_rules_by_hand() -> None:
    ten = -np.arange(10.0)[None]  # a strict order of ten, best first
    assert Top(3).grades(ten).tolist() == [[1, 1, 1, 0, 0, 0, 0, 0, 0, 0]]
    assert Quantile(4).grades(ten).tolist() == [[3, 3, 3, 2, 2, 1, 1, 1, 0, 0]]
    assert Quantile(2).grades(ten).tolist() == Top(5).grades(ten).tolist()
    assert Quantile(256).grades(ten)[0, 0] == 255
    assert Above(-2.0).grades(ten).tolist() == [[1, 1, 0, 0, 0, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("text", "value"),
    [("top12", Top(12)), ("quantile2", Quantile(2)), ("above5", Above(5)), ("above-0.5", Above(-0.5))],
)
def test_rules_are_read(text: str, value: object) -> None:
    assert parse_rule(text) == value


@pytest.mark.parametrize("text", ["", "top", "top-1", "top2.5", "best3", "above", "above1e3", "abovenan", "Top3"])
def test_what_is_not_a_rule(text: str) -> None:
    with pytest.raises(ValueError, match=f"rule = '{text}': must be one like top3, quantile4 or .* above2.5"):
        Ratings(Path("a.csv"), rule=text)


def test_rules_with_impossible_numbers() -> None:
    with pytest.raises(ValueError, match="rule top: t = 0: must be a whole number, at least 1"):
        stream("orders:path=a.soc,rule=top0")
    with pytest.raises(ValueError, match="rule quantile: q = 257: must be a whole number, from 2 to 256"):
        stream("ratings:path=a.csv,rule=quantile257")
    with pytest.raises(ValueError, match="rule = 'above5': orders have no ratings"):
        stream("orders:path=a.soc,rule=above5")
    with pytest.raises(ValueError, match="threshold = nan: must be finite"):
        Above(nan)


# --- streams


def test_orders_by_the_rules(tmp_path: Path) -> None:
    path = written(tmp_path, "sushi.soc", SOC)
    assert Counter(rows(path, "orders:path={},rule=top1", 6)) == {
        (0, 1, 0, 0): 3,
        (1, 0, 0, 0): 2,
        (0, 0, 0, 1): 1,
    }
    assert Counter(rows(path, "{}", 6)) == {(1, 1, 0, 1): 3, (1, 1, 1, 0): 2, (0, 1, 1, 1): 1}
    assert Counter(rows(path, "orders:path={},rule=quantile4", 6)) == {
        (2, 3, 0, 1): 3,
        (3, 2, 1, 0): 2,
        (0, 1, 2, 3): 1,
    }
    source = Orders(path, rule="quantile4")
    assert (source.m, source.d, source.max_grade) == (4, 0, 3)


def test_ratings_by_the_rules(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "a,b,c\n5,-1,2\n,,7\n")
    assert set(rows(path, "{}", 2)) == {(1, 0, 1), (0, 0, 1)}
    assert set(rows(path, "ratings:path={},rule=above-1.5", 2)) == {(1, 1, 1), (0, 0, 1)}
    assert set(rows(path, "ratings:path={},rule=top1,complete=true", 2)) == {(1, 0, 0)}
    source = Ratings(path)
    assert (source.m, source.d, source.max_grade) == (3, 0, 1)


def test_no_person_is_complete(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "1,\n,2\n")
    with pytest.raises(ValueError, match=r"a\.csv: with complete=true no people are left: none rated every item"):
        Ratings(path, complete=True).rounds(1, np.random.default_rng(0))


def test_each_person_comes_once_per_pass(tmp_path: Path) -> None:
    people = 7  # person p rates item p above the others
    path = written(tmp_path, "a.csv", "\n".join(",".join(map(str, row)) for row in np.eye(people, dtype=int)))
    seen = [row.index(1) for row in rows(path, "ratings:path={},rule=top1", 24)]
    passes = [seen[start : start + people] for start in (0, 7, 14)]
    assert all(sorted(one) == list(range(people)) for one in passes)
    assert len(set(map(tuple, passes))) == 3
    assert len(set(seen[21:])) == 3
    assert seen == [row.index(1) for row in rows(path, "ratings:path={},rule=top1", 24)]
    assert seen != [row.index(1) for row in rows(path, "ratings:path={},rule=top1", 24, seed=1)]


def test_voters_who_agree_still_come_one_by_one(tmp_path: Path) -> None:
    path = written(tmp_path, "sushi.soc", SOC)
    tops = Counter(rows(path, "orders:path={},rule=top1", 60))
    assert tops == {(0, 1, 0, 0): 30, (1, 0, 0, 0): 20, (0, 0, 0, 1): 10}


def test_many_rounds_need_little_memory_besides_the_result(tmp_path: Path) -> None:
    n, m = 100_000, 100
    source = Ratings(written(tmp_path, "a.csv", "\n".join([",".join(map(str, range(m)))] * 50)))
    tracemalloc.start()
    rounds = source.rounds(n, np.random.default_rng(0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < sum(part.nbytes for part in rounds[:3]) + 16 * n + 2**20  # who comes, before and after shuffling


def test_the_number_of_rounds_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="n = 0: must be a whole number, at least 1"):
        Orders(written(tmp_path, "sushi.soc", SOC)).rounds(0, np.random.default_rng(0))


def test_a_file_is_read_once_and_again_when_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "a.csv", "1,2\n")
    reads = []
    open_file = Path.open

    def counted(self: Path, *args: str, **options: str) -> object:
        reads.append(self)
        return open_file(self, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", counted)
    source = Ratings(path)
    assert not reads
    for _ in range(3):
        assert rows(path, "ratings:path={},rule=top1", 1) == [(0, 1)]
    assert source.m == 2
    assert len(reads) == 1
    written(tmp_path, "a.csv", "2,1\n")
    os.utime(path, ns=(1, 1))
    assert rows(path, "ratings:path={},rule=top1", 1) == [(1, 0)]
    assert source == Ratings(path)


def test_a_relative_path_follows_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, text in (("one", "1,2\n"), ("two", "2,1\n")):
        (tmp_path / folder).mkdir()
        os.utime(written(tmp_path / folder, "a.csv", text), ns=(1, 1))
    monkeypatch.chdir(tmp_path / "one")
    assert rows(Path("a.csv"), "ratings:path={},rule=top1", 1) == [(0, 1)]
    monkeypatch.chdir(tmp_path / "two")
    assert rows(Path("a.csv"), "ratings:path={},rule=top1", 1) == [(1, 0)]


def test_a_missing_file_says_so() -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.soc"):
        Orders(Path("nowhere.soc")).rounds(1, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "# NUMBER ALTERNATIVES: 2\n10000001: 1,2\n",
            "line 2: the count before ':' is 10000001, more than 10,000,000",
        ),
        ("# NUMBER ALTERNATIVES: 2\n9999999: 1,2\n2: 2,1\n", "the orders are of 10,000,001 people, more than"),
        (
            f"# NUMBER ALTERNATIVES: 2\n{'1' * 5000}: 1,2\n",
            "line 2: the count before ':' is 1{60}[.]{3}, more than",
        ),
        (
            f"# NUMBER ALTERNATIVES: {'1' * 5000}\n1: 1,2\n",
            "line 1: NUMBER ALTERNATIVES is 1{60}[.]{3}, more than",
        ),
        ("# NUMBER ALTERNATIVES: 10000000000\n1: 1,2\n", "line 1: NUMBER ALTERNATIVES is 10000000000, more than"),
        (f"# NUMBER ALTERNATIVES: 2\n1: 1,{'2' * 5000}\n", "line 2: '1,2{58}[.]{3}' is not an order"),
        ("# NUMBER ALTERNATIVES: ²\n1: 1,2\n", "line 1: NUMBER ALTERNATIVES is '²', not a whole number"),
        ("# NUMBER ALTERNATIVES: 2\n1: 1,\x1b[31m2\n", r"line 2: '1,\\x1b\[31m2' is not an order"),
    ],
)
def test_numbers_and_letters_beyond_all_sense(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.soc"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"^a\.soc(, |: ){message}"):
        read_orders(path)


def test_more_scores_than_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preference_files, "_MAX_SCORES", 5)
    orders, ratings = tmp_path / "a.soi", tmp_path / "a.csv"
    orders.write_text("# NUMBER ALTERNATIVES: 3\n1: 1\n1: 2\n1: 3\n")
    ratings.write_text("1,2,3\n4,5,6\n")
    with pytest.raises(ValueError, match=r"^a\.soi, line 3: up to here people times items are 6, more than 5"):
        read_orders(orders)
    with pytest.raises(ValueError, match=r"^a\.csv, line 2: up to here people times items are 6, more than 5"):
        read_ratings(ratings)


def test_more_people_than_there_are(tmp_path: Path) -> None:
    path = tmp_path / "a.soc"
    path.write_text("# NUMBER ALTERNATIVES: 2\n99999999999999999999: 1,2\n")
    with pytest.raises(ValueError, match="line 2: the count before ':' is 99999999999999999999, more than"):
        read_orders(path)


LONG = "userId,movieId,rating,timestamp\n7,31,2.5,1260\n7,10,4,1261\n9,31,5,1262\n"


def test_the_long_form_of_ratings(tmp_path: Path) -> None:
    found = read_ratings(written(tmp_path, "a.csv", LONG))
    assert found.items == ("31", "10")
    np.testing.assert_array_equal(found.scores, [[2.5, 4], [5, np.nan]])
    assert Ratings(tmp_path / "a.csv", rule="above3").in_memory().grades.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LONG + "9,31,1\n", r"^a\.csv, line 5: user '9' has rated item '31' before"),
        (LONG + "9,10\n", r"^a\.csv, line 5: 2 cells: must be user, item and rating"),
        (LONG + "9,10,good\n", r"^a\.csv, line 5: column 3: 'good' is not a finite number"),
        ("user,item,rating\n", r"^a\.csv: holds no ratings"),
        (
            "".join(f"{user},{item},{(user + item) % 5}\n" for user in range(4) for item in range(20, 25)),
            r"^a\.csv: looks like rows of user, item and rating, .* add a first row user,item,rating",
        ),
    ],
)
def test_long_forms_that_do_not_fit(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_ratings(written(tmp_path, "a.csv", text))


def test_three_columns_of_ratings_are_no_long_form(tmp_path: Path) -> None:
    rows = [f"{i % 5},{i % 3},{i % 4}" for i in range(40)]
    assert read_ratings(written(tmp_path, "a.csv", "\n".join(rows))).scores.shape == (40, 3)


def test_zero_may_mean_not_rated(tmp_path: Path) -> None:
    rows = ["5,0,0,1", "0,0,2,0"] * 10
    path = written(tmp_path, "a.csv", "\n".join(rows))
    said = r"a\.csv: 62% of all cells are 0; if 0 means unrated, use .*unrated=0"
    with pytest.warns(UserWarning, match=said):
        Ratings(path).in_memory()
    grades = Ratings(path, unrated=0).in_memory().grades
    assert grades[:2].tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]
    assert Ratings(path, unrated=0) == stream(f"ratings:path={path},unrated=0")
    with pytest.raises(ValueError, match="unrated = nan: must be a number, such as 0"):
        Ratings(path, unrated=float("nan"))


OLD = "3\n1,Ebi\n2,Anago, the eel\n3,Uni\n4,4,2\n3,2,1,3\n1,3,{1,2}\n"


def test_the_old_format_of_preflib(tmp_path: Path) -> None:
    found = read_orders(written(tmp_path, "a.toc", OLD))
    assert found.items == ("Ebi", "Anago, the eel", "Uni")
    assert found.counts.tolist() == [3, 1]
    assert found.scores.tolist() == [[-1, 0, -2], [-1, -1, 0]]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "2,Anago, the eel",
            "Anago",
            r"^a\.toc, line 3: 'Anago': must be number,name of an alternative, as in PrefLib",
        ),
        (
            "4,4,2",
            "many",
            r"^a\.toc, line 5: 'many': must be voters,sum of counts,different orders, as in PrefLib",
        ),
        ("4,4,2", "5,5,2", r"^a\.toc, line 5: NUMBER VOTERS is 5 but the orders add up to 4"),
        ("3,2,1,3", "3,2,1,7", r"^a\.toc, line 6: item 7 is not one of the 3 alternatives"),
        ("3,Uni", "4,Uni", "NUMBER ALTERNATIVES is 3 but ALTERNATIVE NAME"),
    ],
)
def test_old_files_that_do_not_fit(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_orders(written(tmp_path, "a.toc", OLD.replace(old, new)))
