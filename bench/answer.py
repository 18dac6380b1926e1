"""The right answer of a case, by numpy alone, as a number of rows and a checksum that no order of rows changes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.case import Case, Columns

__all__ = ["Answer", "candidates", "expected", "row_sum"]

_CHUNK = 4_000_000  # pairs held at once


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows, and the sum modulo 2**64 of a hash of each row."""

    rows: int = 0
    checksum: int = 0

    def __add__(self, other: Answer) -> Answer:
        return Answer(self.rows + other.rows, (self.checksum + other.checksum) % 2**64)


def _mix(x: np.ndarray) -> np.ndarray:
    """splitmix64's finalizer: one bit changed in, half the bits changed out."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _words(array: pa.Array) -> np.ndarray:
    """A column as uint64 images that depend on the value alone, not on the width or the unit of its type."""
    t = array.type
    if pa.types.is_dictionary(t):
        return _words(array.dictionary_decode())
    if pa.types.is_string(t) or pa.types.is_large_string(t) or t == pa.string_view():
        coded = array.cast(pa.string()).dictionary_encode()
        words = np.array([zlib.crc32((v or "").encode()) for v in coded.dictionary.to_pylist()] or [0], np.uint64)
        return words[coded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    if pa.types.is_timestamp(t):
        array = array.cast(pa.timestamp("us")).cast(pa.int64())
    elif pa.types.is_floating(t):
        return (array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0).view(np.uint64)
    return array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)


def row_sum(batch: pa.RecordBatch | pa.Table) -> Answer:
    """Rows and checksum of a piece of output; columns count by their names."""
    if isinstance(batch, pa.Table):
        total = Answer()
        for piece in batch.to_batches():
            total += row_sum(piece)
        return total
    n = batch.num_rows
    rows = np.zeros(n, np.uint64)
    for name in sorted(batch.schema.names):
        column = batch.column(name)
        salt = np.uint64(zlib.crc32(name.encode()) + (1 << 40))
        words = _mix(_words(column) + salt)
        if column.null_count:
            words = np.where(column.is_null().to_numpy(zero_copy_only=False), salt, words)
        rows += words
    return Answer(n, int(_mix(rows).sum(dtype=np.uint64)) if n else 0)


def _codes(case: Case, left: pa.Table, right: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Equal keys as equal small integers; null is equal to null here."""
    n = left.num_rows
    codes = np.zeros(n + right.num_rows, np.int64)
    for k in case.on:
        both = pa.chunked_array([*left.column(k).chunks, *right.column(k).chunks]).combine_chunks()
        if isinstance(both, pa.ChunkedArray):
            both = both.chunk(0)
        part = pc.dictionary_encode(both, null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        part = part.astype(np.int64)
        codes = np.unique(codes * (part.max(initial=0) + 1) + part, return_inverse=True)[1]
    return codes[:n], codes[n:]


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    column = table.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.int64())
    return column.fill_null(0).to_numpy() if column.null_count else column.to_numpy()


def _whole(case: Case, table: pa.Table) -> np.ndarray:
    """bool[n] of the rows that have their keys and a value in the band."""
    out = np.ones(table.num_rows, bool)
    for name in (*case.on, case.band.column):
        if table.column(name).null_count:
            out &= table.column(name).is_valid().to_numpy()
    return out


def candidates(case: Case, left: pa.Table, right: pa.Table) -> int:
    """Pairs with equal keys, which is what a plain hash join has to look at."""
    a, b = _codes(case, left, right)
    a, b = a[_whole(case, left)], b[_whole(case, right)]
    size = int(max(a.max(initial=0), b.max(initial=0))) + 1
    return int((np.bincount(a, minlength=size).astype(object) * np.bincount(b, minlength=size)).sum())


def _pairs(case: Case, left: pa.Table, right: pa.Table) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Positions of the matching pairs, in pieces: sort the right side by key and value, bisect per left row."""
    a, b = _codes(case, left, right)
    x, y = _numbers(left, case.band.column), _numbers(right, case.band.column)
    low = min(x.min(), y.min()) - max(abs(case.band.lo), abs(case.band.hi))
    span = int(max(x.max(), y.max()) - low + max(abs(case.band.lo), abs(case.band.hi)) + 1)
    assert (int(a.max()) + 1) * span < 2**62, "keys times span does not fit 64 bits"
    place = b * span + (y - low)
    order = np.argsort(place, kind="stable")
    order = order[_whole(case, right)[order]]
    place = place[order]
    first = np.searchsorted(place, a * span + (x - case.band.hi - low), "left")
    last = np.searchsorted(place, a * span + (x - case.band.lo - low), "right")
    last = np.where(_whole(case, left), last, first)
    ends = np.cumsum(last - first)
    read = {name for name in left.column_names if not pa.types.is_string(left.schema.field(name).type)}
    columns: tuple[Columns, Columns] = (
        {name: _numbers(left, name) for name in read} if case.holds else {},
        {name: _numbers(right, name) for name in read if name in right.column_names} if case.holds else {},
    )
    start = 0
    while start < len(ends):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + _CHUNK, "right")))
        counts = last[start:stop] - first[start:stop]
        i = np.repeat(np.arange(start, stop), counts)
        within = np.arange(len(i)) - np.repeat(np.cumsum(counts) - counts, counts)
        j = order[np.repeat(first[start:stop], counts) + within]
        if case.holds is not None:
            keep = case.holds({n: v[i] for n, v in columns[0].items()}, {n: v[j] for n, v in columns[1].items()})
            i, j = i[keep], j[keep]
        yield i, j
        start = stop


def expected(case: Case, left: pa.Table, right: pa.Table) -> Answer:
    """Rows and checksum that every peer must reach."""
    left, right = left.combine_chunks(), right.combine_chunks()
    names = case.columns_out(left.schema, right.schema)
    seen = np.zeros(left.num_rows, bool), np.zeros(right.num_rows, bool)
    total = Answer()
    for i, j in _pairs(case, left, right):
        seen[0][i] = True
        seen[1][j] = True
        if case.alone:
            continue
        takes = {"l": left.take(pa.array(i)), "r": right.take(pa.array(j))}
        total += row_sum(pa.table({out: takes[side].column(name) for side, name, out in names}))
    if case.alone:
        return row_sum(left.filter(pa.array(seen[0] == (case.how == "left_semi"))))
    for here, there, mine, side in ((left, right, seen[0], "l"), (right, left, seen[1], "r")):
        if case.how not in ({"l": ("left", "full"), "r": ("right", "full")}[side]):
            continue
        lone = here.take(pa.array(np.flatnonzero(~mine)))
        absent = {name: pa.nulls(lone.num_rows, there.schema.field(name).type) for name in there.column_names}
        columns = {
            out: lone.column(name) if s == side or name in case.on else absent[name] for s, name, out in names
        }
        total += row_sum(pa.table(columns))
    return total
