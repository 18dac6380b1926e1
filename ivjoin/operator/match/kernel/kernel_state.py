"""Build the state that kernels read: the plan as tables, two side stores, frontiers and registers.

The kernels change the registers and arrays of ``State``. The other objects of this module are views of them, or do not
change until keys or axes change. Then all of them are built again.
"""

from __future__ import annotations

from weakref import ref

import numpy as np
import pyarrow as pa

from ivjoin.operator.engine import Engine
from ivjoin.operator.match.kernel import reuse
from ivjoin.operator.match.kernel.keys import key_table
from ivjoin.operator.match.kernel.sources import key_columns, ordinal_columns
from ivjoin.operator.match.kernel.state import State
from ivjoin.operator.match.kernel.tables import SideTables, join_fields, output_table, side_tables
from ivjoin.operator.memory.memory_parts import RowsInFiles
from ivjoin.outer.batches import BatchBuilder
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.sums import probes
from ivjoin.shj import registers as at
from ivjoin.shj.kernels.pointers import address_of as address
from ivjoin.shj.kernels.push import push_kernels
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.shj.store.keys import KeyTable
from ivjoin.shj.store.rows.ring_room import can_be_cleared, is_loose
from ivjoin.shj.store.rows.side import SideStore
from ivjoin.shj.store.rows.spilled_payload import InFile
from ivjoin.shj.store.values.segments import SegmentColumn
from ivjoin.shj.store.values.texts import KeyTextColumn

__all__ = ["KernelState"]

_TRACKER = at.words_in(at.TRACKER)
_FIRST_LOOKS = 4  # looks at bounds that only Python computes, before the interval between looks grows


