"""Judged documents in the form of LETOR."""

from __future__ import annotations

import numpy as np


def letor_text(queries: int, seed: int, d: int = 4, base: int = 1) -> str:
    """Queries with 1 to 7 documents each, of grades 0 to 2 that the first feature tells."""
    rng, lines = np.random.default_rng(seed), []
    for query in range(queries):
        for x in rng.random((int(rng.integers(1, 8)), d)):
            values = " ".join(f"{base + j}:{v:.3f}" for j, v in enumerate(x))
            lines.append(f"{int(3 * x[0])} qid:{query + 5} {values} # a comment\n")
    return "".join(lines)
