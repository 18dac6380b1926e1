"""``ivjoin.explain``: what a condition means to the join, conjunct by conjunct, and what each side waits for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ivjoin.errors import OrderError, came
from ivjoin.expr.arguments import known_options
from ivjoin.expr.nodes import Node, columns_of, walk
from ivjoin.expr.ordinal import ordinal_of
from ivjoin.expr.separate import BandTerm
from ivjoin.expr.types import TICKS_PER_SECOND, Type
from ivjoin.frontier.order import Frontier, OrderTracker, ordinal_range, physical_ordinal, shown
from ivjoin.operator.prune_bounds import Bounder
from ivjoin.plan.cache import planned
from ivjoin.plan.cutting import cut_of
from ivjoin.plan.planner import JoinPlan, inferred
from ivjoin.plan.question import side_expression
from ivjoin.plan.spec import SIDES

if TYPE_CHECKING:
    from ivjoin.expr.written import Expression, Value
    from ivjoin.plan.question import DeclaredBounds, Keys, Orders, SupportsArrowSchema

__all__ = ["explain", "explain_plan"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_IN_PROBE = "decided in the compiled probe"
_TYPICAL_DAY = datetime(2024, 1, 1, tzinfo=UTC)


@known_options("explain")
def explain(
    condition: Expression | None, left_schema: SupportsArrowSchema, right_schema: SupportsArrowSchema,
    on: Keys | None = None, how: str = "inner", left_order: Orders | None = None, right_order: Orders | None = None,
    left_bounds: DeclaredBounds | None = None, right_bounds: DeclaredBounds | None = None,
    frontier: Mapping[str, Mapping[Expression, Value]] | None = None, suffix: str = "_right",
    batch_size: int = 65536, on_late: str = "raise", timezone: str = "UTC",
) -> str:
    """How a join would be planned: conjuncts, the expression DAG with its intervals, and what prunes each side.

    Parameters
    ----------
    condition, left_schema, right_schema, on, how, left_order, right_order, left_bounds, right_bounds, suffix, \
    batch_size, on_late, timezone
        As for ``SymmetricHashJoin``.
    frontier : mapping, optional
        ``{"left": {expression: value}, "right": {...}}``: how far each side has come; typical values by default.

    Returns
    -------
    str

    Examples
    --------
    >>> import pyarrow as pa
    >>> s = pa.schema({"a": pa.int64()})
    >>> text = explain("l.a >= r.a - 3 AND l.a < r.a + 10", s, s, left_order="a", right_order="a")
    >>> "band term" in text
    True
    """
    plan = planned(
        left_schema, right_schema, on=on, condition=condition, how=how, left_order=left_order,
        right_order=right_order, left_bounds=left_bounds, right_bounds=right_bounds, suffix=suffix,
        batch_size=batch_size, on_late=on_late, timezone=timezone,
    )
    return explain_plan(plan, frontier)


def explain_plan(plan: JoinPlan, frontier: Mapping[str, Mapping[Any, Any]] | None = None) -> str:
    """The text of :func:`explain` for a plan."""
    frontiers = _frontiers(plan, {} if frontier is None else frontier)
    bounder = Bounder(plan, frontiers)
    on = f" on {', '.join(_on(p) for p in plan.spec.on)}" if plan.spec.on else " without `on`"
    lines = [f"{plan.how.name} join{on}"]
    lines += ["", "condition", *_conjuncts(plan)]
    lines += ["", "frontier (every future row)", *_frontier_lines(frontiers, bool(frontier))]
    lines += _inferred_lines(plan)
    lines += ["", "expression DAG, with the interval of each node for future rows of both sides"]
    lines += _dag(plan, frontiers)
    lines += ["", "state"]
    for s in (0, 1):
        lines += _side(plan, s, frontiers, bounder)
    cut = cut_of(plan)
    lines += ["", "threads", f"  one alone: {cut}" if isinstance(cut, str) else f"  any number: slices {cut}"]
    return "\n".join(lines)


def _on(pair: tuple[str, str]) -> str:
    return pair[0] if pair[0] == pair[1] else f"{pair[0]} = {pair[1]}"


# -- conjuncts ---------------------------------------------------------------------------------------------------


def _conjuncts(plan: JoinPlan) -> list[str]:
    sep = plan.separation
    out = []
    for k in sep.keys:
        out.append(f"  key        {k.left} {'<=>' if k.null_safe else '='} {k.right}")
    for t in plan.kernel_terms:
        kind = "band term " if t.exact else "band term*"
        out.append(f"  {kind} {band_text(t)}")
    for s, filters in ((0, sep.left_filter), (1, sep.right_filter)):
        out.extend(f"  filter     {f}    (decided when a {SIDES[s]} row arrives)" for f in filters)
    rest = "the pairs that the compiled probe leaves open" if sep.checks else "each candidate pair"
    for r in sep.residual:
        out.append(f"  residual   {r}    ({_IN_PROBE if r in sep.decided else f'evaluated on {rest}'})")
    out.extend(f"  constant   {c}" for c in sep.constant)
    if any(not t.exact for t in plan.kernel_terms):
        out.append("  * a relaxation: finds candidates and prunes; the residual decides")
    return out or ["  (none: every pair matches)"]


def band_text(t: BandTerm) -> str:
    """A band term as inequalities in the units of its type."""
    kind = t.left.type
    if kind.kind == "float":
        pairs = {(0, 0): "=", (None, 0): "<=", (None, -1): "<", (0, None): ">=", (1, None): ">"}
        return f"{t.left} {pairs.get((t.lo, t.hi), '~')} {t.right}"
    if t.lo == t.hi == 0:
        return f"{t.left} = {t.right}"
    parts = []
    if t.lo is not None:
        parts.append(f"{_distance(t.lo, kind)} <=")
    parts.append(f"{t.left} - {t.right}")
    if t.hi is not None:
        parts.append(f"<= {_distance(t.hi, kind)}")
    return " ".join(parts)


def _distance(v: int, t: Type) -> str:
    if t.kind in ("timestamp", "time", "duration"):
        ticks = TICKS_PER_SECOND[t.unit]
        return f"{v // ticks} s" if v % ticks == 0 else f"{v} {t.unit}"
    if t.kind == "date":
        return f"{v} days"
    if t.kind == "decimal":
        return str(v / 10**t.scale)
    return str(v)


# -- frontier ----------------------------------------------------------------------------------------------------


def _frontiers(plan: JoinPlan, given: Mapping[str, Mapping[Any, Any]]) -> tuple[Frontier, Frontier]:
    """Each side's frontier after it has come to the given, or typical, values."""
    if not isinstance(given, Mapping) or not all(
        isinstance(s, str) and s in SIDES and isinstance(values, Mapping) for s, values in given.items()
    ):
        raise OrderError(f"frontier is {came(given)}; expected {{'left': {{expression: value}}, 'right': {{...}}}}")
    out = []
    for s, side in enumerate(plan.sides):
        trackers = [OrderTracker(n, name, o.descending, o.slack, o.nulls) for n, name, o in side.orders]
        frontier = Frontier(trackers, side.bounds, side.never_null)
        values = {
            side_expression(k, s, side.schema, plan.spec.timezone, "frontier"): v
            for k, v in given.get(SIDES[s], {}).items()
        }
        for t in trackers:
            if t.node in values:
                ordinal = physical_ordinal(values.pop(t.node), t.node.type, f"frontier of {t.name}")
            else:
                ordinal = _typical(t.node.type)
            turned = ~ordinal if t.descending else ordinal
            t.edge, t.seen_value = turned, True
            t.limit = t.least_after(turned)
        for node, v in values.items():
            frontier.promise(node, physical_ordinal(v, node.type, f"frontier of {node}"), False)
        frontier.refresh()
        out.append(frontier)
    return out[0], out[1]


