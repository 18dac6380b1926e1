"""The plan of a join of DataFrames as text: which rows it evicts, and how the work is divided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from ivjoin.arguments import known_options
from ivjoin.errors import IvjoinError
from ivjoin.operator.explaining.explain import explain_plan
from ivjoin.operator.memory.budget import WhenFull
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.api.join import DEFAULTS, SparkJoinOptions
from ivjoin.spark.api.origin import origin_of
from ivjoin.spark.api.resolving import resolved
from ivjoin.spark.api.schema import refuse_unbuilt, worker_budget
from ivjoin.spark.rows.arrow import key_sql
from ivjoin.spark.rows.late import Backend, LateOrKept, Routing
from ivjoin.spark.spread.buckets import stream_count
from ivjoin.spark.spread.replanning import live_plans
from ivjoin.spark.spread.spreading import spread_of, why_undivided
from ivjoin.spark.state.streamspread import StreamSpread, stream_spread

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

    from ivjoin.expr.literals import Params
    from ivjoin.plan.picking.choice import Pick
    from ivjoin.plan.question import JoinHow, Keys, Orders

__all__ = ["explain"]

_OFTEN_FASTER = (
    "Spark's own join is often faster where each key has few rows; band_join is faster for keys with many rows, for "
    "hot keys and for conditions without a key"
)
_FEW = 50  # right rows with the keys of a left row; both joins take the same processor time between 30 and 100

_PINNED = "  a query that goes on from a checkpoint keeps the number of buckets that it began with"


@known_options("explain", also=DEFAULTS)
def explain(
    left: DataFrame, right: DataFrame | None = None, on: Keys | None = None, condition: str | Column | None = None,
    how: JoinHow = "inner", *, left_order: Orders | None = None, right_order: Orders | None = None,
    pick: Pick | None = None, params: Params | None = None, suffix: str = "_right", on_late: LateOrKept = "raise",
    timezone: str | None = None, buckets: int | None = None, backend: Backend = "applyInPandasWithState",
    name: str | Observation | None = None, routing: Routing = "auto", memory_limit: int | str | None = None,
    when_full: WhenFull = "raise", **options: Unpack[SparkJoinOptions],
) -> str:
    """Return the plan of ``left.band_join(right, ...)`` as text, without running the join.

    Static frames are read once for a sample if ``band_join`` would do so.

    Parameters
    ----------
    left, right, on, condition, how, left_order, right_order, pick, params, suffix, on_late, timezone, buckets, \
    backend, name, routing, memory_limit, when_full, options
        As for :func:`ivjoin.spark.band_join`; ``backend``, ``name`` and ``allow_unbounded`` have no effect. To see the
        plan of a joined stream, and how :func:`ivjoin.spark.write_stream` would write it, pass only that stream as
        ``left``.

    Raises
    ------
    IvjoinError
        As for ``band_join``, or if ``left`` is the only argument and is not a joined stream.

    Examples
    --------
    >>> print(ivjoin.spark.explain(clicks, views, on="user", condition="l.ts >= r.ts"))  # doctest: +SKIP
    >>> print(ivjoin.spark.explain(matches.select("user", "ts")))  # doctest: +SKIP
    """
    del backend, name
    if right is None:
        return _of_a_joined_stream(left)
    given = DEFAULTS | options
    hot_keys, routing_dir = given["hot_keys"], given["routing_dir"]
    refuse_unbuilt(routing, hot_keys, routing_dir, left.isStreaming and right.isStreaming)
    call = resolved(
        left, right, on, condition, how, left_order, right_order, given["left_bounds"], given["right_bounds"], suffix,
        given["batch_size"], on_late, timezone, pick, params,
    )
    streaming = left.isStreaming and right.isStreaming
    worker_budget(call.spec, memory_limit, when_full, streaming)  # for its errors
    if left.isStreaming != right.isStreaming:
        count = stream_count(buckets, call.settings.partitions) if key_sql(plan_of(call.spec)) else 1
        how = f"a stream with a table: each micro-batch meets all rows of the table, in {count} buckets, without state"
        return "\n".join([how, *_pruning(call.spec.with_orders((), (), "raise"), call.notes)])
    if streaming:
        count = stream_count(buckets, call.settings.partitions)
        spread_out = stream_spread(call.spec, buckets, routing, hot_keys, routing_dir)
        return "\n".join(_streaming(call.spec, call.notes, count, spread_out))
    spread = spread_of(left, right, call.spec, call.settings, buckets, routing)
    if spread.plan is not None:
        lines = [f"static: rows routed to {spread.tasks} tasks"]
        lines += [f"  {line}" for line in str(spread.plan).splitlines()]
    elif spread.tasks == 1:
        lines = [f"static: rows in one task, since {spread.why or why_undivided(plan_of(call.spec))}"]
    else:
        lines = ["static: rows shuffled by the keys", *([f"  note: {spread.why}"] if spread.why else [])]
    if spread.plan is None and key_sql(plan_of(call.spec)) and call.spec.pick is None:
        lines.append(f"  note: {_which_is_faster(spread.partners)}")
    return "\n".join([*lines, *_pruning(call.spec, call.notes)])


def _which_is_faster(partners: float | None) -> str:
    if partners is None:
        return _OFTEN_FASTER
    likely = "Spark's own join is likely" if partners < _FEW else "band_join is likely"
    return f"a left row shares its keys with about {partners:,.1f} right rows, so {likely} faster. {_OFTEN_FASTER}"


def _of_a_joined_stream(frame: DataFrame) -> str:
    origin = origin_of(frame)
    if origin is None:
        raise IvjoinError(
            "explain was given one frame, which does not come from band_join; expected left and right as "
            "for band_join, or a joined stream"
        )
    joined = origin.joined
    sink = "rows go from the operator to the files as Arrow, in the workers that join" if origin.detour is None else (
        f"rows go through Spark before they are written, since {origin.detour} follows the join"
    )
    return "\n".join([*_streaming(joined.spec, joined.notes, joined.buckets, joined.spread), f"write_stream: {sink}"])


def _streaming(spec: JoinSpec, notes: Sequence[Warning], buckets: int, spread: StreamSpread) -> list[str]:
    plan = plan_of(spec)
    keys = key_sql(plan)
    lines: list[str] = []
    if (plans := spread.adaptive) is not None:
        lines = [f"  {line}" for line in str(live_plans(plans)).splitlines()]
        how = f"in {buckets} buckets, by plans that follow the stream, kept in {plans.folder!r}"
    elif keys:
        how = f"hashed to {buckets} buckets by {len(keys)} key{'s' if len(keys) > 1 else ''}"
        how += f", those of {len(spread.hot)} hot keys by {spread.plans}" if spread.plans else ""
        how += f", hot ones too, since {spread.why}" if spread.hot and spread.why else ""
        how += f"; heavy ones stay in one each, since {spread.why}" if spread.why and not spread.hot else ""
    elif spread.plans is not None:
        how = f"in {buckets} buckets, by {spread.plans}"
    else:
        how = f"in one bucket, since {why_undivided(plan)} ({spread.why}): one task joins all rows"
    return [f"streaming: rows {how}; late rows: {spec.on_late}", _PINNED, *lines, *_pruning(spec, notes)]


def _pruning(spec: JoinSpec, notes: Sequence[Warning]) -> list[str]:
    lines = [f"left to Spark, which filters the joined rows by it: {text}" for text in spec.left_over]
    lines += [f"beware: {note}" for note in notes]
    return [*lines, explain_plan(plan_of(spec))]
