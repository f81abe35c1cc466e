"""The reader of LETOR and SVMlight text, against a naive one, on odd files, and on broken ones."""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import re
import tempfile
import threading
import zlib
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from peekrank.data import _table, letor
from peekrank.data.dataset import Dataset
from peekrank.data.letor import read_fold, read_letor

NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
LARGEST = Fraction(float(np.finfo(np.float32).max))
MIDDLE = 2**128 - 2**103  # between the largest float32 and the one that would come next


def pack(raw: bytes) -> bytes:
    """Without the time of day: parameters of tests must be the same in every worker process."""
    return gzip.compress(raw, mtime=0)


# --- a naive reader, from the definition of the format


class Naive(NamedTuple):
    """Queries by first appearance, each with its documents: relevance and features by id."""

    queries: dict[int | str, list[tuple[float, dict[int, float]]]]
    smallest: int
    largest: int


def nearest_float32(text: bytes) -> float:
    """By exact distances; the even one of two equally near."""
    if not NUMBER.fullmatch(text):
        raise ValueError(text)
    rough = float(text)
    if rough == 0 or abs(rough) > 1e39:
        return math.inf if rough else rough
    exact = Fraction(text.decode())
    with np.errstate(over="ignore"):
        middle = np.float32(rough)
        near = [np.nextafter(middle, np.float32(-np.inf)), middle, np.nextafter(middle, np.float32(np.inf))]
    finite = [x for x in near if np.isfinite(x)]
    best = min(finite, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))
    return math.inf if abs(exact) >= LARGEST + Fraction(2) ** 103 else math.copysign(float(best), rough)


def naive(raw: bytes, features: int | None = None, base: int | None = None) -> Naive:
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    queries: dict[int | str, list[tuple[float, dict[int, float]]]] = {}
    in_comments: bool | None = None
    ids: set[int] = set()
    for line in raw.split(b"\n"):
        content, _, comment = line.partition(b"#")
        if re.search(rb"\r[^ \t\r]", comment):
            raise ValueError("a line that ends in CR alone")
        tokens = [token for token in re.split(rb"[ \t\r]+", content) if token]
        if not tokens:
            continue
        relevance = nearest_float32(tokens[0])
        if tokens[0].startswith(b"-") or math.isinf(relevance):
            raise ValueError(tokens[0])
        rest = tokens[1:]
        if in_comments is None:
            in_comments = not (rest and rest[0].startswith(b"q"))
        text = comment.strip(b" \t\r") if in_comments else rest.pop(0) if rest else b""
        match = re.fullmatch(rb"([0-9]{1,18})" if in_comments else rb"qid:(.+)", text, re.S)
        if not match:
            raise ValueError(line)
        values: dict[int, float] = {}
        for token in rest:
            number, colon, value = token.partition(b":")
            if not re.fullmatch(rb"[0-9]{1,18}", number) or not colon:
                raise ValueError(token)
            values[int(number)] = nearest_float32(value)
        if any(map(math.isinf, values.values())) or len(values) < len(rest):
            raise ValueError(line)
        if any(later <= earlier for earlier, later in pairwise(values)):
            raise ValueError(line)
        ids |= values.keys()
        query = match[1].decode(errors="backslashreplace")
        key = int(query) if re.fullmatch("[0-9]{1,18}", query) else query
        queries.setdefault(key, []).append((relevance, values))
    smallest = (0 if 0 in ids else 1) if base is None else base
    columns = features or max(ids, default=smallest - 1) - smallest + 1
    if not queries or not columns or min(ids, default=smallest) < smallest or columns > _table.MAX_FEATURES:
        raise ValueError("nothing, or too much")
    if max(ids, default=0) - smallest + 1 > columns:
        raise ValueError("id too large")
    return Naive(queries, smallest, columns + smallest - 1)


