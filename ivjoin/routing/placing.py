"""Cells on workers by least load: the heaviest first, each to whoever has least."""

from __future__ import annotations

import heapq

import numpy as np

__all__ = ["placed"]


def placed(loads: np.ndarray, workers: int) -> tuple[np.ndarray, float]:
    """The worker of each cell : int64[n], and the greatest load of a worker."""
    order = np.argsort(-loads, kind="stable")
    where = np.empty(len(loads), dtype=np.int64)
    first = min(workers, len(order))
    where[order[:first]] = np.arange(first)
    heap = [(float(loads[c]), int(w)) for w, c in enumerate(order[:first])]
    if len(order) == first:
        return where, max((x for x, _ in heap), default=0.0)
    heapq.heapify(heap)
    for c, load in zip(order[first:].tolist(), loads[order[first:]].tolist()):
        least, w = heap[0]
        where[c] = w
        heapq.heapreplace(heap, (least + load, w))
    return where, max(x for x, _ in heap)
