"""Which joined stream a DataFrame comes from, so that a sink can have its rows before Spark opens them.

``select`` of columns, ``drop``, renames and ``alias`` behind a join only say which of its columns travel, in which
order and under which names. Anything else (a filter, a computed column, another join) is Spark's work, on rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.environment import is_connect
from ivjoin.spark.results import Results
from ivjoin.spark.streamspread import StreamSpread

__all__ = ["Joined", "Origin", "origin_of", "remember"]


@dataclass(frozen=True)
class Joined:
    """A joined stream.

    Attributes
    ----------
    frame : DataFrame
        With plain rows.
    notes : tuple of Warning
        What the caller was told of it.
    spread : StreamSpread
    packed : callable of Results
        The same, built anew with another way out of the stateful function: a frame of packed rows.
    """

    frame: Any
    spec: JoinSpec
    notes: tuple[Warning, ...]
    buckets: int
    spread: StreamSpread
    packed: Callable[[Results], Any]


@dataclass(frozen=True)
class Origin:
    """What a DataFrame takes from a joined stream.

    Attributes
    ----------
    columns : tuple of int
        For each column of the DataFrame, which one of the join's it is.
    detour : str, optional
        What stands behind the join that needs Spark's rows; then ``columns`` is empty.
    """

    joined: Joined
    columns: tuple[int, ...]
    detour: str | None = None


# The streams joined last, oldest first: a DataFrame does not know from which other one it was made.
_joined: OrderedDict[int, Joined] = OrderedDict()
_MOST = 128
# What a joined stream's plan ends with: the opening of packed rows.
_LAST = "MapInArrow"


def remember(joined: Joined) -> None:
    """Let :func:`origin_of` find a joined stream again."""
    _joined[id(joined.frame)] = joined
    while len(_joined) > _MOST:
        _joined.popitem(last=False)


def origin_of(frame: Any) -> Origin | None:
    """The joined stream behind a DataFrame; None if there is none, or it was not made by this process."""
    known = _joined.get(id(frame))
    if known is not None:
        return Origin(known, tuple(range(len(frame.columns))))
    if is_connect(frame):
        return None
    plan = frame._jdf.queryExecution().analyzed()
    wanted = _ids(plan.output())
    ends = {_ids(j.frame._jdf.queryExecution().analyzed().output()): j for j in _joined.values() if _same(frame, j)}
    detour = None
    while True:
        kind = plan.getClass().getSimpleName()
        # A filter, too, hands on the very attributes of what it filters.
        found = ends.get(_ids(plan.output())) if kind == _LAST else None
        if found is not None:
            names = {expression: i for i, expression in enumerate(_ids(plan.output()))}
            return Origin(found, () if detour else tuple(names[w] for w in wanted), detour)
        passed = _through(plan, wanted) if kind == "Project" else wanted if kind == "SubqueryAlias" else None
        if passed is None:
            detour = detour or _WORDS.get(kind, kind)
        else:
            wanted = passed
        streams = [c for c in _each(plan.children()) if c.isStreaming()]
        if len(streams) != 1:
            return None
        plan = streams[0]


_WORDS = {
    "Project": "a computed column", "Filter": "a filter", "EventTimeWatermark": "a watermark",
    "Deduplicate": "dropDuplicates", "Aggregate": "an aggregation", "MapInArrow": "a function on its rows",
    "MapInPandas": "a function on its rows", "RepartitionByExpression": "a repartition", "Repartition": "a repartition",
}  # fmt: skip


def _same(frame: Any, joined: Joined) -> bool:
    return not is_connect(joined.frame) and joined.frame.sparkSession is frame.sparkSession


def _through(project: Any, wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """The input attributes that are these outputs of a projection; None if one is computed."""
    source: dict[int, int] = {}
    for e in _each(project.projectList()):
        node = e.child() if e.getClass().getSimpleName() == "Alias" else e
        if node.getClass().getSimpleName() == "AttributeReference":
            source[e.exprId().id()] = node.exprId().id()
    return tuple(source[w] for w in wanted) if all(w in source for w in wanted) else None


def _ids(attributes: Any) -> tuple[int, ...]:
    return tuple(a.exprId().id() for a in _each(attributes))


def _each(scala: Any) -> list[Any]:
    return [scala.apply(i) for i in range(scala.size())]
