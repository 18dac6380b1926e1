"""Convert between Arrow's buffers and NumPy. No other module handles offsets and validity bitmaps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.shj.kernels.output import byte_kernels
from ivjoin.shj.kernels.pointers import address_of as address
from ivjoin.shj.registers import NAN_BITS, NAN_ORDINAL

__all__ = [
    "Bytes", "are_told_by_ordinals", "bitmap", "byte_width", "counted", "doubles_of", "encoded", "fixed_array",
    "fixed_view", "is_own_ordinal", "offset_width", "over_buffers", "take", "taken", "truths", "validity",
    "whole_numbers", "with_number", "words_of",
]

_TOP_BIT = np.int64(-(2**63))
_FEW = 4096  # rows up to which NumPy gathers faster than Arrow
_DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def byte_width(t: pa.DataType) -> int | None:
    """Return the bytes per value of a fixed-width type that can be stored as raw bytes, or None for other types."""
    if isinstance(t, pa.ExtensionType) or pa.types.is_boolean(t) or pa.types.is_dictionary(t) or pa.types.is_null(t):
        return None
    if pa.types.is_nested(t) or t.num_buffers != 2:
        return None
    try:
        bits = t.bit_width
    except ValueError:
        return None
    return bits // 8 if bits % 8 == 0 and bits > 0 else None


def offset_width(t: pa.DataType) -> int | None:
    """Return the bytes per offset of a string or binary type, or None for other types."""
    if pa.types.is_string(t) or pa.types.is_binary(t):
        return 4
    return 8 if pa.types.is_large_string(t) or pa.types.is_large_binary(t) else None


def is_own_ordinal(t: pa.DataType) -> bool:
    """Return whether a value's int64 ordinal, truncated to the type's width, is the value itself: integers and times.
    """
    pt = pa.types
    if pt.is_unsigned_integer(t):
        return t.bit_width < 64
    return (
        pt.is_signed_integer(t) or pt.is_date32(t) or pt.is_time(t) or pt.is_timestamp(t) or pt.is_duration(t)
    )


def doubles_of(ordinals: np.ndarray) -> np.ndarray:
    """Return the doubles of ordinals (``ivjoin.expr.ordinal``) : float64[n]."""
    bits = np.where(ordinals < 0, -ordinals ^ _TOP_BIT, ordinals)
    bits[ordinals == NAN_ORDINAL] = NAN_BITS
    return bits.view(np.float64)


def with_number(ordinals: np.ndarray, number: float) -> np.ndarray:
    """Add a finite number to doubles given as ordinals. Return the ordinals of the sums : int64[n]."""
    with np.errstate(over="ignore"):
        bits = (doubles_of(ordinals) + number).view(np.int64)
    sign = bits >> 63
    out = (bits ^ (sign & ~_TOP_BIT)) - sign
    out[np.abs(out) >= NAN_ORDINAL] = NAN_ORDINAL
    return out


def are_told_by_ordinals(array: pa.Array) -> bool:
    """Return whether :func:`doubles_of` restores each double's bits. It cannot restore -0.0 or unusual NaNs."""
    bits = fixed_view(array, 8).view(np.int64)
    odd = (bits == _TOP_BIT) | ((bits & ~_TOP_BIT >= NAN_ORDINAL) & (bits != NAN_BITS))
    return not odd.any()


