"""Agent, play and simulate: their records, and the inputs that they reject."""

from __future__ import annotations

import math
import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from peekrank import (
    CT15,
    DCG,
    FTPL,
    NDCG,
    Agent,
    BlockFTRL,
    DoubtSort,
    FeedExp3,
    Greedy,
    MarginFTRL,
    RTop1F,
    Uniform,
    evaluate,
    fixed_items,
    kernel,
    play,
    simulate,
)
from peekrank.data.dataset import Dataset, Provenance
from peekrank.data.peek import open_dataset, save_dataset
from peekrank.engine import make_rng, problem_shape, simulate_all, simulation
from peekrank.engine.simulation import chunk_length
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.measures import AUCLoss, AveragePrecision, Precision
from peekrank.streams import Bernoulli
from peekrank.types import Kernels, Learner, Measure, Rounds, Shape

T = 1000


@pytest.fixture(scope="module")
def rounds() -> Rounds:
    return CT15(m=10).rounds(T, np.random.default_rng(0))


def test_trace_is_the_running_sum_of_single_evaluations(rounds: Rounds) -> None:
    agent, values, marks = Agent(RTop1F(DCG(), horizon=T), m=10, k=2, seed=5), [], []
    relevance = rounds.relevance.reshape(T, 10)
    for row in relevance:
        decision = agent.rank()
        values.append(evaluate(DCG(), decision.ranking, row))
        marks.append(decision.token[0])
        agent.update(decision, row[decision.ranking[:2]])
    trace = simulate(RTop1F(DCG(), horizon=T), rounds, k=2, measure=DCG(), seed=5)
    np.testing.assert_allclose(trace.value, np.cumsum(values), rtol=1e-12)
    assert np.array_equal(trace.explored, np.cumsum(marks))
    assert np.array_equal(trace.checkpoints, np.arange(1, T + 1))


def test_thinned_trace_has_the_same_numbers(rounds: Rounds) -> None:
    whole = simulate(Uniform(), rounds, k=1, measure=DCG())
    checkpoints = np.array([1, 7, 500, 999, 1000])
    thin = simulate(Uniform(), rounds, k=1, measure=DCG(), checkpoints=checkpoints)
    assert np.array_equal(thin.value, whole.value[checkpoints - 1])


def test_chunks_do_not_show() -> None:
    """Longer than a chunk, and not a multiple of it."""
    m = 100
    n = 2 * chunk_length(m) + 17
    rounds = CT15(m=m).rounds(n, np.random.default_rng(2))
    learner = RTop1F(DCG(), horizon=n)
    seen: list[int] = []
    compiled = simulate(learner, rounds, k=3, measure=DCG(), progress=seen.append)
    assert np.array_equal(compiled.value, play(learner, rounds, k=3, measure=DCG()).value)
    assert sum(seen) == n
    assert len(seen) == 3


def test_full_information_sees_everything_for_every_k(rounds: Rounds) -> None:
    learner = FTPL(DCG(), horizon=T)
    assert problem_shape(learner, m=10, k=1).k == 10
    one, all_ = (simulate(learner, rounds, k=k, measure=DCG()).value[-1] for k in (1, 10))
    assert one == all_


def test_skipped_lists_count_nothing() -> None:
    rounds = fixed_items([[0, 0], [0, 1], [0, 0]])
    trace = simulate(Uniform(), rounds, k=1, measure=NDCG(no_relevant="skip"))
    assert trace.value[0] == 0
    assert trace.value[1] > 0
    assert trace.value[2] == trace.value[1]


def test_memory_does_not_grow_with_the_horizon() -> None:
    peaks = []
    for n in (20_000, 80_000):
        rounds = CT15(m=10).rounds(n, np.random.default_rng(0))
        learner = RTop1F(DCG(), horizon=n)
        simulate(learner, rounds, k=1, measure=DCG(), checkpoints=np.array([n]))
        tracemalloc.start()
        simulate(learner, rounds, k=1, measure=DCG(), checkpoints=np.array([n]))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize("run", [play, simulate])
