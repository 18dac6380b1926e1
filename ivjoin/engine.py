"""The engine of the push operator: probe, keep, prune, and emit what a join type owes, over two side stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress

import numpy as np
import pyarrow as pa

from ivjoin.arrival import Arrived, Intake, has_value
from ivjoin.bounds import Bounder
from ivjoin.expr.evaluate import evaluate
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal, ordinals
from ivjoin.expr.separate import conjuncts_of
from ivjoin.lane import lane_for
from ivjoin.metrics import JoinMetrics
from ivjoin.order import Frontier, OrderTracker
from ivjoin.outer.emit import BatchRows, Emitter, Rows, StoredRows
from ivjoin.plain import image_columns
from ivjoin.plan import SIDES, JoinPlan
from ivjoin.residual import holds
from ivjoin.row_layout import row_layouts
from ivjoin.shj import index_kernels
from ivjoin.shj.arrow import take
from ivjoin.shj.bandtable import NO_BANDS
from ivjoin.shj.keys import ByteKeys, IntKeys, KeyTable, NoKeys
from ivjoin.shj.matcher import Decide, Matcher
from ivjoin.shj.store import SideStore

__all__ = ["Engine", "frontiers_of"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_MOST_PAIRS = 1 << 17
_LOOK_EVERY = 64  # pushes between two looks at whether a ring has become too large


def frontiers_of(plan: JoinPlan) -> tuple[Frontier, Frontier]:
    """What a plan's declarations say of either side before the first row."""
    left, right = (
        Frontier(
            [OrderTracker(n, name, o.descending, o.slack, o.nulls) for n, name, o in side.orders], side.bounds,
            side.never_null,
        )
        for side in plan.sides
    )
    return left, right


