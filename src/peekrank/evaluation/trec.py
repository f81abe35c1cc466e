"""Files of TREC: runs (the rankings of a system) and qrels (judgements)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from peekrank._util.atomic import write_whole
from peekrank._util.text import excerpt
from peekrank._util.untrusted_files import read_text

_RUN = "query Q0 document rank score tag"
_QRELS = "query iteration document grade"
_LARGEST = 1e15  # scores, grades and iterations beyond this are mistakes

Run = dict[str, list[str]]  # the documents of each query, best first


class Judgement(NamedTuple):
    """A line of qrels."""

    query: str
    iteration: int
    document: str
    grade: float  # negative: not judged
    line: int = 0


def read_run(path: Path) -> Run:
    """Read a run. As in trec_eval, scores decide the order, and among equal scores the later name comes first.

    Raises ValueError, with the line, if a line is not ``query Q0 document rank score tag``, or a document occurs
    twice for a query.
    """
    scores: dict[str, dict[str, float]] = {}
    for at, (query, _, document, _, score, _) in _lines(path, _RUN):
        of_query = scores.setdefault(query, {})
        if document in of_query:
            raise ValueError(f"{at}: query {_quoted(query)} has document {_quoted(document)} twice")
        of_query[document] = _number(score, f"{at}, field 'score'")
    if not scores:
        raise ValueError(f"{excerpt(path.name)}: has no lines")
    return {
        query: sorted(sorted(found, reverse=True), key=found.__getitem__, reverse=True)
        for query, found in scores.items()
    }


def write_run(path: Path, rankings: Mapping[str, Sequence[str]], tag: str = "peekrank") -> None:
    """Write rankings as a run, with descending scores.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp(), "new.run")
    >>> write_run(path, {"q1": ["d2", "d1"]})
    >>> read_run(path)
    {'q1': ['d2', 'd1']}
    """
    _write(path, (
        f"{_word(query)} Q0 {_word(document)} {rank} {len(documents) - rank} {_word(tag)}"
        for query, documents in rankings.items()
        for rank, document in enumerate(documents, 1)
    ))  # fmt: skip


def read_qrels(path: Path) -> list[Judgement]:
    """Read judgements, in the order of the file.

    Raises ValueError, with the line, if a line is not ``query iteration document grade``, or a pair occurs twice.
    """
    found: list[Judgement] = []
    lines: dict[tuple[str, str], int] = {}
    for at, (query, iteration, document, grade) in _lines(path, _QRELS):
        line = int(at.rpartition(" ")[2])
        first = lines.setdefault((query, document), line)
        if first != line:
            pair = f"document {_quoted(document)} of query {_quoted(query)}"
            raise ValueError(f"{at}: {pair} was judged in line {first} already")
        batch = iteration.isascii() and iteration.isdigit() and len(iteration) < 16
        value = _number(grade, f"{at}, field 'grade'")
        found.append(Judgement(query, int(iteration) if batch else 0, document, value, line))
    return found


def write_qrels(path: Path, judgements: Iterable[Judgement]) -> None:
    """Write judgements.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp(), "judged.qrels")
    >>> write_qrels(path, [Judgement("q1", 0, "d2", 1.0), Judgement("q1", 1, "d1", -1.0)])
    >>> print(path.read_text(), end="")
    q1 0 d2 1
    q1 1 d1 -1
    """
    _write(path, (
        f"{_word(one.query)} {one.iteration} {_word(one.document)} {one.grade:.15g}" for one in judgements
    ))  # fmt: skip


def _lines(path: Path, form: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the fields of each line that is not blank."""
    try:
        text = read_text(path, "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{excerpt(path.name)}: is not UTF-8 text") from error
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.split()
        at = f"{excerpt(path.name)}, line {number}"
        if len(fields) not in (0, len(form.split())):
            raise ValueError(f"{at}: {_quoted(line)}: must be '{form}'")
        if fields:
            yield at, fields


def _number(text: str, at: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= _LARGEST:
        raise ValueError(f"{at}: {_quoted(text)}: must be a number")
    return value


def _quoted(text: str) -> str:
    return f"'{excerpt(text)}'"


def _word(text: str) -> str:
    """Return a name that a line can hold."""
    if text.split() != [text]:
        raise ValueError(f"{_quoted(text)}: names in TREC files must not be empty or contain blanks")
    return text


def _write(path: Path, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))
