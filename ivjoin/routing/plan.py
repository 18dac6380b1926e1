"""The routing plan: an immutable function from a row's values to its copies."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import ProtocolError, came
from ivjoin.plan.spec import SIDES
from ivjoin.routing.report import LoadReport
from ivjoin.routing.rows.arrays import Copies, stacked
from ivjoin.routing.rows.cells import Layout
from ivjoin.routing.rows.hashing import hash_of_rows, mixed
from ivjoin.routing.rows.reach import Axis
from ivjoin.routing.rows.reader import Features, Reader

__all__ = ["RoutingPlan", "side_number"]

def side_number(side: Any) -> int:
    if not isinstance(side, str) or side not in SIDES:
        raise ProtocolError(f"side is {came(side)}; expected 'left' or 'right'")
    return SIDES.index(side)


@dataclass(frozen=True, eq=False)
class RoutingPlan:
    """A plan that divides one join into the joins of many cells.

    A cell joins all copies that it receives. From its output, use only owned rows: a pair if its left copy is owned,
    and an unmatched, semi or anti row if its own copy is owned. Each output row is then emitted exactly once.

    Attributes
    ----------
    how, scheme : str
        The requested join type and scheme.
    workers, n_cells : int
    worker_of : int64[n_cells]
        The worker of each cell.
    notes : tuple of str
        The reasons why keys are not spread, or not evenly.
    """

    how: str
    workers: int
    scheme: str
    notes: tuple[str, ...]
    worker_of: np.ndarray
    reader: Reader = field(repr=False)
    layout: Layout = field(repr=False)
    axis: Axis | None = field(repr=False)
    dealt: tuple[list[int], list[int]] = field(repr=False)  # columns with which a grid deals rows; empty for all
    measure: Callable[[RoutingPlan], LoadReport] = field(repr=False)

    @property
    def n_cells(self) -> int:
        return self.layout.cells

    @property
    def both(self) -> bool:
        return self.layout.both

    @functools.cached_property
    def report(self) -> LoadReport:
        """Return the expected load of each worker, from the samples."""
        return self.measure(self)

    def cells(self, side: str, batch: pa.RecordBatch) -> Copies:
        """Return the copies of a batch's rows: rows and cells (int64[m]), and whether each is owned (bool[m]).

        Every row has a copy.

        Raises
        ------
        SchemaError
            If the batch does not have the schema of the plan's sample.
        ProtocolError
            If ``side`` is neither "left" nor "right".
        """
        s = side_number(side)
        self.reader.check(s, batch)
        return self.copies(s, batch, self.features(s, batch))

    def summary(self) -> str:
        return f"{self.n_cells} cells, {self.report.replication:.3g} copies a row"

    def features(self, s: int, batch: pa.RecordBatch) -> Features:
        return self.reader.features(s, batch, self.axis, self.both)

    def copies(self, s: int, batch: pa.RecordBatch, f: Features) -> Copies:
        """Return :meth:`cells` of a batch whose features are known."""
        layout, n = self.layout, f.n
        entry = layout.entry_of(f.key, n)
        # rows with one cell: light keys, keys with one cell, rows that cannot match
        if f.key is None:
            cells = np.full(n, layout.only[0])
        else:
            cells = layout.light(f.key)
            placed = np.flatnonzero(entry >= 0)
            if len(placed):
                cells[placed] = layout.only[entry[placed]]
        if f.lone is not None:
            lone = np.flatnonzero(f.lone)
            cells[lone] = layout.lone(hash_of_rows(batch, lone))
        rows, where, owned = self._placed(s, batch, f, entry, cells)
        if f.wild is None:
            return rows, where, owned
        tame, wild = ~f.wild[rows], np.flatnonzero(f.wild)
        everywhere = np.tile(np.arange(self.n_cells), len(wild))
        at_home = everywhere == np.repeat(cells[wild], self.n_cells)
        all_of = np.repeat(wild, self.n_cells), everywhere, at_home
        return stacked([(rows[tame], where[tame], owned[tame]), all_of])

    def _placed(self, s: int, batch: pa.RecordBatch, f: Features, entry: np.ndarray, cells: np.ndarray) -> Copies:
        n = f.n
        many = cells < 0
        left = int(np.count_nonzero(many))
        if left == 0:
            return np.arange(n), cells, np.ones(n, dtype=bool)
        if left == n:
            return self._spread(s, batch, f, entry, slice(None))
        mine = np.flatnonzero(~many)
        placed = mine, cells[mine], np.ones(len(mine), dtype=bool)
        return stacked([placed, self._spread(s, batch, f, entry, np.flatnonzero(many))])

    def _spread(self, s: int, batch: pa.RecordBatch, f: Features, entry: np.ndarray, at: np.ndarray | slice) -> Copies:
        layout = self.layout
        row_hash = self._row_hash(s, batch, at) if layout.needs_row_hash(s) else None
        rows, cells, owned = layout.copies(s, entry[at], *f.range_of(at), row_hash)
        return (rows if isinstance(at, slice) else at[rows]), cells, owned

    def share_out(self, s: int, batch: pa.RecordBatch) -> None:
        """Set the grids to distribute these rows of side s in equal parts, before the plan is used."""
        layout = self.layout
        if not layout.needs_row_hash(s):
            return
        f = self.features(s, batch)
        entry = layout.entry_of(f.key, f.n)
        if f.lone is not None:
            entry[f.lone] = -1
        at = np.flatnonzero(entry >= 0)
        at = at[layout.only[entry[at]] < 0]
        row_hash = self._row_hash(s, batch, at)
        rows, slices = layout.incidence(s, entry[at], *f.range_of(at))
        layout.share_by(s, slices, row_hash[rows])

    def _row_hash(self, s: int, batch: pa.RecordBatch, at: np.ndarray | slice) -> np.ndarray:
        dealt = batch.select(self.dealt[s]) if self.dealt[s] else batch
        row_hash = hash_of_rows(dealt, None if isinstance(at, slice) else at)
        return _numbered(row_hash) if self.layout.salted else row_hash

    def __str__(self) -> str:
        lines = [f"{self.how} join on {self.workers} workers, {self.n_cells} cells"]
        kinds: dict[str, int] = {}
        for e in self.layout.entries:
            kinds[e.scheme] = kinds.get(e.scheme, 0) + 1
        if self.layout.n_light:
            lines.append(f"light keys: hash to {self.layout.n_light} cells")
        for e in sorted(self.layout.entries, key=lambda e: -e.cells)[:5]:
            if e.cells > 1:
                lines.append(f"{'no key' if e.key is None else f'key {e.key:016x}'}: {e}")
        rest = ", ".join(f"{n} x {name}" for name, n in kinds.items())
        if rest:
            lines.append(f"keys with cells of their own: {rest}" if self.layout.keys.size else f"all rows: {rest}")
        if self.axis is not None:
            lines.append(f"cut along {self.axis}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join([*lines, str(self.report)])


def _numbered(hashes: np.ndarray) -> np.ndarray:
    """Return hashes in which equal ones differ by the number of equal ones before them."""
    order = np.argsort(hashes, kind="stable")
    ranked = hashes[order]
    fresh = np.concatenate([[True], ranked[1:] != ranked[:-1]])
    start = np.maximum.accumulate(np.where(fresh, np.arange(len(ranked)), 0))
    number = np.empty(len(hashes), dtype=np.uint64)
    number[order] = (np.arange(len(ranked)) - start).astype(np.uint64)
    return mixed(hashes + number)
