"""Conditions on typed intervals: comparisons, IS NULL, COALESCE and IN, with NULL.

A reverse function contracts the arguments to the members for which the wanted truth values can arise. FALSE is "is
FALSE", not "is not TRUE". NaN equals itself and is greater than every number; -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ivjoin.interval import truth
from ivjoin.interval.errors import IntervalError
from ivjoin.interval.machine.pairs import EMPTY, hull, meet
from ivjoin.interval.typed.comparison import OPPOSITE, compared, differ, equal, held, some, unequal
from ivjoin.interval.typed.intervals import DomainInterval, like, of_values, operand, void
from ivjoin.interval.typed.truths import BoolInterval, logical_or, mask_of, of_mask

__all__ = [
    "coalesce", "coalesce_rev", "eq", "eq_rev", "ge", "ge_rev", "gt", "gt_rev", "is_in", "is_in_rev", "is_null",
    "is_null_rev", "le", "le_rev", "lt", "lt_rev", "ne", "ne_rev", "ne_rev_to_pair", "null_safe_eq", "null_safe_eq_rev",
]  # fmt: skip

# Comparisons


def _compared(x: Any, y: Any) -> tuple[DomainInterval, DomainInterval]:
    x, y = operand(x, y), operand(y, x)
    if x.domain != y.domain:
        raise IntervalError(f"{x.domain} and {y.domain} cannot be compared; cast one to the domain of the other")
    return x, y


_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def _comparison(name: str) -> Callable[[Any, Any], BoolInterval]:
    def compare(x: Any, y: Any) -> BoolInterval:
        x, y = _compared(x, y)
        return of_mask(compared(name, x.values, y.values))

    return compare


lt, le, gt, ge = map(_comparison, ("lt", "le", "gt", "ge"))
eq, ne = map(_comparison, ("eq", "ne"))


def _held(name: str, x: DomainInterval, y: DomainInterval) -> DomainInterval:
    """Return the members of ``x`` without NULL that compare so to some member of ``y``."""
    return of_values(x.domain, held(name, x.domain, x.values, y.values))


def _joined(x: DomainInterval, y: DomainInterval) -> DomainInterval:
    return DomainInterval(x.domain, *hull(x.pair, y.pair), x.nan or y.nan, x.null or y.null)


def _side(name: str, wanted: int, x: DomainInterval, y: DomainInterval) -> DomainInterval:
    out = void(x.domain)
    if wanted & truth.TRUE:
        out = _joined(out, _held(name, x, y))
    if wanted & truth.FALSE:
        out = _joined(out, _held(OPPOSITE[name], x, y))
    if wanted & truth.NULL:
        if y.null:
            out = _joined(out, x)
        elif some(y.values):
            out = _joined(out, void(x.domain, null=x.null))
    return out


def _comparison_rev(name: str) -> Callable[..., tuple[DomainInterval, DomainInterval]]:
    def contract(c: BoolInterval, x: Any, y: Any) -> tuple[DomainInterval, DomainInterval]:
        x, y = _compared(x, y)
        wanted = mask_of(c)
        return _side(name, wanted, x, y), _side(_MIRRORED[name], wanted, y, x)

    return contract


lt_rev, le_rev, gt_rev, ge_rev = map(_comparison_rev, ("lt", "le", "gt", "ge"))
eq_rev, ne_rev = map(_comparison_rev, ("eq", "ne"))


def ne_rev_to_pair(y: Any, x: Any) -> tuple[DomainInterval, DomainInterval]:
    """Return the members of ``x`` that differ from some member of ``y``, as up to two intervals, NaN in the last."""
    x, y = _compared(x, y)
    first, second = unequal(x.domain, x.values, y.values)
    nan = x.nan and not y.is_void
    two = second[0] <= second[1]
    return DomainInterval(x.domain, *first, nan and not two), DomainInterval(x.domain, *second, nan and two)


# NULL


def null_safe_eq(x: Any, y: Any) -> BoolInterval:
    """Return ``<=>``: equality for which NULL equals NULL."""
    x, y = _compared(x, y)
    mask = truth.TRUE if equal(x.values, y.values) or (x.null and y.null) else 0
    if differ(x.values, y.values) or (x.null and some(y.values)) or (y.null and some(x.values)):
        mask |= truth.FALSE
    return of_mask(mask)


def null_safe_eq_rev(c: BoolInterval, x: Any, y: Any) -> tuple[DomainInterval, DomainInterval]:
    """Return the members of both for which ``x <=> y`` is in ``c``."""
    x, y = _compared(x, y)
    return _null_safe_side(mask_of(c), x, y), _null_safe_side(mask_of(c), y, x)


def _null_safe_side(wanted: int, x: DomainInterval, y: DomainInterval) -> DomainInterval:
    out = void(x.domain)
    if wanted & truth.TRUE:
        out = _joined(out, _joined(_held("eq", x, y), void(x.domain, null=x.null and y.null)))
    if wanted & truth.FALSE:
        apart = DomainInterval(x.domain, x.lo, x.hi, x.nan) if y.null else _held("ne", x, y)
        out = _joined(out, _joined(apart, void(x.domain, null=x.null and some(y.values))))
    return out


def is_null(x: DomainInterval) -> BoolInterval:
    """Return ``x IS NULL``."""
    return of_mask((truth.TRUE if x.null else 0) | (truth.FALSE if some(x.values) else 0))


def is_null_rev(c: BoolInterval, x: DomainInterval) -> DomainInterval:
    """Return the members of ``x`` for which ``x IS NULL`` is in ``c``."""
    wanted = mask_of(c)
    values = DomainInterval(x.domain, x.lo, x.hi, x.nan) if wanted & truth.FALSE else void(x.domain)
    return _joined(values, void(x.domain, null=x.null and bool(wanted & truth.TRUE)))


def coalesce(*args: Any) -> DomainInterval:
    """Return the first argument that is not NULL; arguments after one without NULL are not evaluated."""
    args = tuple(operand(a, *args) for a in args)
    out = void(args[0].domain)
    for a in args:
        _compared(out, a)
        out = _joined(out, DomainInterval(a.domain, a.lo, a.hi, a.nan))
        if not a.null:
            return out
    return _joined(out, void(out.domain, null=True))


def coalesce_rev(c: DomainInterval, *args: Any) -> tuple[DomainInterval, ...]:
    """Return the members of each argument for which ``coalesce`` can be in ``c``.

    An argument after one that may be a value is unchanged, because it may not be evaluated.
    """
    args = tuple(operand(a, c) for a in args)
    out, looked_at = [], True
    for i, a in enumerate(args):
        taken = DomainInterval(
            a.domain, *(EMPTY if a.is_void or c.is_void else meet(a.pair, c.pair)), a.nan and c.nan
        )  # fmt: skip
        rest = coalesce(*args[i + 1 :]) if i + 1 < len(args) else void(a.domain, null=True)
        passes = a.null and (equal(rest.values, c.values) or (rest.null and c.null))
        out.append(_joined(taken, void(a.domain, null=passes)) if looked_at else a)
        if looked_at and not some(out[-1].values) and not out[-1].null:  # no argument is possible
            return tuple(void(other.domain) for other in args)
        # Later arguments matter only if this one is certainly NULL.
        looked_at = looked_at and not some(out[-1].values)
    return tuple(out)


def is_in(x: Any, items: Iterable[Any]) -> BoolInterval:
    """Return ``x IN (items)``; an item None, or an item with NULL, turns FALSE into NULL."""
    return logical_or(*(eq(x, like(item, operand(x).domain)) for item in items))


def is_in_rev(c: BoolInterval, x: Any, items: Iterable[Any]) -> DomainInterval:
    """Return the members of ``x`` for which ``x IN (items)`` is in ``c``; for TRUE, the hull of matching items."""
    x = operand(x)
    items = [like(item, x.domain) for item in items]
    wanted, out = mask_of(c), void(x.domain)
    if not items:
        return x if wanted & truth.FALSE else out
    if wanted & truth.TRUE:
        for item in items:
            out = _joined(out, _held("eq", x, item))
    if wanted & truth.FALSE and not any(item.null and not some(item.values) for item in items):
        left = DomainInterval(x.domain, x.lo, x.hi, x.nan)
        # Each item with one value cuts it off an end, repeatedly while an item is at the end.
        for _ in items:
            for item in items:
                left = _held("ne", left, item)
        out = _joined(out, left)
    if wanted & truth.NULL:
        has_null = any(item.null for item in items)
        out = _joined(out, x if has_null else void(x.domain, null=x.null))
    return out
