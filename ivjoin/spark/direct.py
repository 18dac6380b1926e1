"""A join of static frames that are files on this machine: each task reads them, and joins what is for its cells.

::

    task 0: files -- cells of worker 0 --+-- sort -- sweep -- rows of the answer, as Arrow
    task 1: files -- cells of worker 1 --+-- sort -- sweep -- rows of the answer, as Arrow

Spark takes nothing but the answer: to decode a row into its own form, sort it and hand it to Python as Arrow takes it
longer than the join of the row does. A row that is read and dropped, since it is for another task, costs a fiftieth.
Which cells a row is for says a routing plan (``ivjoin.routing``), made from a sample of the same files.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from ivjoin.metrics import JoinMetrics
from ivjoin.operator.budget import Budget
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.buckets import checked_count
from ivjoin.spark.columns import key_sql
from ivjoin.spark.environment import Settings
from ivjoin.spark.joiners import Joiner, joined_by
from ivjoin.spark.localfiles import MOST_ROWS, READERS, LocalFiles, files_here, tasks_for
from ivjoin.spark.ownership import cell_spec, only_owned
from ivjoin.spark.sampling import from_files, looked_at
from ivjoin.spark.sorting import sort_key
from ivjoin.spark.spreading import is_little, plan_in_task, planned_for, why_undivided
from ivjoin.stream.inputs import open_inputs
from ivjoin.stream.pull import stream_of

if TYPE_CHECKING:
    from ivjoin.routing.plan import RoutingPlan

__all__ = ["Direct", "direct_join", "direct_of"]


@dataclass(frozen=True)
class Direct:
    """Files that tasks read, and which rows each task keeps.

    Attributes
    ----------
    files : (LocalFiles, LocalFiles)
    plan : RoutingPlan or None
        None: one task joins all rows.
    why : str
        In words, where one task does.
    order : str
        What rows are sorted by, in words; empty where nothing.
    """

    files: tuple[LocalFiles, LocalFiles]
    plan: RoutingPlan | None = None
    why: str = ""
    order: str = ""

    @property
    def workers(self) -> list[int]:
        """Those that have cells."""
        return [0] if self.plan is None else sorted(set(self.plan.worker_of.tolist()))

    def __str__(self) -> str:
        tasks = len(self.workers)
        rows = " and ".join(f"{f.rows:,}" for f in self.files)
        who = "one task" if tasks == 1 else f"each of {tasks} tasks"
        kept = "" if tasks == 1 else ", keeps the rows of its cells"
        why = f", since {self.why}" if self.why else ""
        said = f"static: {who} reads the files of both frames ({rows} rows) by itself{kept}{why}; {self.order}"
        return "\n".join([said, *(f"  {line}" for line in str(self.plan or "").splitlines())])


def direct_of(
    left: Any, right: Any, spec: JoinSpec, settings: Settings, buckets: int | None, routing: str,
    budget: Budget | None = None,
) -> Direct | None:
    """How the tasks read both frames; None where Spark has to.

    Within a limit of memory it has to, too: what a task reads it holds, as rows that are sorted.
    """
    plan = plan_of(spec)
    if budget is not None or plan.never:
        return None
    tasks = checked_count(buckets, settings.partitions)
    if buckets is not None and tasks > READERS:
        return None
    found = [files_here(frame, schema) for frame, schema in zip((left, right), spec.schemas, strict=True)]
    if found[0] is None or found[1] is None:
        return None
    files = found[0], found[1]
    rows, key = files[0].rows + files[1].rows, sort_key(plan)
    order = f"sorted by {key.nodes[0]} and {key.nodes[1]}" if key else "in any order: no band to sort along"

    def alone(why: str) -> Direct:
        return Direct(files, None, why, order)

    if buckets is None:
        tasks = tasks_for(left, rows, tasks)
    if tasks == 1 or not files[0].rows or not files[1].rows:
        return alone("there is one task" if tasks == 1 and buckets == 1 else "there are few rows")
    together = spec.pick is not None or bool(spec.aggregates)
    if together:
        routing = "hash"  # all partners of a left row meet in one task
    if routing == "hash" and not plan.separation.keys:
        said = "all partners of a left row meet in one task" if together else "routing is 'hash'"
        return alone(f"{said}, and {why_undivided(plan)}")
    drawn = from_files((left, right), spec, MOST_ROWS + 1, paths=[f.paths for f in files])
    if drawn is None:
        return None
    made = planned_for(drawn, spec, tasks, routing, None)
    if made.n_cells == 1 or (buckets is None and key_sql(plan) and is_little(made)):
        return alone("; ".join(made.notes) or "it is little work")
    return Direct(files, made, "", order)


def direct_join(
    spark: Any, spec: JoinSpec, out: StructType, direct: Direct, observation: Any = None
) -> Any:
    """The joined frame; ``observation`` takes the counts."""
    tasks = len(direct.workers)
    joiner = _joiner(spec.with_orders((), (), "raise"), direct)
    return joined_by(joiner, spark.range(0, tasks, 1, tasks), plan_of(spec).schema, out, observation)


# -- in the tasks ------------------------------------------------------------------------------------------------------


def _joiner(spec: JoinSpec, direct: Direct) -> Joiner:
    """The function of a task: the number of a worker in, joined rows out."""
    files, workers, text = direct.files, direct.workers, None
    if direct.plan is not None:
        from ivjoin.routing.encoding import plan_to_json

        text = plan_to_json(direct.plan)
    looked = [pa.schema([schema.field(i) for i in looked_at(spec, s)]) for s, schema in enumerate(spec.schemas)]

    def join(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, JoinMetrics]:
        counts, unowned = JoinMetrics(), 0
        for number in (n for batch in batches for n in batch.column(0).to_pylist()):
            plan = None if text is None else plan_in_task(text, spec, *looked)
            apart = plan is not None and not _is_one_join(plan)
            run = cell_spec(spec) if apart else spec
            tables = [_kept(spec, s, files[s], plan, workers[number], run.schemas[s]) for s in (0, 1)]
            stream = stream_of(open_inputs(*tables), plan_of(run), 0, 1, "auto", None)
            del tables
            for batch in stream:
                mine = only_owned(batch, plan_of(spec).schema) if apart else batch
                unowned += batch.num_rows - mine.num_rows
                if mine.num_rows:
                    yield mine
            counts = stream.metrics
        counts.rows_out -= unowned
        return counts

    return join


def _is_one_join(plan: RoutingPlan) -> bool:
    """Whether the cells of a worker are one join of all their rows, each taken once.

    So it is where rows of one side have one cell each, and only they may come out alone: whatever a row of the other
    side finds there it would have met in that cell.
    """
    layout = plan.layout
    return not layout.both and not any(e.twofold or set(e.grids) != {(1, 1)} for e in layout.entries)


def _kept(
    spec: JoinSpec, side: int, files: LocalFiles, plan: RoutingPlan | None, worker: int, schema: pa.Schema
) -> pa.Table:
    """The rows of a side that are for a worker; with their cells and whether they are owned, if the schema has both."""
    batches: Iterator[pa.RecordBatch] = files.batches(spec.schemas[side])
    if plan is not None:
        batches = _routed(spec, side, batches, plan, worker, schema)
    return pa.Table.from_batches(batches, schema)


def _routed(
    spec: JoinSpec, side: int, batches: Iterator[pa.RecordBatch], plan: RoutingPlan, worker: int, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    seen, mine = looked_at(spec, side), plan.worker_of == worker
    for batch in batches:
        at, cells, owned = plan.cells(SIDES[side], batch.select(seen))
        kept = mine[cells]
        if len(schema) == batch.num_columns:
            here = np.zeros(batch.num_rows, dtype=bool)
            here[at[kept]] = True
            yield batch if here.all() else batch.take(pa.array(np.flatnonzero(here)))
        else:
            columns = batch.take(pa.array(at[kept])).columns
            yield pa.RecordBatch.from_arrays([*columns, pa.array(cells[kept]), pa.array(owned[kept])], schema=schema)
