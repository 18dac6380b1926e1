"""Cache the plans of recent joins by their arguments.

Planning takes as long as joining about ten thousand rows. Two arguments share an entry only if their types and their
text are equal. For example, ``1``, ``1.0`` and ``True`` are equal in Python, but give different plans. SymPy
expressions, subclasses and times with a custom time zone class have no exact key, so such joins are planned each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from threading import Lock
from typing import Any, TypeVar
from weakref import ref
from zoneinfo import ZoneInfo

import pyarrow as pa

from ivjoin.conditions.read import fluent
from ivjoin.conditions.read.fluent import Expr
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import Type
from ivjoin.frontier.order import Order
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.choice import Pick as Choice
from ivjoin.plan.planner import make_plan
from ivjoin.plan.question import join_spec
from ivjoin.plan.spec import JoinSpec, Pick

__all__ = ["MOST_PLANS", "forget_plans", "is_known", "plan_of", "planned", "shared"]

T = TypeVar("T")

MOST_PLANS = 128
# Arguments above these limits are not cached: their keys would use too much memory.
_LONGEST_TEXT = 10_000
_MOST_PARTS = 1_000

_plans: OrderedDict[Hashable, Any] = OrderedDict()  # plans, and specs of joins of many inputs
_lock = Lock()


# The keys of schemas by ``id(schema)``. The weak reference shows whether the entry is still about the same object.
_schemas: dict[int, tuple[ref[pa.Schema], _SchemaKey]] = {}


class _SchemaKey:
    """The key of a schema, which computes its hash only once."""

    __slots__ = ("_fields", "_hash")

    def __init__(self, fields: tuple[Any, ...]) -> None:
        self._fields, self._hash = fields, hash(fields)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return type(other) is _SchemaKey and self._fields == other._fields


class _NoExactKey(Exception):
    """An argument without an exact key."""


def planned(left_schema: Any, right_schema: Any, **arguments: Any) -> JoinPlan:
    """Return a new or cached plan for the arguments of :func:`ivjoin.plan.question.join_spec`.

    Operators share the plan. An operator that changes its plan first copies it with :meth:`JoinPlan.own`. Errors are
    not cached.
    """
    return shared((left_schema, right_schema), arguments, lambda: make_plan(join_spec(
        left_schema, right_schema, **arguments,
    )))  # fmt: skip


def is_known(schemas: Iterable[Any], arguments: Mapping[str, Any]) -> bool:
    """Return whether the cache contains a value for these schemas and arguments."""
    try:
        return _key(schemas, arguments) in _plans
    except _NoExactKey:
        return False


def shared(schemas: Iterable[Any], arguments: Mapping[str, Any], make: Callable[[], T]) -> T:
    """Return the cached value for these schemas and arguments, or call ``make``. Callers must not change the value."""
    try:
        key = _key(schemas, arguments)
    except _NoExactKey:
        return make()
    return _kept(key, make)


def _key(schemas: Iterable[Any], arguments: Mapping[str, Any]) -> Hashable:
    names = sorted(arguments)
    values = _exact([arguments[n] for n in names], _Parts())
    return (*map(_schema, schemas), tuple(names), values)


def plan_of(spec: JoinSpec, check: Callable[[JoinSpec], None] | None = None) -> JoinPlan:
    """Return a new or cached plan of a resolved join. ``check`` may raise an error before a new plan is made."""

    def make() -> JoinPlan:
        if check is not None:
            check(spec)
        return make_plan(spec)

    return _kept(spec, make)


def _kept(key: Hashable, make: Callable[[], T]) -> T:
    with _lock:
        found = _plans.get(key)
        if found is not None:
            _plans.move_to_end(key)
            return found
    made = make()
    with _lock:
        _plans[key] = made
        while len(_plans) > MOST_PLANS:
            _plans.popitem(last=False)
    return made


def forget_plans() -> None:
    with _lock:
        _plans.clear()
        _schemas.clear()


def _schema(schema: Any) -> _SchemaKey:
    known = _schemas.get(id(schema))
    if known is not None and known[0]() is schema:
        return known[1]
    key = _SchemaKey(_schema_fields(schema))
    with _lock:
        if len(_schemas) >= 2 * MOST_PLANS:
            _schemas.clear()
        _schemas[id(schema)] = ref(schema), key
    return key


def _schema_fields(schema: Any) -> tuple[Any, ...]:
    """Return the serialized schema, with the types of its columns.

    A schema with an extension type has no key, because the serialized bytes do not identify the type.
    """
    if type(schema) is not pa.Schema:
        raise _NoExactKey
    types = tuple(schema.types)
    if any(isinstance(t, pa.BaseExtensionType) for t in types):
        raise _NoExactKey
    try:
        return schema.serialize().to_pybytes(), types
    except (pa.ArrowException, NotImplementedError) as e:
        raise _NoExactKey from e


class _Parts:
    """Count the parts of a key, and number its distinct expressions."""

    __slots__ = ("count", "met")

    def __init__(self) -> None:
        self.count = 0
        self.met: dict[int, int] = {}


def _exact(value: Any, parts: _Parts) -> Any:
    """Return a hashable key of a value, or raise _NoExactKey.

    Two values have equal keys only if the planner treats them alike.
    """
    parts.count += 1
    if parts.count > _MOST_PARTS:
        raise _NoExactKey
    kind = type(value)
    if value is None or kind is Node or kind is Type:
        return value  # immutable; a node is equal only to itself
    if kind is str or kind is bytes:
        if len(value) > _LONGEST_TEXT:
            raise _NoExactKey
        return kind, value
    if kind is bool or kind is int or kind is timedelta or kind is date:
        return kind, value
    if kind is float or kind is Decimal or (kind is datetime and _plain_zone(value)):
        return kind, repr(value)
    if kind is list or kind is tuple:
        return kind, *[_exact(v, parts) for v in value]
    if kind is dict:
        return kind, *[_exact(v, parts) for item in value.items() for v in item]
    if kind is Order:
        return kind, *[_exact(v, parts) for v in (value.expr, value.descending, value.slack, value.nulls)]
    if kind is Pick or kind is Choice:
        return kind, *[_exact(getattr(value, name), parts) for name in value.__dataclass_fields__]
    if kind is Expr:
        return kind, *_expression(value, parts)
    raise _NoExactKey


def _plain_zone(value: datetime) -> bool:
    zone = value.tzinfo
    return zone is None or type(zone) is timezone or (type(zone) is ZoneInfo and zone.key is not None)


def _expression(root: Expr, parts: _Parts) -> list[Any]:
    """Return the operators of a fluent expression, each of them once, arguments before the operators that use them."""
    out: list[Any] = []
    for e in fluent.parts(root):
        if type(e) is not Expr:
            raise _NoExactKey
        if id(e) not in parts.met:
            parts.met[id(e)] = len(parts.met)
            out.append((e._op, *[parts.met[id(a)] for a in e._args], _exact(e._params, parts)))
    out.append(parts.met[id(root)])
    return out
