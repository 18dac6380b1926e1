"""Compare left rows with right rows: search a run for each left row, or sweep both in order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import NAN_ORDINAL
from ivjoin.operator.match.residual import holds
from ivjoin.operator.picks.offered import Offered, Run
from ivjoin.operator.picks.waiting import Better, Waiting
from ivjoin.plan.cutting import shifted
from ivjoin.plan.layout import RowLayout
from ivjoin.plan.picking.pick import Picking
from ivjoin.plan.spec import SIDES
from ivjoin.shj.kernels.lookup import grouped_kernels, pick_kernels
from ivjoin.shj.sorting import in_order, order_by_key
from ivjoin.shj.store.keys import KeyTable

__all__ = ["Comparer"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_NONE = np.empty(0, dtype=np.int64)
_NO_BLOCKS = np.empty((2, 0), dtype=np.int64)
_OFTEN = 64  # rows that arrive between two attempts to evict rows
_SWEEP = 24  # a sweep is used for up to so many right rows and keys for each left row
_PAIRS = 1 << 17  # pairs decided at once
_FIRST_TRIES, _MOST_TRIES = 4, 1 << 14  # candidates of a left row that are decided at once


class Comparer:
    """Offers right rows to left rows.

    Parameters
    ----------
    picking : Picking
    layouts : (RowLayout, RowLayout)
    keys : KeyTable
        The keys of both sides.
    offered : Offered
        The right rows.
    better : Better
    """

    def __init__(
        self, picking: Picking, layouts: tuple[RowLayout, RowLayout], keys: KeyTable, offered: Offered, better: Better,
    ) -> None:
        self._picking, self._layouts, self._keys, self._offered = picking, layouts, keys, offered
        self._better = better
        self._passes = self._ways()
        # The whole condition is a range of the value that picks the row.
        self._in_line = picking.n_sort == 1 and bool((picking.terms[:, 1] == 0).all())

    def _ways(self) -> list[tuple[np.ndarray, int, int]]:
        """Return how to walk runs: (terms, the number of terms to search by, direction)."""
        picking = self._picking
        if picking.which != "nearest":
            way = pick_kernels.DOWN if picking.which == "last" else pick_kernels.UP
            return [(picking.terms, picking.n_search, way)]
        n = picking.n_search + 1
        return [
            (picking.with_near(I64_MIN, 0), n, pick_kernels.DOWN_GROUPS + picking.n_place - 1),
            (picking.with_near(1, I64_MAX), n, pick_kernels.UP),
        ]

    def compare(self, w: Waiting, rows: np.ndarray, runs: list[Run], odd: bool, nodes: list[Node]) -> None:
        """Offer rows of some runs to left rows, and with ``odd`` the rows that have no value on an axis.

        ``nodes``: the conjuncts to decide for each pair.
        """
        picking = self._picking
        terms, n_search = picking.terms, picking.n_search
        far = none = last = _NONE
        if picking.which == "nearest":
            if len(w.free):
                none, rows_held = rows[w.free[rows] != 0], rows[w.free[rows] == 0]
            else:
                rows_held = rows
            if picking.lines[0][picking.near].type.kind == "float":
                # All numbers are equally far from an infinity, so the first one is taken.
                far = rows_held[w.vals[picking.near, rows_held] >= NAN_ORDINAL - 1]
            if picking.step:
                last = rows_held[w.vals[picking.near, rows_held] == I64_MAX]
        else:
            rows_held = rows
        for run in list(runs):
            for table, n, way in self._passes:
                if self._in_line and not nodes and not len(w.free) and self._sweeps(rows_held, run):
                    self._sweep_by(w, rows_held, run, table, way)
                else:
                    self._walk(w, rows_held, run, table, n, way, nodes)
            # Values past the type's range all seem equal at its end: look before them, and at the first of them.
            if len(last):
                for low, high, way in ((I64_MIN, -1, pick_kernels.DOWN_GROUPS), (0, 0, pick_kernels.UP)):
                    self._walk(w, last, run, picking.with_near(low, high), picking.n_search + 1, way, nodes)
            if len(far):
                self._walk(w, far, run, terms, n_search, pick_kernels.UP, nodes)
            if len(none):
                self._walk(w, none, run, terms, n_search, pick_kernels.UP, nodes, every=True)
        if odd:
            for kids, vals, numbers in self._offered.odd:
                order = np.lexsort((*vals[self._picking.n_sort - 1 :: -1], kids))
                loose = Run(kids[order], np.ascontiguousarray(vals[:, order]), numbers[order])
                self._walk(w, rows, loose, np.empty((0, 4), dtype=np.int64), 0, pick_kernels.UP, nodes, every=True)

    def _sweeps(self, rows: np.ndarray, run: Run) -> bool:
        """Return whether a sweep through left rows and a run costs less than a search for each left row."""
        return (run.flat or len(run.starts) > 0) and _SWEEP * len(rows) >= len(run.kids) + self._keys.n_ids

    def _sweep_by(self, w: Waiting, rows: np.ndarray, run: Run, terms: np.ndarray, way: int) -> None:
        """Offer the last, or the first, row of a run within all terms, which all compare the value that picks."""
        every = len(rows) == len(w)
        low, high = np.full(len(rows), I64_MIN), np.full(len(rows), I64_MAX)
        for line, _, least, most in terms.tolist():
            v = w.vals[line] if every else w.vals[line].take(rows)
            if least != I64_MIN:
                np.maximum(low, shifted(v, least) if least else v, out=low)
                if least > 0:
                    high[v > I64_MAX - least] = I64_MIN
            if most != I64_MAX:
                np.minimum(high, shifted(v, most) if most else v, out=high)
                if most < 0:
                    low[v < I64_MIN - most] = I64_MAX
        empty = low > high
        low[empty], high[empty] = I64_MAX, I64_MIN
        by, other = (low, high) if way == pick_kernels.UP else (high, low)
        at = np.empty(len(rows), dtype=np.int64)
        kids = w.kids if every else w.kids.take(rows)
        if run.flat:
            order = _NONE if bool((by[:-1] <= by[1:]).all()) else in_order(by)[0]
            best = np.full(self._keys.n_ids, -1, dtype=np.int64)
            pick_kernels.sweep(kids, low, high, order, run.kids, run.vals[0], way, best, at)
        else:
            groups, by, numbers = order_by_key(kids, by, self._keys.n_ids)
            grouped_kernels.meet_groups(groups, by, numbers, other, run.starts, run.vals[0], way, at)
        if every and bool((w.best < 0).all()):
            w.found(run, at)
            return
        found = np.flatnonzero(at >= 0)
        if len(found):
            w.offer(rows.take(found), run, at.take(found), self._better)

    def _walk(
        self, w: Waiting, rows: np.ndarray, run: Run, terms: np.ndarray, n_search: int, way: int, nodes: list[Node],
        every: bool = False,
    ) -> None:
        """Offer the best row of a run that satisfies the condition to each left row."""
        if not every:
            run.group(self._keys.n_ids, self._offered.fits)
        blocks = None if n_search >= len(terms) else run.blocks(int(terms[n_search, 1]))
        skips = (_NO_BLOCKS, _NONE) if blocks is None else (blocks.upper, blocks.starts)
        state = np.zeros((4, len(w)), dtype=np.int64)
        state[0, rows] = -1
        most = 1 if not nodes else len(run.kids) if every else min(_FIRST_TRIES, len(run.kids))
        while len(rows):
            step = len(rows) if not nodes else max(1, _PAIRS // max(1, most))
            left = []
            for start in range(0, len(rows), step):
                some = rows[start : start + step]
                room = len(some) * most
                out_row, out_at = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
                count = pick_kernels.walk(
                    w.kids, w.vals, w.free, some, run.kids, run.vals, run.starts, terms, n_search, way, most, *skips,
                    state, out_row, out_at,
                )
                out_row, out_at = out_row[:count], out_at[:count]
                if not nodes:
                    w.offer(out_row, run, out_at, self._better)
                    continue
                tried = np.bincount(out_row, minlength=len(w)) if count else np.zeros(len(w), dtype=np.int64)
                true = holds(nodes, self._pair_columns(w, out_row, run.rows[out_at]), count)
                good, good_at = out_row[true], out_at[true]
                if every:  # the best row need not be the first in this order
                    for r in np.unique(good):
                        for a in good_at[good == r]:
                            w.offer(np.array([r]), run, np.array([a]), self._better)
                else:
                    first, where = np.unique(good, return_index=True)
                    w.offer(first, run, good_at[where], self._better)
                    tried[first] = 0
                    left.append(some[tried[some] == most])
            if not nodes or every or not left:
                return
            rows = np.concatenate(left)
            most = min(4 * most, _MOST_TRIES, max(1, len(run.kids)))

    def _pair_columns(self, w: Waiting, rows: np.ndarray, there: np.ndarray) -> Callable[[str, str], pa.Array]:
        left, right = self._layouts

        def column(side: str, name: str) -> pa.Array:
            if side == SIDES[0]:
                return w.column(left.places[left.index[name]], rows)
            return self._offered.payload.column(right.places[right.index[name]], there)

        return column
