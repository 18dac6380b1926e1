"""Find the joined stream that a DataFrame comes from, so that a sink can take its rows before Spark opens them.

``select`` of columns, ``drop``, renames and ``alias`` after a join only choose its columns, their order and their
names. Spark must run everything else on rows: a filter, a computed column, another join.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.results import Results
from ivjoin.spark.runtime.catalyst import analyzed, computed, each, ids, kind_of, reference
from ivjoin.spark.runtime.environment import is_connect
from ivjoin.spark.state.streamspread import StreamSpread

__all__ = ["Joined", "Origin", "origin_of", "remember"]


@dataclass(frozen=True)
class Joined:
    frame: Any  # with plain rows
    spec: JoinSpec
    notes: tuple[Warning, ...]  # warnings that the caller received
    buckets: int
    spread: StreamSpread
    packed: Callable[[Results], Any]  # builds the same join again, as a frame of packed rows with these results


@dataclass(frozen=True)
class Origin:
    """The relation of a DataFrame to a joined stream."""

    joined: Joined
    columns: tuple[int | None, ...]  # position of each column in the join; None for a computed column
    detour: str | None = None  # operation after the join that needs Spark's rows; without one, no column is computed
    in_order: bool = True  # whether the rows still have the join's order


# The most recent joined streams, oldest first. A DataFrame has no reference to the DataFrame that it was made from.
_joined: OrderedDict[int, Joined] = OrderedDict()
_output_ids: dict[int, tuple[int, ...]] = {}
_MOST = 128
# The last operator in the plan of a joined stream; it opens packed rows.
_LAST = "MapInArrow"


def remember(joined: Joined) -> None:
    _joined[id(joined.frame)] = joined
    while len(_joined) > _MOST:
        _output_ids.pop(_joined.popitem(last=False)[0], None)


def origin_of(frame: Any) -> Origin | None:
    """Return the joined stream that a DataFrame comes from; None if this process joined no such stream."""
    known = _joined.get(id(frame))
    if known is not None:
        return Origin(known, tuple(range(len(frame.columns))))
    if is_connect(frame):
        return None
    ends = {_outputs(j.frame): j for j in _joined.values() if _same(frame, j)}
    if not ends or not frame.isStreaming:
        return None
    plan = analyzed(frame)
    wanted: tuple[int | None, ...] = ids(plan.output())
    detour, in_order = None, True
    while True:
        kind = kind_of(plan)
        # A filter has the same attributes as its input, so compare the kind, too.
        found = ends.get(ids(plan.output())) if kind == _LAST else None
        if found is not None:
            names = {expression: i for i, expression in enumerate(ids(plan.output()))}
            return Origin(found, tuple(None if w is None else names.get(w) for w in wanted), detour, in_order)
        if kind == "Project":
            source = {output: reference(e) for output, e in computed(plan).items()}
            wanted = tuple(None if w is None else source.get(w) for w in wanted)
        if kind not in _PLAIN or (None in wanted):
            detour = detour or _WORDS.get(kind, kind)
        in_order = in_order and kind in (*_PLAIN, "Filter")
        streams = [c for c in each(plan.children()) if c.isStreaming()]
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


def _outputs(frame: Any) -> tuple[int, ...]:
    known = _output_ids.get(id(frame))
    if known is None:
        known = _output_ids[id(frame)] = ids(analyzed(frame).output())
    return known
