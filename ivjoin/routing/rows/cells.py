"""Cells as arrays: find the cells of each row's copies, for whole batches at once.

An *entry* has the cells of one key (a single one for a join without a key). It is a row of slices of the axis, and a
slice is a grid of ``a`` x ``b`` cells. A left row goes to one row of each grid that it reaches, a right row to one
column. A key without an entry goes to one of the light cells by its hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ivjoin.routing.rows.arrays import Copies, dealt, expanded
from ivjoin.routing.rows.hashing import mixed

__all__ = ["Entry", "Layout"]

_HALF = np.uint64(32)
_LONE_SALT = np.uint64(0xA0761D6478BD642F)


@dataclass(frozen=True)
class Entry:
    """The cells of one key."""

    key: int | None  # its hash; None for a join without a key
    cuts: tuple[int, ...] = ()  # the starts of the slices, without the first
    grids: tuple[tuple[int, int], ...] = ((1, 1),)  # rows and columns of each slice
    twofold: bool = False  # two grids of all rows; (a, 1) owns left rows, and (1, b) right rows

    @property
    def cells(self) -> int:
        return sum(a * b for a, b in self.grids)

    @property
    def scheme(self) -> str:
        gridded = any(g != (1, 1) for g in self.grids)
        if len(self.cuts) and gridded:
            return "slices and grids"
        return "slices" if self.cuts else "grid" if gridded else "one cell"

    def __str__(self) -> str:
        if self.twofold:
            return f"grids {self.grids[0][0]} x 1 for left rows, 1 x {self.grids[1][1]} for right rows"
        if not self.cuts:
            a, b = self.grids[0]
            return "one cell" if a == b == 1 else f"grid {a} x {b}"
        gridded = [f"{a} x {b}" for a, b in self.grids if (a, b) != (1, 1)]
        return f"{len(self.grids)} slices" + (f", {len(gridded)} of them grids ({gridded[0]} ...)" if gridded else "")


class Layout:
    """The cells of a plan, numbered by entry, then by slice, then by row of the grid."""

    def __init__(self, n_light: int, entries: Sequence[Entry], both: bool = False, salted: bool = False) -> None:
        self.n_light = n_light  # cells 0 to n_light - 1 belong to keys without an entry
        self.entries = entries  # ordered by key
        self.both = both  # rows of both sides have a home and also go elsewhere; a copy is owned at home
        self.salted = salted  # equal rows of a batch are numbered when they go to a grid
        count = [len(e.grids) for e in entries]
        self._first = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        grids = np.array([g for e in entries for g in e.grids], dtype=np.int64).reshape(-1, 2)
        self._a, self._b = np.ascontiguousarray(grids[:, 0]), np.ascontiguousarray(grids[:, 1])
        ends = self.n_light + np.cumsum(self._a * self._b)
        self.cells = int(ends[-1]) if len(ends) else self.n_light
        self._base = ends - self._a * self._b
        self.keys = np.array([e.key for e in entries if e.key is not None], dtype=np.uint64)
        self._twofold = np.array([e.twofold for e in entries], dtype=bool)
        cuts = [np.array(e.cuts, dtype=np.int64) for e in entries]
        flat = np.concatenate([np.empty(0, dtype=np.int64), *cuts])
        self._unique = np.unique(flat)
        rank = np.searchsorted(self._unique, flat) + 1
        owner = np.repeat(np.arange(len(entries)), [len(c) for c in cuts])
        self._cuts = owner * (len(self._unique) + 1) + rank
        self._before = np.concatenate([[0], np.cumsum([len(c) for c in cuts])]).astype(np.int64)
        # a left row has a copy for each column of a slice, a right row one for each row of its grid
        self._ends = _starts(self._b), _starts(self._a)
        self._slice_of = np.repeat(np.arange(len(self._b)), self._b), np.repeat(np.arange(len(self._a)), self._a)
        # int64[entries]: the cell of an entry with a single cell, else -1
        first = self._first[:-1]
        alone = (np.diff(self._first) == 1) & (self._a[first] * self._b[first] == 1) if len(entries) else first > 0
        self.only = np.where(alone, self._base[first], -1) if len(entries) else first
        self._shares: list[tuple[np.ndarray, np.ndarray] | None] = [None, None]

    def needs_row_hash(self, s: int) -> bool:
        """Return whether rows of side s are distributed over rows or columns of a grid."""
        return bool(((self._b if s else self._a) > 1).any())

    def share_by(self, s: int, slices: np.ndarray, row_hash: np.ndarray) -> None:
        """Set the parts of the hashes so that these rows of side s, each in a slice, are divided into equal shares.

        By default the hashes, not the rows, are cut into equal parts, one for each row or column of a grid.
        """
        sizes = self._b if s else self._a
        code = np.sort((slices << 32) | (row_hash >> _HALF).astype(np.int64))
        first = np.searchsorted(code, np.arange(len(sizes)) << 32)
        count = np.diff(np.append(first, len(code)))
        starts = _starts(sizes - 1)
        owner = np.repeat(np.arange(len(sizes)), sizes - 1)
        part = np.arange(len(owner)) - starts[owner] + 1
        even = (owner << 32) | (part << 32) // sizes[owner]
        cuts = even
        if len(code):
            known = code[np.minimum(first[owner] + part * count[owner] // sizes[owner], len(code) - 1)]
            cuts = np.where(count[owner] >= sizes[owner], known, even)
        self.set_shares(s, np.sort(cuts))

    @property
    def shares(self) -> list[np.ndarray | None]:
        """Return for each side the starts of the hash parts that grids use; None for equal parts."""
        return [None if s is None else s[0] for s in self._shares]

    def set_shares(self, s: int, cuts: np.ndarray) -> None:
        self._shares[s] = cuts, _starts((self._b if s else self._a) - 1)

    def incidence(
        self, s: int, entry: np.ndarray, low: np.ndarray | None, high: np.ndarray | None, home: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of side s, each with every slice that it is in."""
        rows, where, _, _ = self._visits(s, entry, low, high, home)
        fresh = np.ones(len(rows), dtype=bool)
        fresh[1:] = (rows[1:] != rows[:-1]) | (where[1:] != where[:-1])
        return rows[fresh], where[fresh]

    def entry_of(self, key: np.ndarray | None, n: int) -> np.ndarray:
        """Return the entry of each row : int64[n], -1 for light keys."""
        if key is None:
            return np.zeros(n, dtype=np.int64)
        if not len(self.keys):
            return np.full(n, -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where(self.keys[at] == key, at, -1)

    def light(self, key: np.ndarray) -> np.ndarray:
        return dealt(key, self.n_light)

    def lone(self, row_hash: np.ndarray) -> np.ndarray:
        """Return a cell for each row that cannot match."""
        return dealt(mixed(row_hash ^ _LONE_SALT), self.n_light or self.cells)

    def slices(self, entry: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the slice of each value in each entry, numbered over all entries."""
        if len(self._unique) == 0:
            return self._first[entry]
        rank = np.searchsorted(self._unique, values, side="right")
        if len(self.entries) == 1:
            return rank
        code = entry * (len(self._unique) + 1) + rank
        return self._first[entry] + np.searchsorted(self._cuts, code, side="right") - self._before[entry]

    def copies(
        self, s: int, entry: np.ndarray, low: np.ndarray | None, high: np.ndarray | None, home: np.ndarray | None,
        row_hash: np.ndarray | None,
    ) -> Copies:
        """Return the copies of rows of side s with entries: their places among these rows, cells, and ownership."""
        rows, where, across, at_home = self._visits(s, entry, low, high, home)
        mine = self._dealt(s, rows, where, across, row_hash, len(entry)) if row_hash is not None else 0
        if s == 0:
            cells = self._base[where] + mine * self._b[where] + across
        else:
            cells = self._base[where] + across * self._b[where] + mine
        owned = where == at_home[rows] if self.both else np.ones(len(rows), dtype=bool)
        if s == 1 and not self.both:
            owned[1:] = rows[1:] != rows[:-1]
        return rows, cells, owned

    def _dealt(
        self, s: int, rows: np.ndarray, where: np.ndarray, across: np.ndarray, row_hash: np.ndarray, n: int
    ) -> np.ndarray:
        """Return the row (left) or column (right) of its grid that each copy goes to."""
        shares = self._shares[s]
        if shares is None:
            size = (self._b if s else self._a)[where]
            return dealt(row_hash if len(rows) == n else row_hash[rows], size)
        cuts, starts = shares
        first = across == 0
        at = where[first]
        code = (at << 32) | (row_hash[rows[first]] >> _HALF).astype(np.int64)
        mine = np.searchsorted(cuts, code, side="right") - starts[at]
        return mine if len(at) == len(rows) else mine[np.cumsum(first) - 1]

    def _visits(
        self, s: int, entry: np.ndarray, low: np.ndarray | None, high: np.ndarray | None, home: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the row, the slice and the place in the grid of each copy, and the home slice of each row."""
        n = len(entry)
        first = self._first[entry]
        last = at_home = first
        if low is not None and high is not None and home is not None and len(self._unique):
            first = self.slices(entry, low)
            last = first if high is low else self.slices(entry, high)
            at_home = first if home is low else self.slices(entry, home)
        if self._twofold.any():
            two = self._twofold[entry]
            at_home = np.where(two & (s == 1), first + 1, at_home)
            last = np.where(two, first + 1, last)
        ends = self._ends[s]
        start = ends[first]
        count = ends[last + 1] - start
        if int(count.sum()) == n:  # one for each row
            rows, at = np.arange(n), start
        else:
            rows, at = expanded(start, count)
        where = self._slice_of[s][at]
        return rows, where, at - ends[where], at_home


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
