"""The permutahedron of position weights: its entropic leader, and rankings with given expected weights.

For weights w(1) >= ... >= w(m) >= 0, the points are the expected weights that items can have in random rankings:
all x with the sum of w whose h largest entries never sum to more than w(1) + ... + w(h). The kernels work in the
memory of a `Space`, whose arrays run over the items in descending order of score.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.sorting import merge_descending, resort_descending
from peekrank.types import Floats, Ints

# Scores enter through differences to the first item of a block, so that exponentials never overflow and a common
# shift of all costs changes nothing. Rounding moves expected weights by about 1e-16 of their sum W. Uniforms are
# multiples of 2^-53, so a less likely exchange is never made, and an item as unlikely as that is not seen until
# others have caught up. This adds at most g x_i, about 1e-16 g W, to the regret of a round.


class Space(NamedTuple):
    """Results and working memory of `leader` and `draw`."""

    order: Ints  # items by descending score
    x: Floats  # expected weight of each item of the order
    seen: Floats  # probability of each item of the order to be drawn to one of the first k positions
    first: Ints  # where each block of the order begins, then m
    mass: Floats  # sum of the weights of each block
    total: Floats  # sum over each block of exp(rate * (score - score of its first item))
    position: Ints
    givers: Ints
    surplus: Floats
    exchanges: Ints  # number of exchanges of positions that a draw may make
    giver: Ints  # for each: the giver of the position, the taker, the probability, and the index of its uniform
    taker: Ints
    probability: Floats
    uniform: Ints


def space(m: int) -> Space:
    """Allocate working memory for m items."""
    return Space(
        order=np.arange(m),
        x=np.zeros(m),
        seen=np.zeros(m),
        first=np.zeros(m + 1, dtype=np.int64),
        mass=np.zeros(m),
        total=np.zeros(m),
        position=np.zeros(m, dtype=np.int64),
        givers=np.zeros(m, dtype=np.int64),
        surplus=np.zeros(m),
        exchanges=np.zeros(1, dtype=np.int64),
        giver=np.zeros(m, dtype=np.int64),
        taker=np.zeros(m, dtype=np.int64),
        probability=np.zeros(m),
        uniform=np.zeros(m, dtype=np.int64),
    )


@kernel
def leader(scores: Floats, rate: float, weights: Floats, s: Space) -> int:
    """Maximise ``<x, scores> - (1/rate) sum_i x_i ln x_i`` over the permutahedron.

    Returns the number of blocks. Sort by score. Each block of the order shares the weights of its positions in
    proportion to exp(rate * score). The factor of proportion must not fall from one block to the next; where it
    does, pool the two. Exponents are differences of scores and never positive, so nothing overflows, and underflow
    affects only items too unlikely to be drawn.
    """
    if not resort_descending(scores, s.order):
        merge_descending(scores, s.order, s.position)
    m, blocks = len(scores), 0
    for p in range(m):
        start, mass, total = p, weights[p], 1.0
        while blocks > 0:
            before = blocks - 1
            factor = exp(rate * (scores[s.order[start]] - scores[s.order[s.first[before]]]))
            if mass * s.total[before] >= s.mass[before] * total * factor:
                break
            start, mass, total = s.first[before], s.mass[before] + mass, s.total[before] + total * factor
            blocks = before
        s.first[blocks], s.mass[blocks], s.total[blocks] = start, mass, total
        blocks += 1
    s.first[blocks] = m
    for b in range(blocks):
        best, share = scores[s.order[s.first[b]]], s.mass[b] / s.total[b]
        s.x[s.first[b]] = share
        for p in range(s.first[b] + 1, s.first[b + 1]):
            s.x[p] = share * exp(rate * (scores[s.order[p]] - best))
    return blocks


@kernel
def draw(weights: Floats, k: int, blocks: int, uniforms: Floats, ranking: Ints, s: Space) -> None:
    """Draw a ranking in which every item has the expected weight that `leader` found, from m uniforms.

    `seen` becomes the probability of each item of the order to stand among the first k.
    """
    find_exchanges(weights, blocks, s)
    for p in range(len(weights)):
        s.seen[p] = p < k
    expected_values(s.seen, s)
    exchange(uniforms, ranking, s)


@kernel
def find_exchanges(weights: Floats, blocks: int, s: Space) -> None:
    """List the exchanges of positions that turn the order into a ranking with the expected weights of `leader`.

    Begin with the order itself, where the item at p has weight w(p). Items that have more than their x wait on a
    stack. An item that has less exchanges its position with the last one waiting, with the probability that
    settles one of the two; then with the next, until it is settled.
    """
    count = 0
    for b in range(blocks):
        waiting = 0
        for p in range(s.first[b], s.first[b + 1]):
            need = s.x[p] - weights[p]
            if need < 0:
                s.givers[waiting], s.surplus[waiting] = p, -need
                waiting += 1
            while need > 0 and waiting > 0:
                giver, surplus = s.givers[waiting - 1], s.surplus[waiting - 1]
                given = min(surplus, need)
                s.giver[count], s.taker[count] = giver, p
                s.probability[count] = given / (surplus + need + max(s.x[giver] - s.x[p], 0.0))
                s.uniform[count] = p  # settling an item uses its own uniform
                if surplus <= need:
                    s.uniform[count] = giver
                    waiting -= 1
                else:
                    s.surplus[waiting - 1] = surplus - given
                need -= given
                count += 1
    s.exchanges[0] = count


@kernel
def expected_values(values: Floats, s: Space) -> None:
    """Replace the values of positions by the expected values of the items of the order in a draw.

    An exchange mixes the expected values of two items as it mixes their expected weights.
    """
    for e in range(s.exchanges[0]):
        mixed = s.probability[e] * (values[s.giver[e]] - values[s.taker[e]])
        values[s.giver[e]] -= mixed
        values[s.taker[e]] += mixed


@kernel
def exchange(uniforms: Floats, ranking: Ints, s: Space) -> None:
    """Draw a ranking: begin with the order, and make each exchange with its probability, from m uniforms."""
    for p in range(len(ranking)):
        s.position[p] = p
    for e in range(s.exchanges[0]):
        if 1 - uniforms[s.uniform[e]] <= s.probability[e]:  # never, if that is below the grid of the uniforms
            giver, taker = s.giver[e], s.taker[e]
            s.position[giver], s.position[taker] = s.position[taker], s.position[giver]
    for p in range(len(ranking)):
        ranking[s.position[p]] = s.order[p]


class Pairs(NamedTuple):
    """Effect of exploring one item on the propensity of another, and the memory to compute it."""

    at: Floats  # of an item drawn to each position: the probability to stand at position k,
    off: Floats  # and, if another does, not to be seen
    expected: Floats
    alone: Floats
    joint: Floats


def pairs(m: int, limit: int = 128) -> Pairs:
    """Allocate working memory for m items, in pools of up to `limit`."""
    together = min(m, limit)
    return Pairs(np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(together), np.zeros((together, together)))


@kernel
def fill_pairs(n: int, k: int, begin: int, end: int, pair: Pairs) -> None:
    """Fill in the effect of positions in lists of n items that shuffle positions `begin` to `end`, k included."""
    for p in range(n):
        tied = begin <= p < end
        pair.at[p] = 1 / (end - begin) if tied else 0.0
        pair.off[p] = (end - k) / max(1, end - begin - 1) if tied else (1.0 if p >= end else 0.0)


@kernel
def propensities_with_exploration(
    explore_probs: Floats, seen: Floats, blocks: int, s: Space, pair: Pairs, out: Floats
) -> None:
    """Fill `out` with the propensities if item j is moved up to position k with probability ``explore_probs[j]``.

    `seen`, in the order, holds the propensities without exploration. Exploration shows its item and, if that item
    would not be seen otherwise, hides the one at position k. The positions of two items of a pool are dependent,
    so all pairs are followed through the exchanges. The result is NaN if a pool around position k is too large.
    """
    m, all_off = len(out), 0.0
    for p in range(m):
        pair.expected[p] = pair.off[p]
    expected_values(pair.expected, s)
    for p in range(m):
        item = s.order[p]
        out[item] = seen[p] + (1 - seen[p]) * explore_probs[item]
        all_off += explore_probs[item] * pair.expected[p]
    if all_off == 0:
        return
    for b in range(blocks):
        first, n = s.first[b], s.first[b + 1] - s.first[b]
        hidden = False
        for p in range(first, first + n):
            hidden = hidden or pair.at[p] > 0
        if not hidden:
            continue
        if n > len(pair.alone):
            out[:] = np.nan
            return
        _follow_pairs(first, n, s, pair)
        elsewhere = all_off
        for p in range(first, first + n):
            elsewhere -= explore_probs[s.order[p]] * pair.expected[p]
        for a in range(n):
            lost = pair.alone[a] * elsewhere
            for c in range(n):
                lost += pair.joint[a, c] * explore_probs[s.order[first + c]]
            item = s.order[first + a]
            out[item] = min(1.0, max(0.0, out[item] - lost))


@kernel
def _follow_pairs(first: int, n: int, s: Space, pair: Pairs) -> None:
    """Compute the joint probability that one of n items is at position k and another one is not seen.

    An exchange of two items mixes their probabilities.
    """
    alone, joint = pair.alone, pair.joint
    for a in range(n):
        alone[a] = pair.at[first + a]
        for b in range(n):
            joint[a, b] = pair.at[first + a] * pair.off[first + b] if a != b else 0.0
    for e in range(s.exchanges[0]):
        g, p, probability = s.giver[e] - first, s.taker[e] - first, s.probability[e]
        if not 0 <= p < n:
            continue  # in another pool
        mixed = probability * (alone[g] - alone[p])
        alone[g] -= mixed
        alone[p] += mixed
        mixed = probability * (joint[g, p] - joint[p, g])
        joint[g, p] -= mixed
        joint[p, g] += mixed
        for a in range(n):
            if a not in (g, p):
                mixed = probability * (joint[g, a] - joint[p, a])
                joint[g, a] -= mixed
                joint[p, a] += mixed
                mixed = probability * (joint[a, g] - joint[a, p])
                joint[a, g] -= mixed
                joint[a, p] += mixed
