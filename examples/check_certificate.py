"""Check a certificate of `peekrank game --certificate FILE` with NumPy alone: python check_certificate.py FILE."""
# ruff: noqa: B905, PT018, S101, T201

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def check(proof: dict[str, Any]) -> str:
    """Return the rate that a certificate proves. Raises AssertionError if it proves none."""
    game, rate, tiny = proof["game"], proof["rate"], 1e-9
    loss, seen = np.array(game["loss"]), np.array(game["feedback"])
    loss = loss - loss.min(axis=0)  # only differences matter, and not their scale
    scale = loss.max() or 1
    loss, everyone = loss / scale, list(range(len(loss)))
    pairs, observers, blind = (proof.get(name, []) for name in ("neighbours", "observers", "unobservable_pair"))

    def near(x: Any, y: Any) -> bool:
        return bool(abs(np.subtract(x, y)).max() < tiny)

    def unseen(move: Any, actions: list[int]) -> bool:
        return all(near(np.bincount(seen[a], move), 0) for a in actions)

    for a, r in ((s["actions"], s["outcomes"]) for s in proof["symmetries"]):
        assert sorted(a) == everyone and sorted(r) == list(range(loss.shape[1]))
        assert near(loss[a][:, r], loss)
        for x, y in zip(seen.tolist(), seen[a][:, r].tolist()):  # other names
            assert len(set(x)) == len(set(y)) == len(set(zip(x, y)))
    for pair in pairs + [blind] * bool(blind):
        i, j, point = pair["i"], pair["j"], pair["point"]
        cost, apart = loss @ point, loss[j] - loss[i]
        best = np.flatnonzero(cost < cost.min() + tiny)
        share = (loss[best] - loss[i]) @ apart / (apart @ apart)  # 0 for i, 1 for j
        assert near(loss[best] - loss[i], np.outer(share, apart))
        assert near(share, share.clip(0, 1)) and {i, j} <= set(best)
        assert best.tolist() == pair["neighborhood"]
        assert min(point) > 0 and near(sum(point), 1)
    allowed = [pair["neighborhood"] for pair in pairs] or [everyone] * len(loss)
    for o, actions in zip(observers, allowed):
        shown = zip(o["action"], o["symbol"], o["value"])
        total = sum(value * (seen[a] == s) for a, s, value in shown)
        assert near(total / scale, loss[o["i"]] - loss[o["j"]])
        assert set(o["action"]) <= set(actions)
    found = [(o["i"], o["j"]) for o in observers]
    pareto = [a for a in everyone if proof["kinds"][a] == "pareto"]
    if blind:
        move = np.array(blind["direction"], dtype=float)
        move /= abs(move).max()
        assert unseen(move, blind["actions"])
        assert abs((loss[blind["i"]] - loss[blind["j"]]) @ move) > tiny
    if rate == "0":
        assert any((loss[a] <= loss + tiny).all() for a in everyone)
    elif rate == "sqrt(T)":
        assert pairs and found == [(pair["i"], pair["j"]) for pair in pairs]
        cell = np.unique(loss, axis=0, return_inverse=True)[1].tolist()
        beside = {i: {i} for pair in found for i in pair}
        for i, j in found:
            beside[i].add(j)
            beside[j].add(i)
        settled = {i: {cell[a] for a in beside[i]} for i in beside}
        for i, j, of, multiples in map(dict.values, proof["no_neighbours"]):
            more = loss[[j, *of]] - loss[i]
            assert set(of) <= beside[i] and min(multiples, default=0) >= 0
            assert (more[0] > np.array(multiples) @ more[1:] - tiny).all()
            settled[i].add(cell[j])
        done = {i for i in settled if len(settled[i]) == max(cell) + 1}
        for _ in everyone:  # symmetries carry what holds for one action to others
            done |= {s["actions"][i] for s in proof["symmetries"] for i in done}
        assert {cell[i] for i in beside} <= {cell[i] for i in done}
    elif rate == "T^(2/3)":
        assert not pairs and found == [(a, pareto[0]) for a in pareto[1:]]
        assert blind["actions"] == blind["neighborhood"]
    else:
        names = ("p", "q", "good_against_p", "good_against_q", "gap")
        p, q, i, j, gap = (proof["adversaries"][name] for name in names)
        assert near([sum(p), sum(q)], 1) and min(p + q) >= 0
        both = (loss - loss[i]) @ p + (loss - loss[j]) @ q
        assert unseen(np.subtract(p, q), everyone)
        assert both.min() > gap / scale - tiny > 0
        assert rate == "T" and blind["actions"] == everyone
    return str(rate)


if __name__ == "__main__":
    print(check(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