def words_of(width: int) -> tuple[Any, tuple[int, ...]]:
    """Return the NumPy type and the shape of one value of ``width`` bytes as raw words."""
    dtype = _DTYPES.get(width)
    if dtype is not None:
        return dtype, ()
    return (np.uint64, (width // 8,)) if width % 8 == 0 else (np.uint8, (width,))


def fixed_view(array: pa.Array, width: int) -> np.ndarray:
    """Return fixed-width values as unsigned words, without a copy: [n], uint64[n, w], or uint8[n, w]."""
    buf = array.buffers()[1]
    n, offset = len(array), array.offset
    word, shape = words_of(width)
    if buf is None:
        return np.zeros((n, *shape), dtype=word)
    if not shape:
        return np.frombuffer(buf, dtype=word, count=n, offset=offset * width)
    return np.frombuffer(buf, dtype=word, count=n * shape[0], offset=offset * width).reshape(n, *shape)


def validity(array: pa.Array) -> np.ndarray | None:
    """Return which values are not NULL : bool[n], or None if no value is NULL."""
    if array.null_count == 0:
        return None
    buf = array.buffers()[0]
    if buf is None:
        return ~np.asarray(array.is_null())
    return _bits_of(buf, array)


def _bits_of(buffer: pa.Buffer, array: pa.Array) -> np.ndarray:
    octets = np.frombuffer(buffer, dtype=np.uint8)
    return np.unpackbits(octets, count=array.offset + len(array), bitorder="little")[array.offset :].view(bool)


def whole_numbers(index: np.ndarray) -> pa.Array:
    """Return an Arrow array of integers. ``pa.array`` would import pandas, which takes a third of a second."""
    data = pa.py_buffer(np.ascontiguousarray(index))
    return pa.Array.from_buffers(pa.from_numpy_dtype(index.dtype), len(index), [None, data])


def counted(array: pa.Array) -> np.ndarray:
    """Return the values of an integer array without NULLs : int64[n]. Arrow's own conversion would import pandas."""
    t = array.type
    dtype = np.dtype(f"{'u' if pa.types.is_unsigned_integer(t) else 'i'}{t.bit_width // 8}")
    return fixed_view(array, t.bit_width // 8).view(dtype).astype(np.int64)


def truths(array: pa.Array) -> np.ndarray:
    """Return the values of an array of bools : bool[n]. NULLs have arbitrary values."""
    buffer = array.buffers()[1]
    return np.zeros(len(array), dtype=bool) if buffer is None else _bits_of(buffer, array)


@cache
def _compute() -> Any:
    """Return the module with Arrow's functions. Importing ``pyarrow.compute`` instead generates 250 wrappers."""
    try:
        import pyarrow._compute as compute
    except ImportError:
        import pyarrow.compute as compute
    return compute


def taken(rows: Any, places: pa.Array) -> Any:
    """Return rows of an array, a chunked array, a batch or a table, like ``take``."""
    return _compute().call_function("take", [rows, places])


def encoded(array: pa.Array) -> pa.DictionaryArray:
    """Return an array as dictionary indices of its distinct values. NULL may be one of the values."""
    compute = _compute()
    return compute.call_function("dictionary_encode", [array], compute.DictionaryEncodeOptions("encode"))


def take(array: pa.Array, index: np.ndarray, width: int | None) -> pa.Array:
    """Return rows of an array.

    ``width`` is its type's :func:`byte_width`; NumPy gathers few rows of fixed width faster.
    """
    if width is None or array.null_count or len(index) > _FEW:
        return taken(array, whole_numbers(index))
    return fixed_array(fixed_view(array, width).take(index, axis=0), None, array.type)


def bitmap(valid: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def over_buffers(t: pa.DataType, n: int, valid: np.ndarray | None, *buffers: pa.Buffer) -> pa.Array:
    """Return an array over these buffers. ``valid`` : bool[n] marks the non-NULL values; None means all values."""
    if valid is None:
        return pa.Array.from_buffers(t, n, [None, *buffers], 0)
    return pa.Array.from_buffers(t, n, [bitmap(valid), *buffers], n - int(np.count_nonzero(valid)))


def fixed_array(values: np.ndarray, valid: np.ndarray | None, t: pa.DataType) -> pa.Array:
    """Return an array of type ``t`` over raw words, without a copy."""
    return over_buffers(t, len(values), valid, pa.py_buffer(values))


@dataclass(slots=True)
class Bytes:
    """One byte string per row: ``buffer[offsets[i]:offsets[i+1]]``, with offsets : int64[n + 1] and buffer : uint8[m].
    """

    offsets: np.ndarray
    buffer: np.ndarray

    @classmethod
    def of(cls, array: pa.Array) -> Bytes:
        """Return the bytes of a string or binary array of any form. NULLs are empty."""
        t = array.type
        if pa.types.is_string_view(t) or pa.types.is_binary_view(t) or pa.types.is_fixed_size_binary(t):
            array = array.cast(pa.large_binary())
            t = array.type
        wide = pa.types.is_large_string(t) or pa.types.is_large_binary(t)
        _, offsets, buffer = array.buffers()
        n, offset = len(array), array.offset
        if offsets is None or n == 0:
            return cls(np.zeros(n + 1, dtype=np.int64), np.empty(0, dtype=np.uint8))
        step = 8 if wide else 4
        ends = np.frombuffer(offsets, dtype=np.int64 if wide else np.int32, count=n + 1, offset=offset * step)
        raw = np.empty(0, dtype=np.uint8) if buffer is None else np.frombuffer(buffer, dtype=np.uint8)
        return cls(ends.astype(np.int64), raw)

    @classmethod
    def fixed(cls, raw: np.ndarray) -> Bytes:
        """Return rows of equal size from raw : uint8[n, w]."""
        n, width = raw.shape
        return cls(np.arange(n + 1, dtype=np.int64) * width, np.ascontiguousarray(raw).reshape(-1))

    @classmethod
    def gather(cls, starts: np.ndarray, sizes: np.ndarray, source: np.ndarray) -> Bytes:
        offsets = np.zeros(len(starts) + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        out = np.empty(int(offsets[-1]), dtype=np.uint8)
        begins, much = np.ascontiguousarray(starts), np.ascontiguousarray(sizes)
        byte_kernels.gather_bytes(begins, much, address(source), address(out))
        return cls(offsets, out)

    def then(self, other: Bytes) -> Bytes:
        """Return each row's length-prefixed bytes followed by the bytes of ``other``."""
        n = len(self.offsets) - 1
        total = int(self.offsets[-1] - self.offsets[0] + other.offsets[-1] - other.offsets[0]) + 4 * n
        offsets = np.empty(n + 1, dtype=np.int64)
        out = np.empty(total, dtype=np.uint8)
        byte_kernels.concat_pieces(self.offsets, self.buffer, other.offsets, other.buffer, offsets, out)
        return Bytes(offsets, out)

    def to_arrow(self) -> pa.Array:
        n = len(self.offsets) - 1
        return pa.Array.from_buffers(
            pa.large_binary(), n, [None, pa.py_buffer(self.offsets), pa.py_buffer(self.buffer)], 0
        )
