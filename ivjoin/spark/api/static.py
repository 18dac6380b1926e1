"""A join of two static DataFrames: both sides of a key in one task, sorted, and streamed through the operator.

::

    left  -- side 0, keys, order --+
                                   +-- union -- repartition(keys) -- sortWithinPartitions(order) -- mapInArrow(operator)
    right -- side 1, keys, order --+       (keys and order travel in the columns that hold them, where they are columns)

Where keys alone do not divide the rows well, each row is routed to cells before that (``spreading``), and the cells'
tasks take the keys' place. Small frames are not shuffled: one task reads and joins them.

Sorted along a band, rows leave the operator as soon as the band has passed them: a task holds the window, and Spark's
sort, which can spill, holds the rest. Rows for which the band's expression errs come first, with the nulls, since the
condition need not err for them.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from ivjoin.frontier.order import Order
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.api.joiners import Joiner, joined_by
from ivjoin.spark.rows.arrow import key_sql, place
from ivjoin.spark.rows.slots import columns_packed, laid_together, null_of, selected
from ivjoin.spark.rows.sorting import image_adder, sort_key
from ivjoin.spark.spread.ownership import cell_spec, only_owned
from ivjoin.spark.spread.spreading import Spread, routed

__all__ = ["static_join"]

_NAME = "ivjoin name"


def static_join(
    left: Any, right: Any, spec: JoinSpec, out: StructType, spread: Spread, observation: Any = None,
    budget: Budget | None = None,
) -> Any:
    """The joined frame. ``spread`` says how rows are divided, ``observation`` takes the counts, of ``budget`` each task
    has one.
    """
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
    whole, ways = [], []
    for side, frame in enumerate((left, right)):
        rows = frame.toDF(*[place(i) for i in range(len(types[side]))])
        if key is not None and key.sql is None:
            rows = _with_image(rows, spec, side, key.nodes[side])
        whole.append(rows)
        if is_routed:
            ways.append(routed(rows, frame, spec, side, spread))
    parts = []
    for worker in spread.readers:
        tagged = []
        for side, rows in enumerate(whole):
            added: dict[str, str] = {}
            if is_routed:
                rows, added = ways[side](worker)
            where = {slot: i for i, slot in enumerate(places[side])}
            columns: dict[str, Any] = {
                f"s{i}": place(where[i]) if i in where else null_of(t) for i, t in enumerate(slots)
            }
            for i, (pair, at) in enumerate(zip(together, found, strict=True)):
                if at is None:
                    columns[f"b{i}"] = pair[side]
            if key is not None and ordered is None:
                columns["o"] = "o"
            columns["side"] = f"CAST({side} AS TINYINT)"
            columns |= added
            tagged.append(selected(rows, **columns_packed(columns, order)))
        parts.append(tagged[0].union(tagged[1]))
    if spread.read_by_all:
        both = _apart(parts)
    else:
        (both,) = parts
        by = ["label"] if is_routed else by
        if not by or spread.alone:
            both = both.coalesce(1)
        elif spread.tasks is None:
            both = both.repartition(*by)
        else:
            both = both.repartition(spread.tasks, *by)
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
    return joined_by(joiner, payload, plan_of(run).schema, out, observation)


def _apart(frames: Sequence[Any]) -> Any:
    """All rows of frames of the same columns, those of each in a partition of its own.

    Spark lays frames of one partition into one, since 4.1. It does not where it knows nothing of how the first is
    divided, as after a column was turned into rows.
    """
    first, *others = (frame.coalesce(1) for frame in frames)
    if others:
        rest = [name for name in first.columns if name != "side"]
        first = first.unpivot(rest, ["side"], _NAME, "side").select(*first.columns)
    return reduce(lambda a, b: a.union(b), others, first)


def _column_of(sql: str) -> int | None:
    """The column that an expression over :func:`place` names is, if it is one and no more."""
    found = re.fullmatch(r"`c(\d+)`", sql)
    return int(found[1]) if found else None


def _with_image(rows: Any, spec: JoinSpec, side: int, node: Any) -> Any:
    schema = StructType([StructField("o", LongType()), *[StructField(f.name, f.dataType) for f in rows.schema]])
    return rows.mapInArrow(image_adder(spec, side, node), schema)


def _joiner(
    spec: JoinSpec, places: list[list[int]], budget: Budget | None = None, owned: pa.Schema | None = None
) -> Joiner:
    """The function of a task: tagged rows in, in order; joined rows out, and what the operator counted at the end.

    With a schema, of the joined rows those that are owned come out, of that schema.
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

        for batch in batches:
            tags = np.asarray(batch.column(0))
            for side in (0, 1):
                rows = _of_side(batch, tags, side, places[side], spec.schemas[side])
                if rows is not None:
                    yield from kept(op.push(SIDES[side], rows))
        yield from kept(op.finish())
        counts = op.metrics
        counts.rows_out -= unowned
        return counts

    return join


def _of_side(
    batch: pa.RecordBatch, tags: np.ndarray, side: int, places: list[int], schema: pa.Schema
) -> pa.RecordBatch | None:
    """The rows of one side, under the names of the plan; None if the batch has none."""
    index = np.flatnonzero(tags == side)
    if len(index) == 0:
        return None
    columns = [batch.column(1 + slot) for slot in places]
    if len(index) < batch.num_rows:
        taken = pa.array(index)
        columns = [c.take(taken) for c in columns]
    fit = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(fit, schema=schema)
