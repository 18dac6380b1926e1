"""Columns of doubles that are an axis: stored once, as ordinals, and emitted bit by bit unchanged."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import SymmetricHashJoin
from ivjoin.expr.ordinal import ordinals
from ivjoin.expr.types import FLOAT64
from ivjoin.shj.arrow import are_told_by_ordinals, doubles_of
from ivjoin.shj.store.values.columns import OrdinalColumn, WordColumn

pytestmark = pytest.mark.nojit

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.float64(), "n": pa.int64()})
QUIET, OTHER, NEGATIVE = 0x7FF8 << 48, (0x7FF8 << 48) + 5, 0xFFF8 << 48
PLAIN = [0.0, 1.5, -1.5, 5e-324, -5e-324, 1.7e308, -1.7e308, float("inf"), float("-inf"), 2.0**-1022]


def double(bits: int) -> float:
    found: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return found


def record(t: Any, first: int, absent: Any = ()) -> pa.RecordBatch:
    values = np.asarray(t, dtype=np.float64)
    mask = np.zeros(len(values), dtype=bool)
    mask[list(absent)] = True
    return pa.record_batch(
        [np.zeros(len(values), np.int64), pa.array(values, mask=mask), np.arange(first, first + len(values))], SCHEMA
    )


def held(op: SymmetricHashJoin, side: int) -> type:
    return type(op._engine.stores[side].columns[op._engine.stores[side].stored.index(1)])


def bits_out(batches: list[pa.RecordBatch]) -> dict[int, int | None]:
    """The bits of ``t`` of each output row, by its number."""
    out: dict[int, int | None] = {}
    for b in batches:
        values = np.frombuffer(b.column("t").buffers()[1], np.uint64)[b.column("t").offset :]
        for i, n in enumerate(b.column("n").to_pylist()):
            if n is not None:
                out[n] = int(values[i]) if b.column("t")[i].is_valid else None
    return out


def bits_of(batch: pa.RecordBatch) -> dict[int, int | None]:
    return bits_out([batch])


def test_ordinals_tell_all_but_a_zero_below_zero_and_unusual_nans() -> None:
    rng = np.random.default_rng(1)
    drawn = rng.integers(-(2**63), 2**63 - 1, 2000).view(np.float64)
    values = np.array([*PLAIN, double(QUIET), *drawn[drawn == drawn]])
    back = doubles_of(ordinals(values, FLOAT64))
    np.testing.assert_array_equal(back.view(np.uint64), values.view(np.uint64))
    assert are_told_by_ordinals(pa.array(values, from_pandas=False))
    for bits in (1 << 63, OTHER, NEGATIVE, (0x7FF0 << 48) + 1):
        odd = pa.Array.from_buffers(pa.float64(), 1, [None, pa.py_buffer(struct.pack("<Q", bits))])
        assert not are_told_by_ordinals(odd)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", ["left", "full", "left_semi", "left_anti"])
@pytest.mark.parametrize("limit", [None, "1MB"], ids=["no limit", "a limit"])
@pytest.mark.parametrize("odd", [None, -0.0, double(OTHER), double(NEGATIVE)], ids=["none", "zero", "nan", "-nan"])
def test_doubles_are_emitted_unchanged(how: str, limit: Any, odd: float | None) -> None:
    op = SymmetricHashJoin(SCHEMA, SCHEMA, on="k", condition="abs(l.n - r.n) <= 2 AND l.t <= r.t", how=how,
                           memory_limit=limit)  # fmt: skip
    pieces = [record([*PLAIN, double(QUIET)], 0), record([3.0, 4.0, 8.0], 11, absent=[1])]
    if odd is not None:
        pieces += [record([odd, 7.0, odd], 14, absent=[1]), record(np.arange(200.0), 17)]
    want: dict[int, int | None] = {}
    out: list[pa.RecordBatch] = []
    for i, piece in enumerate(pieces):
        want |= bits_of(piece)
        out += op.push("left", piece)
        assert held(op, 0) is (OrdinalColumn if i < 2 else WordColumn)
        if i == 1:
            op = SymmetricHashJoin.restore(op.snapshot(), memory_limit=limit)
    op = SymmetricHashJoin.restore(op.snapshot(), memory_limit=limit)
    assert held(op, 0) is (OrdinalColumn if odd is None else WordColumn)
    out += op.push("right", record(np.full(30, np.inf), 0))
    out += op.finish()
    found = bits_out(out)
    assert found == {n: bits for n, bits in want.items() if n in found}
    if how in ("left", "full"):
        assert found == want


def test_batch_with_negative_zero_reserves_for_all_rows() -> None:
    """Rows around the end of the ring, some of them evicted, keep their values as their column moves."""
    op = SymmetricHashJoin(SCHEMA, SCHEMA, condition="l.t <= r.t AND l.t >= r.t", how="left", left_order="t",
                           right_order="t")  # fmt: skip
    want: dict[int, int | None] = {}
    out: list[pa.RecordBatch] = []
    for i in range(12):
        piece = record(np.arange(40 * i, 40 * i + 40) / 8 - 10, 40 * i)
        if i == 6:
            t = piece.column("t").to_numpy().copy()
            t[5] = -0.0 if t[5] == 0 else t[5]
            piece = record(np.where(t == 0, -0.0, t), 240)
        want |= bits_of(piece)
        out += op.push("left", piece)
        if i % 3:
            out += op.push("right", record([40 * i / 8 - 10 - 0.01], i))
    out += op.finish()
    assert bits_out(out) == want
    assert sum(bits == 1 << 63 for bits in want.values()) <= 1


@pytest.mark.parametrize("width", [1, 7, 9, 16, 17])
def test_columns_of_any_width_next_to_one(width: int) -> None:
    schema = pa.schema({"t": pa.float64(), "small": pa.int8(), "wide": pa.binary(width)})
    t = np.array([-3.5, -1.0, 0.0, 2.5])
    rows = pa.record_batch([t, pa.array([-12, 12, -1, 0], pa.int8()), [bytes([i] * width) for i in range(4)]], schema)
    op = SymmetricHashJoin(schema, schema, condition="l.t <= r.t AND l.t >= r.t", left_order="t", right_order="t")
    out = list(op.push("left", rows)) + list(op.push("right", rows)) + list(op.finish())
    got = sorted(pa.Table.from_batches(out, op.schema).to_pylist(), key=lambda row: row["t"])
    assert got == [row | {f"{name}_right": v for name, v in row.items()} for row in rows.to_pylist()]
