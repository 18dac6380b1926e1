"""Which plans are plain enough for one compiled call a push: every value that it looks at is a column's own."""

from __future__ import annotations

import pyarrow as pa

from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinal_of
from ivjoin.order import slack_ticks
from ivjoin.plan import JoinPlan
from ivjoin.shj import lane_layout as at
from ivjoin.shj.arrow import byte_width, is_own_image

__all__ = ["MOST_COLUMNS", "Sources", "column_of", "image_columns", "plain_sources"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
MOST_COLUMNS = 4096
# A column whose ordinals the kernel reads: its index, how to read it, and the least and greatest it may have.
Sources = dict[Node, tuple[int, int, int, int]]


def plain_sources(plan: JoinPlan) -> list[Sources] | None:
    """What the kernel reads of either side, None when the plan's rows are not plain."""
    if plan.how.single is not None or plan.never or plan.raises or plan.separation.residual:
        return None
    if plan.null_safe and not plan.int_keys:
        return None
    if any(byte_width(t) is None for t in plan.schema.types) or len(plan.schema) > MOST_COLUMNS:
        return None
    sides = []
    for s in (0, 1):
        sources = sources_of(plan, s)
        if sources is None or plan.sides[s].filters or plan.sides[s].bounds:
            return None
        sides.append(sources)
    for f, t in zip(plan.fields, plan.schema.types, strict=True):
        for s, index in ((0, f.left), (1, f.right)):
            if index is not None and plan.sides[s].schema.types[index] != t:
                return None
    return sides


def column_of(node: Node) -> Node | None:
    """The column that an expression is, or is a widening integer cast of: equal ordinals, row by row."""
    while node.op == "cast":
        (inner,) = node.args
        if not (node.type.kind == inner.type.kind == "int"):
            return None
        low, high = node.type.physical_range()
        least, most = inner.type.physical_range()
        if not low <= least <= most <= high <= I64_MAX:
            return None
        node = inner
    return node if node.op == "column" else None


def image_columns(plan: JoinPlan, s: int) -> dict[int, int | None]:
    """Stored columns of a side that are one of its axes, value for value, or its only key (None).

    Keys are places among the stored columns.
    """
    side = plan.sides[s]
    out: dict[int, int | None] = {}
    sources: list[tuple[Node, int | None]] = [(node, a) for a, node in enumerate(side.axes)]
    if plan.int_keys:
        sources.append((side.keys[0], None))
    for node, source in sources:
        column = column_of(node)
        if column is not None:
            index = side.schema.get_field_index(column.params[1])
            if index in side.stored and is_own_image(side.schema.types[index]):
                out.setdefault(side.stored.index(index), source)
    return out


def _code(t: pa.DataType) -> int | None:
    """How values of an Arrow type are read as ordinals."""
    pt = pa.types
    width = byte_width(t)
    if width is None:
        return None
    if pt.is_decimal128(t):
        return at.CODES["d", 16] if t.precision <= 18 else None
    if pt.is_float32(t) or pt.is_float64(t):
        return at.CODES["f", width]
    if pt.is_unsigned_integer(t):
        return at.CODES["u", width]
    if pt.is_signed_integer(t) or pt.is_date32(t) or pt.is_time(t) or pt.is_timestamp(t) or pt.is_duration(t):
        return at.CODES["i", width]
    return None


def sources_of(plan: JoinPlan, s: int) -> Sources | None:
    """Columns whose ordinals the kernel reads, the axes first: (index, code, low, high); None if one is not plain."""
    side = plan.sides[s]
    orders = [n for n, _, _ in side.orders]
    found: Sources = {}
    columns = [column_of(n) for n in [*side.axes, *side.keys, *orders, *(g for g, _, _ in side.guards)]]
    if len(set(columns[: len(side.axes)])) != len(side.axes):
        return None
    for column in columns:
        if column is None:
            return None
        index = side.schema.get_field_index(column.params[1])
        code = _code(side.schema.types[index])
        if code is None:
            return None
        found[column] = (index, code, I64_MIN, I64_MAX)
    for node, low, high in side.guards:
        column = column_of(node)
        assert column is not None
        if column.type.kind == "float" or ordinal_of(0, column.type) != 0:
            return None
        index, code, a, b = found[column]
        found[column] = (index, code, max(a, low), min(b, high))
    for node, name, o in side.orders:
        if o.nulls is not None or (node.type.kind == "float" and (o.descending or o.slack)):
            return None
        if slack_ticks(o.slack, node.type, name) > I64_MAX:
            return None
    return found
