"""What joins count, carried by Spark's observed metrics: in the progress of a query, or in an Observation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from ivjoin.errors import IvjoinError
from ivjoin.spark.delays import DELAYS, told_delays
from ivjoin.spark.results import COUNTS, COUNTS_COLUMN, ROWS_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Observation
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.listener import StreamingQueryProgress

__all__ = ["MOST_GATHERED", "metrics", "observed", "observed_name"]

_PREFIX = "ivjoin"
_BUCKETS = "buckets"
_TURNS = "turns"  # the observed field of counts that are not added up
_BY_BUCKET = ("left_rows_in", "right_rows_in", "rows_out", "state_rows")
_PEAK = "peak_"  # begins the name of a count of which the greatest is taken
MOST_GATHERED = 1024  # buckets whose counts are told one by one
_unnamed = itertools.count(1)


def observed_name(name: str | None) -> str:
    """Under which a join's counts are observed; without a name another one each time, as Spark wants in a query.

    Nothing that outlives the process holds it, so a query that is started again may observe under another one.
    """
    return f"{_PREFIX}#{next(_unnamed)}" if name is None else f"{_PREFIX}-{name}"


def observed(played: Any, name: Any, counts: Sequence[str] = COUNTS, by_bucket: bool = False) -> Any:
    """The packed rows alone; the counts beside them are added up on the way, of peaks the greatest is taken.

    ``name`` is that of the observed metrics, or a ``pyspark.sql.Observation``. ``by_bucket``: the texts themselves, of
    ``COUNTS`` and the number of the bucket, are gathered, and :func:`metrics` adds them up. For sums by Spark each task
    makes the code of fifteen aggregates anew, in each micro-batch.
    """
    field, rows = F.col(COUNTS_COLUMN), F.col(ROWS_COLUMN)
    totals = []
    if by_bucket:
        totals.append(F.collect_list(field).alias(_TURNS))
    for i, count in enumerate(counts if not by_bucket else ()):
        value = F.split_part(field, F.lit(","), F.lit(i + 1)).cast("long")
        totals.append((F.max(value) if count.startswith(_PEAK) else F.sum(value)).alias(count))
    return played.observe(name, *totals).where(rows.isNotNull()).select(rows)


def metrics(
    query: StreamingQuery | StreamingQueryProgress | Observation,
) -> list[dict[str, int | str | list[dict[str, int]]]]:
    """What band joins counted: those of a streaming query, per micro-batch, or one of static frames.

    Parameters
    ----------
    query : StreamingQuery, StreamingQueryProgress or Observation
        Classic or Connect. Of a streaming query, Spark keeps the progress of the last 100 micro-batches; that of one
        micro-batch is what listeners are given. An
        ``Observation`` given to a static join as ``name`` waits until the first action on the result has ended.

    Returns
    -------
    list of dict
        Of a streaming query one entry per micro-batch and join, oldest first: ``batch`` and ``join`` (``ivjoin-`` and
        its name; of those without one, the query's first is ``ivjoin``, its second ``ivjoin#2``, and so on), then,
        summed over the buckets: ``left_rows_in``, ``right_rows_in``, ``rows_out``, ``left_rows_retired``,
        ``right_rows_retired``, ``late_rows`` of the micro-batch; ``state_rows``, ``state_bytes`` (memory) and
        ``bytes_written`` (state handed to Spark) at its end; ``restored``, the buckets whose operator was read back
        from state, and ``caught_up``, those whose operator was some turns old and played them; ``read_us``,
        ``join_us``, ``write_us``, the time inside the operator; ``production_delay_us``, the microseconds from when
        the later of two rows came to the join to when their pair was put out, on average over the rows out, and
        ``peak_production_delay_us``, which none exceeded; zero where nothing came out. A row comes when a map task
        takes it in, for the average that of the micro-batch's average row, for the peak that of its first; what it
        waited in the source before, and for the commit after, is not in it. Clocks are those of the machines.
        ``buckets`` is a list with ``bucket`` (its number),
        ``left_rows_in``, ``right_rows_in``, ``rows_out``, ``state_rows`` and both delays of each bucket that took
        part; empty where there are more than 1,024.
        Of a static join one entry: the first six, summed over the tasks, and ``peak_state_rows`` and
        ``peak_state_bytes``, the greatest of any task. Of :func:`multi_join` of streams ``rows_in`` and
        ``rows_retired`` are of each input, as ``alias_rows_in``, a row counted in each cell that it was sent to.

    Raises
    ------
    IvjoinError
        If it is none of these.

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
                "a join of static frames was given as name="
            )
        return [dict(told.get)]
    reported = [told] if isinstance(told, dict) else told.recentProgress
    observed = [(progress["batchId"], _observations(progress)) for progress in reported]
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
    """What the joins among the observed names are called to users: unnamed ones by their place in the query."""
    found = (n.removeprefix(f"{_PREFIX}#") for n in names if n.startswith(f"{_PREFIX}#"))
    numbers = sorted(int(n) for n in found if n.isdecimal())
    out = {f"{_PREFIX}#{n}": _PREFIX if i == 1 else f"{_PREFIX}#{i}" for i, n in enumerate(numbers, 1)}
    return out | {n: n for n in names if n.startswith(f"{_PREFIX}-")}


def _added_up(turns: Sequence[str]) -> dict[str, Any]:
    """The counts of all turns of a micro-batch, and some of them by bucket; nothing where there was none."""
    told = sorted(([int(n) for n in text.split(",")] for text in turns), key=itemgetter(-1))
    if not told:
        return {}
    out: dict[str, Any] = {}
    for name, values in zip(COUNTS, zip(*told), strict=False):  # the bucket stands behind
        out[name] = max(values) if name.startswith(_PEAK) else sum(values)
    out[_BUCKETS] = [{"bucket": turn[-1]} | {n: turn[COUNTS.index(n)] for n in (*_BY_BUCKET, *DELAYS)} for turn in told]
    for counts in out[_BUCKETS]:
        _tell_delays(counts)
    return out


def _tell_delays(counts: dict[str, Any]) -> None:
    """What turns counted, as users are told it."""
    if DELAYS[0] in counts:
        total, peak = (counts.pop(name) for name in DELAYS)
        counts.update(told_delays(total, peak, counts["rows_out"]))


def _by_field(row: dict[str, Any]) -> dict[str, Any]:
    """The row by name; over Connect, Spark 4.3 gives its values and its schema apart."""
    if row.keys() != {"values", "schema"}:
        return row
    return dict(zip((f["name"] for f in row["schema"]["fields"]), row["values"], strict=True))


def _observations(progress: Any) -> dict[str, Any]:
    # Progress was a plain dict before Spark 4 and is a dict-like object since.
    return progress.get("observedMetrics") or {}
