"""Rows whose index lies in files, too: the oldest of each side, of a join with keys.

They are out of the kernels' index. The rows of a push look for theirs before they look for those in memory, while the
kernels wait: by a hash of the key, then by what the kernels go by, key, bands and residual, exactly. When bounds have
moved, those that are done leave. What the rest of the operator sees of it are matched flags, output, and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from weakref import ref

import numpy as np
import pyarrow as pa

from ivjoin.operator.core import Core
from ivjoin.operator.residual import holds
from ivjoin.outer.emit import BatchRows
from ivjoin.plan.spec import SIDES
from ivjoin.separation.separate import conjuncts_of
from ivjoin.shj import registers as at
from ivjoin.shj.arrow import Bytes, take
from ivjoin.shj.kernels import byte_kernels, index_kernels
from ivjoin.shj.store.backing import Files
from ivjoin.shj.store.frozen import FrozenRows, Taken, can_freeze
from ivjoin.shj.store.keys import NoKeys
from ivjoin.shj.store.ring_room import leave, recap, row_bytes
from ivjoin.shj.store.side import SideStore
from ivjoin.shj.store.sizes import fitting

__all__ = ["Frozen"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_AT_ONCE = 16384  # rows
_MANY, _SOME = 1 << 16, 1 << 15  # rows: as many as a quarter of a side may be, and at least at once
_FEW = 256  # rows of a side that are all frozen at once
_FEW_BESIDE = 8  # times as many on the other side, and a side has few

Bounds = list[tuple[int, int]] | None


class Frozen:
    """The rows of an operator that lie in files, index and all.

    Parameters
    ----------
    core : Core
        See :meth:`can`.
    files : Files
    limit : int
        Bytes of memory; few are spent on what is known of blocks of rows.
    """

    def __init__(self, core: Core, files: Files, limit: int) -> None:
        self._core = ref(core)
        self._block = 1 << min(max((limit // 512).bit_length() - 1, 4), 12)
        self._files = files
        self._first = 0  # the side whose rows go first
        self.careful = False  # some row lies outside the plan's guards: the whole condition decides each pair
        self._empty()

    def _empty(self) -> None:
        core = self.core
        self.sides = tuple(
            FrozenRows(self._files, [c.type for c in store.columns], store.n_axes + len(store.sums), self._block)
            for store in core.stores
        )
        self._told: list[Bounds] = [[], []]

    @property
    def core(self) -> Core:
        core = self._core()
        assert core is not None
        return core

    @staticmethod
    def can(core: Core) -> bool:
        """Whether rows of a join can be found so: it has a key, and columns that lie in records."""
        return not isinstance(core.keys, NoKeys) and all(can_freeze(c.type) for s in core.stores for c in s.columns)

    @property
    def nbytes(self) -> int:
        return sum(rows.nbytes for rows in self.sides)

    @property
    def runs_in_memory(self) -> int:
        """Bytes of what finds rows that lie in memory."""
        return sum(rows.runs_in_memory() for rows in self.sides)

    @property
    def runs_in_files(self) -> int:
        """Bytes of what finds rows that lie in mapped files."""
        return sum(rows.runs_in_files() for rows in self.sides)

    def move_runs(self, moved: Callable[[np.ndarray], np.ndarray]) -> None:
        """Let what finds rows lie elsewhere, too."""
        for rows in self.sides:
            rows.move_runs(moved)

    @property
    def live(self) -> int:
        """Rows of both sides."""
        return self.sides[0].live + self.sides[1].live

    # -- rows in -------------------------------------------------------------------------------------------------

    def freeze(self, s: int, rows: int) -> bool:
        """Between two pushes: take so many of side s's rows, the oldest, or some; False if there are none.

        A sixteenth of many at least, so that what is done once for all of them costs little, and a quarter at most,
        since young rows may be done before they must go; up to half of few.

        Raises
        ------
        MemoryLimitError
            If the disk has no room; what was not taken is where it was.
        """
        core = self.core
        store = core.stores[s]
        if not store.live:
            return False
        self.careful |= core.full_predicate
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
            if not core.state.get("prepared"):  # ids of a batch on its way may be in no row yet
                core.keys.sweep(part=8)  # their ids are for rows to come
                core.keys.compact(core.stores)
            self._tell(s)
        return True

    def less(self, p: int, n: int, excess: int) -> bool:
        """Before n rows come on side p: let rows go, or give back room that they have left; whether there was any.

        One side's rows go, while it has many: only rows of the other one look in files then. Where it is the side
        whose ring is full, that is all, since rings cost time to become smaller and larger.
        """
        core = self.core
        own = core.stores[p]
        if not self.live:
            self._first = max((0, 1), key=lambda s: core.stores[s].live)
        first, other = core.stores[self._first], core.stores[1 - self._first]
        few = _FEW_BESIDE * first.live <= other.live or 2 * excess > first.cap * _size(first)
        if (own is first or few) and own.hi - own.lo + n > own.cap and self.freeze(p, n):
            return True
        if self._shrink(first, excess) or self._shrink(other, excess):
            return True
        if not core.state.get("prepared"):
            spare = core.keys.spare(core.stores)
            if spare and (spare >= excess or 4 * spare >= core.keys.slots.nbytes):
                core.keys.renumber(core.stores)
                if core.keys.spare(core.stores) < spare:
                    return True
        here = other if few else first
        missing = _room_for(here) - _smaller(here, excess)
        return self.freeze(int(here.side), missing) or self.freeze(1, missing) or self.freeze(0, missing)

    def _shrink(self, store: SideStore, excess: int) -> bool:
        """Give back so many bytes of a ring that freezing has left empty, or more, if there are any."""
        cap = max(_room_for(store), _smaller(store, excess))
        if cap <= store.cap - store.cap // 16 - 1:
            recap(store, cap)
            return True
        return False

    def adopt(
        self, s: int, arrays: list[pa.Array], axes: np.ndarray, matched: np.ndarray, absent: dict[int, np.ndarray]
    ) -> None:
        """Take in rows of which nothing is in memory; the stored columns, in their order."""
        self._append(s, arrays, axes, matched, absent)
        self._tell(s)

    def _append(
        self, s: int, arrays: list[pa.Array], axes: np.ndarray, matched: np.ndarray, absent: dict[int, np.ndarray]
    ) -> None:
        core = self.core
        place, index = core.places[s], core.index[s]
        hashes = core.intake.key_hashes(s, len(matched), lambda _, name: arrays[place[index[name]]])
        self.sides[s].append(hashes, axes, arrays, matched, absent)

    def _tell(self, s: int) -> None:
        """The kernels take a side that has ended, and of which they hold no row, to be without any."""
        core = self.core
        core.state.set_side(s, ended=int(core.ended[s] and not self.sides[s].live))

    def rebuilt(self) -> Iterator[tuple[int, list[pa.Array], np.ndarray]]:
        """Begin anew, for a plan whose keys or axes have changed: all rows, side by side, to be adopted again."""
        old = self.sides
        self._empty()
        for s, rows in enumerate(old):
            for taken in rows.all():
                yield s, [taken.column(i) for i in range(len(self.core.stores[s].columns))], rows.matched(taken.numbers)

    def pieces(self, s: int) -> Iterator[tuple[Taken, np.ndarray]]:
        """The rows of a side, some at a time, and bool[n] of those that have matched."""
        for taken in self.sides[s].all():
            yield taken, self.sides[s].matched(taken.numbers)

    # -- a push --------------------------------------------------------------------------------------------------

    def asks(self, p: int) -> bool:
        """Before a push on side p: whether it must come back before it probes, which the kernels are told."""
        core, here = self.core, self.sides[1 - p].live > 0
        core.state.set_side(p, packs=int(here or core.packs[p]))
        if not self.live:
            self.careful = False
        elif self.careful:
            core.full_predicate = True
        return here

    def probe(self, p: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What the rows of a batch, which has arrived, find among the other side's: pairs, or rows that leave."""
        core, rows = self.core, self.sides[1 - p]
        state, how, n = core.state, core.how, batch.num_rows
        usable = np.flatnonzero(state["usable"][:n]) if state.get("masked") else None
        if usable is not None and core.keys.kind == at.GIVEN and not core.packs[p]:
            state["key_ids"][:n][state["usable"][:n] == 0] = -1  # which the kernel leaves to whoever packs
        if core.plan.never or (usable is not None and not len(usable)):
            return
        keys = core.intake.packed_keys(p, n, lambda _, name: batch.column(core.index[p][name]))
        hashes = core.intake.hashed(keys)
        if usable is not None:
            hashes = hashes[usable]
        values, matched = state["values"], state["matched"]
        decide = self._decider(p, batch, keys, values)
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
                for cut in core.emitter.slices(len(who)):
                    here, there = BatchRows(batch, who[cut], core.widths[p]), _Rows(core, 1 - p, taken.at(cut))
                    yield core.emitter.batch(here, there) if p == 0 else core.emitter.batch(there, here)

    def _decider(
        self, p: int, batch: pa.RecordBatch, keys: Bytes, values: np.ndarray
    ) -> Callable[[np.ndarray, Taken], tuple[np.ndarray, Taken]]:
        """Which candidates are pairs, as the kernels and ``pairs.decide`` have it."""
        core, q = self.core, 1 - p
        plan, full = core.plan, core.full_predicate
        index, places = core.index, core.places
        condition = conjuncts_of(plan.condition) if full and plan.condition is not None else []
        nodes = list(condition if full else plan.separation.residual)
        bands = [] if full else plan.tables[p].terms.tolist()
        overflows = [] if full else [table.terms.tolist() for table in plan.overflows[p]]

        def true(these: Sequence[object], who: np.ndarray, taken: Taken) -> np.ndarray:
            def column(side: str, name: str) -> pa.Array:
                s = SIDES.index(side)
                i = index[s][name]
                return take(batch.column(i), who, core.widths[p][i]) if s == p else taken.column(places[q][i])

            return holds(these, column, len(who))  # type: ignore[arg-type]

        def decide(who: np.ndarray, taken: Taken) -> tuple[np.ndarray, Taken]:
            theirs = core.intake.packed_keys(q, len(who), lambda _, name: taken.column(places[q][index[q][name]]))
            same = _same(keys, theirs, who)
            if same is not None:
                who, taken = who[same], taken.at(same)
            for terms in overflows:
                some = np.flatnonzero(_within(terms, values, who, taken))
                if len(some):
                    true(list(plan.separation.residual), who[some], taken.at(some))
            if bands and len(who):
                inside = _within(bands, values, who, taken)
                if not inside.all():
                    who, taken = who[inside], taken.at(inside)
            if nodes and len(who):
                good = true(nodes, who, taken)
                who, taken = who[good], taken.at(good)
            return who, taken

        return decide

    # -- rows out ------------------------------------------------------------------------------------------------

    def retire(self, s: int) -> Iterator[pa.RecordBatch]:
        """Rows of side s that its bounds leave out leave, and come out where the join type asks for it."""
        core, rows = self.core, self.sides[s]
        if not rows.live:
            return
        bounds: Bounds = None
        if not core.state.side(s, "nothing"):
            bounds = [(int(b[0]), int(b[1])) for b in core.state["bounds", s]]
            if bounds == self._told[s]:
                return
        self._told[s] = bounds
        for numbers in rows.outside(bounds):
            if core.how.owes(s):
                alone = numbers[~rows.matched(numbers)] if core.how.keep[s] else numbers
                if len(alone):
                    yield from self._alone(s, rows.take(alone))
            self._drop(s, numbers)

    def _alone(self, s: int, taken: Taken) -> Iterator[pa.RecordBatch]:
        emitter = self.core.emitter
        for cut in emitter.slices(len(taken)):
            rows = _Rows(self.core, s, taken.at(cut))
            yield emitter.batch(rows, None) if s == 0 else emitter.batch(None, rows)

    def _drop(self, s: int, numbers: np.ndarray) -> None:
        core = self.core
        self.sides[s].drop(numbers)
        core.state.sides[s]["retired"] += len(numbers)
        self._tell(s)


