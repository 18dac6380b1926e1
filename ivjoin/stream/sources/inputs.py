"""What a caller gives as an input: one schema and record batches, whatever it came as, and whether it has an end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from ivjoin.errors import IvjoinError, ProtocolError, SchemaError, came
from ivjoin.files.atomic import FileError
from ivjoin.files.datasets import Files, is_files, open_files
from ivjoin.shj.plain import no_rows

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset, Scanner
    from pyarrow.parquet import ParquetFile

    from ivjoin.files.overwriting import InputFiles
    from ivjoin.files.statistics import Ranges

__all__ = ["ArrowStream", "SEEN_GROUPS", "Source", "SupportsArrowStream", "first_line", "open_input", "open_inputs"]


class SupportsArrowStream(Protocol):
    """What gives record batches by the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


ArrowStream: TypeAlias = (
    "SupportsArrowStream | Iterable[pa.RecordBatch | pa.Table | SupportsArrowStream] | str | os.PathLike[str] | "
    "Sequence[str | os.PathLike[str]] | Dataset | Scanner | ParquetFile"
)

SEEN_GROUPS = 8  # row groups of which rows are looked at
_SEEN_ROWS = 1 << 20  # of all of these, where two hold no more
Read = Callable[[Sequence[str] | None], Iterator[pa.RecordBatch] | pa.Table]


