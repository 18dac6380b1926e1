"""Read Parquet, CSV and Arrow IPC from files and standard streams batch by batch, and write them atomically."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin.errors import came, named
from ivjoin.files.atomic import FileError, Replacement, reason_of, unwritable
from ivjoin.files.parquet import open_parquet, parquet_batches
from ivjoin.files.text.blocks import is_pipe, opened_pipe
from ivjoin.files.text.dialects import Dialect
from ivjoin.files.text.opening import open_text
from ivjoin.shj.dictionaries import has_dictionaries, with_nulls_in_rows
from ivjoin.shj.plain import no_rows, to_values, value_type

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

__all__ = [
    "COMPRESSED", "FORMATS", "FileError", "Sink", "Source", "cut_batches", "format_of", "open_source",
    "has_no_format", "unreadable",
]  # fmt: skip

FORMATS = ("parquet", "csv", "json", "arrow", "arrows")
_EXTENSIONS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".bed": "csv",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".arrows": "arrows",
    ".json": "json", ".jsonl": "json", ".ndjson": "json",
}  # fmt: skip
_CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}  # of outputs, by pyarrow's names
COMPRESSED = (".gz", ".zst", ".bz2", ".lz4", ".br")
_ROW_GROUP_ROWS = 131_072
_IPC_FILE_MAGIC = b"ARROW1"


@dataclass(frozen=True, slots=True)
class Source:
    """An input: its schema, its batches, and its number of rows and Parquet footer, if the file has them.

    Batches are read on demand. A damaged file raises :class:`FileError` at that time.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    rows: int | None
    footer: FileMetaData | None = None


def format_of(path: str, declared: str | None = None) -> str:
    """Return the format of ``path``: by its extension, or else ``declared``, or else an Arrow stream for ``-``.

    FileError if neither the extension nor ``declared`` states it.
    """
    known = _EXTENSIONS.get(Path(path).suffix.lower()) if path != "-" else None
    if known or declared:
        return known or str(declared)
    if path == "-":
        return "arrows"
    expected = ", ".join(_EXTENSIONS)
    raise FileError(f"the name {named(path)} does not show its format; expected one of {expected}, or --format")


def has_no_format(path: str) -> bool:
    """Return whether the name of an input, perhaps compressed, does not show its format."""
    name = Path(path)
    inner = name.with_suffix("") if name.suffix.lower() in COMPRESSED else name
    return path == "-" or inner.suffix.lower() not in _EXTENSIONS


# -- reading ----------------------------------------------------------------------------------------------------------


def open_source(
    path: str,
    declared: str | None = None,
    batch_rows: int = 65536,
    dialect: Dialect | None = None,
) -> Source:
    """Open an input for reading batch by batch. The whole file is never in memory.

    ``declared`` is one of :data:`FORMATS`, for a name whose extension does not show it; ``-`` is standard input. A
    batch has at most ``batch_rows`` rows. FileError if the file is unreadable or not of its format.
    """
    kind = format_of(path, declared)
    if path == "-" and sys.stdin is None:
        raise FileError("cannot read standard input: it is closed")
    try:
        if path != "-" and Path(path).is_dir():
            raise FileError(f"cannot read {path!r}: it is a directory; expected a file")
        if kind == "parquet":
            source = _open_parquet(path, batch_rows)
        elif kind in ("csv", "json"):
            text = open_text(path, kind, dialect)
            source = Source(text.schema, text.batches(text.schema), None)
        else:
            source = _open_ipc(path)
        _ = source.schema.names  # fails for names that are not UTF-8
    except FileError:
        raise
    except (OSError, pa.ArrowException, ValueError) as e:
        raise unreadable(path, kind, e) from e
    return replace(source, batches=cut_batches(source.batches, batch_rows, path, kind))


def _open_parquet(path: str, batch_rows: int) -> Source:
    if is_pipe(path):
        name = "standard input" if path == "-" else f"the pipe {named(path)}"
        raise FileError(f"Parquet cannot be read from {name}: its schema is at the end; use an Arrow stream")
    file = open_parquet(path)
    batches = parquet_batches(file, batch_rows, None, None, False)
    return Source(file.schema_arrow, batches, file.metadata.num_rows, file.metadata)


