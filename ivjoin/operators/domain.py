"""What is known of a node's value: `Dom` for the outside, plain tuples for the inside.

Inside, the domain of a node is a tuple ``(lo, hi, flags)`` of physical values and of the bits NULL and NAN, with
``(1, 0, flags)`` when there is no value between bounds; of a bool node it is a mask of ``interval.machine.truth``.
Strings and bytes have None for an end that is unbounded; of nested types a domain is ``(None, None, flags)``.
"""

from __future__ import annotations

from math import inf
from typing import Any

from ivjoin.expr.literals import literal
from ivjoin.expr.types import Type
from ivjoin.interval.machine import truth

__all__ = ["NAN", "NULL", "Dom", "none_of", "state_of", "top", "void"]

NULL, NAN = 1, 2


def top(t: Type) -> Any:
    """All that a node of a type can be."""
    if t.kind == "bool":
        return truth.ANY
    if t.kind == "float":
        return (-inf, inf, NULL | NAN)
    if t.is_discrete:
        return (*t.limits, NULL)
    if t.kind == "null":
        return (None, None, NULL)
    return (None, None, NULL)


# No text is in these.
_NO_TEXT: dict[str, tuple[Any, Any]] = {"string": ("\x01", ""), "binary": (b"\x01", b"")}


def void(t: Type) -> tuple[Any, Any]:
    """The bounds of no value, for a type that is no truth value."""
    return _NO_TEXT.get(t.kind, (1, 0))


def none_of(t: Type, flags: int = 0) -> Any:
    """No value but what the flags say."""
    if t.kind == "bool":
        return truth.NULL if flags & NULL else 0
    if t.kind in ("opaque", "null", "decimal256"):
        return None, None, flags
    return (*void(t), flags)


class Dom:
    """A set that holds every value of a node: an interval, and whether NULL and NaN are in it.

    Attributes
    ----------
    type : Type
    lo, hi : int, float, bool, str, bytes or None
        Least and greatest physical value (``ivjoin.expr.types``), both included; None is unbounded, for text only. An
        unbounded number has the limits of its type. Meaningless where ``is_empty``.
    may_null, may_nan : bool
    """

    __slots__ = ("_state", "type")

    type: Type

    def __init__(self, type: Type, state: Any) -> None:
        self.type = type
        self._state = state

    @classmethod
    def of(cls, type: Type, lo: Any = None, hi: Any = None, null: bool = True, nan: bool = True) -> Dom:
        """The values from ``lo`` to ``hi``, physical and included; None is unbounded."""
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
        """Every value of the type, NULL and NaN."""
        return cls(type, top(type))

    @classmethod
    def empty(cls, type: Type, null: bool = False, nan: bool = False) -> Dom:
        """No value at all, or nothing but NULL and NaN."""
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
        """Whether there is no value between bounds (NULL and NaN may still be there)."""
        if self.type.kind == "bool":
            return not self._state & truth.KNOWN
        lo, hi = self._state[0], self._state[1]
        return lo is not None and hi is not None and bool(lo > hi)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dom) and self.type == other.type and self._state == other._state

    def __hash__(self) -> int:
        return hash((self.type, self._state))

    def __contains__(self, value: Any) -> bool:
        """Whether a physical value, or None for NULL, is in the set."""
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


def state_of(dom: Dom) -> Any:
    """The inside form of a domain."""
    return dom._state
