"""Both sides of a join of two tables, evaluated as a whole and put in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ivjoin.operator.lookup.key_ids import key_table
from ivjoin.operator.lookup.reading import Arrived, read
from ivjoin.operator.lookup.tables.ordered import Sorted
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj.store.keys import KeyTable
from ivjoin.stream.sort.dealing import numbers, order_of, values_at

__all__ = ["evaluated_sides", "in_order"]


def evaluated_sides(
    plan: JoinPlan, batches: Sequence[Sequence[pa.RecordBatch]], threads: int
) -> tuple[tuple[Arrived, Arrived] | None, KeyTable]:
    """Return the rows of two tables, without columns, and their keys.

    Return no rows if the whole condition decides the pairs of some row.
    """
    keys = key_table(plan)
    found: list[Arrived] = []
    beyond = at_end = False
    for s in (1, 0):
        parts = list(_read(plan, s, batches[s], keys, threads))
        for e in (part.found for part in parts):
            beyond, at_end = beyond or e.beyond, at_end or e.at_end
            if e.wild or e.key_erred or (beyond and at_end):
                return None, keys
        found.append(parts[0] if len(parts) == 1 else Arrived.of(parts))
    return (found[1], found[0]), keys


def _read(
    plan: JoinPlan, s: int, batches: Sequence[pa.RecordBatch], keys: KeyTable, threads: int
) -> Iterator[Arrived]:
    first = 0
    for batch in batches:
        seq = numbers(first, batch.num_rows, threads)
        first += batch.num_rows
        yield read(plan, s, [], seq, keys, batch.columns)


def in_order(
    side: Arrived, kids: np.ndarray, axis: int | None, lines: set[int], threads: int, order: np.ndarray | None = None
) -> Sorted:
    """Return the rows that can match in the order of an axis, or the given one; equal rows come as they lie.

    ``lines``: further axes whose values are wanted.
    """
    found: dict[int, np.ndarray] = {}
    axes = side.every.axes
    if axis is not None and order is None:
        order, found[axis] = order_of(axes[axis], side.usable, threads)
    elif order is None and side.usable is not None:
        order = np.flatnonzero(side.usable)
    for line in lines - found.keys():
        found[line] = values_at(axes[line], order, threads)
    return Sorted(kids, order, found)
