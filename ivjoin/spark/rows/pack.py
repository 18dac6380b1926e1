"""Run the first stage of a streaming join: each map task packs its rows into one row for each bucket, and sends ticks.

::

    bucket | c0 c1 c2 ...                      label | side | rows (Arrow IPC) | seen
    -------+-------------     packs to         ------+------+------------------+-------------
      3    | ...                                 6   |  0   |  <rows of 3>     | null
      0    | ...                                 0   |  0   |  <rows of 0>     | null
      3    | ...                                 0   |  0   |  null            | <a tick>       one such row per bucket

Rows enter Python once, as Arrow, so all types are preserved. Spark then shuffles and groups a small number of large
rows. A tick is a row with a value in ``seen``: the greatest values of the orders in the rows of the task, and when the
rows arrived. Each task with rows sends a tick to every bucket, because a bucket without rows also needs these values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, ByteType, IntegerType, StructField, StructType

from ivjoin.conditions.evaluate import evaluate
from ivjoin.errors import IvjoinError
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import NAN_ORDINAL, ordinals
from ivjoin.outer.values import has_value
from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.results import Arrived, MapStage
from ivjoin.spark.spread.buckets import second_key

__all__ = [
    "PACKED_SCHEMA", "Route", "Seen", "Way", "fitted", "hashed_matches", "packer", "parts", "unpacked", "whole",
]  # fmt: skip

_Packed = tuple[int, int, bytes | None, bytes | None, int | None]
# From rows and their hashes to one row for each copy, with its added columns, and the buckets of the copies.
Way = Callable[[pa.RecordBatch, np.ndarray], tuple[pa.RecordBatch, np.ndarray]]
# Makes the ``Way`` of a side, once in each task. If it has an attribute ``heard``, its value goes to the first bucket.
Route = Callable[[int], Way | None]

PACKED_SCHEMA = StructType([  # not as text, which Spark would parse for each stage
    StructField("label", IntegerType()), StructField("side", ByteType()), StructField("rows", BinaryType()),
    # Of buckets with two groups, ``part`` is null in rows and ticks, which go to the first group, and the name of the
    # second group in the rows that call it.
    StructField("seen", BinaryType()), StructField("part", IntegerType()),
])  # fmt: skip
_ARROW = pa.schema([
    ("label", pa.int32()), ("side", pa.int8()), ("rows", pa.binary()), ("seen", pa.binary()), ("part", pa.int32()),
])  # fmt: skip
# Arrow bytes that a task collects before it packs them. Large packed rows are cheap for the next stages, but a task
# must not grow.
_FLUSH_BYTES = 32 << 20
_PART_BYTES = 64 << 20  # rows of static frames that a task joins at once, up to one label more


class Seen:
    """The greatest value of each order of one side, as ordinals; a descending order has inverted ordinals."""

    def __init__(self, plan: JoinPlan, side: int) -> None:
        self._index = {name: i for i, name in enumerate(plan.sides[side].schema.names)}
        self._orders = [(node, o.descending) for node, _, o in plan.sides[side].orders]
        self.edges: list[int | None] = [None] * len(self._orders)
        self._declared = sum(not o.follows for _, _, o in plan.sides[side].orders)

    @property
    def declared(self) -> list[int | None]:
        return self.edges[: self._declared]

    def show(self, batch: pa.RecordBatch) -> None:
        if not self._orders:
            return
        nodes = [node for node, _ in self._orders]
        vectors = evaluate(nodes, lambda _, name: batch.column(self._index[name]), batch.num_rows)
        for i, ((node, descending), v) in enumerate(zip(self._orders, vectors, strict=True)):
            image = ordinals(v.values, node.type)
            present = has_value(v)
            if node.type.kind == "float":
                ordered = image != NAN_ORDINAL
                present = ordered if present is None else present & ordered
            if present is not None:
                image = image[present]
            if len(image):
                top = int((~image if descending else image).max())
                before = self.edges[i]
                self.edges[i] = top if before is None else max(before, top)

    def merge(self, edges: Sequence[int | None]) -> None:
        for i, other in enumerate(edges):
            mine = self.edges[i]
            self.edges[i] = other if mine is None else mine if other is None else max(mine, other)

    def text(self, arrived: Arrived, heard: dict[str, Any] | None = None) -> bytes:
        """Return the content of a tick: ``[edges, when rows arrived]``, and the report to the planner, if any."""
        return json.dumps([self.edges, arrived.as_json, *([] if heard is None else [heard])]).encode()


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the names and types of the plan; columns match by position."""
    columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def packer(
    spec: JoinSpec, side: int, labels: Sequence[int], tag: int | None = None, route: Route | None = None,
    ticks: bool = True, two_groups: bool = False,
) -> MapStage:
    """Return the function of a map task, whose input has a hash first, and then the side's columns.

    A row goes to the bucket whose number is the hash modulo the number of buckets. With a ``route``, each row has a
    copy for each of its cells. ``tag`` replaces the number of the side in the packed rows. Static frames need no ticks.
    With ``two_groups``, each task with rows also calls the second groups of all buckets.
    """
    mark = side if tag is None else tag

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen, arrived = Seen(plan_of(spec), side), Arrived()
        way = None if route is None else route(side)
        schema = spec.schemas[side]
        pieces: list[pa.RecordBatch] = []
        held = 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if ticks:
                arrived.show(batch.num_rows)
                seen.show(fitted(batch.select(batch.schema.names[1:]), schema))
            pieces.append(batch)
            held += batch.nbytes
            if held >= _FLUSH_BYTES:
                yield from _packed(pieces, schema, mark, labels, way)
                pieces, held = [], 0
        if pieces:
            yield from _packed(pieces, schema, mark, labels, way)
        if arrived.rows:
            sent: list[_Packed] = [(label, mark, None, seen.text(arrived), None) for label in labels]
            heard = getattr(way, "heard", None)
            if heard is not None:
                sent[0] = labels[0], mark, None, seen.text(arrived, heard), None
            if two_groups:
                sent += [(label, mark, None, None, second_key(label)) for label in labels]
            yield _rows(sent)

    return pack


