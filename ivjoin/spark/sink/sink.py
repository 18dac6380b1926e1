"""``write_stream``: write a joined stream to files, exactly once, without converting its rows to rows of Spark.

::

    operator --> Parquet, in the worker --> what was written --> driver: publish (foreachBatch)

Spark's own path takes four more steps: packed rows to the JVM, to another worker that opens them, back as columns,
then row by row into Spark's writer.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import pyarrow as pa

from ivjoin.errors import ColumnError, IvjoinError, UnsupportedError, came
from ivjoin.expr.arguments import known_options
from ivjoin.plan.cache import plan_of
from ivjoin.spark.api.origin import Origin, origin_of
from ivjoin.spark.api.schema import arrow_schema
from ivjoin.spark.rows.arrow import place
from ivjoin.spark.rows.results import ROWS_COLUMN
from ivjoin.spark.runtime.environment import is_connect, settings_of
from ivjoin.spark.sink.deltatable import DeltaFolder, delta_schema
from ivjoin.spark.sink.layout import FORMATS, ROW_GROUP_ROWS, Layout
from ivjoin.spark.sink.parts import Part, WrittenResults, row_writer
from ivjoin.spark.sink.publishing import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["write_stream"]

_COMPRESSIONS = {
    "parquet": ("snappy", "zstd", "lz4", "gzip", "brotli", "none"), "ipc": ("none", "lz4", "zstd"),
}  # fmt: skip
_COMPRESSIONS["delta"] = _COMPRESSIONS["parquet"]
# Arrow bytes of a micro-batch that turns hand to the driver instead of writing them: a file of some thousand rows is
# written there sooner than the parts of it are put together.
_INLINE_BYTES, _INLINE_OF_A_TURN = 16 << 20, 4 << 20
# By this Spark knows its own types in a Parquet file again.
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
# Readers of every kind pass over names that begin like this.
_STAGING = "_staging"
_PARTITIONS = "spark.sql.shuffle.partitions"
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
_COMPACT_INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"


@known_options("write_stream")
def write_stream(
    joined: DataFrame, path: str | os.PathLike[str], checkpoint_location: str | os.PathLike[str] | None = None,
    format: str = "parquet", partition_by: str | Sequence[str] | None = None,
    trigger: str | timedelta | Mapping[str, str | bool] | None = None, query_name: str | None = None, *,
    compression: str | None = None, row_group_size: int = ROW_GROUP_ROWS, file_rows: int | None = None,
    statistics: bool | Sequence[str] = True,
) -> StreamingQuery:
    """Start a query that writes a joined stream to files, each row exactly once.

    The workers that join write the operator's Arrow batches to the files directly. You may select, drop or rename
    columns after the join. With a filter or a computed column after it, the rows pass through Spark before they are
    written; ``ivjoin.spark.explain(joined)`` shows this. Any other streaming DataFrame is written in the same way.

    Parameters
    ----------
    joined : DataFrame
        Streaming; the output of ``band_join``, or derived from it.
    path : str or path
        A folder that driver and workers share: local, or mounted at the same place. It is created if it does not
        exist.
    checkpoint_location : str or path, optional
        The session's ``spark.sql.streaming.checkpointLocation`` by default.
    format : {"parquet", "delta", "ipc"}
        Parquet files, a Delta table (package deltalake), Arrow IPC files.
    partition_by : str or sequence of str, optional
        Columns that become folders, ``day=2024-01-01/``: integers, text, bools, dates and decimals.
    trigger : str, timedelta or mapping, optional
        ``"availableNow"``, an interval such as ``"10 seconds"``, a timedelta, or an argument of
        ``DataStreamWriter.trigger`` such as ``{"processingTime": "10 seconds"}``. As soon as possible by default.
    query_name : str, optional
    compression : str, optional
        For Parquet and Delta "snappy" (the default), "zstd", "lz4", "gzip", "brotli" or "none". For Arrow "none" (the
        default), "lz4" or "zstd".
    row_group_size : int, default 131072
        Rows in a Parquet row group or Arrow batch.
    file_rows : int, optional
        Greatest number of rows in a file. By default a micro-batch is one file, or one for each folder and worker.
    statistics : bool, str or sequence of str, default True
        Whether Parquet files contain least and greatest values, or the columns for which they do.

    Returns
    -------
    pyspark.sql.streaming.StreamingQuery
        Spark's own; :func:`ivjoin.spark.metrics` returns the counts of the join.

    Raises
    ------
    IvjoinError
        Before the query starts: if an argument has another value, the format cannot store a column, or the folder
        contains files that readers would not see together with the new ones.

    Notes
    -----
    The rename of one file publishes a micro-batch. With ``partition_by`` or ``file_rows``, an entry in the log of
    Spark's own sink publishes it (see :func:`ivjoin.spark.published_files`), and for a Delta table one commit. A
    micro-batch that is repeated after a failure detects what it has already published.

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
    checkpoint = _checkpoint(spark, checkpoint_location, query_name)
    given = _trigger(trigger)
    layout, origin = laid_out(joined, path, format, partition_by, compression, row_group_size, file_rows, statistics)
    if format != "delta":
        # The same for each run of a query, and another one for each query that writes there.
        token = hashlib.blake2b(checkpoint.encode(), digest_size=8).hexdigest()
        layout = replace(layout, staging=os.path.join(layout.folder, _STAGING, token))
    folder: Folder | DeltaFolder
    if layout.format == "delta":
        folder = DeltaFolder(layout)
    else:
        folder = Folder(layout, int(spark.conf.get(_COMPACT_INTERVAL, "10") or 10))
    folder.check()
    if origin is not None and origin.detour is None:
        packed = origin.joined.packed(WrittenResults(layout))
    else:
        plain = joined.toDF(*[place(i) for i in range(len(joined.columns))])  # PySpark reads other names as expressions
        packed = plain.mapInArrow(row_writer(layout), f"{ROWS_COLUMN} binary")

    query: list[str] = []

    def publish(frame: DataFrame, batch: int) -> None:
        if not query:
            query.append(_query_id(frame, checkpoint))
        rows = frame.toArrow().column(0).to_pylist()
        parts = [Part.unpacked(row) for row in rows if row is not None]
        folder.publish(query[0], batch, parts)

    writer = packed.writeStream.foreachBatch(publish).outputMode("append").option("checkpointLocation", checkpoint)
    if query_name is not None:
        writer = writer.queryName(query_name)
    writer = writer.trigger(**given) if given else writer
    with _state_partitions(spark, origin):
        return writer.start()


