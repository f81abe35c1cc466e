"""Random mutations of bytes and of JSON values. The same seed makes the same mutant."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

MOST_BYTES = 1 << 16  # of a mutant: readers are tried often rather than long
_BOMB = 1 << 22  # bytes that a few compressed ones grow to
_DEEP = (3, 40, 500, 900, 20_000)
_NUMBER = re.compile(rb"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_FIELD = re.compile(rb"[^,;:=\s]+")
_EXTREMES = tuple(
    text.encode()
    for text in (
        "0", "-0", "-1", "1", "2", "3", "255", "256", "65536", "1048575", "1048576", "1048577", "2147483647",
        "2147483648", "4294967296", "9007199254740993", "999999999999999999", "9223372036854775807",
        "9223372036854775808", "18446744073709551616", "1e38", "3.5e38", "-3.5e38", "1e308", "1e309", "-1e999",
        "1e-46", "5e-324", "1e-999", "0.1", "1.5", "16777217.000", "1" * 400, "1" * 5000, "0." + "3" * 400, "nan",
        "NaN", "inf", "-Infinity", "1/3", "1/0", "1_000", "0x10", "1e", ".", "+", "٣", "²", "½", "", " ",
    )
)  # fmt: skip
_FRAGMENTS = (
    b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n", b"\n\n", b"\x0b",
    b"\x0c", b"\x1b[31m", b"\x1f\x8b", b"\x7f", "\u2028".encode(), "\u202e".encode(), b"\t", b" ", b",", b";",
    b":", b"#", b'"', b"'", b"{", b"}", b"[", b"]", b"\\", b"\\ud800", b"=", b"-", b"null", b"true",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 64, 255, 256, 2**31, 2**53 + 1, 2**63, 2**64, 10**400, -0.0, 0.5, 1e38,
    1e308, -1e308, 5e-324, float("nan"), float("inf"), "", "x", "0", "1", "0 1", "-1", "nan", "1/3", "1/0",
    "9" * 5000, "\x00", "\ud800", "\x1b[31m", "\n", [], {}, [[]], [0], ["x"], {"x": 0}, [None], "none", "query",
    "global", "online",
)  # fmt: skip


class Pool(NamedTuple):
    """The material of mutants: valid files, and fragments to insert or to substitute."""

    samples: Sequence[bytes]
    words: Sequence[bytes]


def pool(samples: Sequence[str | bytes], words: str = "") -> Pool:
    """Make material from samples, words separated by blanks, and words that can break any text."""
    made = [sample.encode() if isinstance(sample, str) else sample for sample in samples]
    return Pool(made, (*_FRAGMENTS, *words.encode().split()))


def mutant(rng: Random, pool: Pool) -> bytes:
    """Return one of the samples after one to four changes."""
    data = rng.choice(pool.samples)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        data = rng.choice(_CHANGES)(rng, data, pool)[:MOST_BYTES]
    if rng.random() < 0.01:
        data = _compressed(rng, data)
    return data


def json_mutant(rng: Random, value: Any) -> Any:
    """Return a copy of a JSON value after one to four changes of its parts."""
    value = deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        holders = list(_holders(value))
        if not holders:
            return _value(rng, value)
        _change_part(rng, rng.choice(holders), holders)
    return value


def json_bytes(value: Any, **options: Any) -> bytes:
    """Encode a JSON value, and expand placeholders for deeply nested lists."""
    text = json.dumps(value, **options).encode()
    return re.sub(rb'"nest(\d+)"', lambda found: b"[" * int(found[1]) + b"]" * int(found[1]), text)


def number_mutant(rng: Random, item: float) -> float:
    """Return another number, near or far."""
    far = (
        0,
        -1,
        1,
        2,
        -item,
        item + 1,
        item - 1,
        item * 2,
        1e300,
        -1e300,
        1e-300,
        2**40,
        float("nan"),
        float("inf"),
    )
    return rng.choice(far)


def _holders(value: Any) -> Any:
    """List the non-empty lists and objects within a value, including itself."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict | list) and here:
            yield here
            waiting.extend(here.values() if isinstance(here, dict) else here)


