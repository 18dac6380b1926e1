"""Load Arrow columns of any offset and encoding as physical values.

Only this module reads offsets and validity bitmaps. A plain column without nulls becomes a view of its buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import UnsupportedError
from ivjoin.expr.kernels.cells import LARGE, Cell, Mask, dtype_of, objects
from ivjoin.expr.types import TICKS_PER_SECOND, Type, from_arrow

__all__ = ["bits", "load", "loader", "nothing"]

_I64 = np.dtype(np.int64)


def loader(t: Type) -> Callable[[Any], Cell]:
    """Return a function that loads Arrow arrays of a type as cells, with a fast path for plain arrays."""
    if t.kind in ("int", "float"):
        name = f"{'' if t.signed else 'U'}Int{t.bits}Array" if t.kind == "int" else _FLOAT_ARRAYS[t.bits]
        return _plain_loader(t, getattr(pa, name))
    if t.kind == "date":
        return _plain_loader(t, pa.Date32Array)
    if t.kind in ("timestamp", "duration"):
        return _plain_loader(t, pa.TimestampArray if t.kind == "timestamp" else pa.DurationArray, t.unit)
    if t.kind in LARGE:
        return _text_loader(t)
    return lambda array: load(array, t)


_FLOAT_ARRAYS = {32: "FloatArray", 64: "DoubleArray"}


def _plain_loader(t: Type, plain: Any, unit: str | None = None) -> Callable[[Any], Cell]:
    dtype, width, view = dtype_of(t), dtype_of(t).itemsize, np.frombuffer

    def fetch(array: Any) -> Cell:
        if array.__class__ is plain and (unit is None or array.type.unit == unit):
            n = len(array)
            if n:
                bitmap, values = array.buffers()
                v, offset = view(values, dtype, n, array.offset * width), array.offset
                return v, (bits(bitmap, offset, n) if array.null_count else None), None
        return load(array, t)

    return fetch


def _text_loader(t: Type) -> Callable[[Any], Cell]:
    plain = pa.StringArray if t.kind == "string" else pa.BinaryArray
    large = LARGE[t.kind]

    def fetch(array: Any) -> Cell:
        if array.__class__ is plain and array.null_count == 0:
            n = len(array)
            if n:  # for a small batch, this is twice as fast as Arrow's cast
                _, ends, octets = array.buffers()
                wide = np.frombuffer(ends, np.int32, n + 1, array.offset * 4).astype(np.int64)
                return pa.Array.from_buffers(large, n, [None, pa.py_buffer(wide), octets], 0), None, None
        return load(array, t)

    return fetch


def load(array: Any, t: Type) -> Cell:
    """Load an Arrow array as a cell of type ``t``. Other units and widths are converted."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # it has no chunks, or too much text for one array
            if array.num_chunks > 1:
                raise UnsupportedError(
                    f"a column of {array.nbytes} bytes of text is more than one Arrow array can contain; expected "
                    "less than 2 GB: pass it in batches"
                )
            array = array.chunk(0) if array.num_chunks else pa.nulls(0, array.type)
    array = _values(array, t)
    a = array.type
    if t.kind == "null" or pa.types.is_null(a):
        return nothing(len(array), t)
    if t.kind == "opaque":
        return array, _valid(array), None
    if t.kind in ("string", "binary"):
        large = LARGE[t.kind]
        return (array if a == large else array.cast(large)), _valid(array), None
    valid = _valid(array)
    if t.kind == "bool":
        return bits(array.buffers()[1], array.offset, len(array)), valid, None
    if t.kind == "decimal":
        return _decimals(array, t, valid), valid, None
    if t.kind == "decimal256":
        return _wide_decimals(array), valid, None
    return _ticks(_fixed(array), a, t), valid, None


