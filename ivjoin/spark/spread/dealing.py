"""Send rows to the cells of a routing plan with Spark SQL, so that they do not pass through Python before the shuffle.

::

    c0 c1 ... --> p0 p1 (compared with cuts), kh (hash of the keys) --> the slices of each row --> one row for each copy

A cut is an ordinal of the axis. It is converted to a value of the expression that it is compared with, with the offset
included: ``ordinal(x) + offset >= cut`` holds where ``x >= value(cut - offset)``. The value is a literal, or the
comparison holds always or never. A tree of such comparisons finds a slice.

The cells are the same as from :meth:`RoutingPlan.cells`, except for rows that cannot match. Such a row has one cell,
chosen by its hash. If only its filters or an empty range show that it cannot match, it has the cells of its range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import NAN_ORDINAL, ordinal_of, value_of
from ivjoin.plan.cutting import I64_MAX, I64_MIN
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.conditions.sqlwriter import literal
from ivjoin.spark.rows.arrow import as_spark_sql, literal_sql

if TYPE_CHECKING:
    from ivjoin.routing.plan import RoutingPlan

__all__ = ["dealt", "why_in_python"]

_MOST_CUTS = 64  # comparisons in a tree; Java compiles a tree as one method
_MOST_KEYS = 256  # keys that a row's key is compared with
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class _Line:
    """An expression of a side as Spark compares it: SQL, least and greatest ordinal, and a literal for an ordinal."""

    sql: str
    least: int
    most: int
    at: Callable[[int], str | None]


def why_in_python(spec: JoinSpec, plan: RoutingPlan) -> str:
    """Return why :func:`dealt` cannot follow a plan; empty if it can."""
    layout = plan.layout
    if any(layout.needs_row_hash(s) for s in (0, 1)) or any(e.twofold for e in layout.entries):
        return "grids deal rows out by hashes of ivjoin's own"
    if plan.reader.reach.keys[0] and plan.reader.key_hash is None:
        return "keys are computed"
    if sum(len(e.cuts) for e in layout.entries) > _MOST_CUTS or len(layout.entries) > _MOST_KEYS:
        return "there are many slices"
    for s in (0, 1):
        if plan.reader.plan.sides[s].filters:
            return "the condition filters rows of one side"
        for node in _ends_of(plan, s)[3]:
            line = _line(node, spec.schemas[s].names)
            if line is None:
                return f"{node} is no column that Spark compares as ivjoin does"
            if not _has_literals(line, plan, _offsets(plan, s, node)):
                return f"a slice of {node} begins where Spark has no literal"
    return ""


def dealt(
    rows: Any, spec: JoinSpec, plan: RoutingPlan, side: int, key_hash: str | None, row_hash: str
) -> tuple[Any, str]:
    """Return a frame with one row for each copy of a side's rows, and SQL of whether the copy is owned.

    Its column ``cell`` (int) is the copy's cell. In ``rows``, the side's columns have their :func:`place` names, and
    there may be others. ``key_hash`` is SQL for the hash of the keys that the plan was made with; None without a key.
    """
    layout, names = plan.layout, spec.schemas[side].names
    lows, highs, home, nodes = _ends_of(plan, side)
    lines = {node: _line(node, names) for node in nodes}
    at = {node: f"p{i}" for i, node in enumerate(lines)}
    found = {name: line.sql for (node, line), name in zip(lines.items(), at.values(), strict=True) if line is not None}
    if key_hash is not None:
        found["kh"] = key_hash
    if found:
        rows = rows.selectExpr("*", *[f"{sql} AS {name}" for name, sql in found.items()])

    def index(pick: str, terms: Sequence[tuple[Node, int]]) -> str:
        """Return SQL for the slice of an end of the range, within the row's entry."""
        trees = []
        for node, offset in dict.fromkeys(terms):
            line = lines[node]
            assert line is not None
            own = [_tree(at[node], line, e.cuts, offset) for e in layout.entries]
            trees.append(own[0] if key_hash is None else _by_entry(own))
        chosen = trees[0] if len(trees) == 1 else f"{pick}({', '.join(trees)})"
        return f"IF({lone}, 0, {chosen})" if lone else chosen

    lone = " OR ".join(_nulls(plan, side, names, list(at.values())))
    base = "0"
    if key_hash is not None:
        keys = [f"{_signed(k)}L" for k in layout.keys.tolist()]
        entry = f"CAST(array_position(array({', '.join(keys)}), kh) AS INT)" if keys else "0"
        rows = rows.selectExpr("*", f"{entry} AS entry")
        base = _part("kh", layout.n_light)
        if keys:
            ends = accumulate((e.cells for e in layout.entries), initial=layout.n_light)
            begins = ", ".join(map(str, list(ends)[:-1]))
            base = f"IF(entry = 0, {base}, element_at(array({begins}), entry))"
    if lone:
        base = f"IF({lone}, {_part(row_hash, layout.n_light or layout.cells)}, {base})"
    if not lows or lows == highs:
        cell = f"{base} + {index('greatest', lows)}" if lows else base
        return rows.selectExpr("*", f"{cell} AS cell"), "true"
    slices = {"base": base, "low": index("greatest", lows), "high": index("least", highs)}
    if home:
        slices["home"] = index("least", home)
    sliced = rows.selectExpr("*", *[f"{sql} AS {name}" for name, sql in slices.items()])
    begin, end = ("least(low, home)", "greatest(low, high, home)") if home else ("low", "greatest(low, high)")
    owned = "cell = base + home" if home else "true" if side == 0 else "cell = base + low"
    return sliced.selectExpr("*", f"explode(sequence(base + {begin}, base + {end})) AS cell"), owned


