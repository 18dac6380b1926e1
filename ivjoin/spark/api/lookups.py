"""Joins with at most one output row for each left row: ``asof_join``, and ``window_join``, which aggregates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ivjoin.arguments import known_options
from ivjoin.conditions.evaluate import check_supported
from ivjoin.errors import ConditionError, OrderError, UnsupportedError, came
from ivjoin.outer.jointype import join_type
from ivjoin.plan.picking.asof import AsOf, as_of
from ivjoin.plan.question import named_pairs
from ivjoin.spark.api.join import joined_frames
from ivjoin.spark.api.resolving import resolved, spelt
from ivjoin.spark.api.schema import both_streaming, refuse_undecided, worker_budget
from ivjoin.spark.rows.late import Backend, LateOrKept
from ivjoin.stream.window.question import Asked, asked_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

    from ivjoin.expr.literals import Params
    from ivjoin.plan.aggregates import Aggregate
    from ivjoin.plan.picking.asof import Tolerance
    from ivjoin.plan.question import DeclaredBounds, Keys, Orders
    from ivjoin.spark.runtime.environment import Settings
    from ivjoin.stream.window.join import WindowAggregates

__all__ = ["asof_join", "window_join"]

@known_options("asof_join")
def asof_join(
    left: DataFrame, right: DataFrame, on: str | tuple[str, str], by: Keys | None = None, *,
    direction: Literal["backward", "forward", "nearest"] = "backward", tolerance: Tolerance | None = None,
    how: Literal["left", "inner", "right", "full"] = "left", suffix: str = "_right", allow_exact_matches: bool = True,
    ties: str | Sequence[str] | None = None, left_order: Orders | None = None, right_order: Orders | None = None,
    batch_size: int = 65536, on_late: LateOrKept = "raise", timezone: str | None = None, buckets: int | None = None,
    backend: Backend = "applyInPandasWithState", name: str | Observation | None = None,
) -> DataFrame:
    """Match each left row with the last right row before it, the first right row after it, or the nearest one.

    In a join of streams, ivjoin emits a left row as soon as no later right row can be a better match. The right stream
    therefore needs a watermark or a declared order.

    Parameters
    ----------
    left, right : DataFrame
        Streaming or static; classic or Connect. A static left frame needs a static right one.
    on : str or (str, str)
        The column to compare, or the left and the right column.
    by : str, list of str, or list of (str, str), optional
        Key columns, which must be equal in both rows.
    direction, tolerance, how, suffix, allow_exact_matches, ties
        As for :func:`ivjoin.asof_join`.
    left_order, right_order, batch_size, on_late, timezone, buckets, backend, name
        As for :func:`ivjoin.spark.band_join`.

    Returns
    -------
    DataFrame
        At most one row for each left row.

    Raises
    ------
    OrderError
        If both frames are streams, and the right stream has neither a watermark nor an order.
    IvjoinError
        Or another subclass, before the query starts.

    Examples
    --------
    >>> trades.asof_join(quotes, on="ts", by="sym", tolerance="5 minutes")  # doctest: +SKIP
    """

    if join_type(how).name not in ("inner", "left"):
        raise ConditionError(
            f"how is {came(how)}; expected 'left' or 'inner'. For 'right' and 'full', use band_join with "
            "pick=ivjoin.Pick(...)"
        )

    def asked(schemas: list[pa.Schema], spelt: Callable[[Any, int], Any], zone: str) -> AsOf:
        pair = [(spelt(a, 0), spelt(b, 1)) for a, b in named_pairs(on)] if isinstance(on, (str, tuple, list)) else on
        names = [ties] if isinstance(ties, str) else list(ties or ())
        return as_of(
            (schemas[0], schemas[1]), pair, direction, tolerance, allow_exact_matches, [spelt(n, 1) for n in names],
            zone=zone,
        )

    call = resolved(
        left, right, by, None, how, left_order, right_order, None, None, suffix, batch_size, on_late, timezone,
        as_of=asked,
    )
    if left.isStreaming and right.isStreaming and not call.spec.orders[1]:
        raise OrderError(
            "the right stream of asof_join has no watermark and no order, so a left row could never be emitted; "
            "use right.withWatermark(column, delay), or right_order="
        )
    return joined_frames(left, right, call, buckets, backend, name, "auto")


@known_options("window_join")
def window_join(
    left: DataFrame, right: DataFrame, on: Keys | None = None, condition: str | Column | None = None,
    aggregate: WindowAggregates | None = None, how: Literal["left", "inner"] = "left", *,
    left_order: Orders | None = None, right_order: Orders | None = None, left_bounds: DeclaredBounds | None = None,
    right_bounds: DeclaredBounds | None = None, batch_size: int = 65536, on_late: LateOrKept = "raise",
    timezone: str | None = None, buckets: int | None = None, backend: Backend = "applyInPandasWithState",
    name: str | Observation | None = None, params: Params | None = None, memory_limit: int | str | None = None,
) -> DataFrame:
    """Aggregate the right rows that match each left row.

    Parameters
    ----------
    left, right : DataFrame
        Streaming or static; classic or Connect. A static left frame needs a static right one.
    aggregate : mapping of str to str
        As for :func:`ivjoin.window_join`. The functions are count, count_if, sum, mean, min, max, first, last,
        bool_and and bool_or.
    how : {"left", "inner"}
        What happens to left rows with an empty window. "left": they have count 0, and null for other functions.
        "inner": they are dropped.
    on, condition, left_order, right_order, left_bounds, right_bounds, batch_size, on_late, timezone, buckets, \
    backend, name, params, memory_limit
        As for :func:`ivjoin.spark.band_join`.

    Returns
    -------
    DataFrame
        One row for each left row: its columns, then the aggregates.

    Raises
    ------
    UnsupportedError
        If a function needs all values of a window, as median does.
    IvjoinError
        Or another subclass, before the query starts.

    Examples
    --------
    >>> trades.window_join(quotes, on="sym", condition="r.ts BETWEEN l.ts - INTERVAL 5 MINUTES AND l.ts",
    ...                    aggregate={"vwap": "sum(r.price * r.qty) / sum(r.qty)"})  # doctest: +SKIP
    """
    if how not in ("left", "inner"):
        raise ConditionError(f"how is {came(how)}; expected 'left' or 'inner'")
    streaming = both_streaming(left, right)
    found: list[Asked] = []

    def aggregated(schemas: list[pa.Schema], zone: str, settings: Settings) -> tuple[Aggregate, ...]:
        exact, names = settings.case_sensitive, schemas[1].names
        given = aggregate
        if isinstance(given, Mapping):
            pairs = {n: x for n, x in given.items() if isinstance(x, (tuple, list)) and x}
            given = {**given, **{n: (spelt(x[0], names, exact), *x[1:]) for n, x in pairs.items()}}
        made = asked_of(given, schemas[0], schemas[1], zone, params, case_sensitive=exact)
        if made.reductions or any(a.function == "array_agg" for a in made.engine.values()):
            raise UnsupportedError(
                "an aggregate needs all values of a window, which window_join on Spark does not support; use count, "
                "sum, mean, min, max, first, last, stddev, variance, bool_and and bool_or, or collect the frames and "
                "call ivjoin.window_join"
            )
        found.append(made)
        return tuple(made.engine.values())

    call = resolved(
        left, right, on, condition, how, left_order, right_order, left_bounds, right_bounds, "_right", batch_size,
        on_late, timezone, params=params, aggregated=aggregated,
    )
    if streaming:
        refuse_undecided(call.spec)
    budget = worker_budget(call.spec, memory_limit, "raise", streaming)
    joined = joined_frames(left, right, call, buckets, backend, name, "auto", budget=budget)
    asked, schema = found[0], call.spec.schemas[0]
    check_supported(*(o.node for o in asked.outputs))
    fields = [*schema, *(o.field for o in asked.outputs)]
    names = list(schema.names)

    def finished(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = [batch.column(n) for n in names]
            yield pa.RecordBatch.from_arrays(
                [*arrays, *asked.made(batch, asked.outputs)], names=[*names, *(o.name for o in asked.outputs)]
            )

    from pyspark.sql.pandas.types import from_arrow_schema

    made = from_arrow_schema(pa.schema(fields))
    for i in range(len(names)):
        made.fields[i] = left.schema.fields[i]
    return joined.mapInArrow(finished, made)
