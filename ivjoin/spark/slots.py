"""Schemas laid over each other: columns of one type share a slot, so that a union of the inputs stays narrow."""

from __future__ import annotations

from typing import Any

__all__ = ["share_slots"]


def share_slots(first: list[Any], *others: list[Any]) -> tuple[list[Any], *tuple[list[int], ...]]:
    """Types of the slots, and the slots of each input's columns.

    Examples
    --------
    >>> share_slots(["long", "ts", "long"], ["ts", "string"])
    (['long', 'ts', 'long', 'string'], [0, 1, 2], [1, 3])
    >>> share_slots(["long"], ["ts"], ["ts", "long"])
    (['long', 'ts'], [0], [1], [1, 0])
    """
    slots = list(first)
    out = [list(range(len(first)))]
    for types in others:
        free = list(range(len(slots)))
        places = []
        for t in types:
            slot = next((i for i in free if slots[i] == t), None)
            if slot is None:
                slots.append(t)
                slot = len(slots) - 1
            else:
                free.remove(slot)
            places.append(slot)
        out.append(places)
    return slots, *out
