"""The permutahedron of position weights: its entropic leader, and rankings with given expected weights.

For weights w(1) >= ... >= w(m) >= 0, the points are the expected weights that items can have in random rankings:
all x with the sum of w whose h largest entries never sum to more than w(1) + ... + w(h). All here are kernels that
work in the memory of a `Space`, whose arrays run over the items in descending order of score.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.sorting import SortSpace, resort_descending, sort_descending, sort_space
from peekrank.types import Floats, Ints


class Space(NamedTuple):
    """What `leader` and `draw` find, and the memory they work in."""

    order: Ints  # items by descending score
    x: Floats  # expected weight of each item of the order
    seen: Floats  # probability of each item of the order to be drawn to one of the first k positions
    first: Ints  # where each block of the order begins, then m
    mass: Floats  # sum of the weights of each block
    total: Floats  # sum over each block of exp(rate * (score - score of its first item))
    place: Ints
    givers: Ints
    surplus: Floats
    exchanges: Ints  # how many exchanges of places `draw` tossed coins for
    giver: Ints  # for each of them: who gives its place, who takes it, and with what probability
    taker: Ints
    chance: Floats
    sorting: SortSpace


def space(m: int) -> Space:
    """Memory for m items."""
    return Space(
        order=np.arange(m),
        x=np.zeros(m),
        seen=np.zeros(m),
        first=np.zeros(m + 1, dtype=np.int64),
        mass=np.zeros(m),
        total=np.zeros(m),
        place=np.zeros(m, dtype=np.int64),
        givers=np.zeros(m, dtype=np.int64),
        surplus=np.zeros(m),
        exchanges=np.zeros(1, dtype=np.int64),
        giver=np.zeros(m, dtype=np.int64),
        taker=np.zeros(m, dtype=np.int64),
        chance=np.zeros(m),
        sorting=sort_space(m),
    )


@kernel
def leader(scores: Floats, rate: float, weights: Floats, s: Space) -> int:
    """Maximise ``<x, scores> - (1/rate) sum_i x_i ln x_i`` over the permutahedron; the number of blocks.

    Sort by score. Each block of the order shares the weights of its positions in proportion to exp(rate * score).
    The factor of proportion must not fall from one block to the next; where it does, pool the two. Exponents are
    differences of scores and never positive: nothing overflows, and what underflows is too small to be drawn.
    """
    if not resort_descending(scores, s.order):
        sort_descending(scores, s.order, s.sorting)
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

    Begin with the order itself, where the item at p has weight w(p). Items that have more than their x wait on a
    stack. An item that has less exchanges its place with the last one waiting, with the probability that settles
    one of the two; then with the next, until it is settled. An exchange mixes the probabilities of standing among
    the first k as it mixes the expected weights.
    """
    exchanges = 0
    for p in range(len(weights)):
        s.place[p] = p
        s.seen[p] = p < k
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
                chance = given / (surplus + need + max(s.x[giver] - s.x[p], 0.0))
                s.giver[exchanges], s.taker[exchanges], s.chance[exchanges] = giver, p, chance
                exchanges += 1
                mixed = chance * (s.seen[giver] - s.seen[p])
                s.seen[giver] -= mixed
                s.seen[p] += mixed
                coin = p  # settling an item takes its own coin
                if surplus <= need:
                    coin = giver
                    waiting -= 1
                else:
                    s.surplus[waiting - 1] = surplus - given
                if 1 - uniforms[coin] <= chance:  # with chances below the grid of the uniforms: never
                    s.place[giver], s.place[p] = s.place[p], s.place[giver]
                need -= given
    s.exchanges[0] = exchanges
    for p in range(len(weights)):
        ranking[s.place[p]] = s.order[p]


@kernel
def last_seen(k: int, first: int, last: int, s: Space, alone: Floats, joint: Floats) -> None:
    """Chances of who stands at place k, which is in a block of the order, and who of the block stands below.

    Of the items `first` to `last - 1` of the order, ``alone[a]`` becomes the probability that item a stands at
    place k, and ``joint[a, b]`` that it does while item b stands below. An exchange of two items mixes the numbers
    of the one with those of the other.
    """
    n = last - first
    for a in range(n):
        alone[a] = first + a == k - 1
        for b in range(n):
            joint[a, b] = first + a == k - 1 and first + b >= k
    for e in range(s.exchanges[0]):
        g, p, chance = s.giver[e] - first, s.taker[e] - first, s.chance[e]
        if not 0 <= p < n:
            continue  # in another block
        mixed = chance * (alone[g] - alone[p])
        alone[g] -= mixed
        alone[p] += mixed
        mixed = chance * (joint[g, p] - joint[p, g])
        joint[g, p] -= mixed
        joint[p, g] += mixed
        for a in range(n):
            if a not in (g, p):
                mixed = chance * (joint[g, a] - joint[p, a])
                joint[g, a] -= mixed
                joint[p, a] += mixed
                mixed = chance * (joint[a, g] - joint[a, p])
                joint[a, g] -= mixed
                joint[a, p] += mixed
