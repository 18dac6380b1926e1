"""Define the interface of an operator's engine.

Two engines exist. ``match`` emits a pair as soon as both rows have arrived. ``lookup`` emits one answer for each left
row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Any, TypeAlias
from weakref import WeakMethod

import numpy as np
import pyarrow as pa

from ivjoin.expr import build
from ivjoin.expr.conjuncts import conjuncts_of
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import from_arrow
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.intake import Intake
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.memory.memory_parts import Limit
from ivjoin.operator.pruning.prune_bounds import Bounder
from ivjoin.plan.derivations import Derived
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.spec import SIDES
from ivjoin.shj.store.account import Account

__all__ = ["Engine", "RowsAtHand"]

RowsAtHand: TypeAlias = Iterator[tuple[Callable[[int], pa.Array | None], int]]


class Engine:
    """The state of an operator, and the work of each call."""

    full_predicate: bool  # whether the whole condition is evaluated for each pair
    keeps = (True, True)  # for each side: whether its rows are stored, or only probe the other side
    limits: Limit | None

    def __init__(self, plan: JoinPlan, late_within: bool) -> None:
        self.plan = plan = plan.own()
        self.how, self.layouts = plan.how, row_layouts(plan)
        self.frontiers = plan.frontiers()
        self.bounder = Bounder(plan, self.frontiers)
        self.intake = Intake(plan, self.frontiers, late_within)
        self.rekeyed, self.ended = False, [False, False]
        self.watermarks: dict[tuple[int, str], tuple[Node, bool]] = {}  # by the expression text passed to ``advance``
        self.metrics = JoinMetrics()
        held = WeakMethod(self.bytes_held)  # weak, because the account is a member
        self.account = Account(lambda: (of() if (of := held()) else 0))

    def push(self, p: int, batch: pa.RecordBatch) -> pa.RecordBatch | Iterator[pa.RecordBatch] | None:
        """Process a batch of side p. Return the whole output as one batch, or an iterator of output batches."""
        raise NotImplementedError

    def count_as_matched(self, matched: bool) -> None:
        """Set whether later pushed rows count as matched, so that they are never emitted as unmatched. Pairs only."""
        raise NotImplementedError

    def frontier_moved(self, p: int) -> Iterator[pa.RecordBatch]:
        """Emit the rows that are final now that side p's frontier has moved, and evict rows."""
        raise NotImplementedError

    def end(self, sides: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Emit the rows that are final now that these sides have ended."""
        raise NotImplementedError

    def promise(self, p: int, node: Node, ordinal: int, descending: bool) -> bool:
        """Record a promise about later rows of a side. Return whether its expression was already known."""
        known = node in self.frontiers[p].promised
        self.frontiers[p].promise(node, ordinal, descending)
        return known

    def learn(self) -> None:
        """Add the axes that can prune after the frontiers got new expressions."""
        for frontier in self.frontiers:
            frontier.refresh()  # kernels move the bounds on their own; this computes all of them again
        missing = list(self.bounder.missing_axes())
        for s, node in missing:
            if node not in self.plan.sides[s].axes:
                self.plan.add_axis(s, node)
        if missing:
            self.plan.derived = Derived()
            for s in (0, 1):
                self.bounder.refit(s)
            self.rebuild()

    def rekey(self) -> None:
        """Match by plain columns alone after a computed key failed for a row. The condition decides each pair."""
        plan = self.plan
        plain = [a.op == b.op == "column" for a, b in zip(plan.sides[0].keys, plan.sides[1].keys, strict=True)]
        self.rekeyed = True
        plan.null_safe = list(compress(plan.null_safe, plain))
        for side in plan.sides:
            side.keys = list(compress(side.keys, plain))
        plan.derived = Derived()
        self.full_predicate = True  # set this first: rows may be evicted as soon as the state is rebuilt
        self.rebuild()

    def rebuild(self) -> None:
        """Rebuild the state from the stored rows after the plan's keys or axes have changed."""
        raise NotImplementedError

    def limit(self, budget: Budget) -> None:
        """Apply a memory budget from now on."""
        raise NotImplementedError

    def rows_at_once(self, p: int, batch: pa.RecordBatch) -> int:
        """Return how many rows of a batch one step processes."""
        return batch.num_rows

    def look(self) -> None:
        """Report which part of the result was lost, if the memory limit drops rows."""

    def is_refused(self, error: BaseException) -> bool:
        """Return whether a push failed for lack of memory or disk space before it changed any state."""
        raise NotImplementedError

    def let_go(self) -> None:
        """Release the state of an operator that has stopped."""
        raise NotImplementedError

    @property
    def rows_held(self) -> int:
        """Return the number of stored rows."""
        raise NotImplementedError

    def bytes_held(self) -> int:
        """Return the approximate bytes of the state."""
        raise NotImplementedError

    def counts(self) -> JoinMetrics:
        """Return the current metrics."""
        raise NotImplementedError

    def count_state(self) -> None:
        """Record the peak number of rows and bytes of the state in the metrics."""
        m = self.metrics
        m.peak_state_rows = max(m.peak_state_rows, self.rows_held)
        m.peak_state_bytes = max(m.peak_state_bytes, self.bytes_held())

    def stepped(self) -> None:
        """Record the size of the state after a step."""
        self.count_state()
        if self.limits is not None:
            self.limits.stepped()

    def rows_at_hand(self, s: int, taking: bool) -> RowsAtHand:
        """Yield the rows of side s that later output may contain: (function from place to column or None, row count).

        While a call's output is being emitted, pass ``taking``: it adds the call's batch and the stored rows that the
        call may have decided.
        """
        raise NotImplementedError

    def saved_rows(self, s: int) -> tuple[list[pa.Array], np.ndarray]:
        """Return the stored rows of a side for a snapshot: its columns, and which rows have matched : bool[n]."""
        raise NotImplementedError

    def adopt_rows(self, s: int, arrays: list[pa.Array], matched: np.ndarray) -> None:
        """Store rows of a snapshot, given as the stored columns of the side."""
        raise NotImplementedError

    def saved_layout(self, s: int) -> tuple[int | None, int | None] | None:
        """Return the axes that sort a side's rows, if they were chosen while the join ran."""
        return None

    def lay_out(self, s: int, axis: int | None, second: int | None) -> None:
        """Set the axes that sort the rows of a side. Call it before the first row is stored."""

    def saved_sample(self) -> dict[str, Any] | None:
        """Return the sample of rows that the memory limit has dropped, or None if the limit drops no rows."""
        return None

    def load_sample(self, saved: Any) -> None:
        """Restore the sample of a snapshot, if rows are dropped."""

    def refresh_bounds(self) -> None:
        """Compute axes and bounds again after a caller has set the frontiers."""
        raise NotImplementedError

    def decides(self) -> list[Node]:
        """Return the conjuncts that are still evaluated for each pair. They do not say when a row is final."""
        return list(conjuncts_of(self.plan.condition) if self.full_predicate else self.plan.separation.residual)

    def column(self, s: int, index: int) -> Node:
        """Return the node of a column of side s."""
        field = self.plan.sides[s].schema.field(index)
        return build.column(SIDES[s], field.name, from_arrow(field.type))
