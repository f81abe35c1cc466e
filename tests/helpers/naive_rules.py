"""Rules in plain Python: what a list becomes, and the law of play of an agent over its first uniform."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np

from helpers import enumeration
from peekrank import Agent, Rules
from peekrank.engine.serialization import arrays_of
from peekrank.types import Decision, Floats, LinearMeasure

List = tuple[int, ...]


def obey(wanted: List, rules: Rules, groups: dict[int, int], answers: dict[int, int]) -> tuple[List, int]:
    """The list after pins and limits, and the number of positions at which a limit could not be met."""
    n = len(wanted)
    pins = {p - 1: item for p, item in rules.pinned.items() if item in wanted and p <= n}
    new = {item for item in wanted if answers[item] < rules.new_below}

    def fits(item: int, p: int, shown: dict[int, int]) -> bool:
        if rules.group and p < rules.group.within:
            ours = [groups[other] for q, other in shown.items() if q < rules.group.within]
            if ours.count(groups[item]) >= rules.group.n:
                return False
        if rules.new and item in new and p < rules.new.within:
            return sum(other in new for q, other in shown.items() if q < rules.new.within) < rules.new.n
        return True

    shown, relaxed = dict(pins), 0
    for p in range(n):
        if p in pins:
            continue
        left = [item for item in wanted if item not in shown.values()]
        fitting = [item for item in left if fits(item, p, shown)]
        relaxed += not fitting
        shown[p] = (fitting or left)[0]
    return tuple(shown[p] for p in range(n)), relaxed


def could_lose(shown: List, own: List, measure: LinearMeasure) -> float:
    """The largest loss against the app's own order over all 0/1 relevances, as a share of the best value."""
    n, sign = len(own), 1 if measure.higher_is_better else -1
    weights = sign * measure.discount(n)
    weights = weights - min(0.0, weights[-1])
    worst = 0.0
    for relevance in product((0, 1), repeat=n):
        gains = dict(zip(sorted(own), relevance, strict=True))
        value = [sum(w * gains[item] for w, item in zip(weights, order, strict=True)) for order in (own, shown)]
        worst = max(worst, value[0] - value[1])
    return worst / float(weights.sum())


def law(agent: Agent, **call: Any) -> tuple[dict[List, float], list[Decision]]:
    """The probability of each list that the next call may show, by trying all values of the first uniform."""
    parts = dict(arrays_of(agent._state)) | {
        f"counts.{name}": one for name, one in agent._counts._asdict().items()
    }
    kept = {name: array.copy() for name, array in parts.items()}
    decisions: dict[List, Decision] = {}
    n = len(call["available"]) if call.get("available") is not None else None
    size = agent.n_uniforms(n if agent.learner.kernels.set_items else None)

    def shown(u: Floats) -> List:
        for name, array in kept.items():
            parts[name][...] = array
        uniforms = np.full(size, 0.5)
        uniforms[0] = u[0]
        decision = agent.rank(**call, uniforms=uniforms)
        found = tuple(decision.ranking.tolist())
        decisions[found] = decision
        return found

    contexts = enumeration._CONTEXTS
    enumeration._CONTEXTS = 1  # there are no other uniforms
    try:
        edges = enumeration.cuts(shown, 1, 700)[0]
    finally:
        enumeration._CONTEXTS = contexts
    found: dict[List, float] = {}
    for low, high in pairwise(edges.tolist()):
        ranking = shown(np.array([(low + high) / 2]))
        found[ranking] = found.get(ranking, 0.0) + high - low
    for name, array in kept.items():
        parts[name][...] = array
    return found, list(decisions.values())
