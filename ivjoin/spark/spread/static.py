"""Join static DataFrames, or a stream with a table.

Of two static frames, a task receives both sides of a key, sorted, and streams them through the operator.

::

    left  -- side 0, keys, order --+
                                   +-- union -- repartition(keys) -- sortWithinPartitions(order) -- mapInArrow(operator)
    right -- side 1, keys, order --+       (keys and order that are plain columns need no extra columns)

If keys alone do not divide the rows well, each row is first routed to cells (``spreading``), and Spark shuffles by the
task of the cell. Small frames are not shuffled: one task reads and joins them. The rows are sorted along a band, and
the operator evicts a row as soon as the band has passed it. Rows for which the band's expression raises an error are
sorted first, with the nulls, because the condition as a whole need not raise an error for them.

Of a stream and a static frame, each micro-batch meets all rows of the table, so no row has to wait.

::

    stream -- bucket of the keys --+
                                   +-- cogroup -- applyInArrow(operator)       no state, in each micro-batch
    table  -- bucket of the keys --+

Spark reads the table again in each micro-batch, unless it is cached.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ivjoin.errors import UnsupportedError
from ivjoin.frontier.order import Order
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.outer.jointype import join_type
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.rows.arrow import bucket_sql, in_order, in_places, key_sql, sort_key, with_image
from ivjoin.spark.rows.metrics import observed
from ivjoin.spark.rows.pack import fitted, rows_of
from ivjoin.spark.rows.results import GROWING, RESULT_SCHEMA, MapStage, limit_explained, opener, packed_row
from ivjoin.spark.rows.slots import filled, laid_together, selected, union
from ivjoin.spark.spread.buckets import cell_spec, only_owned
from ivjoin.spark.spread.spreading import Spread, routed

__all__ = ["static_join", "table_join"]

Joiner = Callable[[Iterator[pa.RecordBatch]], Generator[pa.RecordBatch, None, JoinMetrics]]

_COUNTS = (*GROWING, "peak_state_rows", "peak_state_bytes")  # of one task, in the order of its text
_OF_A_TASK = (
    "Of static frames, memory_limit bounds one task. Fixes: a greater memory_limit; when_full='spill'; more tasks "
    "(buckets=); a narrower band; a lower spark.sql.execution.arrow.maxRecordsPerBatch, by which rows are read ahead"
)


def static_join(
    left: Any, right: Any, spec: JoinSpec, out: StructType, spread: Spread, observation: Any = None,
    budget: Budget | None = None,
) -> Any:
    """Return the joined frame. ``observation`` receives the counts, and each task has its own ``budget``."""
    plan = plan_of(spec)
    key = sort_key(plan)
    keys = key_sql(plan)
    is_routed = spread.plan is not None
    types = [[f.dataType for f in frame.schema] for frame in (left, right)]
    ordered = None if key is None or key.sql is None else key.sql
    together = [*([] if ordered is None else [ordered]), *([] if is_routed or spread.alone else keys)]
    slots, places, found = laid_together(types, [[_column_of(text) for text in pair] for pair in together])
    by = [f"b{i}" if slot is None else f"s{slot}" for i, slot in enumerate(found)]
    order = by.pop(0) if ordered is not None else "o"
    tagged = []
    for side, frame in enumerate((left, right)):
        rows = in_places(frame)
        columns = filled(slots, places[side])
        if key is not None and key.sql is None:
            rows = with_image(rows, spec, side, key.nodes[side])
        rows, added = routed(rows, frame, spec, side, spread) if is_routed else (rows, {})
        for i, (pair, at) in enumerate(zip(together, found, strict=True)):
            if at is None:
                columns[f"b{i}"] = pair[side]
        if key is not None and ordered is None:
            columns["o"] = "o"
        tagged.append(selected(rows, **columns, side=f"CAST({side} AS TINYINT)", **added))
    both = union(tagged)
    by = ["label"] if is_routed else by
    if not by or spread.alone:
        both = both.coalesce(1)
    else:
        both = both.repartition(*([] if spread.tasks is None else [spread.tasks]), *by)
    run = spec.with_orders((), (), "raise")
    if key is not None:
        both = both.sortWithinPartitions(order)
        run = spec.with_orders((Order(key.nodes[0]),), (Order(key.nodes[1]),), "raise")
    more = ["cell", "owned"] if is_routed else []
    payload = both.selectExpr("side", *[f"s{i}" for i in range(len(slots))], *more)
    if is_routed:
        celled = [[*p, len(slots), len(slots) + 1] for p in places]
        joiner = _joiner(cell_spec(run), celled, budget, plan_of(run).schema)
    else:
        joiner = _joiner(run, places, budget)
    if observation is None:
        return payload.mapInArrow(joiner, out)
    counted = payload.mapInArrow(_counted(joiner), RESULT_SCHEMA)
    return observed(counted, observation, _COUNTS).mapInArrow(opener(plan_of(run).schema), out)


def _counted(join: Joiner) -> MapStage:
    """Return a function that packs the rows of ``join`` and adds a last row with its counts."""

    def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ends: list[JoinMetrics] = []

        def rows() -> Iterator[pa.RecordBatch]:
            ends.append((yield from join(batches)))

        yield from (packed_row(batch, None) for batch in rows())
        total = ends[0].as_dict()
        yield packed_row(None, ",".join(str(total[name]) for name in _COUNTS))

    return joined


def _column_of(sql: str) -> int | None:
    found = re.fullmatch(r"`c(\d+)`", sql)
    return int(found[1]) if found else None


def _joiner(
    spec: JoinSpec, places: list[list[int]], budget: Budget | None = None, owned: pa.Schema | None = None
) -> Joiner:
    """Return the function of a task, which reads tagged rows in order, yields joined rows, and returns the counts.

    With the schema ``owned``, it yields only the joined rows that the task owns, in that schema.
    """

    def join(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, JoinMetrics]:
        op = SymmetricHashJoin.from_plan(plan_of(spec), errors_first=True, budget=budget)
        unowned = 0

        def kept(joined: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            nonlocal unowned
            for batch in joined:
                mine = batch if owned is None else only_owned(batch, owned)
                unowned += batch.num_rows - mine.num_rows
                if mine.num_rows:
                    yield mine

        with limit_explained(_OF_A_TASK):
            for batch in batches:
                tags = np.asarray(batch.column(0))
                for side in (0, 1):
                    index = np.flatnonzero(tags == side)
                    if len(index):
                        columns = [1 + slot for slot in places[side]]
                        yield from kept(op.push(SIDES[side], rows_of(batch, index, columns, spec.schemas[side])))
            yield from kept(op.finish())
        counts = op.metrics
        counts.rows_out -= unowned
        return counts

    return join


_OF_A_GROUP = (
    "With a static frame, memory_limit bounds one bucket of a micro-batch. Fixes: a greater memory_limit; more "
    "buckets; fewer rows in a micro-batch; a table without the rows that cannot match"
)


def table_join(
    left: Any, right: Any, spec: JoinSpec, out: StructType, buckets: int, budget: Budget | None = None
) -> Any:
    """Return the joined stream; raise UnsupportedError if the join emits rows of the static frame alone."""
    stream = 0 if left.isStreaming else 1
    how = join_type(spec.how)
    one_side = how.name.split("_")[-1] in ("semi", "anti") and not how.name.startswith(SIDES[stream])
    of_left = bool(stream and (spec.pick is not None or spec.aggregates))
    if how.owes(1 - stream) or one_side or of_left:
        good = ["inner", SIDES[stream], f"{SIDES[stream]}_semi", f"{SIDES[stream]}_anti"]
        what = "each left row has one result" if of_left else f"how is {spec.how!r}"
        raise UnsupportedError(
            f"{what}, but the {SIDES[1 - stream]} frame is static and the {SIDES[stream]} stream does not end, so a "
            f"row of the static frame would never be decided. Expected how to be one of {', '.join(map(repr, good))}"
            f"{'' if not stream else '; or give the stream as the left frame'}"
        )
    keys = key_sql(plan_of(spec))
    groups = []
    for side, frame in enumerate((left, right)):
        bucket = F.expr(bucket_sql(keys, side, buckets)).cast("int")
        groups.append(in_places(frame).select(bucket.alias("bucket"), "*").groupBy("bucket"))
    run = spec.with_orders((), (), "raise")
    return groups[0].cogroup(groups[1]).applyInArrow(_of_bucket(run, stream, budget), out)


def _of_bucket(spec: JoinSpec, stream: int, budget: Budget | None) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """Return the function of a bucket: insert the table's rows, then probe with the rows of the stream."""

    def join(left: pa.Table, right: pa.Table) -> pa.Table:
        plan = plan_of(spec)
        found: list[pa.RecordBatch] = []
        if (left, right)[stream].num_rows:
            op = SymmetricHashJoin.from_plan(plan, errors_first=True, budget=budget)
            with limit_explained(_OF_A_GROUP):
                for side in (1 - stream, stream):
                    for rows in (left, right)[side].combine_chunks().to_batches():
                        batch = fitted(rows.select(rows.schema.names[1:]), spec.schemas[side])
                        found += op.push(SIDES[side], in_order(plan, side, batch))
                found += op.finish()
        return pa.Table.from_batches(found, schema=plan.schema)

    return join
