"""Logs of simulated runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from peekrank import __version__
from peekrank._util.extras import extra
from peekrank.engine import Agent
from peekrank.engine.feedback import check_positions, reveal
from peekrank.evaluation.jsonl import why_no_propensities
from peekrank.evaluation.log import Log, Source
from peekrank.evaluation.log_checks import checked
from peekrank.spec import format_spec
from peekrank.types import Ints, Rounds

with extra("cli"):
    import polars as pl


def simulate_log(
    agent: Agent,
    rounds: Rounds,
    *,
    sequence: Ints | None = None,
    max_feedback: float | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Log:
    """Run an agent over rounds, and log its decisions and feedback.

    Parameters
    ----------
    agent
        The agent, which learns.
    rounds
        The rounds.
    sequence
        Number of the list of each round; None: all lists in turn.
    max_feedback
        Largest possible grade; None: the largest that the learner accepts or that occurs, whichever is smaller.
    progress
        Called with the number of further rounds done.

    >>> from peekrank import CT15, DCG, DoubtSort
    >>> rounds = CT15(m=5).rounds(100, np.random.default_rng(1))
    >>> log = simulate_log(Agent(DoubtSort(DCG()), m=5, k=2), rounds)
    >>> len(log.k), bool((log.propensity[log.seen] > 0).all())
    (100, True)
    """
    features, relevance, offsets, items = rounds[:4]
    check_positions(rounds, agent.shape.k)
    lists = np.arange(len(offsets) - 1) if sequence is None else np.asarray(sequence)
    lengths = np.diff(offsets)[lists]
    starts = np.append(0, np.cumsum(lengths))
    rows = np.repeat(offsets[:-1][lists] - starts[:-1], lengths) + np.arange(starts[-1])
    by_number = items is not None and not agent.learner.variable_length
    position, propensity, answer = (
        np.empty(len(rows), np.int64),
        np.full(len(rows), np.nan),
        np.full(len(rows), np.nan),
    )
    for t, n in enumerate(lists):
        target, source = slice(starts[t], starts[t + 1]), slice(offsets[n], offsets[n + 1])
        if by_number:
            known = items[source]  # type: ignore[index]
            X = features[source] if agent.shape.d else None
            decision = agent.rank(X, available=known, **_context(agent, rounds, n, source))
            ranking = np.searchsorted(known, decision.ranking)
        else:
            known = features[source] if features.shape[1] else None
            decision = agent.rank(known, **_context(agent, rounds, n, source))
            ranking = decision.ranking
        shown = ranking[: agent.shape.k]
        feedback = reveal(rounds, n, shown, decision.round)
        agent.update(decision, feedback)
        position[target][ranking] = np.arange(lengths[t])
        answer[target][shown] = feedback
        if decision.propensities is not None:
            propensity[target] = decision.propensities
        if t % 1000 == 999:
            progress(1000)
    progress(len(lists) % 1000)
    item = (
        items[rows]
        if items is not None
        else rows
        if features.shape[1]
        else rows - offsets[:-1][lists].repeat(lengths)
    )
    number = len(relevance) if items is None and features.shape[1] else int(item.max()) + 1
    largest = min(agent.learner.max_grade, max(1, int(relevance.max()))) if max_feedback is None else max_feedback
    none = np.full(len(lists), np.nan)
    log = Log(
        pl.Series("event", np.arange(1, len(lists) + 1)).cast(pl.String), none,
        np.minimum(agent.shape.k, lengths), np.zeros(len(lists), np.int64), starts, item, position, propensity,
        answer, np.full(len(rows), np.nan), tuple(map(str, range(number))),
        (f"{format_spec(agent.learner)} @ {__version__}",),
        (why_no_propensities(agent.learner) if np.isnan(propensity).any() else "",), 0.0, float(largest),
        features[rows] if features.shape[1] else None, None,
        None if rounds.scores is None else rounds.scores[rows],
    )  # fmt: skip
    return checked(log, Source("log"))


def _context(agent: Agent, rounds: Rounds, n: int, rows: slice) -> dict[str, Any]:
    """Return the key and the scores of a list, each only if the learner uses it."""
    kernels = agent.learner.kernels
    context: dict[str, Any] = {}
    if rounds.scores is not None and kernels.set_scores is not None:
        context["scores"] = rounds.scores[rows]
    if rounds.keys is not None and kernels.set_key is not None and rounds.keys[n] >= 0:
        context["key"] = int(rounds.keys[n])
    return context