class Source:
    """An input that was opened: read once, as batches or, where it has an end, as a table.

    Parameters
    ----------
    schema : pa.Schema
        Of all columns.
    read : function
        Takes the names of the columns to read, None for all, and gives a table or an iterator of batches.
    ends : bool
        Whether all of it may be asked for before the first row is joined.
    rows : int, optional
        How many rows it has, where that is known before it is read.
    files : Files, optional
        Where it is read from.
    early : bool
        Read it when the join is made, and not with the first row of output: whoever takes that may be in its way.
    """

    def __init__(
        self, schema: pa.Schema, read: Read, ends: bool, rows: int | None = None, files: Files | None = None,
        early: bool = False,
    ) -> None:
        self.schema, self.ends, self.rows = schema, ends, rows
        self._read, self._files, self._early = read, files, early
        self._names: Sequence[str] | None = None
        self.in_memory = False

    @property
    def ranges(self) -> Ranges | None:
        """What is known of its row groups, of Parquet files."""
        return None if self._files is None else self._files.ranges

    @property
    def local(self) -> InputFiles | None:
        """The files on this machine that it is read from, where their names are known."""
        return None if self._files is None else self._files.local

    @property
    def apart(self) -> bool:
        """Whether row groups may be read by another thread: each reading opens the file anew."""
        return self._files is not None and self._files.apart

    def keep(self, names: Sequence[str]) -> None:
        """Read these columns alone, in this order."""
        if list(names) != self.schema.names:
            self._names = list(names)
            self.schema = pa.schema([self.schema.field(n) for n in names], metadata=self.schema.metadata)

    def read(self, names: Sequence[str]) -> Iterator[pa.RecordBatch] | pa.Table:
        """Return some columns of all rows, as a table or as batches, and read row groups in their order."""
        if self._files is not None:
            return self._files.table(names) if self.ends else self._files.batches(names)
        return self._read(names)

    def keep_groups(self, groups: list[int]) -> None:
        """Read these row groups alone."""
        assert self._files is not None
        self._files.keep_groups(groups)

    def groups(self) -> list[int]:
        """The row groups that are read."""
        assert self._files is not None
        return self._files.groups()

    def of_groups(self, groups: Sequence[int], names: Sequence[str] | None = None) -> pa.Table:
        """The rows of some row groups, in the order of these."""
        assert self._files is not None
        return self._files.table(self._names if names is None else names, groups)

    def some(self, names: Sequence[str], room: int | None = None) -> pa.Table:
        """Columns of a few row groups, spread over all of them; within so many bytes, of one at least."""
        groups = self.groups()
        seen = SEEN_GROUPS
        if self.rows and groups:
            seen = max(2, min(seen, _SEEN_ROWS * len(groups) // self.rows))
            if room is not None:
                seen = max(1, min(seen, room * len(groups) // (16 * self.rows * max(1, len(names)))))
        step = max(1, -(-len(groups) // seen))
        return self.of_groups(groups[step // 2 :: step], names)

    def ready(self) -> None:
        """All that is to be read of it is said."""
        if self._early:
            got = self._read(self._names)
            assert isinstance(got, pa.Table)
            self.rows = got.num_rows
            self._read = lambda names: got

    def without_nulls(self, names: Iterable[str]) -> frozenset[str]:
        """Of some columns those of which it is known that no row has a null; only of what is in memory."""
        if not self.in_memory:
            return frozenset()
        table = self.table()
        return frozenset(n for n in names if not table.column(n).null_count)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, as they are asked for."""
        got = self._read(self._names)
        return iter(got.to_batches()) if isinstance(got, pa.Table) else got

    def head(self, room: int) -> tuple[pa.Table, Iterator[pa.RecordBatch] | None]:
        """The first rows, until there are no more or they take so many bytes, and the others; None of no others."""
        got = self._read(self._names) if self._files is None else self._files.batches(self._names, alone=True)
        if isinstance(got, pa.Table):
            return got, None
        held, size = [], 0
        for batch in got:
            held.append(batch)
            size += batch.nbytes
            if size > room:
                return pa.Table.from_batches(held, self.schema), got
        return pa.Table.from_batches(held, self.schema), None

    def table(self) -> pa.Table:
        """All rows at once."""
        if self._files is not None:
            return self._files.table(self._names)
        got = self._read(self._names)
        return got if isinstance(got, pa.Table) else pa.Table.from_batches(got, self.schema)


def open_inputs(left: Any, right: Any) -> tuple[Source, Source]:
    """Both inputs of a join.

    Raises
    ------
    SchemaError
        If one of them holds no batches.
    ProtocolError
        If both are one thing that can be read but once, or one is in use.
    """
    if left is right and (isinstance(left, Iterator) or hasattr(left, "read_next_batch")):
        raise ProtocolError(
            f"left and right are the same {type(left).__name__}, which gives each batch once; pass a table, or one "
            "stream for each side"
        )
    return open_input(left, "left"), open_input(right, "right")


def open_input(source: Any, side: str) -> Source:
    """One input of a join, as :func:`open_inputs` opens both; an opened one as it is."""
    if isinstance(source, Source):
        return source
    if isinstance(source, pa.RecordBatch):
        return _of_table(pa.Table.from_batches([source]))
    if isinstance(source, pa.RecordBatchReader):
        # As it is: through the C stream its own errors would come out as Arrow's.
        try:
            _ = source.schema.names
        except UnicodeDecodeError as e:
            raise SchemaError(f"the {side} input has a column name that is not in UTF-8: {came(e.object[:40])}") from e
        batches = iter(source)
        return _of_batches(source.schema, _validated(batches, side) if _is_of_bytes(source) else batches)
    if isinstance(source, pa.Table):
        return _of_table(source)
    if isinstance(source, type):
        raise SchemaError(f"the {side} input is the class {source.__name__}; expected an object of it")
    if is_files(source):
        try:
            files = open_files(source)
        except FileError as e:
            # a name without an ending: on the command line there is an option for it
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
        return _of_batches(reader.schema, iter(reader))
    if hasattr(source, "__arrow_c_array__"):
        return _of_table(pa.Table.from_batches([_guarded(source, side, pa.record_batch)]))
    if isinstance(source, Iterable) and not isinstance(source, (str, bytes, dict)):
        return _of_iterable(source, side)
    raise SchemaError(
        f"the {side} input is {came(source)}, a {type(source).__name__}; expected an Arrow stream (pyarrow, polars, "
        "duckdb, ...), the path of a file, or an iterable of RecordBatches"
    )


def _of_table(table: pa.Table) -> Source:
    source = Source(
        table.schema, lambda names: table if names is None else table.select(names), ends=True, rows=table.num_rows
    )
    source.in_memory = True
    return source


def _is_of_bytes(reader: pa.RecordBatchReader) -> bool:
    """Whether a reader decodes a file, a pipe or a socket, whose bytes may be damaged."""
    return isinstance(reader, pa.ipc.RecordBatchStreamReader)


def _validated(batches: Iterator[pa.RecordBatch], side: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as e:
            raise FileError(f"the {side} input, an Arrow stream, is damaged: {first_line(e)}") from e
        yield batch


def _of_batches(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Source:
    return Source(schema, lambda names: batches if names is None else _selected(batches, names), ends=False)


def _selected(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The columns of these names; a batch that has not all of them as it is, for the operator to refuse."""
    for batch in batches:
        yield batch.select(names) if set(names) <= set(batch.schema.names) else batch


def _of_iterable(source: Iterable[Any], side: str) -> Source:
    batches = _chain(_guarded(source, side, iter), side)
    first = next(batches, None)
    if first is None:
        raise SchemaError(
            f"the {side} input is an iterable without a batch, so its schema is unknown; "
            "pass a pyarrow.RecordBatchReader or a Table instead"
        )
    if not isinstance(source, (list, tuple)):
        return _of_batches(first.schema, _with(first, batches))
    whole = [first, *batches]
    rows = sum(b.num_rows for b in whole)
    if all(b.schema.equals(first.schema) for b in whole):
        return _of_table(pa.Table.from_batches(whole, first.schema))
    # the operator says which of them differs, and how
    return Source(first.schema, lambda names: iter(whole) if names is None else _selected(whole, names), False, rows)


def _with(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _chain(items: Iterator[Any], side: str) -> Iterator[pa.RecordBatch]:
    """The batches of an iterator of batches, tables or frames."""
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
            raise SchemaError(f"the {side} input yields a {type(item).__name__}; expected pyarrow.RecordBatch")


def _whole(source: Any, side: str) -> pa.Table | None:
    """What is known to have an end, as a table; None of anything else."""
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
    """What is a question yet, and need not compute columns that are not asked for."""
    kind = type(source)
    if kind.__name__ == "DuckDBPyRelation":
        # A table: a connection has one open result, and two relations may be of one connection.
        schema = _guarded(source.limit(0), side, _duckdb_table).schema

        def read(names: Sequence[str] | None) -> pa.Table:
            quoted = None if not names else ", ".join('"' + n.replace('"', '""') + '"' for n in names)
            return _guarded(source if quoted is None else source.project(quoted), side, _duckdb_table)

        return Source(schema, read, ends=True, early=True)
    if kind.__name__ == "LazyFrame" and kind.__module__.partition(".")[0] == "polars":
        schema = _guarded(source.head(0).collect(), side, pa.table).schema

        def collect(names: Sequence[str] | None) -> pa.Table:
            return _guarded((source if names is None else source.select(names)).collect(), side, pa.table)

        return Source(schema, collect, ends=True)
    return None


def _duckdb_table(relation: Any) -> pa.Table:
    got = relation.to_arrow_table() if hasattr(relation, "to_arrow_table") else relation.fetch_arrow_table()
    return got if isinstance(got, pa.Table) else got.read_all()


def _guarded(source: Any, side: str, take: Callable[[Any], Any]) -> Any:
    """What ``take`` makes of a source; its complaint that it is none, or is in use, as an error of ours."""
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


def first_line(e: BaseException) -> str:
    """The first line of what an error says, or its name."""
    return (str(e).strip().splitlines() or [type(e).__name__])[0]
