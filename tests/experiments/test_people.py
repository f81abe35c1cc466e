"""experiments/people.py on a handful of made-up people: its numbers against a direct computation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from math import log2, sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
import pytest
import records

from helpers.scripts import load_experiment
from peekrank import Agent
from peekrank.experiments.experiment import Experiment
from peekrank.types import Floats

people = load_experiment("people")

ORDERS = """# NUMBER ALTERNATIVES: 7
# NUMBER VOTERS: 40
20: 1,2,3,4,5,6,7
10: 2,1,4,6,5,3,7
7: 1,5,2,3,6,4,7
3: 6,1,3,5,2,4,7
"""
RATINGS = "9,8,7,6,1,2,3\n" * 20 + "8,1,9,7,6,2,3\n" * 12 + "1,7,9,2,8,6,3\n" * 5 + ",8,7,1,2,3,4\n" * 9
HORIZON, RUNS = 60, 3


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "orders.soc"
    path.write_text(ORDERS)
    return path


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    path = tmp_path / "ratings.csv"
    path.write_text(RATINGS)
    return path


@pytest.fixture
def played(orders: Path) -> Any:
    return people.play(people.Setting(people.sushi(orders), "p@3+sum", HORIZON), (1, 3), RUNS, 1, lambda _: None)


def dcg(relevance_in_order: Floats) -> Floats:
    return np.asarray(relevance_in_order @ np.array([1 / log2(position + 2) for position in range(7)]))


def hits(relevance_in_order: Floats) -> Floats:
    return np.asarray(relevance_in_order @ np.array([1, 1, 1, 0, 0, 0, 0]))


class ByHand(NamedTuple):
    """Regrets of the runs; values in all 60 rounds, and in the last 6, there also of the best ranking for all."""

    lost: list[float]
    value: float
    late: float
    best_late: float


def best_of_all(rows: Floats, value: Callable[[Floats], Floats]) -> Floats:
    """Values of all rounds under the fixed ranking that is best for all of them."""
    best = max(permutations(range(7)), key=lambda order: value(rows.sum(axis=0)[list(order)]))
    return value(rows[:, best])


def by_hand(experiment: Experiment, learner: str, value: Callable[[Floats], Floats]) -> ByHand:
    lost, total, late, best_late = [], [], [], []
    for run in range(RUNS):
        rows = experiment.rounds(run).relevance.reshape(HORIZON, 7).astype(np.float64)
        made = experiment.learner(learner)
        agent = Agent(made, m=7, k=experiment.k, seed=experiment.learner_seed(run))
        values = []
        for row in rows:
            decision = agent.rank()
            agent.update(decision, row[decision.ranking[: agent.shape.k]])
            values.append(float(value(row[decision.ranking])))
        best = best_of_all(rows, value)
        lost.append(float(best.sum()) - sum(values))
        total.append(sum(values))
        late.append(sum(values[54:]))
        best_late.append(best[54:].sum())
    return ByHand(lost, mean(total), mean(late), mean(best_late))


@pytest.mark.slow
@pytest.mark.parametrize(("measure", "value"), [("dcg", dcg), ("p@3+sum", hits)])
def test_figures_are_what_playing_by_hand_gives(measure: str, value: Any, orders: Path) -> None:
    setting = people.Setting(people.sushi(orders), measure, HORIZON)
    played = people.play(setting, (1, 3), RUNS, 1, lambda _: None)
    experiment = played.results[3].experiment
    uniform = by_hand(experiment, "uniform", value)
    assert uniform.best_late > uniform.late
    for name in {"uniform", "ftpl", "rtop1f", "setftrl", "permftrl:horizon=none"} & set(experiment.learners):
        lost, _, late, best_late = by_hand(experiment, name, value)
        found = people.figures(played, 3, name)
        assert found.regret == pytest.approx(mean(lost))
        assert found.spread == pytest.approx(stdev(lost))
        assert found.share == pytest.approx(mean(lost) / mean(uniform.lost))
        assert found.quality == pytest.approx((late - uniform.late) / (best_late - uniform.late))


def test_data_are_read_with_their_rules(orders: Path, ratings: Path) -> None:
    sushi, jester = people.sushi(orders), people.jester(ratings)
    assert (sushi.people, jester.people) == (40, 37)
    once = Experiment(("uniform",), sushi.stream, "dcg", 1, 40).rounds(0).relevance.reshape(40, 7)
    assert once.sum(axis=0).tolist() == [40, 37, 23, 10, 7, 3, 0]
    once = Experiment(("uniform",), jester.stream, "dcg", 1, 37).rounds(0).relevance.reshape(37, 7)
    assert once.sum(axis=0).tolist() == [32, 25, 37, 32, 17, 5, 0]


def test_learners_play_with_and_without_a_horizon_where_they_fit(played: Any) -> None:
    names = people.candidates()
    assert {"uniform", "ftpl", "setftrl", "setftrl:horizon=none"} <= set(names)
    assert "ftpl:horizon=none" not in names
    one, three = (played.results[k].experiment.learners for k in (1, 3))
    assert "setftrl" in one
    assert "permftrl" not in one  # it must see all three
    assert {"permftrl", "permftrl:horizon=none"} <= set(three)
    assert set(played.learners) == set(one) | set(three)


def test_tables_show_the_figures(played: Any) -> None:
    table = people.table(played)
    assert table.title == "Sushi, p@3+sum, 60 rounds (1.5 passes)"
    one = by_hand(played.results[1].experiment, "uniform", hits)
    at_random, best = one.value / HORIZON, (one.value + mean(one.lost)) / HORIZON
    assert table.text[0] == (
        f"Value of a round: {at_random:.2f} at random, {best:.2f} with the best fixed ranking, "
        "3.00 if everybody had their own."
    )
    assert table.columns == ["learner", "k = 1", "k = 3"]
    (row,) = (row for row in table.rows if row[0] == "`permftrl`")
    found = people.figures(played, 3, "permftrl")
    cell = f"{found.regret:,.0f} ± {found.spread:,.0f}; {found.share:.0%}; {found.quality:.2f}"
    assert row == ["`permftrl`", "does not fit", records.parse_cell(cell)]
    name, (_, share, quality), _ = table.rows[0]
    assert (name, str(share), str(quality)) == ("`uniform`", "100 %", "0.00")


def test_learners_that_fit_for_no_k_are_named(orders: Path) -> None:
    setting = people.Setting(people.sushi(orders), "dcg", 40)
    table = people.table(people.play(setting, (1,), 2, 1, lambda _: None))
    assert table.title == "Sushi, dcg, 40 rounds (everybody once)"
    assert table.text[-1].startswith("Fit for none of these k: `setftrl`, `permftrl`")


def test_bounds_are_compared_with_uniform(played: Any) -> None:
    result = played.results[1]
    at_random = mean(by_hand(result.experiment, "uniform", hits).lost)
    assert (
        people.multiple(result, "ftpl") == f"{2 * 3 * sqrt(7 * HORIZON) / at_random:.2g}"
    )  # 2 D sqrt(m T), D = 3
    assert people.multiple(result, "uniform") == people.multiple(result, "permftrl") == ""
    table = people.promises([played])
    assert table.title.startswith("Bounds for k = 1")
    assert ["`ftpl`", records.parse_cell(people.multiple(result, "ftpl"))] in table.rows
    assert not any(row[0] == "`uniform`" for row in table.rows)


def test_pictures_show_shares(played: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "FIRST_SHOWN", 10)
    above, below = people.picture(played).axes
    shown = [name for name in played.learners if name != "uniform"]
    assert [line.get_label() for line in below.get_lines()] == shown
    for name, line in zip(shown, below.get_lines(), strict=True):
        fitting = [k for k in (1, 3) if name in played.results[k].experiment.learners]
        assert list(line.get_ydata()) == [people.figures(played, k, name).share for k in fitting]
    ftpl = above.get_lines()[0]
    assert ftpl.get_xdata()[0] == 10
    assert ftpl.get_ydata()[-1] == pytest.approx(people.figures(played, 1, "ftpl").share)


@pytest.mark.slow
def test_the_command_writes_a_record(
    orders: Path,
    ratings: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(people, "FIRST_SHOWN", 10)
    monkeypatch.setattr(people, "ANSWERS", (1,))
    path, pictures_dir = tmp_path / "people.json", tmp_path / "pictures"
    pictures_dir.mkdir()
    options = ["--sushi", str(orders), "--jester", str(ratings), "--horizon", "60", "--record", str(path)]
    people.main([*options, "--pictures", str(pictures_dir), "--runs", "2"])
    tables = records.read(path).tables
    assert capsys.readouterr().out == records.show(tables)
    titles = [table.title for table in tables]
    for name in ("Sushi, dcg, 40", "Sushi, p@3+sum, 60", "Jester, dcg, 37", "Jester, p@3+sum, 60"):
        assert any(title.startswith(f"{name} rounds") for title in titles)
    pictures = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert pictures == [f"people-{which}.svg" for which in ("jester-dcg", "jester-p3", "sushi-dcg", "sushi-p3")]
    with pytest.raises(SystemExit):
        people.main([*options, "--runs", "1"])


def test_non_linear_measures_are_refused(orders: Path) -> None:
    experiment = Experiment(("uniform",), people.sushi(orders).stream, "ap", 1, 9)
    with pytest.raises(ValueError, match="must be linear"):
        people.comparators(experiment, 8)


def test_the_record_has_every_table() -> None:
    *tables, bounds = [table.title for table in records.read(records.FOLDER / "people.json").tables]
    expected = [
        f"{title}, {measure}, {rounds:,} rounds"
        for title, once in (("Sushi", 5_000), ("Jester", 1_473))
        for measure in people.MEASURES
        for rounds in (once, people.LONG)
    ]
    assert [title.partition(" (")[0] for title in tables] == expected
    assert bounds.startswith("Bounds for k = 1")
