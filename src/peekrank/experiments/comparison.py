"""Which of several learners is better: differences over paired runs or folds, corrected for many comparisons."""

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

LEVEL = 0.05  # of the probability that any difference is called one by luck alone
UNCLEAR, TOO_FEW = "no difference shown", "too few runs: cannot tell"
_PLAIN = 2.25  # standard deviations between runs: where even such a difference is unclear, runs are too few
_ROUNDING = 1e-9  # of what is compared: no difference
Group = tuple[Mapping[str, Any], Mapping[str, Floats]]


def holm(p: Floats) -> Floats:
    """Adjusted p-values of Holm's step-down procedure: those up to 0.05 are significant together at 5 %.

    The i-th smallest of n becomes the largest of (n - j + 1) p_j over j up to i, at most 1. NaN, a comparison that
    could not be made, stays NaN and does not count.

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
    """Half of the 95 % interval of a mean, by Student's distribution; NaN for one value.

    Parameters
    ----------
    values
        One for each run, or fold.
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
    """Compare every two learners of each group over their paired runs, or folds.

    The test is Student's for paired differences, since the difference of means is what is asked, and the interval
    then says the same as the p-value. Wilcoxon's test of signed ranks does not go with few runs and many
    comparisons: its smallest p-value is 1/16 for five runs and 1/512 for ten, where Holm's correction, which is
    over all comparisons of all groups, leaves nothing of it from 26 comparisons on.

    Folds have training data in common, so their outcomes go up and down together, which the plain test takes for
    certainty. The corrected resampled t test assumes a correlation of test / (test + train). A mean difference d
    over n folds, with standard deviation s, then has

        t = d / (s sqrt(1/n + test/train)),  n - 1 degrees of freedom,

    and its interval is wider by the same factor.

    Nadeau and Bengio, Inference for the Generalization Error, Machine Learning 2003.

    Parameters
    ----------
    groups
        For each the columns that tell which it is, and of each learner the outcome of each run, or fold. Runs of
        the same number have the same rounds, or data.
    lower_is_better
        Whether outcomes are losses.
    overlap
        Size of the test part over that of the training part of a fold, test/train above; 0 for independent runs.

    Returns
    -------
    A row for each two learners: columns of the group, learner, other, runs, difference (mean of the learner minus
    that of the other), low and high (95 % interval of this one difference), p, adjusted, verdict. Where an outcome
    is NaN, so are these, and the verdict says so. Runs are too few where even a difference of 2.25 standard
    deviations would be within the interval, which it is for three runs, and for four folds of a test part of a
    third of the training part: "no difference shown" would sound as if one had been looked for.

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
    """Mean, interval, p-value and adjusted p-value of each array of paired differences."""
    runs = np.array([len(d) for d in differences])
    mean = np.array([d.mean() for d in differences])
    spread = np.array([d.std(ddof=1) if len(d) > 1 else np.nan for d in differences])
    error = spread * np.sqrt(1 / runs + overlap)
    freedom = np.maximum(runs - 1, 1)
    half = np.array([half_interval(d, overlap) for d in differences])
    certain = spread <= _ROUNDING * np.abs(mean)  # two runs may agree by luck: that is no certainty
    size = np.divide(np.abs(mean), error, out=np.where(mean == 0, 0.0, np.nan), where=~certain)
    p = 2 * student.sf(size, freedom)
    return {"difference": mean, "low": mean - half, "high": mean + half, "p": p, "adjusted": holm(p)}


def _difference(outcome: Floats, other: Floats) -> Floats:
    difference: Floats = outcome - other
    size = np.maximum(np.abs(outcome), np.abs(other))
    return np.where(np.abs(difference) <= _ROUNDING * size, 0.0, difference)


def _verdict(row: Mapping[str, Any], sign: int, overlap: float) -> str:
    lost, runs = sign * row["difference"], row["runs"]
    if np.isnan(lost):
        return "no outcome: cannot tell"
    if np.isnan(row["adjusted"]):
        return "one run: cannot tell" if runs == 1 else "the same in all runs: cannot tell"
    if row["adjusted"] > LEVEL:
        return TOO_FEW if too_few(runs, overlap) else UNCLEAR
    return f"{row['learner' if lost < 0 else 'other']} is better"


def too_few(runs: int, overlap: float = 0) -> bool:
    """Whether so many runs, or folds, leave even a plain difference, of 2.25 standard deviations, unclear.

    >>> too_few(3), too_few(4), too_few(3, overlap=1 / 3), too_few(5, overlap=1 / 3)
    (True, False, True, False)
    """
    if runs < 2:
        return True
    return bool(student.ppf(1 - LEVEL / 2, runs - 1) * np.sqrt(1 / runs + overlap) > _PLAIN)
