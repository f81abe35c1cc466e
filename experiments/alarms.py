"""Measure the rate of false alarms, and the delay until planted faults raise an alarm: records/monitoring.json.

There are ten items and k = 3. Each of the top three gets feedback with probability 0.3; grades are 0 and 1 with
means from 0.9 to 0.2. Learners keep learning. A fault begins after 5,000 good decisions and changes what the app
shows or reports.

    python experiments/alarms.py                                     print the tables (five minutes)
    python experiments/alarms.py --runs 2                            fewer runs
    python experiments/alarms.py --record                            write them into the record
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import records

from peekrank import DCG, Agent
from peekrank.learners import learner as learner_named
from peekrank.monitoring.alarms import Monitor
from peekrank.types import Floats, Ints

M, K, RATE = 10, 3, 0.3
MEANS = np.linspace(0.9, 0.2, M)
GOOD, BAD = 5_000, 5_000  # decisions before and after a fault begins
OFTEN, LONG = 1e-3, 20_000  # alpha where false alarms are counted, and decisions of a run
ALPHA = 1e-6  # where delays are
LEARNERS = ("greedy:epsilon=0.1", "doubtsort", "uniform")
RUNS = 40
FIRST = 5_000  # number of the first run


class Played(NamedTuple):
    """Decisions, with a row each and a column for each item."""

    propensities: Floats
    positions: Ints
    answers: Floats

    def part(self, first: int, last: int) -> tuple[Ints, Ints, Floats, Ints, Floats, Ints]:
        """Return the decisions from `first` to `last` as arguments of a monitor."""
        n, made = last - first, self.between(first, last)
        offsets, items = np.arange(0, n * M + 1, M, dtype=np.int64), np.tile(np.arange(M), n)
        ks: Ints = np.full(n, K, dtype=np.int64)
        return offsets, items, made.propensities.ravel(), made.positions.ravel(), made.answers.ravel(), ks

    def between(self, first: int, last: int) -> Played:
        """Return some of the decisions."""
        return Played(self.propensities[first:last], self.positions[first:last], self.answers[first:last])


def played(name: str, rounds: int, run: int) -> Played:
    """Run a learner over rounds and log its decisions."""
    rng = np.random.default_rng(run)
    agent = Agent(learner_named(name, measure=DCG()), m=M, k=K, seed=run)
    relevance = (rng.random((rounds, M)) < MEANS).astype(np.float64)
    answers = np.where(rng.random((rounds, M)) < RATE, relevance, np.nan)
    made = Played(np.empty((rounds, M)), np.empty((rounds, M), np.int64), np.full((rounds, M), np.nan))
    for t in range(rounds):
        decision = agent.rank()
        made.propensities[t] = decision.propensities
        made.positions[t, decision.ranking] = np.arange(M)
        seen = decision.ranking[:K]
        made.answers[t, seen] = answers[t, seen]
        agent.update(decision, answers[t, seen])
    return made


def false_alarms(name: str, runs: Sequence[int]) -> tuple[int, int, list[int]]:
    """Count decisions, alarms, and decisions before each monitor's first alarm, after which it is replaced."""
    alarms, lengths = 0, []
    for run in runs:
        made, first = played(name, LONG, run), 0
        whole = Monitor(OFTEN)
        whole.observe_many(*made.part(0, LONG))
        alarms += sum(alarm.times for alarm in whole.raised())
        while first < LONG:
            watch = Monitor(OFTEN)
            last = first
            while last < LONG and not watch.raised():
                watch.observe_many(*made.part(last, last + 1))
                last += 1
            lengths.append(last - first)  # the last of a run is cut short, which makes the mean smaller
            first = last
    return LONG * len(runs), alarms, lengths


def _see_again(made: Played, positions: Ints, rng: np.random.Generator) -> Played:
    """Return the same decisions with items at other positions, so that other items get feedback."""
    n = len(positions)
    relevance = np.where(rng.random((n, M)) < MEANS, 1.0, 0.0)
    told = (positions < K) & (rng.random((n, M)) < RATE)
    return Played(made.propensities, positions, np.where(told, relevance, np.nan))