@pytest.mark.parametrize(
    ("checkpoints", "message"),
    [([0, 5], "from 1 to 1000"), ([5, 5], "ascending"), ([1001], "1000"), ([], "checkpoints must hold")],
)
def test_bad_checkpoints(run: object, checkpoints: list[int], message: str, rounds: Rounds) -> None:
    assert callable(run)
    with pytest.raises(ValueError, match=message):
        run(Uniform(), rounds, k=1, measure=DCG(), checkpoints=np.array(checkpoints, dtype=np.int64))


def test_relevance_above_the_learners_grades_is_rejected() -> None:
    with pytest.raises(ValueError, match="relevance 3 occurs, but rtop1f has max_grade = 1"):
        simulate(RTop1F(DCG(), horizon=9), fixed_items([[0, 3]]), k=1, measure=DCG())


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"m": 0, "k": 1}, "m = 0: must be a whole number"),
        ({"m": 2.5, "k": 1}, "m = 2.5: must be a whole number"),
        ({"m": 3, "k": 0}, "k = 0: must be a whole number"),
        ({"m": 3, "k": 1, "d": -1}, "d = -1: must be a whole number"),
    ],
)
def test_impossible_sizes_are_named(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Agent(Uniform(), **sizes)


def test_lists_of_different_lengths_are_rejected() -> None:
    uneven = Rounds(np.empty((3, 0), np.float32), np.zeros(3, np.uint8), np.array([0, 1, 3]))
    with pytest.raises(ValueError, match="lists of 1 to 2 items: all must have the same length"):
        simulate(RTop1F(DCG(), horizon=9), uneven, k=1, measure=DCG())


def test_lists_of_different_lengths_for_a_learner_without_memory_of_items() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 6, 400)
    offsets = np.r_[0, np.cumsum(lengths)]
    relevance = rng.integers(0, 3, offsets[-1]).astype(np.uint8)
    uneven = Rounds(np.empty((len(relevance), 0), np.float32), relevance, offsets)
    sequence = rng.integers(0, 400, 1000)
    how: dict[str, Any] = {"k": 2, "measure": DCG(), "sequence": sequence}
    one, two = simulate(Uniform(), uneven, **how), play(Uniform(), uneven, **how)
    assert np.array_equal(one.value, two.value)
    agent, total = Agent(Uniform(), m=5, k=2), 0.0
    for n in sequence:
        grades = relevance[offsets[n] : offsets[n + 1]]
        ranking = agent.rank(np.empty((len(grades), 0))).ranking
        total += sum((2.0 ** grades[i] - 1) / np.log2(p + 2) for p, i in enumerate(ranking))
    assert one.value[-1] == pytest.approx(total)


def uneven_lists(seed: int, shortest: int = 1, longest: int = 8) -> Rounds:
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(rng.integers(shortest, longest, 150, endpoint=True))]
    relevance = rng.choice(4, size=offsets[-1], p=[0.7, 0.1, 0.1, 0.1]).astype(np.uint8)
    return Rounds(rng.random((len(relevance), 3), dtype=np.float32), relevance, offsets)


@pytest.mark.parametrize(
    "measure",
    [
        DCG(),
        DCG(2, "linear"),
        NDCG(3),
        NDCG(no_relevant="skip"),
        Precision(2),
        AveragePrecision(),
        AUCLoss(),
    ],
    ids=str,
)
def test_values_of_lists_of_different_lengths_are_those_of_each_list(measure: Measure) -> None:
    rounds = uneven_lists(seed=1)
    sequence = np.random.default_rng(2).integers(0, 150, 40_000)  # longer than a chunk
    trace = simulate(Uniform(), rounds, k=1, measure=measure, seed=3, sequence=sequence)
    agent, values = Agent(Uniform(), m=8, k=1, d=3, seed=3), []
    for n in sequence[:600]:
        rows = slice(rounds.offsets[n], rounds.offsets[n + 1])
        values.append(evaluate(measure, agent.rank(rounds.features[rows]).ranking, rounds.relevance[rows]))
    np.testing.assert_allclose(trace.value[:600], np.nancumsum(values), rtol=1e-12)
    rest = simulate(
        Uniform(), rounds, k=1, measure=measure, seed=3, sequence=sequence, checkpoints=np.array([40_000])
    )
    assert rest.value[0] == trace.value[-1]


