"""Compare marginftrl with blockftrl and setftrl, all without a horizon.

The streams are stationary streams, real people (from your own files), the study's family with its lower-bound
pairs, opponents that alternate, a long run, feedback that is scarce, late or unequal, and streams that change.
Figures are means and standard deviations over seeds. No seed was used for any choice, and their number was fixed
in advance.

    python experiments/margin.py                                            print the tables (minutes)
    python experiments/margin.py --sushi sushi.soc --jester jester.csv      with real people
    python experiments/margin.py ... --record                               write them into records/marginftrl.json
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import records

from peekrank.engine import Agent, simulate
from peekrank.experiments.families import family
from peekrank.learners import learner
from peekrank.learners._shared import ShortHorizonWarning
from peekrank.measures import measure
from peekrank.regret import best_values, regret
from peekrank.streams import fixed_items, stream
from peekrank.types import Decision, Floats, Ints, Learner, Measure, Rounds, Shape, Stream

OURS, BLOCK, SETS = "marginftrl", "blockftrl", "setftrl"
T, LAB, LONG = 100_000, 128_000, 1_000_000
FIRST_SEED = 70_000
LINEAR = "bernoulli:means=" + "+".join(f"{x:.6f}" for x in np.linspace(0.9, 0.1, 10))
STATIONARY = {
    "ct15": "ct15:m=10,noise=0.25",
    "linear means": LINEAR,
    "close halves": "bernoulli:means=" + "+".join(["0.55"] * 5 + ["0.45"] * 5),
    "one better": "bernoulli:means=" + "+".join(["0.45"] * 9 + ["0.55"]),
    "last two close": "bernoulli:means=" + "+".join(["0.9"] * 8 + ["0.55", "0.45"]),
    "graded": "binomial:m=10,max_grade=4",
}
GAMES = (("dcg", 1), ("dcg", 3), ("sumloss", 1), ("p@3+sum", 1))
TUTORIAL = (0.6, 0.55, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1)
VISITS = 50_000

Draw = Callable[[int], Rounds]  # the rounds of a seed


class Lost(NamedTuple):
    """Regrets of shape (runs, times)."""

    regrets: Floats

    @property
    def mean(self) -> float:
        return float(self.regrets[:, -1].mean())

    @property
    def worse_than(self) -> float:
        """Return the mean minus two standard errors, as in the study."""
        return self.mean - 2 * float(self.regrets[:, -1].std(ddof=1) / np.sqrt(len(self.regrets)))

    def __str__(self) -> str:
        return f"{self.mean:,.0f} ± {self.regrets[:, -1].std(ddof=1):,.0f}"


def made(name: str, judge: Measure, max_grade: int) -> Learner | None:
    """Make a learner without a horizon, or None if it does not fit."""
    try:
        return learner(name, measure=judge, max_grade=max_grade)
    except ValueError:
        return None


def played(
    player: Learner,
    draw: Draw,
    judge: Measure,
    k: int,
    runs: int,
    checkpoints: Sequence[int],
    first: int = FIRST_SEED,
) -> Lost:
    """Measure the regret after each of the rounds `checkpoints`."""
    times, found = np.array(checkpoints), []
    for seed in range(first, first + runs):
        rounds = draw(seed)
        trace = simulate(player, rounds, k=k, measure=judge, seed=seed, checkpoints=times)
        found.append(regret(judge, trace, best_values(judge, rounds, times)))
    return Lost(np.array(found))


def drawn(text: str, rounds: int) -> Draw:
    """Draw the rounds of a stream."""
    return lambda seed: stream(text).rounds(rounds, np.random.default_rng(seed))


def stationary(people: dict[str, str], runs: int) -> Iterator[list[str]]:
    """Tabulate a row for each game and stream."""
    others = "ratio to the better of the others"
    yield ["game", "stream", "`marginftrl`", "`blockftrl`", "`setftrl`", others]
    for name, k in GAMES:
        for label, text in {**STATIONARY, **people}.items():
            top = stream(text).max_grade
            if top > 1 and name.startswith("p@"):
                continue
            judge = measure(name)
            found = {
                who: played(player, drawn(text, T), judge, k, runs, (T,))
                for who in (OURS, BLOCK, SETS)
                if (player := made(who, judge, top)) is not None
            }
            best = min(found[who].mean for who in found if who != OURS)
            cells = [str(found[who]) if who in found else "" for who in (OURS, BLOCK, SETS)]
            yield [f"`{name}`, k = {k}", label, *cells, f"{found[OURS].mean / best:.2f}"]


def opponents(m: int) -> dict[str, Draw]:
    """Make deterministic relevance that alternates between two halves of the items."""
    sides: dict[str, Callable[[Ints], Ints]] = {
        "turns of 1": lambda t: t,
        "turns of 1,000": lambda t: t // 1000,
        "doubling turns": lambda t: np.log2(t + 1).astype(np.int64),
        "turn after a tenth": lambda t: (t >= LAB // 10).astype(np.int64),
        "turn after two fifths": lambda t: (t >= 2 * LAB // 5).astype(np.int64),
        "turn after a half": lambda t: (t >= LAB // 2).astype(np.int64),
    }
    half, t = np.arange(m) < m // 2, np.arange(LAB)

    def rounds(side: Callable[[Ints], Ints]) -> Draw:
        grades = (half[None, :] ^ (side(t)[:, None] % 2 == 1)).astype(np.uint8)
        return lambda _: fixed_items(grades)

    found = {label: rounds(side) for label, side in sides.items()}
    found["cycle"] = lambda _: fixed_items(np.eye(m, dtype=np.uint8)[t % m])
    return found


def worst_streams(runs: int) -> Iterator[list[str]]:
    """Tabulate the worst stream of each learner, and the streams on which marginftrl loses more."""
    yield ["game, m = 5, k = 1", "learner", "worst stream of the study", "worst opponent", "bound"]
    for name in ("dcg", "sumloss", "p@2+sum"):
        judge = measure(name)
        luck = {source.label: drawn_from(source.stream) for source in family(name, 5, 1, LAB)}
        for who in (OURS, BLOCK, SETS):
            player = made(who, judge, 1)
            if player is None:
                continue
            cells = []
            for sources in (luck, opponents(5)):
                found = {label: played(player, draw, judge, 1, runs, (LAB,)) for label, draw in sources.items()}
                worst = max(found, key=lambda label: found[label].worse_than)
                cells.append(f"{worst}: {found[worst]}")
            bound = player.bound(Shape(5, 0, 1), LAB)
            yield [f"`{name}`", who, *cells, "" if bound is None else f"{bound:,.0f}"]


def drawn_from(source: Stream) -> Draw:
    """Draw the rounds of a stream of the study."""
    return lambda seed: source.rounds(LAB, np.random.default_rng(seed))


def long_run(runs: int) -> Iterator[list[str]]:
    """Measure the regret on linear means after a hundred thousand and a million rounds."""
    yield ["`dcg`, k = 1, linear means", f"T = {T:,}", f"T = {LONG:,}", "slope of the last decade"]
    for who in (OURS, BLOCK):
        player = made(who, measure("dcg"), 1)
        if player is not None:
            lost = played(player, drawn(LINEAR, LONG), measure("dcg"), 1, runs, (T, LONG))
            early, late = lost.regrets.mean(axis=0)
            yield [who, f"{early:,.0f}", str(lost), f"{np.log10(late / early):.2f}"]


class Crowd(NamedTuple):
    """Feedback: the response rate of each item, and the delay in rounds."""

    title: str
    propensity: Floats
    delay: int = 0


CROWDS = (
    *(Crowd(f"{share:.0%} answer", np.full(10, share)) for share in (1.0, 0.2, 0.05)),
    Crowd("20%, 500 rounds late", np.full(10, 0.2), 500),
    Crowd("5% to 95%, the better the item, the rarer", np.linspace(0.05, 0.95, 10)),
    Crowd("95% to 5%, the better the item, the more often", np.linspace(0.95, 0.05, 10)),
)


def asked(who: str, crowd: Crowd, seed: int) -> float:
    """Measure the lost DCG per visit against the best order of the tutorial's ten items."""
    judge, rng = measure("dcg"), np.random.default_rng(seed)
    relevance = (rng.random((VISITS, 10)) < TUTORIAL).astype(np.uint8)
    says = rng.random((VISITS, 10)) < crowd.propensity
    agent = Agent(learner(who, measure=judge), m=10, k=1, seed=seed)
    shown, waiting = np.empty((VISITS, 10), np.int64), deque[Decision]()
    for t in range(VISITS):
        waiting.append(agent.rank())
        shown[t] = waiting[-1].ranking
        if t >= crowd.delay:
            decision, then = waiting.popleft(), t - crowd.delay
            item = decision.ranking[0]
            if says[then, item]:
                agent.update(decision, relevance[then, [item]])
    best = judge.values(np.arange(10)[None], np.array([TUTORIAL]))
    mine = judge.values(shown, np.tile(TUTORIAL, (VISITS, 1)))
    return float(best[0] - mine.mean())


