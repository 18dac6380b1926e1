"""Write the sink's files, with their format, columns and partitions, and with the user's settings.

Spark sends a :class:`Layout` to the workers with the join's function. Therefore this module imports only Arrow and
small modules until it writes rows.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pyarrow as pa

from ivjoin.errors import UnsupportedError

if TYPE_CHECKING:
    import pyarrow.dataset as ds

__all__ = [
    "FORMATS", "ROW_GROUP_ROWS", "SUFFIXES", "Layout", "WrittenFile", "delta_stats", "hive_folders", "partition_of",
    "unique",
]  # fmt: skip

# Bounds of longer texts would take more space in the log than they save.
_LONGEST_TEXT = 64


def delta_stats(footer: Any) -> str:
    """Return ``numRecords``, ``nullCount``, ``minValues`` and ``maxValues`` of a file as JSON, from its Parquet footer.

    Integers, dates, times and short text have bounds, if the footer has statistics for all of their values. Floats have
    no bounds, because the bounds in a footer omit NaN. Spark treats NaN as the greatest value, so a query would skip
    files that contain it.
    """
    nulls: dict[str, int] = {}
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    for c in range(footer.num_columns):
        column = footer.schema.column(c)
        name = column.path
        if column.max_definition_level > 1 or column.max_repetition_level > 0 or "." in name:
            continue  # lies within a list, a struct or a map
        stats = [footer.row_group(g).column(c).statistics for g in range(footer.num_row_groups)]
        if any(s is None or not s.has_null_count for s in stats):
            continue
        nulls[name] = sum(s.null_count for s in stats)
        if any(not s.has_min_max and s.num_values for s in stats):
            continue
        lows: list[Any] = [_said(s.min) for s in stats if s.num_values]
        highs: list[Any] = [_said(s.max) for s in stats if s.num_values]
        if lows and None not in lows and None not in highs:
            least[name], most[name] = min(lows), max(highs)
    known = {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    return json.dumps(known, separators=(",", ":"))


def _said(value: Any) -> int | str | None:
    """Return a value in the form of Delta's log that sorts like the value; None if it has no such form."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    if isinstance(value, datetime):
        zone = "Z" if value.tzinfo is not None else ""
        plain = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        return f"{plain.isoformat(timespec='microseconds')}{zone}" if plain.year >= 1000 else None
    return value.isoformat() if isinstance(value, date) and value.year >= 1000 else None


