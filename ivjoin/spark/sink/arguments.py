"""Check the arguments of ``write_stream``, and derive the layout of its files from them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa

from ivjoin.errors import ColumnError, IvjoinError, UnsupportedError, came
from ivjoin.spark.api.origin import Origin, origin_of
from ivjoin.spark.api.schema import arrow_schema
from ivjoin.spark.rows.late import joined_schema, late_schema
from ivjoin.spark.runtime.environment import settings_of
from ivjoin.spark.sink.deltatable import delta_schema
from ivjoin.spark.sink.layout import FORMATS, Layout

__all__ = ["checkpoint_of", "laid_out", "late_layout", "trigger_of"]

_COMPRESSIONS = {
    "parquet": ("snappy", "zstd", "lz4", "gzip", "brotli", "none"), "ipc": ("none", "lz4", "zstd"),
}  # fmt: skip
_COMPRESSIONS["delta"] = _COMPRESSIONS["parquet"]
# Up to this many Arrow bytes, turns pass rows to the driver, which takes less time than joining their files.
_INLINE_BYTES, _INLINE_OF_A_TURN = 16 << 20, 4 << 20
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"  # from which Spark reads its own types
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"


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
    settings = settings_of(joined.sparkSession)
    origin = origin_of(joined)
    schema = arrow_schema(joined.schema, settings.timezone)
    columns: tuple[int, ...] | None = None
    turns = settings.partitions
    if origin is not None and origin.detour is None:
        turns = origin.joined.buckets
        made = joined_schema(origin.joined.spec)
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
    chosen = compression or ("none" if format == "ipc" else "snappy")
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
                f"partition_by names {name!r}, which is {t}; the name of a folder can be an integer, text, a bool, "
                "a date or a decimal: compute such a column before the join, for example to_date(ts)"
            )
    if len(set(by)) < len(by) or (by and len(by) == len(schema)):
        raise IvjoinError(f"partition_by is {list(by)}; expected some of the columns, each once, and one left over")


def _local(path: str | os.PathLike[str], name: str = "path") -> str:
    """Return a folder's absolute path; refuse a URI outside a mounted file system."""
    text = _path(name, path)
    url = urlparse(text.replace("?", "%3F").replace("#", "%23"))  # in the name of a folder, as in Spark
    if url.scheme == "file":
        text = unquote(url.path)
    elif "://" in text:
        raise UnsupportedError(
            f"{name} is {text!r}; write_stream writes to folders that driver and workers have mounted. Give a path, or "
            "write with joined.writeStream"
        )
    return os.path.abspath(text)


def _path(name: str, given: object) -> str:
    if not isinstance(given, (str, os.PathLike)) or not (text := os.fspath(given)) or not isinstance(text, str):
        raise IvjoinError(f"{name} is {came(given)}; expected a folder's path")
    return text


def checkpoint_of(spark: Any, given: str | os.PathLike[str] | None, query_name: str | None) -> str:
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


def trigger_of(given: str | timedelta | Mapping[str, str | bool] | None) -> dict[str, Any]:
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


def late_layout(path: str | os.PathLike[str], layout: Layout, origin: Origin | None) -> Layout:
    """Return the layout of the files for late rows. Raise an error if the sink does not receive late rows."""
    if origin is None or origin.detour is not None:
        where = "no join" if origin is None else origin.detour
        raise UnsupportedError(
            f"late_path is {came(path)}, but {where} stands before write_stream; expected the output of band_join, or "
            "columns of it. Or use on_late='keep' and separate the rows by late_reason"
        )
    if origin.joined.spec.on_late == "join":
        raise UnsupportedError(
            f"late_path is {came(path)} with on_late='join', which joins late rows; expected another on_late"
        )
    folder = _local(path, "late_path")
    if folder == layout.folder:
        raise IvjoinError(f"late_path is {came(path)}, the folder of the joined rows; expected another one")
    schema = late_schema(origin.joined.spec)
    if layout.format == "delta":
        schema = delta_schema(schema)
    return replace(
        layout, folder=folder, staging=folder, schema=schema, columns=None, partition_by=(), statistics=True
    )
