"""The right rows that left rows may still take: stored columns in order of arrival, and sorted runs over them.

New rows wait in a heap until they are compared. Then they become a run, and runs of similar size are merged (a
log-structured merge, as in ``shj/store/runs.py``). A row's number is its place among the stored rows. Thinning
changes the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ivjoin.operator.memory.small_parts import put
from ivjoin.operator.picks.payload import Chunks
from ivjoin.shj.kernels.lookup import pick_kernels
from ivjoin.shj.sorting import in_order, order_by_key
from ivjoin.shj.store.values.value_blocks import ValueBlocks

__all__ = ["Offered", "Run"]

_NONE = np.empty(0, dtype=np.int64)
_RUNS = 4  # up to so many runs are searched without merging them
_SMALL = 4096  # rows of a part up to which it is merged with the one before

Fits = Callable[[int], bool]
_Part = tuple[np.ndarray, np.ndarray, np.ndarray]  # kids, vals, rows


@dataclass(slots=True)
class Run:
    """Rows sorted by key and, within a key, by the lines that compare them; at first by these lines alone (``flat``).

    Attributes
    ----------
    kids : int64[n]
        Key ids.
    vals : int64[lines, n]
    rows : int64[n]
        Numbers of the rows.
    starts : int64[ids + 1]
        Where the rows of each key begin; empty if there are many keys and few rows.
    flat : bool
        Whether rows are not sorted by key yet.
    """

    kids: np.ndarray
    vals: np.ndarray
    rows: np.ndarray
    starts: np.ndarray = field(default_factory=lambda: _NONE)
    flat: bool = False
    _blocks: dict[int, ValueBlocks] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        made = sum(b.nbytes for b in self._blocks.values())
        return self.kids.nbytes + self.vals.nbytes + self.rows.nbytes + self.starts.nbytes + made

    def blocks(self, line: int) -> ValueBlocks:
        """Return the blocks of a line's values. The run must be sorted by key."""
        if line not in self._blocks:
            self._blocks[line] = ValueBlocks.of(self.vals[line])
        return self._blocks[line]

    def group(self, n_ids: int, fits: Fits) -> None:
        """Sort the rows by key."""
        if not self.flat:
            return
        self.flat = False
        if not _pays(n_ids, len(self.kids), fits):
            order = np.argsort(self.kids, kind="stable")
        else:
            order, self.starts = np.empty(len(self.kids), dtype=np.int64), np.zeros(n_ids + 1, dtype=np.int64)
            pick_kernels.group_rows(self.kids, _NONE, self.starts, order)
        self.kids, self.vals, self.rows = self.kids.take(order), _lines(self.vals, order), self.rows.take(order)

    def index(self, n_ids: int, fits: Fits) -> None:
        """Compute where the rows of each key begin, if that is worth its memory."""
        if _pays(n_ids, len(self.kids), fits):
            self.starts = np.zeros(n_ids + 1, dtype=np.int64)
            np.cumsum(np.bincount(self.kids, minlength=n_ids), out=self.starts[1:])
        else:
            self.starts = _NONE


def _pays(n_ids: int, rows: int, fits: Fits) -> bool:
    """Return whether an array with the first row of each key is worth its memory."""
    return n_ids <= 4 * rows + 1024 and fits(8 * (n_ids + 1))


