"""Frames that are columns of Parquet files on this machine, which its Python workers can read as Spark would.

Spark's own reader is the measure: what it may read otherwise than pyarrow does (calendars of old writers, columns that
a file lacks or has in another type, options and settings of the reader) is left to it. Which files there are is what
Spark found when the frame was made.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ivjoin.files.atomic import FileError
from ivjoin.spark.environment import is_connect
from ivjoin.spark.pack import fitted
from ivjoin.spark.smallfiles import UNIT, opened, paths_of

__all__ = ["MOST_ROWS", "READERS", "TASK_ROWS", "LocalFiles", "files_here", "tasks_for"]

READERS = 8  # tasks, at most, that read all of a frame
TASK_ROWS = 50_000  # more tasks are worth it where each has so many rows
MOST_ROWS, MOST_BYTES = 4_000_000, 128 << 20  # of a frame

_INDEX = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"
# Options of the reader that say which files, and no more than the schema says.
_OPTIONS = frozenset({
    "path", "paths", "mergeschema", "recursivefilelookup", "pathglobfilter", "modifiedbefore", "modifiedafter",
})  # fmt: skip
# Settings under which Spark reads files as they are, and their values then.
_SETTINGS = {
    "spark.sql.files.ignoreCorruptFiles": "false", "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "corrected", "spark.sql.parquet.int96RebaseModeInRead": "corrected",
    "spark.sql.parquet.int96TimestampConversion": "false", "spark.sql.parquet.fieldId.read.enabled": "false",
}  # fmt: skip
_OLD_CALENDARS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_WRITER, _NEW_CALENDARS = b"org.apache.spark.version", b"3.1.0"  # before, some or all times are of old calendars
_PLAIN = (
    pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string, pa.types.is_binary,
    pa.types.is_date32, pa.types.is_decimal128,
)
_FILES = 64  # of a frame, which are opened one after the other
_FIRST_ROWS = 8192  # that say how wide a row is


@dataclass(frozen=True)
class LocalFiles:
    """Columns of Parquet files.

    Attributes
    ----------
    paths : tuple of str
    columns : tuple of str
        By their names in the files.
    rows : int
    seen : tuple of (int, int)
        Of each file its size and when it was changed, in nanoseconds: tasks that read it again, or at different times,
        would not agree on another.
    """

    paths: tuple[str, ...]
    columns: tuple[str, ...]
    rows: int
    seen: tuple[tuple[int, int], ...]

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """All rows under the names and types of a schema, a row group at a time.

        Raises
        ------
        FileError
            If a file has changed, or cannot be read.
        """
        for path, seen in zip(self.paths, self.seen, strict=True):
            try:
                if _seen(path) != seen:
                    raise FileError(
                        f"the file {path!r} has changed since the join was made. Read it again with spark.read, and "
                        "join that frame"
                    )
                with opened(path) as file:
                    for i in range(file.num_row_groups):
                        table = file.read_row_group(i, columns=list(self.columns), use_threads=False)
                        for batch in table.select(list(self.columns)).combine_chunks().to_batches():
                            yield fitted(batch, schema)
            except (pa.ArrowException, OSError) as e:
                raise FileError(f"cannot read {path!r}: {str(e).splitlines()[0].rstrip('.')}") from e


def files_here(frame: Any, schema: pa.Schema) -> LocalFiles | None:
    """The files of a frame of a schema, as Arrow; None where it is more than their columns, or Spark has to read them.

    What it gives is held by each task, so it is no more than ``MOST_ROWS`` and ``MOST_BYTES``.
    """
    if is_connect(frame):
        return None
    try:
        if not frame.columns:
            return None  # Arrow does not count rows without columns
        session = frame.sparkSession
        master = str(session.sparkContext.master)
        if master != "local" and not master.startswith("local["):
            return None  # workers may be on other machines
        if any(str(session.conf.get(name)).lower() != value for name, value in _SETTINGS.items()):
            return None
        found = paths_of(frame, frame.columns)
        if found is None or len(found[0]) > _FILES:
            return None
        paths, relation = found
        if str(relation.location().getClass().getName()) != _INDEX or not relation.partitionSchema().isEmpty():
            return None
        options = relation.options().keySet().toSeq()
        if not _OPTIONS.issuperset(str(options.apply(i)).lower() for i in range(options.size())):
            return None
        rows = size = 0
        seen = tuple(map(_seen, paths))
        cased = str(session.conf.get("spark.sql.caseSensitive")).lower() == "true"
        for path in paths:
            with opened(path) as file:
                if not _are_alike(file, frame.columns, schema, cased):
                    return None
                rows += file.metadata.num_rows
                size += _bytes_of(file, frame.columns)
                if rows > MOST_ROWS or size > MOST_BYTES:
                    return None
        return LocalFiles(tuple(paths), tuple(frame.columns), rows, seen)
    except Exception:  # whatever stands in the way: Spark reads them, or says what is wrong
        return None


def tasks_for(frame: Any, rows: int, partitions: int) -> int:
    """How many tasks are worth it for so many rows, each of which reads all of them."""
    cores = int(frame.sparkSession.sparkContext.defaultParallelism)
    return min(partitions, cores, READERS, max(1, rows // TASK_ROWS))


def _seen(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def _bytes_of(file: pq.ParquetFile, names: Sequence[str]) -> int:
    """What columns take in memory: as the first rows do, since a footer counts a text once however often rows refer to
    it, and no less than the footer says.
    """
    unpacked = sum(chunk.total_uncompressed_size for chunk in _chunks(file, names))
    for batch in file.iter_batches(_FIRST_ROWS, columns=list(names), use_threads=False):
        return max(unpacked, batch.nbytes * file.metadata.num_rows // max(1, batch.num_rows))
    return 0


def _are_alike(file: pq.ParquetFile, names: Sequence[str], schema: pa.Schema, cased: bool) -> bool:
    """Whether pyarrow reads columns as Spark does: all are there, once, and in the types that Spark gives them."""
    stored, said = file.schema_arrow, file.metadata.metadata or {}
    if any(key in said for key in _OLD_CALENDARS) or said.get(_WRITER, _NEW_CALENDARS) < _NEW_CALENDARS:
        return False
    physical = {column.path: str(column.physical_type) for column in map(file.schema.column, range(len(file.schema)))}
    alike = Counter(stored.names if cased else map(str.lower, stored.names))
    for name, field in zip(names, schema, strict=True):
        if name not in physical or name not in stored.names or alike[name if cased else name.lower()] != 1:
            return False
        if not _is_alike(stored.field(name).type, field.type, physical[name] == "INT96"):
            return False
    # of integers of 32 bits that are packed as differences some need 33, which pyarrow does not read
    return not any(
        chunk.physical_type == "INT32" and "DELTA_BINARY_PACKED" in chunk.encodings for chunk in _chunks(file, names)
    )


def _chunks(file: pq.ParquetFile, names: Sequence[str]) -> Iterator[Any]:
    """What a footer says of columns, of each row group."""
    asked = set(names)
    groups = (file.metadata.row_group(i) for i in range(file.num_row_groups))
    columns = (group.column(i) for group in groups for i in range(group.num_columns))
    return (column for column in columns if column.path_in_schema in asked)


def _is_alike(stored: pa.DataType, wanted: pa.DataType, int96: bool) -> bool:
    """Whether pyarrow reads what Spark reads: the same plain type."""
    if pa.types.is_timestamp(wanted):
        # an instant, which INT96 is, too, or a time without a zone
        zoned = int96 or (pa.types.is_timestamp(stored) and stored.tz is not None)
        return pa.types.is_timestamp(stored) and stored.unit == UNIT and zoned == (wanted.tz is not None)
    return stored == wanted and any(is_kind(wanted) for is_kind in _PLAIN)
