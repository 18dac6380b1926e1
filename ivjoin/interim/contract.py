"""``contract``: what a condition leaves of a box."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ivjoin import expr
from ivjoin.errors import OrderError
from ivjoin.expr import build
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import TICKS_PER_SECOND, Type, named, to_arrow
from ivjoin.interim.dag import Outcome, contract_nodes
from ivjoin.interim.domain import Dom, type_range

__all__ = ["Contraction", "Range", "contract"]


@dataclass(frozen=True, slots=True)
class Range:
    """An interval of a column: Python values, None for an end that nothing bounds. ``inf > sup`` never shows: see
    ``Contraction.outcome``."""

    inf: Any
    sup: Any


@dataclass(frozen=True, slots=True)
class Contraction:
    """What :func:`contract` found.

    Attributes
    ----------
    outcome : Outcome
    box : dict of str to Range
        For an infeasible condition each range is empty: both ends None.
    """

    outcome: Outcome
    box: dict[str, Range]


def contract(condition: Any, box: Mapping[str, tuple[Any, Any, Any]], timezone: str = "UTC") -> Contraction:
    """Narrow a box to the points at which a condition can be TRUE.

    Parameters
    ----------
    condition : str, SymPy relation, ivjoin expression
    box : mapping of column to (type, inf, sup)
        The type is a name or a pyarrow type; an end of None is unbounded. Points are not NULL; a float is NaN only where
        ``sup`` is None.

    Returns
    -------
    Contraction

    Examples
    --------
    >>> c = contract("a + b <= 7 AND a >= 2 * b", {"a": ("int64", 0, 40), "b": ("int64", -5, 5)})
    >>> c.outcome, c.box["a"].inf, c.box["a"].sup, c.box["b"].sup
    (<Outcome.CONTRACTED: 'contracted'>, 0, 12, 2)
    """
    types = {name: named(spec[0]) for name, spec in box.items()}
    schema = pa.schema([pa.field(name, to_arrow(t)) for name, t in types.items()])
    scope = expr.Scope(schema, pa.schema([]))
    node = expr.condition(condition, scope, timezone=timezone)
    columns = {name: build.column("left", name, t) for name, t in types.items()}
    known = {columns[name]: _dom(name, types[name], spec[1], spec[2]) for name, spec in box.items()}
    if any(d.is_empty for d in known.values()) or node is None:
        outcome = Outcome.UNCHANGED if node is None else Outcome.INFEASIBLE
        doms = known
    else:
        outcome, doms = _contracted(node, known)
    if outcome is Outcome.INFEASIBLE:
        return Contraction(outcome, {name: Range(None, None) for name in box})
    return Contraction(outcome, {name: _range(doms[column]) for name, column in columns.items()})


def _contracted(node: Node, known: dict[Node, Dom]) -> tuple[Outcome, dict[Node, Dom]]:
    return contract_nodes([node], known, list(known))


def _dom(name: str, t: Type, inf: Any, sup: Any) -> Dom:
    least, most = type_range(t)
    if least is None:
        return Dom(t, None, None, False, False)
    lo = least if inf is None else _physical(inf, t, name, up=True)
    hi = most if sup is None else _physical(sup, t, name, up=False)
    if lo > hi:
        return Dom.empty(t)
    return Dom.of(t, lo, hi, False, sup is None)


def _physical(value: Any, t: Type, name: str, up: bool) -> Any:
    """A Python value as a physical one, rounded into the interval."""
    try:
        if t.kind == "float":
            return float(value)
        if t.kind == "bool":
            return int(bool(value))
        if t.kind == "decimal":
            scaled = Decimal(str(value)).scaleb(t.scale)
            return math.ceil(scaled) if up else math.floor(scaled)
        if t.kind == "date" and isinstance(value, date):
            return (date(value.year, value.month, value.day) - date(1970, 1, 1)).days
        if t.kind == "timestamp" and isinstance(value, datetime):
            at = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return _ticks(at - datetime(1970, 1, 1, tzinfo=UTC), t.unit)
        if t.kind in ("duration", "time") and isinstance(value, timedelta):
            return _ticks(value, t.unit)
        if isinstance(value, float) and math.isinf(value):
            return type_range(t)[1 if value > 0 else 0]
        return math.ceil(value) if up else math.floor(value)
    except (TypeError, ValueError, ArithmeticError) as e:
        raise OrderError(f"a bound of {name} is {value!r}; expected a value of type {t}") from e


def _ticks(delta: timedelta, unit: str) -> int:
    micros = (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    return micros * TICKS_PER_SECOND[unit] // 1_000_000


def _range(d: Dom) -> Range:
    t = d.type
    if d.lo is None:
        return Range(None, None)
    if t.kind == "float" and d.may_nan:
        return Range(_value(d.lo, t), None)
    return Range(_value(d.lo, t), _value(d.hi, t))


def _value(v: Any, t: Type) -> Any:
    try:
        if t.kind == "bool":
            return bool(v)
        if t.kind == "decimal":
            return Decimal(v).scaleb(-t.scale)
        if t.kind == "date":
            return date(1970, 1, 1) + timedelta(days=v)
        if t.kind in ("timestamp", "duration", "time"):
            delta = timedelta(microseconds=v * 1_000_000 // TICKS_PER_SECOND[t.unit])
            if t.kind != "timestamp":
                return delta
            at = datetime(1970, 1, 1, tzinfo=UTC) + delta
            return at if t.tz else at.replace(tzinfo=None)
    except OverflowError:
        return None
    return v
