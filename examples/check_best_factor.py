"""Check a certificate of `peekrank game --best-factor` with NumPy alone: python check_best_factor.py FILE."""
# ruff: noqa: B905, PT018, S101, T201

import json
import sys
from fractions import Fraction
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any

import numpy as np


def check(proof: dict[str, Any]) -> tuple[float, float]:
    """Return the bounds on the best factor that a certificate proves. Raises AssertionError if it proves none."""
    m, k, grades, tiny = proof["m"], proof["k"], proof["grades"], 1e-8
    gain, relevance = np.array(proof["gain"]), np.array(proof["outcomes"])
    rankings = list(permutations(range(m)))
    assert [tuple(s) for s in proof["rankings"]] == rankings
    assert [tuple(r) for r in proof["outcomes"]] == list(product(range(grades), repeat=m))[1:]
    assert gain.min() >= 0
    for s, values in zip(rankings, gain):  # names of items do not matter: the first ranking has all values
        same = [proof["outcomes"].index(r) for r in relevance[:, s].tolist()]
        assert np.allclose(values, gain[0][same], atol=tiny)
    flags = np.array(
        [
            np.all(relevance[:, items] == grade, axis=1)
            for size in range(1, k + 1)
            for items in combinations(range(m), size)
            for grade in product(range(1, grades), repeat=size)
        ],
        dtype=float,
    ).T
    means = np.zeros((m, flags.shape[1]))
    means[:, : m * (grades - 1)] = np.kron(np.eye(m), np.arange(1, grades))
    order, cuts = means[:-1] - means[1:], np.array(proof["cuts"]).reshape(-1, flags.shape[1])

    paths = {tuple(cell["path"][:n]) for cell in proof["cells"] for n in range(len(cell["path"]) + 1)}
    assert () in paths and all((*path[:-1], -path[-1]) in paths for path in paths if path)  # cells cover
    lower = 1.0
    for cell in proof["cells"]:
        path, mixed, multipliers = np.array(cell["path"], dtype=int), np.array(cell["mixed"]), cell["multipliers"]
        rows = np.vstack([order, np.sign(path)[:, None] * cuts[abs(path) - 1]])  # rows @ flag >= 0 in the cell
        assert mixed.min() >= 0 and abs(mixed.sum() - 1) < tiny
        excess = np.tile(mixed @ gain, (len(gain), 1))
        for s, row, value in multipliers:
            assert value >= 0
            excess[s] -= value * (flags @ rows[row])
        assert excess[gain == 0].min(initial=0) > -tiny
        lower = min(lower, (excess[gain > 0] / gain[gain > 0]).min())  # excess >= lower x gain

    weights = np.array([[float(Fraction(w)) for w in row] for row in proof["adversary"]["weights"]])
    assert weights.min() >= 0 and weights.max() == 1
    seen = weights @ flags
    mass = seen.sum(axis=1, keepdims=True)
    assert np.allclose(seen * mass[0], seen[0] * mass, atol=tiny)  # one flag, whatever the ranking
    upper = (gain @ weights.sum(axis=0)).max() / (gain[proof["adversary"]["rankings"]] * weights).sum()
    assert proof["exact_upper"] is None or abs(upper - Fraction(proof["exact_upper"])) < tiny
    assert lower > proof["lower"] - tiny and upper < proof["upper"] + tiny
    return float(lower), float(upper)


if __name__ == "__main__":
    print(*check(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
