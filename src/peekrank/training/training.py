"""Trainings, which define how learners learn from judged documents with k grades per round.

A run passes over all queries in random order, again and again. All learners see the same order, and the
computation interleaves them to read each query from memory once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from peekrank._util.validate import check_int
from peekrank.data.dataset import Dataset
from peekrank.learners.mixed.learner import Mixed
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.measures import measure as measure_named
from peekrank.registry import LEARNERS
from peekrank.spec import parse
from peekrank.surrogates import Squared, Surrogate
from peekrank.surrogates import surrogate as surrogate_named
from peekrank.training.model import Preprocessor, preparation
from peekrank.types import Ints, Learner, Measure

DEFAULT_LEARNER = "ridge"  # of `peekrank train`


@dataclass(frozen=True)
class FromPaper:
    """The specification ``from_paper:surrogate=kl``: rtopkf with the parameters of its paper."""

    horizon: int
    surrogate: Surrogate = field(default=Squared(), metadata={"read": surrogate_named})
    name: ClassVar[str] = "from_paper"


def _learners() -> dict[str, type[Any]]:
    """Return the learners for lists with features, by name."""
    known = {name: cls for name, cls in LEARNERS.items() if cls.variable_length or cls is Mixed}
    return {**known, FromPaper.name: FromPaper}


def make_learner(text: str, rounds: int, high: float = 1) -> Learner:
    """Make the learner of a specification, for lists with features whose largest grade is `high`.

    >>> make_learner("from_paper:surrogate=kl", 1000).gamma.__round__(3)
    0.1
    >>> make_learner("mixed", 1000, high=4).high
    4
    """
    name, known = text.partition(":")[0], _learners()
    if name in LEARNERS and name not in known:
        why = "learns about fixed items, not from features"
        raise ValueError(f"learner '{text}': {name} {why}; use {' or '.join(known)}")
    learner: Any = parse("learner", known, text, horizon=rounds, high=high)
    if isinstance(learner, FromPaper):
        return RTopKF.from_paper(learner.surrogate, learner.horizon)
    return cast("Learner", learner)


@dataclass(frozen=True)
class Training:
    """The definition of a training: learners, rounds, runs and measure.

    Parameters
    ----------
    learners
        Specifications of ridge, rtopkf, from_paper (rtopkf with the parameters of its paper), mixed, or uniform.
    k
        Number of top documents whose relevance is revealed. Of a shorter list, all are revealed.
    rounds
        Number of rounds T. It is the default horizon of learners that need one.
    measure
        Name of the measure of quality.
    runs
        Number of runs, each with its own order of queries.
    seed
        Random seed.
    regret
        Whether to compute the regret in convex surrogates. This repeats every run step by step.
    score
        Index of the feature that holds the scores of another ranker. mixed starts from its order, the others take
        it for a feature.

    >>> Training(("rtopkf", "from_paper:surrogate=ranksvm"), k=1, rounds=1000)
    Traceback (most recent call last):
    ValueError: k = 1: from_paper:surrogate=ranksvm needs at least k = 2
    """

    learners: tuple[str, ...]
    k: int = 1
    rounds: int = 100_000
    measure: str = "ndcg@10"
    runs: int = 5
    seed: int = 0
    regret: bool = False
    score: int | None = None

    def __post_init__(self) -> None:
        for name, low in (("k", 1), ("rounds", 1), ("runs", 1), ("seed", 0)):
            check_int(name, getattr(self, name), low)
        object.__setattr__(self, "measure", str(measure_named(self.measure)))
        object.__setattr__(self, "learners", tuple(self.learners))
        if not self.learners:
            raise ValueError("no learners: name at least one, for example ridge")
        if len(set(self.learners)) < len(self.learners):
            raise ValueError(f"a learner occurs twice: {' '.join(self.learners)}")
        if self.score is not None and not any(isinstance(learner, Mixed) for learner in self.make_learners()):
            raise ValueError(f"only mixed starts from a score, and the learners are {' '.join(self.learners)}")
        for text, learner in zip(self.learners, self.make_learners(), strict=True):
            if self.k < learner.min_k:
                raise ValueError(f"k = {self.k}: {text} needs at least k = {learner.min_k}")

    def make_learners(self, high: float = 1) -> list[Learner]:
        """Make the learners, for lists whose largest grade is `high`."""
        return [make_learner(text, self.rounds, high) for text in self.learners]

    def make_measure(self) -> Measure:
        """Make the measure."""
        return measure_named(self.measure)

    def sequence(self, run: int, queries: int) -> Ints:
        """Return the query of each round of a run: random permutations of all queries, one after the other."""
        return query_sequence(self.rounds, queries, self.seed, run)

    def learner_seed(self, run: int) -> np.random.SeedSequence:
        """Return the random seed of the learners in a run."""
        return np.random.SeedSequence(self.seed, spawn_key=(run, 1))

    def model_names(self) -> list[str]:
        """Return the prefixes of the model files: specifications without punctuation, numbered if ambiguous."""
        plain = [re.sub(r"[^A-Za-z0-9.]+", "-", text) for text in self.learners]
        return [name if plain.count(name) == 1 else f"{name}-{i}" for i, name in enumerate(plain)]

    def total_rounds(self) -> int:
        """Count the rounds of all learners in all runs. Rounds that are repeated to compute regret count twice."""
        return self.runs * self.rounds * (len(self.learners) + len(self.replayed()))

    def replayed(self) -> list[str]:
        """Return the learners whose regret is computed."""
        learners = zip(self.learners, self.make_learners(), strict=True)
        return [text for text, learner in learners if self.regret and _is_convex(learner)]


def query_sequence(rounds: int, queries: int, seed: int, run: int) -> Ints:
    """Return the query of each round of a run: random permutations of all queries, one after the other."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(run, 0)))
    passes = [rng.permutation(queries) for _ in range(-(-rounds // queries))]
    return np.concatenate(passes)[:rounds]


def _is_convex(learner: Learner) -> bool:
    return isinstance(learner, RTopKF) and learner.surrogate.convex


class TrainTest(NamedTuple):
    """A preprocessed training part, and a test part if there is one.

    With online scaling, neither is scaled yet, because every run has its own order of queries and statistics.
    """

    train: Dataset
    test: Dataset | None
    preparation: Preprocessor


def prepare_data(train: Dataset, test: Dataset | None = None, *, scaling: str = "none") -> TrainTest:
    """Preprocess a training part, and a test part in the same way.

    Parameters
    ----------
    train, test
        The data as read. Real-valued relevance is rounded to grades.
    scaling
        none, query, global or robust, which are fitted on the training part, or online, which is fitted during
        training. `peekrank.training.select_scaling` chooses one.
    """
    prepared = preparation(train, scaling)
    return TrainTest(prepared.apply(train), None if test is None else prepared.apply(test), prepared)