@contextmanager
def _state_partitions(spark: Any, origin: Origin | None) -> Iterator[None]:
    """Start a query with no more state partitions than buckets: each partition is a task in every micro-batch.

    A query copies the session's settings when it starts, and its checkpoint retains this one. Rows that pass through
    other operators of Spark after the join have the session's number.
    """
    most = int(spark.conf.get(_PARTITIONS))
    if origin is None or origin.detour is not None or origin.joined.buckets >= most:
        yield
        return
    spark.conf.set(_PARTITIONS, str(origin.joined.buckets))
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


def laid_out(
    joined: Any, path: str | os.PathLike[str], format: str, partition_by: str | Sequence[str] | None,
    compression: str | None, row_group_size: int, file_rows: int | None, statistics: bool | Sequence[str],
) -> tuple[Layout, Origin | None]:
    """Check every argument; return the layout of the files and the origin of the rows."""
    if format not in FORMATS:
        raise IvjoinError(f"format is {format!r}; expected one of {', '.join(map(repr, FORMATS))}")
    if compression is not None and compression not in _COMPRESSIONS[format]:
        raise IvjoinError(
            f"compression is {compression!r}; of format={format!r} expected one of "
            f"{', '.join(map(repr, _COMPRESSIONS[format]))}"
        )
    _positive("row_group_size", row_group_size)
    if file_rows is not None:
        _positive("file_rows", file_rows)
    zone = settings_of(joined.sparkSession).timezone
    origin = origin_of(joined)
    schema = arrow_schema(joined.schema, zone)
    columns: tuple[int, ...] | None = None
    if origin is not None and origin.detour is None:
        made = plan_of(origin.joined.spec).schema
        columns = tuple(i for i in origin.columns if i is not None)
        schema = pa.schema([pa.field(n, made.field(i).type) for n, i in zip(joined.columns, columns, strict=True)])
    by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by or ())
    _check_partitions(schema, by)
    given = (statistics,) if isinstance(statistics, str) else statistics
    given = given if isinstance(given, bool) else tuple(given)
    for name in () if isinstance(given, bool) else given:
        _field(schema, name, "statistics")
    schema = delta_schema(schema) if format == "delta" else schema
    if format != "ipc":
        schema = schema.with_metadata({_SPARK_SCHEMA: joined.schema.json().encode()})
    default = "none" if format == "ipc" else "snappy"
    chosen = compression or default
    straight = origin is not None and origin.detour is None
    turns = origin.joined.buckets if origin is not None and straight else settings_of(joined.sparkSession).partitions
    folder = _local(path)
    return Layout(
        folder, folder, format, schema, columns, by, None if chosen == "none" else chosen, row_group_size, file_rows,
        given, min(_INLINE_OF_A_TURN, _INLINE_BYTES // turns),
    ), origin


def _positive(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise IvjoinError(f"{name} is {value!r}; expected a whole number from 1 on")


def _field(schema: pa.Schema, name: str, argument: str) -> pa.Field:
    if name not in schema.names:
        raise ColumnError(f"{argument} names {name!r}, which is no column of the rows: {', '.join(schema.names)}")
    return schema.field(name)


def _check_partitions(schema: pa.Schema, by: tuple[str, ...]) -> None:
    for name in by:
        t = _field(schema, name, "partition_by").type
        plain = (pa.types.is_integer, pa.types.is_string, pa.types.is_boolean, pa.types.is_date, pa.types.is_decimal)
        if not any(is_kind(t) for is_kind in plain):
            raise UnsupportedError(
                f"partition_by names {name!r}, which is {t}; a folder's name can say integers, text, bools, dates and "
                "decimals: make such a column before the join, such as to_date(ts)"
            )
    if len(set(by)) < len(by) or (by and len(by) == len(schema)):
        raise IvjoinError(f"partition_by is {list(by)}; expected some of the columns, each once, and one left over")


def _local(path: str | os.PathLike[str]) -> str:
    """Return a folder's absolute path.

    Raises
    ------
    IvjoinError
        If it is not a path. If it is a URI outside a mounted file system, it is an UnsupportedError.
    """
    text = _path("path", path)
    url = urlparse(text.replace("?", "%3F").replace("#", "%23"))  # of a folder's name, as Spark has them
    if url.scheme == "file":
        text = unquote(url.path)
    elif "://" in text:
        raise UnsupportedError(
            f"path is {text!r}; write_stream writes to folders that driver and workers have mounted. Give a path, or "
            "write with joined.writeStream"
        )
    return os.path.abspath(text)


def _path(name: str, given: object) -> str:
    if not isinstance(given, (str, os.PathLike)) or not (text := os.fspath(given)) or not isinstance(text, str):
        raise IvjoinError(f"{name} is {came(given)}; expected a folder's path")
    return text


def _checkpoint(spark: Any, given: str | os.PathLike[str] | None, query_name: str | None) -> str:
    if given is not None:
        return _path("checkpoint_location", given)
    common = spark.conf.get(_CHECKPOINTS, "")
    if not common or query_name is None:
        raise IvjoinError(
            "checkpoint_location is not given; expected a folder in which Spark keeps how far the query is (or the "
            f"session's {_CHECKPOINTS} and a query_name), since without one no row is written exactly once"
        )
    return os.path.join(common, query_name)


_TRIGGERS = ("processingTime", "availableNow", "once")


def _trigger(given: str | timedelta | Mapping[str, str | bool] | None) -> dict[str, Any]:
    """Return the arguments of ``DataStreamWriter.trigger``."""
    if given is None:
        return {}
    if isinstance(given, timedelta):
        return {"processingTime": f"{given // timedelta(milliseconds=1)} milliseconds"}
    if isinstance(given, Mapping) and len(given) == 1 and next(iter(given)) in _TRIGGERS:
        return dict(given)
    if isinstance(given, str):
        words = given.replace("_", "").lower()
        if words in ("availablenow", "once"):
            return {"availableNow" if words == "availablenow" else "once": True}
        if words[:1].isdigit():
            return {"processingTime": given}
    raise IvjoinError(
        f"trigger is {given!r}; expected 'availableNow', an interval such as '10 seconds', a timedelta, or a mapping "
        f"of one of {', '.join(_TRIGGERS)} (continuous processing cannot join)"
    )
