"""marginftrl step by step in plain Python, from the formulas of its page, for lists of any items."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

import numpy as np

from helpers.permutahedron import closed_form
from peekrank import MarginFTRL, Shape
from peekrank.kernels.permutahedron import leader, space
from peekrank.learners._shared import position_weights
from peekrank.types import Floats, Ints, LinearMeasure


def led(scores: Floats, rate: float, weights: Floats) -> Floats:
    """The leader of the package, item by item."""
    s = space(len(scores))
    leader(scores, rate, weights, s)
    x = np.empty(len(scores))
    x[s.order] = s.x
    return x


class Twin:
    """The algorithm of the page; what is kept of items is by their numbers, what of a plan by rows of its list."""

    def __init__(self, of: LinearMeasure, m: int, k: int, discount: float = 1.0) -> None:
        self.of, self.most_seen, self.discount = of, k, discount
        self.L, self.S, self.Q, self.n, self.own = (np.zeros(m) for _ in range(5))
        self.b, self.moved = np.full(m, 0.5), np.zeros(m)
        self.beta, self.t, self.N, self.length, self.safe = 1.0, 0.0, 0, 0, False
        self.allowed, self.pace, self.price = 0.0, 0.0, 0.0
        self.items: list[int] = []

    def look_at(self, items: Sequence[int]) -> None:
        """Weights and constants of a list."""
        self.m, self.k = len(items), min(self.most_seen, len(items))
        self.w = position_weights(self.of, self.m)
        self.c = MarginFTRL(self.of).scale(Shape(self.m, 0, self.k))
        self.v = self.w + self.c.shift

    def leader(self, costs: Floats) -> Floats:
        """In decimals; for many items that takes too long."""
        return (closed_form if self.m < 10 else led)(-costs, 1 / self.beta, self.v)

    def cost(self, x: Floats, costs: Floats) -> float:
        return float(x @ costs + self.beta * x @ np.log(x))

    def settle(self) -> None:
        """Step 1: what the plan in force has cost."""
        here = self.items
        for i in here:
            self.L[i] += self.N * self.b[i]
            self.own[i] += self.N
        if here and (self.N or self.moved.any()):
            known = self.own[here] > 0
            now = np.where(known, self.L[here] * self.t / np.where(known, self.own[here], 1), self.t / 2)
            y, moved = self.leader(now), np.abs(self.moved[here])
            lost = max(self.cost(self.x, now) - self.cost(y, now), 0.0)
            if moved.any():
                lost *= moved.sum() / (self.rho * moved).sum()
            if self.c.h > 0:
                self.beta += 0.5 / self.c.h * (self.N * self.price + lost)
            self.allowed += self.N * self.pace
        part = self.discount**self.N
        for i in here:
            for array in (self.L, self.S, self.Q, self.n, self.own):
                array[i] *= part
        if part < 1:
            self.t *= part
            self.beta = max(self.beta * part, self.c.start if self.safe else 1.0)
            self.allowed *= part**self.c.power
        self.moved[:], self.N = 0, 0

    def plan(self, items: list[int]) -> None:
        self.settle()
        self.look_at(items)
        # 2
        limit = self.c.start**self.c.power + self.allowed
        if self.c.h > 0 and not self.safe and ((1 + self.c.jump) * self.beta + self.c.hop) ** self.c.power > limit:
            self.safe, self.beta = True, max(self.beta, self.c.start)
        # 3
        self.items = items
        self.b[items] = 0.5 if self.safe else (self.S[items] + 0.5) / (self.n[items] + 1)
        self.rho = (self.t + 1) / (self.own[items] + 1)
        self.costs = (self.L[items] + self.b[items]) * self.rho
        self.x = self.leader(self.costs)
        self.order = np.argsort(self.costs, kind="stable")
        self.exchange()
        # 4
        tied = self.w == self.w[self.k - 1]
        above = np.count_nonzero(self.w > self.w[self.k - 1])
        seen_at = np.where(tied, (self.k - above) / tied.sum(), self.w > self.w[self.k - 1])
        s, e = self.positions @ seen_at, self.positions @ np.maximum(self.w[self.k - 1] - self.w, 0)
        # 5, 6
        target = np.array([self.target(r, e[r]) for r in range(self.m)])
        self.ask(target, s, e)

    def ask(self, target: Floats, s: Floats, e: Floats) -> None:
        """Step 7: propensities of questions, their price, and for how many rounds."""
        c = self.c
        most = np.maximum(target - s / 2, 0).sum()
        if most > 0.5:
            self.gamma = min(most, 0.9) / 2 * (1 / self.m + np.maximum(target - s / 2, 0) / most)
        else:
            self.gamma = np.maximum(target - (1 - most) * s, 0)
        self.P = self.gamma + (1 - self.gamma.sum()) * s
        self.price = float(self.gamma @ e)
        if c.E > 0:
            spread = float((self.x / c.V + e / c.E) @ np.sqrt(self.rho)) / 2
        else:
            spread = float(self.x @ self.rho) / c.V
        self.pace = 1.5 * c.pace * spread
        self.length, self.reach = 1 if self.safe else min(max(self.m // 32, 1), 32), np.inf
        if not self.safe and most <= 0.5:
            self.reach = self.beta / 32
            self.length = max(1, int(min(1 + self.beta / 16, 32, 0.5 / max(self.gamma.sum(), 1e-9))))

    def exchange(self) -> None:
        """Compute which positions are exchanged, with what probability and coin, and the propensities."""
        x, self.changes, self.positions = self.x[self.order], [], np.zeros((self.m, self.m))
        have = self.v.copy()
        stack: list[int] = []
        for p in range(self.m):
            if have[p] > x[p]:
                stack.append(p)
            while x[p] > have[p] + 1e-15 and stack:
                g = stack[-1]
                given = min(have[g] - x[g], x[p] - have[p])
                settles_giver = have[g] - x[g] <= x[p] - have[p]
                self.changes.append((g, p, given / (have[g] - have[p]), g if settles_giver else p))
                have[g] -= given
                have[p] += given
                if settles_giver:
                    stack.pop()
        rows = np.eye(self.m)
        for g, p, propensity, _ in self.changes:
            mixed = propensity * (rows[g] - rows[p])
            rows[g] -= mixed
            rows[p] += mixed
        self.positions[self.order] = rows

    def margins(self, r: int) -> tuple[float, float]:
        """The distance of the item's level to those of others above and below that it cannot pass."""
        order = self.order.tolist()
        ends = np.flatnonzero(np.abs(np.cumsum(self.x[order]) - np.cumsum(self.v)) < 1e-9) + 1
        pool_of = {j: int(np.searchsorted(ends, p, side="right")) for p, j in enumerate(order)}
        alone = {j: sum(other == pool for other in pool_of.values()) == 1 for j, pool in pool_of.items()}
        if not alone[r]:
            return 0.0, 0.0
        level = self.costs + self.beta * np.log(self.x)
        position = order.index(r)

        def limit(others: list[int]) -> float:
            for j in others:
                if not alone[j] or self.v[order.index(j)] != self.v[position]:
                    return float(abs(level[j] - level[r]))
            return np.inf

        return limit(order[:position][::-1]), limit(order[position + 1 :])

    def target(self, r: int, e: float) -> float:
        i, rho = self.items[r], self.rho[r]
        if self.safe:
            return min(
                1.0, sqrt(rho) * (sqrt(self.c.V / (8 * self.beta * self.c.E)) if self.c.E else 0.5 / self.m)
            )
        b, var = self.b[i], (self.Q[i] + 0.5) / (self.n[i] + 2)
        push = min(0.5 * sqrt(self.v[0] / (self.k * self.x[r])), 2)
        adv = rho * max(b, 1 - b) / (push * self.beta)
        if e > 0:
            adv = max(adv, sqrt(rho * var * self.x[r] / (2 * self.beta * e)))
        up, down = self.margins(r)
        part, t = (1 if self.k == 1 else 0.5), self.t + 1
        room_up, room_down = part * up - self.beta / 16, part * down - self.beta / 16
        enough = np.inf
        if room_up > 0 and room_down > 0:
            enough = rho * max(b / room_up, (1 - b) / room_down)
            M = min(up, down)
            if np.isfinite(M):
                position = self.order.tolist().index(r)
                steps = [abs(self.w[position] - w) for w in (self.w[self.w > self.w[position]][-1:])]
                steps += [abs(self.w[position] - w) for w in (self.w[self.w < self.w[position]][:1])]
                logarithm = 0.2 + log(1 + max(steps) * min(M / t, 1) ** 3 * t / rho / (max(e, 1e-9) * var))
                enough = max(enough, 0.5 * logarithm * rho * (var * t / M**2 + 1 / (2 * M)))
        return float(min(max(min(adv, enough), 2**-40), 1))

    def rank(self, uniforms: Floats, items: Sequence[int]) -> tuple[Ints, Floats]:
        """Rows of a list in the order shown, and the token."""
        if self.length <= self.N or list(items) != self.items:
            self.plan(list(items))
        position = list(range(self.m))
        for g, p, propensity, coin in self.changes:
            if 1 - uniforms[1 + coin] <= propensity:
                position[g], position[p] = position[p], position[g]
        ranking = [0] * self.m
        for p, r in enumerate(self.order.tolist()):
            ranking[position[p]] = r
        tied = np.flatnonzero(self.w == self.w[self.k - 1])
        if len(tied) > 1:
            for p in range(tied[0], self.k):
                j = p + int(uniforms[1 + self.m + p] * (tied[-1] + 1 - p))
                ranking[p], ranking[j] = ranking[j], ranking[p]
        token = np.zeros(1 + self.most_seen)
        if uniforms[0] >= self.gamma.sum():
            token[1 : 1 + self.k] = self.P[ranking[: self.k]]
        else:
            row = int(np.searchsorted(np.cumsum(self.gamma), uniforms[0], side="right"))
            if (checkpoints := ranking.index(row)) >= self.k:
                ranking.remove(row)
                ranking.insert(self.k - 1, row)
                checkpoints, token[0] = self.k - 1, 1
            token[1 + checkpoints] = self.P[row]
        return np.array(ranking), token

    def update(self, items: Sequence[int], ranking: Ints, token: Floats, feedback: Floats) -> None:
        """Answers about the first of a ranking of the rows of a list."""
        if np.isnan(feedback).all():
            return
        for row, P, c in zip(ranking, token[1:], feedback, strict=False):
            i = items[row]
            if not np.isnan(c):
                if P > 0:
                    self.L[i] += (c - self.b[i]) / P
                    self.moved[i] += (c - self.b[i]) / P
                    if i in self.items and abs(self.moved[i]) > self.reach:
                        self.length = 0
                self.Q[i] += (c - self.b[i]) ** 2
                self.S[i] += c
                self.n[i] += 1
        if list(items) == self.items:
            self.N += 1
        else:
            lost = self.price
            for row, P, c in zip(ranking, token[1:], feedback, strict=False):
                i = items[row]
                if P > 0 and not np.isnan(c) and i not in self.items:
                    moved, own = (c - self.b[i]) / P, self.beta * (self.own[i] + 1) / (self.t + 1)
                    curved = own * self.c.V / self.m * (np.exp(min(-moved / own, 50)) - 1 + moved / own)
                    lost += min(curved, self.v[0] * abs(moved))
            if self.c.h > 0:
                self.beta += 0.5 / self.c.h * lost
                self.allowed += self.pace
            for i in items:
                self.L[i] += self.b[i]
                self.own[i] += 1
        self.t += 1
