"""The arena: learners of finite games against any game of the analyser, and outcomes that are hard for them.

A game is played as a ranking of its actions: the first one is the action, and the answer for it (k = 1) is the
number of the symbol that it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from peekrank._util.validate import check_ascending, check_int
from peekrank.engine import Seed, simulate
from peekrank.games.analysis import Analysis, analyse
from peekrank.games.cells import Border
from peekrank.games.game import Game
from peekrank.games.rates import Rate
from peekrank.regret import default_checkpoints
from peekrank.streams import fixed_items
from peekrank.types import Floats, Ints, Learner, Shape

_INSIDE = 0.9  # how far towards the end of the simplex an opponent may move from a border
_UNDECIDED = 2 / 3  # exponent to be ready for where the rate is not known


class GameTrace(NamedTuple):
    """What a run came to after each of the round counts ``checkpoints``: summed loss, that of the best action, explored."""

    checkpoints: Ints
    loss: Floats
    best: Floats
    explored: Ints

    @property
    def regret(self) -> Floats:
        """What was lost beyond the action that is best in hindsight."""
        return self.loss - self.best


class Opponent(NamedTuple):
    """Distributions of outcomes, (phases, outcomes): each holds for an equal part of the rounds."""

    name: str
    phases: Floats


class _Paid:
    """The loss of the action shown first; rounds are asked for in order, as `simulate` does."""

    name: ClassVar[str] = "paid"
    higher_is_better: ClassVar[bool] = False

    def __init__(self, game: Game, outcomes: Ints) -> None:
        self._loss, self._outcomes, self._done = game.loss, outcomes, 0

    def values(self, rankings: Ints, relevance: Any) -> Floats:  # noqa: ARG002
        now = self._outcomes[self._done : self._done + len(rankings)]
        self._done += len(rankings)
        paid: Floats = self._loss[rankings[:, 0], now]
        return paid


def play_game(
    learner: Learner,
    game: Game,
    outcomes: Any,
    *,
    seed: Seed = 0,
    checkpoints: Ints | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> GameTrace:
    """Let a learner play a game against a sequence of outcomes.

    Parameters
    ----------
    learner
        Made for this very game, as ``FeedExp3(game)`` is, or for any, as ``Uniform()`` is.
    game
        Which game.
    outcomes
        The number of the outcome of each round.
    seed
        Randomness of the learner.
    checkpoints
        After which numbers of rounds to record, ascending; None for some hundred, the last one included.
    progress
        Called now and then with the number of rounds played since.

    >>> from peekrank.games.classic import classic
    >>> from peekrank.learners.feedexp3.learner import FeedExp3
    >>> game = classic("label-efficient")
    >>> outcomes = np.arange(10_000) % 4 == 0  # tails in every fourth round
    >>> contest = play_game(FeedExp3(game, horizon=10_000), game, outcomes)
    >>> int(contest.best[-1]), int(contest.explored[-1]), round(float(contest.regret[-1]))
    (2500, 217, 375)
    """
    given = np.asarray(outcomes)
    wrong = given.ndim != 1 or len(given) == 0 or given.dtype.kind not in "biu"
    if wrong or given.min() < 0 or given.max() >= len(game.outcomes):
        raise ValueError(
            f"outcomes must hold whole numbers from 0 to {len(game.outcomes) - 1}, one for each round"
        )
    numbers = given.astype(np.int64)
    if learner.measure is not None and str(learner.measure) != str(game):
        raise ValueError(f"{learner.name} was made for another game or measure, not for this one")
    n = len(numbers)
    checkpoints = default_checkpoints(n) if checkpoints is None else check_ascending("checkpoints", checkpoints, n)
    symbols = game.signals.T.astype(np.uint8)[numbers]
    trace = simulate(
        learner,
        fixed_items(symbols),
        k=1,
        measure=_Paid(game, numbers),
        seed=seed,
        checkpoints=checkpoints,
        progress=progress,
    )
    return GameTrace(checkpoints, trace.value, _best(game, numbers, checkpoints), trace.explored)


def _best(game: Game, outcomes: Ints, checkpoints: Ints) -> Floats:
    """The least loss of any action over the first t rounds, for each t of `checkpoints`."""
    loss, counts, best, done = game.loss, np.zeros(len(game.outcomes)), np.empty(len(checkpoints)), 0
    for n, t in enumerate(checkpoints):
        counts += np.bincount(outcomes[done:t], minlength=len(counts))
        best[n], done = (loss @ counts).min(), t
    return best


def draw(opponent: Opponent, n: int, rng: np.random.Generator) -> Ints:
    """The outcomes of n rounds.

    >>> draw(Opponent("", np.array([[1.0, 0.0], [0.0, 1.0]])), 5, np.random.default_rng(0))
    array([0, 0, 0, 1, 1])
    """
    check_int("n", n, 1)
    phase = np.arange(n) * len(opponent.phases) // n
    drawn = [
        rng.choice(opponent.phases.shape[1], size=int(np.sum(phase == i)), p=p)
        for i, p in enumerate(opponent.phases)
    ]
    return np.concatenate(drawn)


def opponents(found: Analysis, horizon: int) -> list[Opponent]:
    """Outcomes that are hard for some learner or other.

    All outcomes alike; each outcome alone; and for every border of cells, up to symmetry: a point a little to
    either side, so near that it takes about all rounds to find out which, and a change from far on one side to far
    on the other.

    Parameters
    ----------
    found
        The analysis of a game.
    horizon
        Rounds to be played: the more, the nearer to the border.

    >>> from peekrank.games.classic import classic
    >>> for opponent in opponents(analyse(classic("label-efficient")), 1000):
    ...     print(opponent.name, opponent.phases.round(2).tolist())
    uniform [[0.5, 0.5]]
    always heads [[1.0, 0.0]]
    always tails [[0.0, 1.0]]
    heads just ahead of tails [[0.55, 0.45]]
    tails just ahead of heads [[0.45, 0.55]]
    from heads to tails [[0.95, 0.05], [0.05, 0.95]]
    """
    check_int("horizon", horizon, 1)
    names = found.game.outcomes
    made = [Opponent("uniform", np.full((1, len(names)), 1 / len(names)))]
    made += [Opponent(f"always {name}", row[None]) for name, row in zip(names, np.eye(len(names)), strict=True)]
    done: set[tuple[int, int]] = set()
    for border in found.cells.borders if found.cells else ():
        if (border.j, border.i) not in done:
            done.add((border.i, border.j))
            made += _around(found, border, horizon)
    return made


def _around(found: Analysis, border: Border, horizon: int) -> Iterator[Opponent]:
    loss, point = found.game.loss, border.point.astype(np.float64)
    difference = loss[border.i] - loss[border.j]
    blind = border is found.unobservable_pair and found.unobservable_direction is not None
    # Into the cell of j: where feedback has no eye for it, or else by changing each outcome by its own part.
    move = np.array(found.unobservable_direction, dtype=np.float64) if blind else point * difference
    move *= np.sign(difference @ move)
    most = _INSIDE / np.max(np.abs(move) / point)
    exponent = found.rate.exponent if found.rate else _UNDECIDED
    gap = np.abs(difference).max() * horizon ** (exponent - 1)
    near = min(most, gap / (difference @ move), *_steps_to_others(loss, border, point, move))
    i, j = (found.game.actions[a] for a in (border.i, border.j))
    for name, shifts in (
        (f"{i} just ahead of {j}", [-near]),
        (f"{j} just ahead of {i}", [near]),
        (f"from {i} to {j}", [-most, most]),
    ):
        phases = point + np.outer(shifts, move)
        yield Opponent(name, phases / phases.sum(axis=1, keepdims=True))


def _steps_to_others(loss: Floats, border: Border, point: Floats, move: Floats) -> list[float]:
    """How far from the border, to both sides, third actions stay behind."""
    others = np.setdiff1d(np.arange(len(loss)), border.neighborhood)
    behind = (loss[others] - loss[border.i]) @ point
    gain = np.max([np.abs((loss[others] - loss[a]) @ move) for a in (border.i, border.j)], axis=0)
    steps: list[float] = (behind[gain > 0] / gain[gain > 0]).tolist()
    return steps


class ArenaResult(NamedTuple):
    """How a learner fared in a game: for each horizon, mean and spread over runs against the worst opponent.

    ``opponent`` is the worst one of the last horizon, ``bound`` the learner's bound there. Where the learner does
    not fit the game, ``reason`` says why, and there is nothing else.
    """

    game: str
    rate: Rate | None
    learner: str
    horizons: tuple[int, ...]
    worst: Floats
    spread: Floats
    opponent: str
    bound: float | None
    reason: str = ""

    @property
    def exponent(self) -> float:
        """Slope of log(worst mean regret) against log(horizon); NaN where there is no regret."""
        if len(self.worst) < 2 or self.worst.min() <= 0:
            return float("nan")
        return float(np.polyfit(np.log(self.horizons), np.log(self.worst), 1)[0])


def run_arena(
    games: Mapping[str, Game],
    learners: Mapping[str, Callable[[Game, int], Learner]],
    horizons: Sequence[int],
    runs: int,
    *,
    say: Callable[[str], object] = lambda _: None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[ArenaResult]:
    """Every learner in every game, against all opponents of the game; each horizon is played by itself.

    Parameters
    ----------
    games
        By name.
    learners
        By name: what makes a learner for a game and a horizon.
    horizons
        Ascending.
    runs
        Number of runs against each opponent, with the same outcomes for all learners.
    say
        Called with each game that is done.
    progress
        Called now and then with the number of rounds played since; what it raises ends the games.

    >>> from peekrank.games.classic import classic
    >>> from peekrank.learners.feedexp3.learner import FeedExp3
    >>> (row,) = run_arena({"pennies": classic("matching-pennies")}, {"feedexp3": FeedExp3}, [1000, 4000], runs=4)
    >>> print(row.rate, row.opponent, 0 < row.worst[-1] < row.bound)
    sqrt(T) always tails True
    """
    horizons = tuple(check_ascending("horizons", horizons, 10**12).tolist())
    check_int("runs", runs, 2)
    made = []
    for name, game in games.items():
        found = analyse(game)
        made += [_crossing(name, found, key, make, horizons, runs, progress) for key, make in learners.items()]
        say(f"{name} done")
    return made


def _crossing(
    name: str,
    found: Analysis,
    key: str,
    make: Callable[[Game, int], Learner],
    horizons: tuple[int, ...],
    runs: int,
    progress: Callable[[int], None],
) -> ArenaResult:
    shape = Shape(len(found.game.actions), 0, 1)
    try:
        make(found.game, horizons[-1]).init(shape)
    except ValueError as error:
        return ArenaResult(name, found.rate, key, (), np.empty(0), np.empty(0), "", None, str(error))
    worst, spread, opponent = np.empty(len(horizons)), np.empty(len(horizons)), ""
    for h, horizon in enumerate(horizons):
        learner = make(found.game, horizon)
        tried = opponents(found, horizon)
        lost = np.array(
            [
                [_lost(learner, found.game, o, horizon, (n, run), progress) for run in range(runs)]
                for n, o in enumerate(tried)
            ]
        )
        n = int(lost.mean(axis=1).argmax())
        worst[h], spread[h], opponent = lost[n].mean(), lost[n].std(ddof=1), tried[n].name
    return ArenaResult(
        name, found.rate, key, horizons, worst, spread, opponent, learner.bound(shape, horizons[-1])
    )


def _lost(
    learner: Learner,
    game: Game,
    opponent: Opponent,
    horizon: int,
    seed: tuple[int, int],
    progress: Callable[[int], None],
) -> float:
    outcomes = draw(opponent, horizon, np.random.default_rng(seed))
    contest = play_game(learner, game, outcomes, seed=seed[1], checkpoints=np.array([horizon]), progress=progress)
    return float(contest.regret[0])
