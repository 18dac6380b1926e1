"""A join of many streaming frames: rows packed for the cells of a hypercube, each cell a ``MultiJoin`` with state.

::

    q -- cells -- pack (mapInArrow) --+
    t -- cells -- pack (mapInArrow) --+-- union -- groupBy(label) -- applyInPandasWithState(join) -- open (mapInArrow)
    n -- cells -- pack (mapInArrow) --+

As a join of two streams (``streaming``): all rows of a micro-batch first, an input's as one batch, then what the ticks
say of how far each input has come. A cell's state is the operator's snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ivjoin.multi.operator import MultiJoin
from ivjoin.multi.question import MultiSpec
from ivjoin.plan.cache import plan_of
from ivjoin.routing import HypercubePlan
from ivjoin.spark.buckets import bucket_labels
from ivjoin.spark.cells import cell_sql, hashable
from ivjoin.spark.codec import FORMAT, STATE_SCHEMA, compressed, expanded, meta_text, new_token, read_state
from ivjoin.spark.columns import place
from ivjoin.spark.environment import arrow_batch_rows
from ivjoin.spark.pack import PACKED_SCHEMA, Seen, packer, unpacked, whole
from ivjoin.spark.results import RESULT_SCHEMA, ROWS_COLUMN, Results, opener
from ivjoin.spark.workers import own_workers

__all__ = ["cell_function", "streamed_in_cells"]

StateFunction = Callable[[tuple[Any, ...], Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]


def streamed_in_cells(frames: Mapping[str, Any], spec: MultiSpec, plan: HypercubePlan, out: StructType) -> Any:
    """The joined stream."""
    labels = bucket_labels(plan.workers)
    packed = []
    for side, (alias, frame) in enumerate(frames.items()):
        names = [place(i) for i in range(len(frame.columns))]
        rows = frame.toDF(*names)
        cell = F.explode(F.expr(cell_sql(spec, plan, alias, hashable(frame.schema)))).alias("bucket")
        packed.append(
            rows.select(cell, *names).mapInArrow(packer(spec.inputs[alias], 0, labels, tag=side), PACKED_SCHEMA)
        )
    all_of = packed[0]
    for one in packed[1:]:
        all_of = all_of.union(one)
    first = next(iter(frames.values()))
    results = Results(arrow_batch_rows(first.sparkSession))
    with own_workers(first):
        played = all_of.groupBy("label").applyInPandasWithState(
            cell_function(spec, plan, results), RESULT_SCHEMA, STATE_SCHEMA, "append", "NoTimeout"
        )
    rows = F.col(ROWS_COLUMN)
    return played.where(rows.isNotNull()).select(rows).mapInArrow(opener(spec.schema), out)


def cell_function(spec: MultiSpec, plan: HypercubePlan, results: Results) -> StateFunction:
    """The function that Spark calls once per cell and micro-batch."""
    meta = meta_text(_identity(spec, plan), plan.workers)

    def join_cell(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        if state.exists:
            op = MultiJoin.restore(expanded(read_state(state.get, meta).payload))
        else:
            op = MultiJoin.from_spec(spec, late_within=False)
        packed, seen = _arrivals(spec, frames)
        for alias in op.aliases:
            if packed[alias]:
                pieces = [unpacked(rows, spec.wide(alias)) for rows in packed[alias]]
                columns = whole(pieces).columns
                for batch in op.push(alias, pa.RecordBatch.from_arrays(columns, schema=spec.schemas[alias])):
                    yield results.output(batch)
        for alias in op.aliases:
            for batch in op.reach(alias, seen[alias].edges):
                yield results.output(batch)
        payload = compressed(op.snapshot())
        state.update((FORMAT, meta, new_token(), payload))

    return join_cell


def _arrivals(spec: MultiSpec, frames: Iterator[pd.DataFrame]) -> tuple[dict[str, list[bytes]], dict[str, Seen]]:
    """A cell's packed rows and ticks, by input."""
    packed: dict[str, list[bytes]] = {a: [] for a in spec.aliases}
    seen = {a: Seen(plan_of(spec.inputs[a]), 0) for a in spec.aliases}
    for frame in frames:
        for side, rows, tick in zip(frame["side"], frame["rows"], frame["seen"], strict=True):
            alias = spec.aliases[int(side)]
            if isinstance(rows, (bytes, bytearray)):
                packed[alias].append(bytes(rows))
            if isinstance(tick, (bytes, bytearray)):
                seen[alias].merge(bytes(tick))
    return packed, seen


def _identity(spec: MultiSpec, plan: HypercubePlan) -> dict[str, str]:
    """What must stay the same for a checkpoint to go on, in words, by the name of the argument."""
    said = spec.as_json
    out = {
        "condition": str(spec.condition), "condition form": json.dumps(said["condition"], sort_keys=True),
        "grid": str(plan.dims), "timezone": spec.options.timezone, "on_late": spec.options.on_late,
    }  # fmt: skip
    for alias, own in said["inputs"].items():
        schema = spec.schemas[alias]
        out[f"columns of {alias}"] = ", ".join(f"{f.name} {f.type}" for f in schema)
        out[f"orders of {alias}"] = json.dumps([own["orders"], own["bounds"]])
    return out
