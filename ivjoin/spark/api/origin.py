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
from ivjoin.spark.rows.results import Results
from ivjoin.spark.runtime.environment import is_connect
from ivjoin.spark.state.streamspread import StreamSpread

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
    columns : tuple of (int or None)
        For each column of the DataFrame, which one of the join's it is; None for a computed one.
    detour : str, optional
        What stands behind the join that needs Spark's rows; without one, no column is computed.
    in_order : bool
        Whether the rows still come in the join's order.
    """

    joined: Joined
    columns: tuple[int | None, ...]
    detour: str | None = None
    in_order: bool = True


# The streams joined last, oldest first: a DataFrame does not know from which other one it was made.
_joined: OrderedDict[int, Joined] = OrderedDict()
_output_ids: dict[int, tuple[int, ...]] = {}
_MOST = 128
# What a joined stream's plan ends with: the opening of packed rows.
_LAST = "MapInArrow"


def remember(joined: Joined) -> None:
    """Let :func:`origin_of` find a joined stream again."""
    _joined[id(joined.frame)] = joined
    while len(_joined) > _MOST:
        _output_ids.pop(_joined.popitem(last=False)[0], None)


def origin_of(frame: Any) -> Origin | None:
    """The joined stream behind a DataFrame; None if there is none, or it was not made by this process."""
    known = _joined.get(id(frame))
    if known is not None:
        return Origin(known, tuple(range(len(frame.columns))))
    if is_connect(frame):
        return None
    ends = {_outputs(j.frame): j for j in _joined.values() if _same(frame, j)}
    if not ends or not frame.isStreaming:
        return None
    plan = frame._jdf.queryExecution().analyzed()
    wanted: tuple[int | None, ...] = _ids(plan.output())
    detour, in_order = None, True
    while True:
        kind = plan.getClass().getSimpleName()
        # A filter, too, hands on the very attributes of what it filters.
        found = ends.get(_ids(plan.output())) if kind == _LAST else None
        if found is not None:
            names = {expression: i for i, expression in enumerate(_ids(plan.output()))}
            return Origin(found, tuple(None if w is None else names.get(w) for w in wanted), detour, in_order)
        if kind == "Project":
            wanted = _through(plan, wanted)
        if kind not in _PLAIN or (None in wanted):
            detour = detour or _WORDS.get(kind, kind)
        in_order = in_order and kind in (*_PLAIN, "Filter")
        streams = [c for c in _each(plan.children()) if c.isStreaming()]
        if len(streams) != 1:
            return None
        plan = streams[0]


_PLAIN = ("Project", "SubqueryAlias")
_WORDS = {
    "Project": "a computed column", "Filter": "a filter", "EventTimeWatermark": "a watermark",
    "Deduplicate": "dropDuplicates", "Aggregate": "an aggregation", "MapInArrow": "a function on its rows",
    "MapInPandas": "a function on its rows", "RepartitionByExpression": "a repartition", "Repartition": "a repartition",
}  # fmt: skip


def _same(frame: Any, joined: Joined) -> bool:
    return not is_connect(joined.frame) and joined.frame.sparkSession is frame.sparkSession


def _through(project: Any, wanted: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """The input attributes that are these outputs of a projection, None for those that are computed."""
    source: dict[int, int] = {}
    for e in _each(project.projectList()):
        node = e.child() if e.getClass().getSimpleName() == "Alias" else e
        if node.getClass().getSimpleName() == "AttributeReference":
            source[e.exprId().id()] = node.exprId().id()
    return tuple(None if w is None else source.get(w) for w in wanted)


def _outputs(frame: Any) -> tuple[int, ...]:
    known = _output_ids.get(id(frame))
    if known is None:
        known = _output_ids[id(frame)] = _ids(frame._jdf.queryExecution().analyzed().output())
    return known


def _ids(attributes: Any) -> tuple[int, ...]:
    return tuple(a.exprId().id() for a in _each(attributes))


def _each(scala: Any) -> list[Any]:
    return [scala.apply(i) for i in range(scala.size())]
