"""Read the row groups of Parquet files on threads, ahead of the join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ivjoin.stream.sources.inputs import Source
from ivjoin.stream.workers import joined

__all__ = ["batches_of", "bytes_a_row", "tables_of"]

_AHEAD_BYTES = 1 << 28  # bytes of rows that are read ahead of the join
_TEXT = 16  # estimated bytes of a text


def bytes_a_row(schema: pa.Schema) -> int:
    """Return the approximate bytes of a row in memory."""
    width = 0
    for t in schema.types:
        try:
            width += max(1, t.bit_width // 8)
        except ValueError:
            width += _TEXT
    return width


def tables_of(source: Source, groups: Sequence[Sequence[int]], threads: int) -> Iterator[pa.Table]:
    """Yield the rows of each list of row groups. At least two threads read ahead, if each can open the file."""
    size = max(map(len, groups), default=1) * _group_bytes(source)
    threads = min(max(2, threads), max(2, _AHEAD_BYTES // max(1, size))) if source.apart else 1

    def read(some: Sequence[int]) -> Iterator[pa.Table]:
        yield source.of_groups(some)

    return (table for _, table in joined(groups, lambda: read, threads, threads))


def batches_of(source: Source, threads: int) -> Iterator[pa.RecordBatch]:
    """Return an iterator of all rows.

    ``threads`` threads read whole row groups of Parquet files, unless these are large.
    """
    if not threads or source.ranges is None or 2 * _group_bytes(source) > _AHEAD_BYTES:
        return source.batches()
    tables = tables_of(source, [[group] for group in source.groups()], threads)
    return (batch for table in tables for batch in table.to_batches())


def _group_bytes(source: Source) -> int:
    """Return the approximate bytes of a row group in memory."""
    return (source.rows or 0) * bytes_a_row(source.schema) // max(1, len(source.groups()))
