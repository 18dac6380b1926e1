"""Files and streams whose left rows each get one answer, in slices of a few rows, compared with every pair of rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drivers import aggregated_tables, picked_tables

from ivjoin import Order
from ivjoin.stream import prepared
from ivjoin.stream.sort import sorting
from ivjoin.stream.tables import lookup_parts
from ivjoin.stream.threads import slices

KINDS = ("files", "sorted files", "declared", "slack", "streams")
CHECKS = {"picks": picked_tables.check, "aggregates": aggregated_tables.check}


@contextmanager
def small_slices(draw: random.Random) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "_SLICE_ROWS", draw.choice([1, 3, 20]))
        patch.setattr(slices, "_CARRIED", draw.choice([0, 1, 4]))
        patch.setattr(slices, "_COPIED", draw.choice([0, 1, 8]))
        patch.setattr(slices, "_MANY_ROWS", draw.choice([1, 1000]))
        patch.setattr(slices, "_MOST_ROWS", draw.choice([2, 1000, 1000]))
        patch.setattr(sorting, "SMALL", 0)
        patch.setattr(prepared, "_PARALLEL_ROWS", draw.choice([1, 5, 40]))
        patch.setattr(lookup_parts, "_LEAST_ROWS", draw.choice([1, 7, 1000]))
        yield


class Given:
    """Other inputs in place of two tables."""

    def __init__(self, kind: str, draw: random.Random, folder: Path) -> None:
        self._kind, self._draw, self._folder = kind, draw, folder
        self._slack: Any = None
        self.declares = kind in ("declared", "slack", "streams")

    def tables(self, left: pa.Table, right: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The rows in the order in which the inputs have them, numbered in that order."""
        if self._kind == "files":
            return left, right
        late = 0
        if self._kind == "slack" and not pa.types.is_floating(left["t"].type):
            late = 3
            self._slack = timedelta(microseconds=3) if pa.types.is_timestamp(left["t"].type) else 3
        return _sorted(left, "id", self._draw, late), _sorted(right, "x", self._draw, late)

    def inputs(self, left: pa.Table, right: pa.Table, options: dict[str, Any]) -> tuple[Any, Any]:
        if self.declares:
            options["left_order"] = options["right_order"] = Order("t", slack=self._slack)
        if self._kind == "streams":
            left, right = (pa.RecordBatchReader.from_batches(t.schema, t.to_batches(9)) for t in (left, right))
            return left, right
        paths = []
        for table, name in ((left, "left"), (right, "right")):
            paths.append(self._folder / f"{name}.parquet")
            pq.write_table(table, paths[-1], row_group_size=self._draw.choice([1, 10, 40]))
        return paths[0], paths[1]


def check(what: str, kind: str, seed: int, folder: Path) -> str:
    """One random join of ``KINDS``; the name of the code path."""
    draw = random.Random(f"{what} {kind} {seed}")
    with small_slices(draw):
        return CHECKS[what](seed, Given(kind, draw, folder))


def _sorted(table: pa.Table, number: str, draw: random.Random, late: int) -> pa.Table:
    """The rows by time, each at most so much too late, numbered again."""
    column = table["t"]
    values = (column if pa.types.is_floating(column.type) else column.cast(pa.int64())).to_pylist()
    times = [(1, 0) if t is None else (0, t + (draw.randint(0, late) if late else 0)) for t in values]
    rows = table.take(pa.array(sorted(range(len(times)), key=times.__getitem__), pa.int64()))
    return rows.set_column(rows.column_names.index(number), number, pa.array(range(rows.num_rows), pa.int64()))


def engines(what: str, kind: str, seeds: range, folder: Path) -> Counter[str]:
    return Counter(check(what, kind, seed, folder) for seed in seeds)