def test_memory_mapped_lists_are_as_others(tmp_path: Path) -> None:
    rounds = uneven_lists(seed=4)
    how: dict[str, Any] = {"k": 1, "measure": NDCG(3), "sequence": np.random.default_rng(5).integers(0, 150, 500)}
    expected = simulate(RTopKF(), rounds, **how).value
    save_dataset(Dataset(*rounds[:3], np.arange(150), Provenance("x")), tmp_path / "lists.peek")
    reopened = open_dataset(tmp_path / "lists.peek").rounds()
    plain = [type(array) is np.ndarray and array.flags.carray for array in reopened[:3]]
    assert all(plain)  # nothing is compiled again
    assert np.array_equal(simulate(RTopKF(), reopened, **how).value, expected)
    for name in Rounds._fields[:3]:
        np.save(tmp_path / f"{name}.npy", getattr(rounds, name))
    read_only = Rounds(*(np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in Rounds._fields[:3]))
    assert np.array_equal(simulate(RTopKF(), read_only, **how).value, expected)


def test_learners_taking_turns_are_as_by_themselves(rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "_CACHE", 1)  # so that turns are short
    learners: list[Learner] = [Uniform(), RTop1F(DCG(), horizon=T), FTPL(DCG(), horizon=T)]
    together = simulate_all(learners, rounds, k=2, measure=DCG(), seeds=[1, 2, 3])
    for learner, seed, trace in zip(learners, (1, 2, 3), together, strict=True):
        alone = simulate(learner, rounds, k=2, measure=DCG(), seed=seed)
        assert np.array_equal(trace.value, alone.value)
        assert np.array_equal(trace.explored, alone.explored)


@pytest.mark.parametrize("sequence", [[], [-1], [1000], [[0]]])
def test_bad_sequences_are_named(sequence: list[int], rounds: Rounds) -> None:
    with pytest.raises(ValueError, match="sequence: must be numbers of lists, from 0 to 999"):
        simulate(Uniform(), rounds, k=1, measure=DCG(), sequence=np.array(sequence, dtype=np.int64))


@pytest.mark.parametrize("name", Rounds._fields[:4])
def test_arrays_of_other_types_are_rejected(name: str, rounds: Rounds) -> None:
    """Compiled code takes arrays as they are: another type would be read as garbage."""
    rounds = rounds._replace(items=np.arange(len(rounds.relevance)))
    other = rounds._replace(**{name: getattr(rounds, name).astype(np.int32)})
    with pytest.raises(ValueError, match=f"{name} of the rounds: int32 (in . dimensions|of shape)"):
        simulate(Uniform(), other, k=1, measure=DCG())


def test_offsets_beyond_the_rows_are_rejected(rounds: Rounds) -> None:
    for name in ("features", "relevance"):
        short = rounds._replace(**{name: getattr(rounds, name)[:-10]})
        with pytest.raises(ValueError, match="offsets of the rounds go from 0 to 10000: must go"):
            simulate(Uniform(), short, k=1, measure=DCG())


@pytest.mark.parametrize("convert", [np.int64, np.float32, "strided"])
def test_gains_of_any_type_are_transformed_alike(convert: Any, rounds: Rounds) -> None:
    """A measure of a user's own may give integers or views; kernels are compiled for contiguous float64."""

    class Odd(DCG):
        def gain(self, relevance: Any) -> Any:
            gains = super().gain(relevance)
            return np.repeat(gains, 2, axis=-1)[..., ::2] if convert == "strided" else gains.astype(convert)

    def value(run: Any, measure: Any) -> Any:
        return run(RTop1F(measure, horizon=T), rounds, k=1, measure=measure, seed=8).value

    assert np.array_equal(value(simulate, Odd()), value(simulate, DCG()))
    assert np.array_equal(value(play, Odd()), value(simulate, DCG()))


