"""Join static DataFrames, or a stream with a table.

In a join of two static frames, a task receives packed rows of both sides, and joins them as ivjoin joins tables: it
sorts them along the band and joins slices. Spark therefore moves a few large rows, and does not sort or shuffle single
rows::

    left  -- hash of the keys -- pack (mapInArrow) --+
                                                     +-- union -- repartition(label) -- mapInArrow(join)
    right -- hash of the keys -- pack (mapInArrow) --+

Rows that cannot match by their own columns are dropped before the shuffle, unless the join emits or routes them. A task
joins the rows of a few labels at a time, so these labels limit its memory. If keys alone do not divide the rows well,
the map stage routes each row to cells (``spreading``). Small frames are not shuffled, and one task joins them.

In a join of a stream and a static frame, each micro-batch is joined with all rows of the table, so no row has to wait::

    stream -- bucket of the keys --+
                                   +-- cogroup -- applyInArrow(join)       no state, in each micro-batch
    table  -- bucket of the keys --+

Spark reads the table again in each micro-batch, unless it is cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ivjoin.errors import UnsupportedError
from ivjoin.operator.memory.budget import Budget
from ivjoin.outer.jointype import join_type
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.rows.arrow import hash_sql, in_places, key_sql
from ivjoin.spark.rows.metrics import observed
from ivjoin.spark.rows.pack import PACKED_SCHEMA, Way, fitted, hashed_matches, packer, parts
from ivjoin.spark.rows.results import GROWING, RESULT_SCHEMA, MapStage, limit_explained, opener, packed_row
from ivjoin.spark.spread.buckets import bucket_labels, cell_spec, only_owned
from ivjoin.spark.spread.sampling import hash_of_row
from ivjoin.spark.spread.spreading import Spread, router
from ivjoin.stream.pull import stream_of
from ivjoin.stream.sources.inputs import open_inputs

__all__ = ["static_join", "table_join"]

Joiner = Callable[..., Iterator[pa.RecordBatch]]
_PEAKS = "peak_state_rows", "peak_state_bytes"
_COUNTS = (*GROWING, *_PEAKS)  # of one task, in the order of its text
_OF_A_TASK = (
    "Of static frames, memory_limit bounds one task. Fixes: a greater memory_limit; when_full='spill'; more tasks "
    "(buckets=); a narrower band"
)
_OF_A_GROUP = (
    "With a static frame, memory_limit bounds one bucket of a micro-batch. Fixes: a greater memory_limit; more "
    "buckets; fewer rows in a micro-batch; a table without the rows that cannot match"
)


def static_join(
    left: Any, right: Any, spec: JoinSpec, out: StructType, spread: Spread, observation: Any = None,
    budget: Budget | None = None,
) -> Any:
    """Return the joined frame. ``observation`` receives the counts, and each join in a task has its own ``budget``."""
    run = spec.with_orders((), (), "raise")
    keys = key_sql(plan_of(spec))
    labels = bucket_labels(spread.tasks)
    routed = spread.plan is not None
    route = router(run, spread) if routed else None if observation is not None else partial(_matches, run, len(labels))
    packed = []
    for side, frame in enumerate((left, right)):
        hashed = hash_of_row(frame) if routed else hash_sql(keys, side)
        rows = in_places(frame).selectExpr(f"CAST({hashed} AS BIGINT) AS hash", "*")
        packed.append(rows.mapInArrow(packer(run, side, labels, route=route, ticks=False), PACKED_SCHEMA))
    both = packed[0].union(packed[1])
    if spread.alone:
        both = both.coalesce(1)
    else:
        both = both.repartition(*([spread.tasks] if spread.fixed else []), "label").sortWithinPartitions("label")
    schema = plan_of(run).schema
    join = _joiner(cell_spec(run) if routed else run, budget, schema if routed else None)
    if observation is None:
        return both.mapInArrow(join, out)
    counted = both.mapInArrow(_counted(join), RESULT_SCHEMA)
    return observed(counted, observation, _COUNTS).mapInArrow(opener(schema), out)


def _matches(spec: JoinSpec, count: int, side: int) -> Way | None:
    """Return a function that drops rows that have no match and are not emitted. Counted joins also count these rows."""
    plan = plan_of(spec)
    own = plan.sides[side]
    if plan.how.owes(side) or plan.raises or own.guards or own.bounds:  # a row outside its bounds is an error
        return None
    return hashed_matches(own.filters, [k for k, safe in zip(own.keys, plan.null_safe, strict=True) if not safe], count)


def _counted(join: Joiner) -> MapStage:
    """Return a function that packs the rows of ``join`` and adds a last row with its counts."""
    def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total = dict.fromkeys(_COUNTS, 0)
        yield from (packed_row(batch, None) for batch in join(batches, total))
        yield packed_row(None, ",".join(map(str, total.values())))

    return joined


def _joiner(spec: JoinSpec, budget: Budget | None, owned: pa.Schema | None) -> Joiner:
    """Return the function of a task, which joins packed rows and adds its counts to ``total``.

    With the schema ``owned``, it yields only the joined rows that the task owns, in that schema.
    """

    def join(batches: Iterator[pa.RecordBatch], total: dict[str, int] | None = None) -> Iterator[pa.RecordBatch]:
        for tables in parts(batches, spec.schemas):
            unowned = 0
            with limit_explained(_OF_A_TASK), closing(_stream(spec, tables, budget)) as stream:
                for batch in stream:
                    mine = batch if owned is None else only_owned(batch, owned)
                    unowned += batch.num_rows - mine.num_rows
                    if mine.num_rows:
                        yield mine
                if total is not None:
                    counts = stream.metrics.as_dict()
                    counts["rows_out"] -= unowned
                    total |= {n: total[n] + counts[n] for n in GROWING}
                    total |= {n: max(total[n], counts[n]) for n in _PEAKS}

    return join


def _stream(spec: JoinSpec, tables: list[pa.Table], budget: Budget | None) -> Any:
    sources = open_inputs(*tables)
    for source in sources:
        source.in_memory = budget is None  # with a limit, the engine counts their rows
    return stream_of(sources, plan_of(spec), 1, "auto", None, budget)


def table_join(
    left: Any, right: Any, spec: JoinSpec, out: StructType, buckets: int, budget: Budget | None = None
) -> Any:
    """Return the joined stream; raise UnsupportedError if the join emits rows of the static frame alone."""
    stream = 0 if left.isStreaming else 1
    how = join_type(spec.how)
    one_side = how.name.split("_")[-1] in ("semi", "anti") and not how.name.startswith(SIDES[stream])
    left_alone = bool(stream and (spec.pick is not None or spec.aggregates))
    if how.owes(1 - stream) or one_side or left_alone:
        good = ["inner", SIDES[stream], f"{SIDES[stream]}_semi", f"{SIDES[stream]}_anti"]
        what = "each left row has one result" if left_alone else f"how is {spec.how!r}"
        raise UnsupportedError(
            f"{what}, but the {SIDES[1 - stream]} frame is static and the {SIDES[stream]} stream does not end, so a "
            f"row of the static frame would never be decided. Expected how to be one of {', '.join(map(repr, good))}"
            f"{'' if not stream else '; or pass the stream as the left frame'}"
        )
    keys = key_sql(plan_of(spec))
    run = spec.with_orders((), (), "raise")
    groups = []
    for side, frame in enumerate((left, right)):
        bucket = F.expr(f"pmod({hash_sql(keys, side)}, {buckets})").cast("int")
        groups.append(in_places(frame).select(bucket.alias("bucket"), "*").groupBy("bucket"))

    def join(of_left: pa.Table, of_right: pa.Table) -> pa.Table:
        tables, schema = (of_left, of_right), plan_of(run).schema
        if not tables[stream].num_rows:
            return schema.empty_table()
        named = [
            pa.Table.from_batches([fitted(b.select(b.schema.names[1:]), s) for b in t.to_batches()], s)
            for t, s in zip(tables, run.schemas, strict=True)
        ]
        with limit_explained(_OF_A_GROUP):
            return pa.Table.from_batches(_stream(run, named, budget), schema)

    return groups[0].cogroup(groups[1]).applyInArrow(join, out)