class Offered:
    """The state of the right side.

    Parameters
    ----------
    payload : Chunks
        Without rows.
    n_sort : int
        Lines of ``vals`` that compare the rows of a key.
    lines : int
        Lines of ``vals``.
    fits : function
        Whether so many more bytes fit, for memory that only saves time.
    """

    def __init__(self, payload: Chunks, n_sort: int, lines: int, fits: Fits = lambda _: True) -> None:
        self.fits = fits
        self.payload = payload
        self.runs: list[Run] = []
        self.odd: list[_Part] = []  # (kids, vals, rows) of rows for which an axis has an error
        self._new: list[_Part] = []
        self._n_sort = n_sort
        self._lines = lines

    @property
    def rows(self) -> int:
        return self.payload.rows

    @property
    def nbytes(self) -> int:
        return self.payload.nbytes + self.index_bytes

    @property
    def index_bytes(self) -> int:
        """The bytes of the runs and heaps."""
        loose = sum(a.nbytes for part in (*self._new, *self.odd) for a in part)
        return sum(r.nbytes for r in self.runs) + loose

    def add(self, batch: pa.RecordBatch, kids: np.ndarray, vals: np.ndarray, odd: np.ndarray | None) -> None:
        """Store rows. The rows ``odd`` : bool[n] are candidates for every left row: an axis has an error for them."""
        rows = np.arange(self.payload.rows, self.payload.rows + batch.num_rows)
        self.payload.add(batch)
        if odd is not None and odd.any():
            put(self.odd, (kids[odd], vals[:, odd], rows[odd]), _SMALL, _together, _length)
            kids, vals, rows = kids[~odd], np.ascontiguousarray(vals[:, ~odd]), rows[~odd]
        if len(kids):
            put(self._new, (kids, vals, rows), _SMALL, _together, _length)

    def fresh(self, n_ids: int) -> Run | None:
        """Turn the rows that have arrived since the last call into a run, and return it."""
        if not self._new:
            return None
        kids, vals, rows = self._new[0] if len(self._new) == 1 else _together(self._new)
        self._new = []
        run = self._sorted(kids, vals, rows, n_ids)
        self.runs.append(run)
        while len(self.runs) > _RUNS and len(self.runs[-2].kids) <= 2 * len(self.runs[-1].kids):
            self._merge(n_ids)
        return run

    def _sorted(self, kids: np.ndarray, vals: np.ndarray, rows: np.ndarray, n_ids: int) -> Run:
        """Return rows as a run, sorted by the lines that compare them; ``rows`` rise."""
        starts = None
        if self._n_sort > 1:
            order = np.lexsort(vals[self._n_sort - 1 :: -1])
        elif bool((vals[0, :-1] <= vals[0, 1:]).all()):
            return Run(kids, vals, rows, flat=True)
        elif _pays(n_ids, len(kids), self.fits):
            starts, first, order = order_by_key(kids, vals[0], n_ids)
        else:
            order, first = in_order(vals[0])
        vals = first[None] if len(vals) == 1 and self._n_sort == 1 else _lines(vals, order)
        all_there = int(rows[-1]) - int(rows[0]) == len(rows) - 1
        rows = order + rows[0] if all_there else rows.take(order)
        if starts is None:
            return Run(kids.take(order), vals, rows, flat=True)
        return Run(np.repeat(np.arange(n_ids), np.diff(starts)), vals, rows, starts)

    def _merge(self, n_ids: int) -> None:
        """Merge the last two runs."""
        a, b = self.runs[-2:]
        a.group(n_ids, self.fits)
        b.group(n_ids, self.fits)
        order = np.empty(len(a.kids) + len(b.kids), dtype=np.int64)
        pick_kernels.merge_order(a.kids, a.vals, b.kids, b.vals, self._n_sort, order)
        vals = np.empty((len(a.vals), len(order)), dtype=np.int64)
        for line, mine, theirs in zip(vals, a.vals, b.vals, strict=True):
            np.concatenate((mine, theirs)).take(order, out=line, mode="clip")
        kids = np.concatenate((a.kids, b.kids)).take(order)
        both = Run(kids, vals, np.concatenate((a.rows, b.rows)).take(order))
        self.runs[-2:] = [both]
        del a, b
        both.index(n_ids, self.fits)

    def thin(
        self, n_ids: int, reach: np.ndarray | None, n_place: int, rules: tuple[int, int], below: np.ndarray,
        above: np.ndarray, pinned: np.ndarray, keep_odd: bool,
    ) -> np.ndarray | None:
        """Evict the rows that no left row can take, except for the ``pinned`` ones.

        ``reach=None``: no left row takes any. Returns the new number of each row : int64[rows], or None if all stay.
        """
        if reach is None and not len(pinned) and not (keep_odd and self.odd):
            self.runs, self._new, self.odd, self.payload = [], [], [], self.payload.anew()
            return _NONE  # no left row has one of them as its best match
        self.fresh(n_ids)
        while len(self.runs) > 1:
            self._merge(n_ids)
        stays = np.zeros(self.rows, dtype=bool)
        stays[pinned] = True
        if reach is None:
            self.runs = []
        elif self.runs:
            run = self.runs[0]
            run.group(n_ids, self.fits)
            keep = np.empty(len(run.kids), dtype=np.uint8)
            pick_kernels.thin(run.kids, run.vals, reach, n_place, rules[0], rules[1], below, above, keep)
            kept = keep.view(bool)
            if not kept.all():
                run = Run(run.kids[kept], np.ascontiguousarray(run.vals[:, kept]), run.rows[kept])
                self.runs = [run] if len(run.kids) else []
                run.index(n_ids, self.fits)
            stays[run.rows] = True
        if not keep_odd:
            self.odd = []
        for _, _, rows in self.odd:
            stays[rows] = True
        at = np.flatnonzero(stays)
        if len(at) == self.rows:
            return None
        moved = np.cumsum(stays) - 1
        self.payload.keep(at)
        for run in self.runs:
            run.rows = moved[run.rows]
        self.odd = [(kids, vals, moved[rows]) for kids, vals, rows in self.odd]
        return moved

    def line(self, i: int) -> list[np.ndarray]:
        """Return the arrays of line i in all runs and heaps, which may be changed in place."""
        return [r.vals[i] for r in self.runs] + [part[1][i] for part in (*self._new, *self.odd)]

    def used(self) -> list[np.ndarray]:
        """Return the arrays of key ids of all rows."""
        return [r.kids for r in self.runs] + [part[0] for part in (*self._new, *self.odd)]


def _lines(vals: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return some rows of each line : int64[lines, n]."""
    out = np.empty((len(vals), len(at)), dtype=np.int64)
    for line, source in zip(out, vals, strict=True):
        source.take(at, out=line, mode="clip")
    return out


def _length(part: _Part) -> int:
    return len(part[0])


def _together(parts: Sequence[_Part]) -> _Part:
    return (
        np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts], axis=1),
        np.concatenate([p[2] for p in parts]),
    )
