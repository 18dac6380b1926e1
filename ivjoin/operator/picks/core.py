"""The core of a join that picks one right row for each left row.

Right rows are stored in runs, sorted by key and by the columns that pick. A left row is compared with them when no
better row can be missing (it is *ripe*), or when no later row can match it. Then it is *seen*: it has its best match so
far, and is compared with each new right row. It is emitted when no later right row can be better.

Two kinds of right rows stay: rows that an unseen or future left row may take, and the best matches of seen rows. If the
whole condition consists of keys and bands along the first column that picks, then a row that is worse than another for
all these left rows is evicted as well. Behind the frontier, one row per key is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from ivjoin.expr import build
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import from_arrow
from ivjoin.operator.lookup.key_ids import key_table, sweep_keys
from ivjoin.operator.lookup.waiting_core import WaitingCore
from ivjoin.operator.match.output import in_parts
from ivjoin.operator.memory.memory_parts import OutputLimit
from ivjoin.operator.picks.comparing import Comparer
from ivjoin.operator.picks.deciding import Decider
from ivjoin.operator.picks.offered import Offered, Run
from ivjoin.operator.picks.output import LeftRows, RightRows
from ivjoin.operator.picks.payload import Chunks, alone, empty_rows
from ivjoin.operator.picks.ranks import Moved
from ivjoin.operator.picks.reading import Reader, Rows
from ivjoin.operator.picks.thinning import left_ends, reach, rules
from ivjoin.operator.picks.waiting import Better, Waiting
from ivjoin.outer.emit import Emitter
from ivjoin.outer.emit import Rows as OutputRows
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import picking_of
from ivjoin.plan.spec import SIDES
from ivjoin.separation.separate import conjuncts_of
from ivjoin.shj.arrow import taken, whole_numbers
from ivjoin.shj.dictionaries import one_array
from ivjoin.shj.store.disk.backing import Files

__all__ = ["PickCore"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_NONE = np.empty(0, dtype=np.int64)
_NO_FLAGS = np.empty(0, dtype=np.uint8)
_SMALL = 4096  # left rows of a piece up to which it is merged with the one before
_SOME = 16  # if 1 in so many rows is new, rows are evicted before a batch is refused or columns are spilled
_TWICE = 8 << 20  # bytes that may be used twice for a moment, in addition to the limit
_OFTEN = 64  # rows that arrive between two attempts to evict rows


class PickCore(WaitingCore):
    """The core of a :class:`SymmetricHashJoin` with ``pick``; it has the same calls as ``Core``."""

    def __init__(self, plan: JoinPlan, late_within: bool = True, errors_first: bool = False) -> None:
        super().__init__(plan, late_within, errors_first)
        self.emitter = Emitter(plan.schema, plan.fields, plan.spec.batch_size, plan.spec.timezone)
        self._row_bytes = [0, 0]
        self.build()
        self.count_state()

    def build(self) -> None:
        """Make the containers of rows, empty."""
        plan = self.plan
        picking = self.picking = picking_of(plan)
        self._reader = Reader(plan, picking, self.intake, self._relabelled)
        self.keys = key_table(plan)
        near = picking.lines[0][picking.near].type if picking.near >= 0 else None
        self._better = Better(picking.which, picking.n_sort, picking.near, near, picking.step)
        self._stored = [
            pa.schema([pa.field(str(i), t) for i, t in enumerate(layout.stored)]) for layout in self.layouts
        ]
        self.waiting: list[Waiting] = []
        limited = self.account.limit is not None
        self._filed = Chunks(self._stored[0], limited)  # spilled columns of waiting rows, which are the first ones
        self._giving: Waiting | None = None  # left rows that are being emitted
        self.offered = Offered(
            Chunks(self._stored[1], limited), picking.n_sort, len(picking.lines[1]), self.account.fits
        )
        self._decider = Decider(picking, plan.sides[0].axes, self.bounder, self._reader.blind, self._better)
        self._comparer = Comparer(picking, self.layouts, self.keys, self.offered, self._better)
        self._since = 0  # rows that have arrived since the last attempt to evict rows
        self._moved = False  # whether a frontier has moved since then

    def column(self, s: int, index: int) -> Node:
        """Return the node of a column of side s."""
        field = self.plan.sides[s].schema.field(index)
        return build.column(SIDES[s], field.name, from_arrow(field.type))

    def rows_at_hand(self, s: int) -> Iterator[tuple[Callable[[int], pa.Array | None], int]]:
        """Yield the rows of side s that later output may have: (function from place to column or None, rows)."""
        places = self.layouts[s].places
        if s == 0:
            for w in (*self.waiting, *([] if self._giving is None else [self._giving])):
                every = slice(0, len(w))
                yield partial(_column, w, every, places), len(w)
            return
        for batch in self.offered.payload.batches:
            yield (lambda i, b=batch: None if places[i] < 0 else b.column(places[i])), batch.num_rows  # type: ignore[misc]

    # -- counts --------------------------------------------------------------------------------------------------

    def rows_held(self) -> tuple[int, int]:
        """Return the number of stored rows of each side."""
        return sum(len(w) for w in self.waiting), self.offered.rows

    def bytes_held(self) -> int:
        """Return the bytes of rows, runs and keys."""
        return sum(self.bytes_of_sides()) + self.keys.nbytes

    def bytes_of_sides(self) -> tuple[int, int]:
        left = sum(w.nbytes for w in self.waiting) + self._filed.nbytes
        return left, self.offered.nbytes + sum(ranks.nbytes for ranks in self._reader.ranks.values())

    def filed_rows(self) -> int:
        return sum(len(w) for w in self.waiting if w.filed is not None) + self.offered.payload.filed_rows

    def let_go(self) -> None:
        self.metrics = self.counts()
        self.build()
        self.count_state()

    # -- calls of the operator -------------------------------------------------------------------------------------

    def take(self, p: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take a batch of side p. An error that refuses the batch is raised before anything has changed."""
        lines = len(self.picking.lines[p])
        twice = 2 if p == 1 and self._reader.ranks else 1
        size = batch.num_rows * 8 * (lines + 4) + twice * batch.nbytes
        if self.limits is not None:
            self._fit_output(p, batch)
            # While runs are merged, they exist twice, with the order of their rows.
            self.account.want(lambda: size + self.keys.more(batch.num_rows, batch.nbytes) + max(
                0, self.offered.index_bytes + 8 * self.offered.rows - _TWICE
            ))
        before = [t.save() for t in self.frontiers[p].trackers]
        try:
            kept, late = self.intake.screen(p, batch)
            rows = self._reader.read(p, kept, self.layouts[p].index, self.keys)
        except BaseException:
            for t, saved in zip(self.frontiers[p].trackers, before, strict=True):
                t.load(saved)
            raise
        self.came(p, batch.num_rows, late)
        self._since += kept.num_rows
        if rows.wild is not None and rows.wild.any():
            self.full_predicate = True
        self.bounder.move(p, False, self.rows_held()[1 - p])
        self._moved = True
        return (self._left if p == 0 else self._right)(kept, rows)

    def limit(self, limit: OutputLimit) -> None:
        super().limit(limit)
        self._filed.limited = self.offered.payload.limited = True

    def _fit_output(self, p: int, batch: pa.RecordBatch) -> None:
        """Set the greatest number of rows of an output batch."""
        if self.limits is not None and batch.num_rows:
            self._row_bytes[p] = max(self._row_bytes[p], -(-batch.nbytes // batch.num_rows))
            self.emitter.batch_size = min(self.plan.spec.batch_size, self.limits.most_output(sum(self._row_bytes)))

    def make_room(self, force: bool) -> None:
        if force or self._since > self.offered.rows // _SOME:
            self._thin(True)

    def spill(self, files: Files, most: int) -> None:
        def left() -> None:
            for w in self.waiting:
                w.lie_in(self._filed)
            self._filed.spill(files)

        first, second = self.bytes_of_sides()
        ways: list[Callable[[], object]] = [left, partial(self.offered.payload.spill, files)]
        for way in ways if first > second else ways[::-1]:
            if self.bytes_held() > most:
                way()

    def settle(self, p: int) -> Iterator[pa.RecordBatch]:
        """Emit rows and evict rows after side p's frontier has moved by a promise or an end."""
        self.bounder.move(p, True, self.rows_held()[1 - p])
        if p == 1:
            yield from self._decided(None)
        self._moved = True
        self._thin(True)

    def end(self, sides: list[int]) -> Iterator[pa.RecordBatch]:
        for p in sides:
            yield from self.settle(p)
        self.count_state()

    def read_again(self) -> None:
        """Evaluate the stored rows again for other axes."""
        saved = [self.saved_rows(s) for s in (1, 0)]
        self.build()
        for s, (arrays, seen) in zip((1, 0), saved, strict=True):
            self.adopt_rows(s, arrays, seen)
        self._look_again()
        if self.limits is not None:
            self.limits.fit()

    def refresh_bounds(self) -> None:
        """Use rows and frontiers that were set from outside."""
        self.learn()
        for p in (0, 1):
            self.bounder.move(p, True, 1)
        self._look_again()

    # -- snapshots -------------------------------------------------------------------------------------------------

    def saved_rows(self, s: int) -> tuple[list[pa.Array], np.ndarray]:
        """Return the stored columns of a side, and bool[n]: for left rows, whether they were compared."""
        if s == 0:
            parts, seen = [w.stored() for w in self.waiting], [w.seen for w in self.waiting]
        else:
            parts, seen = self.offered.payload.batches, [np.zeros(self.offered.rows, dtype=bool)]
        table = pa.Table.from_batches(parts, self._stored[s])
        arrays = [one_array(c.chunks) if c.num_chunks else pa.nulls(0, c.type) for c in table.columns]
        return arrays, np.concatenate(seen) if seen else np.zeros(0, dtype=bool)

    def adopt_rows(self, s: int, arrays: list[pa.Array], marked: np.ndarray) -> None:
        """Store rows of a snapshot. ``refresh_bounds`` compares the left rows again."""
        n = len(marked)
        if n == 0:
            return
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._stored[s]) if arrays else empty_rows(n)
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
        """Return None: a core that picks has no sorted runs with a chosen axis."""

    def _look_again(self) -> None:
        """Find the matches of seen rows again. All rows that they may take are stored."""
        self.offered.fresh(self.keys.n_ids)
        for w in self.waiting:
            rows = np.flatnonzero(w.seen)
            if len(rows):
                w.best[rows] = -1
                self._comparer.compare(w, rows, self.offered.runs, True, self._asked())
        self.count_state()

    # -- left rows -------------------------------------------------------------------------------------------------

    def _left(self, batch: pa.RecordBatch, rows: Rows) -> Iterator[pa.RecordBatch]:
        stored = self._columns(0, batch)
        new = Waiting.of(stored, rows.kids, rows.vals, _flags(rows.odd), self.picking.n_sort)
        del rows.vals
        done = ~rows.usable
        ripe = self._decider.ripe(new.vals)
        dead = self._decider.dead(new)
        look = np.flatnonzero((ripe | dead) & rows.usable)
        if len(look):
            self.offered.fresh(self.keys.n_ids)
            self._comparer.compare(new, look, self.offered.runs, True, self._asked())
            new.seen[look] = True
        done |= dead
        if not done.all():
            done |= self._decider.settled(new)
        self.went(0, int(np.count_nonzero(done)))
        yield from self._out(new, done)
        if not done.all():
            rest = new.only(~done) if done.any() else new
            rest.summed_up()
            self._wait(rest)
        self._thin(False)

    def _asked(self) -> list[Node]:
        """Return the conjuncts to decide for each pair."""
        plan = self.plan
        return list(conjuncts_of(plan.condition) if self.full_predicate else plan.separation.residual)

    def _wait(self, new: Waiting) -> None:
        if self.limits is not None and new.batch is not None:
            new.batch = alone(new.batch)
        self.waiting.append(new)
        while len(self.waiting) > 1:
            a, b = len(self.waiting[-2]), len(self.waiting[-1])
            if a > 2 * b or a + b > _SMALL or self.waiting[-2].filed is not None:
                break
            self.waiting[-2:] = [Waiting.joined(self.waiting[-2:])]

    # -- right rows --------------------------------------------------------------------------------------------------

    def _right(self, batch: pa.RecordBatch, rows: Rows) -> Iterator[pa.RecordBatch]:
        nobody = self.ended[0] and not self.waiting
        run, held = None, self.offered.rows
        if rows.usable.any() and not nobody:
            self._store(self._columns(1, batch), rows)
            if any(w.some_seen for w in self.waiting):
                run = self.offered.fresh(self.keys.n_ids)
        self.went(1, batch.num_rows - (self.offered.rows - held))
        yield from self._decided(run)
        self._thin(False)

    def _store(self, stored: pa.RecordBatch, rows: Rows) -> None:
        kids, vals, odd = rows.kids, rows.vals, rows.odd
        if not rows.usable.all():
            at = np.flatnonzero(rows.usable)
            stored = taken(stored, whole_numbers(at))
            kids, vals = kids[at], np.ascontiguousarray(vals[:, at])
            odd = None if odd is None else odd[at]
        self._decider.came(vals)
        self.offered.add(stored, kids, vals, odd)

    def _decided(self, run: Run | None) -> Iterator[pa.RecordBatch]:
        """Emit the waiting rows that are decided now. ``run`` has the right rows that have just arrived."""
        ready = False
        i = 0
        while i < len(self.waiting):
            w = self.waiting[i]
            if self._decider.idle(w):
                i += 1
                continue
            if not ready:
                self.offered.fresh(self.keys.n_ids)
                ready = True
            seen = np.flatnonzero(w.seen)
            if run is not None and len(seen):
                self._comparer.compare(w, seen, [run], bool(self.offered.odd), self._asked())
            dead = self._decider.dead(w)
            look = np.flatnonzero((dead | self._decider.ripe(w.vals)) & ~w.seen)
            if len(look):
                self._comparer.compare(w, look, self.offered.runs, True, self._asked())
                w.seen[look] = True
            done = dead if dead.all() else dead | self._decider.settled(w)
            if not done.any():
                w.summed_up()
                i += 1
                continue
            self.went(0, int(np.count_nonzero(done)))
            yield from self._out(w, done)
            if done.all():
                del self.waiting[i]
            else:
                self.waiting[i] = w.only(~done)
                i += 1
        self._tidy()

    def _tidy(self) -> None:
        """Drop the spilled columns of emitted left rows, if these are many."""
        there = [w for w in self.waiting if w.filed is not None]
        rows = sum(map(len, there))
        if self._filed.rows > 2 * rows + _SMALL or (self._filed.rows and not rows):
            if rows:
                self._filed.keep(np.concatenate([w.at for w in there]))
            else:
                self._filed = self._filed.anew()
            first = 0
            for w in there:
                w.at = np.arange(first, first + len(w))
                first += len(w)

    # -- eviction ----------------------------------------------------------------------------------------------------

    def _thin(self, force: bool) -> None:
        """Evict the right rows that no left row can take, if enough rows have arrived."""
        self._forget()
        if not self._moved or (not force and self._since < max(_OFTEN, self.offered.rows // 4)):
            return
        self._moved, self._since = False, 0
        if not self.offered.rows:
            self._sweep_keys()
            return
        picking, bounds = self.picking, self.bounder.bounds(1)
        ends = left_ends(self.waiting)
        future = [self.bounder.future(0, n) for n in picking.lines[0]]
        lows = [min(a, b[0]) for (a, _), b in zip(ends, future, strict=True)] if ends else [b[0] for b in future]
        highs = [max(a, b[1]) for (_, a), b in zip(ends, future, strict=True)] if ends else [b[1] for b in future]
        blind = self._reader.blind
        wanted = reach(picking, self.plan.sides[1].axes, blind, bounds, ends)
        ways, below, above = rules(picking, not (self.plan.separation.residual or blind), lows, highs)
        if ways == (0, 0) and wanted is not None and (wanted[0] == I64_MIN).all() and (wanted[1] == I64_MAX).all():
            return  # every row may still be taken
        held = self.offered.rows
        pinned = [w.best[w.best >= 0] for w in self.waiting]
        # Rows that differ in a line without a place may each be taken.
        alike = picking.n_place if picking.n_search == len(picking.terms) else len(picking.lines[1])
        moved = self.offered.thin(
            self.keys.n_ids, wanted, alike, ways, below, above,
            np.concatenate(pinned) if pinned else _NONE, not self.ended[0] or bool(self.waiting),
        )
        self.went(1, held - self.offered.rows)
        if moved is not None:
            for w in self.waiting:
                known = w.best >= 0
                w.best[known] = moved[w.best[known]]
        self._sweep_keys()

    def _sweep_keys(self) -> None:
        def used() -> list[np.ndarray]:
            return [*self.offered.used(), *(w.kids for w in self.waiting)]

        sweep_keys(self.keys, sum(self.rows_held()), used)

    def _labels(self, line: int) -> list[np.ndarray]:
        """Return all arrays with labels of a right line that compares rows."""
        return self.offered.line(line) + [w.best_vals[line] for w in self.waiting]

    def _relabelled(self, line: int) -> Moved:
        """Return a function that replaces the labels of a line in all arrays."""

        def moved(image: Callable[[np.ndarray], np.ndarray]) -> None:
            for held in self._labels(line):
                held[:] = image(held)

        return moved

    def _forget(self) -> None:
        """Drop the labels of rows that are no longer stored."""
        for line, ranks in self._reader.ranks.items():
            ranks.forget(self.offered.rows, partial(self._labels, line))

    # -- output ------------------------------------------------------------------------------------------------------

    def _columns(self, s: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of a batch to store."""
        arrays = [batch.column(i) for i in self.plan.sides[s].stored]
        return pa.RecordBatch.from_arrays(arrays, schema=self._stored[s]) if arrays else empty_rows(batch.num_rows)

    def _out(self, w: Waiting, done: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Yield the marked left rows with their matches."""
        rows = np.flatnonzero(done)
        if not self.how.keep[0]:
            rows = rows[w.best[rows] >= 0]
        self._giving = w
        right = RightRows(self.offered, w.best[rows], self.layouts[1].places)
        for whole in self.emitter.slices(len(rows)):

            def built(cut: slice, whole: slice = whole) -> pa.RecordBatch:
                left: OutputRows = LeftRows(w, rows[cut], self.layouts[0].places)
                return self.emitter.batch(left, right.part(cut, cut == whole))

            yield from in_parts(built, whole.start, whole.stop)
        self._giving = None


def _column(w: Waiting, rows: slice, places: list[int], i: int) -> pa.Array | None:
    return None if places[i] < 0 else w.column(places[i], rows)


def _flags(odd: np.ndarray | None) -> np.ndarray:
    return _NO_FLAGS if odd is None or not odd.any() else odd.astype(np.uint8)
