"""Lines of LETOR and SVMlight text, compiled: bytes in, a table of features, relevance and queries out."""

from __future__ import annotations

import numpy as np

from peekrank._jit import kernel
from peekrank.data._numbers import LARGEST, Bytes, decimal, whole_number
from peekrank.types import Features, Ints

_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _MINUS, _COLON = b"\t\n\r #-:"
_Q, _I, _D = b"qid"

# What parsing moves along, all in one array: next byte, rows, feature values, columns that the largest id needs,
# numbers to be worked out exactly, blank lines, lines with nothing but a comment, where a row has its query (0 if
# not known), columns needed to go on, first byte of a fault, feature id before the fault, whether lines may begin
# without relevance (0 no, 1 yes, 2 they do).
AT, ROWS, PRESENT, COLUMNS, DOUBTFUL, BLANK, COMMENTS, PLACE, NEED, FAULT, PREVIOUS, UNJUDGED, FIELDS = range(13)
BY_QID, BY_COMMENT, BY_GROUP = 1, 2, 3
MISSING = 2

# Why parsing stops, if it does: all is read, the table must change, or there is a fault.
_ON = -1
DONE, LONGER, WIDER, FROM_ZERO = range(4)
RELEVANCE, NEGATIVE, QUERY, FEATURE, VALUE, ORDER, LARGE, RETURNED, MIXED = range(4, 13)


@kernel
def after_last_newline(text: Bytes, start: int, end: int) -> int:
    """Where the last line that ends in this part ends; 0 if none does."""
    for at in range(end - 1, start - 1, -1):
        if text[at] == _NEWLINE:
            return at + 1
    return 0


@kernel
def spread_rows(features: Features, rows: int, old: int, new: int, shift: int) -> None:
    """Make rows wider, in place, with zeros: `shift` columns before what is there, the others behind."""
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
    """Whether a token ends before this byte."""
    return byte in (_SPACE, _NEWLINE, _TAB, _RETURN, _HASH)


@kernel
def _named(text: Bytes, at: int) -> tuple[int, int]:
    """Where a name of a query ends, and a number for it, above all that have 18 digits; -1 if it is empty."""
    first, value = at, np.uint64(0xCBF29CE484222325)
    while not _ends(text[at]):
        value = (value ^ np.uint64(text[at])) * np.uint64(0x100000001B3)
        at += 1
    number = np.int64(value >> np.uint64(2)) | np.int64(1 << 62)
    return at, int(number) if at > first else -1


@kernel
def _end_of_comment(text: Bytes, at: int) -> int:
    """Where its line ends; -1 if there is text after a carriage return, which is a line that would be lost."""
    while text[at] != _NEWLINE:
        if text[at] == _RETURN and not _blank(text[at + 1]) and text[at + 1] != _NEWLINE:
            return -1
        at += 1
    return at


@kernel
def _doubt(doubtful: Ints, unsure: int, start: int, end: int, row: int, column: int) -> int:
    """Keep where a number is that is to be worked out exactly; -1 is the column of relevance."""
    doubtful[unsure, 0], doubtful[unsure, 1] = start, end
    doubtful[unsure, 2], doubtful[unsure, 3] = row, column
    return unsure + 1


@kernel
def _parse_relevance(
    text: Bytes, at: int, row: int, relevance: Features, doubtful: Ints, unsure: int, cursor: Ints
) -> tuple[int, int, int]:
    """The relevance that a line begins with, if it does: why to stop, next byte, numbers in doubt."""
    start = at
    at, value, sure = decimal(text, at)
    judged = text[start] != _Q and text[at] != _COLON
    if not judged and not cursor[UNJUDGED]:
        return RELEVANCE, at, unsure
    if judged and (sure < 0 or not _ends(text[at])):
        return RELEVANCE, at, unsure
    if row > 0 and judged != (cursor[UNJUDGED] < MISSING):
        return MIXED, at, unsure
    if judged:
        if text[start] == _MINUS:
            return NEGATIVE, at, unsure
        if value > LARGEST:
            return LARGE, at, unsure
        if sure == 0:
            unsure = _doubt(doubtful, unsure, start, at, row, -1)
    else:
        at, value = start, np.float32(0)
        cursor[UNJUDGED] = MISSING
    relevance[row] = value
    return _ON, _after_blanks(text, at), unsure


