"""Doubtsort from its definition, with plain lists and loops over all pairs. Nothing here uses the package."""

from __future__ import annotations

from math import e, log, sqrt
from typing import NamedTuple


class Question(NamedTuple):
    """An order by mean, and the probability of exploring the item at each position."""

    order: list[int]
    probabilities: list[float]


def doubts(means: list[float], widths: list[float], weights: list[float]) -> list[float]:
    """Doubt of the item at each position, the means descending."""
    found = []
    for p, (b, u) in enumerate(zip(means, widths, strict=True)):
        near = [q for q in range(len(means)) if widths[q] <= u and abs(b - means[q]) <= u + widths[q]]
        positions = [*near, p]
        found.append(weights[min(positions)] - weights[max(positions)])
    return found


def value(order: list[int], means: list[float], weights: list[float]) -> float:
    return sum(weights[p] * means[i] for p, i in enumerate(order))


def price(means: list[float], weights: list[float], k: int, position: int) -> float:
    """What moving the item of a position (from 0) up to position k (from 1) costs, the means descending."""
    order = list(range(len(means)))
    moved = order.copy()
    moved.insert(k - 1, moved.pop(position))
    return value(order, means, weights) - value(moved, means, weights)


class Naive:
    """Doubtsort in its three forms; `weights` are those of the longest list."""

    def __init__(
        self, weights: list[float], k: int, largest: float, form: str = "usual", decay: float = 1
    ) -> None:
        self.weights, self.k, self.g, self.form, self.decay = weights, k, largest, form, decay
        self.answers: dict[int, list[float]] = {}
        self.rounds: dict[int, int] = {}

    def sums(self, item: int) -> tuple[float, float, float]:
        """Discounted number, sum and squared deviations of the answers about an item."""
        seen = self.answers.get(item, [])
        ages = [self.decay ** (len(seen) - 1 - a) for a in range(len(seen))]
        n, s = sum(ages), sum(a * x for a, x in zip(ages, seen, strict=True))
        return n, s, sum(a * (x - s / n) ** 2 for a, x in zip(ages, seen, strict=True))

    def estimate(self, item: int) -> tuple[float, float]:
        n, s, q = self.sums(item)
        g, N = self.g, self.rounds[item]
        if self.form == "safe":
            return (s / n, min(g, g * sqrt(log(2 * N**3) / (2 * n)))) if n else (g / 2, g)
        known = [self.sums(i) for i in self.answers]
        prior = (g / 2 + sum(total / count for count, total, _ in known)) / (1 + len(known))
        u = sqrt((q + g * g / 2) / (n + 2) * log(e + N) / (n + 1))
        if self.form == "cautious":
            u += 0.3 * g * log(e + N) / (n + 1)
        return (s + prior) / (n + 1), u

    def arrive(self, available: list[int]) -> None:
        for i in available:
            self.rounds[i] = self.rounds.get(i, 0) + 1

    def tied(self, n: int) -> tuple[int, int]:
        k = min(self.k, n)
        same = [p for p in range(n) if self.weights[p] == self.weights[k - 1]]
        return same[0], same[-1] + 1

    def question(self, available: list[int]) -> Question:
        n = len(available)
        k, weights = min(self.k, n), self.weights[:n]
        known = {i: self.estimate(i) for i in available}
        order = sorted(available, key=lambda i: (-known[i][0], available.index(i)))
        means, widths = [known[i][0] for i in order], [known[i][1] for i in order]
        doubt, probabilities = doubts(means, widths, weights), [0.0] * n
        for p in range(self.tied(n)[1], n):
            paid = self.g * (weights[k - 1] - weights[-1]) if self.form == "safe" else price(means, weights, k, p)
            worth = (1 if self.form == "safe" else 0.03) * doubt[p] * widths[p]
            probabilities[p] = 0 if worth == 0 else 1 if worth >= paid else worth / paid
        total = sum(probabilities)
        if total > 0.5:
            probabilities = [0.5 * probability / total for probability in probabilities]
        return Question(order, probabilities)

    def shown(self, available: list[int], asked: int | None) -> list[int]:
        """The ranking, if there is a question about the item of this position, or none."""
        n, (order, _) = len(available), self.question(available)
        k, (begin, end) = min(self.k, n), self.tied(len(available))
        if asked is None:
            group = sorted(order[begin:end], key=lambda i: -self.estimate(i)[1])
            return [*order[:begin], *group, *order[end:]]
        item = order[asked]
        group = sorted(order[begin : end - 1], key=lambda i: -self.estimate(i)[1])
        group.insert(k - 1 - begin, item)
        return [*order[:begin], *group, order[end - 1], *order[end:asked], *order[asked + 1 :]]

    def rank(self, available: list[int], uniform: float) -> list[int]:
        """Arrive, draw whom to ask about, and show."""
        self.arrive(available)
        for position, probability in enumerate(self.question(available).probabilities):
            uniform -= probability
            if uniform < 0:
                return self.shown(available, position)
        return self.shown(available, None)

    def learn(self, item: int, gain: float) -> None:
        self.answers.setdefault(item, []).append(gain)
