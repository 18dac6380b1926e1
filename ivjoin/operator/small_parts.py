"""Parts that come one after the other, of which small ones are not kept apart.

Each would take memory and time of its own, however few rows it has. A part is put together with the one before it while
that one is not twice as long, so a row is copied about as often as there are powers of two below ``most`` (the merges
of a log-structured tree).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["put"]

_Part = TypeVar("_Part")


def put(
    parts: list[_Part], part: _Part, most: int, joined: Callable[[list[_Part]], _Part | None],
    rows: Callable[[_Part], int],
) -> None:
    """Add a part at the end.

    Parameters
    ----------
    parts : list
        To which it is added.
    part : object
    most : int
        Rows of a part that nothing is added to.
    joined : callable of a list of two parts
        One of both, or None where they cannot be one.
    rows : callable of a part
        How many it has.
    """
    parts.append(part)
    while len(parts) > 1 and rows(parts[-2]) < min(2 * rows(parts[-1]), most):
        one = joined(parts[-2:])
        if one is None:
            break
        parts[-2:] = [one]
