"""Decide from a sample of both sides how the rows of a join of static frames are spread over its tasks.

Light keys are hashed. If no key is heavy, all keys are hashed. A routing plan (``ivjoin.routing``) divides heavy keys,
joins without a key and joins with computed keys. It consists of slices of the band's axis, or of grids. The map stage
sends each row to its cells. A task joins the cells of its label, with the cell as an additional key, and drops the
joined rows that it does not own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.rows.arrow import key_sql
from ivjoin.spark.rows.pack import Route, Way
from ivjoin.spark.runtime.environment import Settings, cores_of
from ivjoin.spark.spread.buckets import checked_count, with_cells
from ivjoin.spark.spread.sampling import Sampled, are_small, looked_at, looked_schema, samples, sound_bytes

if TYPE_CHECKING:
    from ivjoin.routing.plan import RoutingPlan

__all__ = ["Spread", "plan_in_task", "router", "spread_of", "why_undivided"]

_TASK_ROWS = 50_000  # the least rows of both frames for each task
_WORTH = 1.25  # rows are routed if hashing gives the busiest task this many times the load


@dataclass(frozen=True)
class Spread:
    """The decision about the tasks of a join."""

    tasks: int
    why: str = ""  # the reason in words, if the join has no plan
    fixed: bool = True  # False: Spark may merge tasks with few rows
    plan: RoutingPlan | None = None  # routes the rows; if None, they are hashed by their keys, or one task joins all
    alone: bool = False  # whether one task reads both frames and joins them, without a shuffle
    partners: float | None = None  # right rows with the keys of a left row, on average, if the frames were sampled


def spread_of(
    left: Any, right: Any, spec: JoinSpec, settings: Settings, buckets: int | None, routing: str
) -> Spread:
    """Decide from a sample of each frame, with the columns that the join compares. Small frames are not read."""
    tasks = checked_count(buckets, settings.partitions)
    plan = plan_of(spec)
    keys = key_sql(plan)
    frames = left, right

    def hashed(why: str) -> Spread:
        return Spread(tasks if keys else 1, why, buckets is not None or not keys)

    sizes = [sound_bytes(frame) for frame in frames]
    if keys and buckets is None and routing == "auto" and are_small(frames, sizes):
        return Spread(1, "both frames are small", alone=True)
    if spec.pick is not None or spec.aggregates:
        return hashed("all partners of a left row meet in one task")
    if routing == "hash" and (keys or not plan.separation.keys):
        return hashed("" if keys else f"routing is 'hash', and {why_undivided(plan)}")
    if tasks == 1:
        return hashed("there is one task")
    if plan.never:
        return hashed("no rows can match")
    drawn = samples(frames, spec)
    for s, (_, rows) in enumerate(drawn):
        if not rows:
            return hashed(f"the {SIDES[s]} frame has no rows")
    workers = tasks
    if buckets is None:
        workers = min(tasks, max(cores_of(left), sum(rows for _, rows in drawn) // _TASK_ROWS))
    if workers == 1:
        return hashed("there is one task")
    made = _planned(drawn, spec, workers, routing)
    why = "; ".join(made.notes)
    even = not any(e.cells > 1 for e in made.layout.entries)
    if keys and (
        even or (routing == "auto" and _planned(drawn, spec, workers, "hash").report.load < _WORTH * made.report.load)
    ):
        return replace(hashed(why), partners=_partners(made, drawn))
    if made.n_cells == 1:
        return hashed(why or why_undivided(plan))
    return Spread(workers, plan=made)


def _planned(drawn: Sequence[Sampled], spec: JoinSpec, tasks: int, scheme: str) -> RoutingPlan:
    from ivjoin.routing import plan_join

    (left, left_rows), (right, right_rows) = drawn
    return plan_join(
        left, right, on=list(spec.on) or None, condition=spec.condition, how=spec.how, workers=tasks, scheme=scheme,
        left_rows=left_rows, right_rows=right_rows, timezone=spec.timezone,
    )


def _partners(made: RoutingPlan, drawn: Sequence[Sampled]) -> float:
    """Estimate the right rows with the keys of a left row from the pairs of sampled rows with equal keys."""
    a, b = (made.reader.features(s, rows, None, False).key for s, (rows, _) in enumerate(drawn))
    assert a is not None
    assert b is not None
    _, ids = np.unique(np.concatenate([a, b]), return_inverse=True)
    left, right = (np.bincount(part, minlength=len(ids)) for part in np.split(ids, [len(a)]))
    return float((left * right).sum()) / len(a) * drawn[1][1] / len(b)


def why_undivided(plan: JoinPlan) -> str:
    """Return why Spark cannot hash the rows of a join."""
    computed = [f"{key.left} = {key.right}" for key in plan.separation.keys]
    if not computed:
        return "there is no key that both sides share"
    return (
        f"Spark is not given expressions to hash by ({', '.join(computed)}): put them into columns of both sides "
        "before the join to divide the rows"
    )


def router(spec: JoinSpec, spread: Spread) -> Route:
    """Return a function that makes the ``Way`` of a side in a map task, for a spread with a plan."""
    from ivjoin.routing.encoding import plan_to_json

    assert spread.plan is not None
    text = plan_to_json(spread.plan)

    def route(side: int) -> Way:
        schemas = [looked_schema(spec, s) for s in (0, 1)]
        plan, columns = plan_in_task(text, spec, *schemas), looked_at(spec, side)

        def way(batch: pa.RecordBatch, hashes: np.ndarray) -> tuple[pa.RecordBatch, np.ndarray]:
            seen = [*(batch.column(i) for i in columns), pa.array(hashes)]
            rows, cells, owned = plan.cells(SIDES[side], pa.RecordBatch.from_arrays(seen, schema=schemas[side]))
            return with_cells(batch, rows, cells, owned), plan.worker_of[cells]

        return way

    return route


@lru_cache(maxsize=8)
def plan_in_task(text: str, spec: JoinSpec, left: pa.Schema, right: pa.Schema) -> RoutingPlan:
    from ivjoin.routing.encoding import plan_from_json

    return plan_from_json(
        text, left, right, on=list(spec.on) or None, condition=spec.condition, how=spec.how, timezone=spec.timezone
    )
