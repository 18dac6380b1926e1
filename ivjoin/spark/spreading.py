"""How the rows of a join of static frames are spread over its tasks, from a sample of both sides.

Light keys are hashed, by Spark itself where no key is heavy. Heavy keys, and joins without a key or with computed ones,
follow a routing plan (``ivjoin.routing``): slices of the band's axis, or grids. A map stage sends each row to its
cells, and says which of the copies are owned::

    label | cell | owned | c0 c1 ...          a task joins the cells of its label, the cell being one more key;
    ------+------+-------+----------          of what comes out, what is not owned is dropped
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, VariantType

from ivjoin.expr.nodes import columns_of
from ivjoin.plan.cache import plan_of
from ivjoin.plan.planner import JoinPlan
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.buckets import bucket_labels, checked_count
from ivjoin.spark.columns import key_sql, place
from ivjoin.spark.environment import Settings, is_connect
from ivjoin.spark.pack import MapStage, fitted

if TYPE_CHECKING:
    from ivjoin.routing.plan import RoutingPlan

__all__ = [
    "ADDED", "Spread", "hash_of_row", "router", "spread_of", "why_undivided",
]

SAMPLE_ROWS = 8_192  # a side
_TASK_ROWS = 50_000  # more tasks than cores are worth it where each has so many rows
_WORTH = 1.25  # how much less the fullest task must have, for each row to be routed in Python
_CORES = 8  # where they cannot be asked for
_SEED = 20_190_326
ADDED = "label int, cell bigint, owned boolean"
_ROW_HASH = "ivjoin row hash"


@dataclass(frozen=True)
class Spread:
    """What was decided.

    Attributes
    ----------
    tasks : int or None
        How many there are; None leaves it to Spark.
    plan : RoutingPlan or None
        None hashes the keys in Spark, or joins all in one task where there is no key to hash.
    why : str
        In words, where there is no plan.
    """

    tasks: int | None
    plan: RoutingPlan | None = None
    why: str = ""


def spread_of(
    left: Any, right: Any, spec: JoinSpec, settings: Settings, buckets: int | None, routing: str
) -> Spread:
    """Decide by a sample of each frame, which are read for it: the columns that the join compares."""
    tasks = checked_count(buckets, settings.partitions)
    if spec.pick is not None or spec.aggregates:
        return Spread(buckets, None, "all partners of a left row meet in one task")
    plan = plan_of(spec)
    keys = key_sql(plan)
    if routing == "hash" and (keys or not plan.separation.keys):
        return Spread(buckets, None, "" if keys else f"routing is 'hash', and {why_undivided(plan)}")
    if tasks == 1:
        return Spread(buckets, None, "there is one task")
    if plan.never:
        return Spread(buckets, None, "no rows can match")
    samples, counts = [], []
    for s, frame in enumerate((left, right)):
        batch, rows = _sampled(frame, spec.schemas[s], looked_at(spec, s))
        if not rows:
            return Spread(buckets, None, f"the {SIDES[s]} frame has no rows")
        samples.append(batch)
        counts.append(max(rows, batch.num_rows))
    if buckets is None:
        tasks = min(tasks, max(_cores(left), sum(counts) // _TASK_ROWS))
    if tasks == 1:
        return Spread(buckets, None, "there is one task")
    from ivjoin.routing import plan_join

    def planned(scheme: str) -> RoutingPlan:
        return plan_join(
            samples[0], samples[1], on=list(spec.on) or None, condition=spec.condition, how=spec.how, workers=tasks,
            scheme=scheme, left_rows=counts[0], right_rows=counts[1], timezone=spec.timezone,
        )

    made = planned(routing)
    divided = any(e.cells > 1 for e in made.layout.entries)
    if keys and (not divided or (routing == "auto" and planned("hash").report.load < _WORTH * made.report.load)):
        return Spread(buckets, None, "; ".join(made.notes))
    if made.n_cells == 1:
        return Spread(buckets, None, "; ".join(made.notes) or why_undivided(plan))
    return Spread(tasks, made)


def why_undivided(plan: JoinPlan) -> str:
    """Why Spark has nothing to hash rows by."""
    computed = [f"{key.left} = {key.right}" for key in plan.separation.keys]
    if not computed:
        return "there is no key that both sides share"
    return (
        f"Spark is not given expressions to hash by ({', '.join(computed)}): put them into columns of both sides "
        "before the join to divide the rows"
    )


def looked_at(spec: JoinSpec, side: int) -> list[int]:
    """The places of the columns of a side that decide what its rows meet."""
    names = {pair[side] for pair in spec.on}
    if spec.condition is not None:
        names |= {c.params[1] for c in columns_of(spec.condition) if c.params[0] == SIDES[side]}
    return [i for i, name in enumerate(spec.schemas[side].names) if name in names]


def hash_of_row(frame: Any) -> Any:
    """A column that tells rows apart, by all of a frame's columns that Spark hashes."""
    hashed = [place(i) for i, field in enumerate(frame.schema) if _is_hashed(field.dataType)]
    return F.xxhash64(*hashed) if hashed else F.lit(0).cast("bigint")