def _open_ipc(path: str) -> Source:
    if is_pipe(path):
        pipe = BufferedReader(opened_pipe(path))
        _check_stream(pipe.peek(8)[:8])
        reader = pa.ipc.open_stream(pipe)
        return Source(reader.schema, iter(reader), None)
    file = pa.memory_map(path)
    head = file.read(len(_IPC_FILE_MAGIC))
    file.seek(0)
    if head != _IPC_FILE_MAGIC:
        reader = pa.ipc.open_stream(file)
        return Source(reader.schema, iter(reader), None)
    stored = pa.ipc.open_file(file)
    batches = (stored.get_batch(i) for i in range(stored.num_record_batches))
    return Source(stored.schema, batches, None)


def _check_stream(head: bytes) -> None:
    """Refuse bytes that are no Arrow stream. Arrow would read them as a length and wait for that many bytes."""
    if _IPC_FILE_MAGIC.startswith(head[:6]) and head:
        raise pa.ArrowInvalid(
            "it is an Arrow file, which is not a stream; expected an Arrow "
            "stream, or the name of a file"
        )
    # Old versions wrote a small length first. Newer ones write four bytes of ones before it.
    if len(head) >= 4 and head[:4] != b"\xff" * 4 and int.from_bytes(head[:4], "little") >= 1 << 24:
        hint = "json reads JSON lines" if head.lstrip().startswith(b"{") else "csv reads CSV"
        raise pa.ArrowInvalid(f"it begins with {head!r}; expected an Arrow stream. --format {hint}")


def cut_batches(batches: Iterator[pa.RecordBatch], rows: int, path: str, kind: str) -> Iterator[pa.RecordBatch]:
    """Cut batches to at most ``rows`` rows, and name the file if it is damaged."""
    while True:
        try:
            batch = next(batches, None)
            if batch is not None and kind in ("arrow", "arrows"):
                batch.validate(full=True)  # kernels follow offsets and indices, which Arrow does not check
        except FileError:
            raise
        except (OSError, pa.ArrowException, ValueError) as e:
            raise unreadable(path, kind, e) from e
        if batch is None:
            return
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def unreadable(path: str, kind: str, error: Exception) -> FileError:
    """Return the error for a file that cannot be read, with the reason."""
    name = "standard input" if path == "-" else named(path)
    if isinstance(error, FileNotFoundError):
        return FileError(f"cannot read {name}: there is no such file")
    if isinstance(error, UnicodeDecodeError):
        return FileError(f"cannot read {name} as {kind}: it is not in UTF-8, as {came(error.object)}; convert it first")
    return FileError(f"cannot read {name} as {kind}: {reason_of(error)}")


# -- writing ----------------------------------------------------------------------------------------------------------


class _Unclosed:
    """A binary file that stays open when a stream on it is closed."""

    closed = False

    def __init__(self, file: Any) -> None:
        self.write, self.flush = file.write, file.flush

    def close(self) -> None:
        """Do nothing."""


