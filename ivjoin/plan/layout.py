"""The memory layout of a plan's rows. All operators of the plan share it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ivjoin.plan.join_plan import JoinPlan, of_plan
from ivjoin.shj.arrow import byte_width
from ivjoin.shj.plain import plain_type, to_plain

__all__ = ["RowLayout", "row_layouts"]


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The columns of one side, by their index in its schema. A layout is immutable."""

    schema: pa.Schema | None  # with the types of ``ivjoin.shj.plain.plain_type``; None if the input has these types
    changed: list[tuple[int, pa.DataType]]  # columns that are stored in another type than the input's
    stored: list[pa.DataType]  # the types of the stored columns, in order
    stored_widths: list[int | None]  # bytes of a value of each stored column
    widths: list[int | None]  # bytes of a value of each column
    places: list[int]  # the index of each column among the stored ones, or -1
    never_null: list[int]  # columns that are declared not nullable
    index: dict[str, int]  # column indexes by name

    def plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch to the types of ``schema``."""
        columns = batch.columns
        for i, t in self.changed:
            columns[i] = to_plain(columns[i], t)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


@of_plan
def row_layouts(plan: JoinPlan) -> tuple[RowLayout, RowLayout]:
    return _layout(plan, 0), _layout(plan, 1)


def _layout(plan: JoinPlan, s: int) -> RowLayout:
    schema, stored = plan.sides[s].schema, plan.sides[s].stored
    types = [plain_type(t) for t in schema.types]
    plain = None
    if types != schema.types:
        plain = pa.schema([f.with_type(t) for f, t in zip(schema, types, strict=True)])
    return RowLayout(
        schema=plain,
        changed=[(i, t) for i, (t, own) in enumerate(zip(types, schema.types, strict=True)) if t != own],
        stored=[types[i] for i in stored],
        stored_widths=[byte_width(types[i]) for i in stored],
        widths=[byte_width(t) for t in types],
        places=[stored.index(i) if i in stored else -1 for i in range(len(types))],
        never_null=[i for i, f in enumerate(schema) if not f.nullable],
        index={name: i for i, name in enumerate(schema.names)},
    )
