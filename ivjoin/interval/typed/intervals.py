"""Intervals of integers, decimals, dates and times, and of floats as the machine computes with them.

A `DomainInterval` encloses what an engine computes under ANSI. Ints and decimals are exact, and results are clipped to
the domain, because a value outside is an error. Floats round to nearest and overflow to infinities, which are members.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NoReturn

from ivjoin.errors import came
from ivjoin.interval.errors import IntervalError
from ivjoin.interval.machine.domains import domain, physical, shown
from ivjoin.interval.machine.operation import NAN, NULL, Values, result, result_of_two
from ivjoin.interval.machine.pairs import EMPTY, Pair
from ivjoin.interval.machine.types import Type
from ivjoin.interval.reals.bare import ENTIRE, Interval
from ivjoin.interval.typed.operators import binary, unary

__all__ = [
    "DomainInterval", "beside", "entire", "given", "interval", "like", "of_one", "of_two", "of_values", "operand",
    "void",
]  # fmt: skip

_INFINITY = float("inf")


class DomainInterval:
    """A set of values of a domain: all between two bounds, both included, and perhaps NULL and NaN.

    Immutable and hashable; made by `interval`. ``==`` compares sets.

    Attributes
    ----------
    domain : Type
    inf, sup : int, float, Decimal, date, datetime, timedelta or time
        The least and the greatest value, rounded outward if Python's type is coarser (nanoseconds). None if Python
        cannot represent the value; +inf and -inf if the set has no values.
    lo, hi : int or float
        The same as physical values (days, ticks, unscaled integers); ``(1, 0)`` if the set has no values.
    null, nan : bool
        Whether NULL, or NaN, is a member.

    Examples
    --------
    >>> interval("int8", 100, 120) + interval("int8", 5, 10)
    interval('int8', 105, 127)
    """

    __slots__ = ("domain", "hi", "lo", "nan", "null")

    __array_ufunc__ = None

    domain: Type
    lo: Any
    hi: Any
    nan: bool
    null: bool

    def __init__(self, domain: Type, lo: Any, hi: Any, nan: bool = False, null: bool = False) -> None:
        _set = object.__setattr__
        if lo > hi:
            lo, hi = EMPTY
        elif domain.kind == "float":
            lo, hi = lo + 0.0, hi + 0.0
        _set(self, "domain", domain)
        _set(self, "lo", lo)
        _set(self, "hi", hi)
        _set(self, "nan", bool(nan) and domain.kind == "float")
        _set(self, "null", bool(null))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a DomainInterval is immutable; build another instead of setting {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a DomainInterval is immutable; {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return DomainInterval, (self.domain, self.lo, self.hi, self.nan, self.null)

    @property
    def pair(self) -> Pair:
        """Return the physical bounds."""
        return self.lo, self.hi

    @property
    def values(self) -> Values:
        """Return the physical bounds, and NULL and NaN as bits."""
        return self.lo, self.hi, self.null * NULL | self.nan * NAN

    @property
    def is_void(self) -> bool:
        """Return whether there is no value between bounds; NULL and NaN may still be members."""
        return bool(self.lo > self.hi)

    @property
    def inf(self) -> Any:
        return _INFINITY if self.lo > self.hi else shown(self.domain, self.lo, False)

    @property
    def sup(self) -> Any:
        return -_INFINITY if self.lo > self.hi else shown(self.domain, self.hi, True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DomainInterval):
            return NotImplemented
        return (self.domain, self.lo, self.hi, self.nan, self.null) == (
            other.domain, other.lo, other.hi, other.nan, other.null
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.domain, self.lo, self.hi, self.nan, self.null))

    def __contains__(self, value: Any) -> bool:
        """Return whether a value is a member; None is NULL. A number outside the domain is not a member."""
        if value is None:
            return self.null
        if isinstance(value, float) and value != value:
            return self.nan
        low, high = physical(self.domain, value, True), physical(self.domain, value, False)
        return bool(low == high and self.lo <= low <= self.hi)

    def __repr__(self) -> str:
        marks = "".join(f", {n}=True" for n, there in (("nan", self.nan), ("null", self.null)) if there)
        if self.is_void:
            return f"interval({str(self.domain)!r}, empty=True{marks})"
        inf, sup = (self.lo if self.inf is None else self.inf), (self.hi if self.sup is None else self.sup)
        return f"interval({str(self.domain)!r}, {inf!r}, {sup!r}{marks})"

    def __add__(self, other: Any) -> DomainInterval:
        return of_two("add", self, other)

    def __radd__(self, other: Any) -> DomainInterval:
        return of_two("add", other, self)

    def __sub__(self, other: Any) -> DomainInterval:
        return of_two("sub", self, other)

    def __rsub__(self, other: Any) -> DomainInterval:
        return of_two("sub", other, self)

    def __mul__(self, other: Any) -> DomainInterval:
        return of_two("mul", self, other)

    def __rmul__(self, other: Any) -> DomainInterval:
        return of_two("mul", other, self)

    def __neg__(self) -> DomainInterval:
        return of_one("neg", self)

    def __pos__(self) -> DomainInterval:
        return self

    def __abs__(self) -> DomainInterval:
        return of_one("abs", self)


def interval(
    domain: str | Type,
    inf: Any = None,
    sup: Any = None,
    *,
    closed: str = "both",
    nan: bool | None = None,
    null: bool = False,
    empty: bool = False,
) -> DomainInterval:
    """Return the values of a domain between two bounds.

    Parameters
    ----------
    domain : str
        Such as ``int8``, ``uint64``, ``float32``, ``decimal(10, 2)``, ``date``, ``timestamp[us]``, ``duration[us]``,
        ``months``; `domain` lists all names.
    inf, sup : number, date, datetime, timedelta, time or None
        The bounds. None is the limit of the domain. A bound between two values, or beyond the limits, moves inside.
    closed : {"both", "left", "right", "neither"}
        Which bounds belong to the set. An open bound moves to the next value inside, also for floats.
    nan : bool, optional
        Whether NaN, which is greater than every number, is a member. By default it is unless ``sup`` is given.
    null : bool
        Whether NULL is a member.
    empty : bool
        Whether the set has no values besides NaN and NULL.

    Raises
    ------
    IntervalError
        For an unknown domain, NaN as a bound, or ``inf`` above ``sup``.
    IntervalTypeError
        For a bound whose type does not fit the domain; also a TypeError.

    Examples
    --------
    >>> interval("int8", 0, 1000, closed="neither")
    interval('int8', 1, 127)
    """
    d = _domain(domain)
    if not isinstance(closed, str) or closed not in ("both", "left", "right", "neither"):
        raise IntervalError(f"closed is {came(closed)}; expected 'both', 'left', 'right' or 'neither'")
    if nan and d.kind != "float":
        raise IntervalError(f"nan is True for {d}, which has no NaN; pass nan=True only for float domains")
    holds_nan = (sup is None and d.kind == "float" and not empty) if nan is None else nan
    if empty:
        return DomainInterval(d, *EMPTY, holds_nan, null)
    lo, hi = d.limits
    if inf is not None:
        least = physical(d, inf, True) if closed in ("both", "left") else _above(d, physical(d, inf, False))
        lo = least if least != least else max(lo, least)
    if sup is not None:
        most = physical(d, sup, False) if closed in ("both", "right") else -_above(d, -physical(d, sup, True))
        hi = most if most != most else min(hi, most)
    if lo != lo or hi != hi:  # no number is above inf or below -inf
        return DomainInterval(d, *EMPTY, holds_nan, null)
    # A range between two neighbouring values is empty and valid; bounds in the wrong order are an error.
    if lo > hi and inf is not None and sup is not None and physical(d, inf, False) > physical(d, sup, True):
        raise IntervalError(
            f"interval({str(d)!r}, {came(inf)}, {came(sup)}): inf may not exceed sup; did you mean "
            f"interval({str(d)!r}, {came(sup)}, {came(inf)})? (the empty set is interval({str(d)!r}, empty=True))"
        )
    return DomainInterval(d, lo, hi, holds_nan, null)


_domain = domain


def _above(d: Type, value: Any) -> Any:
    """Return the least value above another; NaN above infinity, as in the order."""
    if d.kind != "float":
        return value + 1
    return float("nan") if value == _INFINITY else d.format.up(value)


def entire(domain: str | Type, null: bool = False) -> DomainInterval:
    """Return all values of a domain, NaN too."""
    d = _domain(domain)
    return DomainInterval(d, *d.limits, d.kind == "float", null)


def void(d: Type, nan: bool = False, null: bool = False) -> DomainInterval:
    """Return a set without values besides NULL and NaN."""
    return DomainInterval(d, *EMPTY, nan, null)


def of_values(d: Type, values: Values) -> DomainInterval:
    """Return a set from its physical bounds and bits."""
    lo, hi, flags = values
    return DomainInterval(d, lo, hi, bool(flags & NAN), bool(flags & NULL))


def like(value: Any, d: Type) -> DomainInterval:
    """Return a typed interval as it is, or the interval of one value of a domain, NULL (None) included."""
    if isinstance(value, DomainInterval):
        return value
    if isinstance(value, Interval):
        raise TypeError(
            f"an Interval of reals cannot be combined with an interval of {d}; use interval('float64', ...) instead"
        )
    if value is None:
        return void(d, null=True)
    if isinstance(value, float) and value != value and d.kind == "float":
        return void(d, nan=True)
    low, high = physical(d, value, True), physical(d, value, False)
    if low != high or not d.limits[0] <= low <= d.limits[1]:
        raise IntervalError(f"{value!r} is not a value of {d}; cast the interval to a domain that has it first")
    return DomainInterval(d, low, high)


def operand(value: Any, *others: Any) -> DomainInterval:
    """Return a typed interval as it is, or a plain value in the domain of the first typed argument."""
    if isinstance(value, DomainInterval):
        return value
    for other in others:
        if isinstance(other, DomainInterval):
            return like(value, other.domain)
    raise TypeError(
        f"expected an Interval or a typed interval such as interval('int8', 1, 5), got {type(value).__name__}"
    )


def given(x: Any, *others: Any) -> Any:
    """Return an optional argument; all values of the domain of the other arguments if it is absent."""
    return entire(operand(*others).domain, null=True) if x is None or x is ENTIRE else x


def of_one(name: str, x: Any, *fixed: Any) -> DomainInterval:
    """Return the results of an operator of one argument, given by its name in ``operators.py``."""
    x = operand(x)
    op = unary(name, x.domain, *fixed)
    return of_values(op.domain, result(op, x.values))


_DAYS, _FACTOR = Type("int", 32), Type("int", 64)


def beside(name: str, value: Any, other: Any) -> DomainInterval:
    """Return an operand; next to a time, a plain int is a number of days or a factor, and a timedelta a duration."""
    if not isinstance(value, DomainInterval) and isinstance(other, DomainInterval):
        d = other.domain
        if isinstance(value, int) and d.kind == "date" and name in ("add", "sub"):
            return like(value, _DAYS)
        if isinstance(value, int) and d.kind in ("duration", "months") and name == "mul":
            return like(value, _FACTOR)
        if isinstance(value, timedelta) and d.kind == "timestamp":
            return like(value, Type("duration", unit=d.unit))
    return operand(value, other)


def of_two(name: str, x: Any, y: Any) -> DomainInterval:
    """Return the results of an operator of two arguments, given by its name in ``operators.py``."""
    x, y = beside(name, x, y), beside(name, y, x)
    op = binary(name, x.domain, y.domain)
    return of_values(op.domain, result_of_two(op, x.values, y.values))