def _change_part(rng: Random, holder: Any, holders: list[Any]) -> None:
    key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    change = rng.randrange(6)
    if change == 0:
        del holder[key]
    elif change == 1 and isinstance(holder, list):
        holder.insert(key, deepcopy(holder[key]))
    elif change == 2 and isinstance(holder, dict):
        holder[rng.choice(("x", "", f"{key}x", "kind", "size"))] = holder.pop(key)
    elif change == 3:
        other = rng.choice(holders)
        holder[key] = deepcopy(rng.choice(list(other.values() if isinstance(other, dict) else other)))
    else:
        holder[key] = _value(rng, holder[key])


def _value(rng: Random, now: Any) -> Any:
    if isinstance(now, int | float) and rng.random() < 0.5:
        return number_mutant(rng, now)
    if rng.random() < 0.02:
        return f"nest{rng.choice(_DEEP)}"
    return deepcopy(rng.choice(_VALUES))


def _flip(rng: Random, data: bytes, _pool: Pool) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(rng: Random, data: bytes, _pool: Pool) -> bytes:
    first, last = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    return rng.choice((data[:first], data[first:], data[:first] + data[last:]))


def _splice(rng: Random, data: bytes, pool: Pool) -> bytes:
    other = rng.choice(pool.samples)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _insert(rng: Random, data: bytes, pool: Pool) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(pool.words) * rng.choice((1, 1, 1, 2, 30)) + data[at:]


def _extreme(rng: Random, data: bytes, _pool: Pool) -> bytes:
    return _replaced(rng, data, _NUMBER, _EXTREMES)


def _word(rng: Random, data: bytes, pool: Pool) -> bytes:
    return _replaced(rng, data, _FIELD, pool.words)


def _replaced(rng: Random, data: bytes, what: re.Pattern[bytes], choices: Sequence[bytes]) -> bytes:
    found = list(what.finditer(data))
    if not found:
        return data
    position = rng.choice(found)
    return data[: position.start()] + rng.choice(choices) + data[position.end() :]


def _lines(rng: Random, data: bytes, _pool: Pool) -> bytes:
    return _rearranged(rng, data, b"\n")


def _fields(rng: Random, data: bytes, _pool: Pool) -> bytes:
    return _rearranged(rng, data, rng.choice((b" ", b",", b":", b'"', b"\t", b"=")))


def _rearranged(rng: Random, data: bytes, mark: bytes) -> bytes:
    """Remove, double, move or repeat a part between marks."""
    parts = data.split(mark)
    at, to = rng.randrange(len(parts)), rng.randrange(len(parts))
    change = rng.randrange(4)
    if change == 0:
        del parts[at]
    elif change == 1:
        parts.insert(to, parts[at])
    elif change == 2:
        parts[at], parts[to] = parts[to], parts[at]
    else:
        parts[at:at] = [parts[at]] * rng.choice((3, 70, 300))
    return mark.join(parts)


def _nest(rng: Random, data: bytes, _pool: Pool) -> bytes:
    at, mark = rng.randrange(len(data) + 1), rng.choice((b"[", b"{", b'{"loss":', b"(", b'"'))
    depth = rng.choice(_DEEP)
    closed = {b"[": b"]", b"{": b"}"}.get(mark, b"") * (depth if rng.random() < 0.5 else 0)
    return data[:at] + mark * depth + closed + data[at:]


def _compressed(rng: Random, data: bytes) -> bytes:
    """Compress the data, or very many copies, by gzip, and damage the file or not."""
    if rng.random() < 0.2 and data:
        data *= rng.choice((50, _BOMB)) // len(data) + 1
    packed = bytearray(gzip.compress(data[:_BOMB], compresslevel=1, mtime=0))
    if rng.random() < 0.5:
        packed[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
    return bytes(packed[: rng.choice((len(packed), rng.randrange(len(packed) + 1)))])


_CHANGES: tuple[Callable[[Random, bytes, Pool], bytes], ...] = (
    _flip, _cut, _splice, _insert, _insert, _extreme, _extreme, _extreme, _word, _word, _lines, _fields,
    _fields, _nest,
)  # fmt: skip
