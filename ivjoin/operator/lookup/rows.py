"""Store rows of one side: their columns, keys and axis values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ivjoin.errors import CapacityError
from ivjoin.shj.arrow import byte_width, take
from ivjoin.shj.dictionaries import has_dictionaries, one_array, rows_of
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.shj.store.disk.backing import Files, moving
from ivjoin.shj.store.disk.filed import AT_ONCE, filed

__all__ = ["Rows", "gathered", "joined"]


@dataclass(slots=True)
class Rows:
    """Rows of a side that may match."""

    base: list[pa.Array | pa.ChunkedArray]  # the stored columns, in the plan's order; see :meth:`column`
    seq: np.ndarray  # int64[n]: order of arrival
    kids: np.ndarray  # int64[n]: key ids
    axes: list[np.ndarray]  # int64[n]: ordinals, for each axis of the side
    absent: dict[int, np.ndarray] = field(default_factory=dict)  # for an axis, bool[n]: the rows without a value there
    at: np.ndarray | None = None  # int64[n]: places of the rows in ``base``; a column is gathered when it is first read
    filed: int = 0  # bytes of ``base`` that are in files
    files: Files | None = None  # these files
    _gathered: dict[int, pa.Array] = field(default_factory=dict)
    _ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    _size: int = -1  # bytes of `base`, or -1 before they are counted

    def __len__(self) -> int:
        return len(self.seq)

    def take(self, at: np.ndarray) -> Rows:
        absent = {k: m for k, a in self.absent.items() if (m := a[at]).any()}
        places = at if self.at is None else self.at.take(at)
        axes = [a.take(at) for a in self.axes]
        return Rows(
            self.base, self.seq.take(at), self.kids.take(at), axes, absent, places, self.filed, self.files
        ).near()

    def column(self, i: int) -> pa.Array:
        array = self.base[i]
        if self.at is None and isinstance(array, pa.Array):
            return array
        if i not in self._gathered:
            if self.at is not None and (self.filed or self._few):
                self._gathered[i] = self.some(i, np.arange(len(self)))
            else:
                whole = array if isinstance(array, pa.Array) else _whole(array)
                self._gathered[i] = whole if self.at is None else take(whole, self.at, byte_width(whole.type))
        return self._gathered[i]

    def some(self, i: int, places: np.ndarray) -> pa.Array:
        """Return a stored column for the rows at ``places`` : int64[m], without gathering it for other rows."""
        array = self._gathered.get(i)
        if array is None:
            array = self.base[i]
            places = places if self.at is None else self.at.take(places)
            if isinstance(array, pa.ChunkedArray):
                firsts = np.cumsum([0, *map(len, array.chunks[:-1])]).tolist()
                return rows_of(array.chunks, firsts, places, None if self.files is None else self.files.ease)
        return take(array, places, byte_width(array.type))

    @property
    def columns(self) -> list[pa.Array]:
        return [self.column(i) for i in range(len(self.base))]

    def apart(self) -> Rows:
        """Return a copy that owns its memory."""
        every = np.arange(len(self))
        own = [take(c, every, byte_width(c.type)) for c in self.columns]
        return Rows(own, self.seq.copy(), self.kids.copy(), [a.copy() for a in self.axes], self.absent)

    def near(self) -> Rows:
        """Return the same rows, without most of the unused rows in their columns.

        Columns in files stay there. See :meth:`compacted`.
        """
        if self.filed or self.at is None or not self.base:
            return self
        if isinstance(self.base[0], pa.ChunkedArray) and not self._few:
            unneeded = len(self.base[0]) - len(self)
            return self._thinned() if _SPARE * unneeded > len(self) + _FEW else self
        return Rows(self.columns, self.seq, self.kids, self.axes, self.absent) if self._wasteful else self

    def _thinned(self) -> Rows:
        """Return the same rows, with new chunks in place of chunks that are less than half used.

        Rows that arrive together tend to become useless together, so few rows are copied.
        """
        assert self.at is not None
        kept = np.zeros(len(self.base[0]), dtype=bool)
        kept[self.at] = True
        places: list[np.ndarray | None] = []
        first = 0
        for chunk in _chunks(self.base[0]):
            part = kept[first : first + len(chunk)]
            first += len(chunk)
            sparse = 2 * np.count_nonzero(part) < len(part)
            places.append(np.flatnonzero(part) if sparse else None)
            if not sparse:
                part[:] = True
        if bool(kept.all()):
            return self
        base = [_thinned(_chunks(column), places) for column in self.base]
        at = (np.cumsum(kept) - 1).take(self.at)
        return Rows(base, self.seq, self.kids, self.axes, self.absent, at)

    @property
    def _few(self) -> bool:
        return len(self.base[0]) > _MANY * len(self)

    @property
    def _wasteful(self) -> bool:
        """Return whether the columns have more than twice as many rows as needed."""
        return self.at is not None and bool(self.base) and len(self.base[0]) > 2 * len(self) + _FEW

    def compacted(self, files: Files) -> Rows:
        """Return the same rows. Rewrite their files if these are more than twice as long as needed."""
        if not self.filed or not self._wasteful:
            return self
        with moving():
            return self.spilled(files)

    def slice(self, start: int, stop: int) -> Rows:
        """Return a range of the rows without a copy."""
        cut = slice(start, stop)
        base, in_files = self.base, self.filed
        if self.at is None:
            base = [c.slice(start, stop - start) for c in base]
            in_files = sum(c.nbytes for c in base) if self.filed and not self._loose else 0
        return Rows(
            base, self.seq[cut], self.kids[cut], [a[cut] for a in self.axes],
            {k: a[cut] for k, a in self.absent.items()}, None if self.at is None else self.at[cut],
            in_files,
            self.files,
        )

    def spilled(self, files: Files) -> Rows:
        """Return the same rows with their columns in a file. A full disk raises a MemoryLimitError."""
        if not self.base or not len(self):
            return self
        mixed = any(has_dictionaries(c.type) for c in self.base)  # a file has one dictionary for all rows
        whole = self.columns if mixed else []
        names = [str(i) for i in range(len(self.base))]
        size = sum(c.nbytes for c in self.base) * len(self) // max(1, len(self.base[0]))
        step = max(1, len(self) * _PIECE // max(1, size))

        def pieces() -> Iterator[pa.RecordBatch]:
            for start in range(0, len(self), step):
                at = np.arange(start, min(start + step, len(self)))
                arrays = [c.slice(start, len(at)) for c in whole] if mixed else [
                    self.some(i, at) for i in range(len(self.base))
                ]
                yield pa.RecordBatch.from_arrays(arrays, names)

        base = pa.Table.from_batches(filed(pieces, files)).columns
        return Rows(
            list(base), self.seq, self.kids, self.axes, self.absent, None, max(1, sum(c.nbytes for c in base)), files
        )

    @property
    def nbytes(self) -> int:
        own = self.seq.nbytes + self.kids.nbytes + sum(a.nbytes for a in (*self.axes, *self.absent.values()))
        places = 0 if self.at is None else self.at.nbytes
        return own + places + self._loose + sum(c.nbytes for c in self._gathered.values())

    @property
    def _loose(self) -> int:
        """Return the bytes of ``base`` that are in memory."""
        if self._size < 0:
            self._size = sum(c.nbytes for c in self.base)
        return max(0, self._size - self.filed)

    @property
    def lies_in_files(self) -> bool:
        return bool(self.filed) and not self._loose and not self._gathered

    def ends(self, axis: int) -> tuple[int, int]:
        """Return the least and greatest ordinal of an axis, including rows without a value."""
        if axis not in self._ends:
            values = self.axes[axis]
            self._ends[axis] = int(values.min(initial=I64_MAX)), int(values.max(initial=I64_MIN))
        return self._ends[axis]

    def span(self, axis: int) -> tuple[int, int] | None:
        """Return the least and greatest ordinal of an axis, or None if no row has a value."""
        values = self.axes[axis]
        if axis in self.absent:
            values = values[~self.absent[axis]]
        return (int(values.min()), int(values.max())) if len(values) else None

    def outside(self, bounds: Sequence[tuple[int, int]] | None) -> np.ndarray:
        """Return bool[n]: rows that no future row can match.

        ``bounds`` are closed, by axis, or None if no row follows.
        """
        out = np.full(len(self), bounds is None)
        for a, (low, high) in enumerate(bounds or ()):
            if low == I64_MIN and high == I64_MAX:
                continue
            least, most = self.ends(a)
            beyond = None
            if low > least:
                beyond = self.axes[a] < low
            if high < most:
                above = self.axes[a] > high
                beyond = above if beyond is None else beyond | above
            if beyond is not None:
                out |= beyond & ~self.absent[a] if a in self.absent else beyond
        return out


_PIECE = AT_ONCE // 4  # bytes of a batch in a file
_FEW = 64  # unused rows up to which columns are not checked
_SPARE = 4  # chunks are replaced if more than 1 / _SPARE of the rows is unused
_MANY = 8  # if columns have more than _MANY times the needed rows, only the needed rows are gathered
_LONG = 1 << 14  # rows at which a new chunk ends
_SHORT, _MOST = 512, 1 << 30  # chunks of fewer rows on average are concatenated, up to _MOST bytes


def joined(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    absent: dict[int, np.ndarray] = {}
    for a in {a for p in parts for a in p.absent}:
        absent[a] = np.concatenate([p.absent[a] if a in p.absent else np.zeros(len(p), dtype=bool) for p in parts])
    at = None
    if any(p.at is not None for p in parts) and parts[0].base:
        starts = np.cumsum([0, *(len(p.base[0]) for p in parts)])
        own = (np.arange(len(p)) if p.at is None else p.at for p in parts)
        at = np.concatenate([a + start for a, start in zip(own, starts[:-1], strict=True)])
    in_files = sum(p.filed for p in parts)
    columns = [[a for p in parts for a in _chunks(p.base[i])] for i in range(len(parts[0].base))]
    base = [pa.chunked_array(chunks) for chunks in columns] if in_files else _laid(columns)
    return Rows(
        base, np.concatenate([p.seq for p in parts]), np.concatenate([p.kids for p in parts]),
        [np.concatenate([p.axes[i] for p in parts]) for i in range(len(parts[0].axes))], absent, at, in_files,
        next((p.files for p in parts if p.files is not None), None),
    ).near()  # fmt: skip


def gathered(parts: Sequence[pa.Array], places: Sequence[np.ndarray]) -> pa.Array:
    """Return one array with the values of each part at its places : int64[m]. The places cover the whole array."""
    if len(parts) == 1:
        return parts[0]
    whole = one_array(list(parts))
    back = np.empty(len(whole), dtype=np.int64)
    back[np.concatenate(places)] = np.arange(len(whole))
    return take(whole, back, byte_width(whole.type))


def _thinned(chunks: list[pa.Array], places: list[np.ndarray | None]) -> pa.ChunkedArray:
    """Return chunks with only these places of each, or all for None. Short neighbours are concatenated."""
    out: list[pa.Array] = []
    short: list[pa.Array] = []
    for chunk, at in zip(chunks, places, strict=True):
        if at is not None:
            short.append(take(chunk, at, byte_width(chunk.type)))
        if short and (at is None or sum(map(len, short)) >= _LONG):
            out.append(one_array(short))
            short = []
        if at is None:
            out.append(chunk)
    return pa.chunked_array([*out, one_array(short)] if short else out)


def _laid(columns: list[list[pa.Array]]) -> list[pa.Array | pa.ChunkedArray]:
    """Return chunks as columns. Short chunks are concatenated, because each chunk costs time and memory."""
    rows = sum(map(len, columns[0])) if columns else 0
    short = any(len(chunks) * _SHORT > rows for chunks in columns)
    if short and all(sum(c.nbytes for c in chunks) < _MOST for chunks in columns):
        return [one_array(chunks) for chunks in columns]
    return [pa.chunked_array(chunks) for chunks in columns]


def _chunks(array: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return [array] if isinstance(array, pa.Array) else array.chunks


def _whole(array: pa.ChunkedArray) -> pa.Array:
    try:
        return one_array(array.chunks)
    except (pa.ArrowCapacityError, pa.ArrowInvalid) as e:
        raise CapacityError(
            f"a join reads {array.nbytes:,} bytes of stored rows in a column of type {array.type}, whose "
            "limit is 2,147,483,647; cast text to large_string, and bytes to large_binary, in the input") from e
