"""Boolean intervals: sets of TRUE, FALSE and NULL, and AND, OR and NOT of them.

The empty set means that every member raises an error. A reverse function contracts the arguments to the members for
which the wanted truth values can arise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ivjoin.interval import truth

__all__ = [
    "BoolInterval", "logical_and", "logical_and_rev", "logical_not", "logical_not_rev", "logical_or", "logical_or_rev",
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


def of_mask(mask: int) -> BoolInterval:
    return BoolInterval(*(value for bit, value, _ in _NAMES if mask & bit))


def mask_of(x: Any) -> int:
    return x.mask if isinstance(x, BoolInterval) else BoolInterval(x).mask


def logical_not(x: BoolInterval) -> BoolInterval:
    """Return NOT of the argument."""
    return of_mask(truth.not_(mask_of(x)))


_ANY = BoolInterval(True, False, None)


def logical_not_rev(c: BoolInterval, x: BoolInterval = _ANY) -> BoolInterval:
    """Return the members of ``x`` whose negation is in ``c``."""
    return of_mask(truth.not_(mask_of(c)) & mask_of(x))


def logical_and(*args: BoolInterval) -> BoolInterval:
    """Return AND of the arguments from left to right."""
    return of_mask(truth.and_(map(mask_of, args)))


def logical_or(*args: BoolInterval) -> BoolInterval:
    """Return OR of the arguments from left to right."""
    return of_mask(truth.or_(map(mask_of, args)))


def _connective_rev(forward: Callable[..., BoolInterval]) -> Callable[..., tuple[BoolInterval, ...]]:
    def backward(c: BoolInterval, *args: BoolInterval) -> tuple[BoolInterval, ...]:
        wanted, out = mask_of(c), [0] * len(args)
        # By truth tables: for each argument, the values with which the others can still give a wanted one. An argument
        # that raises an error may follow one that decides; then any value of it is possible.
        for i, arg in enumerate(args):
            for value in arg.members:
                others = [BoolInterval(value) if j == i else a for j, a in enumerate(args)]
                out[i] |= BoolInterval(value).mask if forward(*others).mask & wanted else 0
        return tuple(map(of_mask, out))

    return backward


logical_and_rev = _connective_rev(logical_and)
logical_or_rev = _connective_rev(logical_or)
