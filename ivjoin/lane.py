"""The short way of a push: one compiled call for the plain case, with the same state and the same results.

An operator whose keys, band terms and orders are plain columns of fixed width *boards* its lane: counts, bounds and
orders move into one array of registers, beside the addresses of the stores' own arrays, and ``ivjoin.shj.fused`` works
on those alone. Before anything else touches the operator, the lane *lands*: the registers go back where they came
from. A batch that is not plain (a null, a late row, a value outside the guards) is declined unchanged, lands, and goes
the long way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ivjoin.blocks import wanted, works
from ivjoin.bounds import Bounder
from ivjoin.expr.nodes import walk
from ivjoin.expr.types import Type
from ivjoin.lane_memory import FIRST_PAIRS, MOST_PAIRS, LaneMemory, address
from ivjoin.metrics import JoinMetrics
from ivjoin.order import OrderTracker, ordinal_range
from ivjoin.plain import Sources, column_of, plain_sources
from ivjoin.plan import JoinPlan
from ivjoin.protocol import NOTHING, Output
from ivjoin.shj import lane_layout as at
from ivjoin.shj.arrow import byte_width, is_own_image
from ivjoin.shj.columns import ImageColumn, WordColumn
from ivjoin.shj.index_kernels import FIRST_AXIS, MARK_PROBE, MARK_STORE, PAIRS
from ivjoin.shj.keys import IntKeys, KeyTable
from ivjoin.shj.matcher import PIECE, may_crowd
from ivjoin.shj.store import SideStore

if TYPE_CHECKING:
    from ivjoin.symmetric import SymmetricHashJoin

__all__ = ["DEMAND", "Lane", "lane_for"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
# After a batch was declined, so many pushes go the long way before the next try; doubled each time up to the most.
_FIRST_WAIT, _MOST_WAIT = 1, 64
# Compiling the kernel takes some seconds, once for each installation. A process that has not joined so much by then
# would not get them back.
_PUSHES_WORTH_COMPILING, _ROWS_WORTH_COMPILING = 1_000, 200_000


class _Demand:
    """Whether the compiled kernel is there, or this process has had use enough for it."""

    def __init__(self) -> None:
        self.met: bool | None = None
        self._pushes = self._rows = 0
        self._broken = False

    def asks(self, rows: int) -> bool:
        """Count a push that the kernel could have taken; True once it may."""
        if self._broken:
            return False
        if self.met is None:
            from ivjoin.shj import fused
            from ivjoin.shj.compiling import is_cached

            self.met = is_cached(fused.push_batch)
        if not self.met:
            self._pushes += 1
            self._rows += rows
            self.met = self._pushes >= _PUSHES_WORTH_COMPILING or self._rows >= _ROWS_WORTH_COMPILING
        if self.met and not works():
            self.met, self._broken = False, True
        return self.met


DEMAND = _Demand()


class Lane(LaneMemory):
    """The registers of one operator, and the way on board and off."""

    def __init__(self, plan: JoinPlan, sources: list[Sources]) -> None:
        from ivjoin.shj import fused
        from ivjoin.shj.memory import release_block

        self._kernels = fused
        self._compared: tuple[np.ndarray, np.ndarray, int, bool] | None = None
        self._sources = sources
        self.aboard = False
        self._wait = 0
        self._next_wait = _FIRST_WAIT
        self._schema = plan.schema
        super().__init__(plan)
        r = self._r
        r[at.RELEASER] = release_block()
        r[at.BATCH_SIZE] = plan.options["batch_size"]
        r[at.KEYED] = int(bool(plan.null_safe))
        widths = [byte_width(t) for t in plan.schema.types]
        fields = [
            (-1 if f.left is None else f.left, -1 if f.right is None else f.right, w, is_own_image(t))
            for f, w, t in zip(plan.fields, widths, plan.schema.types, strict=True)
        ]
        r[at.FIELDS], r[at.N_FIELDS] = self._hold("fields", _table(fields, 4)), len(fields)
        for s in (0, 1):
            self._fix(s)

    def another(self, plan: JoinPlan) -> Lane:
        """A lane for one more operator of the plan that this one, which has never been boarded, was made for."""
        lane = object.__new__(Lane)
        lane.__dict__.update(self.__dict__)
        lane._plan = plan
        lane._r = self._r.copy()
        lane._held = dict(self._held)  # tables of the plan, which nobody writes to
        lane._shared = frozenset(self._held) - {"in"}
        lane._next_wait = _FIRST_WAIT
        lane._own_memory()
        return lane

    # -- pushing -------------------------------------------------------------------------------------------------

    def push(self, engine: SymmetricHashJoin, p: int, batch: pa.RecordBatch) -> Output | None:
        """The output of a push, or None when it has to go the long way (the lane has landed then)."""
        if not self.aboard and not (DEMAND.met or DEMAND.asks(batch.num_rows)):
            return None
        if batch.num_rows > PIECE:
            self._count(engine)
            if may_crowd(batch.num_rows, self._plan.tables[p], engine._stores[1 - p]):
                self.land(engine)
                return None
        if not self.aboard and not self._board(engine, p, batch.num_rows):
            return None
        kernels = self._kernels
        for _ in range(4):
            batch._export_to_c(self._in)
            status = kernels.push_batch(self._at, p)
            if status == 0:
                return NOTHING
            if status == at.OUTPUT:
                made = self._made()
                engine._pending = "push"
                return Output(engine, made)
            if status & at.DECLINED:
                self.land(engine)
                self._wait, self._next_wait = self._next_wait, min(2 * self._next_wait, _MOST_WAIT)
                return None
            if not status & at.ROOM:
                return engine._start("push", self._steps(engine, p, status))
            if not self._make_room(engine, p, batch.num_rows):
                return None
        self.land(engine)
        return None

    def _made(self) -> pa.RecordBatch:
        """The batch that the kernel has made; the output struct is empty again."""
        return pa.RecordBatch._import_from_c(self._out, self._schema)

    def _steps(self, engine: SymmetricHashJoin, p: int, status: int) -> Iterator[pa.RecordBatch]:
        """What a push goes on to produce."""
        while True:
            if status & at.FULL:
                raise MemoryError("no memory for an output batch; use a smaller batch_size")
            if status & at.OUTPUT:
                yield self._made()
            if not status & at.MORE:
                break
            if self._r[at.PHASE] == at.PROBING and self._pairs < min(MOST_PAIRS, self._plan.options["batch_size"]):
                self._pair_room(4 * self._pairs)
            status = self._kernels.push_batch(self._at, p)
        if status & (at.TIDY | at.PRUNE):
            self.land(engine)
            if status & at.PRUNE:
                yield from engine._settle(1 - p, force=True)
            else:
                engine._tidy(look=True)
        elif status & at.SWEEP:
            self._count(engine)
            engine._keys.sweep()
            self._point_at_keys(engine._keys)
            for s in (0, 1):
                self._point_at_store(engine, s)

    # -- on board and off ----------------------------------------------------------------------------------------

    def _board(self, engine: SymmetricHashJoin, p: int, n: int) -> bool:
        """Take the operator's state into the registers, for n rows of side p; False if it is not plain now."""
        if self._wait > 0:
            self._wait -= 1
            return False
        if not self._boards(engine):
            self._wait = self._next_wait = min(2 * self._next_wait, _MOST_WAIT)
            return False
        if self._room == 0:
            self._pair_room(FIRST_PAIRS)
            self._grow(engine, p, n)
            if engine._stores[p].disordered:
                return False
        r = self._r
        r[at.WITHIN] = int(engine._intake.late_within)
        self._point_at_keys(engine._keys)
        for s in (0, 1):
            self._point_at_store(engine, s)
            self._board_side(engine, s)
        m, left, right = engine._metrics, at.REGISTERS, at.REGISTERS + at.SIDE
        r[at.PEAK_ROWS] = m.peak_state_rows
        r[left + at.ROWS_IN], r[right + at.ROWS_IN] = m.left_rows_in, m.right_rows_in
        r[left + at.RETIRED], r[right + at.RETIRED] = m.left_rows_retired, m.right_rows_retired
        self._compared = self._first_comparable(engine)
        self.aboard = True
        engine._count_bytes()
        return True

    def _boards(self, engine: SymmetricHashJoin) -> bool:
        """Whether the operator's state is plain; the schedules of death that its bounds need are made here."""
        if engine._careful or isinstance(engine._keys, IntKeys) != bool(self._r[at.KEYED]):
            return False
        for s in (0, 1):
            store, frontier = engine._stores[s], engine._frontiers[s]
            if store.runs is not None or store.disordered or store.crowded or frontier.promised:
                return False
            if store.n_axes != len(self._plan.sides[s].axes) or store.n_axes > len(self._sources[s]):
                return False
            if any(not isinstance(c, (WordColumn, ImageColumn)) or c.has_nulls for c in store.columns):
                return False
            bounds = engine._bounder.bounds(s)
            if bounds is None and not engine._frontiers[1 - s].ended:
                return False
            if any(low > high for low, high in bounds or ()):
                return False
            if self._terms(engine, s) is None:
                return False
            for axis, falling in self._needed(engine, s):
                if (axis, falling) not in store.deaths:
                    store._schedule(axis, falling)
            if any(not d.in_order for d in store.deaths.values()):
                return False
        return True

    def _terms(self, engine: SymmetricHashJoin, s: int) -> list[tuple[int, int, int, int, int, int]] | None:
        """Rows of the terms table of side s; None if a term hangs on the other side's orders otherwise than as one."""
        orders = engine._frontiers[1 - s].trackers
        tracked = [column_of(t.node) for t in orders]
        out: list[tuple[int, int, int, int, int, int]] = []
        for axis, theirs, lo, hi, least, most in engine._bounder._terms[s]:
            column = column_of(theirs)
            if column is None and set(tracked) & set(walk(theirs)):
                return None
            if not all(x is None or I64_MIN < x < I64_MAX for x in (lo, hi)):
                return None
            low, high = I64_MIN if lo is None else lo, I64_MAX if hi is None else hi
            out.extend((axis, i, low, high, least, most) for i, t in enumerate(tracked) if t is column is not None)
        return out

    def _needed(self, engine: SymmetricHashJoin, s: int) -> set[tuple[int, bool]]:
        """(axis, falling) of the bounds that can move."""
        out = set()
        for axis, tracker, lo, hi, _, _ in self._terms(engine, s) or ():
            falling = engine._frontiers[1 - s].trackers[tracker].descending
            if lo != I64_MIN and not falling:
                out.add((axis, False))
            if hi != I64_MAX and falling:
                out.add((axis, True))
        for axis, (low, high) in enumerate(engine._bounder.bounds(s) or ()):
            if low != I64_MIN:
                out.add((axis, False))
            if high != I64_MAX:
                out.add((axis, True))
        return out

    def _fix(self, s: int) -> None:
        """The registers of a side that never change."""
        plan, side, base = self._plan, self._plan.sides[s], at.REGISTERS + at.SIDE * s
        sources = self._sources[s]
        places = {node: i for i, node in enumerate(sources)}
        used = {index for index, *_ in sources.values()} | set(side.stored)
        used |= {i for f in plan.fields if (i := f.left if s == 0 else f.right) is not None}
        columns = [(i, byte_width(side.schema.types[i])) for i in sorted(used)]
        table = plan.tables[s]
        keep = plan.how.keep
        r = self._r
        r[base + at.N_AXES] = len(side.axes)
        r[base + at.BANDS], r[base + at.N_BANDS] = self._hold(("bands", s), table.terms), len(table.terms)
        r[base + at.N_PRIMARY] = table.n_primary
        r[base + at.SOURCES], r[base + at.N_SOURCES] = (
            self._hold(("sources", s), _table(list(sources.values()), 4)), len(sources),
        )
        r[base + at.COLUMNS], r[base + at.N_COLUMNS] = self._hold(("columns", s), _table(columns, 2)), len(columns)
        r[base + at.MARKS] = PAIRS | (MARK_STORE if keep[1 - s] else 0) | (MARK_PROBE if keep[s] else 0)
        r[base + at.OWES] = int(plan.how.owes(s))
        r[base + at.KEEPS] = int(keep[s])
        if side.keys:
            column = column_of(side.keys[0])
            assert column is not None
            r[base + at.KEY_SOURCE] = places[column]

    def _point_at_keys(self, keys: KeyTable) -> None:
        r = self._r
        r[at.SLOTS], r[at.SLOTS_SIZE] = address(keys.slots), len(keys.slots)
        r[at.LIVE_KEYS] = keys.live
        if isinstance(keys, IntKeys):
            r[at.TABLE], r[at.TABLE_SIZE] = address(keys._table), len(keys._table)
            r[at.KEY_OF], r[at.FREE] = address(keys.key_of), address(keys._free)
            r[at.N_IDS], r[at.N_FREE] = keys.n_ids, keys._n_free

    def _point_at_store(self, engine: SymmetricHashJoin, s: int) -> None:
        """The registers of a side that change with the memory of its store."""
        r, base = self._r, at.REGISTERS + at.SIDE * s
        plan, store = self._plan, engine._stores[s]
        r[base + at.ROWS] = address(store.rows)
        r[base + at.CAP : base + at.LIVE + 1] = store.cap, store.lo, store.hi, store.live
        stored = []
        rings = np.zeros((len(plan.sides[s].schema) + 1, 2), dtype=np.int64)
        for i, c in zip(plan.sides[s].stored, store.columns, strict=True):
            if isinstance(c, WordColumn):
                width = byte_width(c.type) or 0
                rings[i] = address(c._ring), width
                stored.append((i, int(rings[i, 0]), width))
            elif isinstance(c, ImageColumn) and c.source is not None:
                rings[i] = address(store.rows) + store.rows.strides[1] * (FIRST_AXIS + c.source), store.rows.strides[0]
            else:
                rings[i] = address(engine._keys.key_of), 0  # type: ignore[attr-defined]
        r[base + at.STORED], r[base + at.N_STORED] = self._hold(("stored", s), _table(stored, 3)), len(stored)
        r[base + at.RINGS] = self._hold(("rings", s), rings)

    def _board_side(self, engine: SymmetricHashJoin, s: int) -> None:
        r, base = self._r, at.REGISTERS + at.SIDE * s
        plan, store, bounder = self._plan, engine._stores[s], engine._bounder
        n_axes = store.n_axes
        r[base + at.ORDERED] = int(store.ordered)
        r[base + at.LEAST], r[base + at.MOST] = I64_MIN, I64_MAX
        r[base + at.PEAK_SPAN] = max(store.peak, store.hi - store.lo)
        terms = self._terms(engine, s)
        r[base + at.TERMS], r[base + at.N_TERMS] = self._hold(("terms", s), _table(terms, 6)), len(terms or ())
        places = {node: i for i, node in enumerate(self._sources[s])}
        trackers = [_tracker_row(t, places[column_of(t.node)]) for t in engine._frontiers[s].trackers]  # type: ignore[index]
        r[base + at.TRACKERS] = self._hold(("trackers", s), _table(trackers, at.T_WIDTH))
        r[base + at.N_TRACKERS] = len(trackers)
        limits = bounder.bounds(s)
        r[base + at.NOTHING] = int(limits is None)
        bounds = [
            (*(limits[a] if limits is not None else (I64_MIN, I64_MAX)), *bounder._reach(node))
            for a, node in enumerate(plan.sides[s].axes)
        ]
        r[base + at.BOUNDS] = self._hold(("bounds", s), _table(bounds, 4))
        deaths = np.zeros((max(n_axes, 1), 2, 3), dtype=np.int64)
        deaths[:, :, at.D_LAST] = deaths[:, :, at.D_BOUND] = I64_MIN
        for (axis, falling), d in store.deaths.items():
            deaths[axis, int(falling)] = 1, d._last, d.bound
        r[base + at.DEATHS] = self._hold(("deaths", s), deaths)

    def land(self, engine: SymmetricHashJoin) -> None:
        """Give the operator its state back."""
        if not self.aboard:
            return
        self.report(engine._metrics)
        self._count(engine)
        self.aboard = False
        r = self._r
        for s in (0, 1):
            base, store = at.REGISTERS + at.SIDE * s, engine._stores[s]
            store.peak = int(r[base + at.PEAK_SPAN])
            store.walked(int(r[base + at.STEPS]), int(r[base + at.LINKED]))
            store.refused(int(r[base + at.REFUSED]), int(r[base + at.PROBED]), 0)
            r[base + at.STEPS] = r[base + at.LINKED] = r[base + at.REFUSED] = r[base + at.PROBED] = 0
            deaths = self._held["deaths", s]
            for (axis, falling), d in store.deaths.items():
                _, d._last, d.bound = (int(x) for x in deaths[axis, int(falling)])
            rows = self._held["trackers", s]
            for t, row in zip(engine._frontiers[s].trackers, rows, strict=False):
                t.edge, t.limit = int(row[at.T_EDGE]), int(row[at.T_LIMIT])
                t.seen_value |= t.edge != I64_MIN
        for s in (0, 1):
            engine._bounder.move(s, False, engine._stores[1 - s].live)
        self._compared = None
        self._clear()

    def drop(self, m: JoinMetrics) -> None:
        """Let go of everything, in the middle of a push too; what was counted goes into the metrics."""
        if self.aboard:
            self.report(m)
        self.aboard = False
        self._compared = None
        self._clear()
        self._give_back()

    def _count(self, engine: SymmetricHashJoin) -> None:
        """Tell the stores and the key table what they hold."""
        if not self.aboard:
            return
        r, keys = self._r, engine._keys
        keys.live = int(r[at.LIVE_KEYS])
        if isinstance(keys, IntKeys):
            keys.n_ids, keys._n_free = int(r[at.N_IDS]), int(r[at.N_FREE])
        for s in (0, 1):
            base, store = at.REGISTERS + at.SIDE * s, engine._stores[s]
            store.lo, store.hi, store.live = r[base + at.LO : base + at.LIVE + 1].tolist()

    def report(self, m: JoinMetrics) -> None:
        """Bring counts up to date."""
        r, left, right = self._r, at.REGISTERS, at.REGISTERS + at.SIDE
        m.left_rows_in, m.right_rows_in = int(r[left + at.ROWS_IN]), int(r[right + at.ROWS_IN])
        m.left_rows_retired, m.right_rows_retired = int(r[left + at.RETIRED]), int(r[right + at.RETIRED])
        m.state_rows = int(r[left + at.LIVE] + r[right + at.LIVE])
        m.peak_state_rows = max(m.peak_state_rows, int(r[at.PEAK_ROWS]))

    def lagging(self, bounder: Bounder, rows_left: int, rows_right: int) -> int:
        """As ``Bounder.lagging``, from the registers."""
        if self._compared is not None:
            left, right, offset, falling = self._compared
            x, y = left.item(at.T_LIMIT), right.item(at.T_LIMIT)
            # turned values: with both sides under way, the lesser progress is the lesser limit
            if x > left.item(at.T_START) and y > right.item(at.T_START):
                return 0 if x - y <= (-offset if falling else offset) else 1
        spans = [{t.node: self._span(s, i) for i, t in enumerate(f.trackers)} for s, f in enumerate(bounder._frontiers)]
        return bounder.behind(spans[0], spans[1], rows_left, rows_right)

    def _first_comparable(self, engine: SymmetricHashJoin) -> tuple[np.ndarray, np.ndarray, int, bool] | None:
        """The first pair of orders whose progress compares: their registers, the offset, whether they fall."""
        places = [{t.node: i for i, t in enumerate(f.trackers)} for f in engine._frontiers]
        if any(len(found) != len(f.trackers) for found, f in zip(places, engine._frontiers, strict=True)):
            return None
        for a, b, offset, falling in engine._bounder._compare:
            if a in places[0] and b in places[1]:
                rows = self._held["trackers", 0][places[0][a]], self._held["trackers", 1][places[1][b]]
                return *rows, offset, falling
        return None

    def _span(self, s: int, i: int) -> tuple[int, int]:
        row = self._held["trackers", s][i]
        limit, low, high = int(row[at.T_LIMIT]), int(row[at.T_LOW]), int(row[at.T_HIGH])
        if limit == I64_MIN:
            return low, high
        return (low, min(high, ~limit)) if row[at.T_DESCENDING] else (max(low, limit), high)

    # -- room ----------------------------------------------------------------------------------------------------

    def _make_room(self, engine: SymmetricHashJoin, p: int, n: int) -> bool:
        """After a refusal for want of room: whatever is too small for a push of n rows. False if it has landed."""
        self._count(engine)
        self._grow(engine, p, n)
        self._point_at_keys(engine._keys)
        for s in (0, 1):
            self._point_at_store(engine, s)
        engine._count_bytes()
        if engine._stores[p].disordered:
            self.land(engine)
        return self.aboard

    def _grow(self, engine: SymmetricHashJoin, p: int, n: int) -> None:
        if n > self._room:
            self._row_room(1 << (max(n, 256) - 1).bit_length(), max(len(s) for s in self._sources))
        store: SideStore = engine._stores[p]
        if store.hi - store.lo + n > store.cap:
            store._make_room(n)
        engine._keys.reserve(n)
        other = engine._stores[1 - p]
        if self._plan.how.owes(1 - p) and other.live > self._r[at.DEAD_SIZE]:
            size = 1 << other.live.bit_length()
            self._r[at.DEAD], self._r[at.DEAD_SIZE] = self._hold("dead", np.empty(size, dtype=np.int64)), size


def _table(rows: Any, width: int) -> np.ndarray:
    return np.array(rows or [], dtype=np.int64).reshape(-1, width)


def _tracker_row(t: OrderTracker, source: int) -> tuple[int, ...]:
    low, high = ordinal_range(t.node.type)
    kind: Type = t.node.type
    start = ~high if t.descending else low
    return source, int(t.descending), int(t.slack), t.edge, t.limit, 0, low, high, int(kind.kind == "float"), start


def lane_for(plan: JoinPlan) -> Lane | None:
    """A lane for an operator of a plan, None when its rows are not plain, or blocks are not to be had."""
    if not wanted():
        return None
    if "lane" not in plan.kept:
        sources = plain_sources(plan)
        plan.kept["lane"] = None if sources is None else Lane(plan, sources)
    first: Lane | None = plan.kept["lane"]
    return None if first is None else first.another(plan)
