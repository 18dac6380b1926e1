"""Counts per micro-batch, carried by Spark's observed metrics: they travel with the progress of the query."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from ivjoin.spark.bucket import COUNTS
from ivjoin.spark.results import COUNTS_COLUMN, ROWS_COLUMN

__all__ = ["PREFIX", "metrics", "observed"]

PREFIX = "ivjoin"


def observed(played: Any, name: str) -> Any:
    """The packed rows alone; the counts beside them are summed over the buckets of a micro-batch on the way."""
    field = F.col(COUNTS_COLUMN)
    sums = [
        F.sum(F.split_part(field, F.lit(","), F.lit(i + 1)).cast("long")).alias(count)
        for i, count in enumerate(COUNTS)
    ]
    rows = F.col(ROWS_COLUMN)
    return played.observe(name, *sums).where(rows.isNotNull()).select(rows)


def metrics(query: Any) -> list[dict[str, Any]]:
    """What the band joins of a streaming query counted, one entry per micro-batch and join, oldest first.

    Parameters
    ----------
    query : StreamingQuery
        Classic or Connect. Spark keeps the progress of the last 100 micro-batches.

    Returns
    -------
    list of dict
        ``batch`` and ``join`` (its name), then, summed over the buckets: ``left_rows_in``, ``right_rows_in``,
        ``rows_out``, ``left_rows_retired``, ``right_rows_retired``, ``late_rows`` of the micro-batch; ``state_rows``,
        ``state_bytes`` (memory) and ``bytes_written`` (state handed to Spark) at its end; ``restored``, the buckets
        whose operator was read back from state; ``read_us``, ``join_us``, ``write_us``, the time inside the operator.

    Examples
    --------
    >>> [m["late_rows"] for m in metrics(query)]  # doctest: +SKIP
    [0, 0, 3]
    """
    out = []
    for progress in query.recentProgress:
        for name, row in _observations(progress).items():
            if name == PREFIX or name.startswith(f"{PREFIX}-"):
                counts = _named(row.asDict() if hasattr(row, "asDict") else dict(row))
                if counts.get("state_rows") is not None:
                    out.append({"batch": progress["batchId"], "join": name, **counts})
    return out


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """The row by name; over Connect, Spark 4.3 gives its values and its schema apart."""
    if row.keys() != {"values", "schema"}:
        return row
    return dict(zip((f["name"] for f in row["schema"]["fields"]), row["values"], strict=True))


def _observations(progress: Any) -> dict[str, Any]:
    # Progress was a plain dict before Spark 4 and is a dict-like object since.
    return progress.get("observedMetrics") or {}
