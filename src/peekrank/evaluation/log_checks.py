"""Checks of a log, for every format that it may be read from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank._util.text import excerpt
from peekrank.evaluation.log import ARMS, Log, Source
from peekrank.types import Ints

_HEAVIEST = 1e6  # weight of a position
_FARTHEST = 1e100  # prediction, so that its square is a number
_SUM = 1e-6  # tolerance per candidate: propensities must add up to the number of candidates seen


@kernel
def _first_repeated(offsets: Ints, values: Ints, limit: int, stamps: Ints) -> int:
    """Return the first row whose value is repeated or not below `limit` (0: number of candidates), or -1."""
    for t in range(len(offsets) - 1):
        bound = limit if limit > 0 else offsets[t + 1] - offsets[t]
        for i in range(offsets[t], offsets[t + 1]):
            if not 0 <= values[i] < bound or stamps[values[i]] == t + 1:
                return i
            stamps[values[i]] = t + 1
    return -1


def checked(log: Log, source: Source) -> Log:
    """Validate a log and return it. Raises ValueError naming the file, row and field.

    Parameters
    ----------
    log
        The log.
    source
        Origin that errors name.
    """
    lengths, seen = log.lengths, log.seen

    def owner(row: int) -> int:
        return int(np.searchsorted(log.offsets, row, "right")) - 1

    def reject(bad: NDArray[np.bool_], field: str, what: Callable[[int], str]) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            raise source.fault(owner(row) if len(bad) == len(log.item) else row, field, what(row))

    def named(row: int) -> str:
        return f"candidate '{excerpt(log.names[log.item[row]])}'"

    if log.events.n_unique() < len(log.events):
        reject(
            log.events.is_duplicated().to_numpy(), "event", lambda t: f"'{excerpt(log.events[t])}' occurs twice"
        )
    reject(
        (log.k < 1) | (log.k > lengths), "k", lambda t: f"{log.k[t]}: must be from 1 to {lengths[t]} candidates"
    )
    misplaced = _first_repeated(log.offsets, log.position, 0, np.zeros(int(lengths.max()), np.int64))
    if misplaced >= 0:
        what = "must contain each number from 0 to the number of candidates - 1 once"
        raise source.fault(owner(misplaced), "position", what)
    twice = _first_repeated(log.offsets, log.item, len(log.names), np.zeros(len(log.names), np.int64))
    if twice >= 0:
        raise source.fault(owner(twice), "candidates", f"{named(twice)} occurs twice")
    propensity, known = log.propensity, ~np.isnan(log.propensity)
    reject(known & ~((propensity >= 0) & (propensity <= 1 + _SUM)), "propensity", lambda row: (
        f"{propensity[row]} of {named(row)}: must be a probability, from 0 to 1"))  # fmt: skip
    reject(seen & (propensity == 0), "propensity", lambda row: f"0 of {named(row)}, which was seen")
    sums, counts = (np.add.reduceat(part, log.offsets[:-1]) for part in (propensity, known))
    reject(
        (counts > 0) & (counts < lengths),
        "propensity",
        lambda _: "is missing for some candidates",
    )
    reject((counts > 0) & (np.abs(sums - log.k) > _SUM * lengths), "propensity", lambda t: (
        f"the propensities add up to {sums[t]:.6g}, but must add up to k = {log.k[t]}: a propensity is "
        "the probability to be among the first k"))  # fmt: skip
    answered = ~np.isnan(log.feedback)
    reject(answered & ~seen, "feedback", lambda row: (
        f"{log.feedback[row]:g} on {named(row)}, which was shown at position {log.position[row] + 1} and not seen "
        f"(k = {log.k[owner(row)]})"))  # fmt: skip
    possible = (log.feedback >= log.min_feedback) & (log.feedback <= log.max_feedback)
    reject(answered & ~possible, "feedback", lambda row: (
        f"{log.feedback[row]:g} on {named(row)}: must be from {log.min_feedback:g} to "
        f"{log.max_feedback:g}"))  # fmt: skip
    if log.predictions is not None:
        reject(np.abs(log.predictions) > _FARTHEST, "prediction", lambda row: (
            f"{np.asarray(log.predictions)[row]:g} of {named(row)}: must be at most {_FARTHEST:g}"))  # fmt: skip
    if log.arms is None or log.share is None or log.own is None or log.expected is None:
        return log
    within = np.repeat(log.arms >= 0, lengths)
    reject((log.arms >= 0) & ~((log.share > 0) & (log.share < 1)), "share", lambda t: (
        f"{np.asarray(log.share)[t]}: must be between 0 and 1"))  # fmt: skip
    order = np.where(within, log.own, log.position)  # any permutation passes
    misplaced = _first_repeated(log.offsets, order, 0, np.zeros(int(lengths.max()), np.int64))
    if misplaced >= 0:
        what = "must contain each number from 0 to the number of candidates - 1 once"
        raise source.fault(owner(misplaced), "own", what)
    reject(within & ~(np.abs(log.expected) <= _HEAVIEST), "expected", lambda row: (
        f"of {named(row)}: must be a number up to {_HEAVIEST:g}"))  # fmt: skip
    whole = np.repeat((log.arms >= 0) & (log.arms < ARMS.index("unmixed")), lengths)
    unseen = whole & (propensity < np.repeat(np.nan_to_num(log.share), lengths) - _SUM)
    reject(unseen & (log.own < np.repeat(log.k, lengths)), "propensity", lambda row: (
        f"{propensity[row]:g} of {named(row)}: must be at least the share of the app's own order"))  # fmt: skip
    reject(within & (propensity == 0) & (log.expected != 0), "expected", lambda row: (
        f"of {named(row)} must be 0, like its propensity"))  # fmt: skip
    return log
