"""The memory layout of a plan's rows, shared by all of its operators."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj.arrow import byte_width
from ivjoin.shj.plain import plain_type

__all__ = ["RowLayout", "row_layouts"]


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The columns of one side, by their places in its schema; shared by operators and immutable.

    Attributes
    ----------
    schema : pa.Schema, or None
        The schema with the operator's types (``ivjoin.shj.plain.plain_type``), if they differ from the input's types.
    changed : list of (int, pa.DataType)
        Columns that are stored in another type than the input's.
    stored, stored_widths
        Types of the stored columns, in order, and the bytes of a value of each or None.
    widths : list of int or None
        Bytes of a value of each column.
    places, index
        The place of each column among the stored ones, or -1; places by name.
    never_null : list of int
        Columns that are declared not nullable.
    """

    schema: pa.Schema | None
    changed: list[tuple[int, pa.DataType]]
    stored: list[pa.DataType]
    stored_widths: list[int | None]
    widths: list[int | None]
    places: list[int]
    never_null: list[int]
    index: dict[str, int]


def row_layouts(plan: JoinPlan) -> tuple[RowLayout, RowLayout]:
    """Return the layouts of a plan's sides, computed once for all its operators."""
    return plan.derived.once(_layout, lambda: (_layout(plan, 0), _layout(plan, 1)))


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
