"""Place cells on workers: the heaviest first, each on the worker with the least load."""

from __future__ import annotations

import heapq

import numpy as np

__all__ = ["placed"]

_MOST_ONE_BY_ONE = 8192


def placed(loads: np.ndarray, workers: int) -> tuple[np.ndarray, float]:
    """Return the worker of each cell : int64[n], and the greatest load of a worker."""
    order = np.argsort(-loads, kind="stable")
    where = np.empty(len(loads), dtype=np.int64)
    first = min(workers, len(order))
    where[order[:first]] = np.arange(first)
    if len(order) > _MOST_ONE_BY_ONE:
        return _in_rounds(loads, order, where, workers)
    heap = [(float(loads[c]), int(w)) for w, c in enumerate(order[:first])]
    if len(order) == first:
        return where, max((x for x, _ in heap), default=0.0)
    heapq.heapify(heap)
    for c, load in zip(order[first:].tolist(), loads[order[first:]].tolist()):
        least, w = heap[0]
        where[c] = w
        heapq.heapreplace(heap, (least + load, w))
    return where, max(x for x, _ in heap)


def _in_rounds(loads: np.ndarray, order: np.ndarray, where: np.ndarray, workers: int) -> tuple[np.ndarray, float]:
    """Place many cells: several on as many least loaded workers at once."""
    total = np.zeros(workers)
    total[: min(workers, len(order))] = loads[order[:workers]]
    few = max(1, workers // 16)
    for at in range(workers, len(order), few):
        cells = order[at : at + few]
        least = np.argpartition(total, len(cells) - 1)[: len(cells)]
        least = least[np.argsort(total[least], kind="stable")]
        where[cells] = least
        total[least] += loads[cells]
    return where, float(total.max())
