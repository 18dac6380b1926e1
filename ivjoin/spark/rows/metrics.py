"""Count joins with Spark's observed metrics, which a query's progress or an Observation carries."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import reduce
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from ivjoin.errors import IvjoinError
from ivjoin.spark.rows.results import COUNTS, COUNTS_COLUMN, DELAYS, ROWS_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Observation
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.listener import StreamingQueryProgress

__all__ = ["MOST_GATHERED", "metrics", "observed", "observed_name"]

_PREFIX = "ivjoin"
_BUCKETS = "buckets"
_TURNS = "turns"  # the observed field of counts that are not added up
_BY_BUCKET = ("left_rows_in", "right_rows_in", "rows_out", "state_rows")
_PEAK = "peak_"  # prefix of the counts whose greatest value is reported
# Counts with separate names, as sums, for listeners and Spark's reporters.
_NAMED = {
    "rows_in": ("left_rows_in", "right_rows_in"), "rows_out": ("rows_out",), "late_rows": ("late_rows",),
    "evicted_rows": ("left_rows_retired", "right_rows_retired"), "state_rows": ("state_rows",),
    "state_bytes": ("state_bytes",),
}  # fmt: skip
MOST_GATHERED = 1024  # greatest number of buckets whose counts are reported one by one
_unnamed = itertools.count(1)


def observed_name(name: str | None) -> str:
    """Return the name of a join's observed counts. Without ``name``, each call returns a new one, as Spark requires."""
    return f"{_PREFIX}#{next(_unnamed)}" if name is None else f"{_PREFIX}-{name}"


def observed(played: Any, name: Any, counts: Sequence[str] = COUNTS, by_bucket: bool = False) -> Any:
    """Return the packed rows, and observe the sums of their counts, or the greatest values of peaks.

    ``name`` is the name of the observed metrics, or a ``pyspark.sql.Observation``. With ``by_bucket``, the texts with
    ``COUNTS`` and the bucket's number are collected, and :func:`metrics` adds them up. Spark itself sums only the
    counts in ``_NAMED``, because each task generates the code of these aggregates again in each micro-batch.
    """
    field, rows = F.col(COUNTS_COLUMN), F.col(ROWS_COLUMN)
    values = {
        count: F.split_part(field, F.lit(","), F.lit(i + 1)).cast("long") for i, count in enumerate(counts)
    }
    if by_bucket:
        totals = [F.collect_list(field).alias(_TURNS)]
        totals += [F.sum(reduce(add, [values[p] for p in parts])).alias(n) for n, parts in _NAMED.items()]
    else:
        totals = [(F.max(v) if n.startswith(_PEAK) else F.sum(v)).alias(n) for n, v in values.items()]
    return played.observe(name, *totals).where(rows.isNotNull()).select(rows)


