"""Decide from a sample of both sides how the rows of a join of static frames are spread over its tasks.

Light keys are hashed; if no key is heavy, Spark itself hashes them. A routing plan (``ivjoin.routing``) divides heavy
keys, joins without a key and joins with computed keys. It consists of slices of the band's axis, or of grids. Spark
SQL sends each row to its cells if SQL can express the plan (``dealing``). Otherwise a map stage in Python does so. Each
copy of a row has a flag that shows whether it is owned::

    label | cell | owned | c0 c1 ...          a task joins the cells of its label, with the cell as one more key;
    ------+------+-------+----------          it drops the joined rows that it does not own
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.rows.arrow import key_sql
from ivjoin.spark.rows.pack import fitted
from ivjoin.spark.rows.results import MapStage
from ivjoin.spark.runtime.environment import Settings, is_connect
from ivjoin.spark.spread.buckets import bucket_labels, checked_count, copied
from ivjoin.spark.spread.dealing import dealt, why_in_python
from ivjoin.spark.spread.sampling import (
    KeyHash,
    Sampled,
    are_small,
    hash_of_row,
    key_hash_name,
    looked_at,
    looked_schema,
    samples,
    sound_bytes,
)

if TYPE_CHECKING:
    from ivjoin.routing.plan import RoutingPlan

__all__ = ["Spread", "plan_in_task", "routed", "spread_of", "why_undivided"]

# Average bytes of a frame. Frames up to ``_TINY`` are joined without a sample, because a sample takes longer. Frames up
# to ``_MIDDLING`` are joined by one task if a sample finds no key to divide, and a load below ``_ALONE``.
_TINY = 64 << 10
_MIDDLING = 8 << 20
_ALONE = 1_000_000  # rows in, plus rows out with the weight of the planner
_TASK_ROWS = 50_000  # the least rows of both frames for each task
_WORTH = 1.25  # rows are routed if hashing gives the fullest task this many times the load
_CORES = 8  # if their number is not available
_ADDED = "label int, cell bigint, owned boolean"


@dataclass(frozen=True)
class Spread:
    """The decision about the tasks of a join."""

    tasks: int | None  # None leaves their number to Spark
    plan: RoutingPlan | None = None  # routes the rows; if None, Spark hashes the keys, or one task joins all rows
    why: str = ""  # the reason in words, if the join has no plan
    alone: bool = False  # whether one task reads both frames and joins them, without a shuffle
    key_hash: KeyHash = None  # with which the plan identifies keys
    in_python: str = ""  # why rows are routed in Python; empty if Spark SQL routes them


def spread_of(
    left: Any, right: Any, spec: JoinSpec, settings: Settings, buckets: int | None, routing: str
) -> Spread:
    """Decide from a sample of each frame, with the columns that the join compares. Frames small enough are not read."""
    tasks = checked_count(buckets, settings.partitions)
    plan = plan_of(spec)
    keys = key_sql(plan)
    frames = left, right
    free = bool(keys) and buckets is None and routing == "auto"
    sizes = [sound_bytes(frame) for frame in frames]
    if free and are_small(frames, sizes, _TINY):
        return Spread(1, None, "both frames are small", True)
    if spec.pick is not None or spec.aggregates:
        return Spread(buckets, None, "all partners of a left row meet in one task")
    if routing == "hash" and (keys or not plan.separation.keys):
        return Spread(buckets, None, "" if keys else f"routing is 'hash', and {why_undivided(plan)}")
    if tasks == 1:
        return Spread(buckets, None, "there is one task")
    if plan.never:
        return Spread(buckets, None, "no rows can match")
    small = free and are_small(frames, sizes, _MIDDLING)
    key_hash = _key_hash(plan)
    drawn = samples(frames, spec, sizes, key_hash)
    for s, (_, rows) in enumerate(drawn):
        if not rows:
            return Spread(buckets, None, f"the {SIDES[s]} frame has no rows")
    if buckets is None:
        cores = _CORES if is_connect(left) else int(left.sparkSession.sparkContext.defaultParallelism)
        tasks = min(tasks, max(cores, sum(rows for _, rows in drawn) // _TASK_ROWS))
    if tasks == 1:
        return Spread(buckets, None, "there is one task")
    made = _planned(drawn, spec, tasks, routing, key_hash)
    if small and _is_little(made):
        return Spread(1, None, f"both frames are small ({sum(rows for _, rows in drawn):,} rows)", True)
    if keys and not _is_divided(made):
        return Spread(buckets, None, "; ".join(made.notes))
    if keys and routing == "auto":
        hashed = _planned(drawn, spec, tasks, "hash", key_hash)
        if hashed.report.load < _WORTH * made.report.load:
            return Spread(buckets, None, "; ".join(made.notes))
    if made.n_cells == 1:
        return Spread(buckets, None, "; ".join(made.notes) or why_undivided(plan))
    return Spread(tasks, made, key_hash=key_hash, in_python=why_in_python(spec, made))


def _planned(drawn: Sequence[Sampled], spec: JoinSpec, tasks: int, scheme: str, key_hash: KeyHash) -> RoutingPlan:
    from ivjoin.routing import plan_join

    (left, left_rows), (right, right_rows) = drawn
    return plan_join(
        left, right, on=list(spec.on) or None, condition=spec.condition, how=spec.how, workers=tasks, scheme=scheme,
        left_rows=left_rows, right_rows=right_rows, timezone=spec.timezone,
        key_hash=None if key_hash is None else key_hash_name(spec),
    )


def _is_divided(plan: RoutingPlan) -> bool:
    return any(e.cells > 1 for e in plan.layout.entries)


def _is_little(plan: RoutingPlan) -> bool:
    """Return whether no key is worth dividing, and the whole join is a small load."""
    report = plan.report
    return not _is_divided(plan) and float(report.rows_in.sum() + report.beta * report.rows_out.sum()) < _ALONE


def _key_hash(plan: JoinPlan) -> KeyHash:
    """Return SQL for a hash of the keys of each side; None without keys, or if Spark cannot compute one of them."""
    from ivjoin.routing.rows.reach import reach_of

    keys = key_sql(plan)
    if not keys or not len(keys) == len(plan.separation.keys) == len(reach_of(plan).keys[0]):
        return None
    left, right = (f"xxhash64({', '.join(pair[s] for pair in keys)})" for s in (0, 1))
    return left, right


def why_undivided(plan: JoinPlan) -> str:
    """Return why Spark cannot hash the rows of a join."""
    computed = [f"{key.left} = {key.right}" for key in plan.separation.keys]
    if not computed:
        return "there is no key that both sides share"
    return (
        f"Spark is not given expressions to hash by ({', '.join(computed)}): put them into columns of both sides "
        "before the join to divide the rows"
    )


def routed(rows: Any, frame: Any, spec: JoinSpec, side: int, spread: Spread) -> tuple[Any, dict[str, str]]:
    """Return a frame with one row for each copy, and SQL of its ``label``, its ``cell`` and whether it is ``owned``.

    ``rows`` has added columns first, then the columns of the side under their :func:`place` names. ``frame`` is the
    side as the caller passed it.
    """
    assert spread.plan is not None
    assert spread.tasks is not None
    row_hash = hash_of_row(frame)
    key_hash = None if spread.key_hash is None else spread.key_hash[side]
    if spread.in_python:
        fields = StructType.fromDDL(_ADDED).fields
        schema = StructType([*fields, *[StructField(f.name, f.dataType) for f in rows.schema]])
        hashes = [f"{row_hash} AS h", *([] if key_hash is None else [f"{key_hash} AS kh"])]
        routed_rows = rows.selectExpr(*hashes, *rows.columns).mapInArrow(_router(spec, side, spread), schema)
        return routed_rows, {name: name for name in ("label", "cell", "owned")}
    labels = bucket_labels(spread.tasks)
    of_cell = ", ".join(str(labels[worker]) for worker in spread.plan.worker_of.tolist())
    copies, owned = dealt(rows, spec, spread.plan, side, key_hash, row_hash)
    label = f"element_at(array({of_cell}), cell + 1)"
    return copies, {"label": label, "cell": "CAST(cell AS BIGINT)", "owned": owned}


# -- in the tasks ------------------------------------------------------------------------------------------------------


def _router(spec: JoinSpec, side: int, spread: Spread) -> MapStage:
    """Return the function of a map task. It reads hashes, added columns and the side's columns, and yields copies."""
    assert spread.plan is not None
    assert spread.tasks is not None
    from ivjoin.routing.encoding import plan_to_json

    text, labels = plan_to_json(spread.plan), np.array(bucket_labels(spread.tasks), dtype=np.int32)
    columns, keyed = looked_at(spec, side), spread.key_hash is not None
    hashes = 2 if keyed else 1

    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schemas = [looked_schema(spec, s, keyed) for s in (0, 1)]
        plan, schema = plan_in_task(text, spec, *schemas), schemas[side]
        for raw in batches:
            if raw.num_rows == 0:
                continue
            own = raw.columns[raw.num_columns - len(spec.schemas[side]) :]
            seen = [*(own[i] for i in columns), *raw.columns[:hashes]]
            looked = fitted(pa.RecordBatch.from_arrays(seen, names=schema.names), schema)
            rows, cells, owned = plan.cells(SIDES[side], looked)
            carried = copied(raw.select(raw.schema.names[hashes:]), rows)
            added = [pa.array(labels[plan.worker_of[cells]]), pa.array(cells), pa.array(owned)]
            yield pa.RecordBatch.from_arrays(
                [*added, *carried.columns], names=["label", "cell", "owned", *carried.schema.names]
            )

    return route


@lru_cache(maxsize=8)
def plan_in_task(text: str, spec: JoinSpec, left: pa.Schema, right: pa.Schema) -> RoutingPlan:
    from ivjoin.routing.encoding import plan_from_json

    return plan_from_json(
        text, left, right, on=list(spec.on) or None, condition=spec.condition, how=spec.how, timezone=spec.timezone
    )
