"""Spark's ``xxhash64`` of whole numbers, dates and instants, for rows that the driver has read by itself.

XXH64 of one word at a time (Yann Collet, BSD licence), each value's hash the seed of the next, from 42 on; a null
leaves the hash as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["xxhash64"]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(p)
    for p in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
_SEED = 42


def xxhash64(columns: Sequence[pa.Array]) -> pa.Array | None:
    """What ``xxhash64(...)`` of Spark SQL gives for these columns : int64[n]; None where one is of another kind."""
    out = np.full(len(columns[0]) if columns else 0, _SEED, dtype=np.uint64)
    for column in columns:
        words = _words(column)
        if words is None:
            return None
        hashed = _of_long(words, out) if column.type.bit_width == 64 else _of_int(words, out)
        out = np.where(np.asarray(column.is_valid()), hashed, out) if column.null_count else hashed
    return pa.array(out.view(np.int64)) if columns else None


def _words(column: pa.Array) -> np.ndarray | None:
    """The bits of each value, as Spark hashes them : uint64[n]."""
    t = column.type
    if pa.types.is_date32(t):
        whole = column.cast(pa.int32())
    elif pa.types.is_timestamp(t) and t.unit == "us":
        whole = column.cast(pa.int64())
    elif pa.types.is_signed_integer(t):
        whole = column
    else:
        return None
    values = np.asarray(pc.fill_null(whole, 0)).astype(np.int64).view(np.uint64)
    return values if t.bit_width == 64 else values & np.uint64(0xFFFFFFFF)


def _of_long(words: np.ndarray, seed: np.ndarray) -> np.ndarray:
    out = (seed + _P5 + np.uint64(8)) ^ (_rotated(words * _P2, 31) * _P1)
    return _mixed(_rotated(out, 27) * _P1 + _P4)


def _of_int(words: np.ndarray, seed: np.ndarray) -> np.ndarray:
    out = (seed + _P5 + np.uint64(4)) ^ (words * _P1)
    return _mixed(_rotated(out, 23) * _P2 + _P3)


def _rotated(x: np.ndarray, by: int) -> np.ndarray:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


def _mixed(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(33))) * _P2
    x = (x ^ (x >> np.uint64(29))) * _P3
    return x ^ (x >> np.uint64(32))