FORMATS = ("parquet", "delta", "ipc")
SUFFIXES = {"parquet": ".parquet", "delta": ".parquet", "ipc": ".arrow"}
ROW_GROUP_ROWS = 131_072
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # Hive, and every reader of its folders, reads this name as a null
_OPEN_FILES = 64  # files that a write has open at the same time, each with an unfinished row group
_LONGEST_NAME = 255  # bytes in the name of a folder on the file systems of Linux and macOS


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of joined rows, before it is published."""

    path: str  # relative to the folder that it was written into
    rows: int
    size: int  # bytes
    stats: str = ""  # Delta's statistics as JSON, empty for other formats


@dataclass(frozen=True)
class Layout:
    """The layout that all files of a sink share."""

    folder: str  # for readers
    staging: str  # for workers
    format: str
    schema: pa.Schema  # of the written rows, with the metadata for the footers of the files
    columns: tuple[int, ...] | None = None  # of a joined batch, in the order in which they are written; all by default
    partition_by: tuple[str, ...] = ()
    compression: str | None = None
    row_group_size: int = ROW_GROUP_ROWS
    file_rows: int | None = None
    statistics: bool | tuple[str, ...] = True
    inline_bytes: int = 0  # a turn with at most this many sends its rows to the driver, which writes one file for all

    @property
    def logged(self) -> bool:
        """Return whether a micro-batch may have several files, which a log then publishes together."""
        return self.format != "delta" and bool(self.partition_by or self.file_rows)

    @property
    def suffix(self) -> str:
        return SUFFIXES[self.format]

    def fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = batch.columns if self.columns is None else [batch.column(i) for i in self.columns]
        fit = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, self.schema, strict=True)]
        for name in self.partition_by:
            i = self.schema.get_field_index(name)
            if pa.types.is_string(self.schema.field(i).type):
                fit[i] = _folder_text(fit[i], name)
        return pa.RecordBatch.from_arrays(fit, schema=self.schema)

    def write(self, batches: Iterable[pa.RecordBatch], folder: str, stem: str) -> list[WrittenFile]:
        """Write fitted batches into files below a folder. Without rows, write no file.

        ``stem`` is the template of the file names. In a staging folder, a name without the usual suffix hides the file
        from all readers.
        """
        import pyarrow.dataset as ds

        out: list[WrittenFile] = []

        def visit(file: Any) -> None:
            out.append(self._described(os.path.relpath(file.path, folder), file))

        group = min(self.row_group_size, self.file_rows or self.row_group_size)
        ds.write_dataset(
            pa.RecordBatchReader.from_batches(self.schema, (b for b in batches if b.num_rows)), folder,
            basename_template=stem, format=self._file_format(ds), file_options=self._options(ds),
            partitioning=self._partitioning(ds), existing_data_behavior="overwrite_or_ignore", file_visitor=visit,
            use_threads=False, max_rows_per_file=self.file_rows or 0, max_open_files=_OPEN_FILES,
            min_rows_per_group=group, max_rows_per_group=group,
        )
        return [f for f in out if f.rows]

    def read(self, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files that :meth:`write` wrote, in the order of the paths."""
        import pyarrow.dataset as ds

        files = ds.dataset(list(paths), schema=self.schema, format=self._file_format(ds))
        yield from files.to_batches(use_threads=False, fragment_readahead=1)

    def _described(self, path: str, file: Any) -> WrittenFile:
        if self.format == "ipc":
            with pa.memory_map(file.path) as source, pa.ipc.open_file(source) as reader:
                rows = sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
            return WrittenFile(path, rows, os.path.getsize(file.path))
        stats = delta_stats(file.metadata) if self.format == "delta" else ""
        return WrittenFile(path, file.metadata.num_rows, os.path.getsize(file.path), stats)

    def _file_format(self, ds: Any) -> ds.FileFormat:
        return ds.IpcFileFormat() if self.format == "ipc" else ds.ParquetFileFormat()

    def _options(self, ds: Any) -> ds.FileWriteOptions:
        if self.format == "ipc":
            return ds.IpcFileFormat().make_write_options(compression=self.compression)
        return ds.ParquetFileFormat().make_write_options(
            compression=self.compression or "NONE",
            write_statistics=self.statistics if isinstance(self.statistics, bool) else list(self.statistics),
        )

    def _partitioning(self, ds: Any) -> ds.Partitioning | None:
        if not self.partition_by:
            return None
        fields = pa.schema([self.schema.field(name) for name in self.partition_by])
        return ds.HivePartitioning(fields, null_fallback=_NULL_PARTITION)


def _folder_text(column: pa.Array, name: str) -> pa.Array:
    """Return text for the names of folders, with empty text as null, as Spark does. Refuse NUL and too long text."""
    import pyarrow.compute as pc

    most = _LONGEST_NAME - len(quote(name, safe="")) - 1
    long = column.filter(pc.greater(pc.multiply(pc.binary_length(column), 3), most))
    worst = max((len(quote(text, safe="")) for text in pc.unique(long).to_pylist()), default=0)
    nul = pc.any(pc.match_substring(column, "\0")).as_py()
    if nul or worst > most:
        what = "holds the character NUL" if nul else f"takes {worst} bytes as a folder's name, of which {most} may be"
        raise UnsupportedError(
            f"partition_by names {name!r}, and one of its values {what} (three for each byte of any but plain letters "
            "and digits): cut or hash such a column before the join, or leave it out of partition_by"
        )
    return pc.if_else(pc.equal(column, ""), None, column)


def partition_of(path: str) -> dict[str, str | None]:
    """Return the partition values in the names of a path's folders.

    >>> partition_of("k=a%2Fb/day=__HIVE_DEFAULT_PARTITION__/x.parquet")
    {'k': 'a/b', 'day': None}
    """
    out: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        name, _, value = folder.partition("=")
        out[unquote(name)] = None if value == _NULL_PARTITION else unquote(value)
    return out


def hive_folders(path: str) -> str:
    """Return a path's folders in the spelling of Hive and Spark. They escape only a few ASCII characters as ``%XX``.

    Arrow also escapes each byte of other characters. Spark would read each of these bytes as a character.
    """
    known = partition_of(path).items()
    return "/".join(f"{_escaped(n)}={_NULL_PARTITION if v is None else _escaped(v)}" for n, v in known)


_ESCAPED = frozenset([*map(chr, range(1, 32)), *"\x7f\"#%'*/:=?\\{[]^"])  # ExternalCatalogUtils.escapePathName


def _escaped(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def unique(stem: str) -> str:
    """Return a name that no other attempt at the same work uses."""
    return f"{stem}-{secrets.token_hex(6)}"
