"""Columns read from Arrow: every encoding gives its physical values, wherever it is sliced."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from evaluating import col, plain

from ivjoin.conditions.evaluate import compiled, evaluate, from_arrow_array
from ivjoin.expr.types import from_arrow

D = decimal.Decimal
INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TICKS = [pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us"), pa.timestamp("ns", "Asia/Tokyo"),
         pa.duration("s"), pa.duration("ns"), pa.time32("s"), pa.time32("ms"), pa.time64("us"),
         pa.time64("ns")]  # fmt: skip


def whole(t: pa.DataType) -> tuple[pa.Array, list[Any]]:
    """Eleven values of a type, nulls among them, and their physical values."""
    numbers = [0, 1, None, 3, 4, 5, None, 7, 8, 100, 12]
    if t in TICKS:
        width = pa.int32() if t.bit_width == 32 else pa.int64()
        return pa.array(numbers, width).cast(t), numbers
    if pa.types.is_date32(t):
        return pa.array(numbers, pa.int32()).cast(t), numbers
    if pa.types.is_date64(t):
        return pa.array(numbers, pa.int32()).cast(pa.date32()).cast(t), numbers
    if pa.types.is_decimal(t):
        return pa.array([None if v is None else D(v) for v in numbers], t), [
            None if v is None else v * 10**t.scale for v in numbers
        ]
    if pa.types.is_boolean(t):
        bools = [None if v is None else bool(v % 2) for v in numbers]
        return pa.array(bools, t), bools
    if pa.types.is_floating(t):
        floats = [None if v is None else v / 4 for v in numbers]
        return pa.array([None if v is None else np.float16(v) for v in floats] if t == pa.float16() else floats,
            t), floats
    if pa.types.is_integer(t):
        return pa.array(numbers, t), numbers
    texts = [None if v is None else f"{v:03}" for v in numbers]
    if pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return pa.array(texts, t), texts
    octets = [None if s is None else s.encode() for s in texts]
    return pa.array(octets, t), octets


PLAIN = [
    *INTS, *TICKS, pa.date32(), pa.date64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.decimal128(9, 2),
    pa.decimal128(18, 4), pa.decimal128(30, 5), pa.decimal32(7, 2), pa.decimal64(15, 3), pa.string(), pa.large_string(),
    pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3),
]  # fmt: skip


def encodings(array: pa.Array) -> list[Any]:
    out = [array, pa.chunked_array([array.slice(0, 4), array.slice(4)]), pa.chunked_array([array])]
    try:
        out.append(array.dictionary_encode())
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowInvalid):
        assert "view" in str(array.type) or pa.types.is_decimal(array.type)
    return out


@pytest.mark.parametrize("t", PLAIN, ids=str)
def test_every_slice_of_every_encoding(t: pa.DataType) -> None:
    array, want = whole(t)
    kind = from_arrow(t)
    node = col("c", kind)
    run = compiled([node])
    for encoded in encodings(array):
        for start in (0, 1, 2, 3, 8, 9, 11):
            for stop in (start, start + 1, 9, 11):
                if start <= stop <= 11:
                    part = encoded.slice(start, stop - start)
                    (v,) = run(lambda _s, _n, part=part: part, len(part))
                    assert plain(v, kind, len(part)) == want[start:stop], (encoded.type, start, stop)


@pytest.mark.parametrize("t", PLAIN, ids=str)
def test_no_null_in_the_slice_means_no_mask(t: pa.DataType) -> None:
    array, want = whole(t)
    v = from_arrow_array(array.slice(3, 3), from_arrow(t))
    assert v.valid is None and v.error is None
    assert plain(v, from_arrow(t), 3) == want[3:6]
    assert from_arrow_array(array, from_arrow(t)).valid is not None


def test_a_bitmap_with_no_null_in_it() -> None:
    values = pa.py_buffer(np.arange(10).tobytes())
    bitmap = pa.py_buffer(b"\xff\xff")
    array = pa.Array.from_buffers(pa.int64(), 10, [bitmap, values], -1)
    v = from_arrow_array(array, from_arrow(pa.int64()))
    assert v.valid is None and v.values.tolist() == list(range(10))


def test_plain_columns_are_views() -> None:
    array = pa.array(np.arange(100)).slice(10, 50)
    v = from_arrow_array(array, from_arrow(array.type))
    assert v.values.__array_interface__["data"][0] == array.buffers()[1].address + 80


def test_a_view_keeps_its_buffer() -> None:
    v = from_arrow_array(pa.array(list(range(1000, 2000))), from_arrow(pa.int64()))
    filler = [pa.array(np.zeros(1000, dtype=np.int64)) for _ in range(20)]
    assert len(filler) == 20 and v.values.tolist() == list(range(1000, 2000))


@pytest.mark.parametrize(
    "text", ["0", "1", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
        "-9223372036854775809",
             "99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"])  # fmt: skip
def test_wide_decimals(text: str) -> None:
    t = pa.decimal128(38, 0)
    array = pa.array([D(7), D(text), None], t)
    assert plain(from_arrow_array(array, from_arrow(t)), from_arrow(t), 3) == [7, int(text), None]
    assert plain(from_arrow_array(array.slice(1), from_arrow(t)), from_arrow(t), 2) == [int(text), None]


def test_nulls_of_wide_decimals_may_hide_anything() -> None:
    values = pa.py_buffer(b"\xff" * 15 + b"\x7f" + (5).to_bytes(16, "little"))
    array = pa.Array.from_buffers(pa.decimal128(10, 2), 2, [pa.py_buffer(b"\x02"), values])
    assert plain(from_arrow_array(array, from_arrow(array.type)), from_arrow(array.type), 2) == [None, 5]


def test_date64_before_the_epoch() -> None:
    days = [dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(2024, 2, 29)]
    want = [d.toordinal() - dt.date(1970, 1, 1).toordinal() for d in days]
    for t in (pa.date32(), pa.date64()):
        assert plain(from_arrow_array(pa.array(days, t), from_arrow(t)), from_arrow(t), 3) == want


def test_null_columns() -> None:
    t = from_arrow(pa.null())
    assert plain(from_arrow_array(pa.nulls(3), t), t, 3) == [None] * 3


def test_nested_columns_travel_as_they_are() -> None:
    array = pa.array([[1], None, [2, 3]])
    t = from_arrow(array.type)
    v = from_arrow_array(array.slice(1), t)
    assert v.values.to_pylist() == [None, [2, 3]] and v.valid is not None and v.valid.tolist() == [False, True]


def test_dictionary_of_each_index_width_with_null_in_the_dictionary() -> None:
    for width in (pa.int8(), pa.int32(), pa.uint16()):
        array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], width), pa.array(["a", None, "b"]))
        t = from_arrow(array.type)
        assert plain(from_arrow_array(array, t), t, 4) == ["a", None, None, "b"]


def test_run_end_encoding() -> None:
    array = pa.RunEndEncodedArray.from_arrays([2, 5], pa.array([10, None]))
    t = from_arrow(pa.int64())
    assert plain(from_arrow_array(array, t), t, 5) == [10, 10, None, None, None]


def test_no_chunks() -> None:
    t = from_arrow(pa.int32())
    assert plain(from_arrow_array(pa.chunked_array([], pa.int32()), t), t, 0) == []


def test_a_column_in_another_unit_than_announced_is_brought_to_it() -> None:
    node = col("c", pa.timestamp("us"))
    (v,) = evaluate([node], lambda _s, _n: pa.array([-1, 1], pa.int64()).cast(pa.timestamp("ms")), 2)
    assert v.values.tolist() == [-1000, 1000]
