"""The arena: learners play any finite game of the analyser against opponents that are hard for them.

A learner plays a game by ranking its actions. It plays the first action of the ranking, and the feedback for it
(k = 1) is the number of the symbol that the action reveals.

`feedexp3` plays every learnable game at T^(2/3), `nw2` those that allow sqrt(T) at that rate, and `uniform` any.

>>> import numpy as np
>>> from peekrank import Agent, FeedExp3, Game, analyse
>>> pump = Game.of(
...     [[0, 4, 10], [3, 1, 9], [5, 5, 5]],
...     [["runs", "runs", "stops"], ["fine", "worn", "broken"], ["-", "-", "-"]],
...     actions=["run", "service", "replace"],
...     outcomes=["fine", "worn", "broken"],
... )
>>> print(analyse(pump).rate)
T^(2/3)
>>> agent = Agent(FeedExp3(pump), m=len(pump.actions), k=1, seed=1)
>>> decision = agent.rank()
>>> pump.actions[decision.ranking[0]]
'service'
>>> agent.update(decision, [pump.symbols.index("worn")])

`play_game` plays a whole sequence of outcomes and compares it with the best action in hindsight:

>>> from peekrank import Shape
>>> from peekrank.experiments.arena import draw, opponents, play_game
>>> T = 50_000
>>> learner = FeedExp3(pump, horizon=T)
>>> days = np.random.default_rng(0).choice(3, size=T, p=[0.7, 0.2, 0.1])
>>> contest = play_game(learner, pump, days)
>>> round(float(contest.best[-1]) / T, 2), round(float(contest.regret[-1]) / T, 1)
(1.79, 0.1)
>>> round(learner.bound(Shape(3, 0, 1), T) / T, 1)  # per day, for any outcomes
0.2

`opponents` lists hard sequences: uniform or constant outcomes, points beside cell borders, and changes across.

>>> hard = opponents(analyse(pump), T)
>>> [opponent.name for opponent in hard[4:7]]
['run just ahead of service', 'service just ahead of run', 'from run to service']
>>> seed = np.random.default_rng
>>> lost = [play_game(learner, pump, draw(one, T, seed(0))).regret[-1] for one in hard]
>>> hard[int(np.argmax(lost))].name, round(float(max(lost)) / T, 1)
('always broken', 0.1)

`run_arena` builds a table of games, learners and worst opponents (docs/records/arena.md).
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

_INSIDE = 0.9  # fraction of the way from a border to the end of the simplex that an opponent may move
_UNDECIDED = 2 / 3  # exponent to assume if the rate is not known


class GameTrace(NamedTuple):
    """The curves of a run at the rounds ``checkpoints``.

    ``loss`` is the cumulative loss, ``best`` that of the best action in hindsight, and ``explored`` the number of
    exploration rounds.
    """

    checkpoints: Ints
    loss: Floats
    best: Floats
    explored: Ints

    @property
    def regret(self) -> Floats:
        """Cumulative regret against the best action in hindsight."""
        return self.loss - self.best


class Opponent(NamedTuple):
    """Distributions of outcomes, of shape (phases, outcomes). Each phase lasts for an equal part of the rounds."""

    name: str
    phases: Floats


class _PlayedLoss:
    """A measure: the loss of the action that is ranked first. It expects the rounds in order, as in `simulate`."""

    name: ClassVar[str] = "played-loss"
    higher_is_better: ClassVar[bool] = False

    def __init__(self, game: Game, outcomes: Ints) -> None:
        self._loss, self._outcomes, self._done = game.loss, outcomes, 0

    def values(self, rankings: Ints, relevance: Any) -> Floats:  # noqa: ARG002
        outcomes = self._outcomes[self._done : self._done + len(rankings)]
        self._done += len(rankings)
        losses: Floats = self._loss[rankings[:, 0], outcomes]
        return losses


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
        A learner for this game, such as ``FeedExp3(game)``, or for any game, such as ``Uniform()``.
    game
        The game.
    outcomes
        The number of the outcome of each round.
    seed
        Random seed of the learner.
    checkpoints
        Rounds after which to record, ascending. None for about a hundred, including the last one.
    progress
        Called from time to time with the number of rounds played since the last call.

    >>> from peekrank.games.classic import classic
    >>> from peekrank.learners.feedexp3.learner import FeedExp3
    >>> game = classic("label-efficient")
    >>> outcomes = np.arange(10_000) % 4 == 0  # tails in every fourth round
    >>> trace = play_game(FeedExp3(game, horizon=10_000), game, outcomes)
    >>> int(trace.best[-1]), int(trace.explored[-1]), round(float(trace.regret[-1]))
    (2500, 217, 375)
    """
    array = np.asarray(outcomes)
    is_wrong = array.ndim != 1 or len(array) == 0 or array.dtype.kind not in "biu"
    if is_wrong or array.min() < 0 or array.max() >= len(game.outcomes):
        raise ValueError(f"outcomes must be whole numbers from 0 to {len(game.outcomes) - 1}, one for each round")
    numbers = array.astype(np.int64)
    if learner.measure is not None and str(learner.measure) != str(game):
        raise ValueError(f"{learner.name} was made for another game or measure, not for this one")
    n = len(numbers)
    checkpoints = default_checkpoints(n) if checkpoints is None else check_ascending("checkpoints", checkpoints, n)
    symbols = game.signals.T.astype(np.uint8)[numbers]
    trace = simulate(
        learner,
        fixed_items(symbols),
        k=1,
        measure=_PlayedLoss(game, numbers),
        seed=seed,
        checkpoints=checkpoints,
        progress=progress,
    )
    return GameTrace(checkpoints, trace.value, _best(game, numbers, checkpoints), trace.explored)


