"""Open an input that a caller passes: find its schema, its record batches, and whether it has an end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from ivjoin.errors import IvjoinError, ProtocolError, SchemaError, came
from ivjoin.files.atomic import FileError, first_line
from ivjoin.files.datasets import Files, is_files, open_files
from ivjoin.files.overwriting import InputFiles, scanned_files
from ivjoin.shj.plain import no_rows

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset, Scanner
    from pyarrow.parquet import ParquetFile

    from ivjoin.files.statistics import Ranges

__all__ = ["ArrowStream", "SEEN_GROUPS", "Source", "SupportsArrowStream", "open_input", "open_inputs"]


class SupportsArrowStream(Protocol):
    """An object that gives record batches through the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


ArrowStream: TypeAlias = (
    "SupportsArrowStream | Iterable[pa.RecordBatch | pa.Table | SupportsArrowStream] | str | os.PathLike[str] | "
    "Sequence[str | os.PathLike[str]] | Dataset | Scanner | ParquetFile"
)

SEEN_GROUPS = 8  # row groups that are sampled
_SEEN_ROWS = 1 << 20  # total rows of these, unless two row groups have more
Read = Callable[[Sequence[str] | None], Iterator[pa.RecordBatch] | pa.Table]


class Source:
    """An opened input. It is read once, as batches or, if it has an end, as a table.

    ``read`` takes the names of the columns, or None for all, and returns a table or an iterator of batches. ``early``:
    read the input when the join is created, because the reader of the output may use the same connection. ``read_from``
    are the local files that ``read`` reads.
    """

    def __init__(
        self, schema: pa.Schema, read: Read, ends: bool, rows: int | None = None, files: Files | None = None,
        early: bool = False, read_from: Sequence[InputFiles | None] = (),
    ) -> None:
        self.schema, self.ends, self.rows = schema, ends, rows
        self._read_from = read_from
        self._read, self._files, self._early = read, files, early
        self._names: Sequence[str] | None = None
        self.in_memory = False

    @property
    def ranges(self) -> Ranges | None:
        """Statistics of the row groups, if the input is Parquet files."""
        return None if self._files is None else self._files.ranges

    @property
    def read_from(self) -> Sequence[InputFiles | None]:
        """The local files that the input is read from, if their names are known."""
        return self._read_from if self._files is None else (self._files.local,)

    @property
    def apart(self) -> bool:
        """Return whether any thread may read row groups, because each read opens the file again."""
        return self._files is not None and self._files.apart

    def keep(self, names: Sequence[str]) -> None:
        """Read only these columns, in this order."""
        if list(names) != self.schema.names:
            self._names = list(names)
            self.schema = pa.schema([self.schema.field(n) for n in names], metadata=self.schema.metadata)

    def read(self, names: Sequence[str]) -> Iterator[pa.RecordBatch] | pa.Table:
        """Return these columns of all rows, as a table or as batches. Row groups are read in order."""
        if self._files is not None:
            return self._files.table(names) if self.ends else self._files.batches(names)
        return self._read(names)

    def keep_groups(self, groups: list[int]) -> None:
        """Read only these row groups."""
        assert self._files is not None
        self._files.keep_groups(groups)

    def groups(self) -> list[int]:
        assert self._files is not None
        return self._files.groups()

    def of_groups(self, groups: Sequence[int], names: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of these row groups, in the order given."""
        assert self._files is not None
        return self._files.table(self._names if names is None else names, groups)

    def some(self, names: Sequence[str], capacity: int | None = None) -> pa.Table:
        """Return columns of 1 to 8 row groups, spread over all. Only the first one may exceed ``capacity`` bytes."""
        groups = self.groups()
        seen = SEEN_GROUPS
        if self.rows and groups:
            seen = max(2, min(seen, _SEEN_ROWS * len(groups) // self.rows))
            if capacity is not None:
                seen = max(1, min(seen, capacity * len(groups) // (16 * self.rows * max(1, len(names)))))
        step = max(1, -(-len(groups) // seen))
        return self.of_groups(groups[step // 2 :: step], names)

    def ready(self) -> None:
        """Start reading, with the chosen columns and row groups. Only an ``early`` input is read now."""
        if self._early:
            got = self._read(self._names)
            assert isinstance(got, pa.Table)
            self.rows = got.num_rows
            self._read = lambda names: got

    def without_nulls(self, names: Iterable[str]) -> frozenset[str]:
        """Return the names of columns without NULLs. The set is empty unless the input is in memory."""
        if not self.in_memory:
            return frozenset()
        table = self.table()
        return frozenset(n for n in names if not table.column(n).null_count)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return an iterator of all rows, read on request."""
        got = self._read(self._names)
        return iter(got.to_batches()) if isinstance(got, pa.Table) else got

    def head(self, capacity: int) -> tuple[pa.Table, Iterator[pa.RecordBatch] | None]:
        """Return the first rows, until they exceed ``capacity`` bytes, and the other rows, or None at the end."""
        got = self._read(self._names) if self._files is None else self._files.batches(self._names, alone=True)
        if isinstance(got, pa.Table):
            return got, None
        taken, size = [], 0
        for batch in got:
            taken.append(batch)
            size += batch.nbytes
            if size > capacity:
                return pa.Table.from_batches(taken, self.schema), got
        return pa.Table.from_batches(taken, self.schema), None

    def table(self) -> pa.Table:
        if self._files is not None:
            return self._files.table(self._names)
        got = self._read(self._names)
        return got if isinstance(got, pa.Table) else pa.Table.from_batches(got, self.schema)


def open_inputs(left: Any, right: Any) -> tuple[Source, Source]:
    """Open both inputs of a join.

    Raise SchemaError if an input does not provide record batches, FileError if a file cannot be opened, and
    ProtocolError if both are the same iterator or reader, or one is in use.
    """
    if left is right and (isinstance(left, Iterator) or hasattr(left, "read_next_batch")):
        raise ProtocolError(
            f"left and right are the same {type(left).__name__}, which gives each batch once; pass a table, or one "
            "stream for each side"
        )
    return open_input(left, "left"), open_input(right, "right")


def open_input(source: Any, side: str) -> Source:
    """Open one input of a join, as :func:`open_inputs` does for both. An opened input is returned unchanged."""
    if isinstance(source, Source):
        return source
    if isinstance(source, pa.RecordBatch):
        return _of_table(pa.Table.from_batches([source]))
    if isinstance(source, pa.RecordBatchReader):
        # Do not use the C stream, which would replace the reader's errors with errors of Arrow.
        try:
            _ = source.schema.names
        except UnicodeDecodeError as e:
            raise SchemaError(f"the {side} input has a column name that is not in UTF-8: {came(e.object[:40])}") from e
        batches = iter(source)
        # this reader decodes a file, a pipe or a socket, whose bytes may be damaged
        of_bytes = isinstance(source, pa.ipc.RecordBatchStreamReader)
        return _of_batches(source.schema, _validated(batches, side) if of_bytes else batches)
    if isinstance(source, pa.Table):
        return _of_table(source)
    if isinstance(source, type):
        raise SchemaError(f"the {side} input is the class {source.__name__}; expected an object of it")
    if is_files(source):
        try:
            files = open_files(source)
        except FileError as e:
            # the name has no known ending; only the command line has the option --format
            said = str(e).replace("or --format", "or pyarrow.dataset.dataset(path, format=...)")
            raise e.saying(f"the {side} input: {said}") from e
        return Source(files.schema, files.batches, files.ends, files.rows, files)
    lazy = _lazy(source, side)
    if lazy is not None:
        return lazy
    table = _whole(source, side)
    if table is not None:
        return _of_table(table)
    if hasattr(source, "__arrow_c_stream__"):
        reader = _guarded(source, side, pa.RecordBatchReader.from_stream)
        of = getattr(source, "_read_from", ())  # the files of a join whose output is the input
        return _of_batches(reader.schema, iter(reader), of if isinstance(of, (list, tuple)) else ())
    if hasattr(source, "__arrow_c_array__"):
        return _of_table(pa.Table.from_batches([_guarded(source, side, pa.record_batch)]))
    if isinstance(source, Iterable) and not isinstance(source, (str, bytes, dict)):
        return _of_iterable(source, side)
    raise SchemaError(
        f"the {side} input is {came(source)}, a {type(source).__name__}; expected an Arrow stream (pyarrow, polars, "
        "duckdb, ...), the path of a file, or an iterable of RecordBatches. pa.table(x) makes a table of a dict"
    )


def _of_table(table: pa.Table) -> Source:
    source = Source(
        table.schema, lambda names: table if names is None else table.select(names), ends=True, rows=table.num_rows
    )
    source.in_memory = True
    return source


def _validated(batches: Iterator[pa.RecordBatch], side: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as e:
            raise FileError(f"the {side} input, an Arrow stream, is damaged: {first_line(e)}") from e
        yield batch


def _of_batches(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], read_from: Sequence[InputFiles | None] = ()
) -> Source:
    return Source(
        schema, lambda names: batches if names is None else _selected(batches, names), ends=False, read_from=read_from
    )


def _selected(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield these columns. If a batch lacks one, yield it unchanged, and the operator refuses it."""
    for batch in batches:
        yield batch.select(names) if set(names) <= set(batch.schema.names) else batch


def _of_iterable(source: Iterable[Any], side: str) -> Source:
    batches = _unpacked(_guarded(source, side, iter), side)
    first = next(batches, None)
    if first is None:
        raise SchemaError(
            f"the {side} input is an iterable without a batch, so its schema is unknown; "
            "pass a pyarrow.RecordBatchReader or a Table instead"
        )
    if not isinstance(source, (list, tuple)):
        return _of_batches(first.schema, chain([first], batches))
    whole = [first, *batches]
    rows = sum(b.num_rows for b in whole)
    if all(b.schema.equals(first.schema) for b in whole):
        return _of_table(pa.Table.from_batches(whole, first.schema))
    # the operator's error states which batch differs, and how
    return Source(first.schema, lambda names: iter(whole) if names is None else _selected(whole, names), False, rows)


def _unpacked(items: Iterator[Any], side: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an iterator of batches, tables or frames."""
    for item in items:
        if isinstance(item, pa.RecordBatch):
            yield item
            continue
        table = item if isinstance(item, pa.Table) else _whole(item, side)
        if table is not None:
            yield from table.to_batches() or [no_rows(table.schema)]
        elif hasattr(item, "__arrow_c_array__"):
            yield _guarded(item, side, pa.record_batch)
        else:
            raise SchemaError(
                f"the {side} input yields a {type(item).__name__}; expected pyarrow.RecordBatch. "
                "pa.Table.from_pylist(rows) makes a table of dicts"
            )


def _whole(source: Any, side: str) -> pa.Table | None:
    """Return a source that is known to end as a table, or None for other sources."""
    kind = type(source)
    package, name = kind.__module__.partition(".")[0], kind.__name__
    if package == "pandas" and name in ("DataFrame", "Series"):
        frame = source.to_frame() if name == "Series" else source
        return _guarded(frame, side, lambda f: pa.Table.from_pandas(f, preserve_index=False).replace_schema_metadata())
    if name == "DuckDBPyRelation":
        return _guarded(source, side, _duckdb_table)
    if package == "polars" and name == "LazyFrame":
        source = source.collect()
    if hasattr(source, "__arrow_c_stream__") and hasattr(source, "__len__"):
        return _guarded(source, side, pa.table)
    return None


def _lazy(source: Any, side: str) -> Source | None:
    """Open a query that has not run, so that it computes only the needed columns. Return None for other sources."""
    kind = type(source)
    if kind.__name__ == "DuckDBPyRelation":
        # Read it as a table: a connection has one open result, and two relations may share a connection.
        schema = _guarded(source.limit(0), side, _duckdb_table).schema

        def read(names: Sequence[str] | None) -> pa.Table:
            quoted = None if not names else ", ".join('"' + n.replace('"', '""') + '"' for n in names)
            return _guarded(source if quoted is None else source.project(quoted), side, _duckdb_table)

        return Source(schema, read, ends=True, early=True)
    if kind.__name__ == "LazyFrame" and kind.__module__.partition(".")[0] == "polars":
        schema = _guarded(source.head(0).collect(), side, pa.table).schema

        def collect(names: Sequence[str] | None) -> pa.Table:
            return _guarded((source if names is None else source.select(names)).collect(), side, pa.table)

        return Source(schema, collect, ends=True, read_from=scanned_files(source))
    return None


def _duckdb_table(relation: Any) -> pa.Table:
    got = relation.to_arrow_table() if hasattr(relation, "to_arrow_table") else relation.fetch_arrow_table()
    return got if isinstance(got, pa.Table) else got.read_all()


def _guarded(source: Any, side: str, take: Callable[[Any], Any]) -> Any:
    """Return ``take(source)``. Raise SchemaError if it is not an Arrow source, or ProtocolError if it is in use."""
    try:
        return take(source)
    except IvjoinError:
        raise
    except (TypeError, ValueError, NotImplementedError) as e:
        raise SchemaError(
            f"the {side} input, a {type(source).__name__}, cannot be read as record batches ({first_line(e)}); "
            "expected an Arrow stream of columns (pyarrow, polars, duckdb, ...) or an iterable of RecordBatches"
        ) from e
    except Exception as e:
        if type(source).__name__ != "DuckDBPyRelation" or "open result" not in str(e):
            raise
        raise ProtocolError(
            f"the {side} input is a DuckDB relation of a connection that is being read already; pass "
            "relation.to_arrow_table(), or give each relation a connection of its own: connection.cursor()"
        ) from e
