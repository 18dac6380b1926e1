"""How the rows of a join of static frames are spread over its tasks, from a sample of both sides.

Light keys are hashed, by Spark itself where no key is heavy. Heavy keys, and joins without a key or with computed ones,
follow a routing plan (``ivjoin.routing``): slices of the band's axis, or grids. Each row is sent to its cells, by Spark
SQL where that can say it (``dealing``), else by a map stage in Python, and of the copies is said which are owned::

    label | cell | owned | c0 c1 ...          a task joins the cells of its label, the cell being one more key;
    ------+------+-------+----------          of what comes out, what is not owned is dropped
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.rows.arrow import key_sql, place
from ivjoin.spark.rows.dealing import dealt, why_in_python
from ivjoin.spark.rows.pack import MapStage, fitted
from ivjoin.spark.rows.sampling import (
    KeyHash,
    Sampled,
    hash_of_row,
    key_hash_name,
    looked_at,
    looked_schema,
    samples,
)
from ivjoin.spark.rows.sorting import sort_key
from ivjoin.spark.runtime.environment import Settings, is_connect
from ivjoin.spark.spread.buckets import bucket_labels, checked_count
from ivjoin.spark.spread.sizes import are_small, is_read_alike, sound_bytes

if TYPE_CHECKING:
    from ivjoin.routing.plan import RoutingPlan

__all__ = ["Spread", "plan_in_task", "routed", "spread_of", "why_undivided"]

# Bytes a frame, on average, that are less work than a sample of them, and that one task joins where a sample finds
# no key to divide, and less than this load.
_TINY = 64 << 10
_MIDDLING = 8 << 20
_ALONE = 1_000_000  # rows in, and rows out as the planner counts them
_TASK_ROWS = 50_000  # of both frames, at least, for each task
_WORTH = 1.25  # how much less the fullest task must have, for rows to be routed
# So many tasks read all of a file in less time than its rows take through a shuffle: to read a row of three numbers
# and drop it costs a tenth.
_READERS = 4
_CORES = 8  # where they cannot be asked for
_ADDED = "label int, cell bigint, owned boolean"


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
    alone : bool
        Whether one task reads both frames and joins them, without a shuffle.
    key_hash : (str, str) or None
        SQL of each side by which the plan tells keys apart.
    in_python : str
        Why rows are routed in Python; empty where Spark SQL does it.
    read_by_all : bool
        Whether each task reads both frames and keeps what is for its cells, without a shuffle.
    """

    tasks: int | None
    plan: RoutingPlan | None = None
    why: str = ""
    alone: bool = False
    key_hash: KeyHash = None
    in_python: str = ""
    read_by_all: bool = False

    @property
    def readers(self) -> list[int | None]:
        """The workers that read both frames for themselves; None alone stands for all of them together."""
        if self.plan is None or not self.read_by_all:
            return [None]
        return sorted(set(self.plan.worker_of.tolist()))


def spread_of(
    left: Any, right: Any, spec: JoinSpec, settings: Settings, buckets: int | None, routing: str
) -> Spread:
    """Decide by a sample of each frame, which are read for it: the columns that the join compares.

    Tiny frames with keys are not read: one task joins them.
    """
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
    tasks = _tasks(left, drawn, tasks, buckets)
    if tasks == 1:
        return Spread(buckets, None, "there is one task")
    made = _planned(drawn, spec, tasks, routing, key_hash)
    if small and _is_little(made):
        return _in_one_task(drawn)
    if keys and not _is_divided(made):
        return Spread(buckets, None, "; ".join(made.notes))
    if keys and routing == "auto":
        hashed = _planned(drawn, spec, tasks, "hash", key_hash)
        if hashed.report.load < _WORTH * made.report.load:
            return Spread(buckets, None, "; ".join(made.notes))
    if made.n_cells == 1:
        return Spread(buckets, None, "; ".join(made.notes) or why_undivided(plan))
    in_python = why_in_python(spec, made)
    key = sort_key(plan)
    by_sql = not in_python and (key is None or key.sql is not None)
    read_by_all = by_sql and tasks <= _READERS and all(map(is_read_alike, frames))
    return Spread(tasks, made, key_hash=key_hash, in_python=in_python, read_by_all=read_by_all)


