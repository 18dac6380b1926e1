"""Convert the output of a join to tables and frames of other libraries, or write it to files."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import pyarrow as pa

from ivjoin.errors import ColumnError, IvjoinError, MissingPackageError, came
from ivjoin.files.atomic import FileError, output_place
from ivjoin.files.formats import Sink, format_of
from ivjoin.files.overwriting import refuse_overwriting
from ivjoin.stream.after.lazy import in_utf8, lazy_frame

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

    from ivjoin.files.overwriting import InputFiles

__all__ = ["Outputs"]

_Self = TypeVar("_Self", bound="Outputs")
_END = object()


class Outputs:
    """Methods that consume an output once. A subclass provides ``schema``, iteration and ``to_reader``."""

    _read_from: Sequence[InputFiles | None] = ()  # the files of each input, if their names are known

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def __next__(self) -> pa.RecordBatch:
        raise NotImplementedError

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rest of the output as a RecordBatchReader."""
        raise NotImplementedError

    def close(self) -> None:
        """Drop the rest of the output."""
        raise NotImplementedError

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """Yield the batches; another thread makes each of them while the event loop runs."""
        iter(self)
        return self

    async def __anext__(self) -> pa.RecordBatch:
        import asyncio  # imported here, because the import takes as long as a join of a few rows

        batch = await asyncio.to_thread(next, self, _END)
        if batch is _END:
            raise StopAsyncIteration
        return batch

    # -- in memory -----------------------------------------------------------------------------------------------

    def read_all(self) -> pa.Table:
        """Return the rest of the output as a pyarrow Table.

        Raises
        ------
        ProtocolError
            If the output was read to its end, or handed to another reader.
        """
        return pa.Table.from_batches(list(self), schema=self.schema)

    def to_arrow(self) -> pa.Table:
        """Return the rest of the output as a pyarrow Table; the same as :meth:`read_all`."""
        return self.read_all()

    @overload
    def to_polars(self, lazy: Literal[False] = False) -> pl.DataFrame: ...

    @overload
    def to_polars(self, lazy: Literal[True]) -> pl.LazyFrame: ...

    def to_polars(self, lazy: bool = False) -> pl.DataFrame | pl.LazyFrame:
        """Return the rest of the output as a polars DataFrame; needs polars.

        Parameters
        ----------
        lazy : bool
            Return a LazyFrame. The join runs when you collect it, and reads only the columns that the polars query
            needs. You can collect it again if all inputs are tables or files.

        Raises
        ------
        ProtocolError
            As :meth:`read_all`; with ``lazy``, also if batches were taken already.
        MissingPackageError
            If polars is not installed.
        EvaluationError
            If a text is not in UTF-8.
        """
        pl = _package("polars")
        return lazy_frame(pl, self.schema, self._lazy()) if lazy else pl.from_arrow(in_utf8(self.read_all()))

    def _lazy(self) -> Callable[[Sequence[str] | None], Outputs]:
        raise NotImplementedError

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Return the rest of the output as a pandas DataFrame; needs pandas. Options: ``pyarrow.Table.to_pandas``.

        Raises
        ------
        EvaluationError
            If a text is not in UTF-8.
        """
        _package("pandas")
        return in_utf8(self.read_all()).to_pandas(**options)

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return the rest of the output as a relation of a DuckDB connection, or of the default one; needs duckdb.

        Raises
        ------
        EvaluationError
            If a text is not in UTF-8.
        """
        package = _package("duckdb")
        return (package if connection is None else connection).from_arrow(in_utf8(self.read_all()))

    # -- files ---------------------------------------------------------------------------------------------------

    def write_parquet(self, path: str | os.PathLike[str], partition_by: Sequence[str] = ()) -> int:
        """Write the rest of the output to a Parquet file, which appears once it is complete, or to a folder.

        Parameters
        ----------
        path : str or path
            The file. With ``partition_by``, the folder, which must be new or empty.
        partition_by : list of str
            Columns whose values become folders, ``name=value``. At least one column must remain.

        Returns
        -------
        int
            Number of rows written.

        Raises
        ------
        ColumnError
            If ``partition_by`` names a column that the output does not have, one column twice, or all columns.
        IvjoinError
            If the path cannot be written to, the folder is not empty, or Parquet cannot store a column.
        FileError
            If the path is an input of this join, under any spelling, or lies in an input folder or pattern. Inputs
            include files of a polars ``LazyFrame`` (the first of many) and, on Linux and macOS, of an open
            ``ParquetFile``. ivjoin cannot see the files of a ``Scanner`` or of other objects, and replaces them after
            reading them.
        """
        if not partition_by:
            return self._write(path, "parquet")
        from pyarrow import dataset

        names = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        for name in names:
            if name not in self.schema.names:
                raise ColumnError(f"partition_by contains {came(name)}; the output has {', '.join(self.schema.names)}")
        if len(set(names)) < len(names) or len(names) == len(self.schema.names):
            raise ColumnError(
                f"partition_by is {came(names)}; expected some of {', '.join(self.schema.names)}, each once, and not "
                "all, since a file without columns has no rows"
            )
        folder = _place(path)
        if os.path.isdir(folder) and os.listdir(folder):
            raise FileError(f"cannot write {came(folder)}: the folder is not empty")
        refuse_overwriting(f"the result ({came(folder)})", folder, self._read_from)
        rows = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in self:
                rows += batch.num_rows
                yield batch

        by = dataset.partitioning(pa.schema([self.schema.field(n) for n in names]), flavor="hive")
        try:
            dataset.write_dataset(
                counted(), folder, schema=self.schema, format="parquet", partitioning=by,
                existing_data_behavior="overwrite_or_ignore",
            )  # fmt: skip
        except (pa.ArrowException, OSError) as e:
            if isinstance(e.__cause__, IvjoinError):
                raise e.__cause__ from None
            raise FileError(f"cannot write {came(folder)}: {str(e).splitlines()[0].rstrip('.')}") from e
        return rows

    def write_ipc(self, path: str | os.PathLike[str]) -> int:
        """Write the rest of the output to an Arrow IPC file, or to an IPC stream if the name ends in ``.arrows``.

        Returns
        -------
        int
            Number of rows written.

        Raises
        ------
        IvjoinError
            As :meth:`write_parquet`: an input of this join is not replaced.
        """
        return self._write(path, "arrows" if _place(path).endswith(".arrows") else "arrow")

    def write_csv(self, path: str | os.PathLike[str]) -> int:
        """Write the rest of the output to a CSV file with a header.

        Returns
        -------
        int
            Number of rows written.

        Raises
        ------
        IvjoinError
            As :meth:`write_parquet`: an input of this join is not replaced.
        """
        return self._write(path, "csv")

    def write_json(self, path: str | os.PathLike[str]) -> int:
        """Write the rest of the output to a file of JSON lines.

        Numbers keep all their digits, times are ISO 8601, and NaN is null. Binary columns are refused.

        Returns
        -------
        int
            Number of rows written.

        Raises
        ------
        IvjoinError
            As :meth:`write_parquet`, and if a column is binary.
        """
        return self._write(path, "json")

    def _write(self, path: str | os.PathLike[str], kind: str) -> int:
        name = _place(path)
        if format_of(name, kind) != kind:
            raise FileError(f"cannot write {came(name)} as {kind}: the name is one of a {format_of(name)} file")
        refuse_overwriting(f"the result ({came(name)})", name, self._read_from)
        sink = Sink(name, self.schema, kind)
        rows = 0
        try:
            for batch in self:
                sink.write(batch)
                rows += batch.num_rows
            sink.commit()
        finally:
            sink.abandon()
        return rows


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as e:
        raise MissingPackageError(f"this needs the package {name}: pip install {name}") from e


def _place(path: object) -> str:
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise FileError(f"the path of the output is {came(path)}; expected text such as 'matches.parquet', or a Path")
    return output_place(str(os.fspath(path)))
