"""Other kinds of feedback: what they show, their rates against the definitions and known tables, advice."""

from __future__ import annotations

import json
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from peekrank import advise, rate_of
from peekrank.cli.app import app
from peekrank.games.analysis import analyse
from peekrank.games.feedback import KINDS, MEANINGS, Feedback, feedback_theorem, observe
from peekrank.games.ranking import ranking_game
from peekrank.games.rate_table import tabulate
from peekrank.games.rates import Rate
from peekrank.measures import measure


def shown_by_words(kind: str, top: list[int]) -> object:
    """What people tell about these items, in the words of the page."""
    best = [p for p, grade in enumerate(top) if grade == max(top)]
    relevant = [p for p, grade in enumerate(top) if grade]
    return {
        "answers": tuple(top),
        "order": tuple(sorted(set(top)).index(grade) for grade in top),
        "choice": best[0],
        "first": relevant[0] if relevant else None,
        "sum": sum(top),
        "any": bool(relevant),
    }[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_symbols_are_equal_where_people_say_the_same(kind: Feedback) -> None:
    for k, grades in ((1, 4), (3, 3), (4, 2)):
        tops = [list(top) for top in product(range(grades), repeat=k)]
        shown = observe(kind, np.array([tops]))
        words = [shown_by_words(kind, top) for top in tops]
        same = [[a == b for a in words] for b in words]
        assert np.equal.outer(shown.signals[0], shown.signals[0]).tolist() == same
        assert sorted(set(shown.signals[0].tolist())) == list(range(len(shown.symbols)))
    assert set(MEANINGS) == set(KINDS)


S, H, T = "sqrt(T)", "T^(2/3)", "T"
# three items, k = 2 and k = 3, worked out with an analyser of its own
KNOWN = {
    "sum": {"p": (S, T), "dcg": (H, T), "ndcg": (H, T)},
    "any": {"p": (T, T), "dcg": (T, T), "ndcg": (T, T)},
    "order": {"p": (S, S), "dcg": (S, S), "ndcg": (H, S)},
    "choice": {"p": (S, S), "dcg": (H, H), "ndcg": (H, H)},
    "first": {"p": (S, S), "dcg": (H, H), "ndcg": (H, H)},
}
ALIKE = {"p": ("p@1", "p@2"), "dcg": ("dcg", "sumloss", "pairwiseloss", "aucloss"), "ndcg": ("ndcg", "ap")}


@pytest.mark.parametrize("kind", KNOWN)
def test_three_items(kind: Feedback) -> None:
    for group, rates in KNOWN[kind].items():
        for name, k in product(ALIKE[group], (2, 3)):
            assert str(rate_of(name, 3, k, feedback=kind).rate) == rates[k - 2], (name, k)


def compare(names: list[str], m: int, grades: int = 2) -> int:
    """Compare theorems with the definitions, and return the number of games without a theorem."""
    unknown = 0
    for name in names:
        cells = None
        for k, kind in product(range(1, m + 1), KINDS):
            found = analyse(ranking_game(name, m, k, grades, kind), cells)
            cells, proved = found.cells, feedback_theorem(name, m, k, grades, kind).rate
            assert proved in (None, found.rate), (name, m, k, kind)
            unknown += proved is None
    return unknown


CUT = [f"{name}@{n}" for name in ("p", "dcg", "rbp", "hit", "rr", "recall", "ndcg", "err") for n in (1, 2)]
WHOLE = ["dcg", "sumloss", "pairwiseloss", "aucloss", "ap", "ndcg", "rr", "err"]


def test_theorems_agree_with_the_definitions() -> None:
    assert compare(CUT + WHOLE, 2) == 0
    assert compare(CUT + WHOLE, 3) < 20
    assert compare(["p@1", "p@2", "p@3", "recall@1", "recall@2", "recall@3", "ap", "aucloss"], 4) == 0


def test_theorems_agree_with_the_definitions_for_three_grades() -> None:
    assert compare(["sumloss", "dcg", "dcg+linear", "rbp", "p@1", "ap", "recall@2", "hit@2", "rr"], 3, 3) < 50


@pytest.mark.slow
def test_theorems_agree_with_the_definitions_for_four_items() -> None:
    assert compare(CUT + WHOLE, 4) < 120


def spanned(kind: Feedback, k: int, m: int, target: np.ndarray) -> bool:
    """Whether feedback of all rankings can estimate a function of binary relevance, by least squares."""
    outcomes = np.array(list(product((0, 1), repeat=m)))
    rows = []
    for ranking in permutations(range(m), k):
        words = [shown_by_words(kind, list(row)) for row in outcomes[:, ranking].tolist()]
        rows += [[word == symbol for word in words] for symbol in set(words)]
    A = np.array(rows, dtype=float).T
    return bool(np.abs(A @ np.linalg.lstsq(A, target, rcond=1e-10)[0] - target).max() < 1e-8)


def difference(name: str, m: int, swap: int) -> np.ndarray:
    """The difference of two rankings that swap a position with the next."""
    outcomes = np.array(list(product((0, 1), repeat=m)))
    rankings = np.tile(np.arange(m), (2, 1))
    rankings[1, [swap, swap + 1]] = [swap + 1, swap]
    first, second = (measure(name).values(np.tile(row, (len(outcomes), 1)), outcomes) for row in rankings)
    return np.asarray(np.nan_to_num(first) - np.nan_to_num(second))


def test_global_observability_by_least_squares() -> None:
    """Theorems 1, 2, 3 and 6 on five items, among them the exception of AUC for odd m."""
    auc = difference("aucloss", 5, 1)
    assert [spanned("sum", k, 5, auc) for k in (2, 3, 4, 5)] == [False, True, True, False]
    ap = difference("ap", 5, 1)
    assert not spanned("sum", 4, 5, ap)
    for kind in ("answers", "first", "order", "choice"):
        assert [spanned(kind, k, 5, ap) for k in (2, 3, 4)] == [False, False, True]
    dcg = difference("dcg", 5, 3)
    assert [spanned("sum", k, 5, dcg) for k in (1, 4, 5)] == [True, True, False]
    assert [spanned("any", k, 5, dcg) for k in (1, 2, 5)] == [True, False, False]


def test_tables_find_rates_that_come_and_go() -> None:
    (row,) = tabulate(["hit@10"], m=1000, feedback="any").cells
    spans = tabulate(["hit@10"], m=1000, feedback="any").spans
    assert [(span[0], span[-1], str(cell.rate)) for span, cell in zip(spans, row, strict=True)] == [
        (1, 9, T), (10, 10, S), (11, 1000, T)]  # fmt: skip
    spans = tabulate(["dcg", "p@3"], m=10**6, feedback="sum").spans
    assert spans == (range(1, 10**6), range(10**6, 10**6 + 1))


def test_large_lists_take_no_time() -> None:
    assert rate_of("dcg", 10**6, 10**6 - 1, feedback="sum").rate == Rate.TWO_THIRDS
    assert rate_of("ndcg", 10**6, 10, feedback="order").rate == Rate.LINEAR
    assert rate_of("p@1", 1, 1, feedback="any").rate == Rate.ZERO
    assert rate_of("rr", 100, 99, feedback="sum").rate is None
    with pytest.raises(ValueError, match="feedback = 'thumb'"):
        rate_of("dcg", 3, 2, feedback="thumb")  # type: ignore[arg-type]


def test_advice_on_a_thumb() -> None:
    hopeless = advise("dcg", m=10, k=10, horizon=10**5, feedback="sum")
    assert (hopeless.verdict.rate, hopeless.learner) == (Rate.LINEAR, None)
    assert any("do not copy it" in note for note in hopeless.notes)
    alone, each = hopeless.changes
    assert (alone.k, alone.feedback, alone.rate, each.rate) == (1, "answers", Rate.TWO_THIRDS, Rate.SQRT)
    assert alone.bound == advise("dcg", m=10, k=1, horizon=10**5).bound
    assert json.loads(json.dumps(hopeless.as_dict()))["changes"][0]["feedback"] == "answers"
    ndcg = advise("ndcg", m=10, k=3, feedback="sum")
    assert [str(change) for change in ndcg.changes][-1] == "learn dcg: rate T^(2/3)"
    single = advise("dcg", m=10, k=1, feedback="any")
    assert single.learner == advise("dcg", m=10, k=1).learner  # one item's thumb is its answer
    assert advise("dcg", m=10, k=1, grades=3, feedback="any").learner is None


def test_the_commands(tmp_path: Path) -> None:
    proof, data = tmp_path / "proof.json", tmp_path / "data.json"
    arguments = ["game", "dcg", "--m", "3", "--k", "3", "--feedback", "sum", "--json", str(data)]
    result = CliRunner().invoke(app, [*arguments, "--certificate", str(proof)])
    assert result.exit_code == 0, result.output
    assert "theorem and definitions, which agree" in result.output
    found = json.loads(data.read_text())
    assert (found["rate"], found["feedback"]) == ("T", "sum")
    assert json.loads(proof.read_text())["game"]["symbols"] == ["0", "1", "2", "3"]
    result = CliRunner().invoke(app, ["advise", "dcg", "--m", "5", "--k", "2", "--feedback", "choice"])
    assert "feedback  which of the first k items is the most relevant" in result.output
    result = CliRunner().invoke(app, ["advise", "kl", "--m", "5", "--k", "2", "--feedback", "choice"])
    assert result.exit_code != 0
    result = CliRunner().invoke(app, ["game", "--m", "3", "--feedback", "sum"])
    assert "docs/theory/feedback.md" in " ".join(result.output.split())
