"""Resolve the arguments of a join of DataFrames against their schemas and the session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin import conditions, expr
from ivjoin.arguments import one_of
from ivjoin.errors import ConditionError, OrderError
from ivjoin.expr import build
from ivjoin.expr.literals import zone_named
from ivjoin.expr.nodes import Node
from ivjoin.frontier.order import Order
from ivjoin.frontier.tracking import OrderTracker
from ivjoin.plan.cache import plan_of
from ivjoin.plan.picking.choice import check_pick
from ivjoin.plan.question import join_spec, named_pairs
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.api.origin import carried_slacks
from ivjoin.spark.api.schema import arrow_schema, refuse_uncompared, spelled_alike
from ivjoin.spark.conditions.columns import aliases_of, condition_of, is_column
from ivjoin.spark.conditions.dialect import AnsiWarning, ansi_note, backquoted
from ivjoin.spark.conditions.padding import char_widths, padded, refuse_pairs
from ivjoin.spark.conditions.sqlwriter import quoted_name
from ivjoin.spark.rows.late import KEEP, check_keeps
from ivjoin.spark.runtime import eventtime
from ivjoin.spark.runtime.environment import Settings, settings_of

if TYPE_CHECKING:
    from ivjoin.expr.literals import Params
    from ivjoin.plan.aggregates import Aggregate
    from ivjoin.plan.picking.asof import AsOf

__all__ = ["Resolved", "resolved", "spelt"]


@dataclass(frozen=True)
class Resolved:
    """A call with every name resolved, and the warnings for the caller."""

    spec: JoinSpec
    settings: Settings
    types: tuple[Any, Any]
    aliases: dict[str, str]
    notes: tuple[Warning, ...] = ()


def resolved(
    left: Any, right: Any, on: Any = None, condition: Any = None, how: str = "inner", left_order: Any = None,
    right_order: Any = None, left_bounds: Any = None, right_bounds: Any = None, suffix: str = "_right",
    batch_size: int = 65536, on_late: str = "raise", timezone: str | None = None, pick: Any = None,
    params: Params | None = None,
    aggregated: Callable[[list[pa.Schema], str, Settings], tuple[Aggregate, ...]] | None = None,
    as_of: Callable[[list[pa.Schema], Callable[[Any, int], Any], str], AsOf] | None = None,
) -> Resolved:
    """Resolve every name and plan once, so that all errors are raised here.

    ``as_of`` replaces a condition and a pick. It receives both schemas, a function that spells a name of a side,
    and the time zone. ``aggregated`` receives the schemas, the zone and the settings.
    """
    settings = settings_of(left.sparkSession)
    one_of("on_late", on_late, ("raise", "drop", "join", KEEP))
    zone = timezone or settings.timezone
    zone_named(zone)  # before Spark raises it for each time
    types = (left.schema, right.schema)
    schemas = [arrow_schema(t, zone) for t in types]
    if not settings.case_sensitive:
        alike = spelled_alike(schemas[0].names, schemas[1].names)
        schemas[1] = pa.schema([f.with_name(n) for f, n in zip(schemas[1], alike, strict=True)])
    pairs = _pairs(on, schemas, settings.case_sensitive)
    aliases = aliases_of(left, right)
    scope = expr.Scope(
        schemas[0], schemas[1], on=pairs, case_sensitive=settings.case_sensitive, aliases=aliases, params=params
    )
    if as_of is not None:
        asked = as_of(schemas, lambda n, s: spelt(n, schemas[s].names, settings.case_sensitive), zone)
        condition, pick = asked.condition, asked.pick
    elif pick is not None:
        items = check_pick(pick).items
        pick = replace(pick, by=[_picked_by(item, schemas[1].names, scope, settings, zone) for item in items])
    aggregates = () if aggregated is None else aggregated(schemas, zone, settings)
    # Spark cannot filter rows that are already aggregated or picked
    kind = "left" if pick is not None or (aggregates and how == "inner") else how
    given, left_over = condition_of(condition, left, right, scope, zone, kind, settings.quoted_names)
    widths = char_widths(types, schemas)
    refuse_pairs(pairs, widths)
    given = None if given is None else padded(given, widths)
    notes: list[Warning] = []
    orders = [
        _orders(o, s, f, schemas, settings, zone, notes)
        for s, (o, f) in enumerate(((left_order, left), (right_order, right)))
    ]
    for pair in pairs:
        given = _windows(pair, (left, right), scope, zone, given, orders, notes)
    bounds = [_bounds(b, s.names, settings) for b, s in zip((left_bounds, right_bounds), schemas, strict=True)]
    spec = join_spec(
        schemas[0], schemas[1], on=pairs, condition=given, how=how, left_order=orders[0], right_order=orders[1],
        left_bounds=bounds[0], right_bounds=bounds[1], suffix=suffix, timezone=zone,
        on_late="drop" if on_late == KEEP else on_late,
        batch_size=batch_size, aggregate=aggregates, pick=pick,
    )
    spec = replace(spec, left_over=left_over)
    if on_late == KEEP:
        check_keeps(spec)
        spec = spec.with_late(KEEP)
    plan = plan_of(spec)
    compared = [a.node for a in spec.aggregates if a.function in ("min", "max")]
    refuse_uncompared([n for n in (plan.condition, *compared) if n is not None], types)
    for side in plan.sides:
        for node, name, o in side.orders:
            OrderTracker(node, name, o.descending, o.slack, o.nulls)  # raise the operator's errors before a query runs
    note = None if settings.ansi else ansi_note(plan.condition)
    if note is not None:
        notes.append(AnsiWarning(note))
    return Resolved(spec, settings, types, aliases, tuple(notes))


def _windows(
    pair: tuple[str, str], frames: tuple[Any, Any], scope: expr.Scope, zone: str, condition: Node | None,
    orders: list[tuple[Order, ...]], notes: list[Warning],
) -> Node | None:
    """Declare the order of the ends of a key that is a window of an event time on both sides.

    Equal windows have equal ends, so add this equality to the condition: it evicts rows.
    """
    found = [eventtime.is_unordered_window(pair[s], frame, orders[s]) for s, frame in enumerate(frames)]
    slacks: list[timedelta | None] = [None, None]
    for s, frame in enumerate(frames):
        if found[s]:
            at = frame.columns.index(pair[s])
            slacks[s] = eventtime.slack_of_window(frame, at, eventtime.delays(frame.schema)[pair[s]])
    ends = [f"{side}.{quoted_name(name)}.end" for side, name in zip("lr", pair, strict=True)]
    if all(found) and None not in slacks:
        for s, slack in enumerate(slacks):
            orders[s] = (*orders[s], Order(conditions.scalar(ends[s], scope, timezone=zone), slack=slack))
        same = conditions.condition(" = ".join(ends), scope, timezone=zone)
        return same if condition is None or same is None else build.and_(condition, same)
    notes += [eventtime.WatermarkWarning(eventtime.window_note(SIDES[s], pair[s])) for s in (0, 1) if found[s]]
    return condition


def _pairs(on: Any, schemas: list[pa.Schema], case_sensitive: bool) -> list[tuple[str, str]]:
    if on is None:
        return []
    for i in [on] if is_column(on) else on if isinstance(on, Iterable) and not isinstance(on, str) else ():
        if is_column(i):
            raise ConditionError(
                f"on holds the Column {i}; expected names of key columns, such as on='id' or on=[('a', 'b')]. "
                "A Column belongs in condition=..., where equalities are found to be keys too"
            )
    pairs = named_pairs(on)
    return [
        (spelt(a, schemas[0].names, case_sensitive), spelt(b, schemas[1].names, case_sensitive)) for a, b in pairs
    ]


def _text(given: Any, names: list[str], settings: Settings) -> Any:
    """Return a column's name as its schema spells it, or SQL text with its names quoted as in the session."""
    name = spelt(given, names, settings.case_sensitive)
    return backquoted(name) if settings.quoted_names and isinstance(name, str) and name not in names else name


