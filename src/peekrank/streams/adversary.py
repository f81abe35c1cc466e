"""Pairs of adversaries with the same feedback distribution, from the certificate of a hopeless game."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator

from peekrank._util.text import excerpt
from peekrank._util.untrusted_files import read_whole
from peekrank._util.untrusted_json import read_json
from peekrank._util.validate import check_choice
from peekrank.streams.fixed import fixed_items
from peekrank.types import Floats, Grades, Rounds

Side = Literal["p", "q"]


@dataclass(frozen=True)
class Adversary:
    """Relevance drawn from one of the two distributions in the certificate of a hopeless ranking game.

    The feedback of every learner has the same distribution on both sides, but no ranking is good on both. So its
    expected regret on one of the two is at least gap x T / 2.

    Parameters
    ----------
    path
        Certificate, written by ``peekrank game ndcg --m 3 --k 1 --certificate FILE``.
    side
        Which of the two distributions to draw from: p or q.

    References
    ----------
    CT16 Theorem 5.2 and its proof; Piccolboni & Schindelhauer (2001).
    """

    path: Path
    side: Side = "p"
    name: ClassVar[str] = "adversary"
    d: ClassVar[int] = 0

    def __post_init__(self) -> None:
        check_choice("side", self.side, Side)

    @property
    def m(self) -> int:
        """Return the number of items."""
        return int(self._distributions()[0].shape[1])

    @property
    def max_grade(self) -> int:
        """Return the largest grade of any outcome."""
        return int(self._distributions()[0].max())

    def rounds(self, n: int, rng: Generator) -> Rounds:
        """Draw n rounds."""
        relevance, *sides = self._distributions()
        return fixed_items(relevance[rng.choice(len(relevance), size=n, p=sides["pq".index(self.side)])])

    def _distributions(self) -> tuple[Grades, Floats, Floats]:
        stat = Path(self.path).stat()
        return _read(Path(self.path).absolute(), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, *_version: int) -> tuple[Grades, Floats, Floats]:
    """Read the outcomes, one relevance vector per row, and their probabilities, once per version of the file."""
    try:
        proof = read_json(read_whole(path))
    except ValueError as error:
        raise ValueError(f"{path}: is not a certificate: {excerpt(str(error), 200)}") from None
    if not isinstance(proof, dict) or "adversaries" not in proof:
        raise ValueError(
            f"{path}: holds no adversaries; it must be the certificate of a hopeless game, "
            "written by `peekrank game ndcg --m 3 --k 1 --certificate FILE`"
        )
    try:
        relevance = np.array([[int(x) for x in name.split()] for name in proof["game"]["outcomes"]])
        sides = [np.array(proof["adversaries"][side], dtype=np.float64) for side in "pq"]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(
            f"{path}: outcomes or adversaries of the certificate cannot be read: {excerpt(repr(error), 200)}"
        ) from None
    if relevance.ndim != 2 or relevance.shape[1] < 2 or relevance.min() < 0 or relevance.max() > 255:
        raise ValueError(f"{path}: outcomes of the game are not relevance vectors of one length, such as '0 1 1'")
    for side, p in zip("pq", sides, strict=True):
        if p.shape != (len(relevance),) or not np.all(p >= 0) or abs(p.sum() - 1) > 1e-9:
            raise ValueError(f"{path}: '{side}' is not a distribution over the {len(relevance)} outcomes")
    return relevance.astype(np.uint8), sides[0] / sides[0].sum(), sides[1] / sides[1].sum()
