"""Check a join spec that was read from a snapshot as strictly as the arguments of a call."""

from __future__ import annotations

from ivjoin.arguments import MOST_ROWS, one_of, text, whole_number
from ivjoin.conditions.snapshot_checks import check_expressions, damaged, flag, whole
from ivjoin.expr.literals import zone_named
from ivjoin.expr.nodes import Node, sides_of
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.frontier.order import ordinal_range
from ivjoin.outer.jointype import join_type
from ivjoin.plan.aggregates import FUNCTIONS, result_type
from ivjoin.plan.picking.pick import RANKED, WHICH
from ivjoin.plan.question import on_pairs, schema_of
from ivjoin.plan.spec import RANKS, SIDES, JoinSpec

__all__ = ["check_side", "check_spec"]


def check_spec(spec: JoinSpec) -> None:
    """Check a spec that :meth:`JoinSpec.from_json` has read. Raise IvjoinError if no call can create it."""
    for schema, side in zip(spec.schemas, SIDES, strict=True):
        schema_of(schema, f"the {side} schema", f"the {side} input")
        for name in schema.names:
            text("the name of a column", name, "ts")
    on_pairs(list(spec.on), spec.schemas)
    if join_type(spec.how).name != spec.how:
        raise damaged(f"how is {spec.how!r}")
    one_of("on_late", spec.on_late, ("raise", "drop", "join"))
    whole_number("batch_size", spec.batch_size, 1, MOST_ROWS, "a whole number of rows")
    text("suffix", spec.suffix, "_right")
    zone_named(spec.timezone)
    for said in spec.left_over:
        text("a conjunct that the caller applies", said, "l.a < r.b")
    check_expressions(_expressions(spec), dict(zip(SIDES, spec.schemas, strict=True)))
    for node in (*([] if spec.condition is None else [spec.condition]), *spec.implied):
        if node.type.kind not in ("bool", "null"):
            raise damaged(f"a condition is {node.type}; expected a bool")
    for s in (0, 1):
        for o in spec.orders[s]:
            check_side(o.node, s)
        for node, low, high in spec.bounds[s]:
            check_side(node, s)
            least, most = ordinal_range(node.type)
            whole(high, "the upper end of a bound", whole(low, "the lower end of a bound", least, most), most)
    _check_lookup(spec)


def check_side(node: Node, s: int) -> None:
    """Raise SnapshotError unless the node of an order, bound or watermark reads only side ``s`` and has an ordinal."""
    if not sides_of(node) <= {SIDES[s]} or not has_ordinal(node.type):
        raise damaged(f"an order or a bound of the {SIDES[s]} side is {node}, which is {node.type}")


def _check_lookup(spec: JoinSpec) -> None:
    names: set[str] = set(spec.schemas[0].names)
    for a in spec.aggregates:
        text("the name of an aggregate", a.name, "mean_price")
        one_of("the function of an aggregate", a.function, FUNCTIONS)
        if a.name in names or (a.node is None and a.function != "count"):
            raise damaged(f"the aggregate {a} cannot be")
        names.add(a.name)
        result_type(a, spec.schemas[1])
    pick = spec.pick
    one_sided = bool(spec.aggregates) or spec.picks_one
    if (one_sided and spec.how not in ("inner", "left")) or (spec.aggregates and pick):
        raise damaged(f"how is {spec.how!r} with one match or aggregates of each left row")
    own: list[tuple[Node | None, int]] = [(a.node, 1) for a in spec.aggregates]
    own.append((None if spec.first_by is None else spec.first_by[0], 1))
    if pick is not None:
        one_of("pick", pick.which, (*WHICH, *RANKS))
        whole_number("k", pick.k, 1, MOST_ROWS)
        flag(pick.unbounded, "unbounded")
        if not pick.by or (pick.near is None) == (pick.which == "nearest"):
            raise damaged("the selection of a match has no expression")
        if not all(has_ordinal(n.type) or n.type.kind in RANKED for n in pick.by):
            raise damaged("the selection of a match is by an expression without an order")
        own += [(pick.near, 0), *((n, 1) for n in pick.by if spec.picks_one)]
    for node, s in own:
        if node is not None and not sides_of(node) <= {SIDES[s]}:
            raise damaged(f"{node} reads the other side than the {SIDES[s]} one")


def _expressions(spec: JoinSpec) -> list[Node]:
    found: list[Node | None] = [spec.condition, *spec.implied, *(a.node for a in spec.aggregates)]
    found += [o.node for side in spec.orders for o in side]
    found += [n for side in spec.bounds for n, _, _ in side]
    found.append(None if spec.first_by is None else spec.first_by[0])
    if spec.pick is not None:
        found += [spec.pick.near, *spec.pick.by]
    return [n for n in found if n is not None]
