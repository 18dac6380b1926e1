"""Inputs of lookups: tables, files and streams whose rows come in any order, cut into slices of a few rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drivers.in_slices import split

from ivjoin import Order
from ivjoin.stream import prepared
from ivjoin.stream.sort import given, outside, sorting
from ivjoin.stream.tables import lookup_parts, table_lookup, table_pick, table_window
from ivjoin.stream.threads import slices

__all__ = ["INPUTS", "Inputs", "in_small_slices"]

INPUTS = ("tables", "files", "sorted files", "declared", "slack", "streams")


@contextmanager
def in_small_slices(rows: int, out: int) -> Iterator[None]:
    """Tables are joined in slices of so many rows and emitted in batches of so many left rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_pick, "_SLICE_ROWS", rows)
        patch.setattr(table_lookup, "OUT_ROWS", out)
        patch.setattr(table_pick, "OUT_ROWS", out)
        patch.setattr(table_window, "_SLICE_ROWS", rows)
        patch.setattr(table_window, "_BANDS", 0)
        patch.setattr(table_window, "OUT_ROWS", out)
        yield


@contextmanager
def small_slices(r: random.Random) -> Iterator[None]:
    """The same at random, and slices of a few rows of files and streams."""
    with pytest.MonkeyPatch.context() as patch, in_small_slices(r.choice((1, 2, 7, 40, 1 << 17)), r.choice((1, 9))):
        patch.setattr(slices, "_SLICE_ROWS", r.choice((1, 3, 20)))
        patch.setattr(slices, "_CARRIED", r.choice((0, 1, 4)))
        patch.setattr(slices, "_COPIED", r.choice((0, 1, 8)))
        patch.setattr(slices, "_MOST_LOOKUP_ROWS", r.choice((2, 1000, 1000)))
        patch.setattr(slices, "_THREAD_ROWS", r.choice((1, 4, 1000)))
        patch.setattr(sorting, "SMALL", 0)
        patch.setattr(prepared, "_PARALLEL_ROWS", r.choice((1, 5, 40)))
        patch.setattr(lookup_parts, "_LEAST_ROWS", r.choice((1, 7, 1000)))
        patch.setattr(given, "capacity_for", lambda limit: 500)
        patch.setattr(outside, "_PIECE", 200)
        patch.setattr(outside, "_LEAST_ROWS", 7)
        yield


@dataclass
class Inputs:
    """How rows come; ``kind`` is one of ``INPUTS``."""

    kind: str
    r: random.Random
    folder: Path

    def __post_init__(self) -> None:
        self.declared = self.kind in ("declared", "slack", "streams")
        self.settles_ties = self.kind not in ("files", "sorted files")  # in the order of arrival
        self._late = self.r.randrange(20) if self.kind in ("slack", "streams") else 0

    def arranged(self, rows: pa.Table, number: str, time: str) -> pa.Table:
        """The rows in the order in which they come, numbered in that order."""
        n = rows.num_rows
        if self.kind in ("tables", "files"):
            places = self.r.sample(range(n), n) if self.r.random() < 0.7 else list(range(n))
        else:
            late = self._late if not pa.types.is_floating(rows[time].type) else 0
            when = [(1, 0) if v is None else (0, v + self.r.randint(0, late)) for v in _numbers(rows[time])]
            places = sorted(range(n), key=when.__getitem__)
        rows = rows.take(pa.array(places, pa.int64()))
        rows = rows.set_column(rows.column_names.index(number), number, pa.array(range(n), pa.int64()))
        return split(self.r, rows) if self.kind == "tables" else rows

    def opened(self, left: pa.Table, right: pa.Table) -> tuple[tuple[Any, Any], dict[str, Any]]:
        """The inputs and the options that belong to them."""
        options: dict[str, Any] = {"batch_size": self.r.choice((1, 7, 65536))}
        if self.declared:
            slack: Any = None if pa.types.is_floating(left["t"].type) else self._late
            slack = timedelta(microseconds=self._late) if pa.types.is_timestamp(left["t"].type) else slack
            options |= {"left_order": Order("t", slack=slack), "right_order": Order("u", slack=slack)}
        if self.kind in ("tables", "streams") and self.r.random() < 0.2:
            options |= {"memory_limit": "1MB", "when_full": "spill"}
        if self.kind == "tables":
            return (left, right), options
        if self.kind == "streams":
            return (self._stream(left), self._stream(right)), options
        paths = []
        for rows, name in ((left, "left"), (right, "right")):
            paths.append(self.folder / f"{name}.parquet")
            pq.write_table(rows, paths[-1], row_group_size=max(self.r.choice((1, 10, 40)), len(rows) // 50))
        return (paths[0], paths[1]), options

    def _stream(self, rows: pa.Table) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(self.r.choice((1, 9, 64))))


def _numbers(values: pa.ChunkedArray) -> list[Any]:
    return (values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_pylist()