def test_a_learner_and_its_rounds_may_have_the_same_seed() -> None:
    """With one stream of random numbers for both, the learner's noise would be what decides relevance."""
    means, seeds = Bernoulli((0.5,) * 10), range(20)

    def total(stream_seed: int, seed: int) -> float:
        rounds = means.rounds(200, np.random.default_rng(stream_seed))
        return float(simulate(FTPL(DCG(), horizon=200), rounds, k=1, measure=DCG(), seed=seed).value[-1])

    same = np.array([total(s, s) for s in seeds])
    other = np.array([total(s, s + 1000) for s in seeds])
    assert abs(same.mean() - other.mean()) < 4 * np.hypot(same.std(), other.std()) / np.sqrt(len(seeds))


@kernel
def _rank_nonsense(s: Any, X: Any, uniforms: Any, ranking: Any, token: Any) -> None:
    for p in range(len(ranking)):
        ranking[p] = p
    ranking[s.m] = 10**9


@kernel
def _learn_nothing(s: Any, X: Any, ranking: Any, token: Any, feedback: Any) -> None:
    pass


class At(NamedTuple):
    m: int


@pytest.mark.parametrize("position", [0, 9])
def test_a_learner_that_ranks_unknown_items_is_stopped(position: int, rounds: Rounds) -> None:
    class Nonsense(Uniform):
        kernels = Kernels(_rank_nonsense, _learn_nothing)

        def init(self, shape: Shape) -> Any:
            return At(position)

    with pytest.raises(ValueError, match="something other than"):
        simulate(Nonsense(), rounds, k=1, measure=DCG())
    with pytest.raises(ValueError, match="something other than"):
        simulate(Nonsense(), uneven_lists(0, shortest=10, longest=12), k=1, measure=DCG(2))


@pytest.mark.parametrize("part", ["discount", "gain", "offset", "values"])
def test_a_measure_with_arrays_of_the_wrong_size_is_stopped(part: str, rounds: Rounds) -> None:
    broken = type("Broken", (DCG,), {part: lambda *_: np.zeros(3)})()
    with pytest.raises(ValueError, match=f"{part} of dcg .*shape"):
        simulate(Uniform(), rounds, k=1, measure=broken)


def test_numpy_integers_make_an_agent_that_can_be_saved() -> None:
    agent = Agent(Uniform(), m=np.int64(5), k=np.int32(2))  # type: ignore[arg-type]
    assert Agent.load(agent.dump()).shape == (5, 0, 2)


def test_no_rounds_is_rejected() -> None:
    nothing = Rounds(np.empty((0, 0), np.float32), np.zeros(0, np.uint8), np.array([0]))
    with pytest.raises(ValueError, match="horizon = 0"):
        simulate(Uniform(), nothing, k=1, measure=DCG())


def test_agent_refuses_what_does_not_fit() -> None:
    agent, other = Agent(Uniform(), m=4, k=2), Agent(RTop1F(DCG(), horizon=9), m=4, k=2)
    with pytest.raises(ValueError, match=r"feedback of shape \(1,\): must be of shape \(2,\)"):
        agent.update(agent.rank(), [1])
    with pytest.raises(ValueError, match="token of the decision"):
        agent.update(other.rank(), [1, 0])
    with pytest.raises(ValueError, match=r"feedback\[1\] = 2.0: must be a whole number from 0 to 1, or NaN"):
        other.update(other.rank(), [1, 2])
    with pytest.raises(ValueError, match=r"ranking of the decision .*: must hold each of 0 to 3 once"):
        agent.update(agent.rank()._replace(ranking=np.array([0, 1, 2, 9])), [1, 0])
    with pytest.raises(ValueError, match="the token of this decision is not from this agent"):
        other.update(other.rank()._replace(token=np.array([1.0, 2.0, 1.0])), [1, 0])
    with pytest.raises(ValueError, match=r"features of shape \(4, 3\)"):
        agent.rank(np.zeros((4, 3)))


# --- decisions


def test_a_buffer_of_features_may_be_used_again_before_the_answer() -> None:
    rng, buffer = np.random.default_rng(0), np.empty((4, 3), np.float32)
    fresh, reused = (Agent(RTopKF(), m=4, k=1, d=3, seed=1) for _ in range(2))
    for _ in range(20):
        X = rng.normal(size=(4, 3)).astype(np.float32)
        buffer[:] = X
        one, two = fresh.rank(X), reused.rank(buffer)
        buffer[:] = 7
        for agent, decision in ((fresh, one), (reused, two)):
            agent.update(decision, [int(decision.ranking[0] == 2)])
    assert fresh.dump() == reused.dump()


