"""Sets of truth values {TRUE, FALSE, NULL} as bit masks, and Kleene's connectives lifted to them.

The empty set means that every computation raises an error. AND and OR evaluate from left to right and stop at the first
argument that decides, so an error after it has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["ANY", "FALSE", "KNOWN", "NULL", "TRUE", "and_", "not_", "or_"]

TRUE, FALSE, NULL = 1, 2, 4
KNOWN = TRUE | FALSE
ANY = TRUE | FALSE | NULL

_NOT = (0, 2, 1, 3, 4, 6, 5, 7)


def not_(a: int) -> int:
    return _NOT[a]


def and_(args: Iterable[int]) -> int:
    """Return the possible values of ``AND`` of the arguments, in this order."""
    state = TRUE
    for a in args:
        # FALSE is final; the other values continue to the next argument.
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
    """Return the possible values of ``OR`` of the arguments, in this order."""
    return _NOT[and_(_NOT[a] for a in args)]