def answers(runs: int) -> Iterator[list[str]]:
    """Measure the lost DCG per visit with late or unequal feedback."""
    yield ["ten items, `dcg`, k = 1, 50,000 visits", "marginftrl", "blockftrl"]
    for crowd in CROWDS[3:]:  # experiments/choosing.py has the first three, experiments/doubt.py all answers late
        cells = []
        for who in (OURS, BLOCK):
            lost = np.array([asked(who, crowd, FIRST_SEED + run) for run in range(runs)])
            cells.append(f"{lost.mean():.4f} ± {lost.std(ddof=1):.4f}")
        yield [crowd.title, *cells]


CHANGING = (
    "switching:m=10",
    "switching:m=10,segments=20",
    "drifting:m=10",
    "drifting:m=10,periods=5",
    STATIONARY["ct15"],
)
FOLLOWING = (
    *("marginftrl", "marginftrl:decay=0.9997", "marginftrl:decay=0.999"),
    *("blockftrl", "blockftrl:decay=0.95", "doubtsort:decay=0.99"),
)


def changing(runs: int) -> Iterator[list[str]]:
    """Measure the regret against the best fixed ranking on streams that change. It can be below 0."""
    yield [f"`dcg`, k = 1, T = {T:,}", *(f"`{text}`" for text in CHANGING)]
    for who in FOLLOWING:
        player = learner(who, measure=measure("dcg"))
        lost = [played(player, drawn(text, T), measure("dcg"), 1, runs, (T,)) for text in CHANGING]
        yield [f"`{who}`", *map(str, lost)]


