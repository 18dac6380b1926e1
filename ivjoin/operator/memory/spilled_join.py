"""Spill the oldest rows of a join with keys together with their index.

The kernels cannot read these rows. Before the kernels run, a push looks for matches in files. A hash of the key finds
candidates. Then keys, bands and residual are compared exactly, as in the kernels. When the bounds move, rows that can
no longer match are evicted. The rest of the operator reads only their flags, output and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from weakref import ref

import numpy as np
import pyarrow as pa

from ivjoin.operator.key_values import hashed, key_hashes, packed_keys
from ivjoin.operator.match.pair_state import PairState
from ivjoin.operator.memory.candidates import decider
from ivjoin.outer.batches import BatchRows
from ivjoin.shj import registers as at
from ivjoin.shj.kernels.push import index_kernels
from ivjoin.shj.store.disk.backing import Files
from ivjoin.shj.store.keys import NoKeys
from ivjoin.shj.store.rows.ring_room import leave, recap, row_bytes
from ivjoin.shj.store.rows.side import SideStore
from ivjoin.shj.store.rows.spilled_rows import ReadRows, SpilledRows, can_spill_rows
from ivjoin.shj.store.sizes import fitting

__all__ = ["SpilledJoin"]

_AT_ONCE = 16384  # rows per piece
# Most rows of a side to spill at once if a quarter is fewer, and fewest if half is more.
_MANY, _SOME = 1 << 16, 1 << 15
_FEW = 256  # a side with at most this number of rows spills all of them
_FEW_BESIDE = 8  # a side has few rows if the other side has at least this multiple

Bounds = list[tuple[int, int]] | None


class SpilledJoin:
    """The rows of an operator whose index is in files.

    :meth:`can` must be True for the engine. ``limit`` (bytes) determines how many rows share one summary of least and
    greatest values.
    """

    def __init__(self, engine: PairState, files: Files, limit: int) -> None:
        self._engine = ref(engine)
        self._block = 1 << min(max((limit // 512).bit_length() - 1, 4), 12)
        self._files = files
        self._first = 0  # the side that spills first
        # Whether a row breaks the plan's guards, so that the whole condition is evaluated for each pair.
        self.careful = False
        self._empty()

    def _empty(self) -> None:
        engine = self.engine
        self.sides = tuple(
            SpilledRows(self._files, [c.type for c in store.columns], store.n_axes + len(store.sums), self._block)
            for store in engine.stores
        )
        self._told: list[Bounds] = [[], []]

    @property
    def engine(self) -> PairState:
        engine = self._engine()
        assert engine is not None
        return engine

    @staticmethod
    def can(engine: PairState) -> bool:
        """Return whether rows can be spilled with their index: the join has keys, and records can store its columns."""
        columns = (c for store in engine.stores for c in store.columns)
        return not isinstance(engine.keys, NoKeys) and all(can_spill_rows(c.type) for c in columns)

    @property
    def nbytes(self) -> int:
        return sum(rows.nbytes for rows in self.sides)

    @property
    def runs_in_memory(self) -> int:
        """Return the bytes of the sorted key hashes that are in memory."""
        return sum(rows.runs_in_memory() for rows in self.sides)

    def move_runs(self, moved: Callable[[np.ndarray], np.ndarray]) -> None:
        for rows in self.sides:
            rows.move_runs(moved)

    @property
    def live(self) -> int:
        return self.sides[0].live + self.sides[1].live

    def spill_rows(self, s: int, rows: int) -> bool:
        """Spill about ``rows`` of the oldest rows of side s. Return False if the side has no rows in memory.

        At least a sixteenth of the side is spilled, which spreads the cost of a call over many rows. At most a quarter
        is spilled, because young rows may be evicted before they must be spilled. A side with few rows spills up to
        half of them, or all. If the disk is full, a MemoryLimitError is raised, and the remaining rows stay in memory.
        """
        engine = self.engine
        store = engine.stores[s]
        if not store.live:
            return False
        self.careful |= engine.full_predicate
        live = int(store.live)
        going = min(max(rows, live // 16, min(live // 2, _SOME)), max(live // 4, min(live // 2, _MANY)))
        left = 0 if live <= _FEW else live - going
        try:
            while store.live > left:
                some = np.arange(store.lo, min(store.lo + _AT_ONCE, store.hi))
                some = some[store.flags(some) & index_kernels.LIVE != 0][: store.live - left]
                if not len(some):
                    store.lo = min(store.lo + _AT_ONCE, store.hi)
                    continue
                flags = store.flags(some)
                n_axes = store.n_axes + len(store.sums)
                bits = [index_kernels.FIRST_ABSENCE + min(store.stored_axis(a), index_kernels.MOST_AXES)
                        for a in range(n_axes)]
                absent = {a: gone for a, bit in enumerate(bits) if (gone := flags >> bit & 1 != 0).any()}
                axes = np.empty((n_axes, len(some)), dtype=np.int64)
                for a in range(n_axes):
                    axes[a] = store.axis_values(a, some)
                self._append(s, store.gather_all(some), axes, flags & index_kernels.MATCHED != 0, absent)
                leave(store, some)
        finally:
            self.sides[s].index()
            if not engine.state.get("prepared"):  # during a push, its keys may have ids without a stored row
                engine.keys.sweep(part=8)  # later keys can then reuse the ids
            self._tell(s)
        return True

    def free_memory(self, p: int, n: int, excess: int, most: int) -> bool:
        """Free memory before n rows of side p arrive: spill rows, or shrink the capacity that spilled rows have left.

        Rows in files still use about two bytes of memory each. Spilling stops once these use ``most`` bytes. As long as
        one side has many rows, only that side spills, so only rows of the other side search files. If that side is p
        and its ring is full, it spills instead of resizing the ring, because resizing copies it.
        """
        engine = self.engine
        own = engine.stores[p]
        if not self.live:
            self._first = max((0, 1), key=lambda s: engine.stores[s].live)
        first, other = engine.stores[self._first], engine.stores[1 - self._first]
        few = _FEW_BESIDE * first.live <= other.live or 2 * excess > first.cap * _size(first)
        spills = self.nbytes <= most
        if spills and (own is first or few) and own.hi - own.lo + n > own.cap and self.spill_rows(p, n):
            return True
        coming = {own.side: n}  # rows whose capacity may be reserved already; without it, the kernels refuse the push
        if any(self._shrink(store, coming.get(store.side, 0), excess) for store in (first, other)):
            return True
        if not spills:
            return False
        here = other if few else first
        missing = _room_for(here, coming.get(here.side, 0)) - _smaller(here, excess)
        return self.spill_rows(int(here.side), missing) or self.spill_rows(1, missing) or self.spill_rows(0, missing)

    def _shrink(self, store: SideStore, coming: int, excess: int) -> bool:
        """Shrink a ring that has at least ``excess`` unused bytes. Return whether it did."""
        cap = max(_room_for(store, coming), _smaller(store, excess))
        if cap <= store.cap - store.cap // 16 - 1:
            recap(store, cap)
            return True
        return False

    def adopt(
        self, s: int, arrays: list[pa.Array], axes: np.ndarray, matched: np.ndarray, absent: dict[int, np.ndarray]
    ) -> None:
        """Spill rows that were never in memory. ``arrays`` are the stored columns."""
        self._append(s, arrays, axes, matched, absent)
        self._tell(s)

    def _append(
        self, s: int, arrays: list[pa.Array], axes: np.ndarray, matched: np.ndarray, absent: dict[int, np.ndarray]
    ) -> None:
        engine = self.engine
        place, index = engine.places[s], engine.index[s]
        hashes = key_hashes(engine.plan, s, len(matched), lambda _, name: arrays[place[index[name]]])
        self.sides[s].append(hashes, axes, arrays, matched, absent)

    def _tell(self, s: int) -> None:
        """Set whether the kernels may treat side s as ended: it has ended, and no row of it is in files."""
        engine = self.engine
        engine.state.set_side(s, ended=int(engine.ended[s] and not self.sides[s].live))

    def rebuilt(self) -> Iterator[tuple[int, list[pa.Array], np.ndarray]]:
        """Start again for a plan whose keys or axes have changed. Yield all rows of both sides for :meth:`adopt`."""
        old = self.sides
        self._empty()
        for s, rows in enumerate(old):
            for taken in rows.all():
                columns = range(len(self.engine.stores[s].columns))
                yield s, [taken.column(i) for i in columns], rows.matched(taken.numbers)

    def pieces(self, s: int) -> Iterator[tuple[ReadRows, np.ndarray]]:
        """Yield the rows of a side in pieces, with bool[n] of the rows that have matched."""
        for taken in self.sides[s].all():
            yield taken, self.sides[s].matched(taken.numbers)

    def asks(self, p: int) -> bool:
        """Prepare the kernels for a push on side p. Return whether they must stop before they probe."""
        engine, here = self.engine, self.sides[1 - p].live > 0
        engine.state.set_side(p, packs=int(here or engine.packs[p]))
        if not self.live:
            self.careful = False
        elif self.careful:
            engine.full_predicate = True
        return here

    def probe(self, p: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the output for a batch of side p and its matches among the other side's rows in files."""
        engine, rows = self.engine, self.sides[1 - p]
        state, how, n = engine.state, engine.how, batch.num_rows
        usable = np.flatnonzero(state["usable"][:n]) if state.get("masked") else None
        if usable is not None and engine.keys.kind == at.GIVEN and not engine.packs[p]:
            # The kernel leaves this to the caller that packs the keys.
            state["key_ids"][:n][state["usable"][:n] == 0] = -1
        if engine.plan.never or (usable is not None and not len(usable)):
            return
        keys = packed_keys(engine.plan, p, n, lambda _, name: batch.column(engine.index[p][name]))
        hashes = hashed(keys)
        if usable is not None:
            hashes = hashes[usable]
        values, matched = state["values"], state["matched"]
        decide = decider(engine, p, batch, keys, values)
        for which, taken in rows.find(hashes):
            who = which if usable is None else usable[which]
            if how.single == p and (asked := matched[who] == 0).sum() < len(who):
                who, taken = who[asked], taken.at(asked)
            who, taken = decide(who, taken)
            if not len(who):
                continue
            if how.single == p:
                matched[who] = 1
            elif how.single is not None:
                numbers, first = np.unique(taken.numbers, return_index=True)
                if how.semi is not None:
                    yield from self._alone(1 - p, taken.at(first))
                self._drop(1 - p, numbers)
            else:
                if how.keep[1 - p]:
                    rows.mark(taken.numbers)
                if how.keep[p]:
                    matched[who] = 1
                for cut in engine.builder.slices(len(who)):
                    here, there = BatchRows(batch, who[cut], engine.widths[p]), _Rows(engine, 1 - p, taken.at(cut))
                    yield engine.builder.batch(here, there) if p == 0 else engine.builder.batch(there, here)

    def retire(self, s: int) -> Iterator[pa.RecordBatch]:
        """Evict the rows of side s outside its bounds. Emit unmatched rows if the join type requires it."""
        engine, rows = self.engine, self.sides[s]
        if not rows.live:
            return
        bounds: Bounds = None
        if not engine.state.side(s, "nothing"):
            bounds = [(int(b[0]), int(b[1])) for b in engine.state["bounds", s]]
            if bounds == self._told[s]:
                return
        self._told[s] = bounds
        for numbers in rows.outside(bounds):
            if engine.how.owes(s):
                alone = numbers[~rows.matched(numbers)] if engine.how.keep[s] else numbers
                if len(alone):
                    yield from self._alone(s, rows.take(alone))
            self._drop(s, numbers)

    def _alone(self, s: int, taken: ReadRows) -> Iterator[pa.RecordBatch]:
        builder = self.engine.builder
        for cut in builder.slices(len(taken)):
            rows = _Rows(self.engine, s, taken.at(cut))
            yield builder.batch(rows, None) if s == 0 else builder.batch(None, rows)

    def _drop(self, s: int, numbers: np.ndarray) -> None:
        engine = self.engine
        self.sides[s].drop(numbers)
        engine.state.sides[s]["retired"] += len(numbers)
        self._tell(s)


def _room_for(store: SideStore, coming: int) -> int:
    """Return the capacity that a ring needs for its rows and ``coming`` more, plus about 6%."""
    span = int(store.hi - store.lo) + coming
    return fitting(span + span // 16 + 64)


def _smaller(store: SideStore, excess: int) -> int:
    """Return a capacity that frees ``excess`` bytes, and at least an eighth, because shrinking copies the ring."""
    return int(store.cap - max(excess // _size(store) + 1, store.cap // 8))


def _size(store: SideStore) -> int:
    return row_bytes(store) or store.rows.strides[0]


class _Rows:
    """Rows in files, in the form that an output batch reads."""

    __slots__ = ("_place_of", "_taken")

    def __init__(self, engine: PairState, s: int, taken: ReadRows) -> None:
        self._place_of, self._taken = engine.places[s], taken

    def __len__(self) -> int:
        return len(self._taken)

    def column(self, index: int) -> pa.Array:
        return self._taken.column(self._place_of[index])
