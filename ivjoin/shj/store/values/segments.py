"""Store columns of types without a ring as whole Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from ivjoin.shj import arrow
from ivjoin.shj.dictionaries import compacted, has_dictionaries, one_array, rows_of
from ivjoin.shj.nested import has_unions
from ivjoin.shj.store.disk.backing import Files
from ivjoin.shj.store.disk.filed import AT_ONCE, filed
from ivjoin.shj.store.disk.process_memory import give_back, kept_pool
from ivjoin.shj.store.values.rings import Validity

__all__ = ["SegmentColumn", "buffer_bytes"]

_MOST_MERGED = 4 << 20  # bytes of arrays that are merged, which are stored twice during the merge
_AT_ONCE = AT_ONCE
_LITTLE = 1024  # unused bytes that the buffers of a stored array may have


class SegmentColumn:
    """Arrow arrays of any other type, merged so that few remain."""

    varies = True

    def __init__(self, t: pa.DataType) -> None:
        self.type = t
        self.valid: Validity | None = None
        self._parts: list[pa.Array] = []
        self._firsts: list[int] = []
        self._next = 0
        self._spilled = 0  # number of leading parts that are in files
        self._files: Files | None = None

    @property
    def lies_in_files(self) -> bool:
        return self._spilled > 0

    @property
    def nbytes(self) -> int:
        # Parts may be slices of one array, whose buffers count once. Dictionary parts may have two types.
        total, parts = 0, self._parts[self._spilled :]
        while parts:
            t = parts[0].type
            total += _held(pa.chunked_array([p for p in parts if p.type == t]))
            parts = [p for p in parts if p.type != t]
        return total

    def spill(self, files: Files) -> None:
        """Move all stored rows to an additional file. Only a bounded part of them is in memory at a time."""
        self._files, there = files, self._spilled
        pieces = _pieces(self._parts[there:])
        parts = _filed(lambda: iter(pieces), files)
        self._parts[there:], self._firsts[there:] = parts, _firsts(parts, self._firsts[there])
        self._spilled = len(self._parts)

    def disk(self) -> int:
        """Return an upper bound of the bytes that the rows in files need when they are written again."""
        return sum(buffer_bytes(part) for part in self._parts) if self._spilled else 0

    @property
    def row_bytes(self) -> int:
        return 0

    @staticmethod
    def more_room(array: pa.Array) -> int:
        """Return an upper bound of the bytes that ``append`` needs. Merging with a neighbour may double them."""
        return 2 * (int(array.nbytes) if _is_slice(array) else buffer_bytes(array))

    def append(self, array: pa.Array, first: int) -> None:
        parts, most = self._parts, self.nbytes + self.more_room(array)
        parts.append(_alone(array))
        self._firsts.append(first)
        self._next = first + len(array)
        # Equal-sized neighbours merge, so n appended rows are copied O(log n) times and few parts remain.
        while len(parts) > self._spilled + 1 and len(parts[-2]) <= 2 * len(parts[-1]):
            two = parts[-2:]
            if not has_dictionaries(self.type) and sum(map(buffer_bytes, two)) > _MOST_MERGED:
                break
            parts[-2:] = [one_array(two, kept_pool())]
            if self.nbytes > most:  # merging an array with NULLs and one without allocates a bitmap for both
                parts[-1:] = two
                break
            self._firsts.pop()

    def grow(self, cap: int, lo: int, hi: int) -> None:
        pass

    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array:
        if not len(ids) or not self._parts:
            return pa.nulls(0, self.type) if not len(ids) else pa.nulls(len(ids), self.type)
        return rows_of(self._parts, self._firsts, ids, self._files.ease if self._spilled and self._files else None)

    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None:
        n = len(ids)
        rows = max(1, n)
        if n and not has_dictionaries(self.type):
            rows = max(1, sum(map(len, self._parts)) * _AT_ONCE // max(1, sum(map(buffer_bytes, self._parts))))

        def pieces() -> Iterator[pa.Array]:
            for i in range(0, n, rows):
                if not self._spilled:
                    self._drop_parts(int(ids[i]))
                yield compacted(self.gather(ids[i : i + rows], places))
                if n > rows:
                    give_back()

        if n and self._spilled and self._files is not None:  # write them to a new file, piece by piece
            kept = _filed(pieces, self._files)
            self._spilled = len(kept)
        else:
            kept, self._spilled = list(pieces()), 0
        self._parts, self._firsts, self._next = kept, _firsts(kept, 0), n

    def _drop_parts(self, lo: int) -> None:
        while self._parts and self._firsts[0] + len(self._parts[0]) <= lo:
            del self._parts[0], self._firsts[0]
            self._spilled = max(0, self._spilled - 1)

    def trim(self, lo: int) -> None:
        self._drop_parts(lo)
        if self._parts and not self._spilled:
            dead = lo - self._firsts[0]
            if dead > 1024 and dead * 2 > len(self._parts[0]):
                keep = np.arange(dead, len(self._parts[0]))
                self._parts[0] = compacted(arrow.taken(self._parts[0], arrow.whole_numbers(keep)))
                self._firsts[0] = lo


def _firsts(parts: Sequence[pa.Array], first: int) -> list[int]:
    """Return the id of the first row of each part. The first part begins with ``first``."""
    return [first + n for n in accumulate(map(len, parts[:-1]), initial=0)] if parts else []


def _pieces(parts: Sequence[pa.Array]) -> list[pa.Array]:
    """Cut the rows into arrays of at most about 4 MiB, or into one array if each would repeat all dictionaries."""
    if has_dictionaries(parts[0].type):
        return [one_array(parts)]
    out: list[pa.Array] = []
    for part in parts:
        step = max(1, len(part) * _AT_ONCE // max(buffer_bytes(part), 1))
        out += [part.slice(start, step) for start in range(0, len(part), step)]
    return out


def _filed(arrays: Callable[[], Iterator[pa.Array]], files: Files) -> list[pa.Array]:
    """Write arrays to a mapped file, as :func:`filed` writes batches."""

    def batches() -> Iterator[pa.RecordBatch]:
        for array in arrays():
            yield pa.RecordBatch.from_arrays([array], ["0"])

    return [batch.column(0) for batch in filed(batches, files)]


def _alone(array: pa.Array) -> pa.Array:
    """Copy the rows if they are a small slice of their buffers."""
    return pa.concat_arrays([array], memory_pool=kept_pool()) if _is_slice(array) else compacted(array)


def _is_slice(array: pa.Array) -> bool:
    if has_dictionaries(array.type) or has_unions(array.type):
        return False
    size = int(array.nbytes)
    return buffer_bytes(array) > size + max(size, _LITTLE)


def buffer_bytes(array: pa.Array) -> int:
    return _held(pa.chunked_array([array]))


def _held(array: pa.ChunkedArray) -> int:
    try:
        return int(array.get_total_buffer_size())
    except (pa.ArrowNotImplementedError, AttributeError):
        return int(array.nbytes)
