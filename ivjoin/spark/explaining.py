"""What a join of DataFrames would do: the pruning plan of the operator, and how the work is divided."""

from __future__ import annotations

from typing import Any

from ivjoin.operator.explain import explain_plan
from ivjoin.plan.cache import plan_of
from ivjoin.plan.planner import JoinPlan
from ivjoin.spark.buckets import checked_count
from ivjoin.spark.columns import key_sql
from ivjoin.spark.join import resolved
from ivjoin.spark.sorting import sort_key

__all__ = ["explain"]


def explain(left: Any, right: Any, *args: Any, buckets: int | None = None, **options: Any) -> str:
    """The plan of ``left.band_join(right, ...)`` as text; takes its arguments, and runs nothing.

    Parameters
    ----------
    left, right : DataFrame
    *args, **options
        As for :func:`ivjoin.spark.band_join`; ``backend`` and ``name`` change nothing.

    Returns
    -------
    str

    Examples
    --------
    >>> print(ivjoin.spark.explain(clicks, views, on="user", condition="l.ts >= r.ts"))  # doctest: +SKIP
    """
    for name in ("backend", "name"):
        options.pop(name, None)
    call = resolved(left, right, *args, **options)
    plan = plan_of(call.spec)
    keys = key_sql(plan)
    why = _why_undivided(plan)
    lines = []
    if left.isStreaming:
        count = checked_count(buckets, call.settings.partitions) if keys else 1
        how = f"hashed to {count} buckets by {len(keys)} key{'s' if len(keys) > 1 else ''}" if keys else (
            f"in one bucket, since {why}: one task joins all rows"
        )
        lines.append(f"streaming: rows {how}; late rows: {call.spec.on_late}")
    else:
        key = sort_key(plan)
        where = "shuffled by the keys" if keys else f"in one task, since {why}"
        order = f"sorted by {key.nodes[0]} and {key.nodes[1]}" if key else "in any order: no band to sort along"
        lines.append(f"static: rows {where}, {order}")
    lines += [f"left to Spark, which filters the joined rows by it: {text}" for text in call.spec.left_over]
    lines += [f"beware: {note}" for note in call.notes]
    return "\n".join([*lines, explain_plan(plan)])


def _why_undivided(plan: JoinPlan) -> str:
    """Why Spark has nothing to hash rows by."""
    computed = [f"{key.left} = {key.right}" for key in plan.separation.keys]
    if not computed:
        return "there is no key that both sides share"
    return (
        f"Spark is not given expressions to hash by ({', '.join(computed)}): put them into columns of both sides "
        "before the join to divide the rows"
    )
