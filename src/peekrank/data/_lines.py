"""Compiled parser for lines of LETOR and SVMlight text."""

from __future__ import annotations

import numpy as np

from peekrank._jit import kernel
from peekrank.data._numbers import LARGEST, Bytes, decimal, whole_number
from peekrank.types import Features, Ints

_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _MINUS, _COLON = b"\t\n\r #-:"
_Q, _I, _D = b"qid"

# Indices into the parser's state array: next byte, rows, feature values, columns that the largest id needs,
# numbers to compute exactly, blank lines, comment lines, how a row names its query (0 if not known), columns
# needed to continue, first byte of an error, feature id before the error, whether lines may begin without
# relevance (0 no, 1 yes, 2 they do).
AT, ROWS, PRESENT, COLUMNS, INEXACT, BLANK, COMMENTS, QUERY_BY, NEED, FAULT, PREVIOUS, UNJUDGED, FIELDS = range(13)
BY_QID, BY_COMMENT, BY_GROUP = 1, 2, 3
MISSING = 2

# Why parsing stops: all is read, the table must grow or shift, or the text is invalid.
_ON = -1
DONE, LONGER, WIDER, FROM_ZERO = range(4)
RELEVANCE, NEGATIVE, QUERY, FEATURE, VALUE, ORDER, LARGE, RETURNED, MIXED = range(4, 13)


@kernel
def after_last_newline(text: Bytes, start: int, end: int) -> int:
    """Return the end of the last complete line in this range, or 0 if there is none."""
    for at in range(end - 1, start - 1, -1):
        if text[at] == _NEWLINE:
            return at + 1
    return 0


@kernel
def spread_rows(features: Features, rows: int, old: int, new: int, shift: int) -> None:
    """Widen rows in place with zeros: `shift` columns before the old ones, the others after them."""
    kept = min(old, new - shift)
    for row in range(rows - 1, -1, -1):
        for column in range(kept - 1, -1, -1):
            features[row * new + shift + column] = features[row * old + column]
        for column in range(shift):
            features[row * new + column] = 0
        for column in range(shift + kept, new):
            features[row * new + column] = 0


@kernel
def narrow_rows(features: Features, rows: int, old: int, new: int) -> None:
    """Keep the first columns of each row, in place."""
    for row in range(rows):
        for column in range(new):
            features[row * new + column] = features[row * old + column]


@kernel
def _blank(byte: np.uint8) -> bool:
    return byte in (_SPACE, _TAB, _RETURN)


@kernel
def _after_blanks(text: Bytes, at: int) -> int:
    while _blank(text[at]):
        at += 1
    return at


@kernel
def _ends(byte: np.uint8) -> bool:
    """Return whether a token ends before this byte."""
    return byte in (_SPACE, _NEWLINE, _TAB, _RETURN, _HASH)


@kernel
def _parse_name(text: Bytes, at: int) -> tuple[int, int]:
    """Return the end of a query's name, and a hash above all numbers of 18 digits, or -1 if it is empty."""
    first, value = at, np.uint64(0xCBF29CE484222325)
    while not _ends(text[at]):
        value = (value ^ np.uint64(text[at])) * np.uint64(0x100000001B3)
        at += 1
    number = np.int64(value >> np.uint64(2)) | np.int64(1 << 62)
    return at, int(number) if at > first else -1


@kernel
def _end_of_comment(text: Bytes, at: int) -> int:
    """Return the end of a comment's line, or -1 if a lone carriage return would hide another line."""
    while text[at] != _NEWLINE:
        if text[at] == _RETURN and not _blank(text[at + 1]) and text[at + 1] != _NEWLINE:
            return -1
        at += 1
    return at


@kernel
def _note_inexact(inexact: Ints, n_inexact: int, start: int, end: int, row: int, column: int) -> int:
    """Record a number that must be computed exactly. Column -1 is the relevance."""
    inexact[n_inexact, 0], inexact[n_inexact, 1] = start, end
    inexact[n_inexact, 2], inexact[n_inexact, 3] = row, column
    return n_inexact + 1


@kernel
def _parse_relevance(
    text: Bytes, at: int, row: int, relevance: Features, inexact: Ints, n_inexact: int, cursor: Ints
) -> tuple[int, int, int]:
    """Parse the relevance, if there is one. Return stop code, next byte and number of inexact numbers."""
    start = at
    at, value, sure = decimal(text, at)
    judged = text[start] != _Q and text[at] != _COLON
    if not judged and not cursor[UNJUDGED]:
        return RELEVANCE, at, n_inexact
    if judged and (sure < 0 or not _ends(text[at])):
        return RELEVANCE, at, n_inexact
    if row > 0 and judged != (cursor[UNJUDGED] < MISSING):
        return MIXED, at, n_inexact
    if judged:
        if text[start] == _MINUS:
            return NEGATIVE, at, n_inexact
        if value > LARGEST:
            return LARGE, at, n_inexact
        if sure == 0:
            n_inexact = _note_inexact(inexact, n_inexact, start, at, row, -1)
    else:
        at, value = start, np.float32(0)
        cursor[UNJUDGED] = MISSING
    relevance[row] = value
    return _ON, _after_blanks(text, at), n_inexact