def test_what_was_shown_cannot_be_changed() -> None:
    decision = Agent(Uniform(), m=4, k=1).rank()
    with pytest.raises(ValueError, match="read-only"):
        decision.ranking[0] = 2


def test_threads_may_share_an_agent() -> None:
    agent, X = Agent(RTopKF(), m=40, k=2, d=3), np.random.default_rng(0).normal(size=(40, 3))

    def work(_: int) -> None:
        for n in range(300):
            decision = agent.rank(X[: 2 + n % 39])
            assert sorted(decision.ranking) == list(range(2 + n % 39))
            agent.update(decision, [1, 0])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert agent._state.sums[0] == 1200


def test_seeds_of_any_integer_type_are_the_same() -> None:
    assert make_rng(np.int64(3)).random() == make_rng(3).random() != np.random.default_rng(3).random()


def test_agents_can_be_pickled() -> None:
    agent = Agent(RTopKF(), m=4, k=1, d=3, seed=1)
    agent.update(agent.rank(np.eye(4, 3)), [1])
    again = pickle.loads(pickle.dumps(agent))  # noqa: S301
    assert again.dump() == agent.dump()
    assert np.array_equal(again.rank(np.eye(4, 3)).ranking, agent.rank(np.eye(4, 3)).ranking)


def test_how_long_lists_may_be_is_reported() -> None:
    agent = Agent(RTopKF(), m=4, k=1, d=3)
    for wrong in (np.ones(3), np.ones((0, 3)), np.ones((5, 3)), np.ones((4, 2)), None):
        with pytest.raises(ValueError, match=r"features of shape .*: must be of shape \(n, 3\), n from 1 to 4"):
            agent.rank(wrong)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_decision_that_is_not_finite_is_refused_and_harms_nothing(wrong: float) -> None:
    agent = Agent(RTopKF(), m=4, k=1, d=3)
    decision = agent.rank(np.eye(4, 3))
    before = agent.dump()
    features = decision.features.copy()
    features[2, 1] = wrong
    with pytest.raises(ValueError, match=r"features of the decision of item 2, .*: must be finite numbers"):
        agent.update(decision._replace(features=features), [1])
    token = decision.token.copy()
    token[-1] = wrong
    with pytest.raises(ValueError, match=r"token of the decision .*: must hold finite numbers"):
        agent.update(decision._replace(token=token), [1])
    assert agent.dump() == before


@pytest.mark.parametrize("wrong", [[0.0, 1.0, 2.0, 3.0], ["0", "1", "2", "3"], [None] * 4, [True] * 4])
def test_rankings_that_are_no_whole_numbers_are_rejected(wrong: list[Any]) -> None:
    agent = Agent(Uniform(), m=4, k=1)
    with pytest.raises(ValueError, match=r"ranking of the decision .*: must hold whole numbers"):
        agent.update(agent.rank()._replace(ranking=np.array(wrong)), [1])


def test_rankings_of_other_whole_numbers_are_the_same() -> None:
    one, two = Agent(FTPL(DCG(), horizon=9), m=3, k=3), Agent(FTPL(DCG(), horizon=9), m=3, k=3)
    conversions: list[Any] = [list, lambda shown: np.array(shown, np.uint8)]
    for agent, convert in zip((one, two), conversions, strict=True):
        decision = agent.rank()
        agent.update(decision._replace(ranking=convert(decision.ranking)), [1, 0, 0])
    assert one.dump() == two.dump()


# --- looking at an agent


def test_an_agent_says_what_it_is_and_how_much_has_happened() -> None:
    agent = Agent(RTopKF(), m=4, k=2, d=3)
    assert repr(agent) == "<Agent of rtopkf, m=4, k=2, d=3: 0 rounds, 0 answers>"
    decision = agent.rank(np.eye(4, 3))
    agent.rank(np.eye(2, 3))
    agent.update(decision, [1, np.nan])
    assert repr(agent) == "<Agent of rtopkf, m=4, k=2, d=3: 2 rounds, 1 answer>"
    assert not decision.explored or decision.token[0] == 1