def _typical(t: Type) -> int:
    if t.kind == "timestamp":
        return int(_TYPICAL_DAY.timestamp()) * TICKS_PER_SECOND[t.unit]
    if t.kind == "date":
        return (_TYPICAL_DAY.date() - datetime(1970, 1, 1).date()).days
    if t.kind == "float":
        return ordinal_of(1000.0, t)
    if t.kind == "bool":
        return 1
    least, most = ordinal_range(t)
    return min(max(ordinal_of(100 if t.kind == "int" and t.bits == 8 else 1000, t), least), most)


def interval_text(low: int, high: int, t: Type) -> str:
    """A closed interval of ordinals as values."""
    least, most = ordinal_range(t)
    if low > high:
        return "nothing"
    if t.is_discrete:
        # A limit of the type moved by the band's width is no news to a reader.
        near = (most - least) >> 12
        low, high = (least if low - least < near else low), (most if most - high < near else high)
    if low <= least and high >= most:
        return "anything"
    if low <= least:
        return f"<= {shown(high, t)}"
    if high >= most:
        return f">= {shown(low, t)}"
    return f"in [{shown(low, t)}, {shown(high, t)}]"


def _frontier_lines(frontiers: tuple[Frontier, Frontier], given: bool) -> list[str]:
    out = []
    for s, f in enumerate(frontiers):
        if not f.intervals:
            out.append(f"  {SIDES[s]}: nothing is known (no order, no bounds)")
        for node, (low, high, _) in f.intervals.items():
            source = "declared bounds" if node in f.bounds else "as given" if given else "after a typical row"
            out.append(f"  {SIDES[s]}: {node} {interval_text(low, high, node.type)}    ({source})")
    return out


