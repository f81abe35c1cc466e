"""What every learner must do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, ClassVar, get_args, get_type_hints

import numpy as np

from peekrank.checks.common import CheckError, require, run_all, specification_round_trips
from peekrank.engine import Agent, drive, play, problem_shape, simulate
from peekrank.engine.saved import arrays_of
from peekrank.learners import Uniform
from peekrank.measures import measure as measure_named
from peekrank.regret import best_values, regret
from peekrank.streams import available_items, fixed_items
from peekrank.types import Decision, Features, Floats, Grades, Ints, Learner, Rounds, Shape, missing_members

_M, _K, _ROUNDS = 6, 2, 300
_FEATURES = (
    np.random.default_rng(3).normal(size=(_M, 4)).astype(np.float32)
)  # of the items, for learners that use them
_LONG_ENOUGH = 2000  # rounds in which a learner must have learned
_NO_HORIZON = 4000  # rounds for a learner that is tuned to none
_SEEDS = 4
_DRAWS = 2000  # by which chances are checked
_DEVIATIONS = 6  # standard deviations by which they may be off


def check_learner(learner: Learner) -> None:
    """Run every check of a learner."""
    run_all(LEARNER_CHECKS, learner)


def _agent(learner: Learner, seed: int = 0) -> Agent:
    return Agent(learner, m=_M, k=_K, d=_features(learner).shape[1], seed=seed)


def _shape(learner: Learner) -> Shape:
    return problem_shape(learner, m=_M, k=_K, d=_features(learner).shape[1])


def _features(learner: Learner) -> Features:
    return _FEATURES if learner.contextual else _FEATURES[:, :0]


def _with_features(learner: Learner, relevance: Grades) -> Rounds:
    """Rounds over the same items."""
    return fixed_items(relevance)._replace(features=np.tile(_features(learner), (len(relevance), 1)))


def _relevance(learner: Learner, seed: int = 0) -> Grades:
    top = min(learner.max_grade, 4)
    return np.random.default_rng(seed).integers(0, top + 1, size=(_ROUNDS, _M), dtype=np.uint8)


def _step(agent: Agent, relevance: Grades) -> Decision:
    decision = _rank(agent)
    agent.update(decision, relevance[decision.ranking[: agent.shape.k]])
    return decision


def _rank(agent: Agent) -> Decision:
    return agent.rank(_features(agent.learner))


def _shown(learner: Learner, relevance: Grades) -> Ints:
    """All rankings that a simulation shows."""
    recorder = _Recorder()
    simulate(learner, _with_features(learner, relevance), k=_K, measure=recorder)
    return np.concatenate(recorder.rankings)


class _Recorder:
    """A measure that finds nothing and remembers everything."""

    name: ClassVar[str] = "recorder"
    higher_is_better: ClassVar[bool] = True

    def __init__(self) -> None:
        self.rankings: list[Ints] = []

    def values(self, rankings: Ints, relevance: Any) -> Floats:  # noqa: ARG002
        self.rankings.append(rankings.copy())
        return np.zeros(len(rankings))


def every_member_is_there(learner: Learner) -> None:
    """It has every member of `peekrank.types.Learner`."""
    missing = missing_members(learner)
    require(not missing, f"{type(learner).__name__} lacks {', '.join(missing)}")


def rankings_are_permutations(learner: Learner) -> None:
    """Every ranking holds every item once, and the explored mark of the token is 0 or 1."""
    agent = _agent(learner)
    for relevance in _relevance(learner):
        ranking, token = (decision := _rank(agent)).ranking, decision.token
        require(np.array_equal(np.sort(ranking), np.arange(_M)), f"{ranking} is not a permutation")
        require(np.isfinite(token).all(), f"token {token} is not finite")
        require(token[0] in (0, 1), f"token[0] = {token[0]} is no explored mark")
        agent.update(decision, relevance[ranking[: agent.shape.k]])


def inputs_stay_as_they_were(learner: Learner) -> None:
    """Kernels change their state, the ranking and the token they fill, and nothing else."""
    features, ranking = _features(learner), np.empty(_M, np.int64)
    shape = _shape(learner)
    state, rng = learner.init(shape), np.random.default_rng(0)
    for _ in range(_ROUNDS):
        uniforms, token = rng.random(learner.draws(shape)), np.zeros(learner.token_size(shape))
        before = uniforms.copy()
        learner.kernels.rank(state, features, uniforms, ranking, token)
        require(np.array_equal(before, uniforms), "rank changes the uniforms it is given")
        feedback = rng.integers(0, 2, shape.k).astype(np.float64)
        kept = ranking.copy(), token.copy(), feedback.copy()
        learner.kernels.update(state, features, ranking, token, feedback)
        for name, old, new in zip(("ranking", "token", "feedback"), kept, (ranking, token, feedback), strict=True):
            require(np.array_equal(old, new), f"update changes the {name} it is given")


def same_seed_same_trajectory(learner: Learner) -> None:
    """All randomness comes from the uniforms: no generator of its own, no global one."""
    relevance = _relevance(learner)
    require(
        np.array_equal(_shown(learner, relevance), _shown(learner, relevance)),
        "two simulations with the same seed differ",
    )


def play_equals_simulate(learner: Learner) -> None:
    """Step by step and compiled give the same bits, and leave the same memory and counts."""
    relevance = _relevance(learner)
    rounds, measure = _with_features(learner, relevance), measure_named("dcg")
    one = play(learner, rounds, k=_K, measure=measure, seed=3)
    two = simulate(learner, rounds, k=_K, measure=measure, seed=3)
    for name, a, b in zip(one._fields, one, two, strict=True):
        require(np.array_equal(a, b), f"play and simulate differ in their {name}")
    asked, driven = _agent(learner), _agent(learner)
    for row in relevance:
        _step(asked, row)
    drive([driven], rounds, measure=measure)
    require(
        asked.dump() == driven.dump(), "an agent that was driven remembers something else than one asked and told"
    )


def dump_resumes(learner: Learner) -> None:
    """An agent that was dumped and loaded goes on as if nothing had happened."""
    relevance = _relevance(learner)
    agent = _agent(learner)
    for row in relevance[: _ROUNDS // 2]:
        _step(agent, row)
    still_open = _rank(agent)
    copy = Agent.load(agent.dump(), learner)
    for one in (agent, copy):
        one.update(still_open, relevance[0][still_open.ranking[: one.shape.k]])
    for row in relevance[_ROUNDS // 2 :]:
        require(
            np.array_equal(_step(agent, row).ranking, _step(copy, row).ranking), "trajectories part after load"
        )


def says_whether_rank_is_remembered(learner: Learner) -> None:
    """`clocked` is said if rankings that nobody answers change its memory: then answers alone do not make it."""
    agent = _agent(learner)
    for row in _relevance(learner)[:20]:
        _step(agent, row)
    before = {name: array.copy() for name, array in arrays_of(agent.state) if name in learner.memory}
    for _ in range(20):
        _rank(agent)
    changed = [name for name, array in arrays_of(agent.state) if name in before and np.any(array != before[name])]
    require(learner.kernels.clocked or not changed, f"rank changes {', '.join(changed)}, and it is not clocked")


def damaged_memory_is_refused(learner: Learner) -> None:
    """Every array of its memory is checked when it was read: `fault` finds what is NaN or below zero all over."""
    agent = _agent(learner)
    for row in _relevance(learner)[:20]:
        _step(agent, row)
    require(not (fault := learner.fault(agent.state)), f"fault finds '{fault}' in a state that is as it should be")
    for name in learner.memory:
        state = deepcopy(agent.state)
        array = dict(arrays_of(state))[name]
        if array.size:
            array.flags.writeable = True
            array[...] = np.nan if array.dtype.kind == "f" else -1
            require(
                learner.fault(state), f"fault finds nothing in a state whose {name} is {array.flat[0]} all over"
            )


def looking_changes_nothing(learner: Learner) -> None:
    """The present best order, the summary and the state can be looked at, and nothing is spent or changed."""
    agent = _agent(learner)
    for row in _relevance(learner)[:20]:
        _step(agent, row)
    before = agent.dump()
    order = agent.order(_features(learner))
    require(np.array_equal(np.sort(order), np.arange(_M)), f"its order {order} is not a permutation")
    require(np.isfinite(agent.summary().believed).all(), "its summary is not finite")
    repr(agent), agent.state
    require(agent.dump() == before, "order, summary, repr or state change the agent")


def chances_are_true(learner: Learner) -> None:
    """What `chances` says of a round is the same whatever is drawn, adds up to k, and comes true."""
    rank, chances = learner.kernels.rank, learner.kernels.chances
    if chances is None:
        return
    agent, X, rng = _agent(learner), _features(learner), np.random.default_rng(9)
    k, draws, size = agent.shape.k, learner.draws(agent.shape), learner.token_size(agent.shape)
    for row in _relevance(learner)[:25]:
        _step(agent, row)
    state = deepcopy(agent.state)
    arrays = dict(arrays_of(state))
    for array in arrays.values():
        array.flags.writeable = True
    kept = {name: arrays[name].copy() for name in learner.memory}
    said, seen = np.empty((_DRAWS, _M)), np.zeros(_M)
    for t in range(_DRAWS):
        ranking, token = np.empty(_M, np.int64), np.zeros(size)
        rank(state, X, rng.random(draws), ranking, token)
        after = {name: arrays[name].copy() for name in kept}
        chances(state, X, ranking, token, said[t])
        require(
            all(np.array_equal(arrays[name], after[name]) for name in kept),
            "chances changes the memory of its state",
        )
        seen[ranking[:k]] += 1
        for name, array in kept.items():
            arrays[name][...] = array
    if np.isnan(said).all():
        return
    require(np.ptp(said, axis=0).max() < 1e-9, "chances depends on what was drawn in the round")
    p = said[0]
    require(abs(p.sum() - k) < 1e-9 and p.min() >= 0 and p.max() <= 1 + 1e-12, f"{p} are no chances of {k} places")
    off = np.abs(seen / _DRAWS - p)
    most = _DEVIATIONS * np.sqrt(np.maximum(p * (1 - p), 1 / _DRAWS) / _DRAWS)
    require(np.all(off <= most), f"items were seen in {seen / _DRAWS} of the rounds, their chances being {p}")


def late_and_missing_answers(learner: Learner) -> None:
    """Answers may come late, in any order, in part or never; all is well, and the state stays finite."""
    rng = np.random.default_rng(5)
    agent = _agent(learner)
    for batch in _relevance(learner).reshape(-1, 10, _M):
        decisions = [_rank(agent) for _ in batch]
        for i in rng.permutation(len(batch))[:8]:
            answers = batch[i][decisions[i].ranking[: agent.shape.k]].astype(np.float64)
            answers[rng.random(len(answers)) < 0.3] = np.nan
            agent.update(decisions[i], answers)
        for decision in decisions:
            require(np.array_equal(np.sort(decision.ranking), np.arange(_M)), "a ranking is no permutation")
            require(np.isfinite(decision.token).all(), "a token is not finite")
    for name, array in arrays_of(agent._state):
        require(np.isfinite(array).all(), f"{name} of the state is not finite")


def only_the_top_k_is_seen(learner: Learner) -> None:
    """Whatever the relevance outside the shown top k, the whole trajectory stays the same."""
    relevance = _relevance(learner)
    shown = _shown(learner, relevance)
    k = _shape(learner).k
    scrambled = relevance.max() - relevance
    np.put_along_axis(scrambled, shown[:, :k], np.take_along_axis(relevance, shown[:, :k], 1), 1)
    require(
        np.array_equal(_shown(learner, scrambled), shown), "relevance outside the top k changes the trajectory"
    )


def bad_parameters_are_named(learner: Learner) -> None:
    """A wrong number, shape or grade is a ValueError that names what is wrong."""
    hints = get_type_hints(type(learner))
    for name in _fields(learner):
        kinds = {hints[name], *get_args(hints[name])}
        wrong = -1 if int in kinds else np.nan if float in kinds else None
        if wrong is not None:
            _raises(name, partial(type(learner), **{**_fields(learner), name: wrong}))
    for name, m, k in (("k", _M, _M + 1), ("k", _M, 0), ("m", 0, 1)):
        _raises(name, partial(Agent, learner, m=m, k=k, d=_features(learner).shape[1]))
    agent = _agent(learner)
    for wrong in (-1.0, 0.5, np.inf):
        answers = np.full(agent.shape.k, wrong)
        _raises("feedback", partial(agent.update, _rank(agent), answers))


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _raises(name: str, action: Callable[[], object]) -> None:
    try:
        action()
    except ValueError as error:
        require(name in str(error), f"the error for a bad {name} does not name it: {error}")
    else:
        raise CheckError(f"a bad {name} passes silently")


def memory_is_constant(learner: Learner) -> None:
    """What an agent keeps does not grow with the number of rounds."""
    agent = _agent(learner)
    relevance = _relevance(learner)
    _step(agent, relevance[0])
    before = len(agent.dump())
    for row in relevance:
        _step(agent, row)
    require(len(agent.dump()) < before + 500, "a dump grows with the number of rounds")


def keeps_its_bound(learner: Learner) -> None:
    """Mean regret stays below the stated bound: where relevance is clear, close, pure luck, or turns around."""
    horizon = learner.horizon or _NO_HORIZON
    bound = learner.bound(_shape(learner), horizon)
    if bound is None:
        return
    measure, end = _measure(learner), np.array([horizon])
    for name, means in _streams(horizon).items():
        lost = 0.0
        for seed in range(_SEEDS):
            rounds = _rounds(learner, means, seed)
            trace = simulate(learner, rounds, k=_K, measure=measure, seed=seed, at=end)
            lost += float(regret(measure, trace, best_values(measure, rounds, end))[0]) / _SEEDS
        require(lost <= bound, f"mean regret {lost:.1f} is above the bound {bound:.1f} on the stream '{name}'")


def learns(learner: Learner) -> None:
    """A learner with a bound beats random rankings where a few items are clearly better.

    What people answer about the items on top says nothing of the others: a learner that adds answers up without
    asking how often each item was shown locks on to what it saw first, and fails here.
    """
    if not (horizon := _horizon_to_learn_in(learner)):
        return
    measure, half = _measure(learner), np.array([horizon // 2, horizon])
    lost, random_loss = np.zeros(2), 0.0
    for seed in range(_SEEDS):
        rounds = _rounds(learner, _streams(horizon)["turn after a twentieth"], seed)
        best = best_values(measure, rounds, half)
        trace = simulate(learner, rounds, k=_K, measure=measure, seed=seed, at=half)
        lost += regret(measure, trace, best) / _SEEDS
        random_loss += _random_loss(measure, rounds, best[-1]) / _SEEDS
    require(
        lost[1] - lost[0] <= 0.25 * random_loss,
        f"in the second half it loses {lost[1] - lost[0]:.1f}, random rankings {random_loss / 2:.1f}",
    )


def learns_though_answers_are_missing(learner: Learner) -> None:
    """It also learns if two rounds in ten come back without an answer, one with half of them, and one never."""
    if not (horizon := _horizon_to_learn_in(learner)):
        return
    measure, rng = _measure(learner), np.random.default_rng(8)
    rounds = _rounds(learner, _streams(horizon)["clear"], seed=0)
    relevance, agent = rounds.relevance.reshape(-1, _M), _agent(learner)
    shown = np.empty((horizon, _M), dtype=np.int64)
    for t, (row, luck) in enumerate(zip(relevance, rng.random(horizon), strict=True)):
        decision = _rank(agent)
        shown[t] = decision.ranking
        if luck < 0.9:
            answers = row[shown[t, : agent.shape.k]].astype(np.float64)
            answers[: 0 if luck < 0.6 else len(answers) // 2 if luck < 0.7 else None] = np.nan
            agent.update(decision, answers)
    late = relevance[horizon // 2 :]
    value = float(measure.values(shown[horizon // 2 :], late).sum())
    best = float(best_values(measure, fixed_items(late), np.array([len(late)]))[0])
    random_loss = _random_loss(measure, fixed_items(late), best)
    require(
        abs(best - value) <= 0.5 * random_loss,
        f"in the second half it loses {abs(best - value):.1f}, random rankings {random_loss:.1f}",
    )


def learns_from_features(learner: Learner) -> None:
    """It loses half of what luck loses on lists of 2 to 6 items whose relevance is linear in their features."""
    if not learner.contextual:
        return
    rng, measure = np.random.default_rng(6), measure_named("ndcg")
    lengths = rng.integers(2, _M + 1, _NO_HORIZON)
    features = rng.normal(size=(lengths.sum(), _FEATURES.shape[1])).astype(np.float32)
    relevance = np.digitize(features @ [1.0, -0.5, 0.25, 0.0], [0.5, 1.5]).astype(np.uint8)
    rounds = Rounds(features, relevance, np.r_[0, np.cumsum(lengths)])
    half = np.array([_NO_HORIZON // 2, _NO_HORIZON])
    lost = []
    for one in (learner, Uniform()):
        value = simulate(one, rounds, k=_K, measure=measure, at=half).value
        lost.append(1 - float(value[1] - value[0]) / (_NO_HORIZON / 2))
    require(lost[0] <= 0.5 * lost[1], f"in the second half it loses {lost[0]:.3f} a round, random {lost[1]:.3f}")


def adopts_its_own_decisions(learner: Learner) -> None:
    """If it learns from others: what it showed itself can be adopted, any number of times, and be learned from."""
    kernels, shape = learner.kernels, _shape(learner)
    if kernels.adopt is None or kernels.chances is None:
        return
    features, ranking, told = _features(learner), np.empty(_M, np.int64), np.empty(_M)
    state, rng = learner.init(shape), np.random.default_rng(13)
    for _ in range(_ROUNDS):
        token = np.zeros(learner.token_size(shape))
        kernels.rank(state, features, rng.random(learner.draws(shape)), ranking, token)
        kernels.chances(state, features, ranking, token, told)
        kernels.adopt(state, features, ranking, told, token)
        once = token.copy()
        kernels.adopt(state, features, ranking, told, token)
        require(np.isfinite(token).all(), f"the token {token} of an adopted decision is not finite")
        require(np.array_equal(token, once), "adopting a decision twice changes the token")
        kernels.update(state, features, ranking, token, rng.integers(0, 2, shape.k).astype(np.float64))


def rank_is_best_then_explore(learner: Learner) -> None:
    """If `rank` has two halves: they do what it does, and the first one leaves nothing to chance."""
    best, explore = learner.kernels.best, learner.kernels.explore
    if best is None or explore is None:
        return
    shape, features, rng = _shape(learner), _features(learner), np.random.default_rng(14)
    whole, halves = learner.init(shape), learner.init(shape)
    rankings, tokens = np.empty((2, _M), np.int64), np.zeros((2, learner.token_size(shape)))
    for _ in range(_ROUNDS):
        uniforms, tokens[:] = rng.random(learner.draws(shape)), 0
        learner.kernels.rank(whole, features, uniforms, rankings[0], tokens[0])
        best(halves, features, rankings[1], tokens[1])
        require(np.array_equal(np.sort(rankings[1]), np.arange(_M)), f"its best order {rankings[1]} is none")
        explore(halves, features, uniforms, rankings[1], tokens[1])
        require(np.array_equal(*rankings) and np.array_equal(*tokens), "rank is not best and explore in turn")
        feedback = rng.integers(0, 2, shape.k).astype(np.float64)
        for state, ranking, token in zip((whole, halves), rankings, tokens, strict=True):
            learner.kernels.update(state, features, ranking, token, feedback)


def any_list_of_its_items(learner: Learner) -> None:
    """If it knows items one by one: drivers agree on lists of some of them, and items can be added at any time."""
    if learner.kernels.enter is None:
        return
    rng, relevance = np.random.default_rng(12), _relevance(learner)
    mask = rng.random(relevance.shape) < 0.5
    mask[np.arange(_ROUNDS), rng.integers(0, _M, _ROUNDS)] = True
    rounds, measure = available_items(relevance, mask), measure_named("dcg")
    one, two = (run(learner, rounds, k=_K, measure=measure, seed=3) for run in (play, simulate))
    for name, a, b in zip(one._fields, one, two, strict=True):
        require(np.array_equal(a, b), f"play and simulate differ in their {name} if not all items are available")
    growing, grown = (Agent(learner, m=m, k=_K, seed=4) for m in (_K, _M))
    for t, (row, here) in enumerate(zip(relevance, mask, strict=True)):
        if t % 20 == 0 and growing.shape.m < _M:
            growing.add()
        known = np.flatnonzero(here[: growing.shape.m])
        if len(known):
            one_shown, other_shown = (_told(agent, row, known) for agent in (growing, grown))
            require(
                np.array_equal(one_shown, other_shown), "an agent to which items were added shows other rankings"
            )


def _told(agent: Agent, relevance: Grades, available: Ints) -> Ints:
    decision = agent.rank(available=available)
    agent.update(decision, relevance[decision.ranking[: agent.shape.k]])
    return decision.ranking


def knows_items_by_their_numbers(learner: Learner) -> None:
    """If it knows items one by one: what it learns of an item is not taken for what it learns of a place in lists.

    Lists of the items 0 and 1, and of 1 and 2, take turns; 0 and 2 are relevant: rows of lists tell nothing.
    """
    if learner.kernels.enter is None:
        return
    top = np.uint8(min(learner.max_grade, 4))
    rows = np.tile(np.array([[1, 0, 0], [0, 0, 1]], dtype=np.uint8) * top, (_ROUNDS, 1))
    mask = np.tile(np.array([[True, True, False], [False, True, True]]), (_ROUNDS, 1))
    agent = Agent(learner, m=3, k=1)
    drive([agent], available_items(rows, mask), measure=measure_named("dcg"))
    for pair, best in (([0, 1], 0), ([1, 2], 2)):
        first = int(agent.order(available=pair)[0])
        require(
            first == best, f"of the items {pair} it takes {first} for the better one, which never was relevant"
        )


def _measure(learner: Learner) -> Any:
    return measure_named("dcg") if learner.measure is None else learner.measure


def _horizon_to_learn_in(learner: Learner) -> int | None:
    """Rounds in which a learner with a bound must have learned; None if nothing is promised."""
    horizon: int = learner.horizon or _NO_HORIZON
    bound = learner.bound(_shape(learner), horizon)
    return None if bound is None or horizon < _LONG_ENOUGH else horizon


def _streams(horizon: int) -> dict[str, Floats]:
    """Probability of each of six items to be relevant in each round."""
    clear = np.tile([0.5, 0.5, 0.1, 0.1, 0.9, 0.9], (horizon, 1))
    early, late = clear.copy(), clear.copy()
    early[: horizon // 20] = [1, 1, 0, 0, 0, 0]
    late[horizon // 2 :] = late[horizon // 2 :, ::-1]
    return {
        "clear": clear,
        "close": np.tile([0.5, 0.5, 0.48, 0.46, 0.5, 0.52], (horizon, 1)),
        "luck": np.full((horizon, _M), 0.5),
        "turn after a twentieth": early,
        "turn after a half": late,
    }


def _rounds(learner: Learner, means: Floats, seed: int) -> Rounds:
    """Rounds with these probabilities, the items in random order; relevant is what has the largest grade."""
    rng = np.random.default_rng([1, seed])  # independent of the learner's randomness, as the theorems ask
    relevant = rng.random(means.shape) < means[:, rng.permutation(_M)]
    return fixed_items(relevant.astype(np.uint8) * np.uint8(min(learner.max_grade, 4)))


def _random_loss(measure: Any, rounds: Rounds, best: float) -> float:
    """What uniformly random rankings lose, in expectation: their mean value is the mean over all rankings."""
    relevance = rounds.relevance.reshape(-1, _M)
    value = measure.offset(relevance).sum() + measure.discount(_M).mean() * measure.gain(relevance).sum()
    return float(abs(best - value))


LEARNER_CHECKS: dict[str, Callable[[Learner], None]] = {
    check.__name__: check
    for check in (
        every_member_is_there,
        rankings_are_permutations,
        inputs_stay_as_they_were,
        same_seed_same_trajectory,
        play_equals_simulate,
        dump_resumes,
        says_whether_rank_is_remembered,
        damaged_memory_is_refused,
        looking_changes_nothing,
        chances_are_true,
        late_and_missing_answers,
        only_the_top_k_is_seen,
        bad_parameters_are_named,
        specification_round_trips,
        memory_is_constant,
        keeps_its_bound,
        learns,
        learns_though_answers_are_missing,
        learns_from_features,
        adopts_its_own_decisions,
        rank_is_best_then_explore,
        any_list_of_its_items,
        knows_items_by_their_numbers,
    )
}
