"""Append parts to a list and merge small ones.

Each part costs memory and time, however few rows it has. A part is merged with the one before it while that one is less
than twice as long. So a row is copied about log2(``most``) times, as in a log-structured merge tree.
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
    """Append a part.

    Parameters
    ----------
    parts : list
        Changed in place.
    part : object
    most : int
        A part with this many rows is not merged.
    joined : callable of a list of two parts
        Returns the merged part, or None if they cannot be merged.
    rows : callable of a part
        Returns its number of rows.
    """
    parts.append(part)
    while len(parts) > 1 and rows(parts[-2]) < min(2 * rows(parts[-1]), most):
        one = joined(parts[-2:])
        if one is None:
            break
        parts[-2:] = [one]
