"""Hash keys and rows to 64 bits that depend only on values, equal in every process and on every machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivjoin.conditions.evaluate import Vector
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal, ordinals
from ivjoin.shj.arrow import Bytes, byte_width, fixed_view, validity
from ivjoin.shj.kernels.keys import byte_key_kernels
from ivjoin.shj.kernels.pointers import address_of
from ivjoin.shj.plain import plain_type, to_plain

__all__ = ["hash_of_keys", "hash_of_rows", "mixed"]

_ONE, _TWO = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_A, _B, _C = np.uint64(30), np.uint64(27), np.uint64(31)
_NULL = np.uint64(0xD6E8FEB86659FD93)
_MASK = (1 << 64) - 1


def mixed(x: np.ndarray) -> np.ndarray:
    """Mix each bit of uint64 values into all others. Changes and returns ``x``."""
    # The finaliser of splitmix64 (Steele, Lea, Flood 2014; public domain).
    shifted = x >> _A
    x ^= shifted
    x *= _ONE
    np.right_shift(x, _B, out=shifted)
    x ^= shifted
    x *= _TWO
    np.right_shift(x, _C, out=shifted)
    x ^= shifted
    return x


def hash_of_keys(nodes: Sequence[Node], vectors: Sequence[Vector], n: int) -> np.ndarray:
    """Return uint64[n], equal for rows whose keys are equal as the join compares them; null is a value."""
    out: np.ndarray | None = None
    for node, v in zip(nodes, vectors, strict=True):
        word = _word(node, v)
        if v.valid is not None:
            word[~v.valid] = _NULL
        out = mixed(word + _STEP) if out is None else mixed((out * _STEP) ^ word)
    return np.zeros(n, dtype=np.uint64) if out is None else out


def _word(node: Node, v: Vector) -> np.ndarray:
    """Return 64 bits for each row, equal for equal values, in a new array."""
    if has_ordinal(node.type):
        image: np.ndarray = ordinals(v.values, node.type).astype(np.int64, copy=True).view(np.uint64)
        return image
    if isinstance(v.values, (pa.Array, pa.ChunkedArray)):
        return _of_bytes(v.values)
    # decimals of more than 18 digits: both sides have the same scale
    there = [True] * len(v.values) if v.valid is None else v.valid.tolist()
    folded = [(x & _MASK) ^ ((x >> 64) * 0x9E3779B97F4A7C15 & _MASK) if ok else 0 for x, ok in zip(v.values, there)]
    return np.array(folded, dtype=np.uint64)


def _of_bytes(array: pa.Array) -> np.ndarray:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    text = Bytes.of(array)
    out = np.empty(len(array), dtype=np.int64)
    byte_key_kernels.hash_bytes(text.offsets, address_of(text.buffer), out)
    return out.view(np.uint64)


def hash_of_rows(batch: pa.RecordBatch, rows: np.ndarray | None = None) -> np.ndarray:
    """Return a uint64 for each given row, from its values in all columns except nested ones."""
    few = rows is not None and 2 * len(rows) < batch.num_rows
    index = pa.array(rows) if few else None
    out = np.full(len(rows) if rows is not None and few else batch.num_rows, _STEP, dtype=np.uint64)
    for array in batch.columns:
        word = _raw(array, index)
        if word is not None:
            out *= _STEP
            out ^= word
            mixed(out)
    return out if rows is None or few else out[rows]


def _raw(array: pa.Array, index: pa.Array | None) -> np.ndarray | None:
    """Return 64 bits of each value, of the given rows or all; None for a nested type."""
    if isinstance(array, pa.ExtensionArray):
        return _raw(array.storage, index)
    t = array.type
    if pa.types.is_dictionary(t):
        words = array.dictionary
        indices = array.indices if index is None else array.indices.take(index)
        return _raw(to_plain(words, plain_type(words.type)).take(indices), None)
    plain = plain_type(t)
    if plain != t:
        return _raw(to_plain(array, plain), index)
    if pa.types.is_null(t) or pa.types.is_nested(t):
        return None
    if index is not None:
        array = array.take(index)
    if pa.types.is_boolean(t):
        array = array.cast(pa.uint8())
    width = byte_width(array.type)
    if width is None or (width not in (1, 2, 4, 8) and width % 8):
        return _nulls_out(array, _of_bytes(_blank(array)))
    view = fixed_view(array, width)
    if view.ndim == 1:
        return _nulls_out(array, view.astype(np.uint64))
    out = view[:, 0].copy()
    for word in view.T[1:]:
        out = mixed(out * _STEP) ^ word
    return _nulls_out(array, out)


def _blank(array: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.large_binary())
    if not array.null_count:
        return array
    empty: object = "" if pa.types.is_string(array.type) or pa.types.is_large_string(array.type) else b""
    return pc.fill_null(array, pa.scalar(empty, array.type))


def _nulls_out(array: pa.Array, word: np.ndarray) -> np.ndarray:
    valid = validity(array)
    if valid is not None:
        word[~valid] = _NULL
    return word
