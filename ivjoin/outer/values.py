"""The values of an expression as an Arrow array."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import Vector
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import to_arrow
from ivjoin.shj.arrow import bitmap, fixed_array
from ivjoin.shj.plain import rows_at

__all__ = ["errors_of", "has_value", "plain_array", "rows_where"]


def errors_of(v: Vector) -> np.ndarray | None:
    """Return which rows have an error : bool[n]; None if no row has one."""
    return v.error if v.error is not None and v.error.any() else None


def has_value(v: Vector) -> np.ndarray | None:
    """Return which rows have a value, neither null nor an error : bool[n]; None if all have one."""
    valid = v.valid
    if v.error is not None and v.error.any():
        valid = ~v.error if valid is None else valid & ~v.error
    return valid


def rows_where(batch: pa.RecordBatch, v: Vector) -> pa.RecordBatch:
    """Return the rows of a batch for which a truth value is TRUE."""
    true, there = np.asarray(v.values, dtype=bool), has_value(v)
    true = true if there is None else true & there
    return batch if true.all() else rows_at(batch, np.flatnonzero(true))


def plain_array(v: Vector, node: Node) -> pa.Array:
    """Return the values of an expression as an Arrow array; null for errors."""
    t = to_arrow(node.type)
    values, there = v.values, has_value(v)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        if there is not None:
            import pyarrow.compute as pc

            values = pc.if_else(_bools(there), values, pa.scalar(None, values.type))
        if isinstance(t, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(t, values.cast(t.storage_type))
        return values.cast(t)
    if values.dtype == bool:
        return _bools(values, there)
    if pa.types.is_decimal(t):
        return _decimals(values, there, t)
    kind = np.dtype(f"{'f' if pa.types.is_floating(t) else 'i'}{t.bit_width // 8}")
    return fixed_array(np.ascontiguousarray(values.astype(kind, copy=False)), there, t)


def _bools(values: np.ndarray, there: np.ndarray | None = None) -> pa.Array:
    valid = None if there is None else bitmap(there)
    return pa.Array.from_buffers(pa.bool_(), len(values), [valid, bitmap(values)])


def _decimals(values: np.ndarray, there: np.ndarray | None, t: pa.DataType) -> pa.Array:
    """Return unscaled integers, int64[n] or object[n], as decimals."""
    words = np.empty((len(values), t.byte_width // 8), dtype=np.uint64)  # two words, or four of a decimal256
    if values.dtype == object:
        for i in range(words.shape[1]):
            words[:, i] = (values >> 64 * i & (2**64 - 1)).astype(np.uint64)
    else:
        whole = values.astype(np.int64, copy=False)
        words[:, 0], words[:, 1:] = whole.view(np.uint64), (whole >> 63).view(np.uint64)[:, None]
    return fixed_array(words, there, t)
