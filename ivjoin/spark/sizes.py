"""What Spark's optimizer says of the size of a frame, and whether that can be relied on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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
    """Spark's estimate; None where it says nothing, as over Connect."""
    try:
        return float(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    except Exception:
        return None


def sound_bytes(frame: Any) -> float | None:
    """An estimate that files or local rows stand behind, and nothing that could give many more; None if there is none.

    Bytes of files are those on disk.
    """
    try:
        plan = frame._jdf.queryExecution().optimizedPlan()
        return float(str(plan.stats().sizeInBytes())) if all(n in _KNOWN for n in _operators(plan)) else None
    except Exception:
        return None


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
    try:
        query = frame.alias("seen")._jdf.queryExecution()  # a new one knows what was cached meanwhile
        # as it was asked for, since the optimizer works some of it out, by chance or not; and without what is cached
        asked, plan = query.analyzed(), query.optimizedPlan()
        # Spark runs a subquery once for all readings only where a setting of the session lets it
        once = bool(asked.deterministic()) and bool(plan.subqueriesAll().isEmpty())
        return once and _is_alike(asked) and _is_alike(plan)
    except Exception:
        return False


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
