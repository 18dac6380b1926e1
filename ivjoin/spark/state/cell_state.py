"""Join many streaming frames: rows are packed for the cells of a hypercube, and each cell is a ``MultiJoin``.

::

    q -- cells -- pack (mapInArrow) --+
    t -- cells -- pack (mapInArrow) --+-- union -- groupBy(label) -- applyInPandasWithState(join) -- open (mapInArrow)
    n -- cells -- pack (mapInArrow) --+

As in a join of two streams (``stateful``), a cell pushes all rows of a micro-batch first, one batch for each input,
and then applies the ticks. Its state is the operator's snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.types import StructType

from ivjoin.metrics import MultiJoinMetrics
from ivjoin.multi.operator import MultiJoin
from ivjoin.multi.spec import MultiSpec
from ivjoin.plan.cache import plan_of
from ivjoin.routing import HypercubePlan
from ivjoin.spark.rows.metrics import observed, observed_name
from ivjoin.spark.rows.pack import Seen, unpacked, whole
from ivjoin.spark.rows.results import DELAYS, RESULT_SCHEMA, Delay, Results, late_rows, opener
from ivjoin.spark.runtime.environment import arrow_batch_rows
from ivjoin.spark.spread.cells import packed_for_cells
from ivjoin.spark.spread.spec import FREE
from ivjoin.spark.state.bucket import Arrivals, received
from ivjoin.spark.state.codec import FORMAT, STATE_SCHEMA, compressed, expanded, meta_text, new_token, read_state

__all__ = ["cell_function", "counts_of", "streamed_in_cells"]

StateFunction = Callable[[tuple[Any, ...], Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]


def streamed_in_cells(frames: Mapping[str, Any], spec: MultiSpec, plan: HypercubePlan, out: StructType) -> Any:
    first = next(iter(frames.values()))
    results = Results(arrow_batch_rows(first.sparkSession))
    played = packed_for_cells(frames, spec, plan, ticks=True).groupBy("label").applyInPandasWithState(
        cell_function(spec, plan, results), RESULT_SCHEMA, STATE_SCHEMA, "append", "NoTimeout"
    )
    rows = observed(played, observed_name(None), counts_of(spec.aliases))
    return rows.mapInArrow(opener(spec.schema), out)


def counts_of(aliases: Sequence[str]) -> list[str]:
    """Return the names of a turn's counts, in the order of its text. Times are in microseconds."""
    return [
        *(f"{a}_rows_in" for a in aliases), *(f"{a}_rows_retired" for a in aliases), "rows_out", "late_rows",
        "state_rows", "state_bytes", "bytes_written", "restored", *DELAYS, "read_us", "join_us", "write_us",
    ]  # fmt: skip


def _growing(m: MultiJoinMetrics) -> list[int]:
    return [*m.rows_in.values(), *m.rows_retired.values(), m.rows_out, m.late_rows]


def cell_function(spec: MultiSpec, plan: HypercubePlan, results: Results) -> StateFunction:
    meta = meta_text(_identity(spec, plan), plan.workers)
    refuses = spec.options.on_late == "raise"
    if refuses:  # the state is that of on_late="drop", as in ``bucket``
        spec = replace(spec, inputs={a: own.with_late("drop") for a, own in spec.inputs.items()})

    def join_cell(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        start = perf_counter_ns()
        restored = bool(state.exists)
        if restored:
            op = MultiJoin.restore(expanded(read_state(state.get, meta).payload))
        else:
            op = MultiJoin.from_spec(spec, late_within=False)
        before, read = _growing(op.metrics), perf_counter_ns()
        came = received(tuple(Seen(plan_of(spec.inputs[a]), 0) for a in spec.aliases), frames)
        delay = Delay()
        for batch in delay.counted(_played(op, spec, came), came.arrived):
            yield results.output(batch)
        payload = compressed(op.snapshot())
        state.update((FORMAT, meta, new_token(), payload))
        m = op.metrics
        if refuses and m.late_rows > before[-1]:
            raise late_rows(m.late_rows - before[-1])
        counts = [after - was for after, was in zip(_growing(m), before, strict=True)]
        counts += [m.state_rows, m.state_bytes, len(payload), int(restored), *delay.counts]
        yield results.counts(",".join(str(n) for n in (*counts, *delay.stages(start, read))))

    return join_cell


def _played(op: MultiJoin, spec: MultiSpec, came: Arrivals) -> Iterator[pa.RecordBatch]:
    """Push all rows of a micro-batch, then advance the frontier of each input; yield the output."""
    for alias, packed in zip(op.aliases, came.packed, strict=True):
        if packed:
            yield from op.push(alias, whole([unpacked(rows, spec.schemas[alias]) for rows in packed]))
    for alias, seen in zip(op.aliases, came.seen, strict=True):
        yield from op.reach(alias, seen.edges)


def _identity(spec: MultiSpec, plan: HypercubePlan) -> dict[str, Any]:
    """Return in words, by the name of the argument, the settings that a checkpoint does not allow to change."""
    said = spec.as_json
    out: dict[str, Any] = {
        FREE: {"condition": str(spec.condition)}, "condition form": json.dumps(said["condition"], sort_keys=True),
        "grid": str(plan.dims), "timezone": spec.options.timezone,
        "on_late": "join" if spec.options.on_late == "join" else "drop or raise",
    }  # fmt: skip
    for alias, own in said["inputs"].items():
        schema = spec.schemas[alias]
        out[f"columns of {alias}"] = ", ".join(f"{f.name} {f.type}" for f in schema)
        out[f"orders of {alias}"] = json.dumps([own["orders"], own["bounds"]])
    return out
