"""Learning from judged documents: learners that see k answers per round pass over a data set, and become models.

A run is a random order of queries, pass after pass, the same for all learners, which share one way through memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from peekrank._util.validate import check_int
from peekrank.data.dataset import Dataset
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.measures import measure as measure_named
from peekrank.registry import LEARNERS
from peekrank.spec import parse
from peekrank.surrogates import Squared, Surrogate
from peekrank.surrogates import surrogate as surrogate_named
from peekrank.training.model import Preprocessor, preparation
from peekrank.types import Ints, Learner, Measure

DEFAULT_LEARNER = "ridge"  # of `peekrank train`, where none is named


@dataclass(frozen=True)
class AsPrinted:
    """The paper's algorithm with the paper's parameters, as a specification: ``from_paper:surrogate=kl``."""

    horizon: int
    surrogate: Surrogate = field(default=Squared(), metadata={"read": surrogate_named})
    name: ClassVar[str] = "from_paper"


def _fitting() -> dict[str, type[Any]]:
    """The learners for lists with features."""
    known = {name: cls for name, cls in LEARNERS.items() if cls.variable_length}
    return {**known, AsPrinted.name: AsPrinted}


def make_learner(text: str, rounds: int) -> Learner:
    """The learner that a specification names, for lists with features.

    >>> make_learner("from_paper:surrogate=kl", 1000).gamma.__round__(3)
    0.1
    """
    name, known = text.partition(":")[0], _fitting()
    if name in LEARNERS and name not in known:
        raise ValueError(
            f"learner '{text}': {name} learns about a fixed set of items, not from features; "
            f"use {' or '.join(known)}"
        )
    made: Any = parse("learner", known, text, horizon=rounds)
    learner: Learner = made
    return RTopKF.from_paper(made.surrogate, made.horizon) if isinstance(made, AsPrinted) else learner


@dataclass(frozen=True)
class Training:
    """Which learners learn from a data set, how long and how often.

    Parameters
    ----------
    learners
        Specifications of ridge, rtopkf, from_paper (the paper's presets), or uniform.
    k
        Number of documents, from the top, whose relevance is revealed; of a shorter list all.
    rounds
        Number of rounds T, filled in as horizon where a learner needs one.
    measure
        Name of the measure of quality.
    runs
        Number of runs, each with an order of queries of its own.
    seed
        Randomness of everything.
    regret
        Whether to compute regret in the surrogate, for convex ones: every run is repeated step by step.

    >>> Training(("rtopkf", "from_paper:surrogate=ranksvm"), k=1, rounds=1000)
    Traceback (most recent call last):
    ValueError: k = 1: from_paper:surrogate=ranksvm needs k = 2 at least
    """

    learners: tuple[str, ...]
    k: int = 1
    rounds: int = 100_000
    measure: str = "ndcg@10"
    runs: int = 5
    seed: int = 0
    regret: bool = False

    def __post_init__(self) -> None:
        for name, low in (("k", 1), ("rounds", 1), ("runs", 1), ("seed", 0)):
            check_int(name, getattr(self, name), low)
        object.__setattr__(self, "measure", str(measure_named(self.measure)))
        object.__setattr__(self, "learners", tuple(self.learners))
        if not self.learners:
            raise ValueError("no learner given: name at least one, for instance ridge")
        if len(set(self.learners)) < len(self.learners):
            raise ValueError(f"a learner is given twice: {' '.join(self.learners)}")
        for text, made in zip(self.learners, self.make_learners(), strict=True):
            if self.k < made.min_k:
                raise ValueError(f"k = {self.k}: {text} needs k = {made.min_k} at least")

    def make_learners(self) -> list[Learner]:
        """The learners."""
        return [make_learner(text, self.rounds) for text in self.learners]

    def make_measure(self) -> Measure:
        """The measure."""
        return measure_named(self.measure)

    def sequence(self, run: int, queries: int) -> Ints:
        """The query of each round of a run: all in random order, then all in another, and so on."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(run, 0)))
        passes = [rng.permutation(queries) for _ in range(-(-self.rounds // queries))]
        return np.concatenate(passes)[: self.rounds]

    def learner_seed(self, run: int) -> np.random.SeedSequence:
        """Randomness of the learners in a run."""
        return np.random.SeedSequence(self.seed, spawn_key=(run, 1))

    def model_names(self) -> list[str]:
        """What the files of the learners' models begin with: specifications without signs, numbered if needed."""
        plain = [re.sub(r"[^A-Za-z0-9.]+", "-", text) for text in self.learners]
        return [name if plain.count(name) == 1 else f"{name}-{i}" for i, name in enumerate(plain)]

    def total_rounds(self) -> int:
        """Total rounds of all learners in all runs; those that are repeated to compute regret count twice."""
        return self.runs * self.rounds * (len(self.learners) + len(self.replayed()))

    def replayed(self) -> list[str]:
        """The learners whose regret is computed."""
        made = zip(self.learners, self.make_learners(), strict=True)
        return [text for text, learner in made if self.regret and _convex(learner)]


def _convex(learner: Learner) -> bool:
    return isinstance(learner, RTopKF) and learner.surrogate.convex


class TrainTest(NamedTuple):
    """What is learned from, prepared, and what the result is held against, if anything.

    With online scaling both are not scaled yet: every run has an order, and so statistics, of its own.
    """

    train: Dataset
    test: Dataset | None
    preparation: Preprocessor


def prepare_data(train: Dataset, test: Dataset | None = None, *, scaling: str = "none") -> TrainTest:
    """Prepare a training part, and a test part in the same way.

    Parameters
    ----------
    train, test
        As read. Relevance that is real-valued is rounded to grades.
    scaling
        none, query, global or robust, which are fitted on the training part, or online, fitted on the way;
        `peekrank.training.select_scaling` chooses one.
    """
    prepared = preparation(train, scaling)
    return TrainTest(prepared.apply(train), None if test is None else prepared.apply(test), prepared)
