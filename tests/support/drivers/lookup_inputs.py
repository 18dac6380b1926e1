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
from ivjoin.stream import run_of_two
from ivjoin.stream.sort import given, outside, sorting
from ivjoin.stream.tables import lookup_parts, table_lookup, table_pick, table_window
from ivjoin.stream.threads import sliced_stream

__all__ = ["INPUTS", "Inputs", "in_small_slices", "in_ticks", "slack_of", "small_slices"]

INPUTS = ("tables", "files", "sorted files", "declared", "slack", "streams", "falling", "mixed")
_DECLARED = ("declared", "slack", "streams", "falling")


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
        patch.setattr(sliced_stream, "_SLICE_ROWS", r.choice((1, 3, 20)))
        patch.setattr(sliced_stream, "_CARRIED", r.choice((0, 1, 4)))
        patch.setattr(sliced_stream, "_COPIED", r.choice((0, 1, 8)))
        patch.setattr(sliced_stream, "_MOST_LOOKUP_ROWS", r.choice((2, 1000, 1000)))
        patch.setattr(sliced_stream, "_THREAD_ROWS", r.choice((1, 4, 1000)))
        patch.setattr(sorting, "SMALL", 0)
        patch.setattr(run_of_two, "_PARALLEL_ROWS", r.choice((1, 5, 40)))
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
        ways = self.r.choices(INPUTS[:6], k=2) if self.kind == "mixed" else [self.kind, self.kind]
        self._ways = dict(zip("tu", ways))  # of the left side and of the right one, by their times
        self.declared = ways[1] in _DECLARED
        self.settles_ties = self.kind in ("tables", "declared", "slack", "streams")  # in the order of arrival
        self._late = self.r.randrange(20) if self.kind in ("slack", "streams", "mixed", "falling") else 0

    def arranged(self, rows: pa.Table, number: str, time: str) -> pa.Table:
        """The rows in the order in which they come, numbered in that order."""
        n, way = rows.num_rows, self._ways[time]
        if way in ("tables", "files"):
            places = self.r.sample(range(n), n) if self.r.random() < 0.7 else list(range(n))
        else:
            late = self._late if not pa.types.is_floating(rows[time].type) and way != "sorted files" else 0
            sign = -1 if way == "falling" else 1
            ticks = in_ticks(rows[time]).to_pylist()
            when = [(1, 0) if v is None else (0, sign * v + self.r.randint(0, late)) for v in ticks]
            places = sorted(range(n), key=when.__getitem__)
        rows = rows.take(pa.array(places, pa.int64()))
        rows = rows.set_column(rows.column_names.index(number), number, pa.array(range(n), pa.int64()))
        return split(self.r, rows) if way == "tables" else rows

    def opened(self, left: pa.Table, right: pa.Table) -> tuple[tuple[Any, Any], dict[str, Any]]:
        """The inputs and the options that belong to them."""
        options: dict[str, Any] = {"batch_size": self.r.choice((1, 7, 65536))}
        sides = []
        for rows, name, time in ((left, "left", "t"), (right, "right", "u")):
            way = self._ways[time]
            if way in _DECLARED:
                slack = None if pa.types.is_floating(rows[time].type) else slack_of(rows[time].type, self._late)
                options[f"{name}_order"] = Order(time, slack=slack, descending=way == "falling")
            sides.append(self._opened(rows, name, way))
        if self.r.random() < 0.1:
            options |= {"memory_limit": self.r.choice(("1MB", "1MB", "200kB", "80kB")), "when_full": "spill"}
        return (sides[0], sides[1]), options

    def _opened(self, rows: pa.Table, name: str, way: str) -> Any:
        if way == "tables":
            return rows
        if way in ("streams", "falling"):
            size = self.r.choice((1, 9, 64) if rows.num_rows < 500 else (64, 500))  # a push evaluates all that waits
            return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(size))
        path = self.folder / f"{name}.parquet"
        pq.write_table(rows, path, row_group_size=max(self.r.choice((1, 10, 40)), len(rows) // 50))
        return path


def slack_of(t: pa.DataType, n: int) -> Any:
    """So many steps of a type of times."""
    if pa.types.is_timestamp(t):
        return timedelta(microseconds=n)
    return timedelta(days=n) if pa.types.is_date(t) else n


def in_ticks(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as numbers, timestamps in microseconds."""
    t = values.type
    if pa.types.is_timestamp(t):
        return values.cast(pa.timestamp("us", t.tz)).cast(pa.int64())
    return values.cast(pa.int32()) if pa.types.is_date(t) else values