def _sorted(made: Played, rng: np.random.Generator) -> Played:
    """Show a fixed order that begins with items of medium quality."""
    return _see_again(made, np.tile(np.roll(np.arange(M), M // 2), (len(made.positions), 1)), rng)


def _cached(made: Played, rng: np.random.Generator) -> Played:
    """Show the list of the previous decision half of the time."""
    old = rng.random(len(made.positions)) < 0.5
    positions = made.positions.copy()
    positions[1:][old[1:]] = made.positions[:-1][old[1:]]
    return _see_again(made, positions, rng)


def _without_exploring(made: Played, rng: np.random.Generator) -> Played:
    """Always show the most frequent order."""
    order = np.argsort(-made.propensities, axis=1, kind="stable")
    positions = np.empty_like(order)
    np.put_along_axis(positions, order, np.tile(np.arange(M), (len(order), 1)), axis=1)
    return _see_again(made, positions, rng)


def _without_best(made: Played, rng: np.random.Generator) -> Played:
    """Move item 0, the best, to the end."""
    positions = made.positions - (made.positions > made.positions[:, :1])
    positions[:, 0] = M - 1
    return _see_again(made, positions, rng)


def _with_worst(made: Played, rng: np.random.Generator) -> Played:
    """Move the last item, the worst, to the top."""
    positions = made.positions + (made.positions < made.positions[:, -1:])
    positions[:, -1] = 0
    return _see_again(made, positions, rng)


def _half_lost(made: Played, rng: np.random.Generator) -> Played:
    return made._replace(answers=np.where(rng.random(made.answers.shape) < 0.5, np.nan, made.answers))


def _all_lost(made: Played, _: np.random.Generator) -> Played:
    return made._replace(answers=np.full_like(made.answers, np.nan))


def _best_got_worse(made: Played, rng: np.random.Generator) -> Played:
    """Lower the mean of item 0 from 0.9 to 0.6."""
    answers = made.answers.copy()
    answers[:, 0] *= rng.random(len(answers)) < 2 / 3
    return made._replace(answers=answers)


def _stricter_people(made: Played, rng: np.random.Generator) -> Played:
    """Lower the mean of each item by a third."""
    return made._replace(answers=made.answers * (rng.random(made.answers.shape) < 2 / 3))


FAULTS: dict[str, tuple[Callable[[Played, np.random.Generator], Played], str]] = {
    "the app sorts by itself": (_sorted, "unexpected-order"),
    "half of the lists are shown again": (_cached, "unexpected-order"),
    "exploration is undone": (_without_exploring, "no-exploration"),
    "the best item is hidden": (_without_best, "item-hidden"),
    "the worst item is pinned on top": (_with_worst, "item-overexposed"),
    "all answers are lost": (_all_lost, "fewer-answers"),
    "half of the answers are lost": (_half_lost, "fewer-answers"),
    "people become stricter": (_stricter_people, "lower-grades"),
    "one item gets worse": (_best_got_worse, "item-lower-grades"),
}


def delays(name: str, fault: str, runs: Sequence[int]) -> tuple[list[int], list[int]]:
    """Count the decisions from the beginning of a fault to its own alarm, and to the first alarm of any kind."""
    change, meant = FAULTS[fault]
    found, any_kind = [], []
    for run in runs:
        made = played(name, GOOD + BAD, run)
        bad = change(made.between(GOOD, GOOD + BAD), np.random.default_rng([run, 1]))
        watch = Monitor(ALPHA)
        watch.observe_many(*made.part(0, GOOD))
        watch.observe_many(*bad.part(0, BAD))
        since = [(alarm.since - GOOD, alarm.name) for alarm in watch.raised() if alarm.since > GOOD]
        found.append(min((after for after, kind in since if kind == meant), default=BAD + 1))
        any_kind.append(min((after for after, _ in since), default=BAD + 1))
    return found, any_kind


def _told(after: Sequence[int]) -> str:
    """Format median and maximum. A run without an alarm counts as more than all decisions."""
    if min(after) > BAD:
        return f"not in {BAD:,}"
    most = f"not in {BAD:,}" if max(after) > BAD else f"{max(after):,}"
    return f"{np.median(after):,.0f} ({most})"


def tables(runs: Sequence[int]) -> list[records.Table]:
    """Return both tables of the record."""
    lines = [
        "| learner | alarms per 1 / alpha decisions | decisions before the first alarm, mean ± standard error |",
        "|---|---|---|",
    ]  # fmt: skip
    for name in LEARNERS:
        decisions, alarms, lengths = false_alarms(name, runs)
        error = np.std(lengths) / np.sqrt(len(lengths))
        lines.append(f"| `{name}` | {alarms / (OFTEN * decisions):.2f} | {np.mean(lengths):,.0f} ± {error:,.0f} |")
    text = f"alpha = {OFTEN:g}, {LONG:,} decisions in each run."
    found = [records.parse_table("False alarms", lines, [text])]
    lines = [
        "| fault | alarm | " + " | ".join(f"`{name}`" for name in LEARNERS[:2]) + " |", "|---|---|---|---|",
    ]  # fmt: skip
    for fault, (_, meant) in FAULTS.items():
        told = [_told(delays(name, fault, runs)[0]) for name in LEARNERS[:2]]
        lines.append(f"| {fault} | `{meant}` | {' | '.join(told)} |")
    text = (
        f"alpha = {ALPHA:g}, median and, in brackets, the largest number of the {len(runs)} runs. "
        f"A fault begins after {GOOD:,} good decisions."
    )
    return [*found, records.parse_table("Decisions until a fault is noticed", lines, [text])]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or write them into the record."""
    parser = argparse.ArgumentParser(description="False alarms, and delays of true ones.")
    parser.add_argument("--runs", type=int, default=RUNS)
    records.add_option(parser, "monitoring")
    options = parser.parse_args(arguments)
    found = tables(range(FIRST, FIRST + options.runs))
    if options.record:
        records.update(options.record, found)
    else:
        print(records.show(found))


if __name__ == "__main__":
    main()