def metrics(
    query: StreamingQuery | StreamingQueryProgress | Observation,
) -> list[dict[str, int | str | list[dict[str, int]]]]:
    """Return the counts of band joins, for each micro-batch of a stream or for a join of static frames.

    Parameters
    ----------
    query : StreamingQuery, StreamingQueryProgress or Observation
        Classic or Connect. Spark stores the progress of the last 100 micro-batches of a streaming query. Listeners
        receive a progress for each micro-batch. If you passed an ``Observation`` to a static join as ``name``, this
        call waits until the first action on the result has ended.

    Returns
    -------
    list of dict
        For a streaming query, one entry for each micro-batch and join, oldest first. For a static join, one entry.

    Raises
    ------
    IvjoinError
        If ``query`` has another type.

    Notes
    -----
    The counts of a streaming query are summed over the buckets. An entry contains:

    - ``batch``, and ``join``: ``ivjoin-`` and the join's name, or ``ivjoin``, ``ivjoin#2`` and so on.
    - ``left_rows_in``, ``right_rows_in``, ``rows_out``, ``left_rows_retired``, ``right_rows_retired`` and
      ``late_rows`` of the micro-batch.
    - ``state_rows``, ``state_bytes`` (memory) and ``bytes_written`` (state that Spark received) at the end of the
      micro-batch.
    - ``restored``: buckets whose operator was restored from state. ``caught_up``: buckets whose operator replayed
      some turns of other workers.
    - ``read_us``, ``join_us`` and ``write_us``: microseconds of reading the state, joining, and writing rows and state.
    - ``production_delay_us``: average microseconds from the arrival of a pair's later row in a map task to the output
      of the pair. ``peak_production_delay_us`` is an upper bound for all rows. Both are zero without output.
    - ``buckets``: for each bucket that was called, its number as ``bucket``, ``left_rows_in``, ``right_rows_in``,
      ``rows_out``, ``state_rows`` and both delays. The list is empty if there are more than 1,024 buckets.

    The entry of a static join has the first six counts, summed over the tasks, and the greatest ``peak_state_rows`` and
    ``peak_state_bytes`` of any task. For :func:`multi_join` of streams, the entry has ``alias_rows_in`` and
    ``alias_rows_retired`` for each input. A row is counted in each cell that received it.

    Examples
    --------
    >>> [m["late_rows"] for m in metrics(query)]  # doctest: +SKIP
    [0, 0, 3]
    """
    told: Any = query
    if not isinstance(told, dict) and not hasattr(told, "recentProgress"):
        if not hasattr(type(told), "get"):  # it waits
            raise IvjoinError(
                f"query is a {type(told).__name__}; expected a StreamingQuery or its progress, or the Observation that "
                "was passed as name= to a join of static frames"
            )
        return [dict(told.get)]
    reported = [told] if isinstance(told, dict) else told.recentProgress
    # Progress was a plain dict before Spark 4 and is a dict-like object since.
    observed = [(progress["batchId"], progress.get("observedMetrics") or {}) for progress in reported]
    shown = _shown({name for _, rows in observed for name in rows})
    out = []
    for batch, rows in observed:
        for name, row in rows.items():
            if name in shown:
                counts = _by_field(row.asDict() if hasattr(row, "asDict") else dict(row))
                if _TURNS in counts:
                    counts = _added_up(counts[_TURNS] or ())
                if counts.get("state_rows") is not None:
                    _tell_delays(counts)
                    counts.setdefault(_BUCKETS, [])
                    out.append({"batch": batch, "join": shown[name], **counts})
    return out


def _shown(names: set[str]) -> dict[str, str]:
    """Return the public names of the joins among the observed names; unnamed joins are numbered within the query."""
    found = (n.removeprefix(f"{_PREFIX}#") for n in names if n.startswith(f"{_PREFIX}#"))
    numbers = sorted(int(n) for n in found if n.isdecimal())
    out = {f"{_PREFIX}#{n}": _PREFIX if i == 1 else f"{_PREFIX}#{i}" for i, n in enumerate(numbers, 1)}
    return out | {n: n for n in names if n.startswith(f"{_PREFIX}-")}


def _added_up(turns: Sequence[str]) -> dict[str, Any]:
    """Return the counts of all turns of a micro-batch, and some of them by bucket; empty without turns."""
    told = sorted(([int(n) for n in text.split(",")] for text in turns), key=itemgetter(-1))
    if not told:
        return {}
    out: dict[str, Any] = {}
    for name, values in zip(COUNTS, zip(*told), strict=False):  # the bucket follows
        out[name] = max(values) if name.startswith(_PEAK) else sum(values)
    out[_BUCKETS] = [{"bucket": turn[-1]} | {n: turn[COUNTS.index(n)] for n in (*_BY_BUCKET, *DELAYS)} for turn in told]
    for counts in out[_BUCKETS]:
        _tell_delays(counts)
    return out


def _tell_delays(counts: dict[str, Any]) -> None:
    if DELAYS[0] in counts:
        total, peak = (counts.pop(name) for name in DELAYS)
        counts |= {"production_delay_us": total // max(1, counts["rows_out"]), "peak_production_delay_us": peak}


def _by_field(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row by name; over Connect, Spark 4.3 returns its values and its schema separately."""
    if row.keys() != {"values", "schema"}:
        return row
    return dict(zip((f["name"] for f in row["schema"]["fields"]), row["values"], strict=True))