@kernel
def _parse_query(
    text: Bytes, at: int, row: int, query_by: int, queries: Ints, names: Ints
) -> tuple[int, int, int, int]:
    """Parse ``qid:``, if there is one. Return stop code, next byte, query or -1, and how rows name queries."""
    names[row, 0] = -1
    if query_by == BY_COMMENT or text[at] != _Q:
        return (QUERY if query_by == BY_QID else _ON), at, -1, query_by
    if text[at + 1] != _I or text[at + 2] != _D or text[at + 3] != _COLON:
        return QUERY, at, -1, query_by
    start = at + 4
    at, query = whole_number(text, start)
    if query < 0 or not _ends(text[at]):
        at, query = _parse_name(text, start)
        if query < 0:
            return QUERY, at, -1, query_by
        if row == 0 or queries[row - 1] != query:
            names[row, 0], names[row, 1] = start, at
    if query_by == BY_GROUP and row > 0:
        return QUERY, at, query, query_by
    return _ON, _after_blanks(text, at), query, BY_QID


@kernel
def _parse_features(
    text: Bytes,
    at: int,
    row: int,
    width: int,
    base: int,
    features: Features,
    inexact: Ints,
    n_inexact: int,
    cursor: Ints,
) -> tuple[int, int, int, int, int]:
    """Parse the features. Return stop code, next byte, number of inexact numbers, filled columns and values."""
    first, filled, present = row * width, 0, 0
    while text[at] != _NEWLINE and text[at] != _HASH:
        cursor[FAULT] = at
        at, number = whole_number(text, at)
        if number < 0 or text[at] != _COLON:
            return FEATURE, at, n_inexact, filled, present
        column = number - base
        if column < filled:
            cursor[PREVIOUS] = filled - 1 + base
            return (FROM_ZERO if column < 0 else ORDER), at, n_inexact, filled, present
        if column >= width:
            cursor[NEED] = column + 1
            return WIDER, at, n_inexact, filled, present
        start = at + 1
        at, value, sure = decimal(text, start)
        if sure < 0 or not _ends(text[at]):
            return VALUE, at, n_inexact, filled, present
        if not -LARGEST <= value <= LARGEST:
            return LARGE, at, n_inexact, filled, present
        for gap in range(filled, column):
            features[first + gap] = 0
        features[first + column] = value
        if sure == 0:
            n_inexact = _note_inexact(inexact, n_inexact, start, at, row, column)
        filled = column + 1
        present += 1
        at = _after_blanks(text, at)
    for gap in range(filled, width):
        features[first + gap] = 0
    return _ON, at, n_inexact, filled, present


@kernel
def _query_in_comment(text: Bytes, at: int) -> tuple[int, int]:
    """Return the end of a comment that holds only the number of a query, and the query, or -1."""
    if text[at] != _HASH:
        return at, -1
    at, query = whole_number(text, _after_blanks(text, at + 1))
    at = _after_blanks(text, at)
    return at, query if text[at] == _NEWLINE else -1


@kernel
def parse_lines(
    text: Bytes,
    end: int,
    width: int,
    base: int,
    features: Features,
    relevance: Features,
    queries: Ints,
    names: Ints,
    comments: Ints,
    inexact: Ints,
    cursor: Ints,
) -> int:
    """Parse whole lines up to `end`. If it stops earlier, the cursor is at the start of the line.

    For each row, `names` gets the location of its query's name, if that is not a number and differs from the row
    before, and `comments` gets the location of its comment, unless `comments` is empty.
    """
    at, rows = cursor[AT], cursor[ROWS]
    room = min(len(relevance), len(features) // width)
    while at < end:
        cursor[AT], cursor[ROWS] = at, rows
        at = _after_blanks(text, at)
        cursor[FAULT] = at
        if text[at] == _NEWLINE:
            cursor[BLANK] += 1
            at += 1
            continue
        if text[at] == _HASH:
            at = _end_of_comment(text, at)
            if at < 0:
                return RETURNED
            cursor[COMMENTS] += 1
            at += 1
            continue
        if rows == room:
            return LONGER
        stop, at, n_inexact = _parse_relevance(text, at, rows, relevance, inexact, cursor[INEXACT], cursor)
        if stop != _ON:
            return stop
        cursor[FAULT] = second = at
        stop, at, query, query_by = _parse_query(text, at, rows, cursor[QUERY_BY], queries, names)
        if stop != _ON:
            return stop
        stop, at, n_inexact, filled, present = _parse_features(
            text, at, rows, width, base, features, inexact, n_inexact, cursor
        )
        if stop != _ON:
            return stop
        if query_by == BY_GROUP:
            query = 0
        elif query < 0:
            cursor[FAULT], query_by = second, BY_COMMENT
            at, query = _query_in_comment(text, at)
            if query < 0:
                return QUERY
        cursor[FAULT] = comment = at
        at = _end_of_comment(text, at)
        if at < 0:
            return RETURNED
        if len(comments) > 0:
            comments[rows, 0], comments[rows, 1] = comment, at
        at += 1
        queries[rows] = query
        rows += 1
        cursor[INEXACT], cursor[QUERY_BY] = n_inexact, query_by
        cursor[PRESENT] += present
        cursor[COLUMNS] = max(cursor[COLUMNS], filled)
    cursor[AT], cursor[ROWS] = at, rows
    return DONE
