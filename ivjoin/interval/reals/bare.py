"""The interval type: closed, connected sets of reals with double endpoints (IEEE 1788-2015, clauses 10.2 and 12.2)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import inf as INF
from math import isnan, nan
from typing import Any, NoReturn, SupportsFloat

from ivjoin.errors import came
from ivjoin.interval.errors import IntervalError, IntervalTypeError, tamed
from ivjoin.interval.machine.rounding import ratio
from ivjoin.interval.reals import endpoints

__all__ = ["EMPTY", "ENTIRE", "Interval", "as_interval", "make"]


def _plain(number: Any) -> Any:
    """Return a number as one of Python's own types, without changing its value."""
    if not isinstance(number, _NUMBERS) and hasattr(number, "item") and not getattr(number, "shape", ()):
        number = number.item()  # a numpy scalar, whose own comparisons would round a double to its type
    if isinstance(number, Decimal):
        return tamed(number) if number.is_finite() else nan if number.is_nan() else number
    if isinstance(number, _NUMBERS):
        return number
    raise IntervalTypeError(
        f"an interval contains real numbers (int, float, Fraction, Decimal); got {came(number)}, "
        f"a {type(number).__name__}"
    )


_NUMBERS = (int, float, Fraction, Decimal)


def _outward(number: Any, up: bool) -> float:
    """Return the nearest double not below (`up`) or not above `number`."""
    if type(number) is float:
        return number
    if type(number) is int and -9007199254740992 <= number <= 9007199254740992:  # up to 2**53 an int is a double
        return float(number)
    number = _plain(number)
    if isinstance(number, float) or (isinstance(number, Decimal) and not number.is_finite()):
        return float(number)
    numerator, denominator = number.as_integer_ratio()
    return ratio(numerator, denominator, up)


class Interval:
    """The immutable, hashable set of the real numbers between `inf` and `sup`, both included.

    An infinite endpoint means that the set is unbounded on that side; infinities are not members. `EMPTY` has `inf` =
    +inf and `sup` = -inf.

    Parameters
    ----------
    inf, sup : int, float, Fraction or Decimal
        The endpoints. A number that is not a double is rounded outward.

    Raises
    ------
    IntervalError
        If ``inf > sup``, if either is NaN, if `inf` is +inf or if `sup` is -inf.
    IntervalTypeError
        If an endpoint is not a real number; also a TypeError.

    Examples
    --------
    >>> Interval(1, 2) + Interval(0.5, 0.5)
    Interval(1.5, 2.5)
    >>> 2**53 + 1 in Interval(2**53 + 1, 2**53 + 1)
    True
    """

    __slots__ = ("inf", "sup")

    __array_ufunc__ = None  # so that numpy leaves `np.float64(2) * interval` to this class

    inf: float
    sup: float

    def __init__(self, inf: SupportsFloat, sup: SupportsFloat) -> None:
        lo, hi = _outward(inf, False), _outward(sup, True)
        if not lo <= hi or lo == INF or hi == -INF or not (type(inf) is type(sup) is float or _in_order(inf, sup)):
            raise IntervalError(_complaint(inf, sup, isnan(lo) or isnan(hi), lo == INF or hi == -INF))
        _set_inf(self, lo + 0.0)
        _set_sup(self, hi + 0.0)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an Interval is immutable; build another instead of setting {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"an Interval is immutable; {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[Any, tuple[float, float]]:
        return make, (self.inf, self.sup)

    def __repr__(self) -> str:
        if self.inf > self.sup:
            return "EMPTY"
        return f"Interval({self.inf!r}, {self.sup!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Interval):
            return NotImplemented
        return self.inf == other.inf and self.sup == other.sup

    def __hash__(self) -> int:
        return hash((self.inf, self.sup))

    def __contains__(self, number: Any) -> bool:
        """Return whether a real number lies in the set; infinities and NaN lie in none."""
        number = _plain(number)
        if isinstance(number, Decimal) and not number.is_finite():
            return False
        return bool(self.inf <= number <= self.sup) and number not in (INF, -INF)

    def __add__(self, other: Any) -> Interval:
        return _of_two(endpoints.add, self, other)

    def __radd__(self, other: Any) -> Interval:
        return _of_two(endpoints.add, other, self)

    def __sub__(self, other: Any) -> Interval:
        return _of_two(endpoints.sub, self, other)

    def __rsub__(self, other: Any) -> Interval:
        return _of_two(endpoints.sub, other, self)

    def __mul__(self, other: Any) -> Interval:
        return _of_two(endpoints.mul, self, other)

    def __rmul__(self, other: Any) -> Interval:
        return _of_two(endpoints.mul, other, self)

    def __truediv__(self, other: Any) -> Interval:
        return _of_two(endpoints.div, self, other)

    def __rtruediv__(self, other: Any) -> Interval:
        return _of_two(endpoints.div, other, self)

    def __neg__(self) -> Interval:
        return make(-self.sup, -self.inf)

    def __pos__(self) -> Interval:
        return self

    def __abs__(self) -> Interval:
        if self.inf >= 0.0:
            return self
        return -self if self.sup <= 0.0 else make(0.0, max(-self.inf, self.sup))


_new = Interval.__new__
_set_inf = Interval.__dict__["inf"].__set__
_set_sup = Interval.__dict__["sup"].__set__


def _in_order(inf: Any, sup: Any) -> bool:
    """Return whether `inf` is at most `sup` before rounding, which can put 2**53 + 1 and 2**53 in order."""
    inf, sup = _plain(inf), _plain(sup)
    if {type(inf), type(sup)} == {Decimal, Fraction}:  # Python does not compare these
        inf, sup = Fraction(inf), Fraction(sup)
    return bool(inf <= sup)


def _complaint(inf: Any, sup: Any, has_nan: bool, has_wrong_infinity: bool) -> str:
    if has_nan:
        reason = "an endpoint may not be NaN"
    elif has_wrong_infinity:
        reason = "an interval contains only real numbers: inf cannot be +inf, and sup cannot be -inf"
    else:
        reason = f"inf may not exceed sup; did you mean Interval({came(sup)}, {came(inf)})?"
    return f"Interval({came(inf)}, {came(sup)}): {reason} (the empty set is ivjoin.interval.EMPTY)"


def make(inf: float, sup: float) -> Interval:
    """Return an interval from two doubles that are known to be in order; the fast path for results of operations."""
    interval = _new(Interval)
    _set_inf(interval, inf + 0.0)  # -0.0 becomes 0.0, so that one set has one form
    _set_sup(interval, sup + 0.0)
    return interval


EMPTY: Interval = make(INF, -INF)
ENTIRE: Interval = make(-INF, INF)


def as_interval(value: Any) -> Interval:
    """Return an interval unchanged, or the narrowest interval that contains a number."""
    return value if isinstance(value, Interval) else Interval(value, value)


def _is_operand(value: Any) -> bool:
    return isinstance(value, _OPERANDS) or hasattr(value, "item")


_OPERANDS = (Interval, *_NUMBERS)


def _of_two(function: Callable[..., tuple[float, float]], x: Any, y: Any) -> Interval:
    """Apply a function of endpoints to two operands; one of them may be a number."""
    if not (_is_operand(x) and _is_operand(y)):
        return NotImplemented
    x, y = as_interval(x), as_interval(y)
    return make(*function(x.inf, x.sup, y.inf, y.sup))
