"""Classification of a finite game, and its rate, from the definitions."""

from __future__ import annotations

from dataclasses import dataclass

from peekrank._util.progress import Progress, no_progress
from peekrank.games.cells import Border, Cells, cells
from peekrank.games.exact.numbers import Exact, UndecidedError
from peekrank.games.game import Game
from peekrank.games.observability import Signals, signals, unobservable_change
from peekrank.games.rates import Rate


@dataclass(frozen=True)
class Analysis:
    """The classification of a game by the definitions.

    ``rate`` is None if neither exact nor certified arithmetic settles a question; ``undecided`` names the
    question. ``unobservable_pair`` is a pair of neighbours whose loss difference cannot be estimated from the
    feedback of their N+ (rate T^(2/3)) or from all feedback (rate T). ``unobservable_direction`` is the direction
    that proves it.
    """

    game: Game
    cells: Cells | None
    rate: Rate | None
    unobservable_pair: Border | None = None
    unobservable_direction: Exact | None = None
    undecided: str = ""

    @property
    def globally_observable(self) -> bool | None:
        """Whether feedback can estimate the loss difference of all neighbours, or None if undecided."""
        return None if self.rate is None else self.rate != Rate.LINEAR

    @property
    def locally_observable(self) -> bool | None:
        """Whether the feedback of N+ alone can estimate all these differences, or None if undecided."""
        return None if self.rate is None else self.rate in (Rate.ZERO, Rate.SQRT)


def analyse(game: Game, known: Cells | None = None, progress: Progress = no_progress) -> Analysis:
    """Classify a game.

    Observability concerns neighbouring pairs: no learner needs the loss of an action that is never uniquely best
    (Lattimore & Szepesvari 2019). ZT's Definition 6 concerns all pairs, which is the same if all actions are
    Pareto-optimal, as in all ranking games.

    Parameters
    ----------
    game
        Any finite game.
    known
        Cells of a game with the same losses, if known. Cells do not depend on feedback.
    progress
        Callback that receives the amount of geometry done and the total.

    >>> from peekrank.games.ranking import ranking_game
    >>> print(analyse(ranking_game("p@2+sum", m=3, k=1)).rate)
    sqrt(T)

    References
    ----------
    Bartok et al. (2014), Theorem 2; Lattimore & Szepesvari (2019), Theorem 1.
    """
    try:
        known = known or cells(game, progress)
        if not known.borders:
            return Analysis(game, known, Rate.ZERO)
        if proof := _unobservable(game, known, signals(game, range(len(game.actions)))):
            return Analysis(game, known, Rate.LINEAR, *proof)
        if proof := _unobservable(game, known, None):
            return Analysis(game, known, Rate.TWO_THIRDS, *proof)
        return Analysis(game, known, Rate.SQRT)
    except UndecidedError as error:
        return Analysis(game, known, None, undecided=str(error))


def _unobservable(game: Game, known: Cells, available: Signals | None) -> tuple[Border, Exact] | None:
    """Return the first border whose loss difference the signals (None: those of its own N+) cannot estimate."""
    cache: dict[bytes, Signals] = {}
    undecided: UndecidedError | None = None
    for border in known.borders:
        if available is None:
            key = game.signals[list(border.neighborhood)].tobytes()
            if key not in cache:
                cache[key] = signals(game, border.neighborhood)
        try:
            direction = unobservable_change(game, game.difference(border.i, border.j), available or cache[key])
        except UndecidedError as error:
            undecided = error  # a later border may decide
            continue
        if direction is not None:
            return border, direction
    if undecided:
        raise undecided
    return None
