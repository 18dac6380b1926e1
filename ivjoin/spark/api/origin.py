"""Find the joined stream that a DataFrame comes from, so that a sink can take its rows before Spark opens them.

``select`` of columns, ``drop``, renames and ``alias`` after a join only select its columns, their order and their
names. Spark must run everything else on rows: a filter, a computed column, another join.

Operators after the join evict rows by the order of joined rows. ``docs/internals/spark.md`` derives the slacks. The
columns of a preserved side have no order, because unmatched rows may be emitted when they arrive.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ivjoin.errors import ColumnError, OrderError
from ivjoin.expr.nodes import Node
from ivjoin.frontier.slack import slack_ticks
from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.conditions.sqlwriter import quoted_name
from ivjoin.spark.rows.late import KEEP
from ivjoin.spark.rows.results import Results
from ivjoin.spark.runtime.catalyst import analyzed, computed, each, ids, kind_of, reference
from ivjoin.spark.runtime.environment import is_connect
from ivjoin.spark.state.streamspread import StreamSpread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Joined", "Origin", "carried_slacks", "origin_of", "output_slacks", "remember", "with_output_watermark"]

@dataclass(frozen=True)
class Joined:
    frame: Any  # with plain rows
    spec: JoinSpec
    notes: tuple[Warning, ...]  # warnings that the caller received
    buckets: int
    free: bool  # whether the caller left their number to the query
    spread: StreamSpread
    packed: Callable[[Results], Any]  # builds the same join again, as a frame of packed rows with these results

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        return ids(analyzed(self.frame).output())


@dataclass(frozen=True)
class Origin:
    """The relation of a DataFrame to a joined stream."""

    joined: Joined
    columns: tuple[int | None, ...]  # position of each column in the join; None for a computed column
    detour: str | None = None  # operation after the join that needs Spark's rows; without one, no column is computed
    in_order: bool = True  # whether the rows still have the join's order


# The most recent joined streams, oldest first. A DataFrame has no reference to the DataFrame that it was made from.
_joined: OrderedDict[int, Joined] = OrderedDict()
_MOST = 128
# The last operator in the plan of a joined stream; it opens packed rows.
_LAST = "MapInArrow"


def remember(joined: Joined) -> None:
    _joined[id(joined.frame)] = joined
    while len(_joined) > _MOST:
        _joined.popitem(last=False)


def origin_of(frame: Any) -> Origin | None:
    """Return the joined stream that a DataFrame comes from; None if this process joined no such stream."""
    known = _joined.get(id(frame))
    if known is not None:
        return Origin(known, tuple(range(len(frame.columns))))
    if is_connect(frame):
        return None
    ends = {j.outputs: j for j in _joined.values() if j.frame.sparkSession is frame.sparkSession}
    if not ends or not frame.isStreaming:
        return None
    plan = analyzed(frame)
    wanted: tuple[int | None, ...] = ids(plan.output())
    detour, in_order = None, True
    while True:
        kind = kind_of(plan)
        # A filter has the same attributes as its input, so also compare the kind.
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


Slack = int | timedelta
_MICROS = {"s": 1_000_000, "ms": 1000, "us": 1}


def output_slacks(spec: JoinSpec) -> dict[int, Slack]:
    """Return, by column index, how far a column of a streaming join falls below its greatest value so far."""
    plan = plan_of(spec)
    # A late row may be emitted at any time. Picked rows and aggregates are emitted once they are decided.
    if spec.on_late in ("join", KEEP) or spec.pick is not None or spec.aggregates:
        return {}
    ordered = [_ordered(plan, s) for s in (0, 1)]
    out: dict[int, Slack] = {}
    for i, place in enumerate(plan.fields):
        sides = [s for s, index in enumerate((place.left, place.right)) if index is not None]
        if len(sides) != 1 or plan.how.owes(sides[0]):
            continue
        s = sides[0]
        column = plan.sides[s].schema.names[place.left if s == 0 else place.right]
        ticks = _least_slack(plan, s, column, ordered)
        if ticks is not None:
            node, _ = ordered[s][column]
            out[i] = ticks if node.type.kind == "int" else _span(node, ticks)
    return out


def _ordered(plan: JoinPlan, side: int) -> dict[str, tuple[Node, int]]:
    """Return the columns of a side that are declared to rise, with their slack in ticks."""
    out = {}
    for node, where, o in plan.sides[side].orders:
        if node.op == "column" and not o.descending and node.type.kind in ("int", "timestamp", "date"):
            slack = slack_ticks(o.slack, node.type, where)
            if isinstance(slack, int):
                out[node.params[1]] = (node, slack)
    return out


def _least_slack(
    plan: JoinPlan, side: int, column: str, ordered: list[dict[str, tuple[Node, int]]]
) -> int | None:
    if column not in ordered[side]:
        return None
    node, own = ordered[side][column]
    best = None
    for t in plan.kernel_terms or plan.terms:
        mine, other = (t.left, t.right) if side == 0 else (t.right, t.left)
        if mine is not node or other.op != "column" or t.lo is None or t.hi is None or other.type != node.type:
            continue
        theirs = ordered[1 - side].get(other.params[1])
        if theirs is not None and theirs[0] is other:
            found = max(own, t.hi - t.lo + theirs[1])
            best = found if best is None else min(best, found)
    return best


def _span(node: Node, ticks: int) -> timedelta:
    if node.type.kind == "date":
        return timedelta(days=ticks)
    return timedelta(microseconds=ticks * _MICROS[node.type.unit])


def carried_slacks(frame: Any) -> dict[int, Slack]:
    """Return :func:`output_slacks` of a DataFrame derived from a joined stream; empty if the order was lost."""
    origin = origin_of(frame)
    if origin is None or not origin.in_order:
        return {}
    known = output_slacks(origin.joined.spec)
    return {i: known[c] for i, c in enumerate(origin.columns) if c in known}


def with_output_watermark(joined: DataFrame, column: str) -> DataFrame:
    """Return a joined stream with a watermark on a time column, with the least delay that makes no row late.

    Use it before Spark's own operators by event time, such as ``groupBy(window(...))``. A second ``band_join`` does
    not need it, because it knows the order of a joined stream.

    Parameters
    ----------
    joined : DataFrame
        The output of ``band_join`` of streams, possibly with columns selected or rows filtered.
    column : str
        A timestamp that is an ordered column of one side. A band must bound it on both ends by an ordered column of the
        other side.

    Raises
    ------
    ColumnError
        If the column does not exist.
    OrderError
        If the column's order is not known. The message states what is missing.

    Examples
    --------
    >>> hourly = with_output_watermark(matches, "ts").groupBy(F.window("ts", "1 hour")).count()  # doctest: +SKIP
    """
    if column not in joined.columns:
        raise ColumnError(f"column {column!r} is not in the joined rows: {', '.join(joined.columns)}")
    slack = carried_slacks(joined).get(joined.columns.index(column))
    if not isinstance(slack, timedelta) or joined.schema[column].dataType.typeName() != "timestamp":
        raise OrderError(
            f"the order of column {column!r} in the joined rows is not known. It is known for a timestamp with an "
            "order or a watermark, if a band bounds it on both ends by an ordered timestamp of the other side. The "
            "join must not emit unmatched rows of its side, and only selections and filters may follow the join. Or "
            f"set the watermark yourself: joined.withWatermark({column!r}, ...)"
        )
    # Spark counts in milliseconds, and treats a row at the watermark itself as late.
    millis = 1 - (-slack // timedelta(milliseconds=1))
    return joined.withWatermark(quoted_name(column), f"{millis} milliseconds")