def assert_same(data: Dataset, twin: Naive) -> None:
    assert data.about.base == twin.smallest
    named = any(isinstance(query, str) for query in twin.queries)
    assert data.names == (tuple(map(str, twin.queries)) if named else ())
    assert data.queries.tolist() == (list(range(1, len(twin.queries) + 1)) if named else list(twin.queries))
    assert np.diff(data.offsets).tolist() == [len(documents) for documents in twin.queries.values()]
    rows = [document for documents in twin.queries.values() for document in documents]
    table = [[values.get(x, 0.0) for x in range(twin.smallest, twin.largest + 1)] for _, values in rows]
    np.testing.assert_array_equal(data.features, np.array(table, np.float32))
    np.testing.assert_array_equal(data.relevance, np.array([relevance for relevance, _ in rows], np.float32))
    whole = all(relevance == int(relevance) <= 255 for relevance, _ in rows)
    assert data.relevance.dtype == (np.uint8 if whole else np.float32)
    assert data.features.dtype == np.float32
    assert data.features.flags.c_contiguous
    assert data.offsets.dtype == np.int64
    assert data.queries.dtype == np.int64


def written(raw: bytes, name: str = "a.txt") -> Path:
    path = Path(FOLDER.name, name)
    path.write_bytes(raw)
    return path


FOLDER = tempfile.TemporaryDirectory()


# --- files that are odd but right

PLAIN = b"2 qid:7 1:0.5 3:1e-2\n0 qid:4 2:-.5\n1 qid:7 1:3 2:+4. # a comment: 5:6\n"
SEEN = [[0.5, 0, 0.01], [3, 4, 0], [0, -0.5, 0]]


@pytest.mark.parametrize(
    "raw",
    [
        PLAIN,
        PLAIN.rstrip(b"\n"),
        PLAIN.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + PLAIN,
        PLAIN.replace(b" ", b"\t  "),
        PLAIN.replace(b"\n", b"   \n"),
        PLAIN.replace(b"\n", b"\r \r\n"),
        b"# head\n\n \t\r\n" + PLAIN + b"\n\n#tail",
        PLAIN.replace(b" # a comment", b"#\xff\x00 comment"),
        PLAIN.replace(b"0.5", b"0.5000000000000000000000000000000000"),
        pack(PLAIN),
        pack(PLAIN[:25]) + pack(PLAIN[25:]),
    ],
)
@pytest.mark.parametrize("block", [16, 1 << 22])
def test_by_hand(raw: bytes, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letor, "_BLOCK", block)
    data = read_letor(written(raw))
    np.testing.assert_array_equal(data.features, np.array(SEEN, np.float32))
    assert data.relevance.tolist() == [2, 1, 0]
    assert data.relevance.dtype == np.uint8
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.queries.tolist() == [7, 4]
    assert data.about.base == 1
    assert data.rounds().features is data.features


def test_oddities_are_counted() -> None:
    data = read_letor(written(b"# head\n\n" + PLAIN + b" \n"))
    assert data.about.warnings == {
        "blank_lines": 2,
        "comment_lines": 1,
        "missing_values": 4,
        "scattered_queries": 1,
        "queries_in_comments": 0,
        "queries_in_group_file": 0,
        "documents_without_relevance": 0,
    }


def test_digest_is_of_the_text_and_the_source_a_name() -> None:
    plain, packed = read_letor(written(PLAIN)), read_letor(written(pack(PLAIN), "a.gz"))
    assert plain.about.digest == packed.about.digest == hashlib.sha256(PLAIN).hexdigest()
    assert (plain.about.source, packed.about.source) == ("a.txt", "a.gz")


@pytest.mark.parametrize("block", [16, 17, 40, len(PLAIN), len(PLAIN) + 1])
def test_digest_is_of_all_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letor, "_BLOCK", block)
    for raw in (PLAIN, PLAIN * 20, PLAIN.rstrip(b"\n")):
        for name, content in (("a.txt", raw), ("a.gz", pack(raw))):
            assert read_letor(written(content, name)).about.digest == hashlib.sha256(raw).hexdigest()


