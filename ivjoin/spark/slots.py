"""Two schemas laid over each other: columns of one type share a slot, so that a union of both sides stays narrow."""

from __future__ import annotations

from typing import Any

__all__ = ["share_slots"]


def share_slots(left: list[Any], right: list[Any]) -> tuple[list[Any], list[int], list[int]]:
    """Types of the slots, and the slot of each left and each right column.

    Examples
    --------
    >>> share_slots(["long", "ts", "long"], ["ts", "string"])
    (['long', 'ts', 'long', 'string'], [0, 1, 2], [1, 3])
    """
    slots = list(left)
    free = list(range(len(left)))
    places = []
    for t in right:
        slot = next((i for i in free if slots[i] == t), None)
        if slot is None:
            slots.append(t)
            slot = len(slots) - 1
        else:
            free.remove(slot)
        places.append(slot)
    return slots, list(range(len(left))), places
