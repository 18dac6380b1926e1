"""``contract``: narrow a box of column intervals to the part that can satisfy a condition.

- A column of the box is never NULL. A float column may be NaN only if it has no upper bound.
- A point at which the condition raises an error does not satisfy it.
- The condition is evaluated for a box that contains only one point.
- In a larger box, a division by zero may be an error or a NULL, because engines differ. In a join, it is an error.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from ivjoin import conditions, expr
from ivjoin.arguments import text, whole_number
from ivjoin.errors import ConditionError, UnsupportedError, came
from ivjoin.expr.literals import literal, physical, seconds_of, zone_named
from ivjoin.expr.nodes import LEFT, Node, columns_of, make, rewrite
from ivjoin.expr.types import TICKS_PER_SECOND, Type, named, to_arrow
from ivjoin.functions.rules.domain import Dom
from ivjoin.interval.errors import tamed
from ivjoin.interval.machine.domains import HAVE_INTERVALS, nearest, shown
from ivjoin.propagation.dag import Outcome, Propagator
from ivjoin.propagation.search import narrowed

__all__ = ["Bounds", "Contraction", "contract"]

MOST_EFFORT = 10**9
_OF_KIND = {"timestamp": dt.datetime, "duration": dt.timedelta, "time": dt.time}


class Bounds:
    """The interval of one column.

    Attributes
    ----------
    type : Type
    inf, sup : int, float, Decimal, bool, date, datetime, time, timedelta, str, bytes or None
        Least and greatest value, both included. An unbounded end is the type's limit or an infinity, and None if Python
        cannot represent it. Both are missing in an empty interval.
    may_nan : bool
        Whether the interval contains NaN, which is greater than all numbers.
    is_empty : bool
    """

    __slots__ = ("dom", "inf", "sup", "type")

    def __init__(self, dom: Dom) -> None:
        self.type = dom.type
        self.dom = dom
        self.inf = None if dom.is_empty else _shown(dom.lo, dom.type, up=False)
        self.sup = None if dom.is_empty else _shown(dom.hi, dom.type, up=True)

    @property
    def may_nan(self) -> bool:
        return self.dom.may_nan

    @property
    def is_empty(self) -> bool:
        return self.dom.is_empty and not self.dom.may_nan

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bounds) and self.dom == other.dom

    def __hash__(self) -> int:
        return hash(self.dom)

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, float) and math.isnan(value):
            return self.may_nan
        if self.is_empty or value is None:
            return False
        return (self.inf is None or self.inf <= value) and (self.sup is None or value <= self.sup)

    def __iter__(self) -> Any:
        return iter((self.inf, self.sup))

    def __repr__(self) -> str:
        if self.is_empty:
            return "Bounds(empty)"
        return f"Bounds({self.inf!r}, {self.sup!r}{', NaN' if self.may_nan else ''})"


class Contraction:
    """The result of `contract`.

    Attributes
    ----------
    outcome : Outcome
    box : dict of str to Bounds
        One interval for each column of the given box, in its order. The intervals are empty if no point can satisfy the
        condition.
    """

    __slots__ = ("box", "outcome")

    def __init__(self, outcome: Outcome, box: dict[str, Bounds]) -> None:
        self.outcome = outcome
        self.box = box

    def __repr__(self) -> str:
        return f"Contraction({self.outcome.name}, {self.box})"


def contract(
    condition: Any, box: Mapping[str, tuple[Any, Any, Any]], timezone: str = "UTC", effort: int = 600
) -> Contraction:
    """Narrow a box to one interval for each column, enclosing every point at which the condition is TRUE.

    Parameters
    ----------
    condition : str, SymPy relation, fluent expression or Node
        A condition on the columns of the box, by their bare names or with the qualifier ``l``.
    box : mapping of str to (type, inf, sup)
        The type is a name such as ``"int64"`` or an Arrow type. The bounds are Python values and are included. None
        means unbounded.
    timezone : str
        The time zone of local times.
    effort : int
        The number of further propagations after the fixpoint. 0 also skips the evaluation of a box of one point.

    Returns
    -------
    Contraction

    Raises
    ------
    ConditionError
        If the condition or the box cannot be read.

    Examples
    --------
    >>> c = contract("a + b <= 7 AND a >= 2 * b", {"a": ("int64", 0, 40), "b": ("int64", -5, 5)})
    >>> c.outcome.name, c.box["a"].inf, c.box["a"].sup
    ('CONTRACTED', 0, 12)
    """
    effort = whole_number("effort", effort, 0, MOST_EFFORT)
    zone_named(timezone)
    if not isinstance(box, Mapping):
        raise ConditionError(f"box is {came(box)}; expected {{column: (type, least, greatest)}}")
    columns: dict[str, Node] = {}
    known: dict[Node, Dom] = {}
    fields = []
    for name, entry in box.items():
        t, lo, hi = _entry(name, entry)
        columns[name] = make("column", (), (LEFT, name), t)
        fields.append((name, to_arrow(t)))
        known[columns[name]] = _domain(name, t, lo, hi)
    node = conditions.condition(condition, expr.Scope(pa.schema(fields), pa.schema([])), timezone=timezone)
    conjuncts = () if node is None else (node,)
    want = tuple(columns.values())
    at_point = _at_point(node, known) if node is not None and effort > 0 else None
    if at_point is False or any(d.is_empty and not d.may_nan for d in known.values()):
        outcome, doms = Outcome.INFEASIBLE, {n: Dom.empty(n.type) for n in want}
    elif at_point:
        outcome, doms = Outcome.UNCHANGED, known
    else:
        outcome, doms = narrowed(Propagator(conjuncts, want), known, want, effort)
    return Contraction(outcome, {name: Bounds(doms[n]) for name, n in columns.items()})


def _at_point(condition: Node, known: Mapping[Node, Dom]) -> bool | None:
    """Return whether the condition is TRUE at the only point of a box. None if the box has more points."""
    from ivjoin.conditions.evaluate import constant

    if not all(c in known for c in columns_of(condition)):
        return None
    values: dict[Node, Node] = {}
    for n, d in known.items():
        if d.is_empty or d.lo is None or d.lo != d.hi or d.may_nan:
            return None
        values[n] = literal(d.lo, n.type)
    try:
        return bool(constant(rewrite(condition, values.get))[1])
    except UnsupportedError:
        return None


def _entry(name: str, entry: Any) -> tuple[Type, Any, Any]:
    text("the name of a column of the box", name, "a")
    if not isinstance(entry, (tuple, list)) or len(entry) != 3:
        raise ConditionError(f"column {name!r} of the box is {came(entry)}; expected (type, least, greatest)")
    t = named(entry[0])
    if not t.is_ordered:
        raise ConditionError(f"column {name!r} of the box has type {t}, which has no order")
    return t, entry[1], entry[2]


def _domain(name: str, t: Type, lo: Any, hi: Any) -> Dom:
    low = None if lo is None else _inside(lo, t, name, up=True)
    high = None if hi is None else _inside(hi, t, name, up=False)
    return Dom.of(t, low, high, null=False, nan=hi is None)


def _inside(value: Any, t: Type, name: str, up: bool) -> Any:
    """Return the physical value of a bound. A value that the type cannot represent is rounded into the box."""
    if hasattr(value, "as_py"):
        value = value.as_py()
    elif hasattr(value, "item") and hasattr(value, "dtype") and not getattr(value, "shape", ()):
        value = value.item()
    if isinstance(value, Decimal) and not value.is_nan():
        value = tamed(value) if value.is_finite() else float(value)
    if value.is_nan() if isinstance(value, Decimal) else isinstance(value, float) and math.isnan(value):
        raise ConditionError(f"column {name!r} of the box has the bound NaN; expected a number, or None for no bound")
    try:
        return _moved(value, t, up)
    except (ValueError, TypeError, ArithmeticError) as e:
        raise ConditionError(
            f"column {name!r} of the box has the bound {came(value)}; expected a value of type {t}, or None"
        ) from e


def _moved(value: Any, t: Type, up: bool) -> Any:
    number = isinstance(value, (int, float, Decimal, Fraction)) and not isinstance(value, bool)
    if number and t.kind == "float":
        return nearest(value, t.format, up)
    if number and t.kind in ("int", "decimal"):
        if isinstance(value, float) and math.isinf(value):
            return None if (value < 0) == up else (10**40 if up else -(10**40))
        scaled = Fraction(value) * 10**t.scale
        return math.ceil(scaled) if up else math.floor(scaled)
    if isinstance(value, (dt.datetime, dt.timedelta, dt.time)) and isinstance(value, _OF_KIND.get(t.kind, ())):
        ticks = seconds_of(value) * TICKS_PER_SECOND[t.unit]
        return math.ceil(ticks) if up else math.floor(ticks)
    if isinstance(value, dt.datetime) and t.kind == "date":
        value = value.date() + dt.timedelta(days=up and value.time() != dt.time())
    elif isinstance(value, dt.date) and t.kind == "timestamp":
        value = dt.datetime.combine(value, dt.time())
        return _moved(value, t, up)
    if isinstance(value, str) and t.kind in ("date", "timestamp", "time", "duration", "decimal", "float", "int"):
        from ivjoin.expr.build.casting import cast

        node = cast(literal(value), t)
        if node.op == "literal":
            return node.params[0]
    return physical(value, t)


def _shown(value: Any, t: Type, up: bool) -> Any:
    """Return a physical bound as a Python value, or None. It is rounded outward if Python's type is coarser."""
    if value is None or t.kind not in HAVE_INTERVALS:
        return value
    out = shown(t, value, up)
    return out.replace(tzinfo=dt.UTC) if t.tz and out is not None else out
