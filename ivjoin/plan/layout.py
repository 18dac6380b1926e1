"""How the rows of a plan lie in memory: what all of its operators know of their columns."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ivjoin.plan.planner import JoinPlan
from ivjoin.shj.arrow import byte_width
from ivjoin.shj.plain import plain_type

__all__ = ["RowLayout", "row_layouts"]


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Columns of one side, by their places in its schema; shared by operators, and never changed.

    Attributes
    ----------
    schema : pa.Schema, or None
        Of the types that the operator holds (``ivjoin.shj.plain.plain_type``), where they are not the input's own.
    changed : list of (int, pa.DataType)
        Columns that are held in another type than the input's own.
    stored : list of pa.DataType
        Types of the columns that are stored, in the order in which they are.
    stored_widths : list of int or None
        Bytes a value of theirs.
    widths : list of int or None
        Bytes a value.
    places : list of int
        Which of the stored columns each one is, or -1.
    never_null : list of int
        Columns that are declared not nullable.
    index : dict of str to int
        Places by name.
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
    """The layouts of a plan's sides, worked out once for all its operators."""
    known: tuple[RowLayout, RowLayout] | None = plan.kept.get("rows")
    if known is None:
        known = plan.kept["rows"] = _layout(plan, 0), _layout(plan, 1)
    return known


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