def test_query_numbers_in_comments() -> None:
    data = read_letor(written(b"1.5 1:0.25 # 12\n0 2:1 #12\r\n4 1:1 # 3 \n"))
    assert data.queries.tolist() == [12, 3]
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.relevance.tolist() == [1.5, 0, 4]
    assert data.about.warnings["queries_in_comments"] == 2


def test_real_relevance_is_kept_and_rounded_on_demand() -> None:
    data = read_letor(written(b"0.07 qid:1 1:1\n2.6 qid:1 1:1\n0.5 qid:1 1:1\n"))
    assert data.relevance.dtype == np.float32
    np.testing.assert_array_equal(data.relevance, np.array([0.07, 2.6, 0.5], np.float32))
    with pytest.raises(ValueError, match="real-valued"):
        data.rounds()
    assert data.graded().rounds().relevance.tolist() == [0, 3, 0]
    assert data.graded().about.rounded


@pytest.mark.parametrize("zero_at", [0, 1, 39, 40, 99])
def test_ids_count_from_zero_wherever_zero_comes(zero_at: int) -> None:
    lines = [f"0 qid:1 {0 if row == zero_at else row % 7 + 1}:{row}.5 9:2\n" for row in range(100)]
    data = read_letor(written("".join(lines).encode()))
    expected = np.zeros((100, 10))
    for row in range(100):
        expected[row, 0 if row == zero_at else row % 7 + 1] = row + 0.5
    expected[:, 9] = 2
    np.testing.assert_array_equal(data.features, expected)
    assert data.about.base == 0


def test_tables_get_wider_and_longer_with_the_file() -> None:
    sizes = [1, 1, 3, 2, 50, 49, 400] + [7] * 500 + [1000, 3]
    lines = [f"0 qid:{row // 3} {size}:{size}\n" for row, size in enumerate(sizes)]
    data = read_letor(written("".join(lines).encode()))
    assert data.features.shape == (len(sizes), 1000)
    rows, columns = np.nonzero(data.features)
    assert rows.tolist() == list(range(len(sizes)))
    assert (columns + 1).tolist() == sizes
    assert data.features[rows, columns].tolist() == sizes


def test_given_features_and_base() -> None:
    path = written(b"0 qid:1 1:1 2:2\n")
    assert read_letor(path, features=4).features.tolist() == [[1, 2, 0, 0]]
    assert read_letor(path, base=0).features.tolist() == [[0, 1, 2]]
    assert read_letor(path, features=3, base=0).features.tolist() == [[0, 1, 2]]
    assert read_letor(written(b"0 qid:1\n1 qid:1 0:5\n"), features=2).features.tolist() == [[0, 0], [5, 0]]
    assert read_letor(written(b"0 qid:1 1:3\n1 qid:1 0:5\n"), features=2).features.tolist() == [[0, 3], [5, 0]]


def test_progress_goes_up_to_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letor, "_BLOCK", 1024)
    raw = PLAIN * 500
    steps: list[tuple[float, int]] = []
    read_letor(written(raw), progress=lambda done, of: steps.append((done, of)))
    assert steps == sorted(steps)
    assert len(steps) > 10
    assert {of for _, of in steps} == {len(raw)}
    assert steps[-1][0] == len(raw)


def test_a_pipe_is_read_too() -> None:
    pipe = Path(FOLDER.name, "pipe")
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(PLAIN,))
    writer.start()
    data = read_letor(pipe)
    writer.join()
    np.testing.assert_array_equal(data.features, np.array(SEEN, np.float32))


