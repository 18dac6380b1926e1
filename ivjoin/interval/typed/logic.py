"""Boolean intervals with NULL: comparisons of typed intervals, IS NULL, IN, AND, OR, NOT.

A `BoolInterval` is a set of TRUE, FALSE and NULL. The empty one means that every member raises an error. A reverse
function contracts the arguments to the members for which the wanted truth values can arise. FALSE is "is FALSE", not
"is not TRUE". NaN equals itself and is greater than every number; -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ivjoin.interval.errors import IntervalError
from ivjoin.interval.machine import truth
from ivjoin.interval.machine.operation import NONE, Pair, clipped, union
from ivjoin.interval.machine.types import Type
from ivjoin.interval.typed.intervals import DomainInterval, like, operand, void

__all__ = [
    "BoolInterval", "coalesce", "coalesce_rev", "eq", "eq_rev", "ge", "ge_rev", "gt", "gt_rev", "is_in", "is_in_rev",
    "is_null", "is_null_rev", "le", "le_rev", "logical_and", "logical_and_rev", "logical_not", "logical_not_rev",
    "logical_or", "logical_or_rev", "lt", "lt_rev", "ne", "ne_rev", "ne_rev_to_pair", "null_safe_eq",
    "null_safe_eq_rev",
]  # fmt: skip

_NAMES = ((truth.TRUE, True, "True"), (truth.FALSE, False, "False"), (truth.NULL, None, "None"))


class BoolInterval:
    """A set of truth values.

    Parameters
    ----------
    members : iterable of True, False and None
        None is NULL.

    Attributes
    ----------
    mask : int
        The bits 1 (TRUE), 2 (FALSE) and 4 (NULL).
    may_be_true, may_be_false, null : bool
    """

    __slots__ = ("mask",)

    mask: int

    def __init__(self, *members: bool | None) -> None:
        mask = 0
        for bit, value, _ in _NAMES:
            mask |= bit if any(m is value for m in members) else 0
        if any(m is not True and m is not False and m is not None for m in members):
            raise TypeError(f"the members of a BoolInterval are {members!r}; expected True, False and None")
        object.__setattr__(self, "mask", mask)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a BoolInterval is immutable; build another instead of setting {name!r}")

    def __reduce__(self) -> tuple[Any, tuple[bool | None, ...]]:
        return BoolInterval, self.members

    @property
    def members(self) -> tuple[bool | None, ...]:
        return tuple(value for bit, value, _ in _NAMES if self.mask & bit)

    @property
    def may_be_true(self) -> bool:
        return bool(self.mask & truth.TRUE)

    @property
    def may_be_false(self) -> bool:
        return bool(self.mask & truth.FALSE)

    @property
    def null(self) -> bool:
        return bool(self.mask & truth.NULL)

    def __contains__(self, value: bool | None) -> bool:
        return any(value is m for m in self.members)

    def __eq__(self, other: object) -> bool:
        return self.mask == other.mask if isinstance(other, BoolInterval) else NotImplemented

    def __hash__(self) -> int:
        return hash(("BoolInterval", self.mask))

    def __repr__(self) -> str:
        return f"BoolInterval({', '.join(n for bit, _, n in _NAMES if self.mask & bit)})"


def _of(mask: int) -> BoolInterval:
    return BoolInterval(*(value for bit, value, _ in _NAMES if mask & bit))


def _mask(x: Any) -> int:
    return x.mask if isinstance(x, BoolInterval) else BoolInterval(x).mask


# Connectives


def logical_not(x: BoolInterval) -> BoolInterval:
    """Return NOT of the argument."""
    return _of(truth.not_(_mask(x)))


_ANY = BoolInterval(True, False, None)


def logical_not_rev(c: BoolInterval, x: BoolInterval = _ANY) -> BoolInterval:
    """Return the members of ``x`` whose negation is in ``c``."""
    return _of(truth.not_(_mask(c)) & _mask(x))


def logical_and(*args: BoolInterval) -> BoolInterval:
    """Return AND of the arguments from left to right."""
    return _of(truth.and_(map(_mask, args)))


def logical_or(*args: BoolInterval) -> BoolInterval:
    """Return OR of the arguments from left to right."""
    return _of(truth.or_(map(_mask, args)))


def _connective_rev(forward: Callable[..., BoolInterval]) -> Callable[..., tuple[BoolInterval, ...]]:
    def backward(c: BoolInterval, *args: BoolInterval) -> tuple[BoolInterval, ...]:
        wanted, out = _mask(c), [0] * len(args)
        # By truth tables: for each argument, the values with which the others can still give a wanted one. An argument
        # that raises an error may follow one that decides; then any value of it is possible.
        for i, arg in enumerate(args):
            for value in arg.members:
                others = [BoolInterval(value) if j == i else a for j, a in enumerate(args)]
                out[i] |= BoolInterval(value).mask if forward(*others).mask & wanted else 0
        return tuple(map(_of, out))

    return backward


logical_and_rev = _connective_rev(logical_and)
logical_or_rev = _connective_rev(logical_or)


# Comparisons


def _compared(x: Any, y: Any) -> tuple[DomainInterval, DomainInterval]:
    x, y = operand(x, y), operand(y, x)
    if x.domain != y.domain:
        raise IntervalError(f"{x.domain} and {y.domain} cannot be compared; cast one to the domain of the other")
    return x, y


def _some(x: DomainInterval) -> bool:
    return x.nan or not x.is_void


def _less(x: DomainInterval, y: DomainInterval) -> bool:
    """Return whether a member of ``x`` can be below one of ``y``."""
    return (not x.is_void and y.nan) or (not x.is_void and not y.is_void and x.lo < y.hi)


def _equal(x: DomainInterval, y: DomainInterval) -> bool:
    return (x.nan and y.nan) or (not x.is_void and not y.is_void and x.lo <= y.hi and y.lo <= x.hi)


def _differ(x: DomainInterval, y: DomainInterval) -> bool:
    return _less(x, y) or _less(y, x)


_TESTS: dict[str, Callable[[DomainInterval, DomainInterval], bool]] = {
    "lt": _less, "gt": lambda x, y: _less(y, x), "eq": _equal, "ne": _differ,
    "le": lambda x, y: _less(x, y) or _equal(x, y), "ge": lambda x, y: _less(y, x) or _equal(x, y),
}  # fmt: skip
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def _comparison(name: str) -> Callable[[Any, Any], BoolInterval]:
    def compare(x: Any, y: Any) -> BoolInterval:
        x, y = _compared(x, y)
        mask = truth.TRUE if _TESTS[name](x, y) else 0
        mask |= truth.FALSE if _TESTS[_OPPOSITE[name]](x, y) else 0
        if (x.null and (_some(y) or y.null)) or (y.null and _some(x)):
            mask |= truth.NULL
        return _of(mask)

    return compare


lt, le, gt, ge = map(_comparison, ("lt", "le", "gt", "ge"))
eq, ne = map(_comparison, ("eq", "ne"))


def _neighbour(d: Type, value: Any, up: bool) -> Any:
    """Return the next value of a domain; None beyond its end."""
    if value == d.limits[1 if up else 0]:
        return None
    if d.kind == "float":
        return d.format.up(value) if up else d.format.down(value)
    return value + 1 if up else value - 1


def _held(name: str, x: DomainInterval, y: DomainInterval) -> DomainInterval:
    """Return the members of ``x`` without NULL that compare so to some member of ``y``."""
    d, (lo, hi) = x.domain, x.pair
    if name in ("lt", "le"):
        if y.nan:
            return DomainInterval(d, lo, hi, x.nan and name == "le")
        top = None if y.is_void else y.hi if name == "le" else _neighbour(d, y.hi, False)
        return void(d) if top is None or x.is_void else DomainInterval(d, *clipped((lo, top), (lo, hi)))
    if name in ("gt", "ge"):
        if y.is_void:
            return void(d, nan=x.nan and y.nan and name == "ge")
        low = y.lo if name == "ge" else _neighbour(d, y.lo, True)
        return DomainInterval(d, *(NONE if low is None or x.is_void else clipped((low, hi), (lo, hi))), nan=x.nan)
    if name == "eq":
        return DomainInterval(d, *(NONE if x.is_void or y.is_void else clipped((lo, hi), y.pair)), nan=x.nan and y.nan)
    first, second = _pieces_unequal(x, y)
    return DomainInterval(d, *union(first, second), nan=x.nan and not y.is_void)


def _pieces_unequal(x: DomainInterval, y: DomainInterval) -> tuple[Pair, Pair]:
    if x.is_void or not _some(y):
        return NONE, NONE
    if y.nan or y.lo != y.hi or not x.lo <= y.lo <= x.hi:
        return x.pair, NONE
    d = x.domain
    below, above = _neighbour(d, y.lo, False), _neighbour(d, y.lo, True)
    first = NONE if below is None else clipped((x.lo, below), x.pair)
    second = NONE if above is None else clipped((above, x.hi), x.pair)
    return (second, NONE) if first[0] > first[1] else (first, second)


def _joined(x: DomainInterval, y: DomainInterval) -> DomainInterval:
    return DomainInterval(x.domain, *union(x.pair, y.pair), x.nan or y.nan, x.null or y.null)


def _side(name: str, wanted: int, x: DomainInterval, y: DomainInterval) -> DomainInterval:
    out = void(x.domain)
    if wanted & truth.TRUE:
        out = _joined(out, _held(name, x, y))
    if wanted & truth.FALSE:
        out = _joined(out, _held(_OPPOSITE[name], x, y))
    if wanted & truth.NULL:
        if y.null:
            out = _joined(out, x)
        elif _some(y):
            out = _joined(out, void(x.domain, null=x.null))
    return out


def _comparison_rev(name: str) -> Callable[..., tuple[DomainInterval, DomainInterval]]:
    def contract(c: BoolInterval, x: Any, y: Any) -> tuple[DomainInterval, DomainInterval]:
        x, y = _compared(x, y)
        wanted = _mask(c)
        return _side(name, wanted, x, y), _side(_MIRRORED[name], wanted, y, x)

    return contract


lt_rev, le_rev, gt_rev, ge_rev = map(_comparison_rev, ("lt", "le", "gt", "ge"))
eq_rev, ne_rev = map(_comparison_rev, ("eq", "ne"))


def ne_rev_to_pair(y: Any, x: Any) -> tuple[DomainInterval, DomainInterval]:
    """Return the members of ``x`` that differ from some member of ``y``, as up to two intervals, NaN in the last."""
    x, y = _compared(x, y)
    first, second = _pieces_unequal(x, y)
    nan = x.nan and not y.is_void
    two = second[0] <= second[1]
    return DomainInterval(x.domain, *first, nan and not two), DomainInterval(x.domain, *second, nan and two)


# NULL


def null_safe_eq(x: Any, y: Any) -> BoolInterval:
    """Return ``<=>``: equality for which NULL equals NULL."""
    x, y = _compared(x, y)
    mask = truth.TRUE if _equal(x, y) or (x.null and y.null) else 0
    if _differ(x, y) or (x.null and _some(y)) or (y.null and _some(x)):
        mask |= truth.FALSE
    return _of(mask)


def null_safe_eq_rev(c: BoolInterval, x: Any, y: Any) -> tuple[DomainInterval, DomainInterval]:
    """Return the members of both for which ``x <=> y`` is in ``c``."""
    x, y = _compared(x, y)
    return _null_safe_side(_mask(c), x, y), _null_safe_side(_mask(c), y, x)


def _null_safe_side(wanted: int, x: DomainInterval, y: DomainInterval) -> DomainInterval:
    out = void(x.domain)
    if wanted & truth.TRUE:
        out = _joined(out, _joined(_held("eq", x, y), void(x.domain, null=x.null and y.null)))
    if wanted & truth.FALSE:
        apart = DomainInterval(x.domain, x.lo, x.hi, x.nan) if y.null else _held("ne", x, y)
        out = _joined(out, _joined(apart, void(x.domain, null=x.null and _some(y))))
    return out


def is_null(x: DomainInterval) -> BoolInterval:
    """Return ``x IS NULL``."""
    return _of((truth.TRUE if x.null else 0) | (truth.FALSE if _some(x) else 0))


def is_null_rev(c: BoolInterval, x: DomainInterval) -> DomainInterval:
    """Return the members of ``x`` for which ``x IS NULL`` is in ``c``."""
    wanted = _mask(c)
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
            a.domain, *(NONE if a.is_void or c.is_void else clipped(a.pair, c.pair)), a.nan and c.nan
        )  # fmt: skip
        rest = coalesce(*args[i + 1 :]) if i + 1 < len(args) else void(a.domain, null=True)
        passes = a.null and (_equal(rest, c) or (rest.null and c.null))
        out.append(_joined(taken, void(a.domain, null=passes)) if looked_at else a)
        if looked_at and not _some(out[-1]) and not out[-1].null:  # no argument is possible
            return tuple(void(other.domain) for other in args)
        # Later arguments matter only if this one is certainly NULL.
        looked_at = looked_at and not _some(out[-1])
    return tuple(out)


def is_in(x: Any, items: Iterable[Any]) -> BoolInterval:
    """Return ``x IN (items)``; an item None, or an item with NULL, turns FALSE into NULL."""
    return logical_or(*(eq(x, like(item, operand(x).domain)) for item in items))


def is_in_rev(c: BoolInterval, x: Any, items: Iterable[Any]) -> DomainInterval:
    """Return the members of ``x`` for which ``x IN (items)`` is in ``c``; for TRUE, the hull of matching items."""
    x = operand(x)
    items = [like(item, x.domain) for item in items]
    wanted, out = _mask(c), void(x.domain)
    if not items:
        return x if wanted & truth.FALSE else out
    if wanted & truth.TRUE:
        for item in items:
            out = _joined(out, _held("eq", x, item))
    if wanted & truth.FALSE and not any(item.null and not _some(item) for item in items):
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
