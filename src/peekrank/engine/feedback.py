"""Feedback that learners get on the lists they show: the relevance, or grades derived from clicks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.engine.entry_points import Counts, count_answer
from peekrank.streams.click_stream import COINS, fill_feedback
from peekrank.types import ClickFeedback, ClickProbabilities, Floats, Grades, Ints, Rounds

_NOTHING: Floats = np.empty(0)
_NO_RANKING = "the learner's rank kernel put something other than its items into the ranking"
NOBODY = ClickFeedback(
    ClickProbabilities(_NOTHING, _NOTHING, _NOTHING), 1.0, _NOTHING, _NOTHING, cascade=False, key=0
)


class FeedbackSource(NamedTuple):
    """Source of a learner's feedback: the click model, the transformed value of each grade, and working memory."""

    visitors: ClickFeedback
    transformed: Floats
    coins: Floats


@kernel
def reveal_relevance(
    source: FeedbackSource,
    counts: Counts,
    t: int,  # noqa: ARG001
    items: Ints,
    relevance: Grades,
    ranking: Ints,
    seen: Floats,
) -> None:
    """Fill in the relevance of the items that are seen. Parameters as for `reveal_clicks`."""
    for p in range(len(seen)):
        if not 0 <= ranking[p] < len(relevance):
            raise ValueError(_NO_RANKING)
        seen[p] = source.transformed[relevance[ranking[p]]]
        count_answer(counts.answers, items[ranking[p]])


@kernel
def reveal_clicks(
    source: FeedbackSource, counts: Counts, t: int, items: Ints, relevance: Grades, ranking: Ints, seen: Floats
) -> None:
    """Fill in the feedback that clicks give on the items that are seen.

    Parameters
    ----------
    source
        The click model and the learner's transformed grades.
    counts
        Rounds before this chunk, and answers per item, which are incremented.
    t
        Number of the round in this chunk, from 0.
    items, relevance
        Each item of the list, and its grade.
    ranking
        The ranking shown.
    seen
        Filled with a number for each position; NaN if there is no feedback.
    """
    for p in range(len(seen)):
        if not 0 <= ranking[p] < len(relevance):
            raise ValueError(_NO_RANKING)
    uniforms = source.coins[: COINS * len(seen)]
    n_observed = fill_feedback(source.visitors, counts.rounds[0] + t + 1, relevance, ranking, uniforms, seen)
    for p in range(n_observed):
        seen[p] = source.transformed[int(seen[p])]
        count_answer(counts.answers, items[ranking[p]])


def reveal(rounds: Rounds, n: int, ranking: Ints, number: int) -> Floats:
    """Return the feedback on the rows of a list that a learner showed, from the top; NaN if there is none.

    Parameters
    ----------
    rounds
        The rounds.
    n
        Number of the list.
    ranking
        The rows that were seen.
    number
        Number of the round, from 1; it determines the random numbers of the click model.

    >>> from peekrank.streams import stream
    >>> clicks = stream("clicks:stream=bernoulli:means=0.0+1.0+1.0,model=cascade")
    >>> rounds = clicks.rounds(1, np.random.default_rng(0))
    >>> reveal(rounds, 0, np.array([0, 1, 2]), 1)  # positions below a click are not examined
    array([ 0.,  1., nan])
    """
    relevance = rounds.relevance[rounds.offsets[n] : rounds.offsets[n + 1]]
    if rounds.visitors is None:
        return relevance[ranking].astype(np.float64)
    out = np.empty(len(ranking))
    fill_feedback(rounds.visitors, number, relevance, ranking, np.empty(COINS * len(out)), out)
    return out


def check_positions(rounds: Rounds, k: int) -> None:
    """Raise ValueError if the click model does not cover the first k positions."""
    visitors, longest = rounds.visitors, int(np.diff(rounds.offsets).max())
    if visitors is not None and min(k, longest) > (known := len(visitors.p_one_without_click)):
        raise ValueError(f"k = {k}: the click model describes only the first {known} positions")
