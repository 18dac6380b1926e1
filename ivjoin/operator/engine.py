"""The engine of the push operator: what Python does around the compiled steps, and between them where they ask for it.

The state is the registers and arrays of ``State``; ``push_kernels`` goes through a push. It comes back with a request
where a step belongs to Python: a condition that is decided pair by pair, payload of varying size, bounds by
propagation, an index by sorted runs, more room. Whatever the plan, the steps and their order are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import compress
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa

from ivjoin.errors import IvjoinError
from ivjoin.expr import build
from ivjoin.expr.evaluate import Vector, evaluate
from ivjoin.expr.nodes import Node, walk
from ivjoin.expr.ordinal import has_ordinal, ordinals
from ivjoin.expr.separate import conjuncts_of
from ivjoin.expr.types import from_arrow
from ivjoin.frontier.order import Frontier, OrderTracker, ordinal_range
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.blocks import wanted, works
from ivjoin.operator.intake import Intake, has_value
from ivjoin.operator.prune_bounds import Bounder
from ivjoin.operator.residual import holds
from ivjoin.operator.sources import SideSources, column_of, image_columns, side_sources
from ivjoin.operator.state import State
from ivjoin.outer.emit import BatchRows, Emitter, Rows, StoredRows
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.planner import SIDES, JoinPlan
from ivjoin.shj import registers as at
from ivjoin.shj.arrow import byte_width, is_own_image, offset_width, take
from ivjoin.shj.kernels import index_kernels, packed_key_kernels, push_kernels, run_kernels, text_kernels
from ivjoin.shj.kernels.memory import release_struct
from ivjoin.shj.store.columns import ImageColumn, WordColumn, too_much_text
from ivjoin.shj.store.keys import ByteKeys, IntKeys, KeyTable, NoKeys
from ivjoin.shj.store.selectivity import most_selective
from ivjoin.shj.store.side import SideStore

__all__ = ["Engine", "frontiers_of"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_LOOK_EVERY = 64  # pushes between two looks at whether a ring has become too large
# A batch larger than this is probed in pieces, each twice the last, where the store may turn to a better index between.
PIECE = 16_384
_MOST_STEPS = 50_000_000  # that a batch may walk along one axis, if there are others
_ASKS = at.DECIDE | at.GATHER | at.STORE | at.BOUNDS | at.INDEX | at.RUNS | at.PIECE | at.BEYOND
_TEXT = at.STORE | at.MORE, at.GATHER | at.MORE


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
    """Two side stores and what moves rows through them. ``symmetric`` puts the public protocol around it."""

    def _setup(self, plan: JoinPlan, late_within: bool = True, errors_first: bool = False) -> None:
        self.plan = plan = plan.own()
        self._how = plan.how
        self._layouts = left, right = row_layouts(plan)
        self._places, self._widths = (left.places, right.places), (left.widths, right.widths)
        self._index = left.index, right.index
        self._frontiers = frontiers_of(plan)
        self._bounder = Bounder(plan, self._frontiers)
        self._intake = Intake(plan, self._frontiers, late_within, errors_first)
        batch_size = plan.options["batch_size"]
        self._emitter = Emitter(plan.schema, plan.fields, batch_size)
        self._rekeyed = False
        self._ended = [False, False]
        self._batch: ref[pa.RecordBatch] | None = None  # of the push whose output is being taken
        self._metrics = JoinMetrics()
        self._build()
        self._count_state()

    # -- the state -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        """Registers, stores and tables for the plan as it is now."""
        plan = self.plan
        state = self._state = State(plan.options["batch_size"], max(len(s.schema) for s in plan.sides))
        kind = IntKeys if plan.int_keys else ByteKeys if plan.null_safe else NoKeys
        self._keys: KeyTable = kind(state.operator)
        self._stores = tuple(
            SideStore(
                s, self._keys, self._layouts[s].stored, len(plan.sides[s].axes),
                ordered=plan.tables[1 - s].n_primary > 0, same=image_columns(plan, s), stored=plan.sides[s].stored,
                sides=state.sides,
            )
            for s in (0, 1)
        )
        self._keys.point()
        on_late = plan.options["on_late"]
        kinds = self._output_kinds()
        compiled = (kinds is not None or any(s.texts for s in self._stores)) and wanted() and works()
        self._keeps_text = compiled  # in the kernels' way
        for store in self._stores:
            store.compiled_text = compiled
            store.point()
        self._mixes = compiled and kinds is not None and not kinds <= {at.WORDS}
        state.set(
            key_kind=at.INT if plan.int_keys else at.GIVEN if plan.null_safe else at.NO_KEY, never=int(plan.never),
            within=int(self._intake.late_within), raises=int(on_late == "raise"), drops=int(on_late == "drop"),
            blocks=int(compiled and kinds is not None and kinds <= {at.WORDS}),
        )
        rows = [
            (
                -1 if f.left is None else f.left, -1 if f.right is None else f.right,
                byte_width(t) or offset_width(t) or 0, is_own_image(t), _kind(t) or 0,
            )
            for f, t in zip(plan.fields, plan.schema.types, strict=True)
        ]
        fields = np.array(rows, dtype=at.FIELD) if rows else np.zeros(0, dtype=at.FIELD)
        state.set(fields=state.hold("fields", fields), n_fields=len(fields))
        for s in (0, 1):
            self._join_type_of(s)
        self._tabulate()

    def _output_kinds(self) -> set[int] | None:
        """The kinds of output columns; None if compiled code cannot build them all, each of its input's type."""
        plan = self.plan
        kinds = set()
        for f, t in zip(plan.fields, plan.schema.types, strict=True):
            kind = _kind(t)
            if kind is None:
                return None
            kinds.add(kind)
            for s, index in ((0, f.left), (1, f.right)):
                if index is not None and plan.sides[s].schema.types[index] != t:
                    return None
        return kinds

    def _join_type_of(self, s: int) -> None:
        plan, how = self.plan, self._how
        r = self._state.sides[s]
        table = plan.tables[s]
        r["bands"], r["n_bands"] = self._state.lend(("bands", s), table.terms), len(table.terms)
        r["n_primary"] = table.n_primary
        r["checks"], r["n_checks"] = self._state.lend(("checks", s), plan.checks[s]), len(plan.checks[s])
        r["owes"], r["keeps"] = how.owes(s), how.keep[s]
        r["single"], r["semi"] = how.single == s, how.semi == s
        r["decide"] = bool(plan.separation.residual) and not plan.decided
        r["mode"], r["beyond"] = self._mode(s), bool(plan.overflows[s])

    def _mode(self, p: int) -> int:
        """What the probe of side p does with the pairs that it finds."""
        how = self._how
        if how.single == p:
            return index_kernels.MARK_PROBE | index_kernels.FIRST_PROBE
        if how.single == 1 - p:
            return index_kernels.PAIRS | index_kernels.FIRST_STORE | index_kernels.MARK_STORE
        mode = index_kernels.PAIRS | (index_kernels.MARK_STORE if how.keep[1 - p] else 0)
        return mode | (index_kernels.MARK_PROBE if how.keep[p] else 0)

    def _tabulate(self) -> None:
        """The tables of what is read, ordered and bounded; anew when a frontier has come to know more expressions."""
        state, plan = self._state, self.plan
        self._sources: list[SideSources] = []
        for s in (0, 1):
            payload = {
                column for column, c in zip(plan.sides[s].stored, self._stores[s].columns, strict=True)
                if isinstance(c, (WordColumn, ImageColumn)) or (self._keeps_text and c in self._stores[s].texts)
            }
            if state.get("blocks") or self._mixes:
                payload |= {i for f in plan.fields if (i := f.left if s == 0 else f.right) is not None}
            sources = side_sources(plan, s, self._frontiers[s], payload)
            self._sources.append(sources)
            r = state.sides[s]
            r["sources"], r["n_sources"] = state.hold(("sources", s), sources.table), len(sources.table)
            r["columns"], r["n_columns"] = state.hold(("columns", s), sources.columns), len(sources.columns)
            r["packs"] = sources.pieces is not None
            if sources.pieces is not None:
                r["pieces"], r["n_pieces"] = state.hold(("pieces", s), sources.pieces), len(sources.pieces)
                state.set(key_sizes=state.hold("key_sizes", np.zeros(2 * len(plan.null_safe) + 1, dtype=np.int64)))
            if plan.int_keys:
                r["key_source"] = sources.nodes.index(plan.sides[s].keys[0])
            self._tabulate_orders(s, sources)
        self._prepares = [
            bool(sources.roots) or plan.raises or any(t.in_python for t in f.trackers)
            for sources, f in zip(self._sources, self._frontiers, strict=True)
        ]
        state.row_room(1, max(len(s.nodes) for s in self._sources))
        for s in (0, 1):
            terms = self._terms(s)
            state.sides[s]["in_kernel"] = terms is not None
            table = np.array(terms or [], dtype=at.TERM)
            state.sides[s]["terms"], state.sides[s]["n_terms"] = state.hold(("terms", s), table), len(table)
            bounds = np.zeros(max(len(plan.sides[s].axes), 1), dtype=at.BOUND)
            for axis, node in enumerate(plan.sides[s].axes):
                bounds[axis] = (I64_MIN, I64_MAX, *self._bounder._reach(node))
            state.sides[s]["bounds"] = state.hold(("bounds", s), bounds)
            for axis, tracker, low, high, _, _ in terms or ():
                falling = self._frontiers[1 - s].trackers[tracker].descending
                if (low if not falling else high) != (I64_MIN if not falling else I64_MAX):
                    self._stores[s].schedule(axis, falling)
            self._publish(s)

    def _tabulate_orders(self, s: int, sources: SideSources) -> None:
        trackers = self._frontiers[s].trackers
        table = np.zeros(max(len(trackers), 1), dtype=at.TRACKER)
        for i, t in enumerate(trackers):
            low, high = ordinal_range(t.node.type)
            most = min(int(t.slack), I64_MAX) if not t.in_python else 0
            more = min(int(t.slack) - most, I64_MAX) if not t.in_python else 0
            table[i] = (
                t.edge, t.limit, t.seen_value, t.seen_null, sources.nodes.index(t.node), t.descending, most, more,
                t.node.type.kind == "float", t.in_python, 0, ~high if t.descending else low, low, high,
            )
            t.attach(table[i : i + 1])
        self._state.sides[s]["trackers"] = self._state.hold(("trackers", s), table)
        self._state.sides[s]["n_trackers"] = len(trackers)

    def _terms(self, s: int) -> list[tuple[int, int, int, int, int, int]] | None:
        """By which orders of the other side the bounds of side s move; None if only propagation can tell."""
        frontier = self._frontiers[1 - s]
        orders = frontier.trackers
        if frontier.bounds or frontier.promised or self._bounder.propagates(s):
            return None
        if any(t.in_python or (t.descending and t.node.type.kind == "float") for t in orders):
            return None
        if len({t.node for t in orders}) != len(orders):
            return None
        out: list[tuple[int, int, int, int, int, int]] = []
        for axis, theirs, lo, hi, least, most in self._bounder._terms[s]:
            same = [
                i for i, t in enumerate(orders)
                if t.node is theirs or (column_of(theirs) is not None and column_of(t.node) is column_of(theirs))
            ]
            if not same and {t.node for t in orders} & set(walk(theirs)):
                return None
            if not all(x is None or I64_MIN < x < I64_MAX for x in (lo, hi)):
                return None
            low, high = I64_MIN if lo is None else lo, I64_MAX if hi is None else hi
            out.extend((axis, i, low, high, least, most) for i in same)
        return out

    def _publish(self, s: int) -> None:
        """Hand the bounds of side s to the kernels."""
        bounds = self._bounder.bounds(s)
        r = self._state.sides[s]
        r["nothing"] = bounds is None
        self._state.sides["ended"] = self._ended
        table = self._state["bounds", s]
        for axis, (low, high) in enumerate(bounds or ()):
            table[axis]["low"], table[axis]["high"] = low, high
            if low != I64_MIN:
                self._stores[s].schedule(axis, False)
            if high != I64_MAX:
                self._stores[s].schedule(axis, True)

    def _count_state(self) -> None:
        m, (left, right) = self._metrics, self._stores
        m.state_rows = left.live + right.live
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows, self._state.get("peak_rows"))
        m.state_bytes = self._bytes_held()
        m.peak_state_bytes = max(m.peak_state_bytes, m.state_bytes)

    def _bytes_held(self) -> int:
        left, right = self._stores
        return left.nbytes + right.nbytes + self._keys.nbytes + self._state.nbytes

    def _counts(self) -> JoinMetrics:
        """The counts of this moment, from where the kernels keep them."""
        m, state = replace(self._metrics), self._state
        left, right = state.sides
        m.left_rows_in += int(left["rows_in"])
        m.right_rows_in += int(right["rows_in"])
        m.left_rows_retired += int(left["retired"])
        m.right_rows_retired += int(right["retired"])
        m.late_rows += state.get("late_rows")
        m.state_rows = int(left["live"] + right["live"])
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows, state.get("peak_rows"))
        m.state_bytes = self._bytes_held()
        return m

    def _column(self, s: int, index: int) -> Node:
        """The node of a column of side s."""
        field = self.plan.sides[s].schema.field(index)
        return build.column(SIDES[s], field.name, from_arrow(field.type))

    def _stepped(self, ended: bool) -> None:
        self._count_state()

    def _let_go(self) -> None:
        self._metrics = self._counts()
        release_struct(self._state.in_struct)
        release_struct(self._state.out_struct)
        self._batch = None
        self._build()
        self._count_state()

    def _rebuild(self) -> None:
        """The state anew, for a plan whose keys or axes have changed, with the rows that are stored."""
        self._metrics = self._counts()
        old = self._stores
        careful = self._state.get("careful")
        self.plan.kept = {}
        self._build()
        self._state.set(careful=careful)
        for s, store in enumerate(old):
            ids = store.live_ids()
            self.adopt_rows(s, [store.gather(i, ids) for i in range(len(store.columns))], store.matched(ids))

    def _rekey(self) -> None:
        """A computed key has erred for some row: from now on hash by plain columns alone, decide the rest by pair."""
        plan = self.plan
        plain = [
            a.op == b.op == "column" for a, b in zip(plan.sides[0].keys, plan.sides[1].keys, strict=True)
        ]
        self._rekeyed = True
        plan.null_safe = list(compress(plan.null_safe, plain))
        for side in plan.sides:
            side.keys = list(compress(side.keys, plain))
        plan.int_keys = len(plan.null_safe) == 1 and not plan.null_safe[0] and has_ordinal(plan.sides[0].keys[0].type)
        self._rebuild()
        self._careful = True

    @property
    def _careful(self) -> bool:
        """Some row that has come lies outside the plan's guards, or erred: the whole condition decides each pair."""
        return bool(self._state.get("careful"))

    @_careful.setter
    def _careful(self, value: bool) -> None:
        self._state.set(careful=int(value))

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
        axes = np.empty((len(side.axes), n), dtype=np.int64)
        absent = {}
        for a, node in enumerate(side.axes):
            axes[a] = ordinals(values[node].values, node.type)
            present = has_value(values[node])
            if present is not None:
                absent[a] = ~present
        kids = self._intake.key_ids(s, n, values, self._keys, None)
        self._stores[s].insert(kids, axes, arrays, absent or None, matched)
        self._keys.point()
        for store in self._stores:
            store.point()

    def refresh_bounds(self) -> None:
        """Compute roots, axes and bounds anew after the frontiers were set from outside."""
        self._learn()
        for p in (0, 1):
            self._bounder.move(p, True, self._stores[1 - p].live)
            self._publish(1 - p)

    def _learn(self) -> None:
        """Take in that frontiers may know other expressions now: tables, and axes that could prune by them."""
        for frontier in self._frontiers:
            frontier.refresh()  # the kernels have moved bounds by themselves: all are computed anew from here on
        missing = list(self._bounder.missing_axes())
        if missing:
            for s, node in missing:
                if node not in self.plan.sides[s].axes:
                    self.plan.sides[s].axes.append(node)
            for s in (0, 1):
                self._bounder.refit(s)
            self._rebuild()
        else:
            self._tabulate()

    # -- a push --------------------------------------------------------------------------------------------------

    def _take(self, p: int, batch: pa.RecordBatch) -> pa.RecordBatch | Iterator[pa.RecordBatch] | None:
        """Feed a batch to the kernels: what they put out at once, or the rest of the push as an iterator."""
        state = self._state
        n = batch.num_rows
        self._batch = ref(batch)
        if n > state.room:
            state.row_room(n, max(len(s.nodes) for s in self._sources))
        if n > PIECE and self._may_crowd(p, n):
            state.operator[0]["probe_end"] = PIECE
        before = None
        if self._prepares[p]:
            before = [t.save() for t in self._frontiers[p].trackers]
            try:
                self._prepare(p, batch)
            except BaseException:
                self._put_back(p, before)
                raise
            state = self._state
        if state.resting:
            state.wake()
        for _ in range(8):
            batch._export_to_c(state.in_struct)
            status = push_kernels.push_batch(state.at, p)
            if status & at.KEYS:
                self._name_keys(p, n)
                status = push_kernels.push_batch(state.at, p)
            if status == 0:
                return None
            if status == at.OUTPUT:
                state.rest()
                return self._made()
            if status & at.LATE:
                if before is not None:
                    self._put_back(p, before)
                self._intake.refuse_late(p, batch)
            if status in _TEXT and self._keeps_text:
                return self._with_text(p, batch, status)
            if not status & at.ROOM:
                return self._go_on(p, batch, status)
            self._make_room(p, batch)
        raise AssertionError(f"no room for {n} rows after having made it")

    def _made(self) -> pa.RecordBatch:
        """The output batch that the kernels have just built."""
        return pa.RecordBatch._import_from_c(self._state.out_struct, self.plan.schema)

    def _put_back(self, p: int, before: list[dict[str, Any]]) -> None:
        """The orders as they were before a batch that is refused."""
        for t, saved in zip(self._frontiers[p].trackers, before, strict=True):
            t.load(saved)

    def _with_text(
        self, p: int, batch: pa.RecordBatch, status: int
    ) -> pa.RecordBatch | Iterator[pa.RecordBatch] | None:
        """As ``_take``, as long as a push asks for its text and for nothing else: an iterator costs as much again."""
        state, out = self._state, None
        while status in _TEXT:
            if status == at.STORE | at.MORE:
                if self._stores[p].others:
                    break
                self._store_text(p, batch)
            else:
                if out is not None or not self._mixes:
                    break
                status = self._mixed(p)
                if status != at.OUTPUT | at.MORE:
                    break
                out = self._made()
            status = push_kernels.push_batch(state.at, p)
        if status == 0:
            state.rest()
            return out
        rest = self._go_on(p, batch, status)
        return rest if out is None else _then(out, rest)

    def _go_on(self, p: int, batch: pa.RecordBatch | None, status: int) -> Iterator[pa.RecordBatch]:
        """The rest of a push; ``batch`` is held because the registers point into it."""
        state = self._state
        if batch is None:
            self._batch = None
        r = state.operator[0]
        while True:
            if status & at.OUTPUT:
                yield self._made()
            if status & at.FULL:
                raise IvjoinError("no memory for an output batch; use a smaller batch_size")
            if not status & at.MORE:
                break
            if status & _ASKS:
                if status & at.GATHER and self._mixes:
                    status = self._mixed(p)
                    continue
                if status & at.GATHER:
                    yield from self._gathered(p, batch)
                elif status & at.BOUNDS:
                    if self._bounder.move(p, False, self._stores[1 - p].live):
                        self._publish(1 - p)
                elif status & at.DECIDE:
                    assert batch is not None
                    self._decide(p, batch)
                elif status & at.STORE:
                    assert batch is not None
                    self._store_rest(p, batch, status)
                elif status & at.RUNS:
                    assert batch is not None
                    self._probe_runs(p, batch)
                elif status & at.BEYOND:
                    assert batch is not None
                    self._look_beyond(p, batch)
                elif status & at.PIECE:
                    self._next_piece(p)
                elif status & at.INDEX:
                    store, n = self._stores[p], int(r["n_kept"])
                    assert store.runs is not None
                    values = state["values"][store.runs.axis, :n]
                    store.runs.add(state["kids"][:n], values, store.hi - n, store.rows, store.links, store.lo)
            elif int(r["phase"]) == at.PROBING:
                state.more_pairs()
            status = push_kernels.push_batch(state.at, p)
        self._batch = None
        state.rest()
        if status & (at.TIDY | at.SWEEP):
            self._tidy(p, status)

    def _name_keys(self, p: int, n: int) -> None:
        keys = self._keys
        assert isinstance(keys, ByteKeys)
        while need := packed_key_kernels.name_packed(self._state.at, p):
            keys.make_room(n, int(need))
            keys.point()
            self._count_state()

    def _make_room(self, p: int, batch: pa.RecordBatch) -> None:
        """After a refusal for want of room: whatever is too small for this batch on side p."""
        state, n = self._state, batch.num_rows
        store, other = self._stores[p], self._stores[1 - p]
        state.row_room(n, max(len(s.nodes) for s in self._sources))
        if store.hi - store.lo + n > store.cap:
            store.settle()
            if store.hi - store.lo + n > store.cap:
                store.make_room(n)
        if state.sides[1 - p]["owes"]:
            state.dead_room(other.live)
        if self.plan.int_keys:
            self._keys.reserve(n)
            self._keys.point()
        for column, c in zip(store.stored, store.columns, strict=True):
            if isinstance(c, (WordColumn, ImageColumn)) and batch.column(column).null_count:
                c.valid.begin(store.cap)
        for each in self._stores:
            each._ring_bytes = None
            each.point()
        self._count_state()

    def _tidy(self, p: int, status: int) -> None:
        """Give back what stores and keys need no more."""
        look = self._state.get("pushes") % _LOOK_EVERY == 0
        if status & at.TIDY:
            for store in self._stores:
                if store.crowded:
                    bands = self.plan.tables[1 - store.side]
                    if store.side != p:
                        n = self._state.get("n")
                        store.search_by(*most_selective(self._state["values"][:, :n], bands, store))
                elif store._steps and store.ordered:
                    store.walked(0)
                store.turn()
                store.settle(look)
        if status & at.SWEEP:
            self._keys.sweep()
            self._keys.point()
            for store in self._stores:
                store.point()
        if look:
            self._state.fit(max(store.live for store in self._stores))
        self._count_state()

    # -- values that Python computes ---------------------------------------------------------------------------------

    def _prepare(self, p: int, batch: pa.RecordBatch) -> None:
        """Evaluate what the kernels cannot read by themselves, and mark the rows for which it says something."""
        sources, index, n = self._sources[p], self._index[p], batch.num_rows
        found = evaluate(sources.roots, lambda _, name: batch.column(index[name]), n) if sources.roots else []
        values: dict[Node, Vector] = dict(zip(sources.roots, found, strict=True))
        side = self.plan.sides[p]
        if any(_errs(values[k]) is not None for k in sources.keys) or (
            self.plan.int_keys and side.keys[0] in values and _errs(values[side.keys[0]]) is not None
        ):
            self._rekey()
            self._prepare(p, batch)
            return
        state = self._state
        state.row_room(n, max(len(s.nodes) for s in self._sources))
        marks = state["marks"][:n]
        marks[:] = at.USABLE | at.KEYED
        for i in sources.computed:
            self._place_source(p, i, batch, values[sources.nodes[i]], marks)
        for node in sources.filters:
            v = values[node]
            true = np.asarray(v.values if v.valid is None else v.values & v.valid, dtype=bool)
            marks[~true] &= 255 - at.USABLE
            _make_wild(marks, _errs(v))
        for node, low, high in sources.guards:
            _make_wild(marks, _outside(values[node], low, high))
            _make_wild(marks, _errs(values[node]))
        if self.plan.raises:
            marks |= at.WILD
        late = self._intake.late_by_python(p, batch, values)
        if late is not None:
            marks[late] |= at.DROPPED
        if sources.keys:
            for node, safe in zip(sources.keys, self.plan.null_safe, strict=True):
                valid = values[node].valid
                if not safe and valid is not None:
                    marks[~valid] &= 255 - (at.USABLE | at.KEYED)
            usable = (marks & at.KEYED) != 0
            state["kids"][:n] = self._intake.key_ids(p, n, values, self._keys, None if usable.all() else usable)
            self._keys.point()
        state.set(prepared=1, masked=1, n_late=0 if late is None else int(np.count_nonzero(late)))

    def _place_source(self, p: int, i: int, batch: pa.RecordBatch, v: Vector, marks: np.ndarray) -> None:
        """What the kernels read of an expression that Python has computed."""
        n, state, source = batch.num_rows, self._state, self._state["sources", p][i]
        node = self._sources[p].nodes[i]
        state["values"][i, :n] = ordinals(v.values, node.type)
        erred = _errs(v)
        missing = None if v.valid is None or v.valid.all() else ~v.valid
        if erred is not None:
            self._intake.refuse_errors(p, batch, node, v)
        source["has_absent"] = missing is not None or erred is not None
        if missing is not None or erred is not None:
            absent = missing if erred is None else erred if missing is None else missing | erred
            state["absent"][i, :n] = absent
        if source["role"]:
            cleared = at.USABLE | at.KEYED if source["role"] & at.KEY_ROLE else at.USABLE
            if missing is not None:
                marks[missing] &= 255 - cleared
        if source["role"] or node in self.plan.sides[p].checked:
            _make_wild(marks, erred)

    # -- steps of the kernels' that Python takes ---------------------------------------------------------------------

    def _decide(self, p: int, batch: pa.RecordBatch) -> None:
        """Leave of the pairs at hand those for which the condition holds, and mark what they mark."""
        state, how, store = self._state, self._how, self._stores[1 - p]
        count = state.get("n_pairs")
        rows, places = state["pair_rows"][:count], state["pair_places"][:count]
        if self._careful:
            nodes = conjuncts_of(self.plan.condition)
            if nodes:
                true = holds(nodes, self._pair_columns(p, batch, rows, places), count)
                rows, places = rows[true], places[true]
        else:
            nodes = list(self.plan.separation.residual)
            asked = slice(None)
            if len(self.plan.checks[p]):  # which have decided all pairs whose rows are not turned
                asked = np.flatnonzero(rows < 0)
                rows[asked] = ~rows[asked]
            these, there = rows[asked], places[asked]
            true = np.ones(count, dtype=bool)
            true[asked] = holds(nodes, self._pair_columns(p, batch, these, there), len(these))
            rows, places = rows[true], places[true]
        matched = state["matched"]
        if how.single == p:
            matched[rows] = 1
            # One match is enough: go on with the next row.
            if store.runs is not None and not self._careful:
                cell = state["state"]
                if cell[0] < state.get("n") and matched[cell[0]]:
                    cell[:3] = cell[0] + 1, 0, -1
            elif (at_row := state.get("row")) < state.get("n_chosen") and matched[self._chosen()[at_row]]:
                state.set(row=at_row + 1, node=-2)
            rows = places = rows[:0]
        elif how.single == 1 - p:
            places = np.unique(places)
            store.mark_places(places)
            rows = np.zeros(len(places), dtype=np.int64)
        else:
            if how.keep[1 - p]:
                store.mark_places(places)
            if how.keep[p]:
                matched[rows] = 1
        n = len(places)
        state["pair_rows"][:n], state["pair_places"][:n] = rows, places
        state.set(n_pairs=n)
        if count == state.pairs:
            state.more_pairs()

    def _look_beyond(self, p: int, batch: pa.RecordBatch) -> None:
        """Raise for a pair for which the residual overflows where the bands refuse it; no other can match there."""
        state, store = self._state, self._stores[1 - p]
        n, room = state.get("n"), state.pairs
        rows, ids, cell = np.empty(room, np.int64), np.empty(room, np.int64), np.zeros(4, np.int64)
        nodes = list(self.plan.separation.residual)
        for table in self.plan.overflows[p]:
            cell[:] = 0, -2, 0, 0
            while cell[0] < n:
                count = index_kernels.probe(
                    state["kids"][:n], state["values"], table.terms, table.n_primary, store.ordered,
                    self._keys.slots, store.rows, store.links, store.lo, store.offset, state["matched"],
                    index_kernels.PAIRS, cell, rows, ids,
                )
                if count:
                    holds(nodes, self._pair_columns(p, batch, rows[:count], store.places(ids[:count])), count)

    def _chosen(self) -> np.ndarray:
        state = self._state
        return state["every"] if state.get("chosen_at") == state.get("every") else state["chosen"]

    def _pair_columns(
        self, p: int, batch: pa.RecordBatch, rows: np.ndarray, places: np.ndarray
    ) -> Callable[[str, str], pa.Array]:
        store, where, index, widths = self._stores[1 - p], self._places[1 - p], self._index, self._widths[p]
        ids = store.ids_at(places)

        def column(side: str, name: str) -> pa.Array:
            s = SIDES.index(side)
            i = index[s][name]
            return take(batch.column(i), rows, widths[i]) if s == p else store.gather(where[i], ids)

        return column

    def _mixed(self, p: int) -> int:
        """An output batch with columns of text or bools, built by compiled code; the status that says so."""
        state = self._state
        status: int = text_kernels.build_mixed(state.at, p)
        if status & at.ROOM:
            field, size = state["state"][:2]
            raise too_much_text(int(size), self.plan.schema.types[field])
        r = state.operator[0]
        if not status & at.GATHER and r["phase"] == at.EMITTING and r["n_pairs"] == state.pairs:
            state.more_pairs()
        return status

    def _gathered(self, p: int, batch: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """Output batches that hold columns which compiled code does not build."""
        state = self._state
        r = state.operator[0]
        which, cursor, phase = int(r["out_which"]), int(r["cursor"]), int(r["phase"])
        total, listed = {
            at.EMITTING: (int(r["n_pairs"]), "pair_places"), at.LEAVING: (int(r["n_left"]), "left"),
            at.RETIRING: (int(r["n_dead"]), "dead"),
        }[phase]
        store, size = self._stores[1 - p], self._emitter.batch_size
        # The scratch may be written over while the caller holds what came before.
        places = state[listed][cursor:total].copy()
        rows = state["pair_rows"][cursor:total].copy() if which == push_kernels.PAIRS else None
        r["cursor"] = total
        if rows is not None and total == state.pairs:
            state.more_pairs()
        for start in range(0, total - cursor, size):
            cut = slice(start, start + size)
            if rows is not None:
                assert batch is not None
                here: Rows = BatchRows(batch, rows[cut], self._widths[p])
                there: Rows = StoredRows(store, self._places[1 - p], store.ids_at(places[cut]))
                out = self._emitter.batch(here, there) if p == 0 else self._emitter.batch(there, here)
            else:
                if phase == at.LEAVING:
                    assert batch is not None
                    alone: Rows = BatchRows(batch, places[cut], self._widths[p])
                else:
                    alone = StoredRows(store, self._places[1 - p], store.ids_at(places[cut]))
                is_left = which == push_kernels.LEFT_ROWS
                out = self._emitter.batch(alone, None) if is_left else self._emitter.batch(None, alone)
            yield out

    def _store_rest(self, p: int, batch: pa.RecordBatch, status: int) -> None:
        """What the kernels do not store: columns of varying size; and room for rows out of order."""
        state, store = self._state, self._stores[p]
        n = state.get("n_kept")
        if status & at.HEAP:
            store.make_heap_room(n)
        names = store.by_python
        if self._keeps_text and store.texts:
            names = store.others
            self._store_text(p, batch)
        if names:
            whole = n == batch.num_rows
            kept = state["kept"][:n]
            arrays = {}
            for i in names:
                array = batch.column(store.stored[i])
                arrays[i] = array if whole else array.take(pa.array(kept))
            store.append_by_python(arrays)

    def _store_text(self, p: int, batch: pa.RecordBatch) -> None:
        while text_kernels.store_text(self._state.at, p):
            self._stores[p].make_text_room(batch)
            self._count_state()

    def _probe_runs(self, p: int, batch: pa.RecordBatch) -> None:
        """A chunk of pairs by the other store's sorted runs."""
        state, store = self._state, self._stores[1 - p]
        r = state.operator[0]
        runs, table = store.runs, self.plan.tables[p]
        assert runs is not None
        led = table.led_by(runs.axis, runs.second)
        n, side = int(r["n"]), state.sides[p]
        cell = state["state"]
        if int(r["node"]) == -2:
            cell[:] = int(r["steps"]), 0, -1, 0
        decided = bool(side["decide"])
        mode = index_kernels.PAIRS if decided else int(side["mode"])
        count = run_kernels.probe_runs(
            state["kids"][:n], state["values"], led.terms, led.n_primary, led.n_second, runs.keys, runs.values,
            runs.ids, runs.tops, runs.ends, runs.count, store.lo, store.rows, store.links, state["matched"], mode, cell,
            state["pair_rows"], state["pair_places"], self.plan.checks[p].ravel(), state["absent"].ravel(),
            self._axes_with_nulls(p),
        )
        state["pair_places"][:count] = store.places(state["pair_places"][:count])
        done = cell[0] >= n
        # The kernel asks again while a row is left; the cell knows at which one.
        state.set(n_pairs=count, row=int(r["n_chosen"]) if done else 0, node=-1, probe_end=int(r["n_chosen"]))
        if not done and not int(r["n_chosen"]):
            raise AssertionError("a probe by runs found pairs of rows that have none")
        if count and decided:
            self._decide(p, batch)

    def _axes_with_nulls(self, p: int) -> int:
        """A bit for each axis of which some row of the batch may have no value."""
        absent = self._state["sources", p]["has_absent"][: len(self.plan.sides[p].axes)]
        return sum(1 << int(a) for a in np.flatnonzero(absent[: index_kernels.MOST_AXES]))

    def _next_piece(self, p: int) -> None:
        """After a piece of a large batch was probed: go on by a better index, if the store should have one."""
        state, store = self._state, self._stores[1 - p]
        if store.crowded:
            n = state.get("n")
            store.search_by(*most_selective(state["values"][:, :n], self.plan.tables[p], store))
            store.turn()
            store.point()
            if store.runs is not None:
                state.set(steps=int(self._chosen()[state.get("row")]), row=0, node=-2)
        state.set(probe_end=min(3 * state.get("probe_end"), 2**62))

    def _may_crowd(self, p: int, n: int) -> bool:
        """Whether a batch could walk so far along the first axis that another one had better be thought of."""
        store, bands = self._stores[1 - p], self.plan.tables[p]
        return n * store.live > _MOST_STEPS * max(1, self._keys.live) and bands.has_choice

    # -- without a batch ---------------------------------------------------------------------------------------------

    def _settle(self, p: int) -> Iterator[pa.RecordBatch]:
        """Side p's frontier has moved: prune the other store by it, put out what that decides, give memory back."""
        other = self._stores[1 - p]
        self._bounder.move(p, True, other.live)
        self._publish(1 - p)
        if self._state.sides[1 - p]["owes"]:
            self._state.dead_room(other.live)
        self._state.set(phase=at.PRUNING, n=0, n_kept=0, n_left=0, n_late=0, cursor=0)
        yield from self._go_on(p, None, push_kernels.push_batch(self._state.at, p))

    def _end(self, sides: list[int]) -> Iterator[pa.RecordBatch]:
        for p in sides:
            yield from self._settle(p)
            self._stores[1 - p].settle(look=True)
        self._keys.sweep()
        self._keys.point()
        for store in self._stores:
            store.point()
        self._count_state()


def _then(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _kind(t: pa.DataType) -> int | None:
    """How compiled code sees a column of an Arrow type; None if it does not."""
    if byte_width(t) is not None:
        return at.WORDS
    if pa.types.is_boolean(t):
        return at.BITS
    return None if offset_width(t) is None else at.BYTES


def _errs(v: Vector) -> np.ndarray | None:
    return v.error if v.error is not None and v.error.any() else None


def _make_wild(marks: np.ndarray, rows: np.ndarray | None) -> None:
    if rows is not None:
        marks[rows] |= at.WILD


def _outside(v: Vector, low: int, high: int) -> np.ndarray | None:
    """bool[n] of the values that lie outside [low, high], None for none."""
    values = v.values
    if len(values) == 0 or (low <= int(values.min()) and int(values.max()) <= high):
        return None
    bad = np.asarray((values < low) | (values > high), dtype=bool)
    present = has_value(v)
    if present is not None:
        bad &= present
    return bad if bad.any() else None
