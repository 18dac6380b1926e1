"""How the sink's files are written: format, columns, partitions, and what a user may set of them.

A :class:`Layout` travels to the workers with the join's function, so this module imports little but Arrow until rows
are written.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pyarrow as pa

from ivjoin.errors import UnsupportedError

if TYPE_CHECKING:
    import pyarrow.dataset as ds

__all__ = [
    "FORMATS", "NULL_PARTITION", "ROW_GROUP_ROWS", "SUFFIXES", "Layout", "WrittenFile",
    "hive_folders", "partition_of", "unique",
]

FORMATS = ("parquet", "delta", "ipc")
SUFFIXES = {"parquet": ".parquet", "delta": ".parquet", "ipc": ".arrow"}
ROW_GROUP_ROWS = 131_072
# What Hive, and all that reads its folders, takes for a null.
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
# Files that one write holds open at a time, each with a row group in the making.
_OPEN_FILES = 64
# Bytes that a folder's name may have on the file systems of Linux and macOS.
_LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of joined rows, before it is published.

    Attributes
    ----------
    path : str
        Below the folder that it was written into.
    rows, size : int
        Rows, and bytes.
    stats : str
        Delta's statistics as JSON, empty for other formats.
    """

    path: str
    rows: int
    size: int
    stats: str = ""


@dataclass(frozen=True)
class Layout:
    """What every file of a sink is like.

    Attributes
    ----------
    folder, staging : str
        The folder that readers read, and the one into which workers write.
    schema : pyarrow.Schema
        Of the rows as they are written, with what else a file's footer shall say.
    columns : tuple of int, optional
        Which of a joined batch's columns are written, in this order; all by default.
    inline_bytes : int
        A turn with no more bytes than this hands its rows to the driver, which writes those of all turns into one file.
    """

    folder: str
    staging: str
    format: str
    schema: pa.Schema
    columns: tuple[int, ...] | None = None
    partition_by: tuple[str, ...] = ()
    compression: str | None = None
    row_group_size: int = ROW_GROUP_ROWS
    file_rows: int | None = None
    statistics: bool | tuple[str, ...] = True
    inline_bytes: int = 0

    @property
    def logged(self) -> bool:
        """Whether a micro-batch may be several files, which a log then makes one."""
        return self.format != "delta" and bool(self.partition_by or self.file_rows)

    @property
    def suffix(self) -> str:
        return SUFFIXES[self.format]

    def fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A joined batch as it is written."""
        columns = batch.columns if self.columns is None else [batch.column(i) for i in self.columns]
        fit = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, self.schema, strict=True)]
        for name in self.partition_by:
            i = self.schema.get_field_index(name)
            if pa.types.is_string(self.schema.field(i).type):
                fit[i] = _folder_text(fit[i], name)
        return pa.RecordBatch.from_arrays(fit, schema=self.schema)

    def write(self, batches: Iterable[pa.RecordBatch], folder: str, stem: str) -> list[WrittenFile]:
        """Write fitted batches into files below a folder; no file where there are no rows.

        Parameters
        ----------
        stem : str
            How the names begin; the suffix of names in a staging folder hides them from readers of every kind.
        """
        import pyarrow.dataset as ds

        out: list[WrittenFile] = []

        def visit(file: Any) -> None:
            path = os.path.relpath(file.path, folder)
            out.append(self._described(path, file))

        ds.write_dataset(
            pa.RecordBatchReader.from_batches(self.schema, _filled(batches)), folder, basename_template=stem,
            format=self._file_format(ds), file_options=self._options(ds), partitioning=self._partitioning(ds),
            existing_data_behavior="overwrite_or_ignore", file_visitor=visit, use_threads=False,
            max_rows_per_file=self.file_rows or 0, max_open_files=_OPEN_FILES,
            min_rows_per_group=min(self.row_group_size, self.file_rows or self.row_group_size),
            max_rows_per_group=min(self.row_group_size, self.file_rows or self.row_group_size),
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
        stats = ""
        if self.format == "delta":
            from ivjoin.spark.sink.deltastats import delta_stats

            stats = delta_stats(file.metadata)
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
        return ds.HivePartitioning(fields, null_fallback=NULL_PARTITION)


def _filled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (b for b in batches if b.num_rows)


def _folder_text(column: pa.Array, name: str) -> pa.Array:
    """Text that becomes folders' names, empty text as null: a name cannot say it, and Spark writes it so.

    Raises
    ------
    UnsupportedError
        If a value holds NUL, which Arrow would cut it off at, or makes a longer name than file systems allow.
    """
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
    """The values that a path's folders name.

    Examples
    --------
    >>> partition_of("k=a%2Fb/day=__HIVE_DEFAULT_PARTITION__/x.parquet")
    {'k': 'a/b', 'day': None}
    """
    out: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        name, _, value = folder.partition("=")
        out[unquote(name)] = None if value == NULL_PARTITION else unquote(value)
    return out


def hive_folders(path: str) -> str:
    """A path's folders as Hive and Spark spell them: of a value, few characters stand as ``%XX``, and none of UTF-8's.

    Arrow writes the bytes of all others so, too; Spark would read each byte as a character.

    Examples
    --------
    >>> hive_folders("k=%C3%A4%2Fb%20c/f")
    'k=\u00e4%2Fb c'
    """
    known = partition_of(path).items()
    return "/".join(f"{_escaped(n)}={NULL_PARTITION if v is None else _escaped(v)}" for n, v in known)


# ExternalCatalogUtils.escapePathName of Spark 4.
_ESCAPED = frozenset([*map(chr, range(1, 32)), *"\x7f\"#%'*/:=?\\{[]^"])


def _escaped(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def unique(stem: str) -> str:
    """A name that no other attempt at the same work takes."""
    return f"{stem}-{secrets.token_hex(6)}"