def _best(game: Game, outcomes: Ints, checkpoints: Ints) -> Floats:
    """Compute the smallest loss of any action over the first t rounds, for each t of `checkpoints`."""
    loss, counts, best, done = game.loss, np.zeros(len(game.outcomes)), np.empty(len(checkpoints)), 0
    for n, t in enumerate(checkpoints):
        counts += np.bincount(outcomes[done:t], minlength=len(counts))
        best[n], done = (loss @ counts).min(), t
    return best


def draw(opponent: Opponent, n: int, rng: np.random.Generator) -> Ints:
    """Draw the outcomes of n rounds.

    >>> draw(Opponent("", np.array([[1.0, 0.0], [0.0, 1.0]])), 5, np.random.default_rng(0))
    array([0, 0, 0, 1, 1])
    """
    check_int("n", n, 1)
    phase = np.arange(n) * len(opponent.phases) // n
    outcomes = [
        rng.choice(opponent.phases.shape[1], size=int(np.sum(phase == i)), p=p)
        for i, p in enumerate(opponent.phases)
    ]
    return np.concatenate(outcomes)


def opponents(analysis: Analysis, horizon: int) -> list[Opponent]:
    """Make opponents, each of which is hard for some learner.

    They are: all outcomes equally likely; each outcome alone; and for every border between two cells, up to
    symmetry, a point close to it on either side, and a change from far on one side to far on the other. The close
    points are so close that it takes about all rounds to find out the side.

    Parameters
    ----------
    analysis
        The analysis of a game.
    horizon
        Number of rounds. The more rounds, the closer the points are to the border.

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
    names = analysis.game.outcomes
    result = [Opponent("uniform", np.full((1, len(names)), 1 / len(names)))]
    result += [Opponent(f"always {name}", row[None]) for name, row in zip(names, np.eye(len(names)), strict=True)]
    done: set[tuple[int, int]] = set()
    for border in analysis.cells.borders if analysis.cells else ():
        if (border.j, border.i) not in done:
            done.add((border.i, border.j))
            result += _border_opponents(analysis, border, horizon)
    return result


def _border_opponents(analysis: Analysis, border: Border, horizon: int) -> Iterator[Opponent]:
    loss, point = analysis.game.loss, border.point.astype(np.float64)
    difference = loss[border.i] - loss[border.j]
    unobservable = border is analysis.unobservable_pair and analysis.unobservable_direction is not None
    # Move into the cell of j: in the unobservable direction if there is one, otherwise in proportion to the point.
    move = np.array(analysis.unobservable_direction, dtype=np.float64) if unobservable else point * difference
    move *= np.sign(difference @ move)
    far = _INSIDE / np.max(np.abs(move) / point)
    exponent = analysis.rate.exponent if analysis.rate else _UNDECIDED
    gap = np.abs(difference).max() * horizon ** (exponent - 1)
    near = min(far, gap / (difference @ move), *_steps_to_others(loss, border, point, move))
    i, j = (analysis.game.actions[a] for a in (border.i, border.j))
    for name, shifts in (
        (f"{i} just ahead of {j}", [-near]),
        (f"{j} just ahead of {i}", [near]),
        (f"from {i} to {j}", [-far, far]),
    ):
        phases = point + np.outer(shifts, move)
        yield Opponent(name, phases / phases.sum(axis=1, keepdims=True))


def _steps_to_others(loss: Floats, border: Border, point: Floats, move: Floats) -> list[float]:
    """Compute how far one can move from the border, to both sides, before a third action becomes best."""
    others = np.setdiff1d(np.arange(len(loss)), border.neighborhood)
    behind = (loss[others] - loss[border.i]) @ point
    gain = np.max([np.abs((loss[others] - loss[a]) @ move) for a in (border.i, border.j)], axis=0)
    steps: list[float] = (behind[gain > 0] / gain[gain > 0]).tolist()
    return steps


class ArenaResult(NamedTuple):
    """The regret of a learner in a game: for each horizon, mean and spread over runs against the worst opponent.

    ``opponent`` is the worst opponent at the last horizon, and ``bound`` the learner's regret bound there. If the
    learner cannot play the game, ``reason`` says why, and the other fields are empty.
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
        """Slope of log(worst mean regret) against log(horizon), or NaN if a regret is not positive."""
        if len(self.worst) < 2 or self.worst.min() <= 0:
            return float("nan")
        return float(np.polyfit(np.log(self.horizons), np.log(self.worst), 1)[0])