# --- broken files


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"query,rel,f1", "'query,rel,f1' looks like CSV: give the file a name that ends in .csv"),
        (b"x qid:1 1:2", "relevance 'x' is not a finite number; expected a line such as"),
        (b"nan qid:1 1:2", "relevance 'nan' is not a finite number"),
        (b"inf qid:1 1:2", "relevance 'inf' is not a finite number"),
        (b"1e39 qid:1 1:2", "1e39 is too large for float32, whose maximum is 3.403e+38"),
        (b"1e99 qid:1 1:2", "1e99 is too large for float32"),
        (b"-1 qid:1 1:2", "relevance '-1' has a minus sign; must be 0 or more"),
        (b"1", "expected qid:N after the relevance as in '2 qid:7 1:0.5 3:1e-2 # comment', got nothing"),
        (b"1 1:2", "expected qid:N after the relevance as in '2 qid:7 1:0.5 3:1e-2 # comment', got '1:2'"),
        (b"1 1:2 # 5", "expected qid:N after the relevance as in '2 qid:7 1:0.5 3:1e-2 # comment', got '1:2'"),
        (b"1 qid: 1:2", "expected the number or name of the query after qid:"),
        (b"qid:1 1:2", "relevance is missing before 'qid:1'; only `peekrank rank` accepts documents without it"),
        (b"1 qid:1 abc", "'abc' is not a feature such as 3:0.5, with a whole number as id"),
        (b"1 qid:1 1", "'1' is not a feature"),
        (b"1 qid:1 -1:2", "'-1:2' is not a feature"),
        (b"1 qid:1 1.5:2", "'1.5:2' is not a feature"),
        (b"1 qid:1 \xff:2", "'\\xff:2' is not a feature"),
        (b"1 qid:1 1:", "feature 1 has the value '', which is not a finite number"),
        (b"1 qid:1 1:NaN", "feature 1 has the value 'NaN', which is not a finite number"),
        (b"1 qid:1 1:-inf", "feature 1 has the value '-inf', which is not a finite number"),
        (b"1 qid:1 1:1_0", "feature 1 has the value '1_0'"),
        (b"1 qid:1 1:0x10", "feature 1 has the value '0x10'"),
        (b"1 qid:1 1:1e", "feature 1 has the value '1e'"),
        (b"1 qid:1 1:2:3", "feature 1 has the value '2:3'"),
        (b"1 qid:1 1:-4e38", "-4e38 is too large for float32"),
        (b"1 qid:1 1:1e400", "1e400 is too large for float32"),
        (b"1 qid:1 1:1e99999999999999999999", "1e99999999999999999999 is too large for float32"),
        (b"1 qid:1 1:3.4028236e38", "3.4028236e38 is too large for float32"),
        (b"1 qid:1 1:3.4028235677973367e38", "3.4028235677973367e38 is too large for float32"),
        (b"1 qid:1 1:" + str(MIDDLE).encode(), "340282356779733661637539395458142568448 is too large for float32"),
        (b"1 qid:1 1:\x1b[31mRED\x1b[2J", r"feature 1 has the value '\x1b[31mRED\x1b[2J', which is not"),
        (b"1 qid:1 \0\x07", r"'\x00\x07' is not a feature"),
        ("1 qid:1 \u202e\u00e9:1".encode(), r"'\u202eé:1' is not a feature"),
        (b"1 qid:1 2:1 2:1", "feature id 2 occurs twice; ids must ascend"),
        (b"1 qid:1 5:1 3:1", "feature id 3 comes after 5; ids must ascend"),
        (b"1 qid:1 9999999:1", "feature id 9999999 is too large: at most 1,048,576 features are read"),
        (b"1 qid:1 1:" + b"z" * 100, f"'{'z' * 38}...'"),
    ],
)
def test_a_malformed_line_is_named(line: bytes, message: str) -> None:
    path = written(b"# head\n\n" + PLAIN + line + b"\n" + PLAIN)
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read_letor(path)
    assert str(caught.value).startswith("a.txt, line 6: ")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "a.txt: has no documents; expected lines such as '2 qid:7"),
        (b"\n# nothing\n", "a.txt: has no documents"),
        (b"1 qid:1\n", "a.txt: has no features"),
        (
            b"1 1:2\n",
            "a.txt, line 1: expected qid:N after the relevance as in '2 qid:7 1:0.5 3:1e-2 # comment', got '1:2'",
        ),
        (
            b"1 1:2 # 4 5\n",
            "a.txt, line 1: expected qid:N after the relevance as in '2 qid:7 1:0.5 3:1e-2 # comment', got '1:2'",
        ),
        (b"1 1:2 # 4\n1 1:2 # x\n", "a.txt, line 2: expected the number of the query as the only comment"),
        (b"1 1:2 # 4\n1 qid:4 1:2\n", "a.txt, line 2: 'qid:4' is not a feature"),
        (
            b"1 qid:1 1:2\r0 qid:1 1:3\r",
            "'0' is not a feature such as 3:0.5, with a whole number as id; lines must end in",
        ),
        (
            b"1 1:2 # 1\r0 1:3 # 1\r",
            "as in '2 qid:7 1:0.5 3:1e-2 # comment', got '1:2'; lines must end in",
        ),
        (
            b"1 qid:1 1:2 # a\r0 qid:1 1:3 # b\r",
            "a.txt, line 1: the comment continues after a carriage return; lines",
        ),
        (
            b"# head\r0 qid:1 1:3 # b\r",
            "a.txt, line 1: the comment continues after a carriage return; lines must end",
        ),
        (pack(b""), "a.txt: has no documents"),
        (pack(PLAIN * 9)[:-9], "a.txt: the compressed data ends early; is the file truncated?"),
        (pack(PLAIN) + b"junk", "a.txt: is damaged, or not entirely gzip"),
        (pack(PLAIN)[:10] + b"\x07" * 20, "a.txt: is damaged, or not entirely gzip"),
    ],
)
def test_a_broken_file_is_named(raw: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read_letor(written(raw))


def test_ids_that_do_not_fit() -> None:
    path = written(b"0 qid:1 1:1\n0 qid:1 3:1\n")
    with pytest.raises(ValueError, match="line 2: feature id 3 is above 2: features = 2 with ids from 1"):
        read_letor(path, features=2)
    with pytest.raises(ValueError, match="line 2: feature id 3 is above 2: features = 3 with ids from 0"):
        read_letor(path, features=3, base=0)
    path = written(b"0 qid:1 2:1\n0 qid:1 0:1\n")
    with pytest.raises(ValueError, match="line 2: feature id is 0, but base = 1 says that ids start at 1"):
        read_letor(path, base=1)
    with pytest.raises(ValueError, match="line 2: feature id 0 makes ids start at 0, but 2 was read before"):
        read_letor(path, features=2)
    with pytest.raises(ValueError, match="base = 2"):
        read_letor(path, base=2)
    with pytest.raises(ValueError, match="features = 0"):
        read_letor(path, features=0)


# --- numbers


def float32_read(numbers: list[str]) -> list[float]:
    text = "0 qid:1 " + " ".join(f"{i}:{number}" for i, number in enumerate(numbers, 1)) + "\n"
    return [float(x) for x in read_letor(written(text.encode())).features[0]]


DECIMAL = st.from_regex(
    r"\A[+-]?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})([eE][+-]?[0-9]{1,2})?\Z", fullmatch=True
)


@given(st.lists(DECIMAL, min_size=1, max_size=20))
def test_decimals_become_the_nearest_float32(numbers: list[str]) -> None:
    expected = [nearest_float32(number.encode()) for number in numbers]
    numbers = [number for number, value in zip(numbers, expected, strict=True) if math.isfinite(value)] or ["1"]
    assert float32_read(numbers) == [nearest_float32(number.encode()) for number in numbers]


@given(st.floats(-(2.0**127), 2.0**127, width=32), st.integers(0, 3))
def test_halfway_between_two_float32(value: float, digit: int) -> None:
    low = np.float32(value)
    high = np.nextafter(low, np.float32(np.inf))
    middle = (Fraction(float(low)) + Fraction(float(high))) / 2
    positions = middle.denominator.bit_length() - 1
    digits = str(abs(middle.numerator) * 5**positions)
    text = ("-" if middle < 0 else "") + f"{digits}e-{positions}"  # exactly
    above = ("-" if middle < 0 else "") + f"{digits}{digit}e-{positions + 1}"
    short = f"{float(middle):.17g}"
    read = float32_read([text, above, short])
    assert read == [nearest_float32(x.encode()) for x in (text, above, short)]
    assert read[0] in (float(low), float(high))


@pytest.mark.parametrize(
    "number",
    [
        "16777217",
        "16777217.000",
        "16777219.0",
        "9007199254740993",
        "0." + "0" * 400 + "1",
        "1e-99999999999999999999",
        "-1e-9999",
        "3.4028235677973362e38",
        "3.4028235677973365e38",
        "3.4028235677973366e38",
        "-3.4028235677973366e38",
        str(MIDDLE - 1),
        f"{MIDDLE - 1}.{'9' * 60}",
        "1" + "0" * 50 + "e-50",
        "0e99999999999999999999",
    ],
)
def test_numbers_that_float64_cannot_settle(number: str) -> None:
    assert float32_read([number]) == [nearest_float32(number.encode())]


def test_a_hint_at_line_ends_is_given_only_where_they_are_wrong() -> None:
    for raw in (b"1 qid:1 x\r\n", b"1 qid:1 x\r\r \r\n", b"1 qid:1 x\n0 qid:1 1:1\r0"):
        with pytest.raises(ValueError, match="'x' is not a feature") as caught:
            read_letor(written(raw))
        assert "CR" not in str(caught.value)


# --- random files


@st.composite
def files(draw: st.DrawFn) -> bytes:
    blanks = st.sampled_from([b" ", b"  ", b"\t", b" \t"])
    ends = st.sampled_from([b"\n", b"\r\n", b" \n", b"\n\n", b" # 1:x\n", b"#\n#\n"])
    relevance = st.sampled_from([b"0", b"1", b"2", b"4.0", b"0.25", b"3e0", b"300"])
    value = st.one_of(
        st.sampled_from([b"0", b"1", b"0.5", b"-1.5", b".25", b"3.", b"1e-3", b"2.6864e-05", b"16777217", b"+7"]),
        st.floats(-(2.0**99), 2.0**99, width=32).map(lambda x: repr(x).encode()),
        st.floats(-1e30, 1e30).map(lambda x: f"{x:.20g}".encode()),
    )
    first_id = draw(st.sampled_from([0, 1, 1]))
    comments = draw(st.booleans()) and draw(st.booleans())
    parts = [draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"# head\r\n"]))]
    for _ in range(draw(st.integers(1, 12))):
        query = str(draw(st.integers(0, 4))).encode()
        ids = sorted(draw(st.sets(st.integers(first_id, 12), max_size=6)))
        tokens = [draw(relevance)] + ([] if comments else [b"qid:" + query])
        tokens += [str(i).encode() + b":" + draw(value) for i in ids]
        line = b"".join(draw(blanks) + token for token in tokens)
        line = line.lstrip() if draw(st.booleans()) else line
        parts.append(line + (b" # " + query + b"\n" if comments else draw(ends)))
    raw = b"".join(parts)
    return raw.removesuffix(b"\n") if draw(st.booleans()) else raw


