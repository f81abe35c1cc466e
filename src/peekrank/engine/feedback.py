"""What learners are told of the lists they show: relevance, or what is made of visitors' clicks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.engine.entry_points import Counts, count_answer
from peekrank.streams.click_stream import COINS, fill_feedback
from peekrank.types import ClickFeedback, ClickProbabilities, Floats, Grades, Ints, Rounds

_NOTHING: Floats = np.empty(0)
_NO_RANKING = "the learner's rank kernel fills a ranking with something else than its items"
NOBODY = ClickFeedback(
    ClickProbabilities(_NOTHING, _NOTHING, _NOTHING), 1.0, _NOTHING, _NOTHING, cascade=False, key=0
)


class FeedbackSource(NamedTuple):
    """Who tells a learner something, what it makes of each grade, and memory to work in."""

    visitors: ClickFeedback
    transformed: Floats
    coins: Floats


@kernel
def reveal_relevance(
    listening: FeedbackSource,
    counts: Counts,
    t: int,  # noqa: ARG001
    here: Ints,
    relevance: Grades,
    ranking: Ints,
    seen: Floats,
) -> None:
    """Tell the relevance of the items that are seen. Parameters as for `reveal_clicks`."""
    for p in range(len(seen)):
        if not 0 <= ranking[p] < len(relevance):
            raise ValueError(_NO_RANKING)
        seen[p] = listening.transformed[relevance[ranking[p]]]
        count_answer(counts.answers, here[ranking[p]])


@kernel
def reveal_clicks(
    listening: FeedbackSource, counts: Counts, t: int, here: Ints, relevance: Grades, ranking: Ints, seen: Floats
) -> None:
    """Tell what is made of clicks on the items that are seen.

    Parameters
    ----------
    listening
        Who tells it to whom.
    counts
        Rounds before this chunk, and answers, which are counted.
    t
        Number of the round in this chunk, from 0.
    here, relevance
        Each item of the list, and its grade.
    ranking
        What is shown.
    seen
        Filled, a number for each position; NaN where nothing is told.
    """
    for p in range(len(seen)):
        if not 0 <= ranking[p] < len(relevance):
            raise ValueError(_NO_RANKING)
    uniforms = listening.coins[: COINS * len(seen)]
    told = fill_feedback(listening.visitors, counts.rounds[0] + t + 1, relevance, ranking, uniforms, seen)
    for p in range(told):
        seen[p] = listening.transformed[int(seen[p])]
        count_answer(counts.answers, here[ranking[p]])


def tell(rounds: Rounds, n: int, ranking: Ints, number: int) -> Floats:
    """What a learner is told of items it showed in a list, by their rows from the top; NaN for nothing.

    Parameters
    ----------
    rounds
        What happens.
    n
        Which list.
    ranking
        What was seen.
    number
        Number of the round, from 1; it decides the luck of its visitor.

    >>> from peekrank.streams import stream
    >>> rounds = stream("clicks:stream=bernoulli:means=0.0+1.0+1.0,model=cascade").rounds(1, np.random.default_rng(0))
    >>> tell(rounds, 0, np.array([0, 1, 2]), 1)  # nobody looks below a click
    array([ 0.,  1., nan])
    """
    relevance = rounds.relevance[rounds.offsets[n] : rounds.offsets[n + 1]]
    if rounds.visitors is None:
        return relevance[ranking].astype(np.float64)
    out = np.empty(len(ranking))
    fill_feedback(rounds.visitors, number, relevance, ranking, np.empty(COINS * len(out)), out)
    return out


def check_positions(rounds: Rounds, k: int) -> None:
    """Raise a ValueError if visitors do not know what to do at some of the positions that are seen."""
    visitors, longest = rounds.visitors, int(np.diff(rounds.offsets).max())
    if visitors is not None and min(k, longest) > (known := len(visitors.p_one_without_click)):
        raise ValueError(f"k = {k}: the curve of the visitors describes the first {known} positions")