def _values(array: Any, t: Type) -> Any:
    """Return the values of an array, with dictionaries, run ends and extension types decoded."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        return _taken(array.dictionary, t, array.indices)
    if pa.types.is_run_end_encoded(array.type):
        rows = np.arange(array.offset, array.offset + len(array))
        runs = np.searchsorted(_fixed(array.run_ends), rows, side="right")
        return _taken(array.values, t, pa.Array.from_buffers(pa.int64(), len(runs), [None, pa.py_buffer(runs)]))
    return array


def _taken(values: Any, t: Type, places: Any) -> Any:
    values = _values(values, t)
    if t.kind in LARGE:
        values = values.cast(LARGE[t.kind])  # Arrow does not implement `take` for views
    return values.take(places)


def nothing(n: int, t: Type) -> Cell:
    """Return the cell of n nulls."""
    valid = np.zeros(n, dtype=bool)
    if t.kind in ("string", "binary"):
        return pa.nulls(n, LARGE[t.kind]), valid, None
    if t.kind == "opaque":
        return pa.nulls(n), valid, None
    return np.zeros(n, dtype=_I64 if t.kind in ("decimal", "decimal256") else dtype_of(t)), valid, None


def _valid(array: Any) -> Mask:
    # Arrow caches null_count. A bitmap may exist although the array has no nulls.
    if pa.types.is_union(array.type):  # a union has no bitmap or null count of its own
        return np.asarray(array.is_valid())
    if array.null_count == 0:
        return None
    bitmap = array.buffers()[0]
    if bitmap is None:  # a null array has no bitmap, and is rare enough for a slow path
        return np.asarray(array.is_valid())
    return bits(bitmap, array.offset, len(array))


def bits(buffer: Any, offset: int, n: int) -> np.ndarray:
    """Return n bits of a bitmap as bool[n], starting at bit ``offset``."""
    if n == 0 or buffer is None:
        return np.zeros(n, dtype=bool)
    first = offset >> 3
    octets = np.frombuffer(buffer, np.uint8, ((offset + n + 7) >> 3) - first, first)
    skip = offset & 7
    return np.unpackbits(octets, bitorder="little")[skip : skip + n].view(np.bool_)


def _fixed(array: Any) -> np.ndarray:
    """Return the values of a fixed-width array as numbers."""
    a, n = array.type, len(array)
    pt = pa.types
    if pt.is_integer(a):
        dtype = np.dtype(f"{'i' if pt.is_signed_integer(a) else 'u'}{a.bit_width // 8}")
    elif pt.is_floating(a):
        dtype = np.dtype(f"f{a.bit_width // 8}")
    else:
        dtype = np.dtype(f"i{a.bit_width // 8}")
    buffer = array.buffers()[1]
    if n == 0 or buffer is None:
        return np.zeros(n, dtype=dtype)
    return np.frombuffer(buffer, dtype, n, array.offset * dtype.itemsize)


def _ticks(values: np.ndarray, a: pa.DataType, t: Type) -> np.ndarray:
    """Convert times to the dtype and unit of ``t``."""
    if pa.types.is_date64(a):
        return (values // 86_400_000).astype(np.int32)
    came = from_arrow(a)
    if came.unit != t.unit:
        have, want = TICKS_PER_SECOND[came.unit], TICKS_PER_SECOND[t.unit]
        if want < have:
            return values.astype(np.int64) // (have // want)
        return values.astype(np.int64) * (want // have)
    dtype = dtype_of(t)
    return values if values.dtype == dtype else values.astype(dtype)


def _decimals(array: Any, t: Type, valid: Mask) -> np.ndarray:
    """Return the unscaled integers of a decimal array: int64[n] if all fit, else object[n] of Python ints."""
    a, n, buffer = array.type, len(array), array.buffers()[1]
    if n == 0 or buffer is None:
        return np.zeros(n, dtype=np.int64)
    if a.bit_width < 128:
        plain = np.frombuffer(buffer, f"i{a.bit_width // 8}", n, array.offset * a.bit_width // 8)
        return plain.astype(np.int64, copy=False)
    words = np.frombuffer(buffer, np.int64, 2 * n, array.offset * 16)
    low, high = words[0::2], words[1::2]
    wide = high != (low >> 63)
    if valid is not None:
        wide &= valid
    if not np.count_nonzero(wide):
        return low.copy()
    lows = words.view(np.uint64)[0::2].tolist()
    return objects([(h << 64) | v for h, v in zip(high.tolist(), lows)])


def _wide_decimals(array: Any) -> np.ndarray:
    """Return the unscaled integers of a decimal256 array as object[n] of Python ints."""
    n, buffer = len(array), array.buffers()[1]
    if n == 0 or buffer is None:
        return np.zeros(n, dtype=object)
    raw = bytes(memoryview(buffer)[32 * array.offset : 32 * (array.offset + n)])
    return objects([int.from_bytes(raw[i : i + 32], "little", signed=True) for i in range(0, 32 * n, 32)])