def _picked_by(item: Any, names: list[str], scope: expr.Scope, settings: Settings, zone: str) -> Node:
    text = _text(item, names, settings)
    return scope.resolve(SIDES[1], text) if text in names else conditions.scalar(text, scope, timezone=zone)


def _bounds(given: Any, names: list[str], settings: Settings) -> Any:
    return {_text(k, names, settings): v for k, v in given.items()} if isinstance(given, Mapping) else given


def spelt(name: Any, names: list[str], case_sensitive: bool) -> Any:
    """Return the name of a column as its schema spells it, and any other text unchanged."""
    if case_sensitive or not isinstance(name, str) or name in names:
        return name
    alike = [n for n in names if n.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else name


def _orders(
    given: Any, side: int, frame: Any, schemas: list[pa.Schema], settings: Settings, zone: str, notes: list[Warning]
) -> tuple[Order, ...]:
    """Return the declared orders and watermarks of a side, their expressions as nodes."""
    items = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    empty = pa.schema([])
    both = (schemas[0], empty) if side == 0 else (empty, schemas[1])
    scope = expr.Scope(*both, case_sensitive=settings.case_sensitive)
    declared = [o if isinstance(o, Order) else Order(o) for o in items]
    declared = [replace(o, expr=_side_node(o.expr, side, scope, settings, zone)) for o in declared]

    def column_at(i: int) -> Node:
        return scope.resolve(SIDES[side], schemas[side].names[i])

    delay, no_order, found = eventtime.watermarks_of(frame, SIDES[side], column_at, declared)
    notes += found
    for i, slack in carried_slacks(frame).items():
        column = column_at(i)
        if all(o.expr is not column for o in declared) and column not in delay:
            declared.append(Order(column, slack=slack))
    return tuple(eventtime.with_watermarks(declared, delay, no_order))


def _side_node(given: Any, side: int, scope: expr.Scope, settings: Settings, zone: str) -> Node:
    if isinstance(given, Node):
        return given
    given = _text(given, (scope.left if side == 0 else scope.right).names, settings)
    if isinstance(given, str) and given in (scope.left if side == 0 else scope.right).names:
        return scope.resolve(SIDES[side], given)
    if isinstance(given, str) and given.upper().split()[-1:] in (["ASC"], ["DESC"]):
        plain, word = given.rsplit(None, 1)
        raise OrderError(
            f"{SIDES[side]}_order is {given!r}; write "
            + (f"Order({plain!r}, descending=True)" if word.upper() == "DESC" else f"{plain!r}, which ascends")
        )
    if is_column(given):
        raise OrderError(
            f"{SIDES[side]}_order is the Column {given}; expected a column's name, SQL text, or an Order of either"
        )
    return conditions.scalar(given, scope, timezone=zone)