def _is_hashed(kind: Any) -> bool:
    inside = [getattr(kind, name) for name in ("elementType",) if hasattr(kind, name)]
    inside += [f.dataType for f in getattr(kind, "fields", [])]
    return not isinstance(kind, (MapType, VariantType)) and all(map(_is_hashed, inside))


def _cores(frame: Any) -> int:
    return _CORES if is_connect(frame) else int(frame.sparkSession.sparkContext.defaultParallelism)


def _sampled(frame: Any, schema: pa.Schema, columns: Sequence[int]) -> tuple[pa.RecordBatch, int]:
    """Rows drawn evenly from a frame, in one pass that counts them, too."""
    rows = frame.toDF(*[place(i) for i in range(len(schema))])
    seen = Observation()
    some = rows.select(*[place(i) for i in columns], hash_of_row(rows).alias("h"), F.rand(_SEED).alias("draw"))
    some = some.observe(seen, F.count(F.lit(1)).alias("rows")).orderBy("draw").limit(SAMPLE_ROWS).drop("draw")
    table = some.toArrow()
    batches = table.combine_chunks().to_batches()
    looked = _looked_schema(schema, columns)
    batch = fitted(batches[0], looked) if batches else pa.RecordBatch.from_pylist([], looked)
    return batch, int(seen.get["rows"])


def _looked_schema(schema: pa.Schema, columns: Sequence[int]) -> pa.Schema:
    return pa.schema([*(schema.field(i) for i in columns), pa.field(_free(schema.names), pa.int64())])


def _free(names: Sequence[str]) -> str:
    name = _ROW_HASH
    while name in names:
        name += "_"
    return name


# -- in the tasks ------------------------------------------------------------------------------------------------------


def router(spec: JoinSpec, side: int, spread: Spread) -> MapStage:
    """The function of a map task: the row's hash, then what is to travel, the side's columns last; a row a copy out."""
    assert spread.plan is not None
    assert spread.tasks is not None
    from ivjoin.routing.encoding import plan_to_json

    text, labels = plan_to_json(spread.plan), np.array(bucket_labels(spread.tasks), dtype=np.int32)
    columns = looked_at(spec, side)

    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = _plan(text, spec)
        schema = _looked_schema(spec.schemas[side], columns)
        for raw in batches:
            if raw.num_rows == 0:
                continue
            own = raw.columns[raw.num_columns - len(spec.schemas[side]) :]
            looked = fitted(
                pa.RecordBatch.from_arrays([*(own[i] for i in columns), raw.column(0)], names=schema.names), schema
            )
            rows, cells, owned = plan.cells(SIDES[side], looked)
            carried = raw.select(raw.schema.names[1:])
            if len(rows) != raw.num_rows or not np.array_equal(rows, np.arange(raw.num_rows)):
                carried = carried.take(pa.array(rows))
            added = [pa.array(labels[plan.worker_of[cells]]), pa.array(cells), pa.array(owned)]
            yield pa.RecordBatch.from_arrays(
                [*added, *carried.columns], names=["label", "cell", "owned", *carried.schema.names]
            )

    return route


@lru_cache(maxsize=8)
def _plan(text: str, spec: JoinSpec) -> RoutingPlan:
    from ivjoin.routing.encoding import plan_from_json

    left, right = (_looked_schema(schema, looked_at(spec, s)) for s, schema in enumerate(spec.schemas))
    return plan_from_json(
        text, left, right, on=list(spec.on) or None, condition=spec.condition, how=spec.how, timezone=spec.timezone
    )
