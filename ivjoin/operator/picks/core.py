"""The state of a join that gives each left row one partner, and how rows move through it.

Right rows are kept in runs, sorted by key and by what they are picked by. A left row is compared with them once none of
the better ones can still be missing (*ripe*), or nothing later can match it; from then on it is *seen*: it knows its
best partner, and each new right row is held against it. It leaves as soon as no later right row can be better.

Of the right rows those stay that a left row which was not compared yet, or is to come, may take, and the partners that
seen rows have found. Where the whole condition is keys and bands along what is picked by, a row behind which another
one lies that all those left rows can take, too, is dropped: of a key there is one row left behind the frontier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakMethod

import numpy as np
import pyarrow as pa

from ivjoin.errors import MemoryLimitError
from ivjoin.expr import build
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import NAN_ORDINAL
from ivjoin.expr.types import from_arrow
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.core import frontiers_of
from ivjoin.operator.intake import Intake
from ivjoin.operator.picks.offered import Offered, Run, in_order
from ivjoin.operator.picks.reading import Reader, Rows
from ivjoin.operator.picks.waiting import Better, Waiting
from ivjoin.operator.prune_bounds import Bounder
from ivjoin.operator.residual import holds
from ivjoin.outer.emit import Emitter
from ivjoin.plan.cutting import shifted
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.pick import picking_of
from ivjoin.plan.planner import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.separation.separate import conjuncts_of
from ivjoin.shj.arrow import whole_numbers
from ivjoin.shj.kernels import pick_kernels
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.keys import ByteKeys, IntKeys, KeyTable, NoKeys

if TYPE_CHECKING:
    from ivjoin.operator.output import Rows as OutputRows

__all__ = ["PickCore"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_NONE = np.empty(0, dtype=np.int64)
_NO_FLAGS = np.empty(0, dtype=np.uint8)
_SMALL = 4096  # left rows of a piece that is put together with the one before
_OFTEN = 64  # rows that come before it is looked at again who may go, at least
_SWEEP = 24  # right rows and keys to a left row, for both sides to be gone through side by side
_PAIRS = 1 << 17  # decided at once
_FIRST_TRIES, _MOST_TRIES = 4, 1 << 14  # candidates of a left row that are decided at once


class PickCore:
    """What :class:`SymmetricHashJoin` is made of where rows are picked; it is used as ``Core`` is."""

    def __init__(self, plan: JoinPlan, late_within: bool = True, errors_first: bool = False) -> None:
        self.plan = plan = plan.own()
        self.how = plan.how
        self.layouts = row_layouts(plan)
        self.frontiers = frontiers_of(plan)
        self.bounder = Bounder(plan, self.frontiers)
        self.intake = Intake(plan, self.frontiers, late_within, errors_first)
        self.emitter = Emitter(plan.schema, plan.fields, plan.spec.batch_size)
        self.watermarks: dict[tuple[int, str], tuple[Node, bool]] = {}
        self.ended = [False, False]
        self.metrics = JoinMetrics()
        held = WeakMethod(self.bytes_held)
        self.account = Account(lambda: (of() if (of := held()) else 0))
        self.full_predicate = False
        self.rekeyed = False
        self.build()
        self.count_state()

    def build(self) -> None:
        """All that holds rows, empty."""
        plan = self.plan
        picking = self.picking = picking_of(plan)
        self._reader = Reader(plan, picking, self.intake)
        kind = IntKeys if plan.int_keys else ByteKeys if plan.null_safe else NoKeys
        self.keys: KeyTable = kind()
        self.keys.live = 2**31  # only `_sweep` takes ids back: none else knows which are in use
        near = picking.lines[0][picking.near].type if picking.near >= 0 else None
        self._better = Better(picking.which, picking.n_sort, picking.near, near)
        self._stored = [
            pa.schema([pa.field(str(i), t) for i, t in enumerate(layout.stored)]) for layout in self.layouts
        ]
        self.waiting: list[Waiting] = []
        self._giving: pa.RecordBatch | None = None  # left rows of which some are being put out
        self.offered = Offered(self._stored[1], picking.n_sort, len(picking.lines[1]))
        lines = len(picking.lines[1])
        self._top, self._bottom = [I64_MIN] * lines, [I64_MAX] * lines
        self._since = 0  # rows that have come since it was last looked at who may go
        self._moved = False  # whether a frontier has, since then
        self._passes = self._ways()
        # all that is asked is a range of what rows are picked by
        self._in_line = picking.n_sort == 1 and bool((picking.terms[:, 1] == 0).all())

    def _ways(self) -> list[tuple[np.ndarray, int, int]]:
        """How runs are walked: (terms, how many of them are searched by, in which direction)."""
        picking = self.picking
        if picking.which != "nearest":
            way = pick_kernels.DOWN if picking.which == "last" else pick_kernels.UP
            return [(picking.terms, picking.n_search, way)]
        n = picking.n_search + 1
        return [
            (picking.with_near(I64_MIN, 0), n, pick_kernels.DOWN_GROUPS),
            (picking.with_near(1, I64_MAX), n, pick_kernels.UP),
        ]

    def column(self, s: int, index: int) -> Node:
        """The node of a column of side s."""
        field = self.plan.sides[s].schema.field(index)
        return build.column(SIDES[s], field.name, from_arrow(field.type))

    def rows_at_hand(self, s: int) -> Iterator[tuple[Callable[[int], pa.Array | None], int]]:
        """The rows of side s that later output may hold: (a column by its place or None, how many rows)."""
        places = self.layouts[s].places
        batches = [w.batch for w in self.waiting] if s == 0 else self.offered.payload.batches
        given = [] if s or self._giving is None else [self._giving]
        for batch in (*batches, *given):
            yield (lambda i, b=batch: None if places[i] < 0 else b.column(places[i])), batch.num_rows  # type: ignore[misc]

    # -- counts --------------------------------------------------------------------------------------------------

    @property
    def n_waiting(self) -> int:
        """Left rows that are held."""
        return sum(len(w) for w in self.waiting)

    def bytes_held(self) -> int:
        """Bytes of rows, runs and keys."""
        return sum(w.nbytes for w in self.waiting) + self.offered.nbytes + self.keys.nbytes

    def count_state(self) -> None:
        m = self.metrics
        m.state_rows = self.n_waiting + self.offered.rows
        m.state_bytes = self.bytes_held()
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows)
        m.peak_state_bytes = max(m.peak_state_bytes, m.state_bytes)

    def counts(self) -> JoinMetrics:
        """The counts of this moment."""
        m = replace(self.metrics)
        m.state_rows = self.n_waiting + self.offered.rows
        m.state_bytes = self.bytes_held()
        m.left_rows_retired = m.left_rows_in - self.n_waiting
        m.right_rows_retired = m.right_rows_in - self.offered.rows
        return m

    def limit(self, limit: int) -> None:
        """Hold no more bytes than this; a batch that needs more is refused."""

        def refuse(needed: int, held: int) -> None:
            raise MemoryLimitError(
                f"memory_limit of {limit:,} bytes: {held:,} are held and {needed:,} more are needed. The left side "
                f"holds {self.n_waiting:,} rows that wait for a partner; the right side holds {self.offered.rows:,}. "
                "Ways out: a greater memory_limit, smaller batches, or orders and bounds that let rows go. The batch "
                "was not taken; the operator can go on"
            )

        self.account.limit, self.account.on_full = limit, refuse

    def is_refused(self, error: BaseException) -> bool:
        """Whether the account has refused memory for the push under way, of which nothing is done yet."""
        return self.account.refused

    def let_go(self) -> None:
        self.metrics = self.counts()
        self.build()
        self.count_state()

    # -- what the operator asks for --------------------------------------------------------------------------------

    def take(self, p: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Feed a batch of side p; what refuses it comes before anything has changed."""
        lines = len(self.picking.lines[p])
        self.account.refused = False
        self.account.want(batch.num_rows * 8 * (lines + 4) + batch.nbytes)
        before = [t.save() for t in self.frontiers[p].trackers]
        try:
            kept, late = self.intake.screen(p, batch)
            rows = self._reader.read(p, kept, self.layouts[p].index, self.keys)
        except BaseException:
            for t, saved in zip(self.frontiers[p].trackers, before, strict=True):
                t.load(saved)
            raise
        m = self.metrics
        m.late_rows += late
        if p == 0:
            m.left_rows_in += kept.num_rows
        else:
            m.right_rows_in += kept.num_rows
        self._since += kept.num_rows
        if rows.wild is not None and rows.wild.any():
            self.full_predicate = True
        self.bounder.move(p, False, self.offered.rows if p == 0 else self.n_waiting)
        self._moved = True
        return (self._left if p == 0 else self._right)(kept, rows)

    def settle(self, p: int) -> Iterator[pa.RecordBatch]:
        """Side p's frontier has moved by a promise or an end."""
        self.bounder.move(p, True, self.offered.rows if p == 0 else self.n_waiting)
        if p == 1:
            yield from self._decided(None)
        self._moved = True
        self._thin(True)

    def end(self, sides: list[int]) -> Iterator[pa.RecordBatch]:
        for p in sides:
            yield from self.settle(p)
        self.count_state()

    def promise(self, p: int, node: Node, ordinal: int, descending: bool) -> bool:
        """Take in a promise about a side's later rows; whether nothing else has to be learnt."""
        known = node in self.frontiers[p].promised
        self.frontiers[p].promise(node, ordinal, descending)
        return known

    def learn(self) -> None:
        """Take in that frontiers may know other expressions now, and axes that could prune by them."""
        for frontier in self.frontiers:
            frontier.refresh()
        missing = list(self.bounder.missing_axes())
        if not missing:
            return
        for s, node in missing:
            if node not in self.plan.sides[s].axes:
                self.plan.sides[s].axes.append(node)
        for s in (0, 1):
            self.bounder.refit(s)
        self.plan.kept = {}
        saved = [self.saved_rows(s) for s in (1, 0)]
        self.build()
        for s, (arrays, seen) in zip((1, 0), saved, strict=True):
            self.adopt_rows(s, arrays, seen)
        self._look_again()

    def refresh_bounds(self) -> None:
        """Take in rows and frontiers that were set from outside."""
        self.learn()
        for p in (0, 1):
            self.bounder.move(p, True, 1)
        self._look_again()

    # -- snapshots -------------------------------------------------------------------------------------------------

    def saved_rows(self, s: int) -> tuple[list[pa.Array], np.ndarray]:
        """The stored columns of a side, and for left rows whether they were compared already."""
        if s == 0:
            parts, seen = [w.batch for w in self.waiting], [w.seen for w in self.waiting]
        else:
            parts, seen = self.offered.payload.batches, [np.zeros(self.offered.rows, dtype=bool)]
        table = pa.Table.from_batches(parts, self._stored[s]).combine_chunks()
        arrays = [
            c.chunk(0) if c.num_chunks == 1 else pa.concat_arrays(c.chunks) if c.num_chunks else pa.nulls(0, c.type)
            for c in table.columns
        ]
        return arrays, np.concatenate(seen) if seen else np.zeros(0, dtype=bool)

    def adopt_rows(self, s: int, arrays: list[pa.Array], marked: np.ndarray) -> None:
        """Put rows of a snapshot back; left rows are compared again by ``refresh_bounds``."""
        n = len(marked)
        if n == 0:
            return
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._stored[s]) if arrays else _empty_rows(n)
        places, index = self.layouts[s].places, self.layouts[s].index
        rows = self._reader.read(s, batch, {name: places[i] for name, i in index.items()}, self.keys)
        if s == 1:
            self._store(batch, rows)
        else:
            new = Waiting.of(batch, rows.kids, rows.vals, _flags(rows.odd), self.picking.n_sort)
            new.seen[:] = marked
            new.summed_up()
            self._wait(new)

    def led(self, s: int) -> None:
        """No side is searched by sorted runs that were chosen as rows came."""

    def _look_again(self) -> None:
        """Find the partners of seen rows anew; what they may take is all there."""
        self.offered.fresh(self.keys.n_ids)
        for w in self.waiting:
            rows = np.flatnonzero(w.seen)
            if len(rows):
                w.best[rows] = -1
                self._compare(w, rows, self.offered.runs, True)
        self.count_state()

    # -- left rows -------------------------------------------------------------------------------------------------

    def _left(self, batch: pa.RecordBatch, rows: Rows) -> Iterator[pa.RecordBatch]:
        stored = self._columns(0, batch)
        new = Waiting.of(stored, rows.kids, rows.vals, _flags(rows.odd), self.picking.n_sort)
        del rows.vals
        done = ~rows.usable
        ripe = self._ripe(new.vals)
        dead = self._dead(new)
        look = np.flatnonzero((ripe | dead) & rows.usable)
        if len(look):
            self.offered.fresh(self.keys.n_ids)
            self._compare(new, look, self.offered.runs, True)
            new.seen[look] = True
        done |= dead
        if not done.all():
            done |= self._settled(new)
        yield from self._out(new, done)
        if not done.all():
            rest = new.only(~done) if done.any() else new
            rest.summed_up()
            self._wait(rest)
        self._thin(False)

    def _wait(self, new: Waiting) -> None:
        self.waiting.append(new)
        while len(self.waiting) > 1:
            a, b = len(self.waiting[-2]), len(self.waiting[-1])
            if a > 2 * b or a + b > _SMALL:
                break
            self.waiting[-2:] = [Waiting.joined(self.waiting[-2:])]

    def _dead(self, w: Waiting) -> np.ndarray:
        """bool[n]: rows that no later right row can match."""
        n = len(w)
        bounds = self.bounder.bounds(0)
        if bounds is None:
            return np.ones(n, dtype=bool)
        out = np.zeros(n, dtype=bool)
        for axis, (low, high) in enumerate(bounds):
            line = self.picking.axes[0][axis]
            if (0, self.plan.sides[0].axes[axis]) in self._reader.blind:
                continue
            if low != I64_MIN and w.low[line] < low:
                out |= w.vals[line] < low
            if high != I64_MAX and w.high[line] > high:
                out |= w.vals[line] > high
        if len(w.free):
            out[w.free != 0] = False
        return out

    def _ripe(self, vals: np.ndarray) -> np.ndarray:
        """bool[n]: rows whose best partner may have come, so that it is worth while to look; by their lines."""
        out = np.zeros(vals.shape[1], dtype=bool)
        picking = self.picking
        low, high = self.bounder.future(1, picking.lines[1][0])
        rising, falling = low != I64_MIN, high != I64_MAX
        if not rising and not falling:
            return out
        if picking.which == "nearest":
            v = vals[picking.near]
            return v <= self._top[0] if rising else v >= self._bottom[0]
        # by the end of the range from which the better rows come where they come first, by the other end elsewhere
        column = 3 if picking.which == "last" else 2
        ends = [t for t in picking.terms[: picking.n_search].tolist() if t[column] not in (I64_MIN, I64_MAX)]
        if not ends:
            out[:] = rising != (picking.which == "last")
            return out
        out[:] = True
        for t in ends:
            limit = (self._top if rising else self._bottom)[t[1]] - t[column]
            line = vals[t[0]]
            if rising:
                out &= line <= limit if limit >= I64_MIN else False
            else:
                out &= line >= limit if limit <= I64_MAX else False
            if not out.any():
                break
        return out

    def _idle(self, w: Waiting) -> bool:
        """Whether no row of a piece can be ripe or dead, told by its ends alone."""
        if w.some_seen or len(w.free):
            return False
        bounds = self.bounder.bounds(0)
        if bounds is None:
            return False
        for axis, (low, high) in enumerate(bounds):
            line = self.picking.axes[0][axis]
            if w.low[line] < low or w.high[line] > high:
                return False
        return not self._ripe(np.array([w.low, w.high], dtype=np.int64).T.reshape(len(w.low), 2)).any()

    def _settled(self, w: Waiting) -> np.ndarray:
        """bool[n]: rows that have a partner than which no later one can be better."""
        picking = self.picking
        known = w.best >= 0
        if not known.any():
            return known
        plain = picking.n_sort == 1
        best = w.best_vals[0]
        low, high = self.bounder.future(1, picking.lines[1][0])
        if picking.which == "nearest":
            x = w.vals[picking.near]
            out = (x == best) if plain else np.zeros(len(w), dtype=bool)
            for end, beyond in ((low, x < low), (high, x > high)):
                at = np.flatnonzero(known & beyond & ~out)
                if len(at) and self._better.type is not None and end not in (I64_MIN, I64_MAX):
                    edge = np.full((1, len(at)), end)
                    # what comes is no nearer than the edge, and no earlier where it lies above
                    wins = self._better(x[at], edge, best[None, at]) if picking.n_sort == 1 else None
                    if wins is None:
                        first = replace(self._better, n_sort=1)
                        wins = first(x[at], edge, best[None, at]) | (edge[0] == best[at])
                    out[at[~wins]] = True
            return out & known
        out = np.zeros(len(w), dtype=bool)
        if picking.which == "last":
            out |= best >= high if plain else best > high
        else:
            out |= best <= low if plain else best < low
        if plain:
            column = 3 if picking.which == "last" else 2
            for t in picking.terms.tolist():
                if t[1] == 0 and t[column] not in (I64_MIN, I64_MAX):
                    out |= best == shifted(w.vals[t[0]], t[column])
        return out & known

    # -- right rows --------------------------------------------------------------------------------------------------

    def _right(self, batch: pa.RecordBatch, rows: Rows) -> Iterator[pa.RecordBatch]:
        nobody = self.ended[0] and not self.waiting
        run = None
        if rows.usable.any() and not nobody:
            self._store(self._columns(1, batch), rows)
            if any(w.some_seen for w in self.waiting):
                run = self.offered.fresh(self.keys.n_ids)
        yield from self._decided(run)
        self._thin(False)

    def _store(self, stored: pa.RecordBatch, rows: Rows) -> None:
        kids, vals, odd = rows.kids, rows.vals, rows.odd
        if not rows.usable.all():
            at = np.flatnonzero(rows.usable)
            stored = stored.take(whole_numbers(at))
            kids, vals = kids[at], np.ascontiguousarray(vals[:, at])
            odd = None if odd is None else odd[at]
        for i, line in enumerate(vals):
            if len(line):
                self._top[i] = max(self._top[i], int(line.max()))
                self._bottom[i] = min(self._bottom[i], int(line.min()))
        self.offered.add(stored, kids, vals, odd)

    def _decided(self, run: Run | None) -> Iterator[pa.RecordBatch]:
        """What is decided by now of the rows that wait; ``run`` has the right rows that have just come."""
        ready = False
        i = 0
        while i < len(self.waiting):
            w = self.waiting[i]
            if self._idle(w):
                i += 1
                continue
            if not ready:
                self.offered.fresh(self.keys.n_ids)
                ready = True
            seen = np.flatnonzero(w.seen)
            if run is not None and len(seen):
                self._compare(w, seen, [run], bool(self.offered.odd))
            dead = self._dead(w)
            look = np.flatnonzero((dead | self._ripe(w.vals)) & ~w.seen)
            if len(look):
                self._compare(w, look, self.offered.runs, True)
                w.seen[look] = True
            done = dead if dead.all() else dead | self._settled(w)
            if not done.any():
                w.summed_up()
                i += 1
                continue
            yield from self._out(w, done)
            if done.all():
                del self.waiting[i]
            else:
                self.waiting[i] = w.only(~done)
                i += 1

    # -- comparing ---------------------------------------------------------------------------------------------------

    def _compare(self, w: Waiting, rows: np.ndarray, runs: list[Run], odd: bool) -> None:
        """Offer rows of some runs, and of those that no term holds, to left rows."""
        nodes, picking = self._asked(), self.picking
        terms, n_search = picking.terms, picking.n_search
        far = none = _NONE
        if picking.which == "nearest":
            if len(w.free):
                none, rows_held = rows[w.free[rows] != 0], rows[w.free[rows] == 0]
            else:
                rows_held = rows
            if picking.lines[0][picking.near].type.kind == "float":
                # All numbers are equally far from an infinity, and the first one is taken.
                far = rows_held[w.vals[picking.near, rows_held] >= NAN_ORDINAL - 1]
        else:
            rows_held = rows
        for run in list(runs):
            for table, n, way in self._passes:
                if self._in_line and not nodes and not len(w.free) and self._sweeps(rows_held, run):
                    self._sweep_by(w, rows_held, run, table, way)
                else:
                    self._walk(w, rows_held, run, table, n, way, nodes)
            if len(far):
                self._walk(w, far, run, terms, n_search, pick_kernels.UP, nodes)
            if len(none):
                self._walk(w, none, run, terms, n_search, pick_kernels.UP, nodes, every=True)
        if odd:
            for kids, vals, numbers in self.offered.odd:
                order = np.lexsort((*vals[self.picking.n_sort - 1 :: -1], kids))
                loose = Run(kids[order], np.ascontiguousarray(vals[:, order]), numbers[order])
                self._walk(w, rows, loose, np.empty((0, 4), dtype=np.int64), 0, pick_kernels.UP, nodes, every=True)

    def _sweeps(self, rows: np.ndarray, run: Run) -> bool:
        """Whether it costs less to go through left rows and a run side by side than to search for each."""
        return run.flat and _SWEEP * len(rows) >= len(run.kids) + self.keys.n_ids

    def _sweep_by(self, w: Waiting, rows: np.ndarray, run: Run, terms: np.ndarray, way: int) -> None:
        """Offer the last, or the first, row of a run within all terms, which are about its place."""
        low, high = np.full(len(rows), I64_MIN), np.full(len(rows), I64_MAX)
        for line, _, least, most in terms.tolist():
            v = w.vals[line].take(rows)
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
        by = low if way == pick_kernels.UP else high
        order = _NONE if bool((by[:-1] <= by[1:]).all()) else in_order(by)[0]
        best = np.full(self.keys.n_ids, -1, dtype=np.int64)
        at = np.empty(len(rows), dtype=np.int64)
        kids = w.kids.take(rows)
        pick_kernels.sweep(kids, low, high, order, run.kids, run.vals[0], way, best, at)
        found = np.flatnonzero(at >= 0)
        if len(found):
            w.offer(rows.take(found), run, at.take(found), self._better)

    def _asked(self) -> list[Node]:
        """The conjuncts that are decided pair by pair."""
        plan = self.plan
        return list(conjuncts_of(plan.condition) if self.full_predicate else plan.separation.residual)

    def _walk(
        self, w: Waiting, rows: np.ndarray, run: Run, terms: np.ndarray, n_search: int, way: int, nodes: list[Node],
        every: bool = False,
    ) -> None:
        """Offer the best row of a run that satisfies the condition to each left row."""
        if not every:
            run.group(self.keys.n_ids)
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
                    w.kids, w.vals, w.free, some, run.kids, run.vals, run.starts, terms, n_search, way, most, state,
                    out_row, out_at,
                )
                out_row, out_at = out_row[:count], out_at[:count]
                if not nodes:
                    w.offer(out_row, run, out_at, self._better)
                    continue
                tried = np.bincount(out_row, minlength=len(w)) if count else np.zeros(len(w), dtype=np.int64)
                true = holds(nodes, self._pair_columns(w, out_row, run.rows[out_at]), count)
                good, good_at = out_row[true], out_at[true]
                if every:  # in an order in which the best one need not be the first
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
        left, right = self.layouts
        index = whole_numbers(rows)

        def column(side: str, name: str) -> pa.Array:
            if side == SIDES[0]:
                return w.batch.column(left.places[left.index[name]]).take(index)
            return self.offered.payload.column(right.places[right.index[name]], there)

        return column

    # -- who may go --------------------------------------------------------------------------------------------------

    def _thin(self, force: bool) -> None:
        """Drop the right rows that nobody can take any more, if that may be worth looking."""
        if not self._moved or (not force and self._since < max(_OFTEN, self.offered.rows // 4)):
            return
        self._moved, self._since = False, 0
        if not self.offered.rows:
            self._sweep()
            return
        picking, bounds = self.picking, self.bounder.bounds(1)
        ends = self._left_ends()
        future = [self.bounder.future(0, n) for n in picking.lines[0]]
        lows = [min(a, b[0]) for (a, _), b in zip(ends, future, strict=True)] if ends else [b[0] for b in future]
        highs = [max(a, b[1]) for (_, a), b in zip(ends, future, strict=True)] if ends else [b[1] for b in future]
        reach = self._reach(bounds, ends)
        rules, below, above = self._rules(lows, highs)
        if rules == (0, 0) and reach is not None and (reach[0] == I64_MIN).all() and (reach[1] == I64_MAX).all():
            return  # any of them may still be wanted
        pinned = [w.best[w.best >= 0] for w in self.waiting]
        moved = self.offered.thin(
            self.keys.n_ids, reach, picking.n_place, rules, below, above,
            np.concatenate(pinned) if pinned else _NONE, not self.ended[0] or bool(self.waiting),
        )
        if moved is not None:
            for w in self.waiting:
                known = w.best >= 0
                w.best[known] = moved[w.best[known]]
        self._sweep()

    def _left_ends(self) -> list[tuple[int, int]] | None:
        """Least and greatest value of each line over the rows that wait and were not compared; None for no rows."""
        out: list[tuple[int, int]] | None = None
        for w in self.waiting:
            if not w.some_seen:
                now = list(zip(w.low, w.high, strict=True))
            else:
                rows = np.flatnonzero(~w.seen)
                if not len(rows):
                    continue
                now = [(int(line.min()), int(line.max())) for line in w.vals[:, rows]]
            if len(w.free) and (w.free[~w.seen] != 0).any():
                now = [(I64_MIN, I64_MAX)] * len(w.low)
            out = now if out is None else [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(out, now, strict=True)]
        return out

    def _reach(
        self, bounds: list[tuple[int, int]] | None, ends: list[tuple[int, int]] | None
    ) -> np.ndarray | None:
        """Least and greatest value of each right line that some left row may want; None for none."""
        picking, lines = self.picking, len(self.picking.lines[1])
        if bounds is None and ends is None:
            return None
        out = np.empty((2, lines), dtype=np.int64)
        out[0], out[1] = I64_MIN, I64_MAX
        own = {}
        if bounds is not None:
            for axis, (low, high) in enumerate(bounds):
                if (1, self.plan.sides[1].axes[axis]) not in self._reader.blind:
                    own[picking.axes[1][axis]] = low, high
        mine: dict[int, tuple[int, int]] = {}
        if ends is not None:
            for left, line, low, high in picking.terms.tolist():
                a, b = mine.get(line, (I64_MIN, I64_MAX))
                if low != I64_MIN and ends[left][0] != I64_MIN:
                    a = max(a, ends[left][0] + low)
                if high != I64_MAX and ends[left][1] != I64_MAX:
                    b = min(b, ends[left][1] + high)
                mine[line] = a, b
        for line in range(lines):
            spans = [d.get(line, (I64_MIN, I64_MAX)) for d, some in ((own, bounds), (mine, ends)) if some is not None]
            out[0, line] = _within(min(a for a, _ in spans))
            out[1, line] = _within(max(b for _, b in spans))
        return out

    def _rules(self, lows: list[int], highs: list[int]) -> tuple[tuple[int, int], np.ndarray, np.ndarray]:
        """Behind which rows others are no longer wanted, as ``pick_kernels.thin`` takes it."""
        picking = self.picking
        lines = len(picking.lines[1])
        below, above = np.empty((2, lines), dtype=np.int64), np.empty((2, lines), dtype=np.int64)
        for table in (below, above):
            table[0], table[1] = I64_MIN, I64_MAX
        if self.plan.separation.residual or picking.n_search < len(picking.terms) or self._reader.blind:
            return (0, 0), below, above
        terms = picking.terms.tolist()
        lower = upper = 1
        if picking.which == "nearest":
            terms.append([picking.near, 0, 0, 0])
            lower = 2
            if picking.lines[0][picking.near].type.kind == "float":
                lower = 0 if any(t[2] != I64_MIN for t in picking.terms.tolist()) else 3
        elif picking.which == "last":
            upper = 0
        else:
            lower = 0
        for left, line, low, high in terms:
            if high != I64_MAX:
                limit = lows[left] + high if lows[left] != I64_MIN else I64_MIN - 1
                lower = lower if limit >= I64_MIN else 0
                below[1, line] = min(int(below[1, line]), _within(limit))
            if low != I64_MIN:
                limit = highs[left] + low if highs[left] != I64_MAX else I64_MAX + 1
                upper = upper if limit <= I64_MAX else 0
                above[0, line] = max(int(above[0, line]), _within(limit))
        return (lower, upper), below, above

    def _sweep(self) -> None:
        """Take back ids of keys without rows, once they are many."""
        keys = self.keys
        if isinstance(keys, NoKeys) or keys.n_ids < 4096:
            return
        rows = self.n_waiting + self.offered.rows
        if keys.n_ids - keys._n_free < 2 * rows + 2048:
            return
        used = np.zeros(keys.n_ids, dtype=bool)
        for kids in (*self.offered.used(), *(w.kids for w in self.waiting)):
            used[kids[kids >= 0]] = True
        keys.slots[: keys.n_ids, 0] = np.where(used, 0, -1)
        keys.live = int(np.count_nonzero(used))
        keys.sweep()
        keys.live = 2**31

    # -- output ------------------------------------------------------------------------------------------------------

    def _columns(self, s: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What is stored of a batch."""
        arrays = [batch.column(i) for i in self.plan.sides[s].stored]
        return pa.RecordBatch.from_arrays(arrays, schema=self._stored[s]) if arrays else _empty_rows(batch.num_rows)

    def _out(self, w: Waiting, done: np.ndarray) -> Iterator[pa.RecordBatch]:
        """The marked rows with their partners."""
        rows = np.flatnonzero(done)
        if not self.how.keep[0]:
            rows = rows[w.best[rows] >= 0]
        self._giving = w.batch
        for cut in self.emitter.slices(len(rows)):
            some = rows[cut]
            left: OutputRows = _LeftRows(w.batch, some, self.layouts[0].places)
            yield self.emitter.batch(left, _RightRows(self.offered, w.best[some], self.layouts[1].places))
        self._giving = None


class _LeftRows:
    """Some left rows, for output; they rise."""

    def __init__(self, batch: pa.RecordBatch, rows: np.ndarray, places: list[int]) -> None:
        self._batch, self._rows, self._places = batch, rows, places
        together = len(rows) > 0 and int(rows[-1]) - int(rows[0]) == len(rows) - 1
        self._index = None if together else whole_numbers(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, index: int) -> pa.Array:
        column = self._batch.column(self._places[index])
        return column.slice(self._rows[0], len(self._rows)) if self._index is None else column.take(self._index)


class _RightRows:
    """The partners of left rows, null where there is none."""

    def __init__(self, offered: Offered, best: np.ndarray, places: list[int]) -> None:
        self._offered, self._best, self._places = offered, best, places
        none = best < 0
        self._none = none if none.any() else None

    def __len__(self) -> int:
        return len(self._best)

    def column(self, index: int) -> pa.Array:
        return self._offered.payload.column(self._places[index], self._best, self._none)


def _within(v: int) -> int:
    return max(I64_MIN, min(v, I64_MAX))


def _flags(odd: np.ndarray | None) -> np.ndarray:
    return _NO_FLAGS if odd is None or not odd.any() else odd.astype(np.uint8)


def _empty_rows(n: int) -> pa.RecordBatch:
    """Rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * n, pa.struct([])))
