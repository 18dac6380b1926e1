"""Compile the spec of a join into the plan of its operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from ivjoin.conditions.evaluate import check_supported, constant
from ivjoin.conditions.strictness import skips_nulls
from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr import build
from ivjoin.expr.conjuncts import conjuncts_of
from ivjoin.expr.nodes import Node, columns_of, sides_of, walk
from ivjoin.expr.ordinal import has_ordinal, value_of
from ivjoin.expr.terms import BandTerm, JoinKey
from ivjoin.expr.types import from_arrow
from ivjoin.outer.batches import OutputField
from ivjoin.outer.fields import output_fields
from ivjoin.outer.jointype import join_type
from ivjoin.plan.aggregates import check_previous, result_schema
from ivjoin.plan.derived.certain import certain
from ivjoin.plan.derived.inner_bounds import inner_bounds
from ivjoin.plan.derived.residual_checks import bands_say_all, check_table, keep_checked
from ivjoin.plan.join_plan import JoinPlan, SidePlan, band_table, seen_from
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.plan.sums import leave_sums
from ivjoin.separation.separate import Separation, separate
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.shj.store.rows.bands import BandTable

__all__ = ["direction_of", "inferred", "make_plan", "watched"]

# The most expressions of the residual for each side whose intervals may prune. Each takes eight bytes a row.
_MAX_WATCHED = 4


def make_plan(spec: JoinSpec) -> JoinPlan:
    """Plan a join: keys, bands, residual, axes and output. This raises any error that ``join_spec`` did not find."""
    jt, schemas, pairs = join_type(spec.how), spec.schemas, list(spec.on)
    equalities = [_key_equality(a, b, schemas, spec.timezone) for a, b in pairs]
    conjuncts = [*equalities, *([spec.condition] if spec.condition is not None else [])]
    whole = build.and_(*conjuncts) if conjuncts else None
    if whole is not None:
        check_supported(whole)
    never_null = frozenset(
        build.column(SIDES[s], f.name, from_arrow(f.type)) for s in (0, 1) for f in schemas[s] if not f.nullable
    )
    present, numbers = _certain(spec, whole, never_null)
    sep = separate(whole, present, numbers, spec.implied, partial(inner_bounds, never_null=never_null))
    if spec.aggregates:
        schema = result_schema(*schemas, spec.aggregates)
        fields = [OutputField(i, None) for i in range(len(schemas[0]))]
    else:
        schema, fields = output_fields(schemas, pairs, jt, spec.suffix)
    sides = (SidePlan(schemas[0]), SidePlan(schemas[1]))
    for s in (0, 1):
        side = sides[s]
        side.orders = [(o.node, str(o.node), o) for o in spec.orders[s]]
        side.bounds = {n: (low, high) for n, low, high in spec.bounds[s]}
        side.never_null, side.present = (
            frozenset(n for n in nodes if n.params[0] == SIDES[s]) for nodes in (never_null, present)
        )
        side.numbers = sep.numbers
        side.filters = list(sep.left_filter if s == 0 else sep.right_filter)
    for g in sep.guards:
        sides[0 if "left" in sides_of(g.node) else 1].guards.append((g.node, g.lo, g.hi))
    for key in sep.keys:
        sides[0].keys.append(key.left)
        sides[1].keys.append(key.right)
    null_safe = [k.null_safe for k in sep.keys]
    terms = [t for t in sep.bands if has_ordinal(t.left.type)]
    kernel_terms = [t for t in terms if not _implied(t, sep.keys)]
    if spec.include_previous:
        check_previous(kernel_terms, sep.residual)
    for s in (0, 1):
        _choose_axes(sides, s, kernel_terms, terms, sep)
    axes = sides[0].axes, sides[1].axes
    sep = keep_checked(axes, sep)
    for side in sides:
        side.checked = frozenset(n for c in sep.checks for n in (c.left, c.right) if n in side.axes)
        if not sep.overflows and not spec.grouped and spec.pick is None:
            leave_sums(side, sep)
    tables = (band_table(0, sides, kernel_terms), band_table(1, sides, kernel_terms))
    overflows = (_overflow_tables(0, sides, sep), _overflow_tables(1, sides, sep))
    never, raises = _constants(sep.constant)
    plan = JoinPlan(
        spec=spec, sides=sides, how=jt, schema=schema, fields=fields, separation=sep, condition=whole,
        null_safe=null_safe, terms=terms, kernel_terms=kernel_terms, tables=tables,
        checks=(check_table(0, axes, sep.checks), check_table(1, axes, sep.checks)),
        decided=sep.decided.issuperset(sep.residual),
        overflows=overflows, never=never, raises=raises,
    )
    for s in (0, 1):
        sides[s].stored = _stored_columns(plan, s)
    return plan


def _certain(
    spec: JoinSpec, condition: Node | None, never_null: frozenset[Node]
) -> tuple[frozenset[Node], frozenset[Node]]:
    """Return the columns that are not NULL, and the falling floats that are not NaN, in matching rows."""
    conjuncts = (*conjuncts_of(condition), *spec.implied)
    asked = columns_of(*conjuncts) if skips_nulls(conjuncts) else []
    falling = [o.node for side in spec.orders for o in side if o.descending and o.node.type.kind == "float"]
    if not conjuncts or not (asked or falling):
        return never_null, frozenset()
    bounds = {n: (low, high) for side in spec.bounds for n, low, high in side} if spec.on_late != "join" else {}
    present, numbers = certain(conjuncts, never_null, bounds, (*asked, *falling))
    return never_null | {n for n in present if n.op == "column"}, numbers


def _key_equality(a: str, b: str, schemas: tuple[pa.Schema, pa.Schema], zone: str) -> Node:
    left = build.column("left", a, from_arrow(schemas[0].field(a).type))
    right = build.column("right", b, from_arrow(schemas[1].field(b).type))
    try:
        return build.eq(left, right, zone)
    except (ConditionError, UnsupportedError) as e:
        raise e.saying(f"key columns left.{a} and right.{b} cannot be compared: {e}") from e


def _implied(term: BandTerm, keys: Sequence[JoinKey]) -> bool:
    return term.lo == term.hi == 0 and any(
        k.left is term.left and k.right is term.right and not k.null_safe for k in keys
    )


def _choose_axes(
    sides: tuple[SidePlan, SidePlan], s: int, kernel_terms: list[BandTerm], terms: list[BandTerm], sep: Separation
) -> None:
    """Set the axes of a side: the primary axis, then the other band axes, then axes that only prune."""
    own = [t.left if s == 0 else t.right for t in kernel_terms]
    ordered_there = {n for n, _, _ in sides[1 - s].orders}
    score: dict[Node, int] = {}
    for t in kernel_terms:
        mine, theirs, *_ = seen_from(s, t)
        points = score.get(mine, 0)
        points += (t.lo is not None) + (t.hi is not None)
        points += 8 * _is_ordered(sides[s], mine) + 4 * _is_ordered(sides[1 - s], theirs) + 2 * bool(t.exact)
        score[mine] = points
    axes = sorted(dict.fromkeys(own), key=lambda n: -score[n])
    sides[s].axes = axes
    sides[s].band_axes = len(axes)
    # If a key is ordered or bounded on the other side, it prunes like a band. Probes do not check this axis.
    known_there = ordered_there | set(sides[1 - s].bounds) | set(columns_of(*ordered_there))
    for t in terms:
        mine, theirs, *_ = seen_from(s, t)
        if mine not in axes and known_there & set(walk(theirs)):
            axes.append(mine)
            sides[s].band_axes += 1
    known = {n for n, _, _ in sides[1 - s].orders} | set(sides[1 - s].bounds)
    bounded = {*sides[0].bounds, *sides[1].bounds}
    if sep.residual and known and not bands_say_all(sep, terms, known, bounded):
        for node in watched(sep, s):
            if node not in axes and len(axes) < sides[s].band_axes + _MAX_WATCHED:
                axes.append(node)


def watched(sep: Separation, s: int) -> list[Node]:
    """Return the columns and the largest one-sided expressions of the residual whose intervals may prune."""
    found: list[Node] = []
    for conjunct in sep.residual:
        reads: dict[Node, frozenset[str]] = {}
        for n in walk(conjunct):
            reads[n] = frozenset({n.params[0]}) if n.op == "column" else frozenset().union(*(reads[a] for a in n.args))
        one_sided = {n: None for n, sides in reads.items() if sides == {SIDES[s]} and has_ordinal(n.type)}
        inner = {a for n in one_sided for a in n.args}
        found.extend(n for n in one_sided if n not in inner and n.type.kind != "bool")
        found.extend(c for c in one_sided if c.op == "column")
    return list(dict.fromkeys(found))


def direction_of(side: SidePlan, node: Node) -> str | None:
    """Return "rises" or "falls" if the orders of a side prove the direction of an expression, else None."""
    if not side.orders or any(node is n for n, _, _ in side.orders):
        return None
    from ivjoin.propagation import Direction, Dom, ordering

    orders = {n: Direction.DESCENDING if o.descending else Direction.ASCENDING for n, _, o in side.orders}
    known = {c: Dom.of(c.type, null=False) for c in side.never_null}
    for n, (low, high) in side.bounds.items():
        if n.type.kind == "float":
            continue
        known[n] = Dom.of(n.type, value_of(low, n.type), value_of(high, n.type), null=n not in side.never_null)
    return {Direction.ASCENDING: "rises", Direction.DESCENDING: "falls"}.get(ordering(node, orders, known))


def inferred(side: SidePlan, node: Node) -> str | None:
    """Return the direction of an expression with its reason, such as "rises, since l.a rises". None if unproved."""
    direction = direction_of(side, node)
    if direction is None:
        return None
    orders, inside = {n: o.descending for n, _, o in side.orders}, set(walk(node))
    sources = [f"{n} {'falls' if falls else 'rises'}" for n, falls in orders.items() if n in inside]
    return f"{direction}, since {' and '.join(sources)}"


def _is_ordered(side: SidePlan, node: Node) -> bool:
    return any(node is n for n, _, _ in side.orders) or direction_of(side, node) is not None


def _overflow_tables(p: int, sides: tuple[SidePlan, SidePlan], sep: Separation) -> list[BandTable]:
    """Return band tables for the half-lines on which a residual conjunct may overflow."""
    def is_kept(t: BandTerm) -> bool:
        return t.left in sides[0].axes and t.right in sides[1].axes

    out = []
    for o in filter(lambda o: is_kept(o.term), sep.overflows):
        lo, hi = (x if x is None else max(I64_MIN + 2, min(x, I64_MAX - 2)) for x in (o.term.lo, o.term.hi))
        rest = [t for t in o.rest if is_kept(t)]
        out.append(band_table(p, sides, [replace(o.term, lo=lo, hi=hi), *rest]))
    return out


def _stored_columns(plan: JoinPlan, s: int) -> list[int]:
    """Return the columns of a side that the output, the residual or an aggregate needs."""
    schema = plan.sides[s].schema
    wanted = plan.emitted(s)
    needed = [*plan.separation.residual, *(a.node for a in plan.spec.aggregates if a.node is not None)]
    if plan.spec.first_by is not None:
        needed.append(plan.spec.first_by[0])
    if plan.spec.pick is not None:
        needed += [n for n in (plan.spec.pick.near, *plan.spec.pick.by) if n is not None]
    if plan.condition is not None:
        needed.append(plan.condition)
    for node in needed:
        wanted |= {schema.get_field_index(c.params[1]) for c in columns_of(node) if c.params[0] == SIDES[s]}
    return sorted(wanted)


def _constants(conjuncts: Sequence[Node]) -> tuple[bool, bool]:
    """Return whether a constant conjunct excludes every pair, and whether one raises an error."""
    null = False
    for node in conjuncts:
        errs, value = constant(node)
        if errs:
            return False, True
        if value is None:
            null = True  # a NULL does not stop the evaluation of later conjuncts
        elif not value:
            return True, False
    return null, False