def tabulated(title: str, rows: Iterator[list[str]]) -> records.Table:
    """Make a table of the record, and print its rows to standard error."""
    head, cells = next(rows), []
    for row in rows:
        sys.stderr.write(f"{row}\n")
        cells.append([records.parse_cell(cell) for cell in row])
    return records.Table(title, columns=head, rows=cells)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write the record."""
    parser = argparse.ArgumentParser(description="marginftrl beside blockftrl and setftrl.")
    parser.add_argument("--sushi", type=Path, help="orders of sushi (PrefLib 00014)")
    parser.add_argument("--jester", type=Path, help="ratings of jokes, a CSV file")
    records.add_option(parser, "marginftrl")
    parser.add_argument("--runs", type=int, default=20, help="on streams; half of them in the study")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ShortHorizonWarning)
    people = {}
    if options.sushi:
        people["Sushi"] = f"orders:path={options.sushi},rule=top3"
    if options.jester:
        people["Jester"] = f"ratings:path={options.jester},rule=quantile2,complete=true"
    half = max(2, options.runs // 2)
    measured = {
        "Stationary streams and real people": stationary(people, options.runs),
        "Worst streams": worst_streams(half),
        "A long run": long_run(half),
        "Late and unequal answers": answers(half),
        "Streams that change": changing(options.runs),
    }
    tables = [tabulated(title, rows) for title, rows in measured.items()]
    sys.stdout.write(records.show(tables))
    if options.record:
        records.update(options.record, tables)


if __name__ == "__main__":
    main()
