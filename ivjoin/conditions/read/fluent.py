"""Conditions as Python expressions: ``(left("ts") >= right("ts") - timedelta(seconds=10)) & (left("v") > 5)``.

The names and types of an :class:`Expr` are resolved when the schemas are known. Operators follow Spark SQL:

- ``/`` of whole numbers gives a fraction, ``//`` truncates toward zero, and ``%`` has the sign of the dividend.
- ``==`` with a null gives a null.
- ``&``, ``|`` and ``~`` are AND, OR and NOT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from ivjoin.errors import ConditionError, came
from ivjoin.expr.nodes import Node
from ivjoin.expr.scope import Scope

if TYPE_CHECKING:
    from ivjoin.expr.literals import Value

__all__ = ["Expr", "When", "column", "function", "left", "lit", "parts", "right", "when"]


class Expr:
    """An expression over the columns of two inputs, built with Python operators.

    Every SQL function is a method of its first argument: ``left("s").upper()`` is ``function("upper", left("s"))``. The
    methods ``bit_and``, ``bit_or``, ``bit_xor`` and ``bit_not`` are SQL's ``& | ^ ~``.
    """

    __slots__ = ("_args", "_op", "_params")

    def __init__(self, op: str, args: tuple[Expr, ...] = (), params: tuple[Any, ...] = ()) -> None:
        self._op, self._args, self._params = op, args, params

    def resolve(self, scope: Scope, timezone: str = "UTC") -> Node:
        """Return the node of this expression over the columns of ``scope``."""
        from ivjoin.expr.literals import zone_named

        zone_named(timezone)
        done: dict[int, Node] = {}
        for e in parts(self):
            done[id(e)] = _make(e, [done[id(a)] for a in e._args], scope, timezone)
        return done[id(self)]

    def __repr__(self) -> str:
        if self._op == "column":
            qualifier, name = self._params
            if qualifier in (None, "left", "right"):
                return f"{qualifier or 'column'}({name!r})"
            return f"column({name!r}, {qualifier!r})"
        if self._op == "literal":
            return f"lit({self._params[0]!r})"
        name, rest = (self._params[0], self._params[1:]) if self._op == "call" else (self._op, self._params)
        return f"{name}({', '.join([*map(repr, self._args), *map(str, rest)])})"

    # Python operations that cannot build an expression, so they raise an error

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "an expression is not true or false before the join runs: write & for and, | for or, ~ for not (with each "
            "side in parentheses), and (a <= x) & (x <= b) or x.between(a, b) for a <= x <= b"
        )

    def __iter__(self) -> NoReturn:
        raise TypeError("an expression cannot be iterated over; write x.isin([...]) for x in [...]")

    def __contains__(self, other: object) -> NoReturn:
        raise TypeError("'in' does not work on an expression; write x.isin([...]), or s.contains('text')")

    __hash__ = object.__hash__

    # Operators

    def __add__(self, other: Any) -> Expr:
        return _operator("add", self, other)

    def __radd__(self, other: Any) -> Expr:
        return _operator("add", other, self)

    def __sub__(self, other: Any) -> Expr:
        return _operator("sub", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return _operator("sub", other, self)

    def __mul__(self, other: Any) -> Expr:
        return _operator("mul", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return _operator("mul", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _operator("div", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _operator("div", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return _operator("intdiv", self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return _operator("intdiv", other, self)

    def __mod__(self, other: Any) -> Expr:
        return _operator("mod", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return _operator("mod", other, self)

    def __pow__(self, other: Any) -> Expr:
        return function("pow", self, other)

    def __rpow__(self, other: Any) -> Expr:
        return function("pow", other, self)

    def __neg__(self) -> Expr:
        return _operator("neg", self)

    def __pos__(self) -> Expr:
        return self

    def __abs__(self) -> Expr:
        return function("abs", self)

    def __and__(self, other: Any) -> Expr:
        return _operator("and", self, other)

    def __rand__(self, other: Any) -> Expr:
        return _operator("and", other, self)

    def __or__(self, other: Any) -> Expr:
        return _operator("or", self, other)

    def __ror__(self, other: Any) -> Expr:
        return _operator("or", other, self)

    def __invert__(self) -> Expr:
        return _operator("not", self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return _operator("eq", self, _not_none(other))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return _operator("ne", self, _not_none(other))

    def __lt__(self, other: Any) -> Expr:
        return _operator("lt", self, other)

    def __le__(self, other: Any) -> Expr:
        return _operator("le", self, other)

    def __gt__(self, other: Any) -> Expr:
        return _operator("gt", self, other)

    def __ge__(self, other: Any) -> Expr:
        return _operator("ge", self, other)

    # Methods

    def eq_null_safe(self, other: Any) -> Expr:
        """Return ``<=>``: never null, and true for two nulls."""
        return _operator("eq_null_safe", self, other)

    def between(self, low: Any, high: Any) -> Expr:
        """Return ``low <= self <= high``."""
        return _operator("between", self, low, high)

    def isin(self, *values: Any) -> Expr:
        """Return whether the value is one of ``values``, which are given one by one or as one list."""
        items = values[0] if len(values) == 1 and isinstance(values[0], (list, tuple, set, frozenset)) else values
        return _operator("in", self, *items)

    def is_null(self) -> Expr:
        return _operator("is_null", self)

    def is_not_null(self) -> Expr:
        return _operator("not", _operator("is_null", self))

    def is_nan(self) -> Expr:
        return _operator("is_nan", self)

    def cast(self, type: Any) -> Expr:
        """Cast to a type named as in Spark or Arrow (``"bigint"``, ``"timestamp[us, UTC]"``), or to an Arrow type."""
        from ivjoin.expr.types import named

        return Expr("cast", (self,), (named(type),))

    def field(self, name: str) -> Expr:
        """Return a field of a struct."""
        return Expr("field", (self,), (_text("field", name),))

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        from ivjoin.conditions.read.sqlfunctions import FUNCTIONS
        from ivjoin.expr.scope import nearest
        from ivjoin.functions.table import OPERATORS

        if name.startswith("bit_") and name in OPERATORS and name not in FUNCTIONS:
            return lambda *args: _operator(name, self, *args)
        if name.startswith("_") or name.lower() not in FUNCTIONS:
            raise AttributeError(f"an expression has no method {name!r}{nearest(name, FUNCTIONS)}")
        if name.lower() in ("date_trunc", "date_part"):
            # The unit is the first argument of these SQL functions.
            return lambda unit: function(name, unit, self)
        return lambda *args: function(name, self, *args)


def parts(root: Expr) -> Iterator[Expr]:
    """Yield each distinct expression inside ``root`` once. Arguments come before the expression that uses them."""
    seen: set[int] = set()
    stack = [(root, False)]
    while stack:
        e, ready = stack.pop()
        if id(e) in seen:
            continue
        if ready:
            seen.add(id(e))
            yield e
        else:
            stack.append((e, True))
            stack.extend((a, False) for a in reversed(e._args))


class When:
    """An unfinished CASE: ``when(c, v).when(c2, v2).otherwise(w)``."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: tuple[tuple[Any, Any], ...]) -> None:
        self._pairs = pairs

    def when(self, test: Any, value: Any) -> When:
        return When((*self._pairs, (test, value)))

    def otherwise(self, value: Any = None) -> Expr:
        flat = [x for pair in self._pairs for x in pair]
        return _operator("case", *flat, value)