def test_answers_are_counted_for_each_item() -> None:
    agent, counted = Agent(BlockFTRL(DCG()), m=5, k=2), np.zeros(5, dtype=np.int64)
    rng = np.random.default_rng(0)
    for _ in range(50):
        decision = agent.rank()
        answers = np.where(rng.random(2) < 0.3, np.nan, 1.0)
        counted[decision.ranking[:2][answers == 1]] += 1
        agent.update(decision, answers)
    with pytest.raises(ValueError, match="feedback"):
        agent.update(decision, [1, 7])  # a rejected update is not counted
    assert agent.summary().n_feedback.tolist() == counted.tolist()
    assert (agent.rounds, agent.n_feedback) == (50, counted.sum())


def test_the_order_is_by_what_is_believed_and_ties_go_by_index() -> None:
    agent = Agent(FTPL(DCG(), horizon=9), m=4, k=4)
    agent._state.scores[:] = [1, 3, 1, 2]
    assert agent.best_ranking().tolist() == [1, 3, 0, 2]
    lists = Agent(RTopKF(), m=4, k=1, d=2)
    lists._state.w[:] = [1, -1]
    assert lists.best_ranking([[0, 1], [2, 0], [1, 1]]).tolist() == [1, 2, 0]
    with pytest.raises(ValueError, match="features of shape"):
        lists.best_ranking()
    with pytest.raises(ValueError, match="features of item 0"):
        lists.best_ranking([[np.nan, 1]])


def test_a_summary_is_of_items_or_of_weights_or_of_nothing() -> None:
    lists = Agent(RTopKF(), m=4, k=1, d=2)
    lists._state.w[:] = [0.5, -1]
    assert str(lists.summary()).splitlines()[1:] == [
        "       0          0.5          0",
        "       1           -1          0",
    ]
    assert len(Agent(Uniform(), m=4, k=1).summary().estimate) == 0


def test_orders_of_finite_games_are_those_of_the_best_action() -> None:
    agent = Agent(FeedExp3(DCG(), horizon=10_000), m=3, k=2)
    for a, ranking in enumerate(agent.state.rankings[agent.state.action]):
        agent._state.losses[:] = 1
        agent._state.losses[a] = 0
        assert agent.best_ranking().tolist() == ranking.tolist()


@pytest.mark.parametrize("rounds_before", [0, 1, 63, 64, 65, 130])
def test_uniforms_drawn_ahead_are_those_of_each_round(rounds_before: int) -> None:
    """Whether an agent is saved, driven or reseeded in between: its rounds get one stream of uniforms in turn."""
    learner = FTPL(DCG(), horizon=100)
    agent, uniforms = Agent(learner, m=3, k=3, seed=4), make_rng(4)

    def expected() -> Any:
        return np.argsort(-uniforms.random(3), kind="stable").tolist()

    for _ in range(rounds_before):
        assert agent.rank().ranking.tolist() == expected()
    agent = Agent.load(agent.dump())
    assert agent.rank().ranking.tolist() == expected()
    seen: list[list[int]] = []

    class Notes(DCG):
        def values(self, rankings: Any, relevance: Any) -> Any:
            seen.extend(rankings.tolist())
            return super().values(rankings, relevance)

    simulation.run_agents([agent], fixed_items(np.zeros((5, 3), dtype=np.uint8)), measure=Notes())
    assert seen == [expected() for _ in range(5)]
    assert agent.rank().ranking.tolist() == expected()
    agent.reseed(9)
    uniforms = make_rng(9)
    assert agent.rank().ranking.tolist() == expected()


def test_a_shared_generator_is_called_once_per_round() -> None:
    shared, same = np.random.default_rng(5), np.random.default_rng(5)
    agent = Agent(Uniform(), m=4, k=1, seed=shared)
    for _ in range(3):
        agent.rank()
        same.random(3)
        assert shared.random() == same.random()


