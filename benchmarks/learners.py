"""Measure the time per round of each learner for fixed items, relative to sorting as many numbers.

The yardstick for m items is m uniforms from a NumPy generator and a full sort of them, by NumPy or in a compiled
loop, whichever is faster for that m. Figures are medians over repetitions, ratios medians of those within a
repetition, in which learner and yardstick run one after the other, since machines are noisy.

    python benchmarks/learners.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from itertools import product
from typing import NamedTuple, cast

import numba
import numpy as np
from rich.console import Console
from rich.table import Table

from peekrank import CT15, simulate
from peekrank.engine import problem_shape
from peekrank.learners import learner
from peekrank.measures import measure
from peekrank.registry import LEARNERS
from peekrank.types import Floats, Learner, Measure, Rounds

SIZES = (10, 100, 1000)
REPETITIONS = 5
ITEMS_IN_ALL = 20_000_000  # of all rounds of a repetition together, unless that takes too long
FEW, MOST_SECONDS = 1000, 3.0
MEASURES = ("dcg", "p@3+sum")  # a learner is measured with the first one it takes
LIMITS = {"setftrl": (2, 60), "permftrl": (3, 150), "blockftrl": (3, 150)}  # us a round, m = 10 and m = 1,000
TIMES = {"marginftrl": ("blockftrl", 2.5)}  # as long as another learner, at most
MOST_GROWTH = float(SIZES[-1] * np.log(SIZES[-1]) / (SIZES[0] * np.log(SIZES[0])))  # that of m log m


class Cost(NamedTuple):
    """Microseconds per round, and the ratio to the yardstick."""

    us: float
    ratio: float


def seconds(action: Callable[[], object]) -> float:
    """Return the CPU time, which excludes other work of the machine."""
    start = time.process_time()
    action()
    return time.process_time() - start


def _draw_and_sort(rng: np.random.Generator, numbers: Floats, rounds: int) -> float:
    """Draw and sort numbers in each round. Return the sum of the largest, so that no work is optimised away."""
    total = 0.0
    for _ in range(rounds):
        for i in range(len(numbers)):
            numbers[i] = rng.random()
        numbers.sort()
        total += numbers[-1]
    return total


compiled_yardstick = cast("Callable[[np.random.Generator, Floats, int], float]", numba.njit(_draw_and_sort))


def numpy_yardstick(rng: np.random.Generator, numbers: Floats, rounds: int) -> None:
    for _ in range(rounds):
        rng.random(out=numbers)
        numbers.sort()


def yardstick(m: int, rounds: int) -> Callable[[], object]:
    """Return the faster of the two sorts for m numbers."""
    rng, numbers = np.random.default_rng(2), np.empty(m)
    compiled_yardstick(rng, numbers, 1)
    ways = [lambda way=way: way(rng, numbers, rounds) for way in (compiled_yardstick, numpy_yardstick)]
    return min(ways, key=seconds)


class Player(NamedTuple):
    """A learner with its measure and its k."""

    learner: Learner
    measure: Measure
    k: int


def player(name: str, m: int, horizon: int) -> Player | None:
    """Make a learner for the first measure that it accepts, with the smallest k, or None if there is none."""
    for text, k in product(MEASURES, (1, 2, 3, 5, m - 1, m)):
        judged = measure(text)
        try:
            made = learner(name, measure=judged, horizon=horizon, max_grade=1)
            made.init(problem_shape(made, m=m, k=k))
        except ValueError:
            continue
        return Player(made, judged, k)
    return None


def cost(made: Player, m: int, rounds: int) -> Cost:
    """Time a learner and the yardstick in turns."""
    world = CT15(m=m).rounds(rounds, np.random.default_rng(1))

    def play(rounds: int) -> float:
        part = Rounds(world.features[: rounds * m], world.relevance[: rounds * m], world.offsets[: rounds + 1])
        return seconds(
            lambda: simulate(made.learner, part, k=made.k, measure=made.measure, checkpoints=np.array([rounds]))
        )

    play(1)
    rounds = min(rounds, FEW + int(MOST_SECONDS * FEW / play(FEW)))
    sorting = yardstick(m, rounds)
    pairs = np.array([(play(rounds), seconds(sorting)) for _ in range(REPETITIONS)])
    return Cost(float(np.median(pairs[:, 0])) / rounds * 1e6, float(np.median(pairs[:, 0] / pairs[:, 1])))


def yardstick_cost(m: int, rounds: int) -> float:
    sorting = yardstick(m, rounds)
    return float(np.median([seconds(sorting) for _ in range(REPETITIONS)])) / rounds * 1e6


def verdict(figure: float, limit: float | None, unit: str) -> str:
    if limit is None:
        return ""
    word = "[green]kept[/]" if figure <= limit else "[red]missed[/]"
    return f" ({word}, <= {limit:g}{unit})"


def main() -> None:
    warnings.simplefilter("ignore", UserWarning)  # that horizons are short for many items
    table = Table(
        "learner",
        *(f"m = {m:,}: us a round, x yardstick" for m in SIZES),
        f"growth, {SIZES[-1]:,} / {SIZES[0]}",
        title="cost of a round in `simulate`, judged by the measure",
    )
    bare = [yardstick_cost(m, ITEMS_IN_ALL // m) for m in SIZES]
    table.add_row(
        "yardstick: m uniforms drawn and sorted",
        *(f"{us:,.2f}" for us in bare),
        f"{bare[-1] / bare[0]:,.0f}x",
    )
    all_costs: dict[str, dict[int, Cost]] = {}
    for name, cls in LEARNERS.items():
        if cls.contextual:
            continue
        cells, costs = [], all_costs.setdefault(name, {})
        for m in SIZES:
            made = player(name, m, ITEMS_IN_ALL // m)
            if made is None:
                cells.append("does not fit")
                continue
            costs[m] = cost(made, m, ITEMS_IN_ALL // m)
            limit = dict(zip((SIZES[0], SIZES[-1]), LIMITS.get(name, ()), strict=False)).get(m)
            figure = f"{costs[m].us:,.2f}, {costs[m].ratio:.1f}x{verdict(costs[m].us, limit, ' us')}"
            if name in TIMES:
                other, times = TIMES[name]
                ratio = costs[m].us / all_costs[other][m].us
                figure += f", {ratio:.1f}x {other}{verdict(ratio, times, 'x')}"
            cells.append(f"{made.measure}, k = {made.k}: {figure}")
        growth = costs[SIZES[-1]].us / costs[SIZES[0]].us if SIZES[0] in costs and SIZES[-1] in costs else None
        table.add_row(
            name,
            *cells,
            "" if growth is None else f"{growth:,.0f}x{verdict(growth, round(MOST_GROWTH), 'x: m log m')}",
        )
    Console(width=170).print(table)


if __name__ == "__main__":
    main()
