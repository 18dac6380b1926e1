"""What a join of DataFrames would do: the pruning plan of the operator, and how the work is divided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ivjoin.errors import IvjoinError
from ivjoin.operator.explain import explain_plan
from ivjoin.plan.cache import plan_of
from ivjoin.plan.planner import JoinPlan
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.buckets import checked_count
from ivjoin.spark.columns import key_sql
from ivjoin.spark.join import resolved
from ivjoin.spark.origin import origin_of
from ivjoin.spark.sorting import sort_key

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

    from ivjoin.plan.question import DeclaredBounds, Keys, Orders

__all__ = ["explain"]


def explain(
    left: DataFrame, right: DataFrame | None = None, on: Keys | None = None, condition: str | Column | None = None,
    how: str = "inner", left_order: Orders | None = None, right_order: Orders | None = None,
    left_bounds: DeclaredBounds | None = None, right_bounds: DeclaredBounds | None = None, suffix: str = "_right",
    batch_size: int = 65536, on_late: str = "drop", timezone: str | None = None, *, buckets: int | None = None,
    backend: str = "applyInPandasWithState", name: str | Observation | None = None,
) -> str:
    """The plan of ``left.band_join(right, ...)`` as text; takes its arguments, and runs nothing.

    Parameters
    ----------
    left, right, on, condition, how, left_order, right_order, left_bounds, right_bounds, suffix, batch_size, \
    on_late, timezone, buckets, backend, name
        As for :func:`ivjoin.spark.band_join`; ``backend`` and ``name`` change nothing. Of a joined stream, given alone
        as ``left``, the text also says how :func:`ivjoin.spark.write_stream` would write it.

    Returns
    -------
    str

    Raises
    ------
    IvjoinError
        As ``band_join``; or if ``left`` alone is no joined stream.

    Examples
    --------
    >>> print(ivjoin.spark.explain(clicks, views, on="user", condition="l.ts >= r.ts"))  # doctest: +SKIP
    >>> print(ivjoin.spark.explain(matches.select("user", "ts")))  # doctest: +SKIP
    """
    del backend, name
    if right is None:
        return _of_a_joined_stream(left)
    call = resolved(
        left, right, on, condition, how, left_order, right_order, left_bounds, right_bounds, suffix, batch_size,
        on_late, timezone,
    )
    count = checked_count(buckets, call.settings.partitions)
    return "\n".join(_described(call.spec, call.notes, count if left.isStreaming else None))


def _of_a_joined_stream(frame: DataFrame) -> str:
    origin = origin_of(frame)
    if origin is None:
        raise IvjoinError(
            "explain was given one frame, which no stream made by band_join stands behind; expected left and right as "
            "for band_join, or a joined stream"
        )
    joined = origin.joined
    sink = "rows go from the operator to the files as Arrow, in the workers that join" if origin.detour is None else (
        f"rows go through Spark before they are written, since {origin.detour} stands behind the join"
    )
    return "\n".join([*_described(joined.spec, joined.notes, joined.buckets), f"write_stream: {sink}"])


def _described(spec: JoinSpec, notes: Sequence[Warning], buckets: int | None) -> list[str]:
    """The lines about a join; ``buckets`` None is one of static frames."""
    plan = plan_of(spec)
    keys = key_sql(plan)
    why = _why_undivided(plan)
    lines = []
    if buckets is not None:
        count = buckets if keys else 1
        how = f"hashed to {count} buckets by {len(keys)} key{'s' if len(keys) > 1 else ''}" if keys else (
            f"in one bucket, since {why}: one task joins all rows"
        )
        lines.append(f"streaming: rows {how}; late rows: {spec.on_late}")
    else:
        key = sort_key(plan)
        where = "shuffled by the keys" if keys else f"in one task, since {why}"
        order = f"sorted by {key.nodes[0]} and {key.nodes[1]}" if key else "in any order: no band to sort along"
        lines.append(f"static: rows {where}, {order}")
    lines += [f"left to Spark, which filters the joined rows by it: {text}" for text in spec.left_over]
    lines += [f"beware: {note}" for note in notes]
    return [*lines, explain_plan(plan)]


def _why_undivided(plan: JoinPlan) -> str:
    """Why Spark has nothing to hash rows by."""
    computed = [f"{key.left} = {key.right}" for key in plan.separation.keys]
    if not computed:
        return "there is no key that both sides share"
    return (
        f"Spark is not given expressions to hash by ({', '.join(computed)}): put them into columns of both sides "
        "before the join to divide the rows"
    )
