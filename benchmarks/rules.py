"""Measure what rules cost per list: the time of a call under a rule, as a share of the time without.

A call is `rank` of an `Agent`, or of a service with doubtsort, without HTTP. All have learned from 1,000
rounds without rules. The rows of a column run in turns, on lists of 50 items, in processor time; a figure is the
median over the turns of the ratio within a turn.

    python benchmarks/rules.py
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from clock import seconds
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from peekrank import DCG, Agent, AtMost, DoubtSort, Greedy, Mixed, Ridge, Rules
from peekrank.service.api.messages import FeedbackRequest, Item, ItemsRequest, RankRequest
from peekrank.service.config import Config, SlotConfig, StoreConfig
from peekrank.service.config.rules import RulesConfig
from peekrank.service.core.service import Service
from peekrank.types import Learner

NAMES = [f"item {n}" for n in range(50)]
LISTED: list[str | Item] = [*NAMES]
N, K, D, LEARNED, LISTS, TURNS = 50, 3, 8, 1000, 200, 25
LEARNERS: dict[str, Learner] = {
    "doubtsort": DoubtSort(DCG()),
    "greedy": Greedy(DCG()),
    "mixed": Mixed(DCG()),
    "ridge": Ridge(),
}
RULES = {
    "explore": Rules(explore=0.1),
    "explore_at": Rules(explore_at=1),
    "pins": Rules(pins={1: 7, 3: 11}),
    "new": Rules(new=AtMost(1, within=5), new_below=100),
    "group": Rules(group=AtMost(1, within=5)),
    "leash": Rules(leash=0.1),
    "all": Rules(0.1, 1, {2: 7}, group=AtMost(1, within=5), leash=0.1),
}
GROUPS = {"numbers": np.arange(N) % 20, "names": [f"brand {n % 20}" for n in range(N)]}


def lived(learner: Learner) -> Agent:
    """Return an agent after some rounds without rules."""
    rng, d = np.random.default_rng(0), D if learner.contextual else 0
    agent = Agent(learner, m=N, k=K, d=d)
    features = rng.normal(size=(N, D)) if d else None
    for _ in range(LEARNED):
        decision = agent.rank(features)
        agent.update(decision, (rng.random(K) < 0.8 - decision.ranking[:K] / N).astype(float))
    return agent


def ranking(saved: Agent, rules: Rules | None, groups: Any = None) -> Callable[[], None]:
    """Return an action that ranks lists under rules with a copy of an agent."""
    agent = Agent.load(saved.dump())
    agent.rules = rules
    call: dict[str, Any] = {"groups": groups} if rules and rules.group else {}
    if agent.shape.d:
        call["features"] = np.random.default_rng(1).normal(size=(N, D)).astype(np.float32)
    if agent.learner.kernels.set_scores is not None:
        call["scores"] = np.random.default_rng(2).normal(size=N)
    if agent.learner.kernels.set_items is not None:
        call["available"] = np.random.default_rng(3).permutation(N)

    def rank() -> None:
        for _ in range(LISTS):
            agent.rank(**call)

    return rank


def rows(learner: Learner) -> dict[str, Callable[[], None]]:
    """Return an action for each rule that the learner can obey."""
    saved = lived(learner)
    actions = {"": ranking(saved, None)}
    for name, rules in RULES.items():
        if rules.new and learner.contextual:
            continue
        for kind, groups in GROUPS.items() if rules.group else {"": None}.items():
            actions[f"{name}, {kind}" if kind else name] = ranking(saved, rules, groups)
    return actions


def service_rows(running: ExitStack) -> dict[str, Callable[[], None]]:
    """Return an action for each rule that ranks lists with a service."""
    actions: dict[str, Callable[[], None]] = {}
    for name, rules in {"": Rules(), **RULES}.items():
        limits = RulesConfig(
            rules.explore, rules.explore_at, tuple((p, NAMES[i]) for p, i in rules.pinned.items()),
            new=rules.new, new_below=rules.new_below, group=rules.group, leash=rules.leash,
        )  # fmt: skip
        actions[f"{name}, names" if rules.group else name] = service_ranking(running, limits)
    return actions


def service_ranking(running: ExitStack, rules: RulesConfig) -> Callable[[], None]:
    """Return an action that ranks lists with a service."""
    slot = SlotConfig("home", k=K, items=tuple(NAMES), seed=7, rules=rules)
    store = StoreConfig(f"{running.enter_context(TemporaryDirectory())}/log.db", synchronous="normal")
    service = running.enter_context(Service(Config((slot,), store=store)))
    service.put_items("home", ItemsRequest([Item(name, group=f"brand {n % 20}") for n, name in enumerate(NAMES)]))
    rng = np.random.default_rng(0)
    for _ in range(LEARNED):
        shown = service.rank("home", RankRequest(items=LISTED))
        good: list[float | None] = [float(rng.random() < 0.8 - NAMES.index(name) / N) for name in shown.top_k]
        service.feedback(shown.event_id, FeedbackRequest(good))

    def rank() -> None:
        for _ in range(LISTS):
            service.rank("home", RankRequest(items=LISTED))

    return rank


def costs(actions: dict[str, Callable[[], None]]) -> tuple[float, dict[str, float]]:
    """Return the best microseconds of a call without rules, and what each rule adds, as a share of it."""
    for action in actions.values():
        action()
    turns = [{name: seconds(action) for name, action in actions.items()} for _ in range(TURNS)]
    added = {name: median(turn[name] / turn[""] - 1 for turn in turns) for name in actions if name}
    return min(turn[""] for turn in turns) / LISTS * 1e6, added


def main() -> None:
    """Print the cost of each rule for each learner."""
    found = {name: costs(rows(learner)) for name, learner in LEARNERS.items()}
    with ExitStack() as running:
        found["service"] = costs(service_rows(running))
    table = Table("rule", *found, box=MARKDOWN)
    table.add_row("without rules", *(f"{call:.1f} µs" for call, _ in found.values()))
    for name in found["doubtsort"][1]:
        table.add_row(
            name, *(f"{100 * added[name]:+.0f} %" if name in added else "" for _, added in found.values())
        )
    Console().print(table)


if __name__ == "__main__":
    main()
