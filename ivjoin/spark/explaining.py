"""What a join of DataFrames would do: the pruning plan of the operator, and how the work is divided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ivjoin.operator.explain import explain_plan
from ivjoin.plan.cache import plan_of
from ivjoin.spark.buckets import checked_count
from ivjoin.spark.columns import key_sql
from ivjoin.spark.join import refuse_unbuilt, resolved
from ivjoin.spark.sorting import sort_key
from ivjoin.spark.spreading import spread_of, why_undivided
from ivjoin.spark.streamspread import stream_spread

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

    from ivjoin.plan.question import DeclaredBounds, Keys, Orders

__all__ = ["explain"]


def explain(
    left: DataFrame, right: DataFrame, on: Keys | None = None, condition: str | Column | None = None,
    how: str = "inner", left_order: Orders | None = None, right_order: Orders | None = None,
    left_bounds: DeclaredBounds | None = None, right_bounds: DeclaredBounds | None = None, suffix: str = "_right",
    batch_size: int = 65536, on_late: str = "drop", timezone: str | None = None, *, buckets: int | None = None,
    backend: str = "applyInPandasWithState", name: str | Observation | None = None, routing: str = "auto",
    hot_keys: Sequence[object] | None = None, routing_dir: str | None = None,
) -> str:
    """The plan of ``left.band_join(right, ...)`` as text; takes its arguments, and joins nothing.

    Static frames are read once for a sample, as ``band_join`` does, unless ``routing`` is "hash".

    Parameters
    ----------
    left, right, on, condition, how, left_order, right_order, left_bounds, right_bounds, suffix, batch_size, \
    on_late, timezone, buckets, backend, name, routing, hot_keys, routing_dir
        As for :func:`ivjoin.spark.band_join`; ``backend`` and ``name`` change nothing.

    Returns
    -------
    str

    Examples
    --------
    >>> print(ivjoin.spark.explain(clicks, views, on="user", condition="l.ts >= r.ts"))  # doctest: +SKIP
    """
    del backend, name
    refuse_unbuilt(routing, hot_keys, routing_dir, left.isStreaming)
    call = resolved(
        left, right, on, condition, how, left_order, right_order, left_bounds, right_bounds, suffix, batch_size,
        on_late, timezone,
    )
    plan = plan_of(call.spec)
    keys = key_sql(plan)
    why = why_undivided(plan)
    lines = []
    if left.isStreaming:
        count = checked_count(buckets, call.settings.partitions)
        of_stream = stream_spread(call.spec, count, routing, hot_keys)
        if keys:
            how = f"hashed to {count} buckets by {len(keys)} key{'s' if len(keys) > 1 else ''}"
            how += f", those of {len(of_stream.hot)} hot keys by {of_stream.slices}" if of_stream.slices else ""
            how += f", hot ones too, since {of_stream.why}" if hot_keys and of_stream.why else ""
        elif of_stream.slices is not None:
            how = f"in {count} buckets, by {of_stream.slices}"
        else:
            how = f"in one bucket, since {why} ({of_stream.why}): one task joins all rows"
        lines.append(f"streaming: rows {how}; late rows: {call.spec.on_late}")
    else:
        key = sort_key(plan)
        spread = spread_of(left, right, call.spec, call.settings, buckets, routing)
        order = f"sorted by {key.nodes[0]} and {key.nodes[1]}" if key else "in any order: no band to sort along"
        if spread.plan is not None:
            lines.append(f"static: rows routed to {spread.tasks} tasks, {order}")
            lines += [f"  {line}" for line in str(spread.plan).splitlines()]
        else:
            where = "shuffled by the keys" if keys else f"in one task, since {spread.why or why}"
            lines.append(f"static: rows {where}, {order}")
            lines += [f"  note: {spread.why}"] if keys and spread.why else []
    lines += [f"left to Spark, which filters the joined rows by it: {text}" for text in call.spec.left_over]
    lines += [f"beware: {note}" for note in call.notes]
    return "\n".join([*lines, explain_plan(plan)])

