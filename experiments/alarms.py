"""Measure the rate of false alarms, and the delay until planted faults raise an alarm: records/monitoring.json.

There are ten items and k = 3. Each of the top three gets feedback with probability 0.3; grades are 0 and 1 with
means from 0.9 to 0.2. Learners keep learning. A fault begins after 5,000 good decisions and changes what the app
shows or reports. In healthy logs, response rates and means depend on the position or on the time.

    python experiments/alarms.py                                     print the tables (ten minutes)
    python experiments/alarms.py --runs 2                            fewer runs
    python experiments/alarms.py --record                            write them into the record
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
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
TOLERANCES = (0.2, 0.0)  # the default, and none
LOGS = 20  # healthy ones of each kind
RUNS = 20
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


def by_position(_: Ints) -> Floats:
    """Return the factors by which people answer less at lower positions."""
    return np.array([1.0, 0.6, 0.35])


def cycle(period: int, lowest: float) -> Callable[[Ints], Floats]:
    """Return a cycle with a period in decisions, whose lowest point is a share of the highest."""
    swing = (1 - lowest) / (1 + lowest)
    return lambda t: 1 + swing * np.sin(2 * np.pi * t[:, None] / period)


def played(name: str, rounds: int, run: int, factor: Callable[[Ints], Floats] | None = None) -> Played:
    """Run a learner over rounds and log its decisions.

    The factor changes response rates and means by round and position.
    """
    rng = np.random.default_rng(run)
    agent = Agent(learner_named(name, measure=DCG()), m=M, k=K, seed=run)
    factors = np.broadcast_to(1.0 if factor is None else factor(np.arange(rounds)), (rounds, K))
    luck, told = rng.random((rounds, M)), rng.random((rounds, K)) < RATE * factors
    made = Played(np.empty((rounds, M)), np.empty((rounds, M), np.int64), np.full((rounds, M), np.nan))
    for t in range(rounds):
        decision = agent.rank()
        made.propensities[t] = decision.propensities
        made.positions[t, decision.ranking] = np.arange(M)
        seen = decision.ranking[:K]
        liked = luck[t, seen] < np.minimum(1, MEANS[seen] * factors[t])
        made.answers[t, seen] = np.where(told[t], liked, np.nan)
        agent.update(decision, made.answers[t, seen])
    return made


def _turned(made: Played) -> Played:
    """Reverse the first k positions in the second half, where people answer by position."""
    half = len(made.positions) // 2
    positions = made.positions.copy()
    positions[half:] = np.where(positions[half:] < K, K - 1 - positions[half:], positions[half:])
    rng, seen = np.random.default_rng(half), positions < K
    factors = np.append(by_position(np.arange(1)), np.zeros(M - K))[positions]
    told = seen & (rng.random(seen.shape) < RATE * factors)
    return Played(made.propensities, positions, np.where(told, rng.random(seen.shape) < MEANS * factors, np.nan))


def _as_made(made: Played) -> Played:
    return made


DAY, WEEK = 1_000, 7_000  # decisions
HEALTHY: dict[str, tuple[Callable[[Ints], Floats] | None, Callable[[Played], Played]]] = {
    "nothing changes": (None, _as_made),
    "people answer by position: 100, 60 and 35 %": (by_position, _as_made),
    "the same, and the app reverses the first three half-way": (by_position, _turned),
    "daily cycle, lowest 80 % of highest": (cycle(DAY, 0.8), _as_made),
    "weekly cycle, lowest 80 % of highest": (cycle(WEEK, 0.8), _as_made),
}
# Cycles beyond the default tolerance: lowest point in %, and period
DEEPER = (("daily", 65, DAY), ("daily", 50, DAY), ("daily", 35, DAY), ("weekly", 65, WEEK), ("weekly", 50, WEEK))


def healthy(logs: int) -> Iterator[str]:
    """Count the alarms in healthy logs, of each learner in turn, for several tolerances."""
    tolerances = (*TOLERANCES, 0.5)
    yield f"| log | {' | '.join(f'tolerance {share:.0%}' for share in tolerances)} |".replace("%", " %")
    yield "|---|" + "---|" * len(tolerances)
    deeper = {
        f"{name} cycle, lowest {lowest} % of highest": (cycle(period, lowest / 100), _as_made)
        for name, lowest, period in DEEPER
    }
    for title, (factor, change) in {**HEALTHY, **deeper}.items():
        counts = np.zeros(len(tolerances), np.int64)
        for run in range(logs):
            made = change(played(LEARNERS[run % len(LEARNERS)], LONG, FIRST + run, factor))
            for column, tolerance in enumerate(tolerances):
                watch = Monitor(ALPHA, tolerance=tolerance)
                watch.observe_many(*made.part(0, LONG))
                counts[column] += sum(alarm.times for alarm in watch.raised())
        yield f"| {title} | {' | '.join(map(str, counts))} |"


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


def delays(name: str, runs: Sequence[int]) -> dict[tuple[str, float], list[int]]:
    """Count the decisions from the beginning of each fault to its own alarm, for each tolerance."""
    found: dict[tuple[str, float], list[int]] = {}
    for run in runs:
        made = played(name, GOOD + BAD, run)
        for fault, (change, meant) in FAULTS.items():
            bad = change(made.between(GOOD, GOOD + BAD), np.random.default_rng([run, 1]))
            for tolerance in TOLERANCES:
                watch = Monitor(ALPHA, tolerance=tolerance)
                watch.observe_many(*made.part(0, GOOD))
                watch.observe_many(*bad.part(0, BAD))
                since = [alarm.since - GOOD for alarm in watch.raised() if alarm.name == meant]
                after = min((late for late in since if late > 0), default=BAD + 1)
                found.setdefault((fault, tolerance), []).append(after)
    return found


def _told(after: Sequence[int]) -> str:
    """Format median and maximum. A run without an alarm counts as more than all decisions."""
    if min(after) > BAD:
        return f"not in {BAD:,}"
    most = f"not in {BAD:,}" if max(after) > BAD else f"{max(after):,}"
    return f"{np.median(after):,.0f} ({most})"


def false_table(runs: Sequence[int]) -> records.Table:
    """Return the table of false alarms where nothing changes."""
    lines = [
        "| learner | alarms per 1 / alpha decisions | decisions before the first alarm, mean ± standard error |",
        "|---|---|---|",
    ]  # fmt: skip
    for name in LEARNERS:
        decisions, alarms, lengths = false_alarms(name, runs)
        error = np.std(lengths) / np.sqrt(len(lengths))
        lines.append(f"| `{name}` | {alarms / (OFTEN * decisions):.2f} | {np.mean(lengths):,.0f} ± {error:,.0f} |")
    text = f"alpha = {OFTEN:g}, {LONG:,} decisions in each run."
    return records.parse_table("False alarms", lines, [text])


def healthy_table(_: Sequence[int]) -> records.Table:
    """Return the table of alarms in healthy logs."""
    text = (
        f"Alarms in {LOGS} logs of {LONG:,} decisions each, of all three learners; alpha = {ALPHA:g}. A factor on "
        "response rates and on mean grades is 1, 0.6 and 0.35 by position, or a sine with a period of "
        f"{DAY:,} or {WEEK:,} decisions. The theorem covers a cycle whose lowest point is at least 1 - tolerance "
        "of the highest."
    )
    return records.parse_table("Healthy logs", list(healthy(LOGS)), [text], runs=f"{LOGS} logs in each row")


def delay_table(runs: Sequence[int]) -> records.Table:
    """Return the table of delays until faults are noticed."""
    heads = [f"`{name}`, {share:.0%}".replace("%", " %") for name in LEARNERS[:2] for share in TOLERANCES]
    lines = [f"| fault | alarm | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    late = {name: delays(name, runs) for name in LEARNERS[:2]}
    for fault, (_, meant) in FAULTS.items():
        told = [_told(late[name][fault, share]) for name in LEARNERS[:2] for share in TOLERANCES]
        lines.append(f"| {fault} | `{meant}` | {' | '.join(told)} |")
    text = (
        f"alpha = {ALPHA:g}, tolerance 20 % (the default) and none; median and, in brackets, the largest number "
        f"of the {len(runs)} runs. A fault begins after {GOOD:,} good decisions."
    )
    return records.parse_table("Decisions until a fault is noticed", lines, [text])


TABLES: dict[str, Callable[[Sequence[int]], records.Table]] = {
    "false": false_table, "healthy": healthy_table, "delays": delay_table,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or write them into the record."""
    parser = argparse.ArgumentParser(description="False alarms, and delays of true ones.")
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help="which of them; all if none is named")
    parser.add_argument("--runs", type=int, default=RUNS)
    records.add_option(parser, "monitoring")
    options = parser.parse_args(arguments)
    runs = range(FIRST, FIRST + options.runs)
    found = [TABLES[name](runs) for name in options.tables or TABLES]
    if options.record:
        records.update(options.record, found)
    else:
        print(records.show(found))


if __name__ == "__main__":
    main()
