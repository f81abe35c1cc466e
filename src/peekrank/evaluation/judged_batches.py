"""Batches of sampled pairs in a file of qrels: what was drawn, what was judged, and what is next.

The second column of qrels, which trec_eval ignores, is 0 for judgements made before the first draw, and the number
of the batch for pairs that were drawn, in the order of drawing. A pair drawn and not judged yet has the grade -1.
The probabilities are not in the file: they follow from the runs, the options and the earlier lines, and so do the
draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from peekrank._util.text import excerpt
from peekrank.evaluation.judging import Judging, Pool
from peekrank.evaluation.trec import Judgement

_CHANGED = (
    "the runs, the options, the predictions and all lines of earlier batches must stay as they were "
    "when it was drawn, and judgements made before the first draw need 0 in the second column"
)


def resume(pool: Pool, judgements: Sequence[Judgement], name: str = "qrels", **options: Any) -> Judging:
    """Draw the batches of a file again, and add their judgements up to the first pair that is not judged.

    Raises ValueError, with the line, if the pairs in the file are not those drawn, or a grade is not a whole
    number from 0 to the largest one.

    Parameters
    ----------
    pool
        The pairs.
    judgements
        Lines of the file.
    name
        Name of the file, for errors.
    options
        Those of `Judging`.

    >>> from peekrank import DCG
    >>> from peekrank.evaluation.judging import make_pool
    >>> pool = make_pool({"q": ["a", "b", "c"]}, {"q": ["c", "b", "a"]}, DCG(2))
    >>> lines = with_next_batch(resume(pool, []), [], 1)
    >>> lines
    [Judgement(query='q', iteration=1, document='c', grade=-1.0, line=0)]
    >>> resume(pool, [lines[0]._replace(grade=1.0)]).judged
    1
    """
    largest = len(pool.gains) - 1
    for one in judgements:
        if one.grade >= 0 and (one.grade > largest or one.grade % 1):
            raise ValueError(
                f"{_place(name, one)}, field 'grade': {one.grade:g}: must be a whole number from 0 to {largest}, "
                "the largest grade declared"
            )
    known = {
        (one.query, one.document): int(one.grade) for one in judgements if not one.iteration and one.grade >= 0
    }
    judging = Judging(pool, known=known, **options)
    batches: dict[int, list[Judgement]] = {}
    for one in judgements:
        if one.iteration:
            batches.setdefault(one.iteration, []).append(one)
    for number, (iteration, lines) in enumerate(sorted(batches.items()), 1):
        if iteration != number:
            raise ValueError(f"{_place(name, lines[0])}: batch {iteration}, but there is no batch {number}")
        if judging.missing:
            last = batches[number - 1][-judging.missing]
            raise ValueError(f"{_place(name, last)}: is not judged, but batch {number} was drawn after it")
        if len(lines) > judging.left:
            raise ValueError(f"{_place(name, lines[-1])}: batch {number} has more pairs than are left; {_CHANGED}")
        for one, i in zip(lines, judging.draw(len(lines)), strict=True):
            if pool.pairs[i] != (one.query, one.document):
                query, document = map(excerpt, pool.pairs[i])
                raise ValueError(
                    f"{_place(name, one)}: the draw here is document '{document}' of query '{query}'; {_CHANGED}"
                )
        grades = np.array([one.grade for one in lines])
        judged = int(np.argmin(np.append(grades, -1) >= 0))
        judging.add([int(grade) for grade in grades[:judged]])
    return judging


def with_next_batch(judging: Judging, judgements: Sequence[Judgement], count: int) -> list[Judgement]:
    """Draw the next pairs, and return all lines of the file with them."""
    pairs = [judging.pool.pairs[i] for i in judging.draw(count)]
    drawn = set(pairs)
    kept = [one for one in judgements if (one.query, one.document) not in drawn]  # was not judged either
    return kept + [Judgement(query, judging.batches, document, -1.0) for query, document in pairs]


def _place(name: str, one: Judgement) -> str:
    return f"{excerpt(name)}, line {one.line}"
