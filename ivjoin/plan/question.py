"""Check the arguments of a join, and resolve them to a :class:`~ivjoin.plan.spec.JoinSpec`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import pyarrow as pa

from ivjoin import conditions, expr
from ivjoin.arguments import MOST_ROWS, one_of, text, warn_caller, whole_number
from ivjoin.conditions.evaluate import check_supported
from ivjoin.errors import ColumnError, ConditionError, OrderError, SchemaError, TimezoneWarning, came
from ivjoin.expr import build
from ivjoin.expr.nodes import Node, columns_of
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.expr.timezones import read_in_utc, refuse_mixed, zone_of_call
from ivjoin.expr.types import from_arrow
from ivjoin.frontier.order import Order, ordinal_range, physical_ordinal
from ivjoin.outer.jointype import join_type
from ivjoin.plan.aggregates import Aggregate, aggregates_of
from ivjoin.plan.derived.implied import with_columns
from ivjoin.plan.picking.best import best_of
from ivjoin.plan.picking.choice import Pick as Choice
from ivjoin.plan.spec import SIDES, Bounds, JoinSpec, Pick

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression
    from ivjoin.expr.literals import Params, Value

__all__ = [
    "Aggregates", "DeclaredBounds", "How", "JoinHow", "KeepOrder", "Keys", "Orders", "Sort", "SupportsArrowSchema",
    "Validate", "join_spec", "named_pairs", "on_pairs", "schema_of", "side_expression",
    "warn_of_utc",
]  # fmt: skip

How = Literal["inner", "left", "right", "full", "left_semi", "left_anti", "right_semi", "right_anti"]
# Editors suggest the names in `How`. Other names of a join type, such as Spark's, are accepted too.
JoinHow: TypeAlias = "How | str"
Sort = Literal["auto", "never"]
KeepOrder = Literal["left", "right", "left_right", "right_left", "none"]
Validate = Literal["1:1", "1:m", "m:1", "m:m"]
Keys: TypeAlias = "str | tuple[str, str] | Iterable[str | tuple[str, str]]"
Orders: TypeAlias = "Expression | Order | Sequence[Expression | Order]"
DeclaredBounds: TypeAlias = "Mapping[Expression, tuple[Value | None, Value | None]]"
Aggregates: TypeAlias = "Mapping[str, tuple[Expression, str]]"

_NO_BOUND = "give None where nothing is known"
_SAID = re.compile(
    r"\s*(.+?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?(?:\s+slack\s+(\S+))?\s*", re.IGNORECASE | re.DOTALL
)


class SupportsArrowSchema(Protocol):
    """An object with an Arrow schema by the PyCapsule interface, such as a ``pyarrow.Schema``."""

    def __arrow_c_schema__(self) -> object: ...


def join_spec(
    left_schema: SupportsArrowSchema, right_schema: SupportsArrowSchema, *, on: Keys | None = None,
    condition: Expression | None = None, how: str = "inner", left_order: Orders | None = None,
    right_order: Orders | None = None, left_bounds: DeclaredBounds | None = None,
    right_bounds: DeclaredBounds | None = None, suffix: str = "_right", batch_size: int = 65536,
    on_late: str = "raise", timezone: str | None = None,
    aggregate: Aggregates | tuple[Aggregate, ...] | None = None, pick: Choice | Pick | None = None,
    params: Params | None = None, also: Expression | None = None,
) -> JoinSpec:
    """Check the arguments of a join, and resolve every name. An invalid argument raises a subclass of IvjoinError.

    ``also`` is a further conjunct. ``params`` contains the values of ``:name`` parameters. ``pick`` may be a resolved
    ``Pick`` of :mod:`ivjoin.plan.spec`.
    """
    jt = join_type(how)
    schemas = (
        schema_of(left_schema, "the left schema", "the left input"),
        schema_of(right_schema, "the right schema", "the right input"),
    )
    one_of("on_late", on_late, ("raise", "drop", "join"))
    batch_size = whole_number("batch_size", batch_size, 1, MOST_ROWS, "a whole number of rows")
    text("suffix", suffix, "_right")
    zone = zone_of_call(timezone)
    pairs = on_pairs(on, schemas)
    scope = expr.Scope(schemas[0], schemas[1], on=pairs, params=params)
    for a, b in pairs:
        refuse_mixed(scope.resolve(SIDES[0], a), scope.resolve(SIDES[1], b), zone)
    given = conditions.condition(condition, scope, timezone=zone)
    if also is not None:
        more = conditions.condition(also, scope, timezone=zone)
        given = more if given is None or more is None else build.and_(given, more)
    orders = tuple(_orders(o, s, schemas, zone) for s, o in enumerate((left_order, right_order)))
    bounds = tuple(_bounds(b, s, schemas, zone) for s, b in enumerate((left_bounds, right_bounds)))
    if isinstance(aggregate, tuple):
        aggregates = aggregate
    else:
        aggregates = aggregates_of(
            aggregate, lambda e: side_expression(e, 1, schemas[1], zone, "aggregate"), *schemas
        )
    if aggregates and jt.name not in ("inner", "left"):
        raise ConditionError(f"how is {came(how)}; with aggregate= expected 'inner' or 'left'")
    if aggregates and pick is not None:
        raise ConditionError("aggregate= and pick=: a left row takes some matches or aggregates of all; give one")
    first_by = (orders[1][0].node, bool(orders[1][0].descending)) if aggregates and orders[1] else None
    if pick is not None and not isinstance(pick, Pick):
        pick = best_of(pick, jt, given, schemas[1], lambda obj: conditions.scalar(obj, scope, timezone=zone), zone)
    if timezone is None:
        warn_of_utc([n for n in (given, *(a.node for a in aggregates)) if n is not None])
    return JoinSpec(
        schemas, tuple(pairs), given, jt.name, _with_columns(orders, given, pairs, schemas), (bounds[0], bounds[1]),
        suffix, batch_size, on_late, str(zone), aggregates=aggregates, first_by=first_by, pick=pick,
    )


def warn_of_utc(nodes: list[Node]) -> None:
    """Warn if a condition reads the UTC local time of a column that has another zone."""
    found = read_in_utc(nodes)
    if found is not None:
        warn_caller(TimezoneWarning(
            f"{found[0]} reads the local time of UTC, though the column has the zone {found[1]}; give timezone= "
            f"(--timezone), such as timezone='{found[1]}' or timezone='UTC'"
        ))  # fmt: skip


def schema_of(schema: Any, called: str, of: str) -> pa.Schema:
    """Return the Arrow schema of an object. Raise SchemaError if it has no schema, or two columns share a name.

    Error messages call the object ``called``, and its input ``of``.
    """
    if not isinstance(schema, pa.Schema):
        if getattr(schema, "__arrow_c_schema__", None) is None:
            raise SchemaError(f"{called} is a {type(schema).__name__}; expected a pyarrow.Schema")
        try:
            schema = pa.schema(schema)
        except (TypeError, ValueError) as e:
            raise SchemaError(f"{called}, a {type(schema).__name__}, gives no Arrow schema: {e}") from e
    seen: set[str] = set()
    for name in schema.names:
        if name in seen:
            raise SchemaError(f"{of} has two columns named {name!r}; rename one of them")
        seen.add(name)
    return schema


def named_pairs(on: Any) -> list[tuple[str, str]]:
    """Return the key pairs of ``on`` (a name, a pair, or a list of these), or raise ColumnError."""
    if on is None:
        return []
    if isinstance(on, (str, tuple)):
        on = [on]
    if isinstance(on, (Mapping, Set)) or not _is_iterable(on):
        such = list(on.items()) if isinstance(on, Mapping) and on else [("id", "user_id")]
        raise ColumnError(
            f"on is {came(on)}, a {type(on).__name__}; expected a column name, a pair (left name, right name), or a "
            f"list of names and pairs such as {came(such)}"
        )
    pairs = []
    for item in on:
        if isinstance(item, str):
            pairs.append((item, item))
        elif isinstance(item, (tuple, list)) and len(item) == 2 and all(isinstance(x, str) for x in item):
            pairs.append((item[0], item[1]))
        else:
            instead = f"; for several keys pass a list: {came(list(item))}" if isinstance(item, tuple) and item else ""
            raise ColumnError(
                f"on contains {came(item)}; expected a column name or a pair (left name, right name){instead}"
            )
    return pairs


def on_pairs(on: Any, schemas: tuple[pa.Schema, pa.Schema]) -> list[tuple[str, str]]:
    """Return the key pairs of ``on``. Raise ColumnError if a column does not exist."""
    pairs = named_pairs(on)
    for pair in pairs:
        for name, schema, side in zip(pair, schemas, SIDES, strict=True):
            if name not in schema.names:
                raise ColumnError(_unknown(name, schema, side)).of(name, side, schema.names)
    return pairs


def _is_iterable(obj: Any) -> bool:
    try:
        iter(obj)
    except TypeError:
        return False
    return True


def _unknown(name: str, schema: pa.Schema, side: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, schema.names, n=1, cutoff=0.5)
    lower = [n for n in schema.names if n.lower() == name.lower()]
    if re.search(r"[<>=]|\b(?:between|and)\b", name, re.IGNORECASE):
        return f"column {came(name)} is not in {side}; pass a condition as condition="
    best = (lower or near or [None])[0]
    hint = f"; did you mean {best!r}?" if best else ""
    return f"column {came(name)} is not in {side}: {', '.join(schema.names) or '(no columns)'}{hint}"


def _orders(orders: Any, s: int, schemas: tuple[pa.Schema, pa.Schema], timezone: str) -> tuple[Order, ...]:
    items = [] if orders is None else list(orders) if isinstance(orders, (list, tuple)) else [orders]
    out = []
    for item in items:
        o = item if isinstance(item, Order) else Order(item)
        node = side_expression(o.expr, s, schemas[s], timezone, "order")
        # Orders ignore nulls, so a column of type null needs no order. File readers infer this type for empty columns.
        if node.type.kind != "null":
            out.append(replace(o, expr=node, follows=False))
    return tuple(out)


def _with_columns(
    orders: tuple[tuple[Order, ...], ...], given: Node | None, pairs: list[tuple[str, str]],
    schemas: tuple[pa.Schema, pa.Schema],
) -> tuple[tuple[Order, ...], tuple[Order, ...]]:
    """Return the orders, with derived orders of the columns that the condition compares."""
    out = []
    for s, declared in enumerate(orders):
        if any(o.node.op != "column" for o in declared):
            compared = set(columns_of(given) if given is not None else ())
            for name in (pair[s] for pair in pairs):
                compared.add(build.column(SIDES[s], name, from_arrow(schemas[s].field(name).type)))
            declared = with_columns(declared, compared)
        out.append(declared)
    return out[0], out[1]


def _bounds(bounds: Any, s: int, schemas: tuple[pa.Schema, pa.Schema], timezone: str) -> Bounds:
    if bounds is None:
        return ()
    if not isinstance(bounds, Mapping):
        raise OrderError(f"{SIDES[s]}_bounds is a {type(bounds).__name__}; expected {{column: (least, greatest)}}")
    out: dict[Node, tuple[int, int]] = {}
    for given, pair in bounds.items():
        node = side_expression(given, s, schemas[s], timezone, "bounds")
        name = came(given) if not isinstance(given, str) else given
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise OrderError(f"bounds of {name} are {came(pair)}; expected a pair (least, greatest), None for none")
        if node.type.kind == "null":
            continue  # bounds ignore nulls
        if not has_ordinal(node.type):
            raise OrderError(f"bounds of {name}: a value of type {node.type} cannot be bounded")
        low, high = ordinal_range(node.type)
        if pair[0] is not None:
            low = physical_ordinal(pair[0], node.type, f"least value of {name}", up=True, unknown=_NO_BOUND)
        if pair[1] is not None:
            high = physical_ordinal(pair[1], node.type, f"greatest value of {name}", up=False, unknown=_NO_BOUND)
        if low > high:
            raise OrderError(f"bounds of {name} are {came(pair)}: the least is above the greatest")
        out[node] = (low, high)
    return tuple((node, low, high) for node, (low, high) in out.items())


def side_expression(obj: Any, s: int, schema: pa.Schema, timezone: str, what: str) -> Node:
    """Return the node of an order, a bound or a watermark, which must read only side ``s``."""
    empty = pa.schema([])
    scope = expr.Scope(schema, empty) if s == 0 else expr.Scope(empty, schema)
    if isinstance(obj, str) and obj in schema.names:
        return build.column(SIDES[s], obj, from_arrow(schema.field(obj).type))
    said = f"{what} {came(obj)} of the {SIDES[s]} side"
    try:
        node = conditions.scalar(obj, scope, timezone=timezone)
    except ColumnError as e:
        with suppress(ConditionError, ColumnError):  # the side's own columns may have the other side's prefix
            both = columns_of(conditions.scalar(obj, expr.Scope(schema, schema), timezone=timezone))
            _refuse_other(both, s, said, f"; write {'lr'[s]}.{{}}")
        if "has no columns" in str(e):
            raise ColumnError(
                f"{said} names a column of the {SIDES[1 - s]} side; expected columns of the {SIDES[s]} side alone: "
                f"{', '.join(schema.names) or 'it has none'}"
            ) from e
        raise e.saying(f"{said}: {e}") from e
    except ConditionError as e:
        raise e.saying(f"{said}: {_of_expression(str(e))}{_as_order(obj)}") from e
    _refuse_other(columns_of(node), s, said, "")
    check_supported(node)
    return node


def _refuse_other(columns: Iterable[Node], s: int, said: str, instead: str) -> None:
    wrong = [c for c in columns if c.params[0] != SIDES[s]]
    if wrong:
        raise OrderError(f"{said} reads {wrong[0]} of the other side{instead.format(wrong[0].params[1])}")


def _of_expression(said: str) -> str:
    """Turn an error text about a condition into one about an expression."""
    said = said.replace("; pass None for no condition", "").replace(", a SymPy relation or None", " or a SymPy one")
    return said.replace("the condition", "the expression").replace("a condition", "an expression")


def _as_order(obj: Any) -> str:
    """Return a hint to use ``Order`` if a text has a direction, nulls or slack as in SQL."""
    found = _SAID.fullmatch(obj) if isinstance(obj, str) else None
    if found is None or not any(found.groups()[1:]):
        return ""
    place, way, nulls, slack = found.groups()
    options = [
        "descending=True" if way and way.lower() == "desc" else "",
        f"nulls={nulls.lower()!r}" if nulls else "",
        f"slack={slack if slack.isdigit() else 'timedelta(...)'}" if slack else "",
    ]
    return f"\nwrite Order({', '.join([repr(place), *filter(None, options)])})"
