"""Find the right row of each left row slice by slice, with one pass over both sorted sides.

A *pass* reads the right rows in order and finds the last row of each left row's key within its range, or the first row.
The nearest row is the nearer of these two. Slices are independent of each other. If a slice has no row yet for the key
of a left row, the left row is *open*. It then takes the place that an earlier slice recorded for its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from ivjoin.expr.ordinal import NAN_ORDINAL
from ivjoin.operator.lookup.key_ids import KeyIds
from ivjoin.operator.lookup.picks.distance import compared
from ivjoin.operator.lookup.tables.ordered import BoundTerm, Sorted, count_to, rises
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import picking_of
from ivjoin.shj.kernels.lookup import lookup_kernels
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["LookupSlice", "Pass", "PassPlaces", "is_far", "nearer", "passes_of", "slices_of"]

_ABOVE = 2**31 - 1  # greater than any place
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Pass:
    """One direction of reading the places. Bounds are closed, on right values: ``left value + offset``."""

    down: bool  # whether to take the last place within the range; otherwise the first
    grouped: bool  # whether to take the first of equal last values
    lows: list[BoundTerm]
    highs: list[BoundTerm]

    @property
    def main(self) -> list[BoundTerm]:
        """Return the bounds where the search starts."""
        return self.highs if self.down else self.lows


def passes_of(plan: JoinPlan) -> list[Pass] | None:
    """Return the passes of a pick, or None unless bounds of one left value determine where they start."""
    picking = picking_of(plan)
    place = plan.axis(1, picking.place)
    if picking.met or place is None:
        return None
    bands = [(plan.axis(0, t.left), plan.axis(1, t.right), t.low, t.high) for t in picking.terms]
    near = None if picking.near is None else plan.axis(0, picking.near)
    if (near is None) != (picking.near is None) or any(None in band[:2] for band in bands):
        return None  # constants
    if near is not None:
        passes = [
            _pass([(near, place, I64_MIN, 0), *bands], True, not picking.plain),
            _pass([(near, place, 1, I64_MAX), *bands], False, False),
        ]
    else:
        passes = [_pass(bands, picking.which == "last", False)]
    mine = {axis for p in passes for axis, _, _ in p.main}
    theirs = {axis for p in passes if p.grouped for _, axis, _ in p.main}
    return passes if len(mine) == 1 and all(p.main for p in passes) and theirs <= {place} else None


def _pass(bands: list[Any], down: bool, grouped: bool) -> Pass:
    lows = [(mine, theirs, low) for mine, theirs, low, _ in bands if low != I64_MIN]
    return Pass(down, grouped, lows, [(mine, theirs, high) for mine, theirs, _, high in bands if high != I64_MAX])


@dataclass(frozen=True, slots=True)
class LookupSlice:
    """Sorted left rows from ``start`` to ``end``, whose search starts among the places ``first`` to ``last``."""

    number: int
    start: int
    end: int
    first: int
    last: int


def slices_of(way: Pass, left: Sorted, right: Sorted, rows: int, place: int) -> list[LookupSlice]:
    """Cut both sides into slices of about ``rows`` rows. Only the rows determine the cuts.

    Left rows before a cut do not start their search behind the cut's place. The other left rows do not start before it.
    Right rows that are equal on the axis ``place`` are in one slice.
    """
    n, m = len(left), len(right)
    share = max(1, rows * m // max(1, n + m))
    values = right.lines[place]
    places = np.unique(np.searchsorted(values, values[np.arange(share, m, share)])).tolist()
    cuts = [(0, 0)]
    for row, place in [*((_rows_before(way, left, right, p), p) for p in places if p), (n, m)]:
        while row - cuts[-1][0] > 2 * rows:  # many left rows with few right rows between them
            cut = cuts[-1][0] + rows
            cuts.append((cut, _begin_of(way, left, right, cut - 1 if way.down else cut)))
        cuts.append((row, place))
    return [
        LookupSlice(number, start, end, first, last)
        for number, ((start, first), (end, last)) in enumerate(pairwise(cuts))
    ]


def _rows_before(way: Pass, left: Sorted, right: Sorted, place: int) -> int:
    """Return how many left rows start their search before a place. For a downward pass, include the place."""
    found = [
        count_to(left.lines[mine], int(right.lines[theirs][place if way.down else place - 1]) - by, not way.down)
        for mine, theirs, by in way.main
    ]
    return max(found) if way.down else min(found)


def _begin_of(way: Pass, left: Sorted, right: Sorted, row: int) -> int:
    """Return the place where a left row starts its search."""
    found = [count_to(right.lines[theirs], int(left.lines[mine][row]) + by, way.down) for mine, theirs, by in way.main]
    return min(found) if way.down else max(found)


@dataclass(slots=True)
class _Left:
    """The results that a slice passes to others: its open rows with their keys, and the last place of each key."""

    rows: np.ndarray
    ids: np.ndarray
    limits: np.ndarray
    keys: np.ndarray
    places: np.ndarray


@dataclass(slots=True)
class PassPlaces:
    """The places that a pass finds."""

    way: Pass
    left: Sorted
    right: Sorted
    ids: KeyIds
    place: int  # the axis that sorts the right rows
    in_turn: bool  # whether one thread visits all slices in order, so that slices pass nothing to others
    places: np.ndarray  # int32[n]: the place of the right row for each sorted left row, or -1
    _left: dict[int, _Left] = field(default_factory=dict)

    def turns(self, slices: Sequence[LookupSlice]) -> list[LookupSlice]:
        """Return slices in the order of their visits. A thread visits them in this order."""
        return list(slices) if self.way.down else list(slices[::-1])

    def table(self) -> np.ndarray:
        """Return the table of places by key that a thread needs : int32[ids]."""
        return np.full(self.ids.n_ids, -1 if self.way.down else _ABOVE, dtype=np.int32)

    def look(self, part: LookupSlice, at: np.ndarray) -> None:
        """Find the right rows of a slice's rows. ``at`` is the thread's table of places."""
        a, b, c, d = part.start, part.end, part.first, part.last
        first, last = self._ranges(part)
        kids, theirs = self.left.kids(a, b), self.right.kids(c, d)
        out, rows = self.places[a:b], np.empty(b - a, dtype=np.int32)
        least = self.ids.least
        if self.way.down:
            groups = self.right.lines[self.place][c:d] if self.way.grouped else _NONE
            floor = 0 if self.in_turn else c
            count = lookup_kernels.last_of_key(kids, first, last, theirs, groups, least, c, floor, at, out, rows)
        else:
            ceiling = _ABOVE if self.in_turn else d
            count = lookup_kernels.first_of_key(kids, first, last, theirs, least, c, ceiling, at, out, rows)
        if not self.in_turn:
            keys, places = np.empty(d - c, dtype=np.int64), np.empty(d - c, dtype=np.int32)
            met = lookup_kernels.keys_met(theirs, least, c, at, keys, places)
            rows = rows[:count].copy()
            limits = (first if self.way.down else last)[rows]
            self._left[part.number] = _Left(rows, kids[rows] - least, limits, keys[:met].copy(), places[:met].copy())

    def carry(self, slices: Sequence[LookupSlice]) -> None:
        """Give open rows the places that earlier slices have recorded."""
        if self.in_turn:
            return
        held = self.table()
        for part in self.turns(slices):
            left = self._left.pop(part.number)
            if len(left.rows):
                place = held[left.ids]
                good = place >= left.limits if self.way.down else place < left.limits
                self.places[part.start + left.rows] = np.where(good, place, -1)
            held[left.keys] = left.places

    def _ranges(self, part: LookupSlice) -> tuple[np.ndarray, np.ndarray]:
        way, n = self.way, part.end - part.start
        first, last = np.zeros(n, dtype=np.int32), np.full(n, len(self.right), dtype=np.int32)
        spare = np.empty(n, dtype=np.int32)
        # Bounds where the search starts are among the places of the slice. The others may be anywhere behind.
        if n:
            for term in way.highs:
                window = (part.first, part.last) if way.down else (part.first, len(self.right))
                np.minimum(last, self._counted(part, term, True, window, spare), out=last)
            for term in way.lows:
                window = (0, part.last) if way.down else (part.first, part.last)
                np.maximum(first, self._counted(part, term, False, window, spare), out=first)
        return first, last

    def _counted(
        self, part: LookupSlice, term: BoundTerm, closed: bool, window: tuple[int, int], out: np.ndarray
    ) -> np.ndarray:
        """Return how many values are below a bound : int32[rows]. Values outside of the window are not read."""
        mine, theirs, by = term
        probes, values = self.left.lines[mine][part.start : part.end], self.right.lines[theirs]
        begin, end = window
        if self.way.down != closed:  # read only the range between the bounds of these rows
            begin = max(begin, count_to(values, int(probes.min()) + by, False))
            end = max(begin, min(end, count_to(values, int(probes.max()) + by, True)))
        all_rise = mine == self.way.main[0][0] or rises(probes)
        lookup_kernels.count_below(values[begin:end], probes, all_rise, by, closed, begin, out)
        return out


def nearer(
    near: np.ndarray, values: np.ndarray, before: np.ndarray, after: np.ndarray, kind: object
) -> np.ndarray:
    """Return the nearer of two places, or the one before if both are equally near : int32[n]. -1 means no place.

    ``near`` : int64[n] are left values. ``values`` : int64[m] are the sorted right values, of type ``kind``.
    """
    out = np.where(before < 0, after, before)
    both = np.flatnonzero((before >= 0) & (after >= 0))
    if len(both):
        of = compared(near[both], values[before[both]], values[after[both]], kind)  # type: ignore[arg-type]
        out[both[of > 0]] = after[both[of > 0]]
    return out


def is_far(near: np.ndarray, kind: str) -> bool:
    """Return whether a left value is infinite or NaN. All numbers are equally far from such a value."""
    return kind == "float" and bool((near >= NAN_ORDINAL - 1).any())