def _packed(
    pieces: list[pa.RecordBatch], schema: pa.Schema, side: int, labels: Sequence[int], way: Way | None
) -> Iterator[pa.RecordBatch]:
    rows = whole(pieces)
    hashes = np.asarray(rows.column(0))
    batch = fitted(rows.select(rows.schema.names[1:]), schema)
    if way is None:
        buckets = hashes % len(labels)
    else:
        batch, buckets = way(batch, hashes)
    if len(labels) == 1:
        yield _rows([(labels[0], side, batch.serialize().to_pybytes(), None, None)])
        return
    small = buckets.astype(np.uint16 if len(labels) <= 1 << 16 else np.int32)
    order = np.argsort(small, kind="stable")
    counts = np.bincount(small, minlength=len(labels))
    ends = np.cumsum(counts)
    grouped = batch.take(pa.array(order))
    out: list[_Packed] = []
    for bucket in map(int, np.flatnonzero(counts)):
        n = int(counts[bucket])
        part = grouped.slice(int(ends[bucket]) - n, n)
        out.append((labels[bucket], side, part.serialize().to_pybytes(), None, None))
    if out:
        yield _rows(out)


def hashed_matches(filters: Sequence[Node], keys: Sequence[Node], count: int) -> Way | None:
    """Return a function that sends rows to buckets by their hash, except rows that cannot match; None if all rows can.

    A filter that is not TRUE excludes a row, and so does a NULL in a key column. The join handles errors.
    """
    columns = [key.params[1] for key in keys if key.op == "column"]
    if not filters and not columns:
        return None

    def way(batch: pa.RecordBatch, hashes: np.ndarray) -> tuple[pa.RecordBatch, np.ndarray]:
        keep, wild = np.ones(batch.num_rows, dtype=bool), np.zeros(batch.num_rows, dtype=bool)
        for v in evaluate(filters, lambda _, name: batch.column(name), batch.num_rows) if filters else ():
            keep &= v.values if v.valid is None else v.values & v.valid
            if v.error is not None:
                wild |= v.error
        for column in map(batch.column, columns):
            if column.null_count:
                keep &= np.asarray(column.is_valid())
        keep |= wild
        return (batch, hashes % count) if keep.all() else (batch.filter(pa.array(keep)), hashes[keep] % count)

    return way


def _rows(rows: list[_Packed]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(column, f.type) for column, f in zip(zip(*rows, strict=True), _ARROW, strict=True)], schema=_ARROW
    )


def parts(
    batches: Iterator[pa.RecordBatch], schemas: Sequence[pa.Schema], least_bytes: int | None = None
) -> Iterator[list[pa.Table]]:
    """Yield the rows of each side as tables of several labels, of at least ``least_bytes`` bytes (default: 64 MiB)."""
    least = _PART_BYTES if least_bytes is None else least_bytes
    pieces: list[list[pa.RecordBatch]] = [[] for _ in schemas]
    size, last = 0, None

    def tables() -> list[pa.Table]:
        return [pa.Table.from_batches(own, schema) for own, schema in zip(pieces, schemas, strict=True)]

    for batch in batches:
        for label, side, rows in zip(*batch.columns[:3], strict=True):
            if size >= least and label != last:
                yield tables()
                pieces, size = [[] for _ in schemas], 0
            s, last = side.as_py(), label
            pieces[s].append(pa.ipc.read_record_batch(rows.as_buffer(), schemas[s]))
            size += len(rows.as_buffer())
    if size:
        yield tables()


def whole(pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches into one; raise IvjoinError if a column exceeds the 2 GB that one Arrow array can store."""
    if len(pieces) == 1:
        return pieces[0]
    made = pa.Table.from_batches(pieces).combine_chunks().to_batches()
    if len(made) > 1:
        raise IvjoinError(
            f"a micro-batch brings {sum(p.nbytes for p in pieces)} bytes to one bucket, of one column more than the "
            "2 GB that Arrow holds; expected less: set maxFilesPerTrigger or maxOffsetsPerTrigger, or take more buckets"
        )
    return made[0]


def unpacked(rows: bytes, schema: pa.Schema) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(rows), schema)
