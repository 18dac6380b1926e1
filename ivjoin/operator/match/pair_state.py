"""Store the state of an operator that emits pairs, and apply changes of keys, axes and promises between pushes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from ivjoin.errors import MemoryLimitError, SpillError
from ivjoin.expr.nodes import Node
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.evaluated import Evaluated, evaluated, of_stored
from ivjoin.operator.key_values import key_ids
from ivjoin.operator.match.kernel.kernel_state import KernelState
from ivjoin.shj import registers as at
from ivjoin.shj.dictionaries import one_array
from ivjoin.shj.kernels.pointers import release_struct
from ivjoin.shj.store.rows.payload_room import make_column_rooms

__all__ = ["PairState"]


class PairState(KernelState):
    """The state of an operator that emits pairs. ``match.steps`` moves rows through it."""

    def _keep_counts(self) -> None:
        """Add the counts of the registers to the metrics before the registers are reset."""
        self.metrics = self.counts()
        self.intake.late = [0, 0]

    def counts(self) -> JoinMetrics:
        m, state = replace(self.metrics), self.state
        m.left_rows_in += state.side(0, "rows_in")
        m.right_rows_in += state.side(1, "rows_in")
        m.left_rows_retired += state.side(0, "retired")
        m.right_rows_retired += state.side(1, "retired")
        self.intake.count_into(m, state.get("late_rows"))
        m.state_rows = self.rows_held
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows, state.get("peak_rows"))
        m.state_bytes = self.bytes_held()
        if self.account.files is not None:
            m.spilled_bytes = self.account.files.nbytes
            m.spilled_rows = sum(s.live for s in self.stores if s.lies_in_files) + self.rows_in_files
        return m

    def is_refused(self, error: BaseException) -> bool:
        wanting = self.account.refused or isinstance(error, MemoryLimitError)
        return wanting and not isinstance(error, SpillError) and self.state.get("phase") == at.BEGIN

    def let_go(self) -> None:
        self._keep_counts()
        release_struct(self.state.in_struct)
        release_struct(self.state.out_struct)
        self.batch = self.in_files = None
        self.build()

    def rebuild(self) -> None:
        self._keep_counts()
        old = self.stores
        full_predicate = self.state.get("full_predicate")
        limit, self.account.limit = self.account.limit, None  # not enforced, because a half-built state cannot be used
        try:
            self.build()
            self.state.set(full_predicate=full_predicate, loosens=int(self.limits is None and limit is None))
            for s, store in enumerate(old):
                ids = store.live_ids()
                self.adopt_rows(s, store.gather_all(ids), store.matched(ids))
            if self.in_files is not None:
                for s, arrays, matched in self.in_files.rebuilt():
                    found, axes = self._evaluated(s, arrays, len(matched))
                    self.in_files.adopt(s, arrays, axes, matched, found.absent)
        finally:
            self.account.limit = limit
        if self.limits is not None:
            self.limits.fit()

    @property
    def full_predicate(self) -> bool:
        """Return whether the whole condition is evaluated for each pair, because a row has an error or breaks a guard.
        """
        return bool(self.state.get("full_predicate")) or (self.in_files is not None and self.in_files.careful)

    @full_predicate.setter
    def full_predicate(self, value: bool) -> None:
        self.state.set(full_predicate=int(value))

    def adopt_rows(self, s: int, arrays: list[pa.Array], matched: np.ndarray) -> None:
        n = len(matched)
        if n == 0:
            return
        store = self.stores[s]
        if self.account.limit is not None:
            make_column_rooms(store, arrays)
        if store.hi - store.lo + n > store.cap:
            store.make_room(n)  # do this first, because ids without a stored row may be reused
        found, axes = self._evaluated(s, arrays, n)
        store.insert(key_ids(self.plan, s, n, found.values, self.keys), axes, arrays, found.absent or None, matched)
        self.moved()

    def _evaluated(self, s: int, arrays: list[pa.Array], n: int) -> tuple[Evaluated, np.ndarray]:
        """Return the values of stored rows, and their axes : int64[a, n]."""
        found = evaluated(self.plan, s, n, of_stored(self.plan, s, arrays), False)
        return found, np.array(found.axes, dtype=np.int64).reshape(len(found.axes), n)

    def saved_rows(self, s: int) -> tuple[list[pa.Array], np.ndarray]:
        store = self.stores[s]
        ids = store.live_ids()
        arrays, matched = store.gather_all(ids), store.matched(ids)
        if self.in_files is None or not self.in_files.sides[s].live:
            return arrays, matched
        pieces = [*self.in_files.pieces(s)]
        whole = [one_array([*(taken.column(i) for taken, _ in pieces), array]) for i, array in enumerate(arrays)]
        return whole, np.concatenate([*(m for _, m in pieces), matched])

    def refresh_bounds(self) -> None:
        self.learn()
        for p in (0, 1):
            self.bounder.move(p, True, self.stores[1 - p].live)
            self.publish(1 - p)

    def promise(self, p: int, node: Node, ordinal: int, descending: bool) -> bool:
        known = super().promise(p, node, ordinal, descending)
        self._limit(p, node, known)
        return known

    def narrow(self, p: int, node: Node, low: int, high: int) -> bool:
        """Record bounds of later rows of a side. :meth:`promise` does this for one end."""
        frontier = self.frontiers[p]
        known = node in frontier.promised
        frontier.narrow(node, low, high)
        self._limit(p, node, known)
        return known

    def _limit(self, p: int, node: Node, known: bool) -> None:
        """Write the promised bounds of an expression to the tables of the kernels, if these contain the expression."""
        if known:
            row = self.source_table(p)[self.sources[p].nodes.index(node)]
            row["low"], row["high"], row["spares_nan"] = self.frontiers[p].limits_of(node)

    def learn(self) -> None:
        stores = self.stores
        super().learn()
        if self.stores is stores:  # no axis was added
            limit, self.account.limit = self.account.limit, None  # not enforced, because these small tables evict rows
            try:
                self.tabulate()
            finally:
                self.account.limit = limit
