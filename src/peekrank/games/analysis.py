"""The class of a finite game and its rate, from the definitions."""

from __future__ import annotations

from dataclasses import dataclass

from peekrank.games.cells import Border, Cells, Progress, cells, silent
from peekrank.games.exact.numbers import Exact, UndecidedError
from peekrank.games.game import Game
from peekrank.games.observability import Signals, signals, unseen_change
from peekrank.games.rate import Rate


@dataclass(frozen=True)
class Analysis:
    """What the definitions say of a game.

    ``rate`` is None where neither exact nor certified arithmetic settles a question; ``undecided`` says which.
    ``blind`` is a pair of neighbours whose loss difference the feedback of their N+ (rate T^(2/3)) or all feedback
    (rate T) cannot estimate, and ``unseen`` the direction that proves it.
    """

    game: Game
    cells: Cells | None
    rate: Rate | None
    unobservable_pair: Border | None = None
    unobservable_direction: Exact | None = None
    undecided: str = ""

    @property
    def globally_observable(self) -> bool | None:
        """Whether feedback can estimate the loss difference of all neighbours."""
        return None if self.rate is None else self.rate != Rate.LINEAR

    @property
    def locally_observable(self) -> bool | None:
        """Whether the feedback of actions that are optimal wherever both neighbours are suffices for that."""
        return None if self.rate is None else self.rate in (Rate.ZERO, Rate.SQRT)


def analyse(game: Game, known: Cells | None = None, progress: Progress = silent) -> Analysis:
    """Classify a game.

    Observability is asked of neighbouring pairs: no learner needs the loss of an action that is never uniquely
    best (Lattimore & Szepesvari 2019). ZT's Definition 6 asks it of all pairs, which is the same where all actions
    are Pareto-optimal, as in all ranking games.

    Parameters
    ----------
    game
        Any finite game.
    known
        The cells, if a game with the same losses has been analysed already: they do not depend on feedback.
    progress
        Called with what of the geometry is done, and of how much.

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
        if blind := _blind(game, known, signals(game, range(len(game.actions)))):
            return Analysis(game, known, Rate.LINEAR, *blind)
        if blind := _blind(game, known, None):
            return Analysis(game, known, Rate.TWO_THIRDS, *blind)
        return Analysis(game, known, Rate.SQRT)
    except UndecidedError as error:
        return Analysis(game, known, None, undecided=str(error))


def _blind(game: Game, known: Cells, seen: Signals | None) -> tuple[Border, Exact] | None:
    """The first border whose difference these signals (None: those of its own N+) cannot estimate."""
    cache: dict[bytes, Signals] = {}
    undecided: UndecidedError | None = None
    for border in known.borders:
        if seen is None:
            key = game.signals[list(border.neighborhood)].tobytes()
            if key not in cache:
                cache[key] = signals(game, border.neighborhood)
        try:
            unseen = unseen_change(game, game.difference(border.i, border.j), seen or cache[key])
        except UndecidedError as error:
            undecided = error  # a later border may decide
            continue
        if unseen is not None:
            return border, unseen
    if undecided:
        raise undecided
    return None
