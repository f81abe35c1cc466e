"""The file that opens by memory map: what is written comes back, and what is not whole is refused."""

from __future__ import annotations

import hashlib
import json
import re
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peekrank.data.dataset import Dataset, Provenance
from peekrank.data.peek import is_compact, open_dataset, save_dataset

ABOUT = Provenance("a.txt", "0123", 0, "query", rounded=True, warnings={"blank_lines": 3})


def dataset(kind: type[np.generic] = np.uint8, d: int = 3) -> Dataset:
    rng = np.random.default_rng(0)
    relevance = rng.integers(0, 5, 7).astype(kind)
    return Dataset(
        rng.random((7, d), dtype=np.float32), relevance, np.array([0, 2, 3, 7]), np.array([9, 4, 2**60]), ABOUT
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_dataset(dataset(), tmp_path / "a.peek")
    return tmp_path / "a.peek"


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
@pytest.mark.parametrize("d", [1, 3, 64])
def test_what_is_written_comes_back(kind: type[np.generic], d: int, tmp_path: Path) -> None:
    data = dataset(kind, d)
    save_dataset(data, tmp_path / "a.peek")
    opened = open_dataset(str(tmp_path / "a.peek"))
    for name in ("features", "relevance", "offsets", "queries"):
        before, after = getattr(data, name), getattr(opened, name)
        np.testing.assert_array_equal(before, after)
        assert before.dtype == after.dtype
        assert type(after) is np.ndarray
        assert after.flags.c_contiguous
        assert after.ctypes.data % 64 == 0
    assert opened.about == data.about


def test_arrays_are_those_of_the_file_as_its_header_says(saved: Path) -> None:
    raw = saved.read_bytes()
    assert raw[:8] == b"PEEKDATA"
    assert int.from_bytes(raw[8:12], "little") == 1
    length = int.from_bytes(raw[12:16], "little")
    text = raw[48 : 48 + length]
    assert raw[16:48] == hashlib.sha256(text).digest()
    header = json.loads(text)
    first = -(-(48 + length) // 64) * 64
    position = header["arrays"]["features"]
    there = np.frombuffer(raw, position["kind"], count=21, offset=first + position["start"]).reshape(
        position["shape"]
    )
    np.testing.assert_array_equal(there, dataset().features)
    assert len(raw) == first + header["size"]


def test_writing_to_an_opened_array_changes_no_file(saved: Path) -> None:
    before = saved.read_bytes()
    opened = open_dataset(saved)
    opened.features[:] = 5
    assert saved.read_bytes() == before
    assert open_dataset(saved).features.max() < 1


def test_a_file_can_be_written_over_itself(saved: Path) -> None:
    opened = open_dataset(saved)
    save_dataset(opened._replace(about=replace(opened.about, source="b")), saved)
    assert open_dataset(saved).about.source == "b"
    np.testing.assert_array_equal(opened.features, dataset().features)


def test_every_cut_is_noticed(saved: Path) -> None:
    raw = saved.read_bytes()
    for size in range(len(raw)):
        saved.write_bytes(raw[:size])
        with pytest.raises(
            ValueError, match=r"a\.peek: (is truncated|is not a peekrank data set|has .* bytes instead of)"
        ):
            open_dataset(saved)
    saved.write_bytes(raw + b"x")
    with pytest.raises(ValueError, match="bytes instead of"):
        open_dataset(saved)


def test_every_changed_byte_of_the_header_is_noticed(saved: Path) -> None:
    raw = saved.read_bytes()
    length = int.from_bytes(raw[12:16], "little")
    for position in range(48 + length):
        for bit in (0, 7):
            changed = bytearray(raw)
            changed[position] ^= 1 << bit
            saved.write_bytes(changed)
            with pytest.raises(ValueError, match=r"^a\.peek: "):
                open_dataset(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: b"0 qid:1 1:2\n", "is not a peekrank data set; `peekrank data TEXT --out FILE` writes one"),
        (lambda raw: b"", "is not a peekrank data set"),
        (lambda raw: raw[:8] + b"\2" + raw[9:], "has format 2; this peekrank reads format 1"),
        (lambda raw: raw[:60], "is truncated within its header"),
        (lambda raw: raw[:-1], "is it truncated?"),
    ],
)
def test_foreign_files(saved: Path, change: Callable[[bytes], bytes], message: str) -> None:
    saved.write_bytes(change(saved.read_bytes()))
    with pytest.raises(ValueError, match=re.escape(message)):
        open_dataset(saved)


@pytest.mark.parametrize(
    "wrong",
    [
        {"offsets": np.array([0, 2, 3, 8])},
        {"offsets": np.array([0, 3, 2, 7])},
        {"offsets": np.array([1, 2, 3, 7])},
        {"offsets": np.array([0, 2, 2, 7])},
        {"queries": np.array([1, 2])},
        {"relevance": np.zeros(6, np.uint8)},
        {"features": np.zeros(7, np.float32)},
        {"features": np.zeros((7, 2))},
        {"relevance": np.zeros(7, np.int64)},
        {"features": np.zeros((7, 0), np.float32)},
        {
            "features": np.zeros((0, 2), np.float32),
            "relevance": np.zeros(0, np.uint8),
            "offsets": np.array([0]),
            "queries": np.zeros(0, np.int64),
        },
    ],
)
def test_arrays_that_do_not_fit_are_not_written(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"do not fit together|: must be [<|]"):
        save_dataset(dataset()._replace(**wrong), tmp_path / "a.peek")
    assert not list(tmp_path.iterdir())