@kernel
def _parse_query(
    text: Bytes, at: int, row: int, position: int, queries: Ints, names: Ints
) -> tuple[int, int, int, int]:
    """The query before the features, if it is there: why to stop, next byte, the query or -1, its position."""
    names[row, 0] = -1
    if position == BY_COMMENT or text[at] != _Q:
        return (QUERY if position == BY_QID else _ON), at, -1, position
    if text[at + 1] != _I or text[at + 2] != _D or text[at + 3] != _COLON:
        return QUERY, at, -1, position
    start = at + 4
    at, query = whole_number(text, start)
    if query < 0 or not _ends(text[at]):
        at, query = _named(text, start)
        if query < 0:
            return QUERY, at, -1, position
        if row == 0 or queries[row - 1] != query:
            names[row, 0], names[row, 1] = start, at
    if position == BY_GROUP and row > 0:
        return QUERY, at, query, position
    return _ON, _after_blanks(text, at), query, BY_QID


@kernel
def _parse_features(
    text: Bytes,
    at: int,
    row: int,
    width: int,
    base: int,
    features: Features,
    doubtful: Ints,
    unsure: int,
    cursor: Ints,
) -> tuple[int, int, int, int, int]:
    """The features of a line: why to stop, next byte, numbers in doubt, columns filled, values that were there."""
    first, filled, present = row * width, 0, 0
    while text[at] != _NEWLINE and text[at] != _HASH:
        cursor[FAULT] = at
        at, number = whole_number(text, at)
        if number < 0 or text[at] != _COLON:
            return FEATURE, at, unsure, filled, present
        column = number - base
        if column < filled:
            cursor[PREVIOUS] = filled - 1 + base
            return (FROM_ZERO if column < 0 else ORDER), at, unsure, filled, present
        if column >= width:
            cursor[NEED] = column + 1
            return WIDER, at, unsure, filled, present
        start = at + 1
        at, value, sure = decimal(text, start)
        if sure < 0 or not _ends(text[at]):
            return VALUE, at, unsure, filled, present
        if not -LARGEST <= value <= LARGEST:
            return LARGE, at, unsure, filled, present
        for gap in range(filled, column):
            features[first + gap] = 0
        features[first + column] = value
        if sure == 0:
            unsure = _doubt(doubtful, unsure, start, at, row, column)
        filled = column + 1
        present += 1
        at = _after_blanks(text, at)
    for gap in range(filled, width):
        features[first + gap] = 0
    return _ON, at, unsure, filled, present


@kernel
def _query_in_comment(text: Bytes, at: int) -> tuple[int, int]:
    """Where a comment that is nothing but the number of a query ends, and the query; -1 if it is none."""
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
    doubtful: Ints,
    cursor: Ints,
) -> int:
    """Parse whole lines up to `end`, where the last one ends; at a stop the cursor is at the start of its line.

    For each row, `names` gets where the name of its query is, if that is no number and not the one before, and
    `comments`, if it has room, where its comment is.
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
        stop, at, unsure = _parse_relevance(text, at, rows, relevance, doubtful, cursor[DOUBTFUL], cursor)
        if stop != _ON:
            return stop
        cursor[FAULT] = second = at
        stop, at, query, position = _parse_query(text, at, rows, cursor[PLACE], queries, names)
        if stop != _ON:
            return stop
        stop, at, unsure, filled, present = _parse_features(
            text, at, rows, width, base, features, doubtful, unsure, cursor
        )
        if stop != _ON:
            return stop
        if position == BY_GROUP:
            query = 0
        elif query < 0:
            cursor[FAULT], position = second, BY_COMMENT
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
        cursor[DOUBTFUL], cursor[PLACE] = unsure, position
        cursor[PRESENT] += present
        cursor[COLUMNS] = max(cursor[COLUMNS], filled)
    cursor[AT], cursor[ROWS] = at, rows
    return DONE
