"""Moving an operator's frontier to what all tasks of a micro-batch have seen together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ivjoin.symmetric import SymmetricHashJoin

__all__ = ["reach"]


def reach(op: SymmetricHashJoin, side: int, edges: Sequence[int | None]) -> Iterator[pa.RecordBatch]:
    """Let a side's orders have come as far as ``edges`` (turned ordinals, one an order), and prune by it.

    Like ``advance``, except that the declared slack still holds for what comes later.
    """
    frontier = op._frontiers[side]
    moved = False
    for tracker, edge in zip(frontier.trackers, edges, strict=True):
        if edge is not None and (edge > tracker.edge or not tracker.seen_value):
            state = tracker.save()
            tracker.load({**state, "edge": edge, "limit": tracker.least_after(edge), "value": True})
            moved = True
    if not moved:
        return iter(())
    return op._start(op._settle(1 - side, force=True))
