"""Batches of sampled pairs in qrels: they can be drawn again, and nothing may change afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from peekrank import DCG
from peekrank.evaluation.judged_batches import resume, with_next_batch
from peekrank.evaluation.judging import Judging, make_pool
from peekrank.evaluation.trec import Judgement

RNG = np.random.default_rng(0)
RUNS = [{str(q): [f"d{i}" for i in RNG.permutation(8)[:5]] for q in range(4)} for _ in range(2)]
POOL = make_pool(RUNS[0], RUNS[1], DCG(5), max_grade=2)


def _grade(query: str, document: str) -> int:
    return (int(query) + int(document[1:])) % 3


def _judged(*sizes: int) -> list[Judgement]:
    query, document = POOL.pairs[4]
    other, unjudged = POOL.pairs[6]
    lines = [Judgement(query, 0, document, 1.0), Judgement(other, 0, unjudged, -2.0)]
    for size in sizes:
        lines = with_next_batch(resume(POOL, lines), lines, size)
        lines = [one._replace(grade=_grade(one.query, one.document)) if one.iteration else one for one in lines]
    return [one._replace(line=number) for number, one in enumerate(lines, 1)]


def test_batches_are_those_drawn_at_once() -> None:
    lines = _judged(5, 1, 7)
    assert [one.iteration for one in lines if one.iteration] == [1] * 5 + [2] + [3] * 7
    judging = Judging(POOL, known={POOL.pairs[4]: 1})
    for size in (5, 1, 7):
        judging.add([_grade(*POOL.pairs[i]) for i in judging.draw(size)])
    assert resume(POOL, lines).history == judging.history
    everything = _judged(5, 100)
    assert resume(POOL, everything).left == 0
    assert len({(one.query, one.document) for one in everything}) == len(everything) == len(POOL.pairs)


def test_judgements_count_down_to_the_first_missing_one() -> None:
    lines = _judged(5, 7)
    lines[-3] = lines[-3]._replace(grade=-1.0)
    judging = resume(POOL, lines)
    assert (judging.known, judging.judged, judging.missing) == (1, 9, 3)


def test_nothing_may_change_after_a_draw() -> None:
    lines = _judged(5, 7)
    name = lines[0]
    first = next(i for i, one in enumerate(lines) if one.iteration == 1)
    second = next(i for i, one in enumerate(lines) if one.iteration == 2)
    changed = list(lines)
    changed[first] = lines[first]._replace(grade=(lines[first].grade + 1) % 3)
    with pytest.raises(ValueError, match=rf"qrels, line {second + 1}: the draw here is document .*must stay as"):
        resume(POOL, changed)
    with pytest.raises(ValueError, match=rf"line {first + 1}: the draw here is"):
        resume(POOL, [one for one in lines if one != name])
    with pytest.raises(ValueError, match=rf"line {first + 1}: the draw here is"):
        resume(POOL, lines, seed=1)
    with pytest.raises(ValueError, match=rf"line {first + 1}: the draw here is"):
        resume(make_pool(RUNS[0], RUNS[1], DCG(4), max_grade=2), lines)
    unjudged = [one._replace(grade=-1.0) if i == first else one for i, one in enumerate(lines)]
    with pytest.raises(ValueError, match=rf"line {first + 1}: is not judged, but batch 2 was drawn after it"):
        resume(POOL, unjudged)
    with pytest.raises(ValueError, match=rf"line {second + 1}: batch 2, but there is no batch 1"):
        resume(POOL, [one for one in lines if one.iteration != 1])
    with pytest.raises(
        ValueError, match=rf"line {first + 1}, field 'grade': 3: must be a whole number from 0 to 2"
    ):
        resume(POOL, [one._replace(grade=3.0) if i == first else one for i, one in enumerate(lines)])
    many = [Judgement("x", 1, str(i), 1.0, i) for i in range(1000)]
    with pytest.raises(ValueError, match="line 999: batch 1 has more pairs than are left"):
        resume(POOL, many)
