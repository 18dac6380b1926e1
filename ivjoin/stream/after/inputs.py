"""Rename the columns of an input, or add the numbers of its rows as a column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from ivjoin.shj.arrow import whole_numbers
from ivjoin.stream.sources.inputs import Read, Source

__all__ = ["numbered", "renamed"]


def renamed(source: Source, names: Sequence[str]) -> Source:
    """Return an input with new names for all columns."""
    old = dict(zip(names, source.schema.names, strict=True))

    def read(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch] | pa.Table:
        chosen = list(old) if wanted is None else list(wanted)
        got = source.read([old[n] for n in chosen])
        return got.rename_columns(chosen) if isinstance(got, pa.Table) else (b.rename_columns(chosen) for b in got)

    return _like(source, pa.schema([source.schema.field(o).with_name(n) for n, o in old.items()]), read)


def numbered(source: Source, name: str) -> Source:
    """Return an input with an additional column: the numbers of its rows from 0, in the order of arrival."""
    field = pa.field(name, pa.int64(), nullable=False)
    schema = source.schema.append(field)

    def read(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch] | pa.Table:
        names = schema.names if wanted is None else list(wanted)
        # Without a column, a batch does not show how many rows it has.
        got = source.read([n for n in names if n != name] or source.schema.names[:1])
        if isinstance(got, pa.Table):
            return got.append_column(field, _numbers(0, got.num_rows)).select(names)
        return _numbered(got, field, names)

    return _like(source, schema, read)


def _like(source: Source, schema: pa.Schema, read: Read) -> Source:
    source.ready()
    out = Source(schema, read, source.ends, source.rows, read_from=source.read_from)
    out.in_memory = source.in_memory
    return out


def _numbers(start: int, rows: int) -> pa.Array:
    return whole_numbers(np.arange(start, start + rows, dtype=np.int64))


def _numbered(batches: Iterable[pa.RecordBatch], field: pa.Field, names: list[str]) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in batches:
        yield batch.append_column(field, _numbers(start, batch.num_rows)).select(names)
        start += batch.num_rows
