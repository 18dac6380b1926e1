"""Let columns of the same type from several inputs share a slot, so that a union of the inputs has few columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType

from ivjoin.spark.rows.arrow import place

__all__ = ["filled", "laid_together", "selected", "share_slots", "union"]


def null_of(kind: Any) -> Any:
    """Return a null of a Spark type: SQL text if the type can be written as SQL, else a Column."""
    return f"CAST(NULL AS {kind.simpleString()})" if isinstance(kind, AtomicType) else F.lit(None).cast(kind)


def selected(frame: Any, **columns: Any) -> Any:
    """Select columns by name, as SQL text or as Columns. SQL text takes fewer calls to the JVM."""
    if all(isinstance(c, str) for c in columns.values()):
        return frame.selectExpr(*[f"{c} AS {name}" for name, c in columns.items()])
    return frame.select(*[(F.expr(c) if isinstance(c, str) else c).alias(name) for name, c in columns.items()])


def filled(slots: Sequence[Any], places: Sequence[int], columns: Sequence[int] | None = None) -> dict[str, Any]:
    """Return the slots of an input: its columns, or those given by position, at their places, and nulls."""
    of_slot = {slot: place(i if columns is None else columns[i]) for i, slot in enumerate(places)}
    return {f"s{i}": of_slot[i] if i in of_slot else null_of(t) for i, t in enumerate(slots)}


def union(frames: Sequence[Any]) -> Any:
    return reduce(lambda a, b: a.union(b), frames)


def laid_together(
    types: Sequence[list[Any]], together: Sequence[Sequence[int | None]]
) -> tuple[list[Any], list[list[int]], list[int | None]]:
    """Share slots like :func:`share_slots`, and give groups of columns a common slot if their types allow it.

    ``together`` lists groups of columns, with one column of each input or None. Return the slots, the places of each
    input's columns, and the common slot of each group, or None:

    >>> laid_together([["long", "ts", "long"], ["ts", "long"]], [[1, 0], [2, 1], [0, None]])
    (['ts', 'long', 'long'], [[2, 0, 1], [0, 1]], [0, 1, None])
    """
    firsts = [
        list(dict.fromkeys([*(g[i] for g in together if g[i] is not None), *range(len(t))]))
        for i, t in enumerate(types)
    ]
    one, *others = [[t[c] for c in first] for t, first in zip(types, firsts, strict=True)]
    slots, *led = share_slots(one, *others)
    places = []
    for first, own in zip(firsts, led, strict=True):
        slot_of = dict(zip(first, own, strict=True))
        places.append([slot_of[c] for c in range(len(first))])
    found: list[int | None] = []
    for group in together:
        of_group = {None if c is None else places[i][c] for i, c in enumerate(group)}
        found.append(of_group.pop() if len(of_group) == 1 else None)
    return slots, places, found


def share_slots(first: list[Any], *others: list[Any]) -> tuple[list[Any], *tuple[list[int], ...]]:
    """Return the types of the slots, and the slots of each input's columns.

    >>> share_slots(["long", "ts", "long"], ["ts", "string"])
    (['long', 'ts', 'long', 'string'], [0, 1, 2], [1, 3])
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
