"""Probing a batch against a side store: candidate pairs in bounded chunks, the residual condition decided in bulk."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ivjoin.shj import index_kernels, run_kernels
from ivjoin.shj.bandtable import BandTable
from ivjoin.shj.selectivity import most_selective
from ivjoin.shj.store import SideStore

__all__ = ["PIECE", "Decide", "Matcher", "may_crowd"]

_FIRST_ROOM = 4096  # pairs that the first chunk has room for
# (rows of the batch, ids in the store) -> bool[n]
Decide = Callable[[np.ndarray, np.ndarray], np.ndarray]

_NO_PAIRS = np.empty(0, dtype=np.int64)
# A batch larger than this is probed in pieces, each twice the last, where the store may turn to a better index between.
PIECE = 16_384
_MOST_STEPS = 50_000_000  # that a batch may walk along one axis, if there are others


def may_crowd(rows: int, bands: BandTable, store: SideStore) -> bool:
    """Whether a batch could walk so far along the store's first axis that another one had better be thought of."""
    return rows * store.live > _MOST_STEPS * max(1, store.keys.live) and bands.has_choice


class Matcher:
    """Runs the probe kernel; owns the buffers that its pairs are written to.

    Parameters
    ----------
    room : int
        Pairs a chunk at most.
    counts : bool
        Whether what a probe costs counts when a store chooses its index.
    """

    def __init__(self, room: int, counts: bool = True) -> None:
        self._limit = room
        self._counts = counts
        self._size = min(room, _FIRST_ROOM)
        self._probe = self._store = _NO_PAIRS
        self._state = np.empty(4, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        return self._probe.nbytes + self._store.nbytes + self._state.nbytes

    def rest(self) -> None:
        """Give back the room for pairs until the next probe: much, and of no use to a store that waits."""
        self._probe = self._store = _NO_PAIRS

    def _make_room(self) -> None:
        self._probe, self._store = np.empty(self._size, dtype=np.int64), np.empty(self._size, dtype=np.int64)

    def pairs(
        self, kids: np.ndarray, axes: np.ndarray, bands: BandTable, store: SideStore, matched: np.ndarray, mode: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Chunks of (row of the batch, id in the store), int64[n] each, valid until the next one is asked for.

        Rows of the store may be numbered anew between two chunks, except under ``FIRST_STORE``.
        """
        whole = len(kids) <= PIECE or not self._counts or store.runs is not None or not bands.has_choice
        if whole or mode & index_kernels.FIRST_STORE:
            yield from self._chunks(kids, axes, bands, store, matched, mode)
            return
        begin, size = 0, PIECE
        while begin < len(kids):
            cut = slice(begin, begin + size)
            piece = np.ascontiguousarray(axes[:, cut])
            for rows, ids in self._chunks(kids[cut], piece, bands, store, matched[cut], mode):
                rows += begin
                yield rows, ids
            store.turn()
            begin, size = begin + size, 2 * size

    def _chunks(
        self, kids: np.ndarray, axes: np.ndarray, bands: BandTable, store: SideStore, matched: np.ndarray, mode: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        state = self._start(store, bands)
        if len(self._probe) < self._size:
            self._make_room()
        n = len(kids)
        while True:
            count = self._run(kids, axes, bands, store, matched, mode, self._probe, self._store)
            done = state[0] >= n
            if count:
                at = state.copy()
                yield self._probe[:count], self._store[:count]
                state[:] = at
            if done:
                return
            if self._size < self._limit:
                self._size = min(self._limit, 4 * self._size)
                self._make_room()

    def _start(self, store: SideStore, bands: BandTable) -> np.ndarray:
        state = self._state
        state[0] = state[2] = state[3] = 0
        state[1] = -2
        if store.runs is not None and bands.led_by(store.runs.axis, store.runs.second).n_primary > 0:
            state[1], state[2] = 0, -1
        return state

    def _run(
        self, kids: np.ndarray, axes: np.ndarray, bands: BandTable, store: SideStore, matched: np.ndarray, mode: int,
        out_probe: np.ndarray, out_store: np.ndarray,
    ) -> int:
        """One call of the kernel that fits the store's index."""
        runs = store.runs
        led = bands if runs is None else bands.led_by(runs.axis, runs.second)
        if runs is not None and led.n_primary > 0:
            return run_kernels.probe_runs(
                kids, axes, led.terms, led.n_primary, led.n_second, runs.keys, runs.values, runs.ids, runs.tops,
                runs.ends, runs.count,
                store.lo, store.rows, store.links, matched, mode, self._state, out_probe, out_store,
            )
        count = index_kernels.probe(
            kids, axes, bands.terms, bands.n_primary, 1 if store.ordered else 0, store.keys.slots, store.rows,
            store.links, store.lo, store.offset, matched, mode, self._state, out_probe, out_store,
        )
        if not self._counts:
            self._state[2] = self._state[3] = 0
            return count
        if self._state[2] and store.ordered:
            store.walked(int(self._state[2]))
            self._state[2] = 0
        store.refused(int(self._state[3]), len(kids))
        self._state[3] = 0
        if store.crowded:
            store.search_by(*most_selective(axes, bands, store))
        return count

    def mark(self, kids: np.ndarray, axes: np.ndarray, bands: BandTable, store: SideStore, matched: np.ndarray) -> None:
        """Only sets ``matched`` for rows of the batch that have a partner, each stopping at its first."""
        self._start(store, bands)
        mode = index_kernels.MARK_PROBE | index_kernels.FIRST_PROBE
        self._run(kids, axes, bands, store, matched, mode, _NO_PAIRS, _NO_PAIRS)

    def decided(
        self, chunks: Iterator[tuple[np.ndarray, np.ndarray]], residual: Decide
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The chunks' pairs for which ``residual(rows, ids)`` : bool[n] holds."""
        for rows, ids in chunks:
            true = residual(rows, ids)
            if true.all():
                yield rows, ids
            elif true.any():
                yield rows[true], ids[true]
