"""Every check crossed with every registered learner; broken ones fail the check that names the fault."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.learner_checks import cases
from peekrank import (
    DCG,
    FTPL,
    NW2,
    RBP,
    UCB,
    Agent,
    Auto,
    BlockFTRL,
    Champion,
    DoubtSort,
    FeedExp3,
    Greedy,
    MarginFTRL,
    PairwiseLoss,
    PermFTRL,
    Precision,
    RTop1F,
    SetFTRL,
    SumLoss,
    Thompson,
    Uniform,
    kernel,
    simulate,
)
from peekrank.checks import LEARNER_CHECKS, CheckError, CheckWarning, check_learner
from peekrank.kernels.sorting import SortSpace, shuffle, sort_descending, sort_space
from peekrank.learners import learner as learner_named
from peekrank.learners.mixed.learner import Mixed
from peekrank.learners.ridge.learner import Ridge
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.registry import LEARNERS as REGISTRY
from peekrank.surrogates import KL, ListNet, RankSVM, SmoothDCG
from peekrank.types import LARGEST_FEATURE, Features, Floats, Ints, Kernels, Learner, Rounds, Shape

LEARNERS: list[Learner] = [
    Uniform(),
    FTPL(DCG(), horizon=4000),
    FTPL(SumLoss(), horizon=4000, max_grade=2, epsilon=0.05),
    RTop1F(DCG(), horizon=4000),
    RTop1F(DCG(3), horizon=4000, max_grade=3),
    RTop1F(SumLoss(), horizon=4000, order="fixed"),
    RTop1F(PairwiseLoss(), horizon=4000, blocks=100),
    RTop1F(Precision(2, mean=False), horizon=4000, epsilon=0.1),
    SetFTRL(Precision(2, mean=False), horizon=4000),
    SetFTRL(Precision(1, mean=False), horizon=4000),
    SetFTRL(Precision(3)),
    PermFTRL(DCG(2), horizon=4000),
    PermFTRL(DCG(1), horizon=4000, max_grade=3),
    PermFTRL(Precision(2, mean=False), horizon=4000),
    PermFTRL(DCG(2)),
    PermFTRL(RBP(2), horizon=4000),
    BlockFTRL(DCG(), horizon=4000),
    BlockFTRL(DCG(3), horizon=4000, max_grade=3),
    BlockFTRL(SumLoss()),
    BlockFTRL(Precision(2, mean=False), horizon=4000, decay=0.9),
    BlockFTRL(RBP(p=0.9), horizon=4000, max_grade=3),
    DoubtSort(DCG()),
    DoubtSort(DCG(3), max_grade=3, variant="cautious", decay=0.999),
    DoubtSort(Precision(3, mean=False), variant="safe"),
    Greedy(DCG()),
    Greedy(SumLoss(), max_grade=2, epsilon=0.1),
    Thompson(DCG(), max_grade=2),
    UCB(Precision(2, mean=False)),
    MarginFTRL(DCG()),
    MarginFTRL(DCG(3), max_grade=3),
    MarginFTRL(SumLoss()),
    MarginFTRL(DCG(), decay=0.999),
    MarginFTRL(Precision(2, mean=False)),
    MarginFTRL(Precision(1, mean=False)),
    NW2(Precision(2, mean=False), horizon=40_000),
    NW2(Precision(1, mean=False), horizon=40_000, max_grade=2),
    NW2(Precision(2, mean=False), horizon=4000, paper_rate=True),
    NW2(Precision(1, mean=False)),
    FeedExp3(Precision(1, mean=False), horizon=4000),
    FeedExp3(DCG(), horizon=4000),
    FeedExp3(Precision(2, mean=False)),
    RTopKF(),
    RTopKF(KL(), estimator="doubly_robust", temperature=0.1),
    RTopKF(RankSVM(), gamma=0.1, radius=3.0),
    RTopKF(ListNet()),
    RTopKF(SmoothDCG(0.1), horizon=4000, unseen_order="random", step="theorem"),
    Ridge(),
    Ridge("sampling", confidence=1.0),
    Ridge(decay=0.99, expand=6),
    Mixed(),
    Mixed(DCG(3), high=4.0, safe=True, cells=100),
    Mixed(SumLoss(), low=-1.0, high=2.0, floor=0.1, earned=0.0),
    Champion(DCG()),
    Champion(DCG(3), (Greedy(DCG(3), max_grade=3), DoubtSort(DCG(), max_grade=3)), max_grade=3, share=2.0),
    Champion(DCG(10), (RTopKF(), Ridge()), max_grade=2, alpha=0.2),
    Auto(max_grade=2, expand=6),
]


def test_every_registered_learner_is_checked() -> None:
    assert {type(learner) for learner in LEARNERS} == {REGISTRY[name] for name in REGISTRY.built_in}


@pytest.mark.parametrize(("learner", "check"), cases(LEARNERS))
def test_learner_passes(learner: Learner, check: Callable[[Learner], None]) -> None:
    """Warnings are errors, but uniform never learns."""
    with warnings.catch_warnings():
        if isinstance(learner, Uniform):
            warnings.simplefilter("ignore", CheckWarning)
        check(learner)


_POWERS = (-45.0, -30.0, -15.0, -6.0, 0.0, 6.0, 15.0)


def _wild_features(rng: np.random.Generator, n: int, d: int) -> Features:
    """Features that agents accept, of one scale or of many, some of them 0."""
    kind = rng.integers(4)
    powers = rng.uniform(-45, 15, (n, d)) if kind == 0 else np.full((n, d), rng.choice(_POWERS))
    X = rng.choice([-1, 1], (n, d)) * 10.0**powers
    X[rng.random((n, d)) < (0.5 if kind == 1 else 0.0)] = 0
    if kind == 2:
        X[:] = X[0]
    return X.astype(np.float32).clip(-LARGEST_FEATURE, LARGEST_FEATURE)


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_any_state_that_a_learner_reaches_can_be_loaded(learner: Learner, seed: int) -> None:
    rng, m, k = np.random.default_rng(seed), 5, 5 if learner.full_information else max(learner.min_k, 2)
    d = 3 if learner.contextual else 0
    agent = Agent(learner, m=m, k=k, d=d, seed=seed)
    for t in range(150):
        n = int(rng.integers(k, m + 1)) if learner.variable_length else m
        decision = agent.rank(_wild_features(rng, n, d)) if d else agent.rank()
        if decision.propensities is not None:
            assert np.isfinite(decision.propensities).all()
            assert decision.propensities.sum() == pytest.approx(min(k, n))
        grades = rng.integers(0, learner.max_grade + 1, min(k, n)).astype(np.float64)
        grades[rng.random(len(grades)) < rng.choice([0, 0.3])] = np.nan
        agent.update(decision, grades)
        learner.validate_state(agent.state)
        if t % 10 == 9:
            saved = agent.dump()
            assert Agent.load(saved).dump() == saved
    assert np.isfinite(agent.rank(np.ones((m, d)) if d else None).token).all()


@pytest.mark.parametrize("learner", ["rtopkf", "ridge:expand=6", "auto:expand=6"])
def test_features_beyond_the_largest_are_refused(learner: str) -> None:
    agent = Agent(learner_named(learner), m=3, k=1, d=2)
    X = np.ones((3, 2), np.float32)
    decision = agent.rank(X)
    X[1, 1] = 1e20
    with pytest.raises(
        ValueError, match=r"features of item 1, \[1.e\+00 1.e\+20\]: must be finite numbers up to 1e\+15"
    ):
        agent.rank(X)
    with pytest.raises(ValueError, match="features of the decision of item 1"):
        agent.update(decision._replace(features=X), [1])
    with pytest.raises(ValueError, match="features of item 1"):
        simulate(agent.learner, Rounds(X, np.zeros(3, np.uint8), np.array([0, 3])), k=1, measure=DCG())


class CountState(NamedTuple):
    scores: Floats
    perturbed: Floats
    sorting: SortSpace


@kernel
def _rank_by_sum(s: CountState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    """Show the items by the sum of all answers, in one round of ten at random."""
    if uniforms[0] < 0.1:
        shuffle(uniforms[1:], ranking)
        token[0] = 1
    else:
        sort_descending(s.scores, ranking, s.sorting)


@kernel
def _add_answers(s: CountState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    for p in range(len(feedback)):
        if not np.isnan(feedback[p]):
            s.scores[ranking[p]] += feedback[p]


@kernel
def _forget_all_if_unanswered(s: CountState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    for p in range(len(feedback)):
        if np.isnan(feedback[p]):
            s.scores[:] = 0
        else:
            s.scores[ranking[p]] += feedback[p]


@kernel
def _rank_same_item_twice(s: CountState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    shuffle(uniforms[1:], ranking)
    ranking[-1] = ranking[0]


@kernel
def _rank_by_global_generator(s: CountState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    for i in range(len(s.perturbed)):
        s.perturbed[i] = np.random.random()  # noqa: NPY002
    sort_descending(s.perturbed, ranking, s.sorting)


@kernel
def _update_its_feedback(s: CountState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    feedback[0] += 1


@dataclass(frozen=True)
class Broken:
    """A learner that claims a bound; each subclass has one fault."""

    scale: float = 1.0
    name: ClassVar[str] = "broken"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    max_grade: ClassVar[int] = 1
    horizon: ClassVar[None] = None
    measure: ClassVar[None] = None
    kernels: ClassVar[Kernels] = Kernels(_rank_by_sum, _add_answers)
    persistent: ClassVar[tuple[str, ...]] = ("scores",)

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise ValueError(f"scale = {self.scale}: must be positive")

    def init(self, shape: Shape) -> CountState:
        return CountState(np.zeros(shape.m), np.zeros(shape.m), sort_space(shape.m))

    def validate_state(self, state: CountState) -> None:
        if not np.isfinite(state.scores).all():
            raise ValueError("its scores must be finite")

    def scores(self, state: CountState, X: Features) -> Floats:
        return state.scores

    def token_size(self, shape: Shape) -> int:
        return 1

    def n_uniforms(self, shape: Shape) -> int:
        return shape.m + 1

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        return relevance.astype(np.float64)

    def bound(self, shape: Shape, horizon: int) -> float | None:
        return 1e9


class NoImportanceWeight(Broken):
    pass


class NotAPermutation(Broken):
    kernels: ClassVar[Kernels] = Kernels(_rank_same_item_twice, _add_answers)


class GlobalGenerator(Broken):
    kernels: ClassVar[Kernels] = Kernels(_rank_by_global_generator, _add_answers)


class ChangesItsInput(Broken):
    kernels: ClassVar[Kernels] = Kernels(_rank_by_sum, _update_its_feedback)


class LooksAround(Broken):
    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        return np.asarray(relevance - relevance.mean())


class SilentParameter(Broken):
    def __post_init__(self) -> None:
        pass


class RandomTable(Broken):
    """What it remembers differs in size from one construction to the next, so that no copy can resume."""

    persistent: ClassVar[tuple[str, ...]] = ("scores", "perturbed")

    def init(self, shape: Shape) -> CountState:
        state = super().init(shape)
        return state._replace(perturbed=np.zeros(int(np.random.default_rng().integers(10**6))))


class Forgets(Broken):
    """It does not save what it learned."""

    persistent: ClassVar[tuple[str, ...]] = ()


class BelievesAnything(Broken):
    def validate_state(self, state: CountState) -> None:
        pass


class TakesItsPlaceInMind(Broken):
    """Looking at it changes it."""

    def scores(self, state: CountState, X: Features) -> Floats:
        state.scores[0] += 1
        return state.scores


@kernel
def _rank_and_count(s: CountState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    shuffle(uniforms[1:], ranking)
    s.scores[ranking[0]] += 1


class CountsRankingsInSilence(Broken):
    kernels: ClassVar[Kernels] = Kernels(_rank_and_count, _add_answers)


@kernel
def _say_what_was_drawn(s: CountState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    out[:] = 0
    out[ranking[:2]] = 1


@kernel
def _say_all_are_alike(s: CountState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    out[:] = 2 / len(out)


class PropensitiesGivenTheDraw(Broken):
    kernels: ClassVar[Kernels] = Kernels(_rank_by_sum, _add_answers, _say_what_was_drawn)


class PropensitiesThatAreNotTrue(Broken):
    kernels: ClassVar[Kernels] = Kernels(_rank_by_sum, _add_answers, _say_all_are_alike)


class BreaksItsBound(Broken):
    def bound(self, shape: Shape, horizon: int) -> float | None:
        return 1.0


class StartsAgainIfUnanswered(Broken):
    kernels: ClassVar[Kernels] = Kernels(_rank_by_sum, _forget_all_if_unanswered)


@kernel
def _rank_first_rows(s: CountState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    """Rank rows as if they were the first items, and ask about the second one now and then."""
    n = len(ranking)
    sort_descending(s.scores[:n], ranking, s.sorting)
    if n > 1 and uniforms[0] < 0.2:
        ranking[0], ranking[1] = ranking[1], ranking[0]


@kernel
def _set_no_items(s: CountState, items: Ints) -> None:
    pass


class TakesRowsForItems(Broken):
    kernels: ClassVar[Kernels] = Kernels(_rank_first_rows, _add_answers, set_items=_set_no_items)


class ForgetsAField(Broken):
    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        (NotAPermutation(), "rankings_are_permutations"),
        (ChangesItsInput(), "inputs_stay_as_they_were"),
        (GlobalGenerator(), "same_seed_same_trajectory"),
        (Forgets(), "dump_resumes"),
        (CountsRankingsInSilence(), "says_whether_rank_is_remembered"),
        (BelievesAnything(), "damaged_memory_is_refused"),
        (TakesItsPlaceInMind(), "looking_changes_nothing"),
        (PropensitiesGivenTheDraw(), "propensities_are_true"),
        (PropensitiesThatAreNotTrue(), "propensities_are_true"),
        (SilentParameter(), "bad_parameters_are_named"),
        (ForgetsAField(), "specification_round_trips"),
        (NoImportanceWeight(), "learns"),
        (BreaksItsBound(), "keeps_its_bound"),
        (StartsAgainIfUnanswered(), "learns_though_answers_are_missing"),
        (TakesRowsForItems(), "knows_items_by_their_numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_broken_learner_fails_the_check_that_names_its_fault(broken: Learner, fault: str) -> None:
    with pytest.raises((CheckError, ValueError)):  # an agent refuses what is no permutation before a check can
        LEARNER_CHECKS[fault](broken)


def test_transformed_feedback_cannot_leak_what_was_not_shown() -> None:
    """It is asked about each grade once, not about the relevance of a round."""
    LEARNER_CHECKS["only_the_top_k_is_seen"](LooksAround())


def test_a_leak_of_what_was_not_shown_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaking(learner: Learner, rounds: Rounds, **how: Any) -> Any:
        return simulate(learner, rounds, seed=int(rounds.relevance.sum()), **how)

    monkeypatch.setattr("peekrank.checks.learners.problem.simulate", leaking)
    with pytest.raises(CheckError, match="relevance outside the top k changes the trajectory"):
        LEARNER_CHECKS["only_the_top_k_is_seen"](Uniform())


class NoBoundNoWeight(NoImportanceWeight):
    def bound(self, shape: Shape, horizon: int) -> float | None:
        return None


@kernel
def _rank_the_worst_first(s: CountState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    for i in range(len(s.scores)):
        s.perturbed[i] = -s.scores[i]
    sort_descending(s.perturbed, ranking, s.sorting)


class WrongWayRound(NoBoundNoWeight):
    kernels: ClassVar[Kernels] = Kernels(_rank_the_worst_first, _add_answers)


@pytest.mark.parametrize(
    "broken", [NoBoundNoWeight(), WrongWayRound(), Uniform()], ids=lambda one: type(one).__name__
)
def test_a_learner_without_a_bound_that_does_not_learn_is_warned_of(broken: Learner) -> None:
    with pytest.warns(CheckWarning, match="Does `update` divide feedback by the propensity"):
        LEARNER_CHECKS["beats_random_rankings"](broken)


class NotCompiled(Broken):
    kernels: ClassVar[Kernels] = Kernels(lambda *_: None, lambda *_: None)


def test_kernels_that_are_not_compiled_are_refused() -> None:
    with pytest.raises(TypeError, match=r"decorate it with peekrank\.kernel"):
        Agent(NotCompiled(), m=3, k=1).rank()


class Nameless:
    """A class with two of the members of a learner."""

    contextual: ClassVar[bool] = False
    min_k: ClassVar[int] = 1


def test_a_learner_that_lacks_a_member_is_reported_which() -> None:
    incomplete: Any = Nameless()
    with pytest.raises(ValueError, match="is no learner: it lacks name, variable_length, persistent, kernels, "):
        Agent(incomplete, m=3, k=1)
    with pytest.raises(
        CheckError, match=r"^every_member_is_there: Nameless lacks name, variable_length, persistent, kernels, "
    ):
        check_learner(incomplete)


def test_check_learner_names_the_check() -> None:
    with pytest.raises(CheckError, match=r"^rankings_are_permutations: "):
        check_learner(NotAPermutation())


def test_dump_that_does_not_resume_is_caught() -> None:
    with pytest.raises(ValueError, match="does not fit learner"):
        LEARNER_CHECKS["dump_resumes"](RandomTable())
