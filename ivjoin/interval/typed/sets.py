"""Sets, relations and numbers of typed intervals, under the names that IEEE 1788 has for intervals of reals.

NULL and NaN are members. `less`, `precedes` and their strict forms consider only the values between bounds. Domains are
discrete, so a set is interior to another if they share no end, except a limit of the domain.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf as INF
from math import nan as NAN
from typing import Any

from ivjoin.interval.errors import IntervalError
from ivjoin.interval.machine.domains import shown
from ivjoin.interval.machine.pairs import EMPTY, hull, meet
from ivjoin.interval.reals import numeric, relations
from ivjoin.interval.reals.bare import make
from ivjoin.interval.typed.intervals import DomainInterval, operand

__all__ = [
    "contains", "convex_hull", "disjoint", "equal", "inf", "interior", "intersection", "is_common_interval", "is_empty",
    "is_entire", "is_member", "is_singleton", "less", "mag", "mid", "mig", "overlap", "precedes", "strict_less",
    "strict_precedes", "subset", "sup", "wid",
]  # fmt: skip


def _both(x: Any, y: Any) -> tuple[DomainInterval, DomainInterval]:
    x, y = operand(x, y), operand(y, x)
    if x.domain != y.domain:
        raise IntervalError(
            f"the domains are {x.domain} and {y.domain}; expected the same one. Cast one interval to the other's domain"
        )
    return x, y


def intersection(x: Any, y: Any) -> DomainInterval:
    x, y = _both(x, y)
    pair = EMPTY if x.is_void or y.is_void else meet(x.pair, y.pair)
    return DomainInterval(x.domain, *pair, x.nan and y.nan, x.null and y.null)


def convex_hull(x: Any, y: Any) -> DomainInterval:
    x, y = _both(x, y)
    return DomainInterval(x.domain, *hull(x.pair, y.pair), x.nan or y.nan, x.null or y.null)


def is_empty(x: DomainInterval) -> bool:
    return x.is_void and not x.nan and not x.null


def is_entire(x: DomainInterval) -> bool:
    return x.pair == x.domain.limits


def is_singleton(x: DomainInterval) -> bool:
    """Return whether there is exactly one member, which may be NULL or NaN."""
    return (x.lo == x.hi) + x.nan + x.null == 1 and (x.is_void or x.lo == x.hi)


def is_common_interval(x: DomainInterval) -> bool:
    return not x.is_void and abs(x.lo) != INF and abs(x.hi) != INF


def contains(x: DomainInterval, value: Any) -> bool:
    return value in x


def is_member(value: Any, x: DomainInterval) -> bool:
    return value in x


def equal(x: Any, y: Any) -> bool:
    x, y = _both(x, y)
    return x == y


def _flags_within(x: DomainInterval, y: DomainInterval) -> bool:
    return (y.nan or not x.nan) and (y.null or not x.null)


def subset(x: Any, y: Any) -> bool:
    x, y = _both(x, y)
    return _flags_within(x, y) and (x.is_void or (y.lo <= x.lo and x.hi <= y.hi))


def interior(x: Any, y: Any) -> bool:
    x, y = _both(x, y)
    least, most = x.domain.limits
    inside = x.is_void or ((y.lo < x.lo or y.lo == least) and (x.hi < y.hi or y.hi == most))
    return _flags_within(x, y) and inside and not (y.is_void and not x.is_void)


def disjoint(x: Any, y: Any) -> bool:
    return is_empty(intersection(x, y))


def strict_less(x: Any, y: Any) -> bool:
    x, y = _both(x, y)
    if x.is_void or y.is_void:
        return x.is_void and y.is_void
    return bool(x.lo < y.lo and x.hi < y.hi)


class _Ends:
    """The bounds of a typed interval in the attributes that the relations of reals read."""

    __slots__ = ("inf", "sup")

    inf: Any
    sup: Any

    def __init__(self, x: DomainInterval) -> None:
        self.inf, self.sup = (INF, -INF) if x.is_void else x.pair


def _by_ends(relation: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return a relation of reals for typed intervals, by the values between bounds."""

    def holds(x: Any, y: Any) -> Any:
        x, y = _both(x, y)
        return relation(_Ends(x), _Ends(y))

    return holds


less, overlap = _by_ends(relations.less), _by_ends(relations.overlap)
precedes, strict_precedes = _by_ends(relations.precedes), _by_ends(relations.strict_precedes)


def inf(x: DomainInterval) -> Any:
    return x.inf


def sup(x: DomainInterval) -> Any:
    return x.sup


def mid(x: DomainInterval) -> Any:
    """Return the middle value, the lower of two; for floats like `Interval`. NaN for a set without values."""
    if x.is_void:
        return NAN
    if x.domain.is_float:
        top = x.domain.format.max
        if x.lo == x.hi:
            return x.lo
        if x.lo == -INF or x.hi == INF:
            return 0.0 if x.lo == -INF and x.hi == INF else top if x.hi == INF else -top
        return x.domain.format.near(numeric.mid(make(x.lo, x.hi)))
    return shown(x.domain, (x.lo + x.hi) // 2, False)


def wid(x: DomainInterval) -> Any:
    """Return the width: a Decimal for decimals, days or ticks for times, rounded up for floats; NaN if void."""
    if x.is_void:
        return NAN
    if x.domain.is_float:
        if x.lo == x.hi:
            return 0.0
        return INF if x.hi - x.lo == INF else x.domain.format.ceil(numeric.wid(make(x.lo, x.hi)))
    return shown(x.domain, x.hi - x.lo, True) if x.domain.kind == "decimal" else x.hi - x.lo


def _signed(x: DomainInterval, name: str) -> None:
    if x.domain.kind in ("date", "timestamp", "time"):
        raise IntervalError(f"{name} is not defined for {x.domain}, which has no zero; expected a number or a duration")


def mag(x: DomainInterval) -> Any:
    """Return the largest magnitude of the values; NaN for a set without values."""
    _signed(x, "mag")
    return NAN if x.is_void else shown(x.domain, max(-x.lo, x.hi), True)


def mig(x: DomainInterval) -> Any:
    """Return the smallest magnitude of the values; NaN for a set without values."""
    _signed(x, "mig")
    return NAN if x.is_void else shown(x.domain, x.lo if x.lo > 0 else -x.hi if x.hi < 0 else 0, False)
