"""Read several text files or Arrow streams one after the other, and name the file in errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin.errors import came, named
from ivjoin.files.atomic import FileError, reason_of
from ivjoin.files.partitions import Partitions
from ivjoin.files.text.dialects import Dialect
from ivjoin.files.text.opening import open_text
from ivjoin.shj.plain import nulls

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from ivjoin.files.text.reading import Text

__all__ = ["Linked", "ROWS", "Read", "Stream", "checked", "damaged", "each", "one_by_one", "reading"]

ROWS = 16_384  # of a batch; pushing 65,536 wide rows would take about 40 MB in addition to the state
_AT_ONCE = 16  # files of a remote store whose first bytes are read at the same time
# Columns and row groups, None for all, and whether the calling thread decodes them alone.
Read = Callable[[Sequence[str] | None, list[int] | None, bool], Iterator[pa.RecordBatch]]


class Linked:
    """A text file behind a link to a place outside the input folder. Its errors do not show its content."""

    def __init__(self, name: str, kind: str, dialect: Dialect | None, system: Any) -> None:
        self._name, self._kind = name, kind
        with self._silent():
            self._text = open_text(name, kind, dialect, system)
        self.schema = self._text.schema

    def batches(self, types: pa.Schema, threads: bool) -> Iterator[pa.RecordBatch]:
        with self._silent():
            yield from self._text.batches(types, threads=threads)

    @contextmanager
    def _silent(self) -> Iterator[None]:
        try:
            yield
        except FileError:
            raise FileError(
                f"cannot read {named(self._name)} as {self._kind}: it is a link that leaves the input folder, so this "
                "message shows none of its content; read the file by its own name"
            ) from None


class Stream:
    """A file of Arrow's stream format."""

    def __init__(self, system: Any, name: str, kind: str) -> None:
        self._system, self._name, self._kind = system, name, kind
        with reading(named(name), kind), self._reader() as reader:
            self.schema = reader.schema

    def _reader(self) -> Any:
        return pa.ipc.open_stream(self._system.open_input_stream(self._name, compression="detect"))

    def batches(self, types: pa.Schema, threads: bool) -> Iterator[pa.RecordBatch]:
        with reading(named(self._name), self._kind), self._reader() as reader:
            for batch in reader:
                batch.validate(full=True)
                yield batch.select(types.names)


def one_by_one(schema: pa.Schema, files: Sequence[Text | Stream | Linked], parts: Partitions) -> Read:
    """Return a reader of one file after the other, with the columns of the schema, by name and in its types."""

    def read(names: Sequence[str] | None, groups: object, alone: bool) -> Iterator[pa.RecordBatch]:
        wanted = schema if names is None else pa.schema([schema.field(n) for n in names], schema.metadata)
        for i, file in enumerate(files):
            known = parts.of(i)
            own = file.schema.names
            if own == wanted.names and not known:
                types = wanted
            else:
                types = pa.schema([f for f in wanted if f.name in own and f.name not in known])
            for batch in file.batches(types, threads=not alone):
                whole = batch if batch.schema.equals(wanted) else _fitted(batch, wanted, known)
                for start in range(0, whole.num_rows, ROWS):
                    yield whole.slice(start, ROWS)

    return read


def _fitted(batch: pa.RecordBatch, schema: pa.Schema, known: dict[str, pa.Scalar]) -> pa.RecordBatch:
    """Return the columns of a schema, by name: null if the batch lacks one, and constant if its value is known."""
    columns = []
    for field in schema:
        if field.name in known:
            columns.append(pa.repeat(known[field.name], batch.num_rows))
        elif field.name in batch.schema.names:
            column = batch.column(field.name)
            columns.append(column if column.type == field.type else column.cast(field.type))
        else:
            columns.append(nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


_FAILURES = (OSError, pa.ArrowException, ValueError)


def _unreadable(what: str, kind: str, error: Exception) -> FileError:
    """Return the error for files that cannot be read as a format, with the reason."""
    return FileError(f"cannot read {what} as {kind}: {reason_of(error)}")


@contextmanager
def reading(what: str, kind: str) -> Iterator[None]:
    """Raise FileError if the files ``what`` cannot be read as a format."""
    try:
        yield
    except FileError:
        raise
    except _FAILURES as e:
        raise _unreadable(what, kind, e) from e


def each(take: Callable[[str], Any], names: list[str], near: bool) -> list[Any]:
    """Return the results of ``take`` for each file; for remote files, several at a time."""
    if near or len(names) == 1:
        return [take(name) for name in names]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(take, names))


def checked(
    batches: Iterator[pa.RecordBatch], what: str, kind: str, culprit: Callable[[], str | None] = lambda: None
) -> Iterator[pa.RecordBatch]:
    """Yield batches after validation, because in damaged Arrow files, offsets and indices may be outside the data.

    After an error, ``culprit`` finds the file of a folder that it comes from.
    """
    try:
        for batch in batches:
            if kind != "parquet":
                batch.validate(full=True)
            yield batch
    except FileError:
        raise
    except _FAILURES as e:
        raise _unreadable(culprit() or what, kind, e) from e


def damaged(dataset: ds.Dataset, columns: list[str] | None, kind: str) -> str | None:
    """Return the first file that cannot be read, and its column if that has another type, for a message."""
    for fragment in dataset.get_fragments():
        if not _is_sound(fragment, dataset.schema, columns, kind):
            if not hasattr(fragment, "path"):
                return None
            own = {f.name: f.type for f in fragment.physical_schema}
            for field in dataset.schema:
                given = own.get(field.name, field.type)
                if given != field.type and not _is_sound(fragment, dataset.schema, [field.name], kind):
                    said = f"column {came(field.name)} is {given} there, and {field.type} with the other files"
                    return f"{named(fragment.path)} ({said})"
            return named(fragment.path)
    return None


def _is_sound(fragment: Any, schema: pa.Schema, columns: list[str] | None, kind: str) -> bool:
    try:
        for batch in fragment.to_batches(schema=schema, columns=columns, use_threads=False):
            if kind != "parquet":
                batch.validate(full=True)
    except _FAILURES:
        return False
    return True