def test_damaged_offsets_are_refused(saved: Path) -> None:
    raw = bytearray(saved.read_bytes())
    position = raw.index(np.array([0, 2, 3, 7]).tobytes())
    raw[position + 8] = 200
    saved.write_bytes(raw)
    with pytest.raises(ValueError, match=r"a\.peek: features, relevance, offsets and queries do not fit together"):
        open_dataset(saved)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_write_leaves_the_old_file(
    error: type[BaseException], saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def stop(*_: object) -> None:
        raise error

    monkeypatch.setattr("peekrank.data.peek._fill", stop)
    with pytest.raises(error):
        save_dataset(dataset(d=50), saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["a.peek"]


def test_numbers_that_are_not_finite_are_not_written(tmp_path: Path) -> None:
    data = dataset()
    data.features[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"a\.peek: query 4, document 1: feature 1 is nan: must be a number"):
        save_dataset(data, tmp_path / "a.peek")
    assert not list(tmp_path.iterdir())


def rewritten(path: Path, change: Callable[[Any], Any]) -> None:
    """With another header, and a checksum that is right."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[12:16], "little")
    header = json.loads(raw[48 : 48 + length])
    text = change(header)
    text = text if isinstance(text, bytes) else json.dumps(header).encode()
    start = raw[:12] + len(text).to_bytes(4, "little") + hashlib.sha256(text).digest() + text
    path.write_bytes(start + bytes(-len(start) % 64) + raw[-(-(48 + length) // 64) * 64 :])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: b"{", "its header must be JSON with exactly about, arrays and size"),
        (lambda h: b"[]", "its header must be JSON with exactly about, arrays and size"),
        (lambda h: h.pop("size"), "its header must be JSON with exactly about, arrays and size"),
        (lambda h: h.update(size="all"), "has the size 'all': must be a whole number"),
        (
            lambda h: h["about"].update(extra=1),
            "has an unknown field 'extra' of about: must be one of source, digest",
        ),
        (lambda h: h["about"].pop("source"), "has no source in about"),
        (lambda h: h.update(about=None), "has no source in about"),
        (lambda h: h["about"].update(base="1"), "has base = '1' in about: must be of type int"),
        (lambda h: h["about"].update(warnings={"blank_lines": "3"}), "has warnings that are not counts"),
        (
            lambda h: h["arrays"].update(more=h["arrays"]["queries"]),
            "must have exactly the arrays features, relevance, off",
        ),
        (
            lambda h: h["arrays"].pop("queries"),
            "must have exactly the arrays features, relevance, offsets, queries",
        ),
        (lambda h: h.update(size="9" * 5000), "has the size '" + "9" * 59 + "...: must be a whole number"),
        (lambda h: h["about"].update({"\x1b[31m": 1}), r"has an unknown field '\x1b[31m' of about"),
        (lambda h: h.update(arrays=[]), "must have exactly the arrays features, relevance, offsets, queries"),
        (lambda h: h["arrays"].update(queries=7), "an invalid kind, shape or start of queries: 7"),
        (lambda h: h["arrays"]["features"].update(shape=[7000, 3]), "an invalid kind, shape or start of features"),
        (lambda h: h["arrays"]["features"].update(shape=[21]), "an invalid kind, shape or start of features"),
        (lambda h: h["arrays"]["features"].update(shape=[-7, -3]), "an invalid kind, shape or start of features"),
        (lambda h: h["arrays"]["features"].update(shape="73"), "an invalid kind, shape or start of features"),
        (lambda h: h["arrays"]["features"].update(shape=[3, 7]), "do not fit together"),
        (lambda h: h["arrays"]["features"].update(kind="<f8"), "an invalid kind, shape or start of features"),
        (lambda h: h["arrays"]["features"].update(kind=["<f4"]), "an invalid kind, shape or start of features"),
        (lambda h: h["arrays"]["offsets"].update(start=-64), "an invalid kind, shape or start of offsets"),
        (lambda h: h["arrays"]["offsets"].update(start=1), "an invalid kind, shape or start of offsets"),
    ],
)
def test_headers_that_make_no_sense_are_refused(saved: Path, change: Callable[[Any], Any], message: str) -> None:
    rewritten(saved, lambda header: None)
    assert open_dataset(saved).about == ABOUT
    rewritten(saved, change)
    with pytest.raises(ValueError, match=rf"^a\.peek: .*{re.escape(message)}"):
        open_dataset(saved)


@pytest.mark.parametrize("depth", [300, 950, 5000])
def test_lists_within_lists_are_no_header(saved: Path, depth: int) -> None:
    raw = saved.read_bytes()
    header = b'{"about": ' + b"[" * depth + b"]" * depth + b"}"
    saved.write_bytes(raw[:12] + len(header).to_bytes(4, "little") + hashlib.sha256(header).digest() + header)
    with pytest.raises(ValueError, match=r"^a\.peek: its header must be JSON with exactly about, arrays and size"):
        open_dataset(saved)


def test_the_form_is_known_by_its_first_bytes_whatever_the_name(saved: Path, tmp_path: Path) -> None:
    other = saved.rename(tmp_path / "a.txt")
    assert is_compact(other)
    other.write_text("1 qid:1 1:1\n")
    assert not is_compact(other)
    assert is_compact(saved)  # by its name, so that the message about a cut file is the right one
    assert not is_compact(tmp_path)


def test_a_full_disk_is_named_with_the_file(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(OSError, match=r"a\.peek cannot be written: ."):
            save_dataset(dataset(d=500), tmp_path / "a.peek")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())
