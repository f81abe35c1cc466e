"""Statistical comparison of learners over paired runs or folds, corrected for multiple comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from peekrank._util.extras import extra
from peekrank.types import Floats

with extra("cli"):
    from scipy.stats import t as student

LEVEL = 0.05  # probability that any comparison finds a difference that does not exist
UNCLEAR, TOO_FEW = "no difference shown", "too few runs: cannot tell"
_PLAIN = 2.25  # standard deviations: runs are too few if even such a difference would not be significant
_ROUNDING = 1e-9  # relative size of a difference that counts as none
Group = tuple[Mapping[str, Any], Mapping[str, Floats]]


def holm(p: Floats) -> Floats:
    """Adjust p-values by Holm's step-down procedure. Those up to 0.05 are jointly significant at 5 %.

    The i-th smallest of n p-values becomes the maximum of (n - j + 1) p_j over j <= i, but at most 1. NaN stands
    for a comparison that is impossible. It stays NaN and does not count.

    Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 1979.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3)
    array([0.03, 0.06, 0.06])
    """
    adjusted = np.full(len(p), np.nan)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]  # NaN is sorted last
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1)
    return adjusted


def half_interval(values: Floats, overlap: float = 0) -> float:
    """Compute half the width of the 95 % Student interval of a mean, or NaN for one value.

    Parameters
    ----------
    values
        One value for each run or fold.
    overlap
        As in `compare`.

    >>> round(half_interval(np.array([1.0, 2.0, 3.0])), 3)
    2.484
    """
    if len(values) == 1:
        return np.nan
    error = values.std(ddof=1) * np.sqrt(1 / len(values) + overlap)
    return float(student.ppf(1 - LEVEL / 2, len(values) - 1) * error)


def compare(groups: Sequence[Group], *, lower_is_better: bool = True, overlap: float = 0) -> pl.DataFrame:
    """Compare every two learners of each group over their paired runs or folds.

    The test is Student's t test for paired differences, because it tests the difference of means, and its interval
    agrees with its p-value. Wilcoxon's signed-rank test does not suit few runs and many comparisons. Its smallest
    p-value is 1/16 for five runs and 1/512 for ten. Holm's correction covers all comparisons of all groups, so
    with ten runs and 26 or more comparisons, no difference could be significant.

    Folds share training data, so their outcomes are correlated, and the plain test would be overconfident. The
    corrected resampled t test assumes a correlation of test / (test + train). A mean difference d over n folds,
    with standard deviation s, then has

        t = d / (s sqrt(1/n + test/train)),  n - 1 degrees of freedom,

    and its interval is wider by the same factor.

    Nadeau and Bengio, Inference for the Generalization Error, Machine Learning 2003.

    Parameters
    ----------
    groups
        For each group, the columns that identify it, and the outcomes of each learner by run or fold. Runs with
        the same number have the same rounds or data.
    lower_is_better
        Whether outcomes are losses.
    overlap
        Size of a fold's test part divided by the size of its training part (test/train above). 0 for independent
        runs.

    Returns
    -------
    A row for each pair of learners: columns of the group, learner, other, runs, difference (mean of the learner
    minus mean of the other), low and high (95 % interval of this difference), p, adjusted, verdict. If an outcome
    is NaN, so are the numbers, and the verdict says so. The verdict is "too few runs" instead of "no difference
    shown" if even a difference of 2.25 standard deviations would lie within the interval. That is the case for
    three runs, and for four folds whose test part is a third of the training part.

    >>> losses = {"a": np.array([5.0, 6, 5, 7]), "b": np.array([8.0, 9, 7, 10]), "c": np.array([5.0, 7, 4, 7])}
    >>> compare([({"k": 1}, losses)]).select("learner", "other", "difference", "verdict").rows()
    [('a', 'b', -2.75, 'a is better'), ('a', 'c', 0.0, 'no difference shown'), ('b', 'c', 2.75, 'c is better')]
    >>> compare([({}, losses)], overlap=1 / 3)["adjusted"].round(4).to_list()
    [0.0166, 1.0, 0.0166]
    """
    if not 0 <= overlap < np.inf:
        raise ValueError(f"overlap = {overlap!r}: must be a number, at least 0")
    pairs = [
        ({**columns, "learner": learner, "other": other}, _difference(outcomes[learner], outcomes[other]))
        for columns, outcomes in groups
        for learner, other in combinations(outcomes, 2)
    ]
    differences = [difference for _, difference in pairs]
    tests = _tests(differences, overlap)
    rows = [row for row, _ in pairs] or [{**groups[0][0], "learner": "", "other": ""}]  # for its columns
    table = pl.DataFrame(rows, infer_schema_length=None)[: len(pairs)].with_columns(
        runs=pl.Series(map(len, differences), dtype=pl.Int64), **{name: pl.Series(tests[name]) for name in tests}
    )
    sign = 1 if lower_is_better else -1
    verdicts = [_verdict(row, sign, overlap) for row in table.iter_rows(named=True)]
    return table.with_columns(verdict=pl.Series(verdicts, dtype=pl.String))


def _tests(differences: list[Floats], overlap: float) -> dict[str, Floats]:
    """Compute mean, interval, p-value and adjusted p-value of each array of paired differences."""
    runs = np.array([len(d) for d in differences])
    mean = np.array([d.mean() for d in differences])
    spread = np.array([d.std(ddof=1) if len(d) > 1 else np.nan for d in differences])
    error = spread * np.sqrt(1 / runs + overlap)
    freedom = np.maximum(runs - 1, 1)
    half = np.array([half_interval(d, overlap) for d in differences])
    certain = spread <= _ROUNDING * np.abs(mean)  # equal differences: the t statistic is undefined
    size = np.divide(np.abs(mean), error, out=np.where(mean == 0, 0.0, np.nan), where=~certain)
    p = 2 * student.sf(size, freedom)
    return {"difference": mean, "low": mean - half, "high": mean + half, "p": p, "adjusted": holm(p)}


def _difference(outcome: Floats, other: Floats) -> Floats:
    difference: Floats = outcome - other
    size = np.maximum(np.abs(outcome), np.abs(other))
    return np.where(np.abs(difference) <= _ROUNDING * size, 0.0, difference)


def _verdict(row: Mapping[str, Any], sign: int, overlap: float) -> str:
    excess, runs = sign * row["difference"], row["runs"]
    if np.isnan(excess):
        return "no outcome: cannot tell"
    if np.isnan(row["adjusted"]):
        return "one run: cannot tell" if runs == 1 else "the same in all runs: cannot tell"
    if row["adjusted"] > LEVEL:
        return TOO_FEW if too_few(runs, overlap) else UNCLEAR
    return f"{row['learner' if excess < 0 else 'other']} is better"


def too_few(runs: int, overlap: float = 0) -> bool:
    """Return whether even a difference of 2.25 standard deviations would not be significant with these runs.

    >>> too_few(3), too_few(4), too_few(3, overlap=1 / 3), too_few(5, overlap=1 / 3)
    (True, False, True, False)
    """
    if runs < 2:
        return True
    return bool(student.ppf(1 - LEVEL / 2, runs - 1) * np.sqrt(1 / runs + overlap) > _PLAIN)
