"""``write_stream``: write a joined stream to files, exactly once, without converting its rows to rows of Spark.

::

    operator --> Parquet, in the worker --> what was written --> driver: publish (foreachBatch)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from ivjoin.arguments import known_options
from ivjoin.errors import IvjoinError
from ivjoin.spark.api.origin import Origin
from ivjoin.spark.rows.arrow import in_places
from ivjoin.spark.rows.late import REASON, LateRows, kept_late
from ivjoin.spark.rows.results import ROWS_COLUMN
from ivjoin.spark.runtime.environment import cores_of, is_connect
from ivjoin.spark.sink.arguments import checkpoint_of, laid_out, late_layout, trigger_of
from ivjoin.spark.sink.deltatable import DeltaFolder
from ivjoin.spark.sink.layout import ROW_GROUP_ROWS, Layout
from ivjoin.spark.sink.parts import Part, WrittenResults, row_writer
from ivjoin.spark.sink.publishing import Folder
from ivjoin.spark.spread.buckets import state_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["write_stream"]

# All readers ignore names that begin with this.
_STAGING = "_staging"
_PARTITIONS = "spark.sql.shuffle.partitions"
_COMPACT_INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"


@known_options("write_stream")
def write_stream(
    joined: DataFrame, path: str | os.PathLike[str], checkpoint_location: str | os.PathLike[str] | None = None,
    format: Literal["parquet", "delta", "ipc"] = "parquet", partition_by: str | Sequence[str] | None = None,
    trigger: str | timedelta | Mapping[str, str | bool] | None = None, query_name: str | None = None, *,
    compression: str | None = None, row_group_size: int = ROW_GROUP_ROWS, file_rows: int | None = None,
    statistics: bool | Sequence[str] = True, late_path: str | os.PathLike[str] | None = None,
) -> StreamingQuery:
    """Start a query that writes a joined stream to files, each row exactly once.

    The workers that join write Arrow batches directly to the files. You may select, drop or rename columns after the
    join. If a filter or a computed column follows the join, or for another stream, the rows go through Spark first.
    ``ivjoin.spark.explain(joined)`` shows this.

    Parameters
    ----------
    joined : DataFrame
        A stream: the output of ``band_join``, or a frame that is derived from it.
    path : str or path
        A folder that the driver and the workers share: local, or mounted under the same path. It is created if it does
        not exist.
    checkpoint_location : str or path, optional
        By default, the session's ``spark.sql.streaming.checkpointLocation``.
    format : {"parquet", "delta", "ipc"}
        Parquet files, a Delta table (needs the package deltalake), or Arrow IPC files.
    partition_by : str or sequence of str, optional
        Columns that become folders, ``day=2024-01-01/``: integers, text, bools, dates and decimals.
    trigger : str, timedelta or mapping, optional
        ``"availableNow"``, an interval such as ``"10 seconds"``, a timedelta, or an argument of
        ``DataStreamWriter.trigger`` such as ``{"processingTime": "10 seconds"}``. By default, a micro-batch starts as
        soon as possible.
    query_name : str, optional
    compression : str, optional
        For Parquet and Delta: "snappy" (the default), "zstd", "lz4", "gzip", "brotli" or "none". For Arrow: "none" (the
        default), "lz4" or "zstd".
    row_group_size : int, default 131072
        Rows in a Parquet row group or Arrow batch.
    file_rows : int, optional
        Maximum number of rows in a file. By default, a micro-batch has one file, or one for each folder and worker.
    statistics : bool, str or sequence of str, default True
        Whether Parquet files contain least and greatest values; or the names of the columns with such values.
    late_path : str or path, optional
        Another folder, for the late rows of both streams, each exactly once and in the same format. Late rows then do
        not stop the query, with any ``on_late``. Their files have the columns of both inputs and ``late_reason``.

    Returns
    -------
    pyspark.sql.streaming.StreamingQuery
        Spark's query. :func:`ivjoin.spark.metrics` returns the counts of the join.

    Raises
    ------
    IvjoinError
        Before the query starts: if an argument has another value, the format cannot store a column, or the folder
        contains files that readers would not see together with the new ones.

    Notes
    ----- A micro-batch is published by renaming one file. With ``partition_by`` or ``file_rows``, an entry in the log
    of Spark's own sink publishes it (see :func:`ivjoin.spark.published_files`). For a Delta table, one commit publishes
    it. If a micro-batch is repeated after a failure, it detects the files that it has already published.

    Examples
    --------
    >>> query = ivjoin.spark.write_stream(matches, "out", "checkpoint", trigger="availableNow")  # doctest: +SKIP
    """
    if not hasattr(joined, "isStreaming") or not joined.isStreaming:
        raise IvjoinError(
            f"joined is a {'static frame' if hasattr(joined, 'isStreaming') else type(joined).__name__}; expected a "
            "streaming DataFrame (a static one is written by joined.write.parquet(...))"
        )
    spark = joined.sparkSession
    if late_path is not None and REASON in joined.columns:
        joined = joined.drop(REASON)
    checkpoint = checkpoint_of(spark, checkpoint_location, query_name)
    given = trigger_of(trigger)
    layout, origin = laid_out(joined, path, format, partition_by, compression, row_group_size, file_rows, statistics)
    late = None if late_path is None else late_layout(late_path, layout, origin)
    layout, *others = (_staged(it, checkpoint) for it in (layout, late) if it is not None)
    folder, *late_folders = (_checked_folder(spark, it) for it in (layout, *others))
    if origin is not None and origin.detour is None:
        found = kept_late(origin.joined.spec) if late is None else LateRows(origin.joined.spec, False)
        packed = origin.joined.packed(WrittenResults(layout, found, *others))
    else:
        plain = in_places(joined)  # PySpark reads other names as expressions
        packed = plain.mapInArrow(row_writer(layout), f"{ROWS_COLUMN} binary")

    query: list[str] = []

    def publish(frame: DataFrame, batch: int) -> None:
        if not query:
            query.append(_query_id(frame, checkpoint))
        rows = frame.toArrow().column(0).to_pylist()
        parts = [Part.unpacked(row) for row in rows if row is not None]
        for it in late_folders:
            it.publish(query[0], batch, [p for p in parts if p.late])
        folder.publish(query[0], batch, [p for p in parts if not p.late])

    writer = packed.writeStream.foreachBatch(publish).outputMode("append").option("checkpointLocation", checkpoint)
    if query_name is not None:
        writer = writer.queryName(query_name)
    writer = writer.trigger(**given) if given else writer
    with _state_partitions(spark, origin):
        return writer.start()


def _staged(layout: Layout, checkpoint: str) -> Layout:
    """Return a layout with the folder where workers write files before they are published."""
    if layout.format == "delta":
        return layout
    # The same for each run of a query, and different for each query that writes to the folder.
    token = hashlib.blake2b(checkpoint.encode(), digest_size=8).hexdigest()
    return replace(layout, staging=os.path.join(layout.folder, _STAGING, token))


def _checked_folder(spark: Any, layout: Layout) -> Folder | DeltaFolder:
    if layout.format == "delta":
        folder: Folder | DeltaFolder = DeltaFolder(layout)
    else:
        folder = Folder(layout, int(spark.conf.get(_COMPACT_INTERVAL, "10") or 10))
    folder.check()
    return folder


@contextmanager
def _state_partitions(spark: Any, origin: Origin | None) -> Iterator[None]:
    """Start a query with as many state partitions as buckets, because each partition is a task in every micro-batch.

    A query copies the session's settings when it starts, and its checkpoint retains this one.
    """
    most = int(spark.conf.get(_PARTITIONS))
    if origin is None or origin.detour is not None:
        yield
        return
    number = min(origin.joined.buckets, most)
    if origin.joined.free:
        number = state_partitions(most, cores_of(origin.joined.frame))
    spark.conf.set(_PARTITIONS, str(number))
    try:
        yield
    finally:
        spark.conf.set(_PARTITIONS, str(most))


def _query_id(frame: Any, checkpoint: str) -> str:
    """Return the streaming query's id, which its checkpoint stores."""
    if not is_connect(frame):
        known = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if known:
            return str(known)
    return str(json.loads(frame.sparkSession.read.text(f"{checkpoint}/metadata").collect()[0][0])["id"])
