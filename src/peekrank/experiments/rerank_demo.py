"""The demo of reranking: mixed behind BM25 on the docstrings of the standard library, with simulated readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from peekrank.engine import Agent
from peekrank.experiments.passages import WORDINGS, Visits, World, drawn, passages, play, worth
from peekrank.types import Floats, Ints

VISITS, RUNS, TENTHS = 20_000, 3, 10
ANSWERING = 0.1
LEARNER = "mixed:cells=10000"
_SHOWN = 5  # passages of the example


class Entry(NamedTuple):
    """A passage of the example, and whether it is the one that readers look for."""

    title: str
    summary: str
    is_own: bool


class Example(NamedTuple):
    """A popular wording of a question, and the first passages before and after learning."""

    query: str
    before: list[Entry]
    after: list[Entry]


class Demo(NamedTuple):
    """Mean value of the lists by ranker, with a row for each run and a column for each tenth; and an example."""

    passages: int
    values: dict[str, Floats]
    first: dict[str, Floats]  # share of lists with the right passage first, in each tenth
    example: Example


def run_demo(visits: int = VISITS, runs: int = RUNS, progress: Callable[[str], None] = lambda _: None) -> Demo:
    """Play all runs."""
    world = World("demo", answering=ANSWERING)
    found: dict[str, list[Ints]] = {
        "BM25 alone": [],
        "mixed behind BM25": [],
        "best order of the same passages": [],
    }
    examples: list[Example] = []
    agents: list[Agent] = []
    for run in range(runs):
        progress(f"run {run + 1} of {runs}")
        drawing = drawn(world, run, visits)
        player = play(LEARNER, key=True, watch=lambda agent: agents.__setitem__(slice(None), [agent]))
        positions = player(world, drawing, run)
        found["BM25 alone"].append(drawing.own)
        found["mixed behind BM25"].append(positions)
        found["best order of the same passages"].append(np.minimum(drawing.own, 0))
        examples.append(_example(drawing, positions, agents[0]))
    tenths = {name: np.array(part).reshape(runs, TENTHS, -1) for name, part in found.items()}
    return Demo(
        len(passages()),
        {name: worth(part).mean(axis=2) for name, part in tenths.items()},
        {name: (part == 0).mean(axis=2) for name, part in tenths.items()},
        examples[0],
    )


def _example(visits: Visits, positions: Ints, agent: Agent) -> Example:
    """Return the most frequent wording whose own passage BM25 has lower than the learner has it at the end."""
    last = {int(key): t for t, key in enumerate(visits.keys)}
    better = [key for key, t in last.items() if 0 <= positions[t] < visits.own[t]]
    counts = np.bincount(visits.keys)
    key = max(better, key=lambda one: (counts[one], -one)) if better else int(counts.argmax())
    t = last[key]
    items, known = visits.items[t], passages()
    own = known[key // WORDINGS]
    learned = agent.rank(available=items, scores=visits.scores[t], key=key).ranking

    def entries(order: Ints) -> list[Entry]:
        return [Entry(one.title, one.summary, one == own) for one in (known[item] for item in order[:_SHOWN])]

    return Example(visits.wordings[key], entries(items), entries(learned))
