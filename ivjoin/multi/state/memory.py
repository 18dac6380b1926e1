"""A memory limit that all steps of a join of many inputs share, and its errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol
from weakref import ref

import pyarrow as pa

from ivjoin.errors import MemoryLimitError, UnsupportedError
from ivjoin.metrics import MultiJoinMetrics
from ivjoin.operator.match.step_join import StepJoin
from ivjoin.operator.memory.budget import Budget, WhenFull, budget_of
from ivjoin.operator.memory.pair_limits import fixed_bytes

__all__ = ["SharedLimit", "allowed", "part_of", "refused", "stopped"]

_LEAST_ROWS = 16  # of a piece
_MOST_OUTPUT, _LEAST_OUTPUT = 16 << 20, 4 << 10
_SCRATCH = 160  # bytes that a row takes while it is pushed


def allowed(memory_limit: int | str | None, when_full: WhenFull) -> Budget | None:
    """Return the memory budget of a join of many inputs; None without a limit. Refuse to shed."""
    budget = budget_of(memory_limit, when_full)
    if budget is not None and budget.when_full == "shed":
        raise UnsupportedError(
            "when_full='shed' is not supported with many inputs, because the value of a view's rows is not known. "
            "Use when_full='spill', which is exact, omit when_full, which raises MemoryLimitError at the limit, or "
            "join pairs with band_join"
        )
    return budget


def part_of(budget: Budget, steps: int) -> Budget:
    """Return the equal part of the limit for each step that spills."""
    return replace(budget, limit=max(1, budget.limit // steps), whole=budget.limit)


class LimitedJoin(Protocol):
    operators: list[StepJoin]

    @property
    def metrics(self) -> MultiJoinMetrics: ...


class SharedLimit:
    """Watch the memory of all steps of a join.

    A step requests memory before it uses it. If the request of the first step of a batch fails, the batch is refused,
    and nothing has changed. If the request of a later step fails, the results of the batch are incomplete, so the join
    stops.
    """

    def __init__(self, op: LimitedJoin, limit: int) -> None:
        self.limit = limit
        self._op = ref(op)
        n = len(op.operators)
        output = min(max(limit // (8 * n), _LEAST_OUTPUT), _MOST_OUTPUT)
        for step in op.operators:
            step.limit(limit, output, self.held, self._on_full)

    def held(self) -> int:
        op = self._op()
        return 0 if op is None else sum(step.held[1] for step in op.operators)

    def give_back(self) -> None:
        op = self._op()
        assert op is not None
        for step in op.operators:
            step.give_back()

    @property
    def is_near(self) -> bool:
        """Return whether rows should be evicted as early as possible."""
        return 2 * self.held() > self.limit

    def most_rows(self, batch: pa.RecordBatch) -> int:
        """Return the rows of a piece, so that a piece takes a small part of the limit."""
        op = self._op()
        assert op is not None
        size = max(fixed_bytes(batch.schema), -(-batch.nbytes // max(batch.num_rows, 1))) + _SCRATCH
        most = max(self.limit // (16 * len(op.operators) * size), _LEAST_ROWS)
        return int(1 << (most.bit_length() - 1))

    def _on_full(self, needed: int, held: int) -> None:
        op = self._op()
        assert op is not None
        m = op.metrics
        rows = {f"input {a}": n for a, n in m.stored.items()} | {f"view ({v})": n for v, n in m.views.items()}
        most = sorted(rows, key=lambda name: -rows[name])
        sides = ", ".join(f"{name} {rows[name]:,}" for name in most if rows[name]) or "none"
        ways = ["a greater memory_limit", "narrower bands, or orders and bounds that evict rows"]
        if m.views:
            ways.append("views='none', which stores no joined rows")
        ways.append("when_full='spill', which continues in files")
        raise MemoryLimitError(
            f"memory_limit of {self.limit:,} bytes: {held:,} are in use and {needed:,} more are needed. Rows in state: "
            f"{sides}. Fixes: {'; '.join(ways)}"
        )


def refused(error: MemoryLimitError, rows: int) -> MemoryLimitError:
    """Return the error of a batch whose first rows were taken and whose other rows were refused."""
    if rows:
        said = f"Of the batch, the first {rows:,} rows were taken and no more. Push batch.slice({rows}) again"
    else:
        said = "The batch was not taken; push it again"
    out = MemoryLimitError(error.reason, f". {said} when memory is free, as after advance or finish of another input")
    out.rows_taken = rows
    return out


def stopped(error: MemoryLimitError) -> MemoryLimitError:
    return MemoryLimitError(error.reason, (
        ". Part of the batch had been joined, so this operator has stopped: restore an earlier snapshot with a greater "
        "memory_limit"
    ))
