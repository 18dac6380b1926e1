"""Pass the output of a micro-batch's turns to the sink: the files that they wrote, or the rows if there are few.

::

    bucket 0   operator --> 40 bytes of JSON, then the rows (Arrow stream)     few rows: the driver writes them
    bucket 1   operator --> _staging/<query>/6-9f3a...  (Parquet)
                        --> JSON: that file, its rows and bytes                many: the worker has written them

Spark moves only one line for each turn, or at most ``inline_bytes`` bytes of rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from ivjoin.spark.rows.results import ROWS_COLUMN, MapStage, Results
from ivjoin.spark.sink.layout import Layout, WrittenFile, unique

if TYPE_CHECKING:
    import pandas as pd

    from ivjoin.spark.rows.late import LateRows

__all__ = ["Part", "WrittenResults", "row_writer", "written"]


@dataclass(frozen=True, slots=True)
class Part:
    """The output of one turn in a micro-batch: files, or rows as an Arrow stream."""

    files: tuple[WrittenFile, ...]
    rows: bytes
    late: bool = False

    def packed(self) -> bytes:
        head = json.dumps([self.late, [asdict(f) for f in self.files]], separators=(",", ":"))
        return head.encode() + b"\n" + self.rows

    @classmethod
    def unpacked(cls, data: bytes) -> Part:
        head, _, rows = data.partition(b"\n")
        late, files = json.loads(head)
        return cls(tuple(WrittenFile(**f) for f in files), rows, late)


def written(layout: Layout, batches: Iterator[pa.RecordBatch], stem: str) -> Part | None:
    """Write all rows of a turn into files, or pack them if there are few. Return None if the turn has no rows."""
    held: list[pa.RecordBatch] = []
    size = 0
    for rows in batches:
        if rows.num_rows:
            held.append(layout.fitted(rows))
            size += held[-1].nbytes
        if size > layout.inline_bytes:
            break
    if not held:
        return None
    if size <= layout.inline_bytes:
        return Part((), _stream(layout.schema, held))
    # Leave out the suffix that readers look for.
    name = unique(stem) + "-{i}" + (layout.suffix if layout.format == "delta" else "")
    files = layout.write(chain(held, (layout.fitted(b) for b in batches if b.num_rows)), layout.staging, name)
    return Part(tuple(files), b"")


def _stream(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


class WrittenResults(Results):
    """Results that a stateful function writes itself. It returns packed :class:`Part` instead of rows.

    ``late_layout`` is the layout of the files for late rows, if these have separate files.
    """

    def __init__(self, layout: Layout, late: LateRows | None = None, late_layout: Layout | None = None) -> None:
        super().__init__(most_rows=0, late=late)
        self._layout, self._late_layout = layout, late_layout

    def frames(self, batches: Iterator[pa.RecordBatch], label: int) -> Iterator[pd.DataFrame]:
        parts = [written(self._layout, self.with_late(batches), str(label))]
        if self.late is not None and self._late_layout is not None:
            late = written(self._late_layout, iter(self.late.taken()), str(label))
            parts.append(None if late is None else replace(late, late=True))
        for part in parts:
            if part is not None:
                yield self.packed(part.packed())


def row_writer(layout: Layout) -> MapStage:
    """Return a map stage from plain rows to packed :class:`Part`, for frames whose rows Spark has already processed."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = written(layout, batches, "rows")
        if part is not None:
            yield pa.RecordBatch.from_arrays([pa.array([part.packed()], pa.binary())], names=[ROWS_COLUMN])

    return write
