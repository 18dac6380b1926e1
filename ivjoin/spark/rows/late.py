"""Emit late rows of a stream, with the columns of their side and the reason why they are late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

import pyarrow as pa

from ivjoin.errors import ColumnError, UnsupportedError
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.operator.promises import requirements
from ivjoin.outer.jointype import join_type
from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.spread.buckets import only_owned

__all__ = [
    "KEEP", "REASON", "Backend", "LateOrKept", "LateRows", "Routing", "check_keeps", "joined_schema", "kept_late",
    "late_schema",
]

LateOrKept: TypeAlias = Literal["raise", "drop", "join", "keep"]
Backend: TypeAlias = Literal["applyInPandasWithState", "transformWithState"]
Routing: TypeAlias = Literal["auto", "hash", "slices", "grid"]
KEEP = "keep"  # the value of ``on_late`` under which late rows are part of the output
REASON = "late_reason"


def check_keeps(spec: JoinSpec) -> None:
    """Refuse a join with ``on_late="keep"`` whose output cannot represent the late rows of both sides."""
    how = join_type(spec.how)
    what = (
        "window_join" if spec.aggregates else f"how={spec.how!r}" if how.name not in ("inner", "left", "right", "full")
        else f"the conjunct {spec.left_over[0]!r}, by which Spark filters the joined rows" if spec.left_over else ""
    )
    if what:
        raise UnsupportedError(
            f"on_late is 'keep' with {what}: the output has no place for the late rows of both sides. Use "
            "on_late='drop' and write_stream(..., late_path=...), which writes them into a folder of their own"
        )
    if REASON in plan_of(spec).schema.names:
        raise ColumnError(f"on_late='keep' adds the column {REASON!r}, which the inputs have already; rename it there")


def _wide(spec: JoinSpec) -> JoinPlan:
    return plan_of(replace(spec, how="full", pick=None, aggregates=(), first_by=None, include_previous=False))


def late_schema(spec: JoinSpec) -> pa.Schema:
    return _wide(spec).schema.append(pa.field(REASON, pa.string()))


def joined_schema(spec: JoinSpec) -> pa.Schema:
    """Return the schema of the rows that a join of streams emits."""
    return late_schema(spec) if spec.on_late == KEEP else plan_of(spec).schema


def kept_late(spec: JoinSpec) -> LateRows | None:
    """Return the object that collects late rows for the output; None if they are not part of it."""
    return LateRows(spec, True) if spec.on_late == KEEP else None


class LateRows:
    """The late rows of one task's turns. With ``joined``, they are part of the joined rows."""

    def __init__(self, spec: JoinSpec, joined: bool) -> None:
        self.joined = joined
        self._spec = spec
        self._found: list[pa.RecordBatch] = []

    def watch(self, op: SymmetricHashJoin, side: int) -> None:
        why = f"{SIDES[side]} row after others that promise {' and '.join(requirements(op._engine, side))}"

        def report(_: str, batch: pa.RecordBatch) -> None:
            mine = self._spec.schemas[side]
            rows = only_owned(batch, mine) if len(batch.schema) > len(mine) else batch
            self._found.append(self._row(side, rows, why))

        op.report_late(report)

    def _row(self, side: int, batch: pa.RecordBatch, why: str) -> pa.RecordBatch:
        n = batch.num_rows
        plan = _wide(self._spec)
        columns = []
        for place, field in zip(plan.fields, plan.schema, strict=True):
            index = (place.left, place.right)[side]
            columns.append(pa.nulls(n, field.type) if index is None else batch.column(index).cast(field.type))
        reason = pa.array([why] * n, pa.string())
        return pa.RecordBatch.from_arrays([*columns, reason], schema=late_schema(self._spec))

    def taken(self) -> list[pa.RecordBatch]:
        found, self._found = self._found, []
        return [batch for batch in found if batch.num_rows]

    def after(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield joined rows with the column ``late_reason``, then the late rows."""
        schema = late_schema(self._spec)
        for batch in batches:
            none = pa.nulls(batch.num_rows, pa.string())
            yield pa.RecordBatch.from_arrays([*batch.columns, none], schema=schema)
        yield from self.taken()
