"""Slices of streams that are abandoned: one operator joins the waiting rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from drivers.threaded import small_slices

from ivjoin import Order, SymmetricHashJoin, band_join

SCHEMA = pa.schema({"t": pa.int64()})


def stream(times: list[int], size: int) -> Iterator[pa.RecordBatch]:
    return (pa.record_batch([times[i : i + size]], schema=SCHEMA) for i in range(0, len(times), size))


def joined(threads: int) -> Counter[tuple[int | None, int | None]]:
    batches = band_join(
        pa.RecordBatchReader.from_batches(SCHEMA, stream([1, 7, 7, 11], 2)),
        pa.RecordBatchReader.from_batches(SCHEMA, stream([3, 6, 10, 7, 11], 1)),
        condition="abs(l.t - r.t) <= 3", how="full", left_order="t", right_order=Order("t", slack=5), threads=threads,
    )
    return Counter((row["t"], row["t_right"]) for batch in batches for row in batch.to_pylist())


def test_matches_of_earlier_slices_are_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of an earlier slice may arrive late enough that a row that it matches is there before it."""
    emitted = 0
    push_matched = SymmetricHashJoin.push_matched

    def counted(op: SymmetricHashJoin, side: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        nonlocal emitted
        for out in push_matched(op, side, batch):
            emitted += out.num_rows
            yield out

    monkeypatch.setattr(SymmetricHashJoin, "push_matched", counted)
    with small_slices(30):
        got = joined(2)
    assert got == joined(1)
    assert sum(got.values()) == 9
    assert emitted > 0
