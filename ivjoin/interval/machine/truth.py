"""Sets of truth values {TRUE, FALSE, NULL} as bit masks, and Kleene's connectives lifted to them.

The empty set stands for "has no truth value here": whatever is computed errs. AND and OR look at their arguments from
left to right and stop at one that decides, so an error after it does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["ANY", "FALSE", "KNOWN", "NULL", "TRUE", "and_", "not_", "or_"]

TRUE, FALSE, NULL = 1, 2, 4
KNOWN = TRUE | FALSE
ANY = TRUE | FALSE | NULL

_NOT = (0, 2, 1, 3, 4, 6, 5, 7)


def not_(a: int) -> int:
    """``NOT a``."""
    return _NOT[a]


def and_(args: Iterable[int]) -> int:
    """What ``AND`` of the arguments, in this order, can be."""
    state = TRUE
    for a in args:
        # FALSE stays whatever follows; the rest goes on to the next argument.
        after = state & FALSE
        if a & FALSE and state & (TRUE | NULL):
            after |= FALSE
        if a & TRUE:
            after |= state & (TRUE | NULL)
        if a & NULL and state & (TRUE | NULL):
            after |= NULL
        state = after
    return state


def or_(args: Iterable[int]) -> int:
    """What ``OR`` of the arguments, in this order, can be."""
    return _NOT[and_(_NOT[a] for a in args)]
