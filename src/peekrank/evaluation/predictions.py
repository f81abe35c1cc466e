"""Outside predictions in the doubly robust estimate: those of a model, or of an LLM that judges every candidate.

The estimate stays unbiased however poor the predictions are, because it uses them only through the predicted
gain of each row, which depends on earlier decisions and on nothing observed in this one. The slope is fitted to
earlier decisions, so useless predictions get a slope near zero ("power tuning"), and intervals stay valid at all
times.

References
----------
Angelopoulos, Duchi & Zrnic (2023), PPI++: efficient prediction-powered inference. Ao et al. (2026), arXiv
2601.21471.
"""

from __future__ import annotations

import numpy as np

from peekrank._jit import kernel
from peekrank.evaluation.estimators import Rows
from peekrank.types import Floats

_CAUTION = 10.0  # observations after which the slope is half of the fitted one
TOTALS = 4  # sum and number of predictions of rows seen, sums of products and of squares


@kernel
def adjust_means(
    rows: Rows, predictions: Floats, sums: Floats, counts: Floats, totals: Floats, out: Floats
) -> None:
    """Add slope x (prediction - mean prediction of the subject) to each predicted gain.

    The slope regresses what earlier means missed on the deviation of the prediction. A row without a prediction
    stays as it is.

    Parameters
    ----------
    rows
        Observations.
    predictions
        One for each row, on any scale; NaN: missing.
    sums, counts
        Sum and number of predictions of each subject in rows seen, at first zeros; modified.
    totals
        `TOTALS` zeros at first; modified.
    out
        The result of `fill_means`; modified.

    >>> gain, predictions = np.tile([np.nan, 1.0, np.nan, 0.0], 100), np.tile([0.2, 0.9, 0.9, 0.2], 100)
    >>> rows = Rows(np.arange(0, 401, 2), np.full(400, 0.5), gain, np.zeros(400, np.int64), np.ones(200, int), 1.0)
    >>> out = np.full(400, 0.5)
    >>> adjust_means(rows, predictions, np.zeros(1), np.zeros(1), np.zeros(4), out)
    >>> out[-4:].round(1).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    for t in range(len(rows.seen)):
        average, slope = 0.0, 0.0
        if totals[1] > 0:
            average = totals[0] / totals[1]
        if totals[3] > 0:
            slope = totals[2] / totals[3] * totals[1] / (totals[1] + _CAUTION)
        first, last = rows.offsets[t], rows.offsets[t + 1]
        for i in range(first, last):
            if not (np.isnan(rows.gain[i]) or np.isnan(predictions[i])):
                s = rows.subject[i]
                away = predictions[i] - (sums[s] + average) / (counts[s] + 1)
                if totals[1] > 0:
                    totals[2] += away * (rows.gain[i] - out[i])
                    totals[3] += away * away
        for i in range(first, last):
            if not np.isnan(predictions[i]):
                s = rows.subject[i]
                moved = out[i] + slope * (predictions[i] - (sums[s] + average) / (counts[s] + 1))
                out[i] = min(max(moved, 0.0), rows.span)
        for i in range(first, last):
            if not (np.isnan(rows.gain[i]) or np.isnan(predictions[i])):
                sums[rows.subject[i]] += predictions[i]
                counts[rows.subject[i]] += 1
                totals[0] += predictions[i]
                totals[1] += 1