_Terms = list[tuple[Node, int]]


def _ends_of(plan: RoutingPlan, side: int) -> tuple[_Terms, _Terms, _Terms, list[Node]]:
    """Return the terms for the low end of a row's range, for its high end and for its home, and their expressions.

    The low end is the greatest of its terms, and the high end the least. Without terms, the home is the low end.
    """
    axis, both = plan.axis, plan.layout.both
    if axis is None:
        return [], [], [], []
    if side == axis.divided:
        down, up = (min(0, axis.back[0]), max(0, axis.back[1])) if both else (0, 0)
        return [(axis.node, down)], [(axis.node, up)], [(axis.node, 0)] if both else [], [axis.node]
    home = [(axis.home, axis.shift)] if both and axis.home is not None else []
    nodes = list(dict.fromkeys(n for n, _ in (*axis.low, *axis.high, *home)))
    return list(axis.low), list(axis.high), home, nodes


def _offsets(plan: RoutingPlan, side: int, node: Node) -> list[int]:
    return [offset for terms in _ends_of(plan, side)[:3] for n, offset in terms if n is node]


def _has_literals(line: _Line, plan: RoutingPlan, offsets: Sequence[int]) -> bool:
    values = (_value(line, cut, offset) for e in plan.layout.entries for cut in e.cuts for offset in offsets)
    return all(isinstance(v, bool) or line.at(v) is not None for v in values)


def _value(line: _Line, cut: int, offset: int) -> int | bool:
    """Return the least ordinal that reaches a cut after the offset, within int64; True for always, False for never."""
    at = cut - offset
    if at <= line.least or cut == I64_MIN:
        return True
    return at if at <= line.most else False


def _tree(name: str, line: _Line, cuts: Sequence[int], offset: int) -> str:
    """Return SQL for the number of cuts that are at or below a value."""
    values = [_value(line, cut, offset) for cut in cuts]
    passed = sum(v is True for v in values)
    texts = [line.at(v) for v in values if not isinstance(v, bool)]

    def of(low: int, high: int) -> str:
        if low == high:
            return str(passed + low)
        middle = (low + high) // 2
        return f"IF({name} >= {texts[middle]}, {of(middle + 1, high)}, {of(low, middle)})"

    return of(0, len(texts))


def _by_entry(trees: Sequence[str]) -> str:
    cases = [f"WHEN {i} THEN {tree}" for i, tree in enumerate(trees, 1) if tree != "0"]
    return f"CASE entry {' '.join(cases)} ELSE 0 END" if cases else "0"


def _part(hashed: str, parts: int) -> str:
    """Return SQL for a number below ``parts``, from the high half of a hash."""
    return f"CAST(shiftright(shiftrightunsigned({hashed}, 32) * {parts}L, 32) AS INT)"


def _nulls(plan: RoutingPlan, side: int, names: Sequence[str], compared: Sequence[str]) -> list[str]:
    """Return SQL conditions that are true for rows that cannot match because of a null."""
    reach = plan.reader.reach
    keys = [key for key, safe in zip(reach.keys[side], reach.null_safe, strict=True) if not safe]
    columns = [as_spark_sql(node, names) for node in dict.fromkeys([*keys, *reach.lone[side]])]
    return [f"{c} IS NULL" for c in dict.fromkeys([*columns, *compared]) if c is not None]


def _signed(key: int) -> int:
    return key - (1 << 64) if key >> 63 else key


def _line(node: Node, names: Sequence[str]) -> _Line | None:
    """Return an expression in a form that Spark orders like its ordinals; None if Spark may order it differently."""
    sql, t = as_spark_sql(node, names), node.type
    if sql is None:
        return None
    if t.kind == "int" and t.signed:
        return _Line(sql, *t.limits, "{}L".format)
    if t.kind == "date":
        return _Line(f"unix_date({sql})", -(1 << 31), (1 << 31) - 1, str)
    if t.kind == "timestamp" and t.unit == "us":
        if t.tz:
            return _Line(f"unix_micros({sql})", I64_MIN, I64_MAX, "{}L".format)
        return _Line(sql, I64_MIN, I64_MAX, _local_time)
    if t.kind == "float":
        low = ordinal_of(float("-inf"), t)
        return _Line(f"CAST({sql} AS DOUBLE)", low, NAN_ORDINAL, lambda at: literal(value_of(at, t)))
    if t.kind == "decimal" and t.precision <= 18:
        most = 10**t.precision - 1
        return _Line(sql, -most, most, lambda at: literal_sql(at, t))
    return None


def _local_time(micros: int) -> str | None:
    try:
        return literal(_EPOCH + timedelta(microseconds=micros))
    except OverflowError:
        return None