def test_features_of_items_that_are_not_available_are_left_out() -> None:
    agent = Agent(Greedy(DCG()), m=4, k=1, d=2)
    decision = agent.rank(np.arange(8).reshape(4, 2), available=[3, 1])
    assert sorted(decision.ranking.tolist()) == [1, 3]
    assert decision.features.tolist() == [[2, 3], [6, 7]]
    agent.update(decision, [1])
    assert agent.n_feedback == 1


@pytest.mark.parametrize("answer", [1, 1.0, True, np.int64(1), np.float32(1), math.nan])
def test_a_single_answer_counts_the_same_in_a_list_and_in_an_array(answer: Any) -> None:
    one, two, other = (Agent(BlockFTRL(DCG()), m=4, k=1) for _ in range(3))
    for _ in range(20):
        one.update(one.rank(), [answer])
        two.update(two.rank(), (answer,))
        other.update(other.rank(), np.array([answer], np.float64))
    assert one.dump() == two.dump() == other.dump()


@pytest.mark.parametrize("feedback", [[2], [-1], [0.5], [math.inf], [10**400], ["one"], [[1]], [], [1, 1]])
def test_a_single_answer_that_is_none_changes_nothing(feedback: Any) -> None:
    agent = Agent(BlockFTRL(DCG()), m=4, k=1)
    decision = agent.rank()
    before = agent.dump()
    with pytest.raises((ValueError, OverflowError)):
        agent.update(decision, feedback)
    assert agent.dump() == before
    agent.update(decision, [1])
    assert agent.n_feedback == 1


@pytest.mark.parametrize("learner", [DoubtSort(DCG()), MarginFTRL(DCG()), Uniform()], ids=str)
def test_uniforms_from_outside_are_those_of_the_round(learner: Any) -> None:
    """An agent that is given what another one draws does what the other one does."""
    own, told = (Agent(learner, m=5, k=2, seed=seed) for seed in (3, 4))
    rng = make_rng(3)
    for _ in range(50):
        one, two = own.rank(), told.rank(uniforms=rng.random(told.n_uniforms()))
        assert np.array_equal(one.ranking, two.ranking)
        assert np.array_equal(one.token, two.token)
        for agent, decision in ((own, one), (told, two)):
            agent.update(decision, [int(item == 2) for item in decision.ranking[:2]])
    assert np.array_equal(own.summary().estimate, told.summary().estimate)


@pytest.mark.parametrize("wrong", [[0.5], [1.0] * 6, [-0.1] * 6, [np.nan] * 6, [0.5] * 7])
def test_numbers_outside_the_unit_interval_are_rejected_as_uniforms(wrong: list[float]) -> None:
    agent = Agent(RTop1F(DCG(), horizon=100), m=5, k=1)
    with pytest.raises(ValueError, match="uniforms"):
        agent.rank(uniforms=np.array(wrong))
    assert agent.rounds == 0


def test_what_somebody_else_showed_is_learned_from() -> None:
    """As if the learner had shown it: doubtsort counts answers, whoever chose the list."""
    adopting, own = (Agent(DoubtSort(DCG()), m=5, k=2, seed=1) for _ in range(2))
    for n in range(40):
        shown = np.roll(np.arange(5), n)
        one, two = adopting.override(adopting.rank(), shown), own.rank()
        assert one.propensities is not None
        assert np.flatnonzero(one.propensities).tolist() == sorted(shown[:2].tolist())
        adopting.update(one, [n % 2, 1])
        own.update(two._replace(ranking=shown), [n % 2, 1])
    assert np.array_equal(adopting.summary().estimate, own.summary().estimate)


def test_invalid_overrides_are_rejected() -> None:
    agent = Agent(DoubtSort(DCG()), m=3, k=1)
    old = agent.rank()
    agent.rank()
    with pytest.raises(ValueError, match="only the latest decision"):
        agent.override(old, [0, 1, 2])
    with pytest.raises(ValueError, match="must hold the items of the decision"):
        agent.override(agent.rank(), [0, 1, 1])
    fixed = Agent(BlockFTRL(DCG(), horizon=100), m=3, k=1)
    with pytest.raises(ValueError, match="learns from its own rankings only"):
        fixed.override(fixed.rank(), [0, 1, 2])
