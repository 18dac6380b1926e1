"""Explain how a join uses each conjunct, and how long it stores the rows of each side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from ivjoin.conditions.strictness import skips_nulls
from ivjoin.errors import OrderError, came
from ivjoin.expr.nodes import Node, columns_of, walk
from ivjoin.expr.ordinal import ordinal_of
from ivjoin.expr.terms import BandTerm
from ivjoin.expr.types import TICKS_PER_SECOND, Type
from ivjoin.expr.words import quoted
from ivjoin.frontier.order import ordinal_range, physical_ordinal, shown
from ivjoin.frontier.tracking import Frontier
from ivjoin.operator.explaining.condition import aggregate_lines, conjunct_lines, dag_of, inferred_lines, pick_lines
from ivjoin.operator.explaining.picture import Explanation
from ivjoin.operator.explaining.wording import band_said, listed, said
from ivjoin.operator.lookup.picks.thinning import ways_of
from ivjoin.operator.pruning.prune_bounds import Bounder
from ivjoin.plan.cutting import cut_of, why_not_cut
from ivjoin.plan.derived.certain import domain_of
from ivjoin.plan.derived.implied import with_edges
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import picking_of
from ivjoin.plan.question import side_expression
from ivjoin.plan.spec import SIDES
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["explain_plan", "interval_text", "kept_lines", "typical", "why_never_decided"]

_ANYTHING = "is anything"


def explain_plan(
    plan: JoinPlan, frontier: Mapping[str, Mapping[Any, Any]] | None = None, arrival: Sequence[str] = (),
    seen: bool = False, tables: tuple[bool, bool] = (False, False),
) -> Explanation:
    """Explain what a plan does with its conjuncts, what it knows of future rows, and which rows it stores.

    - ``frontier`` is ``{"left": {expression: value}, "right": {...}}``. By default it has typical values.
    - ``seen`` states that the frontier was computed from rows of the inputs.
    - ``arrival`` are lines about the inputs.
    - ``tables`` states for each side whether it is a table or files, which need no declared order.

    OrderError is raised if ``frontier`` is not such a mapping.
    """
    frontiers = _frontiers(plan, {} if frontier is None else frontier)
    bounder = Bounder(plan, frontiers)
    pairs = ", ".join(a if a == b else f"{a} = {b}" for a, b in plan.spec.on)
    on = f" on {pairs}" if pairs else " without `on`"
    lines = [f"{plan.how.name} join{on}", *pick_lines(plan), *(f"  {line}" for line in arrival)]
    lines += ["", "condition", *conjunct_lines(plan)]
    lines += aggregate_lines(plan)
    lines += ["", "frontier (every future row)", *_frontier_lines(frontiers, bool(frontier), seen)]
    lines += inferred_lines(plan)
    boxes, dag = dag_of(plan, frontiers)
    lines += ["", "expression DAG, with what each node can be for future rows of both sides", *dag]
    state = [line for s in (0, 1) for line in _side(plan, s, frontiers, bounder, tables[1 - s])]
    lines += ["", "state", *state]
    lines += ["", "threads", f"  {_threads(plan)}"]
    kept = [line.strip() for line in state if not line.startswith("      ")]
    return Explanation("\n".join(lines), tuple(boxes), (*arrival, *kept))


def _threads(plan: JoinPlan) -> str:
    cut = cut_of(plan)
    if isinstance(cut, str):
        alone = f"one alone: {cut}"
        tables = "tables, and files without an order: any number. Other inputs: "
        return alone if plan.spec.pick is None else tables + alone
    why = "" if plan.looks_up else why_not_cut(plan, cut)
    return f"any number: slices {cut}" if not why else f"tables: any number. Other inputs: one alone: {why}"


def _frontiers(plan: JoinPlan, given: Mapping[str, Mapping[Any, Any]]) -> tuple[Frontier, Frontier]:
    """Return the frontier of each side after a row with the given values. Typical values replace missing ones."""
    if not isinstance(given, Mapping) or not all(
        isinstance(s, str) and s in SIDES and isinstance(values, Mapping) for s, values in given.items()
    ):
        raise OrderError(f"frontier is {came(given)}; expected {{'left': {{expression: value}}, 'right': {{...}}}}")
    out = []
    for s, (side, frontier) in enumerate(zip(plan.sides, plan.frontiers(), strict=True)):
        trackers = frontier.trackers
        values = {
            side_expression(k, s, side.schema, plan.spec.timezone, "frontier"): v
            for k, v in given.get(SIDES[s], {}).items()
        }
        orders = [o for _, _, o in side.orders]
        told = {
            t.node: physical_ordinal(values.pop(t.node), t.node.type, f"frontier of {t.name}")
            for t in trackers if t.node in values
        }
        usual = [told.get(t.node, typical(t.node.type)) for t in trackers]
        edges = [~at if o.descending else at for o, at in zip(orders, usual, strict=True)]
        reached = with_edges(orders, [edge for o, edge in zip(orders, edges, strict=True) if not o.follows])
        for t, edge, follows in zip(trackers, edges, reached, strict=True):
            t.reach(edge if follows is None or t.node in told else follows)
        for node, v in values.items():
            frontier.promise(node, physical_ordinal(v, node.type, f"frontier of {node}"), False)
        frontier.refresh()
        out.append(frontier)
    return out[0], out[1]


def typical(t: Type) -> int:
    """Return the ordinal of a typical value: today for dates and times, otherwise 1000 or the value nearest to it."""
    if t.kind in ("timestamp", "date"):
        days = (datetime.now(UTC).date() - date(1970, 1, 1)).days
        return days if t.kind == "date" else days * 86_400 * TICKS_PER_SECOND[t.unit]
    if t.kind == "float":
        return ordinal_of(1000.0, t)
    if t.kind == "bool":
        return 1
    least, most = ordinal_range(t)
    return min(max(ordinal_of(100 if t.kind == "int" and t.bits == 8 else 1000, t), least), most)


def interval_text(low: int, high: int, t: Type) -> str:
    least, most = ordinal_range(t)
    if low > high:
        return "is nothing"
    if t.is_discrete:
        # An end near the type's limit is that limit, shifted by the width of a band. It has no meaning for the rows.
        near = (most - least) >> 12
        low, high = (least if low - least < near else low), (most if most - high < near else high)
    if low <= least and high >= most:
        return _ANYTHING
    if t.kind == "float":  # the neighbour of an infinity is shown as the infinity
        least, infinity = (ordinal_of(float(end), t) for end in ("-inf", "inf"))
        low = least if low == least + 1 else low
        high = infinity if high == infinity - 1 else high
    if t.kind == "float" and high == infinity:  # all but NaN
        return "is a number" if low <= least else f">= {shown(low, t)}"
    if low <= least:
        return f"<= {shown(high, t)}"
    if high >= most:
        return f">= {shown(low, t)}"
    return f"in [{shown(low, t)}, {shown(high, t)}]"


def _frontier_lines(frontiers: tuple[Frontier, Frontier], given: bool, seen: bool) -> list[str]:
    out = []
    for s, f in enumerate(frontiers):
        if not f.intervals:
            out.append(f"  {SIDES[s]}: nothing is known (no order, no bounds)")
        for node, (low, high, _) in f.intervals.items():
            source = "declared bounds" if node in f.bounds else "after rows like these" if seen else (
                "as given" if given else "after a typical row"
            )
            out.append(f"  {SIDES[s]}: {said(node)} {interval_text(low, high, node.type)}    ({source})")
    return out


def kept_lines(plan: JoinPlan, frontiers: tuple[Frontier, Frontier]) -> list[str]:
    """Return lines that state which rows of each side are stored at these frontiers, and which terms do not prune."""
    for frontier in frontiers:
        frontier.refresh()
    bounder = Bounder(plan, frontiers)
    return [line for s in (0, 1) for line in _side(plan, s, frontiers, bounder)]


def why_never_decided(plan: JoinPlan, s: int) -> str | None:
    """Return why rows of a side are stored until the other input ends, or None if its future rows evict them."""
    frontiers = _frontiers(plan, {})
    head = _never_evicted(s)
    lines = _side(plan, s, frontiers, Bounder(plan, frontiers))
    return next((line.removeprefix(head) for line in lines if line.startswith(head)), None)


def _never_evicted(s: int) -> str:
    return f"  {SIDES[s]} rows can never be evicted before the {SIDES[1 - s]} input ends: "


def _side(
    plan: JoinPlan, s: int, frontiers: tuple[Frontier, Frontier], bounder: Bounder, table: bool = False
) -> list[str]:
    """Return lines about the stored rows of a side. ``table``: whether the other side is a table or files."""
    other = SIDES[1 - s]
    head = f"  {SIDES[s]} rows"
    bounds = bounder.bounds(s)
    if bounds is None or any(low > high for low, high in bounds):
        return [f"{head}: none are stored, because no future {other} row can match"]
    out = []
    for axis, (low, high) in enumerate(bounds):
        node = plan.sides[s].axes[axis]
        if low == I64_MIN and high == I64_MAX:
            continue
        least, most = ordinal_range(node.type)
        keep = interval_text(max(low, least), min(high, most), node.type)
        if keep == _ANYTHING:
            continue
        ties = [t for t in plan.terms if (t.left if s == 0 else t.right) is node and _moves(t, s, bounder)]
        sources = [band_said(t) for t in ties] or ["the residual" if plan.separation.residual else "the filters"]
        out.append(f"{head} are stored while {said(node)} {keep}; from {' and '.join(dict.fromkeys(sources))}")
    waits = [t for t in plan.kernel_terms if not _moves(t, s, bounder)]
    better = None if not plan.spec.picks_one else _gone_by_a_better_one(plan, s, bounder)
    if not out and table and better is None and not frontiers[1 - s].intervals:
        until = f"the {other} input ends, which is a table or files and needs no declared order"
        return [f"{head} are stored until {until}"]
    if not out:
        why = _why(plan, s, frontiers)
        if better is None:
            out.append(f"{_never_evicted(s)}{why}")
        elif s == 0:
            out.append(f"{head} without a match are never emitted before the {other} input ends: {why}")
    if better is not None:
        out.append(f"{head} {better}")
    advice: dict[str, list[str]] = {}
    for t in waits:
        advice.setdefault(_missing(t, s), []).append(band_said(t))
    for text, bands in advice.items():
        out.append(f"      {listed(bands)} prune{'s' if len(bands) == 1 else ''} nothing here: {text}")
    if any(r for r in plan.separation.residual) and all(
        n not in bounder.known(1 - s) for r in plan.separation.residual for n in walk(r)
    ):
        out.append(f"      the residual prunes nothing here: it reads no ordered or bounded expression of {other}")
    return out


def _gone_by_a_better_one(plan: JoinPlan, s: int, bounder: Bounder) -> str | None:
    """Return when a row of a picking join is released before its band ends, or None if it is not."""
    picking = picking_of(plan)
    if s == 1:
        ways = ways_of(picking, not plan.separation.residual)
        key = " of their key" if plan.sides[1].keys else ""
        said = f"are evicted once a better one{key} has arrived that every waiting or future left row can take"
        return said if any(way.possible(bounder) for way in ways) else None
    low, high = bounder.future(1, picking.place)
    ends = {"first": low != I64_MIN, "last": high != I64_MAX}.get(picking.which, low != I64_MIN or high != I64_MAX)
    return "are emitted once they have a match and no later right row can be a better one" if ends else None


def _moves(t: BandTerm, s: int, bounder: Bounder) -> bool:
    theirs, known = t.right if s == 0 else t.left, bounder.known(1 - s)
    return any(n in known for n in walk(theirs))


def _missing(t: BandTerm, s: int) -> str:
    theirs, other = t.right if s == 0 else t.left, SIDES[1 - s]
    read = [c.params[1] for c in columns_of(theirs)]
    unknown = f"nothing is known of future {listed(f'{other[0]}.{quoted(n)}' for n in read)}"
    if len(read) == 1:
        return f"{unknown}; declare {other}_order={read[0]!r} or {other}_bounds"
    return f"{unknown}; declare {other}_order and {other}_bounds of {listed(map(repr, read))}"


def _why(plan: JoinPlan, s: int, frontiers: tuple[Frontier, Frontier]) -> str:
    other = SIDES[1 - s]
    known = frontiers[1 - s].intervals
    safe = [k for k in plan.separation.keys if k.null_safe and (k.right if s == 0 else k.left) in known]
    if safe and not plan.kernel_terms and not plan.separation.residual:
        key = f"{said(safe[0].left)} <=> {said(safe[0].right)}"
        return (
            f"{key} matches NULL with NULL, and NULLs have no place in an order; write =, or declare a column of one "
            "side not nullable"
        )
    if not plan.kernel_terms and not plan.separation.residual:
        return "the condition compares nothing but keys; declare an order or bounds of a key, or add a band"
    if not known:
        return f"no order and no bounds are declared for the {other} input"
    maybe = _nulls_that_hold(plan, s, known)
    if maybe:
        be = "is" if len(maybe) == 1 else "are"
        return (
            f"greatest, least and coalesce ignore NULLs, so a {other} row with a NULL may still match; if no NULLs "
            f"exist, use a schema whose {listed(maybe)} {be} not nullable, or add IS NOT NULL"
        )
    for t in plan.kernel_terms:
        if _moves(t, s, Bounder(plan, frontiers)) and (t.lo is None) != (t.hi is None):
            return _limit_to_add(t)
    return f"the condition ties no ordered expression of {other} to a {SIDES[s]} row from a side that moves"


_WIDTHS = {"timestamp": "INTERVAL 1 HOUR", "duration": "INTERVAL 1 HOUR", "date": "INTERVAL 7 DAYS"}


def _limit_to_add(t: BandTerm) -> str:
    width = _WIDTHS.get(t.left.type.kind, "100")
    ends = ("an upper", "<=", "+") if t.hi is None else ("a lower", ">=", "-")
    return f"the band is open; add {ends[0]} limit such as {said(t.left)} {ends[1]} {said(t.right)} {ends[2]} {width}"


def _nulls_that_hold(plan: JoinPlan, s: int, known: Mapping[Node, tuple[int, int, bool]]) -> list[str]:
    """Return the ordered and bounded expressions of the other side that would prune if they were never NULL."""
    from ivjoin.propagation import forward

    theirs = [t.right if s == 0 else t.left for t in plan.kernel_terms]
    now = {n: domain_of(n, span) for n, span in known.items()}
    out: dict[str, None] = {}
    for n in walk(*theirs, *plan.separation.residual):
        if not skips_nulls([n]) or n.type.kind == "bool":
            continue
        held = forward(n, now)
        for k, (low, high, null) in known.items():
            there = forward(n, now | {k: domain_of(k, (low, high, False))}) if null else held
            if (there.lo, there.hi) != (held.lo, held.hi):
                out[said(k)] = None
    return list(out)
