"""``band_join`` of DataFrames: resolve the arguments, then build the join for tables, streams, or one of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ivjoin.arguments import known_options, warn_caller
from ivjoin.errors import IvjoinError, UnsupportedError
from ivjoin.operator.memory.budget import Budget, WhenFull
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import SIDES
from ivjoin.spark.api.origin import Joined, remember
from ivjoin.spark.api.resolving import Resolved, resolved
from ivjoin.spark.api.schema import (
    both_streaming,
    output_type,
    refuse_second_state,
    refuse_unbuilt,
    refuse_undecided,
    worker_budget,
)
from ivjoin.spark.conditions.leftover import rows_where
from ivjoin.spark.rows.late import KEEP, REASON, Backend, LateOrKept, Routing, joined_schema
from ivjoin.spark.rows.metrics import observed_name
from ivjoin.spark.rows.results import Results, opener
from ivjoin.spark.runtime.workers import kernels_early
from ivjoin.spark.spread.buckets import stream_count

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

    from ivjoin.expr.literals import Params
    from ivjoin.plan.picking.choice import Pick
    from ivjoin.plan.question import DeclaredBounds, JoinHow, Keys, Orders
    from ivjoin.spark.state.streamspread import StreamSpread

__all__ = ["DEFAULTS", "SparkJoinOptions", "band_join", "joined_frames"]

BACKENDS = ("applyInPandasWithState", "transformWithState")


class SparkJoinOptions(TypedDict, total=False):
    """Further options of :func:`band_join`, given by name; its documentation describes each of them."""

    left_bounds: DeclaredBounds | None
    right_bounds: DeclaredBounds | None
    batch_size: int
    hot_keys: Sequence[object] | None
    routing_dir: str | None
    allow_unbounded: bool


DEFAULTS = SparkJoinOptions(
    left_bounds=None, right_bounds=None, batch_size=65536, hot_keys=None, routing_dir=None, allow_unbounded=False
)


@known_options("band_join", also=DEFAULTS)
def band_join(
    left: DataFrame, right: DataFrame, on: Keys | None = None, condition: str | Column | None = None,
    how: JoinHow = "inner", *, left_order: Orders | None = None, right_order: Orders | None = None,
    pick: Pick | None = None, params: Params | None = None, suffix: str = "_right", on_late: LateOrKept = "raise",
    timezone: str | None = None, buckets: int | None = None, backend: Backend = "applyInPandasWithState",
    name: str | Observation | None = None, routing: Routing = "auto", memory_limit: int | str | None = None,
    when_full: WhenFull = "raise", **options: Unpack[SparkJoinOptions],
) -> DataFrame:
    """Join two DataFrames on keys and a band condition, and store only the rows that can still match.

    Parameters
    ----------
    left, right : DataFrame
        Streaming or static; classic or Connect. A stream is joined with a static frame in each micro-batch, without
        state. In this case, ``how`` must not emit unmatched rows of the static frame.
    on : str, list of str, or list of (str, str), optional
        Key columns. Without a key, rows are spread along the band.
    condition : str or Column, optional
        SQL text or a Column over both frames. In text, ``l.`` and ``r.``, or the DataFrames' aliases, name the sides.
        In an inner join, Spark filters the joined rows by conjuncts that the operator cannot evaluate. Other join types
        do not support such conjuncts.
    how : str, default "inner"
        inner, left, right, full, left_semi, left_anti, right_semi, right_anti, or Spark's aliases.
    left_order, right_order : str, Order, or a list of these, optional
        Order in which rows of a stream arrive, up to a slack. Static frames need no order. A ``withWatermark`` counts
        as an order, with its delay as the slack, except after a union or a join of streams. The output of another
        ``band_join`` has its own order, if ivjoin can derive it; see ``docs/guides/spark-order-and-watermarks.md``.
    pick : Pick, optional
        Which of the matching right rows each left row takes; see :class:`ivjoin.Pick`. Rows are divided only by their
        keys.
    params : mapping of str to value, optional
        The values of ``:name`` in the condition.
    suffix : str, default "_right"
        Suffix of right columns whose name collides.
    on_late : {"raise", "drop", "join", "keep"}
        What to do with a late row of a stream: end the query with LateRowError, drop and count it, or join it with the
        rows that are still stored. "keep" emits it without a partner, and adds the column ``late_reason``, which is
        NULL in joined rows. After "raise" has ended a query, it can continue from its checkpoint with "drop" or "keep".
    timezone : str, optional
        By default, the time zone of the session.
    buckets : int, optional
        For streams, the number of groups into which the state is divided. By default it is
        ``spark.sql.shuffle.partitions``, up to 512. For Spark's default of 200, it is 16. A checkpoint retains the
        number. For static frames, the number of tasks.
    backend : {"applyInPandasWithState", "transformWithState"}
        For streaming frames.
    name : str or Observation, optional
        Name for the counts of this join; see :func:`ivjoin.spark.metrics`. Two joins of one query need different names,
        or no names. Joins of static frames are counted only if you pass a ``pyspark.sql.Observation``.
    routing : {"auto", "hash", "slices", "grid"}
        How heavy keys, and joins without a key or with computed keys, are spread over the tasks; see
        ``ivjoin.routing``. For static frames, all values except "hash" read the inputs once for a sample during this
        call, unless both inputs are small and have keys. For streams without a key, "auto" and "slices" cut the axis
        into slices.
    memory_limit : int or str, optional
        Limit for an operator in a Python worker, in bytes or as text such as "512MB". It applies to a task of static
        frames, or to a bucket of streams and the rows that it stores between micro-batches.
    when_full : {"raise", "spill"}
        What to do when the state exceeds the limit. "raise" raises MemoryLimitError, which ends the query. "spill", for
        static frames only, writes rows to files, and the result is exact.

    Other Parameters
    ----------------
    left_bounds, right_bounds : mapping of column to (least, greatest), optional
    batch_size : int, default 65536
        Maximum number of rows in an output batch of the operator.
    hot_keys : list of keys, optional
        For streams: keys whose rows are also cut into slices. With several key columns, each key is a tuple. A
        checkpoint retains its hot keys. For static frames, the sample finds hot keys.
    routing_dir : str or path, optional
        For streams: a folder for plans that spread keys soon after they become heavy; see ``docs/guides/routing.md``.
        Use the folder for only one join and one checkpoint. It must be mounted in all workers, or be on HDFS, S3,
        Google Cloud or Azure.
    allow_unbounded : bool, default False
        For streams, whether to allow an outer or anti join in which ivjoin cannot decide that a row has no match. Such
        rows stay in the state and are never emitted.

    Returns
    -------
    DataFrame

    Raises
    ------
    OrderError
        If unmatched rows of a stream would never be emitted, and ``allow_unbounded`` is False.
    IvjoinError
        Or another subclass, before the query starts. The message states the given value, the expected value and a fix.

    Warns
    -----
    AnsiWarning
        If the session's ANSI mode is off and the condition can raise an error.
    WatermarkWarning
        If a watermark is not read as an order, because a union or a join of streams comes after it.
    """
    given = DEFAULTS | options
    hot_keys, routing_dir = given["hot_keys"], given["routing_dir"]
    streaming = both_streaming(left, right)
    refuse_unbuilt(routing, hot_keys, routing_dir, streaming)
    if pick is not None and routing not in ("auto", "hash"):
        raise UnsupportedError(
            f"routing is {routing!r} with pick={pick!r}: all partners of a left row meet in one task; expected 'auto' "
            "or 'hash'"
        )
    call = resolved(
        left, right, on, condition, how, left_order, right_order, given["left_bounds"], given["right_bounds"], suffix,
        given["batch_size"], on_late, timezone, pick, params,
    )
    if streaming and not given["allow_unbounded"]:
        refuse_undecided(call.spec)
    budget = worker_budget(call.spec, memory_limit, when_full, streaming)
    return joined_frames(left, right, call, buckets, backend, name, routing, hot_keys, routing_dir, budget)


def joined_frames(
    left: DataFrame, right: DataFrame, call: Resolved, buckets: int | None, backend: str,
    name: str | Observation | None, routing: str, hot_keys: Sequence[object] | None = None,
    routing_dir: str | None = None, budget: Budget | None = None,
) -> DataFrame:
    if backend not in BACKENDS:
        raise IvjoinError(f"backend is {backend!r}; expected {' or '.join(map(repr, BACKENDS))}")
    streaming, with_table = both_streaming(left, right), left.isStreaming != right.isStreaming
    for note in call.notes:
        warn_caller(note)
    out = output_type(plan_of(call.spec), call.types)
    keeps = call.spec.on_late == KEEP
    of_tables = StructType(out.fields[:-1]) if keeps else out
    if streaming and not isinstance(name, str | None):
        raise IvjoinError(f"name is a {type(name).__name__}; expected text (an Observation is for static frames)")
    if not (name is None or isinstance(name, str) or hasattr(type(name), "get")):
        raise IvjoinError(f"name is a {type(name).__name__}; expected a pyspark.sql.Observation, or text")
    kernels_early(left)
    if with_table:
        from ivjoin.spark.spread.static import table_join

        count = stream_count(buckets, call.settings.partitions)
        joined = table_join(left, right, call.spec, of_tables, count, budget)
    elif not streaming:
        from ivjoin.spark.spread.spreading import spread_of
        from ivjoin.spark.spread.static import static_join

        observation = None if isinstance(name, str) else name
        spread = spread_of(left, right, call.spec, call.settings, buckets, routing)
        joined = static_join(left, right, call.spec, of_tables, spread, observation, budget)
    else:
        from ivjoin.spark.state.streamspread import stream_spread

        if backend == BACKENDS[0]:
            for frame, side in zip((left, right), SIDES, strict=True):
                refuse_second_state(frame, side)
        count = stream_count(buckets, call.settings.partitions)
        spread_out = stream_spread(call.spec, buckets, routing, hot_keys, routing_dir)
        joined = _joined_stream(
            left, right, call, out, buckets, count, observed_name(name), backend, spread_out, budget
        )
    if keeps and not streaming:  # a join without state has no late rows
        joined = joined.withColumn(REASON, F.lit(None).cast("string"))
    if not call.spec.left_over:
        return joined
    kept = rows_where(joined, plan_of(call.spec), call.types, call.aliases, call.spec.left_over)
    _ = kept.schema  # over Connect, this is when Spark looks at the conjuncts
    return kept


def _joined_stream(
    left: Any, right: Any, call: Resolved, out: Any, buckets: int | None, count: int, name: str, backend: str,
    spread: StreamSpread, budget: Budget | None,
) -> DataFrame:
    from ivjoin.spark.state.stateful import packed_sides, streaming_join

    segmented = backend == "transformWithState"
    sides = packed_sides(left, right, call.spec, buckets, spread, two_groups=not segmented)

    def packed(results: Results | None = None) -> Any:
        return streaming_join(sides, call.spec, buckets, name, segmented, results, spread, budget)

    joined = packed().mapInArrow(opener(joined_schema(call.spec)), out)
    remember(Joined(joined, call.spec, call.notes, count, buckets is None, spread, packed))
    return joined