def _room_for(store: SideStore) -> int:
    """The capacity that a ring needs for its rows and a few more."""
    span = int(store.hi - store.lo)
    return fitting(span + span // 16 + 64)


def _smaller(store: SideStore, excess: int) -> int:
    """The capacity of a ring that gives back so many bytes, and an eighth at least: a copy must be worth it."""
    return int(store.cap - max(excess // _size(store) + 1, store.cap // 8))


def _size(store: SideStore) -> int:
    """Bytes of a row in a side's rings."""
    return row_bytes(store) or store.rows.strides[0]


class _Rows:
    """Rows in files, as an output batch takes them."""

    __slots__ = ("_place_of", "_taken")

    def __init__(self, core: Core, s: int, taken: Taken) -> None:
        self._place_of, self._taken = core.places[s], taken

    def __len__(self) -> int:
        return len(self._taken)

    def column(self, index: int) -> pa.Array:
        return self._taken.column(self._place_of[index])


def _same(own: Bytes, theirs: Bytes, who: np.ndarray) -> np.ndarray | None:
    """bool[n]: where keys are byte for byte the same; None where all are."""
    same = np.empty(len(who), dtype=np.uint8)
    n = byte_kernels.same(own.offsets, own.buffer, who, theirs.offsets, theirs.buffer, same)
    return None if n == len(who) else same.view(bool)


def _within(terms: list[list[int]], values: np.ndarray, who: np.ndarray, taken: Taken) -> np.ndarray:
    """bool[n]: whether stored values lie in [probe + low, probe + high] of every band, over integers without end."""
    good = np.ones(len(who), dtype=bool)
    for probe, own, low, high in terms:
        p, v = values[probe].take(who), taken.axis(own)
        if low != I64_MIN:
            if low > 0:
                good &= (p <= I64_MAX - low) & (v >= np.minimum(p, I64_MAX - low) + low)
            else:
                good &= (p < I64_MIN - low) | (v >= np.maximum(p, I64_MIN - low) + low)
        if high != I64_MAX:
            if high < 0:
                good &= (p >= I64_MIN - high) & (v <= np.maximum(p, I64_MIN - high) + high)
            else:
                good &= (p > I64_MAX - high) | (v <= np.minimum(p, I64_MAX - high) + high)
    return good