class KernelState(Engine):
    """The state of an operator as the kernels read it."""

    keys: KeyTable
    stores: tuple[SideStore, ...]
    shared: tuple[SideTables, SideTables] | None

    def __init__(
        self, plan: JoinPlan, late_within: bool = True, keeps: tuple[bool, bool] = (True, True), takes: bool = False,
    ) -> None:
        super().__init__(plan, late_within)
        self.keeps = keeps  # a side whose rows only probe stores none
        plan, (left, right) = self.plan, self.layouts
        self.places, self.widths = (left.places, right.places), (left.widths, right.widths)
        self.index = left.index, right.index
        self.builder = BatchBuilder(plan.schema, plan.fields, plan.spec.batch_size, plan.spec.timezone)
        self.batch: ref[pa.RecordBatch] | None = None  # the pushed batch while the caller is reading its output
        self.limits = None
        self.in_files: RowsInFiles | None = None
        self.packs = [False, False]
        self._puts_out = 0  # the side of the last call of `put_out`
        found = reuse.take(plan, self.account) if takes else None
        if found is None:
            self.build()
        else:
            self._take_up(found)
        self.alive = ref(self.stores[0])  # returns None once the cycle collector has freed the store

    def __del__(self) -> None:
        left = self._left() if "prepares" in self.__dict__ else None  # not if `__init__` failed
        if left is not None:
            reuse.leave(left, self.bytes_held())

    def _left(self) -> reuse.Reusable | None:
        """Return the state of an ending operator if it differs from a new state only in its size.

        Return None if the cycle collector found the operator, because its weak references are already dead.
        """
        account, tables = self.account, self.shared
        if account.limit is not None or account.on_full is not None or account.files is not None:
            return None
        if self.rekeyed or tables is None or self.limits is not None or self.in_files is not None:
            return None
        if self.builder.batch_size != self.plan.spec.batch_size or not self.state.is_idle:
            return None
        if not all(map(can_be_cleared, self.stores)) or self.alive() is None:
            return None
        return reuse.Reusable(
            self.plan.derived, self.state, self.keys, self.stores, tables, self.packs, self.prepares,
        )

    def _take_up(self, left: reuse.Reusable) -> None:
        """Use the state that an earlier operator of the plan has released, instead of calling :meth:`build`."""
        state = self.state = left.state
        self.keys, self.stores = left.keys, left.stores
        self.gathers, self._builds = [False, False], state.get("blocks")
        self.shared, self.packs, self.prepares = left.tables, [*left.packs], left.prepares
        self.sources = [t.sources for t in left.tables]
        state.set(within=int(self.intake.late_within))
        for s, t in enumerate(left.tables):
            for name, words in t.written.items():
                state[name, s][...] = words
            self._follow(s, state["trackers", s])
            for axis, falling in t.schedules:
                self.stores[s].schedule(axis, falling)
            self._begin_looks(s)
            self.publish(s)

    def _follow(self, s: int, words: np.ndarray) -> None:
        """Make the orders of side s store their records in these words."""
        for i, tracker in enumerate(self.frontiers[s].trackers):
            tracker.move_to(words[i * _TRACKER : (i + 1) * _TRACKER])

    def build(self) -> None:
        """Build registers, stores and tables for the current plan."""
        plan = self.plan
        account = self.account
        state = self.state = State(self.builder.batch_size, max(len(s.schema) for s in plan.sides), account)
        self.keys = key_table(plan, state.operator, account)
        self.stores = tuple(
            SideStore(
                s, self.keys, self.layouts[s].stored, plan.sides[s].n_stored_axes, sums=plan.sides[s].sums,
                ordered=probes(plan, 1 - s)[0].n_primary > 0, same=ordinal_columns(plan, s),
                in_key=key_columns(plan, s),
                pieces=len(plan.null_safe) + sum(plan.null_safe), stored=plan.sides[s].stored,
                sides=state.sides, widths=self.layouts[s].stored_widths, account=account,
            )
            for s in (0, 1)
        )
        self.keys.point()
        on_late = plan.spec.on_late
        output = output_table(plan)
        self.gathers, self._builds = [False, False], int(output.kinds is not None)
        state.set(
            never=int(plan.never), rekeyed=int(self.rekeyed),
            within=int(self.intake.late_within), raises=int(on_late == "raise"), drops=int(on_late == "drop"),
            blocks=self._builds,
            fields=address(output.fields), n_fields=len(output.fields),
            loosens=int(self.limits is None and self.account.limit is None),
            grows=int(self.account.limit is None),
        )
        for s in (0, 1):
            state.put_side(s, join_fields(plan, s))
        self.tabulate()

    def tabulate(self) -> None:
        """Set the tables of expressions, orders and bounds. Call it again when a frontier has new expressions."""
        state, plan = self.state, self.plan
        tables = side_tables(plan, self.frontiers, self.bounder, self.payload())
        self.shared = tables if tables[0].shared else None  # the records contain addresses of its arrays
        self.sources = [t.sources for t in tables]
        for s, t in enumerate(tables):
            state.put_side(s, t.fields)
            if not t.shared:
                for name, array in t.fixed.items():
                    state.hold((name, s), array)
            own = {name: words.copy() if t.shared else words for name, words in t.written.items()}
            self.packs[s] = "pieces" in own or self.keys.kind == at.INTS
            state.set_side(s, packs=self.packs[s], **{name: state.hold((name, s), own[name]) for name in own})
            if "pieces" in own:
                state.set(key_sizes=state.hold("key_sizes", np.zeros(2 * len(plan.null_safe) + 1, dtype=np.int64)))
            self._follow(s, own["trackers"])
        self.prepares = [
            bool(sources.roots) or plan.raises or any(t.in_python for t in f.trackers)
            for sources, f in zip(self.sources, self.frontiers, strict=True)
        ]
        state.row_room(0, max(s.rows for s in self.sources))
        for s, t in enumerate(tables):
            for axis, falling in t.schedules:
                self.stores[s].schedule(axis, falling)
            self._begin_looks(s)
            self.publish(s)

    def moved(self) -> None:
        """Write the addresses of all arrays to the records after the memory of keys or stores has moved."""
        self.keys.point()
        for store in self.stores:
            store.point()

    def link(self) -> None:
        """Add every row to the list of its key. The kernels postpone this between pushes."""
        if any(map(is_loose, self.stores)):
            push_kernels.push_batch(self.state.at, at.LINK)

    def stay_linked(self) -> None:
        """Link all rows now and in every later push, because code that frees memory may look up rows at any time."""
        self.link()
        self.state.set(loosens=0)

    def source_table(self, p: int) -> np.ndarray:
        """Return the description of how to read the columns and expressions of side p : SOURCE[n]."""
        return self.state["sources", p].view(at.SOURCE)

    def payload(self) -> list[frozenset[int]]:
        """Return the columns of each side whose addresses the kernels need, to store or emit their values."""
        plan = self.plan
        blocks = bool(self._builds)

        def found(s: int, store: SideStore) -> frozenset[int]:
            columns = {  # in memory or in files, because operators share the tables
                column for column, c, width in zip(
                    plan.sides[s].stored, store.columns, self.layouts[s].stored_widths, strict=True
                )
                if width is not None or not isinstance(c, (KeyTextColumn, SegmentColumn))
            }
            return frozenset(columns | plan.emitted(s) if blocks else columns)

        name = KernelState.payload, blocks
        return plan.derived.once(name, lambda: [found(s, store) for s, store in enumerate(self.stores)])

    def bound(self, p: int) -> None:
        """Move the bounds by side p's frontier, for expressions that only Python computes."""
        state, other = self.state, 1 - p
        rows = self.stores[other].live
        if state.side(other, "unlooked") == 0:  # the kernels requested a look
            rows = max(rows, state.side(other, "look_every"))
        if self.bounder.move(p, False, rows):
            self.publish(other)

    def _begin_looks(self, s: int) -> None:
        """Reset the intervals between looks at the bounds that only Python computes."""
        every = self.bounder.look_every(s) if self.state.side(s, "in_kernel") else 0
        self.state.set_side(s, look_every=every, look_least=every, unlooked=0, looks_left=_FIRST_LOOKS, looks_next=0)

    def publish(self, s: int) -> None:
        """Write the bounds of side s to the registers of the kernels."""
        bounds = self.bounder.bounds(s)
        state = self.state
        state.set_side(s, nothing=bounds is None or not self.keeps[s])
        for each in (0, 1):
            in_files = 0 if self.in_files is None else self.in_files.sides[each].live
            state.set_side(each, ended=self.ended[each] and not in_files)
        table, scans = state["bounds", s], state.side(s, "look_every")
        for axis, (low, high) in enumerate(bounds or ()):
            table[axis, 0], table[axis, 1] = low, high
            if scans:
                continue
            if low != I64_MIN:
                self.stores[s].schedule(axis, False)
            if high != I64_MAX:
                self.stores[s].schedule(axis, True)

    def gather_output(self, s: int) -> None:
        """Let Arrow build output with rows of side s, if some of its output columns are now in files."""
        columns, places = self.stores[s].columns, self.places[s]
        self.gathers[s] = any(isinstance(columns[places[i]], InFile) for i in self.plan.emitted(s))
        self.put_out(self._puts_out)  # a push may be running, on either side

    def put_out(self, p: int) -> None:
        """Choose whether compiled code or Arrow builds the output of a push on side p. Call it before the first row."""
        self._puts_out = p
        self.state.set(blocks=0 if self.gathers[1 - p] else self._builds)

    def limit_output(self, rows: int) -> None:
        """Lower the maximum number of rows in an output batch."""
        rows = min(rows, self.plan.spec.batch_size)
        self.builder.batch_size = rows
        self.state.limit_output(rows)

    @property
    def rows_in_files(self) -> int:
        return 0 if self.in_files is None else self.in_files.live

    @property
    def rows_held(self) -> int:
        left, right = self.stores
        return int(left.live + right.live) + self.rows_in_files

    def bytes_held(self) -> int:
        (left, right), in_files = self.stores, self.in_files
        held = left.nbytes + right.nbytes + self.keys.nbytes + self.state.nbytes
        return held if in_files is None else held + in_files.nbytes