def _inferred_lines(plan: JoinPlan) -> list[str]:
    """Expressions of band terms and keys that are in order because of what they are made of."""
    out = []
    for s, side in enumerate(plan.sides):
        for node in dict.fromkeys([*side.axes, *side.keys]):
            why = inferred(side, node)
            if why is not None:
                out.append(f"  {SIDES[s]}: {node} {why}    (inferred)")
    return out


# -- DAG ---------------------------------------------------------------------------------------------------------


def _dag(plan: JoinPlan, frontiers: tuple[Frontier, Frontier]) -> list[str]:
    if plan.condition is None:
        return ["  (empty)"]
    from ivjoin.propagation import forward

    known = {n: Bounder.domain(n, f) for f in frontiers for n in f.intervals}
    names: dict[Node, str] = {}
    out = []
    for i, node in enumerate(walk(plan.condition)):
        names[node] = f"n{i}"
        if node.op in ("column", "literal"):
            names[node] = str(node)
            if node.op == "literal":
                continue
        uses = " ".join(names[a] for a in node.args)
        head = f"{names[node]} = {node.op} {uses}" if node.op != "column" else str(node)
        out.append(f"  {head:<44} {forward(node, known)}")
    return out


# -- state -------------------------------------------------------------------------------------------------------


def _side(plan: JoinPlan, s: int, frontiers: tuple[Frontier, Frontier], bounder: Bounder) -> list[str]:
    other = SIDES[1 - s]
    head = f"  {SIDES[s]} rows"
    bounds = bounder.bounds(s)
    if bounds is None or any(low > high for low, high in bounds):
        return [f"{head}: none is kept, no future {other} row can match"]
    out = []
    for axis, (low, high) in enumerate(bounds):
        node = plan.sides[s].axes[axis]
        if low == I64_MIN and high == I64_MAX:
            continue
        sources = [band_text(t) for t in plan.terms if (t.left if s == 0 else t.right) is node] or ["the residual"]
        least, most = ordinal_range(node.type)
        keep = interval_text(max(low, least), min(high, most), node.type)
        out.append(f"{head} are kept while {node} {keep}; from {' and '.join(dict.fromkeys(sources))}")
    waits = [t for t in plan.kernel_terms if not _moves(t, s, frontiers[1 - s])]
    if not out:
        out.append(f"{head} can never be dropped before the {other} input ends: {_why(plan, s, frontiers)}")
    out.extend(f"      {band_text(t)} prunes nothing here: {_missing(t, s, other)}" for t in waits)
    if any(r for r in plan.separation.residual) and all(
        n not in frontiers[1 - s].intervals for r in plan.separation.residual for n in walk(r)
    ):
        out.append(f"      the residual prunes nothing here: it reads no ordered or bounded expression of {other}")
    return out


def _moves(t: BandTerm, s: int, frontier: Frontier) -> bool:
    theirs = t.right if s == 0 else t.left
    return any(n in frontier.intervals for n in walk(theirs))


def _missing(t: BandTerm, s: int, other: str) -> str:
    theirs = t.right if s == 0 else t.left
    return f"nothing is known of future {theirs}; declare {other}_order={_argument(theirs)} or {other}_bounds"


def _argument(node: Node) -> str:
    if node.op == "column":
        return repr(node.params[1])
    columns = ", ".join(repr(c.params[1]) for c in columns_of(node))
    return f"an order of {node} (reads {columns})"


def _why(plan: JoinPlan, s: int, frontiers: tuple[Frontier, Frontier]) -> str:
    other = SIDES[1 - s]
    if not plan.kernel_terms and not plan.separation.residual:
        return "the condition compares nothing but keys; declare an order or bounds of a key, or add a band"
    if not frontiers[1 - s].intervals:
        return f"no order and no bounds are declared for the {other} input"
    return f"the condition ties no ordered expression of {other} to a {SIDES[s]} row from a side that moves"
