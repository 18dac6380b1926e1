"""Join two streaming DataFrames: pack, group by bucket, join with state.

::

    left  -- bucket number -- pack (mapInArrow) --+
                                                  +-- union -- groupBy(label, part) -- applyInPandasWithState(operator)
    right -- bucket number -- pack (mapInArrow) --+                                 -- counts -- open (mapInArrow)

The join sets no Spark timeout and no Spark watermark: rows and ticks advance the frontiers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from ivjoin.operator.memory.budget import Budget
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.arrow import hash_sql, in_places, key_sql
from ivjoin.spark.rows.codec import STATE_SCHEMA
from ivjoin.spark.rows.late import kept_late
from ivjoin.spark.rows.metrics import MOST_GATHERED, observed
from ivjoin.spark.rows.pack import PACKED_IN_TWO, PACKED_SCHEMA, MapStage, in_two, packer
from ivjoin.spark.rows.results import RESULT_SCHEMA, Results
from ivjoin.spark.runtime.environment import arrow_batch_rows
from ivjoin.spark.runtime.workers import own_workers
from ivjoin.spark.spread.buckets import bucket_labels, count_in_task, second_key
from ivjoin.spark.state.stateful import BucketFunction
from ivjoin.spark.state.streamspread import UNSPREAD, StreamSpread

__all__ = ["packed_sides", "streaming_join"]


def packed_sides(
    left: Any, right: Any, spec: JoinSpec, buckets: int | None, spread: StreamSpread = UNSPREAD,
    two_groups: bool = False,
) -> Any:
    """Return both inputs as packed rows: ``PACKED_SCHEMA``, or ``PACKED_IN_TWO`` for buckets of two groups."""
    plan = plan_of(spec)
    packed = []
    for side, frame in enumerate((left, right)):
        hashed = F.lit(0)  # plans of a stream look at the rows themselves
        if spread.plans is None:
            hashed = F.expr(hash_sql(key_sql(plan, by_name=True), side))
        if spread.slices is not None:
            hashed = spread.in_slices(key_sql(plan), side, hashed)
        rows = in_places(frame).select(hashed.cast("bigint").alias("hash"), "*")
        pack = _packer(spec, side, buckets, spread, two_groups)
        packed.append(rows.mapInArrow(pack, PACKED_IN_TWO if two_groups else PACKED_SCHEMA))
    return packed[0].union(packed[1])


def _packer(spec: JoinSpec, side: int, buckets: int | None, spread: StreamSpread, two_groups: bool) -> MapStage:
    """Return the function of a map task, which looks up the number of buckets when it runs."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        labels = bucket_labels(spread.used(spec, count_in_task(buckets)))
        stage = packer(spec, side, labels, route=spread.router(len(labels)))
        if two_groups:
            stage = in_two(stage, {label: second_key(label) for label in labels})
        return stage(batches)

    return pack


def streaming_join(
    packed: Any, spec: JoinSpec, buckets: int | None, name: str, results: Results | None = None,
    spread: StreamSpread = UNSPREAD, budget: Budget | None = None,
) -> Any:
    """Join the frame of :func:`packed_sides`; return packed rows, with counts observed under ``name``."""
    # A stage that opens rows after the join needs workers, too.
    with own_workers(packed) if results is None else nullcontext():
        results = results or Results(arrow_batch_rows(packed.sparkSession), late=kept_late(spec))
        played = packed.groupBy("label", "part").applyInPandasWithState(
            BucketFunction(spec, buckets, results, spread, budget), RESULT_SCHEMA, STATE_SCHEMA, "append", "NoTimeout"
        )
    return observed(played, name, by_bucket=(buckets or 0) <= MOST_GATHERED)