class Sink:
    """An output of one format. It appears under its name only when :meth:`commit` is called.

    ``path`` ``-`` is standard output. FileError, before any row is read, if the path cannot be written to or the format
    cannot store a column.
    """

    def __init__(self, path: str, schema: pa.Schema, declared: str | None = None) -> None:
        self._codec = _CODECS.get(Path(path).suffix.lower())
        self._kind = format_of(path.removesuffix(Path(path).suffix) if self._codec else path, declared)
        if self._kind == "csv" and ".bed" in Path(path.lower()).suffixes:
            raise FileError(f"cannot write {named(path)}: BED has no header; write a .tsv file")
        if self._codec and self._kind in ("parquet", "arrow"):
            raise FileError(
                f"cannot write {named(path)}: {self._kind} is compressed inside of the file; leave the last suffix out"
            )
        if path == "-" and self._kind not in ("csv", "json") and sys.stdout is not None and sys.stdout.isatty():
            raise FileError(f"{self._kind} would write binary data to the terminal; name a file with -o, or use a pipe")
        self._schema = schema
        if self._kind != "arrows":
            types = [_stored(t, self._kind) for t in schema.types]
            fields = [f.with_type(t) for f, t in zip(schema, types, strict=True)]
            self._schema = pa.schema(fields, metadata=schema.metadata)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._place = Replacement(path)
        self._writer: Any = None
        self._compressed: Any = None
        try:
            with self._errors_named():
                self._writer = self._make_writer()
        except BaseException:
            self.abandon()
            raise

    def _make_writer(self) -> Any:
        file: Any = self._place.file
        schema = self._schema
        if self._codec:
            file = self._compressed = pa.CompressedOutputStream(pa.PythonFile(_Unclosed(file), "w"), self._codec)
        if self._kind == "json":
            from ivjoin.files.text.writing import JsonWriter

            return JsonWriter(file, schema)
        if self._kind == "parquet":
            import pyarrow.parquet as pq

            return pq.ParquetWriter(file, schema)
        if self._kind == "csv":
            from pyarrow import csv

            tabs = ".tsv" in Path(self._place.path.lower()).suffixes
            writer = csv.CSVWriter(file, schema, write_options=csv.WriteOptions(delimiter="\t" if tabs else ","))
            # CSV cannot store nested columns. Writing an empty batch shows this before any work is done.
            writer.write_batch(no_rows(schema))
            return writer
        return pa.ipc.new_file(file, schema) if self._kind == "arrow" else pa.ipc.new_stream(file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        if self._kind != "arrows":
            columns = [to_values(c, t) for c, t in zip(batch.columns, self._schema.types, strict=True)]
            if self._kind == "parquet":
                columns = [with_nulls_in_rows(c) for c in columns]
            batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        if self._kind != "parquet":
            with self._errors_named():
                self._writer.write_batch(batch)
                self._place.pass_on()
            return
        # Each write to Parquet makes a row group, so small batches are collected first.
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        if self._pending_rows >= _ROW_GROUP_ROWS:
            self._write_row_group()

    def _write_row_group(self) -> None:
        if self._pending:
            with self._errors_named():
                self._writer.write_table(pa.Table.from_batches(self._pending, self._schema))
        self._pending, self._pending_rows = [], 0

    def commit(self) -> None:
        """Write the remaining rows and replace an older file."""
        self._write_row_group()
        with self._errors_named():
            self._writer.close()
            if self._compressed is not None:
                self._compressed.close()
            self._place.commit()

    def abandon(self) -> None:
        """Delete the unfinished file. After :meth:`commit`, this does nothing."""
        if self._writer is not None:
            # Closed while its file is open, even if that fails: the garbage collector would warn later.
            with suppress(Exception):
                self._writer.close()
        self._place.abandon()

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise  # the reader of a pipe has closed it, which is no error of the file
        except (OSError, pa.ArrowException, UnicodeError) as e:
            raise unwritable(self._place.path, e) from e


def _stored(t: pa.DataType, kind: str) -> pa.DataType:
    """Return the type in which a format stores a column; dictionaries, views and run ends may become their values.

    An Arrow file has one dictionary for each column, but batches may have several.
    """
    if kind == "parquet":
        return value_type(t) if _is_refused(t) else t
    return value_type(t) if kind in ("csv", "json") or _is_view(t) or has_dictionaries(t) else t


def _is_refused(t: pa.DataType) -> bool:
    """Return whether pyarrow cannot write a type to Parquet: run ends, dictionaries of views or of nested values."""
    if pa.types.is_dictionary(t):
        v = t.value_type
        return _is_view(v) or bool(v.num_fields) or pa.types.is_dictionary(v)
    return pa.types.is_run_end_encoded(t) or any(_is_refused(t.field(i).type) for i in range(t.num_fields))


def _is_view(t: pa.DataType) -> bool:
    return pa.types.is_string_view(t) or pa.types.is_binary_view(t)