def _tasks(frame: Any, drawn: Sequence[Sampled], tasks: int, buckets: int | None) -> int:
    """How many there are at most, for so many rows."""
    rows = sum(rows for _, rows in drawn)
    return tasks if buckets is not None else min(tasks, max(_cores(frame), rows // _TASK_ROWS))


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
    """Whether no key is worth dividing, and all of it is little work."""
    report = plan.report
    return not _is_divided(plan) and float(report.rows_in.sum() + report.beta * report.rows_out.sum()) < _ALONE


def _in_one_task(drawn: Sequence[Sampled]) -> Spread:
    return Spread(1, None, f"both frames are small ({sum(rows for _, rows in drawn):,} rows)", True)


def _key_hash(plan: JoinPlan) -> KeyHash:
    """None where there is no key that rows are spread by, or Spark is not given one of them."""
    from ivjoin.routing.rows.reach import reach_of

    keys = key_sql(plan)
    if not keys or not len(keys) == len(plan.separation.keys) == len(reach_of(plan).keys[0]):
        return None
    left, right = (f"xxhash64({', '.join(pair[s] for pair in keys)})" for s in (0, 1))
    return left, right


def why_undivided(plan: JoinPlan) -> str:
    """Why Spark has nothing to hash rows by."""
    computed = [f"{key.left} = {key.right}" for key in plan.separation.keys]
    if not computed:
        return "there is no key that both sides share"
    return (
        f"Spark is not given expressions to hash by ({', '.join(computed)}): put them into columns of both sides "
        "before the join to divide the rows"
    )


def _cores(frame: Any) -> int:
    return _CORES if is_connect(frame) else int(frame.sparkSession.sparkContext.defaultParallelism)


#: A frame with a row for each copy; and SQL of its ``label``, its ``cell`` and whether it is ``owned``. With a worker,
#: only the copies for its cells, and no label.
Routed = Callable[[int | None], tuple[Any, dict[str, str]]]


def routed(rows: Any, frame: Any, spec: JoinSpec, side: int, spread: Spread) -> Routed:
    """A side's rows on their ways, of one worker after the other or, for None, of all.

    Parameters
    ----------
    rows : DataFrame
        The columns of a side under their :func:`place` names, last; what travels with them before.
    frame : DataFrame
        The side as it was given.
    """
    assert spread.plan is not None
    assert spread.tasks is not None
    row_hash = hash_of_row(frame.toDF(*[place(i) for i in range(len(frame.columns))]))
    key_hash = None if spread.key_hash is None else spread.key_hash[side]
    if spread.in_python:
        fields = StructType.fromDDL(_ADDED).fields
        schema = StructType([*fields, *[StructField(f.name, f.dataType) for f in rows.schema]])
        hashes = [f"{row_hash} AS h", *([] if key_hash is None else [f"{key_hash} AS kh"])]
        routed_rows = rows.selectExpr(*hashes, *rows.columns).mapInArrow(_router(spec, side, spread), schema)
        return lambda _: (routed_rows, {name: name for name in ("label", "cell", "owned")})
    labels = bucket_labels(spread.tasks)
    of_cell = ", ".join(str(labels[worker]) for worker in spread.plan.worker_of.tolist())
    copies_of = dealt(rows, spec, spread.plan, side, key_hash, row_hash)

    def of(worker: int | None) -> tuple[Any, dict[str, str]]:
        copies, owned = copies_of(worker)
        added = {"cell": "CAST(cell AS BIGINT)", "owned": owned}
        return copies, added if worker is not None else {"label": f"element_at(array({of_cell}), cell + 1)"} | added

    return of


# -- in the tasks ------------------------------------------------------------------------------------------------------


def _router(spec: JoinSpec, side: int, spread: Spread) -> MapStage:
    """The function of a map task: hashes, then what is to travel, the side's columns last; a row a copy out."""
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
            carried = raw.select(raw.schema.names[hashes:])
            if len(rows) != raw.num_rows or not np.array_equal(rows, np.arange(raw.num_rows)):
                carried = carried.take(pa.array(rows))
            added = [pa.array(labels[plan.worker_of[cells]]), pa.array(cells), pa.array(owned)]
            yield pa.RecordBatch.from_arrays(
                [*added, *carried.columns], names=["label", "cell", "owned", *carried.schema.names]
            )

    return route


@lru_cache(maxsize=8)
def plan_in_task(text: str, spec: JoinSpec, left: pa.Schema, right: pa.Schema) -> RoutingPlan:
    """The plan that a text is, for rows of these schemas."""
    from ivjoin.routing.encoding import plan_from_json

    return plan_from_json(
        text, left, right, on=list(spec.on) or None, condition=spec.condition, how=spec.how, timezone=spec.timezone
    )
