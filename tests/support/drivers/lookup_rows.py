"""Rows of lookups: times, keys and values of many types, with nulls, NaN, the ends of types and heavy keys."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["CASTS", "KEYS", "WORDS", "Drawn", "side"]

_ENDS = [-(2**63), -(2**63) + 1, -(2**53) - 1, -1, 0, 1, 2**31, 2**53 + 1, 2**62, 2**63 - 2, 2**63 - 1]
# How small whole numbers become times of a kind, on the left and on the right.
_MICROS, _NANOS = pa.timestamp("us"), pa.timestamp("ns")
_HERE, _THERE = pa.timestamp("us", "UTC"), pa.timestamp("ns", "Asia/Tokyo")
CASTS: dict[str, tuple[list[pa.DataType], list[pa.DataType]]] = {
    "near": ([], []), "ends": ([], []), "floats": ([pa.float64()], [pa.float64()]), "stamps": ([_MICROS], [_MICROS]),
    "uint64": ([pa.uint64()], [pa.uint64()]), "int16": ([pa.int16()], [pa.int16()]),
    "decimals": ([pa.int32(), pa.decimal128(12, 0)],) * 2, "widths": ([pa.int32()], []), "mixed": ([], [pa.float64()]),
    "units": ([_MICROS, _NANOS], [_MICROS]), "zones": ([_HERE], [_HERE, _THERE]),
    "days": ([pa.int32(), pa.date32()],) * 2,
}
WORDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["", "a", "a\0b", "ab", "abcdefghi", "\u00e9", "\uffee", "\U0001f600"]),
    (pa.dictionary(pa.int8(), pa.string()), ["b", "a", "ab"]), (pa.binary(), [b"", b"\0", b"a", b"\xff\0"]),
    (pa.binary(2), [b"\0\0", b"\x7f\1", b"\x80\0"]), (pa.uint64(), [0, 2**63 - 1, 2**63, 2**64 - 1]),
    (pa.decimal128(30, 2), [Decimal(x) for x in (0, -5, 10**25, 10**25 + 1)]),
]  # fmt: skip


KEYS = (
    "near", "near", "far", "text", "text", "dictionary", "one dictionary", "doubles", "zoned", "decimal", "widths",
)


class Drawn(NamedTuple):
    """What both sides have alike: the kind of times, the kind of keys, and so on."""

    times: str  # a key of CASTS
    keys: str  # one of KEYS
    nulls: bool
    many: int  # most rows, if they are many
    word: tuple[pa.DataType, list[Any]]


def _named(key: np.ndarray, kind: str, right: bool) -> pa.Array:
    """Keys of a kind, which are numbers from 0."""
    if kind in ("text", "dictionary", "one dictionary"):
        texts = pa.array([f"k{v}" for v in key], pa.string())
        return texts if kind == "text" or (kind == "one dictionary" and right) else texts.dictionary_encode()
    if kind == "doubles":
        return pa.array(_double(key, right))
    if kind == "zoned":
        return pa.array(key * 10**12).cast(_HERE)
    if kind == "decimal":
        return pa.array(key, pa.int64()).cast(pa.decimal128(21, 2 if right else 0))
    if kind == "widths":
        return pa.array(key, pa.int64() if right else pa.int16())
    return pa.array(key * (10**15 if kind == "far" else 1))


def _double(key: np.ndarray, right: bool) -> np.ndarray:
    return np.select([key == 0, key == 1, key == 2], [-0.0 if right else 0.0, np.nan, -np.inf], key / 3)


def side(r: random.Random, name: str, time_of: str, drawn: Drawn) -> pa.Table:
    n, keys, span = r.choice((0, 1, 7, 40, 60, 90)), r.choice((1, 2, 5, 50)), r.choice((1, 5, 60, 900))
    if drawn.many:
        n, keys, span = r.choice((drawn.many // 2, drawn.many)), r.choice((40, 2000)), r.choice((20, 50_000))
    rng = np.random.default_rng(r.randrange(2**32))
    key = rng.integers(0, keys, n)
    if drawn.many and r.random() < 0.5:
        key[rng.random(n) < 0.7] = 0  # one heavy key

    def masked(values: Any, share: float = 0.1) -> pa.Array:
        return pa.array(values, mask=rng.random(n) < share if drawn.nulls else None)

    named = _named(key, drawn.keys, name == "rid")
    if drawn.nulls:
        named = pc.if_else(pa.array(rng.random(n) < 0.1), pa.scalar(None, named.type), named)
    values = rng.integers(-40, 40, n) / 8 * r.choice((1, 2.0**40))  # exact sums
    ticks = rng.integers(0, span, n) - (0 if drawn.times == "uint64" else span // 3)
    if drawn.times == "ends":
        ticks = np.array(r.choices(_ENDS, k=n), dtype=np.int64)
    time = masked(np.clip(ticks, -(2**15), 2**15 - 1) if drawn.times == "int16" else ticks, 0.05)
    for t in CASTS[drawn.times][name == "rid"]:
        time = time.cast(t)
    if pa.types.is_floating(time.type):
        time = pc.if_else(pa.array(rng.random(n) < 0.1), -0.0, pc.divide(time, 4.0))
    x = np.where(rng.random(n) < 0.05, np.nan, np.round(rng.normal(size=n) * 3))
    t, words = drawn.word
    cents = rng.integers(-(10**17), 10**17, n)
    return pa.table({
        name: pa.array(range(n), pa.int64()), "k": named, time_of: time,
        "e": masked(ticks + rng.integers(-1, 30, n)), "v": masked(values, 0.15), "x": masked(x, 0.2),
        "n": masked(rng.integers(0, 5, n), 0.3),
        "s": masked(rng.choice(["a", "b", "\u00e9", ""], n).astype(object), 0.1).cast(pa.string()),
        "b": masked(np.where(rng.random(n) < 0.1, 2**63 // 3000, rng.integers(0, 50, n))).cast(pa.uint64()),
        "c": masked(cents).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
        "d": masked(rng.integers(0, 20, n)).cast(pa.int32()).cast(pa.date32()),
        "f": masked(rng.integers(-8, 8, n) / 4).cast(pa.float32()), "y": masked(rng.random(n) < 0.5),
        "w": pa.array([None if drawn.nulls and r.random() < 0.1 else r.choice(words) for _ in range(n)], t),
    })  # fmt: skip
