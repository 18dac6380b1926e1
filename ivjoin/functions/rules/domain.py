"""The domain of a node: `Dom` for callers, and plain tuples for rules.

A plain domain is ``(lo, hi, flags)``. ``lo`` and ``hi`` are physical values, and ``flags`` has the bits NULL and NAN.

- ``(1, 0, flags)`` contains no values. None is an open end of strings or bytes.
- A nested type has ``(None, None, flags)``. A bool node has a mask of ``interval.truth``.
"""

from __future__ import annotations

from math import inf
from typing import Any

from ivjoin.expr.literals import literal
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import Type
from ivjoin.interval import truth
from ivjoin.interval.machine.operation import NAN, NULL

__all__ = [
    "NAN", "NULL", "Dom", "is_void", "may_null", "met", "none_of", "of_literal", "top", "united",
    "with_null", "without_null",
]  # fmt: skip


def top(t: Type) -> Any:
    """Return the domain of all values of a type."""
    if t.kind == "bool":
        return truth.ANY
    if t.kind == "float":
        return (-inf, inf, NULL | NAN)
    if t.is_discrete:
        return (*t.limits, NULL)
    return (None, None, NULL)


# Empty intervals of texts.
_NO_TEXT: dict[str, tuple[Any, Any]] = {"string": ("\x01", ""), "binary": (b"\x01", b"")}


def none_of(t: Type, flags: int = 0) -> Any:
    """Return the domain that contains no values, except NULL and NaN as ``flags`` states."""
    if t.kind == "bool":
        return truth.NULL if flags & NULL else 0
    if t.kind in ("opaque", "null", "decimal256"):
        return None, None, flags
    return (*_NO_TEXT.get(t.kind, (1, 0)), flags)


class Dom:
    """A set that contains every value of a node: an interval, and whether NULL and NaN are members.

    ``lo`` and ``hi`` are physical values, and both are included. None is an open end, which only texts have. An
    unbounded number has the limits of its type. If ``is_empty``, both are undefined.
    """

    __slots__ = ("_state", "type")

    type: Type

    def __init__(self, type: Type, state: Any) -> None:
        self.type = type
        self._state = state

    @classmethod
    def of(cls, type: Type, lo: Any = None, hi: Any = None, null: bool = True, nan: bool = True) -> Dom:
        """Return the values from ``lo`` to ``hi``, which are physical values and included. None is an open end."""
        if type.kind == "bool":
            mask = (truth.FALSE if not lo else 0) | (truth.TRUE if hi is None or hi else 0)
            return cls(type, mask | (truth.NULL if null else 0))
        flags = (NULL if null else 0) | (NAN if nan and type.kind == "float" else 0)
        whole = top(type)
        low, high = whole[0], whole[1]
        if lo is not None and (low is None or lo > low):
            low = lo
        if hi is not None and (high is None or hi < high):
            high = hi
        if low is not None and high is not None and low > high:
            return cls(type, none_of(type, flags))
        return cls(type, (low, high, flags))

    @classmethod
    def top(cls, type: Type) -> Dom:
        """Return the set of all values of the type, with NULL and NaN."""
        return cls(type, top(type))

    @classmethod
    def empty(cls, type: Type, null: bool = False, nan: bool = False) -> Dom:
        """Return a set without values, or with NULL and NaN only."""
        return cls(type, none_of(type, (NULL if null else 0) | (NAN if nan else 0)))

    @property
    def lo(self) -> Any:
        if self.type.kind == "bool":
            return not self._state & truth.FALSE
        return self._state[0]

    @property
    def hi(self) -> Any:
        if self.type.kind == "bool":
            return bool(self._state & truth.TRUE)
        return self._state[1]

    @property
    def may_null(self) -> bool:
        if self.type.kind == "bool":
            return bool(self._state & truth.NULL)
        return bool(self._state[2] & NULL)

    @property
    def may_nan(self) -> bool:
        return self.type.kind == "float" and bool(self._state[2] & NAN)

    @property
    def is_empty(self) -> bool:
        """Return whether the set contains no value other than NULL and NaN."""
        if self.type.kind == "bool":
            return not self._state & truth.KNOWN
        lo, hi = self._state[0], self._state[1]
        return lo is not None and hi is not None and bool(lo > hi)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dom) and self.type == other.type and self._state == other._state

    def __hash__(self) -> int:
        return hash((self.type, self._state))

    def __contains__(self, value: Any) -> bool:
        """Return whether the set contains a physical value. None is NULL."""
        if value is None:
            return self.may_null
        if self.type.kind == "bool":
            return bool(self._state & (truth.TRUE if value else truth.FALSE))
        if value != value:
            return self.may_nan
        lo, hi = self._state[0], self._state[1]
        return (lo is None or lo <= value) and (hi is None or value <= hi)

    def __str__(self) -> str:
        marks = [m for m, there in (("NULL", self.may_null), ("NaN", self.may_nan)) if there]
        if self.type.kind == "bool":
            names = [n for n, bit in (("TRUE", truth.TRUE), ("FALSE", truth.FALSE)) if self._state & bit]
            return f"{{{', '.join(names + marks)}}}"
        if self.is_empty:
            return f"{{{', '.join(marks)}}}"
        whole = top(self.type)
        lo = "-inf" if self.lo is None or (self.lo == whole[0] and self.type.is_discrete) else _text(self.lo, self.type)
        hi = "inf" if self.hi is None or (self.hi == whole[1] and self.type.is_discrete) else _text(self.hi, self.type)
        return " or ".join([f"[{lo}, {hi}]", *marks])

    def __repr__(self) -> str:
        return f"Dom({self.type}: {self})"


