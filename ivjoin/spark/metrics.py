"""What joins count, carried by Spark's observed metrics: in the progress of a query, or in an Observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as F

from ivjoin.spark.bucket import COUNTS
from ivjoin.spark.results import COUNTS_COLUMN, ROWS_COLUMN

__all__ = ["PREFIX", "metrics", "observed"]

PREFIX = "ivjoin"


def observed(played: Any, name: Any, counts: Sequence[str] = COUNTS) -> Any:
    """The packed rows alone; the counts beside them are added up on the way, of peaks the greatest is taken.

    ``name`` is that of the observed metrics, or a ``pyspark.sql.Observation``.
    """
    field = F.col(COUNTS_COLUMN)
    totals = []
    for i, count in enumerate(counts):
        value = F.split_part(field, F.lit(","), F.lit(i + 1)).cast("long")
        totals.append((F.max(value) if count.startswith("peak_") else F.sum(value)).alias(count))
    rows = F.col(ROWS_COLUMN)
    return played.observe(name, *totals).where(rows.isNotNull()).select(rows)


def metrics(query: Any) -> list[dict[str, Any]]:
    """What band joins counted: those of a streaming query, per micro-batch, or one of static frames.

    Parameters
    ----------
    query : StreamingQuery or Observation
        Classic or Connect. Of a streaming query, Spark keeps the progress of the last 100 micro-batches. An
        ``Observation`` given to a static join as ``name`` waits until the first action on the result has ended.

    Returns
    -------
    list of dict
        Of a streaming query one entry per micro-batch and join, oldest first: ``batch`` and ``join`` (its name), then,
        summed over the buckets: ``left_rows_in``, ``right_rows_in``, ``rows_out``, ``left_rows_retired``,
        ``right_rows_retired``, ``late_rows`` of the micro-batch; ``state_rows``, ``state_bytes`` (memory) and
        ``bytes_written`` (state handed to Spark) at its end; ``restored``, the buckets whose operator was read back
        from state; ``read_us``, ``join_us``, ``write_us``, the time inside the operator.
        Of a static join one entry: the first six, summed over the tasks, and ``peak_state_rows`` and
        ``peak_state_bytes``, the greatest of any task.

    Examples
    --------
    >>> [m["late_rows"] for m in metrics(query)]  # doctest: +SKIP
    [0, 0, 3]
    """
    if not hasattr(query, "recentProgress"):
        return [dict(query.get)]
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
