"""Limit an operator to its budget: use smaller steps, and free memory when the next step does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from weakref import ref

import pyarrow as pa

from ivjoin.errors import MemoryLimitError
from ivjoin.operator.match import steps
from ivjoin.operator.match.pair_state import PairState
from ivjoin.operator.memory.budget import GOES_ON, LEAST_ROWS, Budget
from ivjoin.operator.memory.dropping import Dropping
from ivjoin.operator.memory.lost_matches import Recall
from ivjoin.operator.memory.spilling import Spilling
from ivjoin.operator.memory.trimming import Trimming
from ivjoin.plan.spec import SIDES

__all__ = ["PairLimits", "fixed_bytes"]

_MOST_BEYOND = 8 << 20  # bytes of file pages that a step may read beyond the limit
_LEAST_STEP = 1024
_SOME_KEYS = 64  # keys without rows that are ignored, on top of a quarter of the keys with rows
# The part of the limit that the rows of a step may use, for a limit below and above _LARGE. If rows are looked up in
# files, the fixed cost of a step is large compared with the cost of its few rows.
_PART, _LARGE, _LARGE_PART = 16, 4 << 20, 8
_FILED_ROWS, _MAPPED_ROWS = 1 << 14, 2048  # rows pushed at once if the files fit in memory, and if they do not


class PairLimits:
    """The memory limit of one running join that emits pairs."""

    def __init__(self, engine: PairState, budget: Budget) -> None:
        self.budget = budget
        self._engine = ref(engine)
        self._step = 1 << 16  # rows that are pushed or emitted before file pages are released
        self._row_bytes = [fixed_bytes(side.schema) for side in engine.plan.sides]
        self._varies = [any(not _is_fixed(t) for t in side.schema.types) for side in engine.plan.sides]
        self._trimming = Trimming(budget)
        self.spilling = Spilling(engine, budget, self._trimming.start) if budget.when_full == "spill" else None
        self.dropping = Dropping(engine, budget) if budget.when_full == "shed" else None
        way = self.spilling or self.dropping
        self._full: Callable[[int, int], bool] = (lambda needed, held: False) if way is None else way.make_room
        engine.account.limit = budget.limit if self.dropping is None else self.dropping.allowed
        engine.account.on_full = self._on_full
        self._fit_output(engine)

    def most_rows(self, p: int, batch: pa.RecordBatch) -> int:
        """Return how many rows of a batch to push at once, so that their memory is small compared with the limit."""
        engine, n = self._engine(), batch.num_rows
        assert engine is not None
        if n and self._varies[p]:
            size = -(-batch.nbytes // n)
            if size > self._row_bytes[p]:
                self._row_bytes[p] = size
                self._fit_output(engine)
        scratch = 9 * max(len(s.nodes) for s in engine.sources) + 100
        limit = self.budget.limit
        part = _PART if limit < _LARGE else _LARGE_PART
        most = max(limit // (part * (scratch + self._row_bytes[p])), LEAST_ROWS)
        if self.spilling is not None:
            most = min(most, _MAPPED_ROWS if self.spilling.is_crowded else _FILED_ROWS, self._step)
            if engine.builder.batch_size > self._step:
                engine.limit_output(self._step)
        return int(1 << (most.bit_length() - 1))

    def take_pieces(self, p: int, batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
        """Return the output of a batch that is too large for one step, pushed in pieces of ``most`` rows.

        If lateness is measured only against earlier batches, a MemoryLimitError is raised: pieces would make more rows
        late.
        """
        engine = self._engine()
        assert engine is not None
        if not engine.intake.late_within:
            raise MemoryLimitError(
                f"a batch of {batch.num_rows:,} rows is too large for memory_limit, expected {most:,} rows at most; "
                "give smaller batches or a greater limit"
            )
        engine.intake.refuse_first(p, batch)
        return self._pieces(engine, p, batch, most)

    def _pieces(self, engine: PairState, p: int, batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
        for start in range(0, batch.num_rows, most):
            try:
                self.make_ready(p, min(most, batch.num_rows - start))
                out = steps.push(engine, p, batch.slice(start, most))
            except MemoryLimitError as e:
                if start and engine.is_refused(e):
                    raise _taken_before(e, start) from e
                raise
            if isinstance(out, pa.RecordBatch):
                yield out
            elif out is not None:
                yield from out
            self.took(p, batch.slice(start, most))
            self.stepped()  # the consumer does this after each output batch, but a piece may have no output

    def make_ready(self, p: int, n: int) -> None:
        """Prepare for n rows of side p: reuse ids of keys without rows, and spill the excess of the last step."""
        engine = self._engine()
        assert engine is not None
        keys, limit = engine.keys, engine.account.limit
        if keys.used > keys.live + keys.live // 4 + _SOME_KEYS:
            if limit is not None and engine.bytes_held() > limit - limit // 4 and not engine.state.get("prepared"):
                keys.take_back(n)  # not during a push, because no stored row has the keys of its batch yet
                engine.moved()
        if self.spilling is not None:
            self.spilling.coming = p, n
        self.stay_within()

    def stay_within(self) -> None:
        if self.spilling is not None:
            self._shrink()

    def fit(self) -> None:
        with suppress(MemoryLimitError):  # the disk may be full
            self._shrink()

    def _shrink(self) -> None:
        engine = self._engine()
        if engine is not None and not engine.account.fits_now():
            self._full(0, engine.bytes_held())

    @property
    def nbytes(self) -> int:
        return 0 if self.dropping is None else self.dropping.nbytes

    @property
    def recall(self) -> Recall | None:
        """Return the estimate of lost matches, or None if no rows are dropped."""
        return None if self.dropping is None else self.dropping.recall

    def took(self, p: int, batch: pa.RecordBatch) -> None:
        if self.dropping is not None:
            self.dropping.saw(p, batch)

    def stepped(self) -> None:
        self._trimming.stepped()
        if self.spilling is not None and self.spilling.release_pages() > _MOST_BEYOND:
            self._step = max(_LEAST_STEP, self._step // 2)

    def _fit_output(self, engine: PairState) -> None:
        engine.limit_output(max(LEAST_ROWS, min(self.budget.output_rows(sum(self._row_bytes)), self._step)))

    def _on_full(self, needed: int, held: int) -> bool:
        engine = self._engine()
        assert engine is not None
        assert engine.account.limit is not None
        if not self._full(needed, held):
            raise limit_error(engine, self.budget, needed, held)
        return True


def _is_fixed(t: pa.DataType) -> bool:
    try:
        return t.bit_width > 0
    except ValueError:
        return False


def fixed_bytes(schema: pa.Schema) -> int:
    """Return the bytes of a row of a schema. A value of varying size counts as 24 bytes."""
    return sum(t.bit_width // 8 + 1 if _is_fixed(t) else 24 for t in schema.types)


def limit_error(engine: PairState, budget: Budget, needed: int, held: int) -> MemoryLimitError:
    """Return the error. Its text states what uses memory, what would evict rows, and the fixes."""
    from ivjoin.operator.explaining.explain import kept_lines

    sizes = [store.nbytes for store in engine.stores]
    largest = int(sizes[1] > sizes[0])
    sides = "; ".join(
        f"{SIDES[s]} stores {engine.stores[s].live:,} rows in {sizes[s]:,} bytes" for s in (largest, 1 - largest)
    )
    ways = ["a greater memory_limit"]
    if budget.when_full != "spill":
        ways.append("when_full='spill' (files, exact)")
    if budget.when_full != "shed" and not budget.whole and engine.how.name in ("inner", "left_semi", "right_semi"):
        ways.append("when_full='shed' (drops rows: a subset of the result)")
    if len(ways) < 3:
        ways.append("a narrower window, or orders and bounds that evict rows")
    why = ""
    if budget.when_full == "spill":
        why = " Everything that can be spilled is in files: one step needs more than the limit."
    elif budget.when_full == "shed":
        why = " No row is left to drop: one step needs more than the limit."
    if budget.whole:  # the caller did not name the sides of this step
        return MemoryLimitError(
            f"memory_limit of {budget.whole:,} bytes, {budget.limit:,} for each step: one step uses {held:,} and "
            f"needs {needed:,} more.{why} Fixes: {'; '.join(ways)}"
        )
    waiting = [bool(f.trackers) and not any(t.seen_value for t in f.trackers) for f in engine.frontiers]
    kept = [f"no {SIDES[s]} row has arrived, so no {SIDES[1 - s]} row can be evicted" for s in (0, 1) if waiting[s]]
    kept = kept or [line.strip() for line in kept_lines(engine.plan, engine.frontiers)]
    return MemoryLimitError(
        f"memory_limit of {budget.limit:,} bytes: {held:,} are in use and {needed:,} more are needed. {sides}.{why} "
        f"What evicts rows: {'. '.join(kept)}. Fixes: {'; '.join(ways)}", GOES_ON
    )


def _taken_before(error: MemoryLimitError, rows: int) -> MemoryLimitError:
    """Return the error for a batch after its first ``rows`` rows were pushed successfully."""
    out = MemoryLimitError(error.reason, (
        f". Of the batch, the first {rows:,} rows were taken and no more: push batch.slice({rows}) again when memory "
        "is free, or to an operator that was restored from snapshot() with a greater limit"
    ))
    out.rows_taken = rows
    return out
