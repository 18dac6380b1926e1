"""What Spark's optimizer says of the size of a frame, and whether that can be relied on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.errors import PySparkException

from ivjoin.spark.runtime.environment import is_connect

__all__ = ["SMALL", "are_small", "estimated_bytes", "is_read_alike", "sound_bytes"]

# Bytes an input, on average, that one task reads and joins in less time than it takes to shuffle them.
SMALL = 2 << 20

# What is no larger than these say of what is below: filters count as all of their rows. Functions in Python may be
# dear, what generates rows or joins may give any number of them.
_KNOWN = frozenset({
    "Aggregate", "Distinct", "Filter", "GlobalLimit", "InMemoryRelation", "LocalLimit", "LocalRelation",
    "LogicalRelation", "OneRowRelation", "Project", "Range", "Sort", "SubqueryAlias", "Union",
})  # fmt: skip
# What gives the same rows whenever it is read: files that were listed once, rows of the driver, and what is made of a
# row by itself.
_READ_ALIKE = frozenset({
    "Filter", "LocalRelation", "LogicalRelation", "OneRowRelation", "Project", "Range", "SubqueryAlias", "Union",
    "View",
})  # fmt: skip
_FILES = 64  # that one task may read, one after the other


def estimated_bytes(frame: Any) -> float | None:
    """Return Spark's estimate; None over Connect, or if the optimizer raises an error (the query then reports it)."""
    plan = _optimized(frame)
    return None if plan is None else float(str(plan.stats().sizeInBytes()))


def sound_bytes(frame: Any) -> float | None:
    """An estimate that files or local rows stand behind, and nothing that could give many more; None if there is none.

    Bytes of files are those on disk.
    """
    plan = _optimized(frame)
    if plan is None or not all(n in _KNOWN for n in _operators(plan)):
        return None
    return float(str(plan.stats().sizeInBytes()))


def are_small(frames: Sequence[Any], sizes: Sequence[float | None], most: float = SMALL) -> bool:
    """Whether one task reads frames of so many bytes, on average, and joins them, as fast as many tasks do.

    ``sizes`` are their :func:`sound_bytes`.
    """
    if None in sizes or sum(size or 0 for size in sizes) > most * len(sizes):
        return False
    return sum(len(frame._jdf.inputFiles()) for frame in frames) <= _FILES


def is_read_alike(frame: Any) -> bool:
    """Whether a frame may be read more than once by one query: it has the same rows each time, and no Python and no
    database makes them.
    """
    if is_connect(frame):
        return False
    seen = frame.alias("seen")  # a new plan knows what was cached meanwhile
    plan = _optimized(seen)
    if plan is None:
        return False
    # The plan as it was given, too, since the optimizer evaluates a part of it, random numbers included.
    given = seen._jdf.queryExecution().analyzed()
    # Spark runs a subquery once for all readings only where a setting of the session lets it
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
