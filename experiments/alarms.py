"""How rare false alarms are, and how soon planted faults are noticed: the tables of docs/evidence/alarms.md.

Ten items, three of which are seen, each answered for with probability 0.3; grades 0 and 1 with means from 0.9 to
0.2. Learners go on learning meanwhile. A fault begins after 5,000 good decisions, and is done to
what the app shows or tells.

    python experiments/alarms.py                                     print the tables (five minutes)
    python experiments/alarms.py --runs 2                            fewer runs
    python experiments/alarms.py --page docs/evidence/alarms.md      put them into the page
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from peekrank.evidence.alarms import Watch

from peekrank import DCG, Agent
from peekrank.learners import learner as learner_named
from peekrank.reports.markup import put_into
from peekrank.types import Floats, Ints

BEGIN = "<!-- begin: python experiments/alarms.py --page docs/evidence/alarms.md -->"
M, K, RATE = 10, 3, 0.3
MEANS = np.linspace(0.9, 0.2, M)
GOOD, BAD = 5_000, 5_000  # decisions before and after a fault begins
OFTEN, LONG = 1e-3, 20_000  # alpha where false alarms are counted, and decisions of a run
ALPHA = 1e-6  # where delays are
LEARNERS = ("greedy:epsilon=0.1", "doubtsort", "uniform")
RUNS = 40
FIRST = 5_000  # number of the first run


class Played(NamedTuple):
    """Decisions, a row each: numbers by item."""

    chances: Floats
    places: Ints
    answers: Floats

    def part(self, first: int, last: int) -> tuple[Ints, Ints, Floats, Ints, Floats, Ints]:
        """What a watch takes: decisions from `first` to `last`."""
        n, made = last - first, self.between(first, last)
        offsets, items = np.arange(0, n * M + 1, M, dtype=np.int64), np.tile(np.arange(M), n)
        ks: Ints = np.full(n, K, dtype=np.int64)
        return offsets, items, made.chances.ravel(), made.places.ravel(), made.answers.ravel(), ks

    def between(self, first: int, last: int) -> Played:
        """Some of the decisions."""
        return Played(self.chances[first:last], self.places[first:last], self.answers[first:last])


def played(name: str, rounds: int, run: int) -> Played:
    """Let a learner live through rounds."""
    rng = np.random.default_rng(run)
    agent = Agent(learner_named(name, measure=DCG()), m=M, k=K, seed=run)
    relevance = (rng.random((rounds, M)) < MEANS).astype(np.float64)
    answers = np.where(rng.random((rounds, M)) < RATE, relevance, np.nan)
    made = Played(np.empty((rounds, M)), np.empty((rounds, M), np.int64), np.full((rounds, M), np.nan))
    for t in range(rounds):
        decision = agent.rank()
        made.chances[t] = decision.chances
        made.places[t, decision.ranking] = np.arange(M)
        seen = decision.ranking[:K]
        made.answers[t, seen] = answers[t, seen]
        agent.update(decision, answers[t, seen])
    return made


def false_alarms(name: str, runs: Sequence[int]) -> tuple[int, int, list[int]]:
    """Decisions, alarms, and how many decisions each watch went on before its first alarm: it is then replaced."""
    alarms, lengths = 0, []
    for run in runs:
        made, first = played(name, LONG, run), 0
        whole = Watch(OFTEN)
        whole.observe_many(*made.part(0, LONG))
        alarms += sum(alarm.times for alarm in whole.raised())
        while first < LONG:
            watch = Watch(OFTEN)
            last = first
            while last < LONG and not watch.raised():
                watch.observe_many(*made.part(last, last + 1))
                last += 1
            lengths.append(last - first)  # the last of a run is cut short, which makes the mean smaller
            first = last
    return LONG * len(runs), alarms, lengths


def _see_again(made: Played, places: Ints, rng: np.random.Generator) -> Played:
    """The same decisions, if items had been shown elsewhere: other items are answered for."""
    n = len(places)
    relevance = np.where(rng.random((n, M)) < MEANS, 1.0, 0.0)
    told = (places < K) & (rng.random((n, M)) < RATE)
    return Played(made.chances, places, np.where(told, relevance, np.nan))


def _sorted(made: Played, rng: np.random.Generator) -> Played:
    """Items in an order of the app's own, the same for all: those of middle quality come first."""
    return _see_again(made, np.tile(np.roll(np.arange(M), M // 2), (len(made.places), 1)), rng)


def _cached(made: Played, rng: np.random.Generator) -> Played:
    """Half of the lists are those of the decision before."""
    old = rng.random(len(made.places)) < 0.5
    places = made.places.copy()
    places[1:][old[1:]] = made.places[:-1][old[1:]]
    return _see_again(made, places, rng)


def _without_exploring(made: Played, rng: np.random.Generator) -> Played:
    """The likeliest order, whatever was ranked."""
    order = np.argsort(-made.chances, axis=1, kind="stable")
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.tile(np.arange(M), (len(order), 1)), axis=1)
    return _see_again(made, places, rng)


def _without_best(made: Played, rng: np.random.Generator) -> Played:
    """Item 0, the best, comes last."""
    places = made.places - (made.places > made.places[:, :1])
    places[:, 0] = M - 1
    return _see_again(made, places, rng)


def _with_worst(made: Played, rng: np.random.Generator) -> Played:
    """The last item, the worst, comes first."""
    places = made.places + (made.places < made.places[:, -1:])
    places[:, -1] = 0
    return _see_again(made, places, rng)


def _half_lost(made: Played, rng: np.random.Generator) -> Played:
    return made._replace(answers=np.where(rng.random(made.answers.shape) < 0.5, np.nan, made.answers))


def _all_lost(made: Played, _: np.random.Generator) -> Played:
    return made._replace(answers=np.full_like(made.answers, np.nan))


def _best_got_worse(made: Played, rng: np.random.Generator) -> Played:
    """Item 0 is liked by 60 % instead of 90 %."""
    answers = made.answers.copy()
    answers[:, 0] *= rng.random(len(answers)) < 2 / 3
    return made._replace(answers=answers)


def _stricter_people(made: Played, rng: np.random.Generator) -> Played:
    """Each item is liked by two thirds of those who liked it."""
    return made._replace(answers=made.answers * (rng.random(made.answers.shape) < 2 / 3))


FAULTS: dict[str, tuple[Callable[[Played, np.random.Generator], Played], str]] = {
    "the app sorts by itself": (_sorted, "unexpected-order"),
    "half of the lists are shown again": (_cached, "unexpected-order"),
    "exploration is undone": (_without_exploring, "no-exploration"),
    "the best item is hidden": (_without_best, "item-hidden"),
    "the worst item is pinned on top": (_with_worst, "item-pushed"),
    "all answers are lost": (_all_lost, "fewer-answers"),
    "half of the answers are lost": (_half_lost, "fewer-answers"),
    "people become stricter": (_stricter_people, "lower-grades"),
    "one item gets worse": (_best_got_worse, "item-lower-grades"),
}


def delays(name: str, fault: str, runs: Sequence[int]) -> tuple[list[int], list[int]]:
    """Decisions from the beginning of a fault to the alarm that is meant for it, and to the first of any kind."""
    change, meant = FAULTS[fault]
    found, any_kind = [], []
    for run in runs:
        made = played(name, GOOD + BAD, run)
        bad = change(made.between(GOOD, GOOD + BAD), np.random.default_rng([run, 1]))
        watch = Watch(ALPHA)
        watch.observe_many(*made.part(0, GOOD))
        watch.observe_many(*bad.part(0, BAD))
        since = [(alarm.since - GOOD, alarm.name) for alarm in watch.raised() if alarm.since > GOOD]
        found.append(min((after for after, kind in since if kind == meant), default=BAD + 1))
        any_kind.append(min((after for after, _ in since), default=BAD + 1))
    return found, any_kind


def _told(after: Sequence[int]) -> str:
    """Median and the largest; a run in which nothing was raised counts as more than all decisions."""
    if min(after) > BAD:
        return f"not in {BAD:,}"
    most = f"not in {BAD:,}" if max(after) > BAD else f"{max(after):,}"
    return f"{np.median(after):,.0f} ({most})"


def tables(runs: Sequence[int]) -> list[str]:
    """Both tables, as Markdown."""
    lines = [
        f"False alarms at alpha = {OFTEN:g}, {len(runs)} runs of {LONG:,} decisions:", "",
        "| learner | alarms per 1 / alpha decisions | decisions before the first alarm, mean ± standard error |",
        "|---|---|---|",
    ]  # fmt: skip
    for name in LEARNERS:
        decisions, alarms, lengths = false_alarms(name, runs)
        error = np.std(lengths) / np.sqrt(len(lengths))
        lines.append(f"| `{name}` | {alarms / (OFTEN * decisions):.2f} | {np.mean(lengths):,.0f} ± {error:,.0f} |")
    lines += [
        "", f"Decisions until a fault is noticed at alpha = {ALPHA:g}, median and most of {len(runs)} runs:", "",
        "| fault | alarm | " + " | ".join(f"`{name}`" for name in LEARNERS[:2]) + " |", "|---|---|---|---|",
    ]  # fmt: skip
    for fault, (_, meant) in FAULTS.items():
        told = [_told(delays(name, fault, runs)[0]) for name in LEARNERS[:2]]
        lines.append(f"| {fault} | `{meant}` | {' | '.join(told)} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or put them into the page."""
    parser = argparse.ArgumentParser(description="False alarms, and delays of true ones.")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    lines = tables(range(FIRST, FIRST + options.runs))
    if options.page:
        put_into(options.page, BEGIN, lines)
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
