"""Estimate the size of a frame with Spark's optimizer, and decide whether the estimate is reliable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.errors import PySparkException

from ivjoin.spark.runtime.catalyst import walk
from ivjoin.spark.runtime.environment import is_connect

__all__ = ["SMALL", "are_small", "estimated_bytes", "sound_bytes"]

# Average bytes of an input that one task can read and join in less time than a shuffle of them takes.
SMALL = 2 << 20

# Operators whose output is at most as large as Spark estimates from their inputs; a filter counts as all of its rows.
# Others are left out: Python functions may be expensive, and generators and joins may return any number of rows.
_KNOWN = frozenset({
    "Aggregate", "Distinct", "Filter", "GlobalLimit", "InMemoryRelation", "LocalLimit", "LocalRelation",
    "LogicalRelation", "OneRowRelation", "Project", "Range", "Sort", "SubqueryAlias", "Union",
})  # fmt: skip
_FILES = 64  # the most files that one task may read, one after the other


def estimated_bytes(frame: Any) -> float | None:
    """Return Spark's estimate; None over Connect, or if the optimizer raises an error (the query then reports it)."""
    plan = _optimized(frame)
    return None if plan is None else float(str(plan.stats().sizeInBytes()))


def sound_bytes(frame: Any) -> float | None:
    """Return an estimate from the sizes of files or local rows; None if an operator could return many more rows."""
    plan = _optimized(frame)
    if plan is None or not all(str(node.nodeName()) in _KNOWN for node in walk(plan)):
        return None
    return float(str(plan.stats().sizeInBytes()))


def are_small(frames: Sequence[Any], sizes: Sequence[float | None], most: float = SMALL) -> bool:
    """Return whether one task reads and joins the frames as fast as many tasks do.

    ``sizes`` are the :func:`sound_bytes` of the frames, and ``most`` is the limit of their average.
    """
    if None in sizes or sum(size or 0 for size in sizes) > most * len(sizes):
        return False
    return sum(len(frame._jdf.inputFiles()) for frame in frames) <= _FILES


def _optimized(frame: Any) -> Any:
    if is_connect(frame):
        return None
    try:
        return frame._jdf.queryExecution().optimizedPlan()
    except PySparkException:
        return None
