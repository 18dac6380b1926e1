"""Read any number of files as one input: only the needed columns, and only the row groups that can match."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ivjoin.errors import came, named
from ivjoin.files.atomic import FileError
from ivjoin.files.formats import COMPRESSED, cut_batches, format_of, open_source, unreadable
from ivjoin.files.in_turn import ROWS, Linked, Read, Stream, checked, damaged, each, one_by_one, reading
from ivjoin.files.overwriting import InputFiles, input_files
from ivjoin.files.parquet import (
    dataset_format,
    open_parquet,
    parquet_batches,
    read_row_groups,
    refuse_wrapped,
    with_int96,
)
from ivjoin.files.partitions import Partitions
from ivjoin.files.places import is_place, leaves, local_file, pattern_of, places
from ivjoin.files.text.blocks import is_pipe
from ivjoin.files.text.dialects import Dialect, declared_names
from ivjoin.files.text.inference import with_more_digits
from ivjoin.files.text.opening import open_text
from ivjoin.files.widening import unified

if TYPE_CHECKING:
    import pyarrow.dataset as ds  # imports pandas, a third of a second, so it is imported only where a dataset is made

    from ivjoin.files.statistics import FragmentRanges, Ranges
    from ivjoin.files.text.reading import Text

__all__ = ["Files", "is_files", "open_files", "open_stream"]

_TEXT = ("csv", "json")
# Counting the rows of more files than this is not worth reading their footers one by one.
_COUNTED = 1000
_WHOLE_ROWS = 1 << 17  # of a batch of row groups that are read at once


class Files:
    """An input of one or more files, with its schema. ``ends`` is False for a pipe.

    ``rows`` is the number of rows, if the files state it. ``ranges`` are the domains of columns in each Parquet row
    group, from the footers. ``local`` are the files on this machine, if their names are known.
    """

    def __init__(
        self, schema: pa.Schema, read: Read,
        rows: int | None = None, ranges: Ranges | None = None, ends: bool = True,
        whole: Callable[[Sequence[str] | None, list[int], bool], pa.Table] | None = None,
    ) -> None:
        self.schema, self.rows, self.ranges, self.ends = schema, rows, ranges, ends
        self.local: InputFiles | None = None
        self._read, self._whole = read, whole
        self._watch: Callable[[int], None] | None = None
        self._groups: list[int] | None = None

    def keep_groups(self, groups: list[int]) -> None:
        """Restrict the input to these row groups."""
        self._groups = groups

    def batches(self, names: Sequence[str] | None, alone: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all files, in the order of the files, with all columns or the named ones.

        ``alone``: the calling thread decodes all columns. Arrow retains memory for each thread that decodes.
        """
        found = self._read(names, self._groups, alone)
        return found if self._watch is None else self._watched(found, self._watch)

    def groups(self) -> list[int]:
        """Return the row groups to read, for Parquet."""
        assert self.ranges is not None
        return self.ranges.groups_with_rows() if self._groups is None else self._groups

    @property
    def apart(self) -> bool:
        """Whether :meth:`table` opens the file again at each call, so that any thread may call it."""
        return self._whole is not None

    def table(self, names: Sequence[str] | None, groups: Sequence[int] | None = None) -> pa.Table:
        """Return all rows, or the rows of some row groups. A Parquet column is one chunk where possible."""
        chosen = self._groups if groups is None else list(groups)
        if self._whole is not None:
            table = self._whole(names, self.groups() if chosen is None else chosen, groups is None)
            if groups is None:
                pa.default_memory_pool().release_unused()  # decoding took as much again, which the join may need
            if self._watch is not None:
                self._watch(table.num_rows)
            return table
        found = self._read(names, chosen, False)
        watched = found if self._watch is None else self._watched(found, self._watch)
        schema = self.schema if names is None else pa.schema([self.schema.field(n) for n in names])
        return pa.Table.from_batches(watched, schema)

    def watch(self, count: Callable[[int], None]) -> None:
        """Call ``count`` with the number of rows of each batch that is read."""
        self._watch = count

    def _watched(self, batches: Iterator[pa.RecordBatch], count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            count(batch.num_rows)
            yield batch


def is_files(source: Any) -> bool:
    """Return whether :func:`open_files` accepts a source: a path, a list of paths, or pyarrow's objects for files."""
    return is_place(source) or isinstance(source, (Files, pq.ParquetFile)) or bool(_dataset_kind(source))


def _dataset_kind(source: Any) -> str | None:
    """Return ``"Dataset"``, ``"Scanner"`` or None."""
    if (loaded := sys.modules.get("pyarrow._dataset")) is None:
        return None
    return next((kind for kind in ("Dataset", "Scanner") if isinstance(source, getattr(loaded, kind))), None)


def open_files(source: Any, declared: str | None = None, dialect: Dialect | None = None) -> Files:
    """Open a path, list of paths, Dataset, Scanner or ParquetFile for reading; FileError if a file is unreadable.

    A path may be a file, a pattern (``*``, ``?``, ``**``), a folder (hive partitions ``name=value`` become columns) or
    a URI of Arrow's or fsspec's file systems. ``declared`` is the format of names whose extension does not show it.
    """
    if isinstance(source, Files):
        return source
    if _dataset_kind(source) == "Dataset":
        return _read_from(_of_dataset(source, "the dataset"), *_files_of(source))
    if _dataset_kind(source) == "Scanner":
        return _of_scanner(source)
    if isinstance(source, pq.ParquetFile):
        return _of_parquet_file(source)
    path = local_file(source)
    if path is not None and is_pipe(path):
        return open_stream(path, declared, dialect)
    if path is not None and not Path(path).suffix and not os.path.exists(path):
        places(path)  # raises if the file or folder does not exist
    if path is not None and not path.lower().endswith(COMPRESSED) and kind_of(path, declared) not in _TEXT:
        return _read_from(_of_file(path, declared), fs.LocalFileSystem(), [path])
    system, names, folder = places(source)
    kinds = {kind_of(n, declared) for n in names}
    what = came(source if isinstance(source, (list, tuple)) else str(source), 1000)
    if len(kinds) > 1:
        raise FileError(f"{what} are files of several formats, {' and '.join(sorted(kinds))}; read one at a time")
    kind = kinds.pop()
    parts = Partitions(names, folder) if path is None else Partitions.none()
    with reading(what, kind):
        if kind in _TEXT:
            files = _of_texts(system, names, parts, kind, dialect, what, folder or pattern_of(source))
        elif kind == "arrows" or any(n.lower().endswith(COMPRESSED[1:]) for n in names):
            files = _of_streams(system, names, parts, kind, what)
        else:
            files = _of_dataset(_dataset(system, names, parts, kind, what), what, kind)
    return _read_from(files, system, names, folder or pattern_of(source))


def _read_from(files: Files, system: Any, names: list[str], grows: str | None = None) -> Files:
    files.local = input_files(system, names, grows)
    return files


def open_stream(path: str, declared: str | None = None, dialect: Dialect | None = None) -> Files:
    """Open an input that is read once and may have no end: standard input (``-``) or a pipe."""
    opened = open_source(path, declared, ROWS, dialect)
    files = Files(opened.schema, lambda names, *_: _selected(opened.batches, names), opened.rows, ends=False)
    return _read_from(files, fs.LocalFileSystem(), [path])


def kind_of(path: str, declared: str | None) -> str:
    """Return the format of a file, whether or not it is compressed."""
    name = Path(path)
    return format_of(str(name.with_suffix("")) if name.suffix.lower() in COMPRESSED else path, declared)


# -- a single file -----------------------------------------------------------------------------------------------------


def _of_file(path: str, declared: str | None) -> Files:
    opened = open_source(path, declared, ROWS)

    footer = opened.footer
    if footer is None:
        return Files(opened.schema, lambda names, *_: _selected(opened.batches, names), opened.rows)
    from ivjoin.files.statistics import ColumnRanges

    def batches(names: Sequence[str] | None, groups: list[int] | None, alone: bool) -> Iterator[pa.RecordBatch]:
        yield from parquet_batches(open_parquet(path, footer), ROWS, groups, names, alone)

    def read(names: Sequence[str] | None, groups: list[int] | None, alone: bool) -> Iterator[pa.RecordBatch]:
        return cut_batches(batches(names, groups, alone), ROWS, path, "parquet")

    def whole(names: Sequence[str] | None, groups: list[int], threads: bool) -> pa.Table:
        try:
            return read_row_groups(path, groups, names, footer, threads)
        except (OSError, pa.ArrowException, ValueError) as e:
            raise unreadable(path, "parquet", e) from e

    ranges = ColumnRanges(opened.schema, footer, "left")
    return Files(opened.schema, read, opened.rows, ranges, whole=whole)


def _selected(batches: Iterator[pa.RecordBatch], names: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    return batches if names is None else (b.select(list(names)) for b in batches)


def _of_parquet_file(file: pq.ParquetFile) -> Files:
    refuse_wrapped(file)

    def read(names: Sequence[str] | None, groups: list[int] | None, alone: bool) -> Iterator[pa.RecordBatch]:
        return parquet_batches(file, ROWS, groups, names, alone)

    from ivjoin.files.statistics import ColumnRanges

    schema, footer = file.schema_arrow, file.metadata
    files = Files(schema, read, footer.num_rows, ColumnRanges(schema, footer, "left"))
    files.local = InputFiles((), opened=True)
    return files


# -- datasets ---------------------------------------------------------------------------------------------------------


def _files_of(dataset: ds.Dataset) -> tuple[Any, list[str]]:
    """Return the file system and the names of the files that a dataset is read from."""
    import pyarrow.dataset as ds

    if isinstance(dataset, ds.UnionDataset):
        found = [_files_of(child) for child in dataset.children]
        return (found[0][0] if found else None), [name for _, names in found for name in names]
    return (dataset.filesystem, dataset.files) if isinstance(dataset, ds.FileSystemDataset) else (None, [])


def _dataset(system: Any, names: list[str], parts: Partitions, kind: str, what: str) -> ds.Dataset:
    """Return the columns of all files, each by its name, in the widest of their types."""
    import pyarrow.dataset as ds

    near = getattr(system, "type_name", "") == "local"
    made: Any = dataset_format(near) if kind == "parquet" else ds.IpcFileFormat()
    found = each(lambda name: _schema(made.make_fragment(name, system), name, kind), names, near)
    schema = parts.added_to(unified(what, zip(names, found, strict=True)))
    fragments = [made.make_fragment(name, system, parts.expression(i)) for i, name in enumerate(names)]
    return ds.FileSystemDataset(fragments, schema, made, system)


def _schema(fragment: Any, name: str, kind: str) -> pa.Schema:
    with reading(named(name), kind):
        return fragment.physical_schema


def _of_dataset(dataset: ds.Dataset, what: str, kind: str = "a dataset") -> Files:
    import pyarrow.dataset as ds

    parts: list[Any] = []
    ranges: FragmentRanges | None = None
    if isinstance(dataset, ds.FileSystemDataset) and isinstance(dataset.format, ds.ParquetFileFormat):
        with reading(what, kind):
            dataset = with_int96(dataset)
        parts = list(dataset.get_fragments())
        if len(parts) <= _COUNTED:
            from ivjoin.files.statistics import FragmentRanges

            with reading(what, kind):
                ranges = FragmentRanges(parts, dataset.schema, "left")

    def scanned(
        names: Sequence[str] | None, groups: list[int] | None, threads: bool, rows: int
    ) -> Iterator[pa.RecordBatch]:
        chosen = dataset
        if groups is not None and ranges is not None:
            kept = ranges.subset(groups)
            if not kept:
                return iter(())
            chosen = ds.FileSystemDataset(kept, dataset.schema, dataset.format, dataset.filesystem)
        columns = None if names is None else list(names)
        found = chosen.to_batches(
            columns=columns, batch_size=rows, batch_readahead=4, fragment_readahead=1, use_threads=threads
        )
        return checked(found, what, kind, lambda: damaged(chosen, columns, kind))

    def read(names: Sequence[str] | None, groups: list[int] | None, alone: bool) -> Iterator[pa.RecordBatch]:
        return scanned(names, groups, not alone, ROWS)

    def whole(names: Sequence[str] | None, groups: list[int], threads: bool) -> pa.Table:
        schema = dataset.schema if names is None else pa.schema([dataset.schema.field(n) for n in names])
        return pa.Table.from_batches(scanned(names, groups, threads, _WHOLE_ROWS), schema)

    if ranges is None:
        return Files(dataset.schema, read)
    return Files(dataset.schema, read, ranges.rows, ranges, whole=whole)


def _of_scanner(scanner: ds.Scanner) -> Files:
    return Files(
        scanner.projected_schema,
        lambda names, *_: _selected(checked(scanner.to_batches(), "the scanner", "a dataset"), names),
    )


# -- one file after the other -----------------------------------------------------------------------------------------


def _of_texts(
    system: Any, names: list[str], parts: Partitions, kind: str, dialect: Dialect | None, what: str, grows: str | None
) -> Files:
    near = getattr(system, "type_name", "") == "local"

    def opened(name: str) -> Text | Linked:
        if near and grows is not None and leaves(name, grows):
            return Linked(name, kind, dialect, system)
        return open_text(name, kind, dialect, system)

    texts = each(opened, names, near)
    found = unified(what, [(n, t.schema) for n, t in zip(names, texts, strict=True)], text=kind == "csv")
    schema = parts.added_to(with_more_digits(found, declared_names(dialect)))
    return Files(schema, one_by_one(schema, texts, parts))


def _of_streams(system: Any, names: list[str], parts: Partitions, kind: str, what: str) -> Files:
    streams = [Stream(system, name, kind) for name in names]
    found = unified(what, [(n, s.schema) for n, s in zip(names, streams, strict=True)])
    schema = parts.added_to(found)
    return Files(schema, one_by_one(schema, streams, parts))