def _text(value: Any, t: Type) -> str:
    if t.kind in ("string", "binary"):
        return repr(value)
    return str(literal(value, t))


def of_literal(n: Node) -> Any:
    """Return the domain of a literal."""
    v, t = n.params[0], n.type
    if t.kind == "bool":
        return truth.NULL if v is None else truth.TRUE if v else truth.FALSE
    if v is None:
        return none_of(t, NULL)
    if v != v:
        return none_of(t, NAN)
    return v, v, 0


def met(old: Any, new: Any) -> Any:
    """Return the intersection of two domains of one type."""
    if old.__class__ is int:
        return old & new
    alo, ahi, af = old
    blo, bhi, bf = new
    lo = alo if blo is None or (alo is not None and alo >= blo) else blo
    hi = ahi if bhi is None or (ahi is not None and ahi <= bhi) else bhi
    if lo is not None and hi is not None and lo > hi and lo.__class__ not in (str, bytes):
        return 1, 0, af & bf
    return lo, hi, af & bf


def united(a: Any, b: Any) -> Any:
    """Return the hull of two domains of one type."""
    if a.__class__ is int:
        return a | b
    alo, ahi, af = a
    blo, bhi, bf = b
    if alo is not None and ahi is not None and alo > ahi:
        return blo, bhi, af | bf
    if blo is not None and bhi is not None and blo > bhi:
        return alo, ahi, af | bf
    lo = None if alo is None or blo is None else alo if alo <= blo else blo
    hi = None if ahi is None or bhi is None else ahi if ahi >= bhi else bhi
    return lo, hi, af | bf


def is_void(d: Any) -> bool:
    """Return whether a domain is completely empty: it has no values, and neither NULL nor NaN."""
    if d.__class__ is int:
        return not d
    lo, hi, flags = d
    return not flags and lo is not None and hi is not None and bool(lo > hi)


def may_null(d: Any) -> bool:
    """Return whether NULL is a member of a domain."""
    return bool(d & truth.NULL if d.__class__ is int else d[2] & NULL)


def with_null(d: Any) -> Any:
    return d | truth.NULL if d.__class__ is int else (d[0], d[1], d[2] | NULL)


def without_null(d: Any) -> Any:
    return d & truth.KNOWN if d.__class__ is int else (d[0], d[1], d[2] & ~NULL)
