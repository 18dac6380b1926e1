"""Estimate the size of a frame with Spark's optimizer, and decide whether the estimate is reliable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.errors import PySparkException

from ivjoin.spark.runtime.environment import is_connect

__all__ = ["SMALL", "are_small", "estimated_bytes", "is_read_alike", "sound_bytes"]

# Average bytes of an input that one task can read and join in less time than a shuffle of them takes.
SMALL = 2 << 20

# Operators whose output is at most as large as Spark estimates from their inputs; a filter counts as all of its rows.
# Others are left out: Python functions may be expensive, and generators and joins may return any number of rows.
_KNOWN = frozenset({
    "Aggregate", "Distinct", "Filter", "GlobalLimit", "InMemoryRelation", "LocalLimit", "LocalRelation",
    "LogicalRelation", "OneRowRelation", "Project", "Range", "Sort", "SubqueryAlias", "Union",
})  # fmt: skip
# Operators that return the same rows in each read: files that were listed once, rows of the driver, and operators that
# compute each row from one row alone.
_READ_ALIKE = frozenset({
    "Filter", "LocalRelation", "LogicalRelation", "OneRowRelation", "Project", "Range", "SubqueryAlias", "Union",
    "View",
})  # fmt: skip
_FILES = 64  # the most files that one task may read, one after the other


def estimated_bytes(frame: Any) -> float | None:
    """Return Spark's estimate; None over Connect, or if the optimizer raises an error (the query then reports it)."""
    plan = _optimized(frame)
    return None if plan is None else float(str(plan.stats().sizeInBytes()))


def sound_bytes(frame: Any) -> float | None:
    """Return an estimate that is based on files or local rows; None if an operator could return many more rows.

    The size of a file is its size on disk.
    """
    plan = _optimized(frame)
    if plan is None or not all(n in _KNOWN for n in _operators(plan)):
        return None
    return float(str(plan.stats().sizeInBytes()))


def are_small(frames: Sequence[Any], sizes: Sequence[float | None], most: float = SMALL) -> bool:
    """Return whether one task reads and joins the frames as fast as many tasks do.

    ``sizes`` are the :func:`sound_bytes` of the frames, and ``most`` is the limit of their average.
    """
    if None in sizes or sum(size or 0 for size in sizes) > most * len(sizes):
        return False
    return sum(len(frame._jdf.inputFiles()) for frame in frames) <= _FILES


def is_read_alike(frame: Any) -> bool:
    """Return whether one query may read a frame more than once.

    Each read must return the same rows, and neither Python nor a database may produce them.
    """
    if is_connect(frame):
        return False
    seen = frame.alias("seen")  # a new plan includes frames that were cached since then
    plan = _optimized(seen)
    if plan is None:
        return False
    # Check the plan before optimization, too: the optimizer evaluates parts of it, even random numbers.
    given = seen._jdf.queryExecution().analyzed()
    # Spark runs a subquery once for all reads only if a setting of the session allows it
    once = bool(given.deterministic()) and bool(plan.subqueriesAll().isEmpty())
    return once and _is_alike(given) and _is_alike(plan)


def _optimized(frame: Any) -> Any:
    if is_connect(frame):
        return None
    try:
        return frame._jdf.queryExecution().optimizedPlan()
    except PySparkException:
        return None


def _is_alike(plan: Any) -> bool:
    if str(plan.nodeName()) not in _READ_ALIKE:
        return False
    if str(plan.nodeName()) == "LogicalRelation":
        return str(plan.relation().getClass().getSimpleName()) == "HadoopFsRelation"
    children = plan.children()
    return all(_is_alike(children.apply(i)) for i in range(children.size()))


def _operators(plan: Any) -> Iterator[str]:
    yield str(plan.nodeName())
    children = plan.children()
    for i in range(children.size()):
        yield from _operators(children.apply(i))