def compare(raw: bytes, block: int, features: int | None = None, base: int | None = None) -> None:
    """The reader must say the same as the naive one, or both must refuse."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "_BLOCK", block)
        patch.setattr(_table, "MAX_FEATURES", 1000)
        try:
            twin = naive(raw, features, base)
        except ValueError:
            with pytest.raises(ValueError, match=r"^f\.txt"):
                read_letor(written(raw, "f.txt"), features=features, base=base)
        else:
            assert_same(read_letor(written(raw, "f.txt"), features=features, base=base), twin)


@settings(max_examples=200)
@given(files(), st.sampled_from([2, 16, 100, 1 << 22]))
def test_well_formed_files_against_the_naive_reader(raw: bytes, block: int) -> None:
    compare(raw, block)


@settings(max_examples=150)
@given(files(), st.sampled_from([None, 5, 13]), st.sampled_from([None, 0, 1]))
def test_given_features_and_base_against_the_naive_reader(
    raw: bytes, features: int | None, base: int | None
) -> None:
    compare(raw, 64, features, base)


@settings(max_examples=400)
@given(files(), st.data(), st.sampled_from([16, 1 << 22]))
def test_files_with_changed_bytes_against_the_naive_reader(raw: bytes, data: st.DataObject, block: int) -> None:
    changed = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(changed)))
        new = data.draw(
            st.sampled_from([b"", *(bytes([x]) for x in b"019.:-+eE#\n\r\t qidnax\0\x0b\xff"), b"nan", b"1e"])
        )
        changed[position : position + data.draw(st.integers(0, 3))] = new
    if bytes(changed[:2]) != b"\x1f\x8b":
        compare(bytes(changed), block)


@settings(max_examples=100)
@given(files(), st.data())
def test_damaged_gzip_files_are_refused_or_read_right(raw: bytes, data: st.DataObject) -> None:
    assume(re.search(rb"[0-9]:[0-9+.-]", raw.replace(b"qid:", b"")))  # has features
    packed = bytearray(pack(raw))
    position = data.draw(st.integers(10, len(packed) - 1))
    packed[position] ^= 1 << data.draw(st.integers(0, 7))
    path = written(bytes(packed), "f.txt")
    try:
        text = gzip.decompress(packed)  # some bits mean nothing
    except (OSError, EOFError, zlib.error):
        text = b""
    if text == raw:
        assert read_letor(path).about.digest == hashlib.sha256(raw).hexdigest()
    else:
        with pytest.raises(ValueError, match=r"^f\.txt"):
            read_letor(path)
    path.write_bytes(pack(raw)[:position])
    with pytest.raises(ValueError, match=r"^f\.txt"):
        read_letor(path)


# --- published splits


@pytest.mark.parametrize(
    "names",
    [
        ("train.txt", "vali.txt", "test.txt"),
        ("set1.train.txt", "set1.valid.txt", "set1.test.txt.gz"),
        ("imat2009_learning.txt", "imat2009_test.txt"),
    ],
)
def test_published_splits(names: tuple[str, ...], tmp_path: Path) -> None:
    for position, name in enumerate(names):
        raw = (
            f"{position} 1:1 {position + 2}:{position} # 5\n"
            if "imat" in name
            else f"{position} qid:5 {position + 2}:{position}\n"
        )
        (tmp_path / name).write_bytes(pack(raw.encode()) if name.endswith("gz") else raw.encode())
    fold = read_fold(tmp_path)
    there = [part for part in fold if part is not None]
    assert len(there) == len(names)
    assert [part.features.shape for part in there] == [(1, len(names) + 1)] * len(names)
    assert [part.relevance.tolist() for part in there] == [[position] for position in range(len(names))]
    for position, part in enumerate(there):
        assert part.features[0, position + 1] == position


def test_parts_of_a_split_count_ids_alike(tmp_path: Path) -> None:
    for name, raw in (
        ("train.txt", "0 qid:1 3:1\n"),
        ("vali.txt", "0 qid:1 0:1\n"),
        ("test.txt", "0 qid:1 1:1\n"),
    ):
        (tmp_path / name).write_text(raw)
    fold = read_fold(tmp_path)
    assert fold.validation is not None
    assert [part.features.tolist() for part in (fold.train, fold.validation, fold.test)] == [
        [[0, 0, 0, 1]],
        [[1, 0, 0, 0]],
        [[0, 1, 0, 0]],
    ]


def test_a_folder_without_a_split(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_bytes(PLAIN)
    with pytest.raises(ValueError, match=r"has no published split; expected files with the names: train\.txt"):
        read_fold(tmp_path)


def test_a_device_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(ValueError, match=r"zero, line 1: is longer than 67,108,864 bytes; is this text\?"):
        read_letor("/dev/zero")
