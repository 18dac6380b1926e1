"""``asof_join`` of DataFrames, static or streaming."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ivjoin.errors import ConditionError, OrderError, came
from ivjoin.expr.arguments import known_options
from ivjoin.outer.jointype import join_type
from ivjoin.plan.picking.asof import AsOf, as_of
from ivjoin.plan.question import named_pairs
from ivjoin.spark.api.join import joined_frames
from ivjoin.spark.api.resolving import resolved

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

    from ivjoin.plan.picking.asof import Tolerance
    from ivjoin.plan.question import Keys, Orders

__all__ = ["asof_join"]


@known_options("asof_join")
def asof_join(
    left: DataFrame, right: DataFrame, on: str | tuple[str, str], by: Keys | None = None, *,
    direction: Literal["backward", "forward", "nearest"] = "backward", tolerance: Tolerance | None = None,
    how: str = "left", suffix: str = "_right", allow_exact_matches: bool = True,
    ties: str | Sequence[str] | None = None, left_order: Orders | None = None, right_order: Orders | None = None,
    batch_size: int = 65536, on_late: str = "raise", timezone: str | None = None, buckets: int | None = None,
    backend: str = "applyInPandasWithState", name: str | Observation | None = None,
) -> DataFrame:
    """Join each left row with the last right row before it, the first one after it, or the nearest one.

    In streams, a left row is emitted as soon as no later right row can be a better match. The right stream therefore
    needs a watermark or a declared order.

    Parameters
    ----------
    left, right : DataFrame
        Streaming or static; classic or Connect. A static left frame needs a static right one.
    on : str or (str, str)
        The column to compare, or the left and the right one.
    by : str, list of str, or list of (str, str), optional
        Key columns, equal in both rows.
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
        If both frames are streams, and the right one has neither a watermark nor an order.
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
    return joined_frames(left, right, call, buckets, backend, name, "hash")