def run_arena(
    games: Mapping[str, Game],
    learners: Mapping[str, Callable[[Game, int], Learner]],
    horizons: Sequence[int],
    runs: int,
    *,
    echo: Callable[[str], object] = lambda _: None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[ArenaResult]:
    """Run every learner in every game against all opponents of the game, separately for each horizon.

    Parameters
    ----------
    games
        The games by name.
    learners
        Functions by name that make a learner for a game and a horizon.
    horizons
        Numbers of rounds, ascending.
    runs
        Number of runs against each opponent. All learners play against the same outcomes.
    echo
        Called with a message after each game.
    progress
        Called from time to time with the number of rounds played since the last call. It may raise an exception
        to stop the games.

    >>> from peekrank.games.classic import classic
    >>> from peekrank.learners.feedexp3.learner import FeedExp3
    >>> (row,) = run_arena({"pennies": classic("matching-pennies")}, {"feedexp3": FeedExp3}, [1000, 4000], runs=4)
    >>> print(row.rate, row.opponent, 0 < row.worst[-1] < row.bound)
    sqrt(T) always tails True
    """
    horizons = tuple(check_ascending("horizons", horizons, 10**12).tolist())
    check_int("runs", runs, 2)
    results = []
    for name, game in games.items():
        analysis = analyse(game)
        for key, make in learners.items():
            results.append(_run_game(name, analysis, key, make, horizons, runs, progress))
        echo(f"{name} done")
    return results


def _run_game(
    name: str,
    analysis: Analysis,
    key: str,
    make: Callable[[Game, int], Learner],
    horizons: tuple[int, ...],
    runs: int,
    progress: Callable[[int], None],
) -> ArenaResult:
    shape = Shape(len(analysis.game.actions), 0, 1)
    try:
        make(analysis.game, horizons[-1]).init(shape)
    except ValueError as error:
        return ArenaResult(name, analysis.rate, key, (), np.empty(0), np.empty(0), "", None, str(error))
    worst, spread, opponent = np.empty(len(horizons)), np.empty(len(horizons)), ""
    for h, horizon in enumerate(horizons):
        learner = make(analysis.game, horizon)
        candidates = opponents(analysis, horizon)
        regrets = np.array(
            [
                [_final_regret(learner, analysis.game, o, horizon, (n, run), progress) for run in range(runs)]
                for n, o in enumerate(candidates)
            ]
        )
        n = int(regrets.mean(axis=1).argmax())
        worst[h], spread[h], opponent = regrets[n].mean(), regrets[n].std(ddof=1), candidates[n].name
    return ArenaResult(
        name, analysis.rate, key, horizons, worst, spread, opponent, learner.bound(shape, horizons[-1])
    )


def _final_regret(
    learner: Learner,
    game: Game,
    opponent: Opponent,
    horizon: int,
    seed: tuple[int, int],
    progress: Callable[[int], None],
) -> float:
    outcomes = draw(opponent, horizon, np.random.default_rng(seed))
    end = np.array([horizon])
    trace = play_game(learner, game, outcomes, seed=seed[1], checkpoints=end, progress=progress)
    return float(trace.regret[0])
