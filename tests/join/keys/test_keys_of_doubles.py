"""Joins of tables by keys of doubles, whose equal values differ in their bits."""

from __future__ import annotations

import math
import struct
from collections import Counter

import pyarrow as pa
import pytest
from drivers.in_slices import slices_of

from ivjoin import band_join

NAN, OTHER_NAN = (struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8000000000000, 0xFFF8000000000001))
TYPES = pa.float64(), pa.int64(), pa.int64()
BAND = "l.t BETWEEN r.t - 2 AND r.t + 9"
KEYS = [0.0, -0.0, NAN, OTHER_NAN, None, 1.5, math.inf]


def same(a: float | None, b: float | None) -> bool:
    return a is not None and b is not None and (a == b or (a != a and b != b))


def bits(x: float | None) -> bytes | None:
    return None if x is None else struct.pack("<d", x)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("sizes", [(600, 60), (60, 600)])
def test_a_merged_key_has_the_bits_of_the_left_row_and_else_of_the_right_one(
    how: str, threads: int, sizes: tuple[int, int]
) -> None:
    left, right = ([(KEYS[i * 5 % 7], i * 600 // n, i) for i in range(n)] for n in sizes)
    tables = [
        pa.table([pa.array([r[i] for r in rows], kind) for i, kind in enumerate(TYPES)], names=["g", "t", v])
        for rows, v in ((left, "a"), (right, "b"))
    ]
    with slices_of(40, 1, 0):
        found = band_join(*tables, on="g", condition=BAND, how=how, threads=threads).to_arrow()
    pairs = [(x, y) for x in left for y in right if same(x[0], y[0]) and -2 <= x[1] - y[1] <= 9]
    want = Counter((bits(x[0]), x[1], x[2], y[1], y[2]) for x, y in pairs)
    if how in ("left", "full"):
        met = {x[2] for x, _ in pairs}
        want.update((bits(x[0]), x[1], x[2], None, None) for x in left if x[2] not in met)
    if how in ("right", "full"):
        met = {y[2] for _, y in pairs}
        want.update((bits(y[0]), None, None, y[1], y[2]) for y in right if y[2] not in met)
    assert Counter((bits(r["g"]), r["t"], r["a"], r["t_right"], r["b"]) for r in found.to_pylist()) == want
