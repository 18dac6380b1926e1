"""Join a stream with a static frame: each micro-batch meets all rows of the table, so nothing has to wait.

::

    stream -- bucket of the keys --+
                                   +-- cogroup -- applyInArrow(operator)       no state, in each micro-batch
    table  -- bucket of the keys --+

Spark reads the table again in each micro-batch, unless it is cached.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ivjoin.errors import UnsupportedError
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.outer.jointype import join_type
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.rows.arrow import bucket_sql, in_places, key_sql
from ivjoin.spark.rows.pack import fitted
from ivjoin.spark.rows.results import limit_explained
from ivjoin.spark.state.bucket import in_order

__all__ = ["table_join"]

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
    return groups[0].cogroup(groups[1]).applyInArrow(_joiner(run, stream, budget), out)


def _joiner(spec: JoinSpec, stream: int, budget: Budget | None) -> Callable[[pa.Table, pa.Table], pa.Table]:
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