def left(name: str) -> Expr:
    """Return a column of the left input."""
    return Expr("column", (), ("left", _text("left", name)))


def right(name: str) -> Expr:
    """Return a column of the right input."""
    return Expr("column", (), ("right", _text("right", name)))


def column(name: str, of: str | None = None) -> Expr:
    """Return a column that only one input has, or a key. ``of`` is the alias of its input in a join of many inputs."""
    return Expr("column", (), (None if of is None else _text("alias", of), _text("column", name)))


def lit(value: Value | Expr | None) -> Expr:
    """Return a constant: bool, int, float, Decimal, str, bytes, None, date, datetime, time or timedelta."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, When):
        raise TypeError("this CASE is not finished; end it with .otherwise(value)")
    return Expr("literal", (), (value,))


def function(name: str, *args: Any) -> Expr:
    """Return the SQL function ``name`` of the arguments, such as ``function("date_trunc", "day", left("ts"))``."""
    return Expr("call", tuple(lit(a) for a in args), (_text("function", name),))


def _text(what: str, name: Any) -> str:
    if not isinstance(name, str):
        raise ConditionError(f"{what}({came(name)}): expected the name as text")
    return name


def when(test: Any, value: Any) -> When:
    """Return an unfinished CASE with its first branch; ``otherwise`` completes it."""
    return When(((test, value),))


def _operator(op: str, *args: Any) -> Expr:
    return Expr(op, tuple(lit(a) for a in args))


def _not_none(other: Any) -> Any:
    if other is None:
        raise TypeError("a comparison with None is null for every row; write x.is_null() or x.eq_null_safe(y)")
    return other


def _make(e: Expr, args: list[Node], scope: Scope, zone: str) -> Node:
    from ivjoin.expr import build

    op, params = e._op, e._params
    if op == "column":
        return scope.resolve(*params)
    if op == "literal":
        return build.literal(params[0])
    if op == "call":
        from ivjoin.conditions.read.sqlfunctions import call

        return call(params[0], args, zone)
    if op == "cast":
        return build.cast(args[0], params[0], zone)
    if op == "field":
        from ivjoin.expr.build.nested import field

        return field(args[0], params[0])
    if op == "between":
        return build.between(args[0], args[1], args[2], zone)
    from ivjoin.functions.table import OPERATORS

    operator = OPERATORS.get(op)
    if operator is None or operator.build is None:
        raise ConditionError(f"unknown operator {op!r}")
    return operator.build(args, zone)