class Engine:
    """Two side stores and what moves rows through them. ``ivjoin.symmetric`` puts the public protocol around it."""

    def _setup(self, plan: JoinPlan, late_within: bool = True, errors_first: bool = False) -> None:
        self.plan = plan = plan.own()
        self._how = plan.how
        self._layouts = left, right = row_layouts(plan)
        self._places, self._widths = (left.places, right.places), (left.widths, right.widths)
        keys = self._make_stores()
        self._frontiers = frontiers_of(plan)
        self._bounder = Bounder(plan, self._frontiers)
        self._intake = Intake(plan, self._frontiers, keys, late_within, errors_first)
        self._index = self._intake.index
        batch_size = plan.options["batch_size"]
        self._emitter = Emitter(plan.schema, plan.fields, batch_size)
        self._make_matchers()
        self._lane = lane_for(plan)
        self._pushes = 0
        self._rekeyed = False
        self._ended = [False, False]
        self._careful = False
        self._metrics = JoinMetrics()
        self._count_state()

    def _make_stores(self) -> KeyTable:
        """An empty key table and an empty store a side."""
        plan = self.plan
        self._keys: KeyTable = IntKeys() if plan.int_keys else ByteKeys() if plan.null_safe else NoKeys()
        self._stores = tuple(
            SideStore(
                s, self._keys, self._layouts[s].stored, len(plan.sides[s].axes),
                ordered=plan.tables[1 - s].n_primary > 0, report=plan.how.owes(s), same=image_columns(plan, s),
            )
            for s in (0, 1)
        )
        return self._keys

    def _make_matchers(self) -> None:
        self._matcher = Matcher(min(self.plan.options["batch_size"], _MOST_PAIRS))
        self._candidates = Matcher(_MOST_PAIRS // 2)
        self._beyond = Matcher(_MOST_PAIRS // 2, counts=False) if any(self.plan.overflows) else None

    def _rekey(self) -> None:
        """A computed key has erred for some row: from now on hash by plain columns alone, decide the rest by pair."""
        old = self._stores
        plan = self.plan
        plain = [
            a.op == b.op == "column" for a, b in zip(plan.sides[0].keys, plan.sides[1].keys, strict=True)
        ]
        self._rekeyed = True
        plan.kept = {}
        plan.null_safe = list(compress(plan.null_safe, plain))
        for side in plan.sides:
            side.keys = list(compress(side.keys, plain))
        plan.int_keys = len(plan.null_safe) == 1 and not plan.null_safe[0] and has_ordinal(plan.sides[0].keys[0].type)
        self._careful = True
        self._intake.keys = self._make_stores()
        self._intake.refresh()
        for s, store in enumerate(old):
            ids = store.live_ids()
            self.adopt_rows(s, [store.gather(i, ids) for i in range(len(store.columns))], store.matched(ids))

    def adopt_rows(self, s: int, arrays: list[pa.Array], matched: np.ndarray) -> None:
        """Put rows of a snapshot into a side's store; the stored columns, in their order."""
        side, index = self.plan.sides[s], self._index[s]
        n = len(matched)
        if n == 0:
            return
        nodes = list(dict.fromkeys([*side.keys, *side.axes]))
        place = self._places[s]
        vectors = evaluate(nodes, lambda _, name: arrays[place[index[name]]], n) if nodes else []
        values = dict(zip(nodes, vectors, strict=True))
        images: dict[Node, np.ndarray] = {}
        axes = np.empty((len(side.axes), n), dtype=np.int64)
        absent = {}
        for a, node in enumerate(side.axes):
            axes[a] = self._intake.image(node, values, images)
            present = has_value(values[node])
            if present is not None:
                absent[a] = ~present
        kids = self._intake.key_ids(s, n, values, images, None)
        self._stores[s].insert(kids, axes, arrays, absent or None, matched)

    def refresh_bounds(self) -> None:
        """Compute roots, axes and bounds anew after the frontiers were set from outside."""
        self._intake.refresh()
        for s, node in self._bounder.missing_axes():
            self._add_axis(s, node)
        for p in (0, 1):
            self._bounder.move(p, True, self._stores[1 - p].live)

    def _count_state(self) -> None:
        """Count the rows and bytes that are held when a call has ended."""
        m, lane = self._metrics, self._lane
        left, right = self._stores
        if lane is not None and lane.aboard:
            lane.report(m)
        else:
            m.state_rows = left.live + right.live
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows)
        self._count_bytes()

    def _count_bytes(self) -> None:
        m = self._metrics
        m.state_bytes = self._bytes_held()
        m.peak_state_bytes = max(m.peak_state_bytes, m.state_bytes)

    def _bytes_held(self) -> int:
        left, right = self._stores
        held = left.nbytes + right.nbytes + self._keys.nbytes + self._matcher.nbytes + self._candidates.nbytes
        return held if self._lane is None else held + self._lane.nbytes

    def _stepped(self, ended: bool) -> None:
        if ended:
            self._matcher.rest()
            self._candidates.rest()
            self._count_state()
        else:
            self._count_bytes()

    def _let_go(self) -> None:
        if self._lane is not None:
            self._lane.drop(self._metrics)
            self._lane = None
        self._intake.keys = self._make_stores()
        self._make_matchers()
        self._count_state()

    # -- joining -------------------------------------------------------------------------------------------------

    def _join(self, p: int, arrived: Arrived) -> Iterator[pa.RecordBatch]:
        """Probe the other store, keep what may still match, then prune with what this batch says of the future."""
        n = arrived.batch.num_rows
        matched = np.zeros(n, dtype=np.uint8)
        if n:
            if self._stores[1 - p].live:
                yield from self._probe(p, arrived, matched)
            yield from self._keep(p, arrived, matched)
        yield from self._settle(1 - p)

    def _probe(self, p: int, arrived: Arrived, matched: np.ndarray) -> Iterator[pa.RecordBatch]:
        how, store = self._how, self._stores[1 - p]
        bands = NO_BANDS if self._careful else self.plan.tables[p]
        nodes = conjuncts_of(self.plan.condition) if self._careful else self.plan.separation.residual
        decide = self._decider(p, arrived.batch, list(nodes))
        kids, axes = arrived.kids, arrived.axes
        if decide is not None and self._beyond is not None and not self._careful:
            for table in self.plan.overflows[p]:
                for rows, ids in self._beyond.pairs(kids, axes, table, store, matched, index_kernels.PAIRS):
                    decide(rows, ids)  # raises for a pair that overflows; no other can match
        if how.single == p:
            if decide is None:
                self._matcher.mark(kids, axes, bands, store, matched)
            else:
                kids = kids.copy()
                for rows, _ in self._candidates.decided(
                    self._candidates.pairs(kids, axes, bands, store, matched, index_kernels.PAIRS), decide
                ):
                    matched[rows] = 1
                    kids[rows] = -1
            if how.semi == p:
                rows_of = self._batch_rows(p, arrived.batch)
                yield from self._emit_rows(p, rows_of, np.flatnonzero(matched))
            return
        if how.single == 1 - p:
            mode = index_kernels.PAIRS | index_kernels.FIRST_STORE
            mode |= 0 if decide is not None else index_kernels.MARK_STORE
            matcher = self._matcher if decide is None else self._candidates
            chunks = matcher.pairs(kids, axes, bands, store, matched, mode)
            gone = []
            for _, ids in chunks if decide is None else matcher.decided(chunks, decide):
                ids = np.unique(ids) if decide is not None else ids.copy()
                store.mark(ids)
                gone.append(ids)
                if how.semi == 1 - p:
                    yield from self._emit_rows(1 - p, lambda ix: self._stored(1 - p, ix), ids)
            if gone:
                ids = np.concatenate(gone)
                store.remove(ids)
                self._retired(1 - p, len(ids))
            return
        mark = (index_kernels.MARK_STORE if how.keep[1 - p] else 0) | (index_kernels.MARK_PROBE if how.keep[p] else 0)
        if decide is None:
            for rows, ids in self._matcher.pairs(kids, axes, bands, store, matched, index_kernels.PAIRS | mark):
                yield self._pair_batch(p, arrived.batch, rows, ids)
            return
        chunks = self._candidates.pairs(kids, axes, bands, store, matched, index_kernels.PAIRS)
        for rows, ids in self._candidates.decided(chunks, decide):
            if how.keep[1 - p]:
                store.mark(ids)
            if how.keep[p]:
                matched[rows] = 1
            for cut in self._emitter.slices(len(rows)):
                yield self._pair_batch(p, arrived.batch, rows[cut], ids[cut])

    def _batch_rows(self, p: int, batch: pa.RecordBatch) -> Callable[[np.ndarray], Rows]:
        return lambda index: BatchRows(batch, index, self._widths[p])

    def _stored(self, s: int, ids: np.ndarray) -> StoredRows:
        return StoredRows(self._stores[s], self._places[s], ids)

    def _pair_batch(self, p: int, batch: pa.RecordBatch, rows: np.ndarray, ids: np.ndarray) -> pa.RecordBatch:
        here: Rows = BatchRows(batch, rows, self._widths[p])
        there: Rows = self._stored(1 - p, ids)
        return self._emitter.batch(here, there) if p == 0 else self._emitter.batch(there, here)

    def _emit_rows(self, s: int, rows_of: Callable[[np.ndarray], Rows], index: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Rows of one side alone, or null-extended."""
        for cut in self._emitter.slices(len(index)):
            rows = rows_of(index[cut])
            yield self._emitter.batch(rows, None) if s == 0 else self._emitter.batch(None, rows)

    def _decider(self, p: int, batch: pa.RecordBatch, nodes: list[Node]) -> Decide | None:
        """The residual conjuncts as a function of (rows of the batch, ids in the other store) to bool[n]."""
        if not nodes:
            return None
        store, places, index, widths = self._stores[1 - p], self._places[1 - p], self._index, self._widths[p]

        def columns(rows: np.ndarray, ids: np.ndarray) -> Callable[[str, str], pa.Array]:
            def column(side: str, name: str) -> pa.Array:
                s = SIDES.index(side)
                i = index[s][name]
                return take(batch.column(i), rows, widths[i]) if s == p else store.gather(places[i], ids)

            return column

        return lambda rows, ids: holds(nodes, columns(rows, ids), len(rows))

    def _keep(self, p: int, arrived: Arrived, matched: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Store the rows that may still match; the others are decided now."""
        how, store = self._how, self._stores[p]
        alive = self._alive(p, arrived)
        if how.single == p and matched.any():
            done = matched.view(bool)
            alive = ~done if alive is None else alive & ~done
        if alive is None:
            self._insert(p, arrived.batch, arrived.kids, arrived.axes, arrived.absent, matched)
            return
        if alive.any():
            index = np.flatnonzero(alive)
            absent = None if arrived.absent is None else {a: m[index] for a, m in arrived.absent.items()}
            self._insert(
                p, arrived.batch, arrived.kids[index], np.ascontiguousarray(arrived.axes[:, index]), absent,
                matched[index], index,
            )
        self._retired(p, len(alive) - int(np.count_nonzero(alive)))
        if how.owes(p):
            left_out = np.flatnonzero(~alive & ~matched.view(bool))
            yield from self._emit_rows(p, self._batch_rows(p, arrived.batch), left_out)
        store.settle()

    def _alive(self, p: int, arrived: Arrived) -> np.ndarray | None:
        """bool[n], None for all: which rows a future row of the other side can match."""
        bounds = self._bounder.bounds(p)
        if bounds is None or self._ended[1 - p]:
            return np.zeros(len(arrived.kids), dtype=bool)
        alive: np.ndarray | None = None
        if arrived.some_unusable:
            alive = arrived.kids >= 0
        if arrived.kept is not None:
            alive = arrived.kept if alive is None else alive & arrived.kept
        for a, (low, high) in enumerate(bounds):
            if low == I64_MIN and high == I64_MAX:
                continue
            v = arrived.axes[a]
            if low == I64_MIN:
                inside = v <= high
            elif high == I64_MAX:
                inside = v >= low
            else:
                inside = (v >= low) & (v <= high)
            if not inside.all():
                if arrived.absent is not None and a in arrived.absent:
                    inside |= arrived.absent[a]
                alive = inside if alive is None else alive & inside
        return None if alive is None or alive.all() else alive

    def _insert(
        self, p: int, batch: pa.RecordBatch, kids: np.ndarray, axes: np.ndarray, absent: dict[int, np.ndarray] | None,
        matched: np.ndarray, index: np.ndarray | None = None,
    ) -> None:
        stored = self.plan.sides[p].stored
        arrays = [batch.column(i) for i in stored]
        if index is not None:
            widths = self._widths[p]
            arrays = [take(a, index, widths[i]) for i, a in zip(stored, arrays, strict=True)]
        keep = matched if self._how.keep[p] else None
        self._stores[p].insert(kids, axes, arrays, absent, keep)

    # -- pruning -------------------------------------------------------------------------------------------------

    def _settle(self, s: int, force: bool = False) -> Iterator[pa.RecordBatch]:
        """Prune a store by the other side's frontier, emit what that decides, and give memory back."""
        store = self._stores[s]
        if self._bounder.move(1 - s, force, store.live) and store.live:
            bounds = self._bounder.bounds(s)
            before = store.live
            if bounds is None:
                gone = [store.clear()]
            else:
                gone = [store.prune(a, low, high) for a, (low, high) in enumerate(bounds)]
            self._retired(s, before - store.live)
            for ids in gone:
                yield from self._emit_retired(s, ids)
        self._pushes += 1
        self._tidy(self._pushes % _LOOK_EVERY == 0)

    def _tidy(self, look: bool) -> None:
        """Give back what stores and keys need no more; ``look``: rings too."""
        for each in self._stores:
            each.settle(look)
        self._keys.sweep()
        if self._careful and not self._stores[0].live and not self._stores[1].live:
            self._careful = False

    def _end(self, sides: list[int]) -> Iterator[pa.RecordBatch]:
        for p in sides:
            self._bounder.move(p, True, 0)
            store = self._stores[1 - p]
            before = store.live
            ids = store.clear()
            self._retired(1 - p, before)
            yield from self._emit_retired(1 - p, ids)
            store.settle(look=True)
        self._keys.sweep()

    def _emit_retired(self, s: int, ids: np.ndarray) -> Iterator[pa.RecordBatch]:
        if len(ids) and self._how.owes(s):
            if self._how.keep[s]:
                ids = ids[~self._stores[s].matched(ids)]
            yield from self._emit_rows(s, lambda ix: self._stored(s, ix), ids)

    def _retired(self, s: int, n: int) -> None:
        if s == 0:
            self._metrics.left_rows_retired += n
        else:
            self._metrics.right_rows_retired += n

    def _add_axis(self, s: int, node: Node) -> None:
        """Begin to keep an expression's value with each row, for those already stored too."""
        store, side = self._stores[s], self.plan.sides[s]
        ids = store.live_ids()
        batch = {i: store.gather(self._places[s][i], ids) for i in side.stored}
        index = self._index[s]
        v = evaluate([node], lambda _, name: batch[index[name]], len(ids))[0]
        self.plan.kept = {}
        side.axes.append(node)
        absent = None
        present = has_value(v)
        if present is not None:
            absent = ~present
        store.add_axis(ids, ordinals(v.values, node.type), absent)
        self._intake.refresh()
