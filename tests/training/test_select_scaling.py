"""Which scaling is chosen: by the features, by trial, and never much worse than the best."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from typing import get_args

import numpy as np
import pytest

from peekrank.data.dataset import Dataset
from peekrank.data.generated import DatasetShape, Kind, Values, make_dataset
from peekrank.data.scaling import Scaling, scale_within_queries
from peekrank.training.run import play_run
from peekrank.training.select_scaling import choose_scaling
from peekrank.training.training import Training, prepare_data

LAYOUT = DatasetShape(queries=300, documents=(5, 25), features=12, shares=(0.6, 0.25, 0.1, 0.05))
LEARNERS = ("ridge", "rtopkf")


def halves(data: Dataset) -> tuple[Dataset, Dataset]:
    return data.select(np.arange(200)), data.select(np.arange(200, 300))


def by_huge_values(rng: np.random.Generator) -> Dataset:
    """Heavy tails that count: relevance follows the huge values themselves, not their logarithms."""
    data = make_dataset(LAYOUT, rng, values="tails")
    x = data.features / data.features.std(axis=0, dtype=np.float64)
    score = x @ rng.standard_normal(x.shape[1])
    score += 0.5 * np.median(np.abs(score - np.median(score))) * rng.standard_normal(len(score))
    steps = np.quantile(score, np.cumsum(LAYOUT.shares)[:-1])
    return data._replace(relevance=np.searchsorted(steps, score, side="right").astype(np.uint8))


def flags(rng: np.random.Generator) -> Dataset:
    """Rare flags of many sizes."""
    data = make_dataset(LAYOUT, rng)
    hot = data.features > rng.uniform(0.5, 0.98, 12)
    score = hot @ rng.standard_normal(12) + 0.3 * rng.standard_normal(len(hot))
    steps = np.quantile(score, np.cumsum(LAYOUT.shares)[:-1])
    features = (hot * 10 ** rng.uniform(-3, 3, 12)).astype(np.float32)
    return data._replace(features=features, relevance=np.searchsorted(steps, score, side="right").astype(np.uint8))


def held_out(learner: str, train: Dataset, test: Dataset, scaling: str) -> float:
    training = Training((learner,), k=1, rounds=4_000, runs=3, measure="ndcg@10+skip")
    material = prepare_data(train, test, scaling=scaling)
    runs = [next(play_run(training, material, run, lambda _: None)).curves["held_out"][-1] for run in range(3)]
    return float(np.mean([0.0 if quality is None else quality for quality in runs]))


DATA: dict[str, Callable[[np.random.Generator], Dataset]] = {
    **{
        f"{kind}-{values}": partial(make_dataset, LAYOUT, kind=kind, values=values)
        for kind in get_args(Kind)
        for values in get_args(Values)
    },
    "huge-values": by_huge_values,
    "flags": flags,
}


def seeds() -> range:
    """The seeds to check: one, or those that the environment names, as in 200-209."""
    first, _, last = os.environ.get("PEEKRANK_SEEDS", "20-20").partition("-")
    return range(int(first), int(last) + 1)


@pytest.mark.parametrize("seed", seeds())
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("learner", LEARNERS)
def test_what_is_chosen_is_nearly_the_best(learner: str, name: str, seed: int) -> None:
    train, test = halves(DATA[name](np.random.default_rng(seed)))
    training = Training((learner,), k=1, rounds=4_000, runs=3)
    chosen = choose_scaling(train, training).scaling
    found = {scaling: held_out(learner, train, test, scaling) for scaling in get_args(Scaling)}
    assert found[chosen] > max(found.values()) - 0.03, (chosen, found)


@pytest.mark.parametrize(
    ("values", "scaling", "why"),
    [
        ("uniform", "global", "no feature has heavy tails"),
        ("scales", "global", r"\d+ of 12 features have a different scale from the rest \([\d, ]+.*\)"),
        (
            "tails",
            "robust",
            r"\d+ of 12 features have heavy tails \(.*\), and a trial gave DCG@10 of about .*",
        ),
    ],
)
def test_features_decide(values: Values, scaling: str, why: str) -> None:
    data = make_dataset(LAYOUT, np.random.default_rng(1), values=values)
    found = choose_scaling(data, Training(("ridge",), rounds=1_000))
    assert found.scaling == scaling
    assert re.fullmatch(why, found.reason)


def test_a_trial_can_decide_for_another_scaling() -> None:
    train, _ = halves(by_huge_values(np.random.default_rng(4)))
    found = choose_scaling(train, Training(("ridge",), rounds=4_000))
    assert found.scaling == "global"
    assert not found.reason.endswith("than robust")


def test_what_came_scaled_is_left_alone() -> None:
    data = make_dataset(LAYOUT, np.random.default_rng(1), values="tails")
    scaled = scale_within_queries(data)
    training = Training(("ridge",), rounds=1_000)
    assert choose_scaling(scaled, training) == ("none", "the file is scaled already (query)")


def test_the_choice_is_the_same_each_time_and_whatever_the_units() -> None:
    data = make_dataset(LAYOUT, np.random.default_rng(1), values="tails")
    training = Training(LEARNERS, rounds=500)
    first = choose_scaling(data, training)
    assert choose_scaling(data, training) == first
    other_units = data._replace(features=data.features * np.float32(2.0) ** np.arange(-6, 6, dtype=np.float32))
    assert choose_scaling(other_units, training).scaling == first.scaling
