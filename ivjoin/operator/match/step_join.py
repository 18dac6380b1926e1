"""Join two inputs as one step of a join of many inputs. The other inputs provide additional bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from ivjoin.expr.nodes import Node
from ivjoin.operator.explaining.output_bounds import outside, stored_span
from ivjoin.operator.match.pair_engine import PairEngine
from ivjoin.operator.match.room import make_batch_room, make_row_room
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.memory.pair_limits import fixed_bytes
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.operator.protocol import Output
from ivjoin.plan.spec import JoinSpec
from ivjoin.shj.store.rows.ring_room import drop, renumber

__all__ = ["StepJoin"]

_LEAST_OUTPUT = 16  # least rows of an output batch
_LEAST_ROOM = 1024  # stores with fewer rows are not shrunk


class StepJoin(SymmetricHashJoin):
    """An operator whose caller bounds the later rows of its sides, and reads its stored rows."""

    _engine: PairEngine
    _takes = False  # because the caller sets a limit after the operator is created

    @classmethod
    def restored(cls, blob: bytes, budget: Budget | None) -> StepJoin:
        """Restore an operator like :meth:`restore`, within a budget from the first row on."""
        return cls._restored(blob, budget)

    def narrow(self, side: str, spans: Mapping[Node, tuple[int, int]]) -> Output:
        """Promise that later rows of a side whose values are outside closed intervals are irrelevant.

        Unlike :meth:`advance`, this bounds both ends. It accepts ordinals (``ivjoin.expr.ordinal``) of expressions
        without errors. A row outside the intervals counts as late. An interval wider than the known one has no effect.
        """
        p = self._side(side)
        self._enter()
        try:
            return self._start("narrow", self._narrowed(p, spans))
        finally:
            self._busy = False

    def _narrowed(self, p: int, spans: Mapping[Node, tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        known = [self._engine.narrow(p, node, *span) for node, span in spans.items()]
        if not all(known):
            self._engine.learn()
        yield from self._engine.frontier_moved(p)

    def stored_spans(self, side: str, nodes: Sequence[Node]) -> dict[Node, tuple[int, int] | None]:
        """Return the least and greatest ordinal of expressions in the stored rows of a side, or None if all are NULL.
        """
        p = self._side(side)
        self._enter()
        try:
            return {node: stored_span(self._engine, p, node) for node in nodes}
        finally:
            self._busy = False

    def let_go(self, side: str, spans: Mapping[Node, tuple[int, int]]) -> int:
        """Drop the stored rows of a side with a value outside closed intervals of ordinals. Return their number.

        The caller knows that no later result contains these rows. Rows without a value stay. This reads every stored
        row.
        """
        p, engine = self._side(side), self._engine
        self._enter()
        try:
            engine.link()
            store = engine.stores[p]
            gone = outside(engine, p, spans)[: store.live]  # rows in files stay until their own bounds evict them
            if gone.any():
                drop(store, store.live_ids(), gone)
                engine.keys.sweep()
                engine.moved()
            return int(np.count_nonzero(gone))
        finally:
            self._busy = False

    def limit(self, limit: int, output: int, held: Callable[[], int], on_full: Callable[[int, int], None]) -> None:
        """Limit the memory of all steps together. Each step checks it before it allocates more; see :class:`Account`.

        ``output`` is the approximate size of an output batch in bytes.
        """
        engine = self._engine
        engine.stay_linked()
        engine.account.limit, engine.account.on_full = limit, on_full
        engine.account.share(held)
        engine.limit_output(max(_LEAST_OUTPUT, output // sum(fixed_bytes(s.schema) for s in engine.plan.sides)))

    def keep_within(self, budget: Budget) -> None:
        self._limit(budget)

    def reserve(self, side: str, batch: pa.RecordBatch) -> None:
        """Reserve memory for a batch, without its keys, which are unknown yet. MemoryLimitError if it does not fit."""
        engine, p = self._engine, self._side(side)
        self._enter()
        try:
            engine.link()
            if engine.layouts[p].schema is None:
                make_batch_room(engine, p, batch)
            try:
                make_row_room(engine, p, batch.num_rows)
            finally:
                engine.moved()
        finally:
            self._busy = False

    def give_back(self) -> None:
        """Free all memory that the stored rows do not need. Call it when memory is full, because it moves the rows."""
        engine = self._engine
        self._enter()
        try:
            engine.link()
            for store in engine.stores:
                store.shrink(True)
                if store.cap > 4 * store.live + _LEAST_ROOM:
                    renumber(store, store.live_ids(), store.live + store.live // 2)
            engine.keys.sweep()
            engine.moved()
            engine.state.set(largest=0)
            engine.state.fit(max(store.live for store in engine.stores))
        finally:
            self._busy = False

    def refused(self, error: BaseException) -> bool:
        return self._engine.is_refused(error)

    @property
    def question(self) -> tuple[JoinSpec, tuple[bool, bool]]:
        return self._engine.plan.spec, self._engine.keeps

    @property
    def rows(self) -> int:
        return self._engine.rows_held

    @property
    def held(self) -> tuple[int, int]:
        """Return the number of stored rows, and the bytes of the state."""
        return self.rows, self._engine.bytes_held()

    def stored(self, side: str) -> int:
        p, in_files = self._side(side), self._engine.in_files
        return int(self._engine.state.sides[p]["live"]) + (0 if in_files is None else in_files.sides[p].live)

    @property
    def spilled(self) -> tuple[int, int]:
        """Return the number of rows with columns in files, and the bytes of the files."""
        m = self._engine.counts()
        return m.spilled_rows, m.spilled_bytes
