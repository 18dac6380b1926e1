"""Run a join of two inputs: push rows or join slices, and choose the number of threads and the size of pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa

from ivjoin.arguments import MOST_ROWS
from ivjoin.frontier.late import Report
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.explaining.explain import explain_plan
from ivjoin.operator.explaining.picture import Explanation
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.cutting import Cut, cut_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.stream.after.explained import explain_inputs
from ivjoin.stream.running import Run
from ivjoin.stream.sort.picked import arrange_picked
from ivjoin.stream.sort.sorting import Arranged, arrange, as_they_are
from ivjoin.stream.sources.columns import Chosen
from ivjoin.stream.sources.compared import warn_of_pairs
from ivjoin.stream.sources.gathering import Pieces
from ivjoin.stream.sources.idle import Idle, Readers
from ivjoin.stream.sources.inputs import Source
from ivjoin.stream.tables.looked_up import looked_up
from ivjoin.stream.threads.cpus import threads_for
from ivjoin.stream.threads.memory import threads_within, to_the_end
from ivjoin.stream.threads.sliced_stream import SlicedStream, can_slice_stream

if TYPE_CHECKING:
    from ivjoin.expr.literals import Value
    from ivjoin.stream.after.lockstep import Lockstep
    from ivjoin.stream.tables.lookup_parts import LookupParts
    from ivjoin.stream.tables.table_join import TableJoin
    from ivjoin.stream.tables.table_lookup import TableLookup

__all__ = ["RunOfTwo"]

Pusher: TypeAlias = "SymmetricHashJoin | SlicedStream | Lockstep"

_LEAST_IN_SLICES = 1 << 15  # rows of both sides; pushing fewer rows takes less time than loading the kernel of slices

# Rows of a push, for any size of the input's batches. The state stores a pushed batch as a whole. This limit therefore
# keeps the state near the size of the window if the input is one large batch.
_PUSH_ROWS = 2048
# The same if both sides are completely in memory. A piece of one side then costs only a search in the other side.
_SWEEP_ROWS = 8192
# The same if each row is compared with all rows in state. No key divides these, and no band with two ends limits the
# search. Rows of the same piece are also compared, so pieces are small.
_WALKED_ROWS = 512
_PARALLEL_ROWS = 65536  # with several threads: half a slice
# If each left row takes one row of a side that is read first, a piece is sorted and compared as a whole.
_PICK_ROWS = 1 << 18
_LEAST_ROWS, _LIMIT_A_ROW = 1024, 4096  # the same with a limit: least rows, and bytes of the limit for each row


class RunOfTwo(Run):
    """A join of two inputs. It inspects and sorts its inputs when the caller requests the first row."""

    def __init__(
        self, found: Chosen, sources: tuple[Source, Source], sort: bool, threads: int | Literal["auto"],
        budget: Budget | None = None, report: Report | None = None, idle: Idle | None = None,
    ) -> None:
        self._report, self._idle, self._budget = report, idle, budget
        threads = threads if idle is None else 1
        self.read_from = [files for source in sources for files in source.read_from]
        self._chosen, self._plan, self.schema = found, found.plan, found.schema
        self._sorts = sort  # whether inputs without an order may be sorted
        self._looked_up: TableLookup | LookupParts | None = None
        self._in_memory = all(source.in_memory for source in sources)
        self._rows = sum(source.rows or 0 for source in sources)
        self._ends = all(source.ends for source in sources) and budget is None and idle is None
        # Rows of small files are pushed. A slice would be a large part of them, and pushes store only the window.
        least = _LEAST_IN_SLICES if self._in_memory else 8 * _LEAST_IN_SLICES
        # One thread also joins files in slices, because this is faster than pushing their rows.
        self._of_files = self._ends and not self._in_memory
        self._few = self._ends and None not in (s.rows for s in sources) and self._rows < least
        if threads == "auto":
            self._table_threads = threads_for(self._rows) if self._ends else 1
            self._threads = 1 if self._in_memory else self._table_threads
        else:
            self._table_threads = self._threads = threads_within(budget, threads)
        self._sources: tuple[Source, Source] | None = sources  # None after the end
        self._most = _PUSH_ROWS  # rows per push
        self._arranged: Arranged | None = None
        self._open(sources)
        self._op = self._pusher(self._plan)
        self.operator: Pusher | TableJoin | TableLookup | LookupParts = self._op

    @property
    def metrics(self) -> JoinMetrics:
        return self.operator.metrics

    @property
    def question(self) -> str:
        plan = self._plan
        return f"{plan.how.name} join" + ("" if plan.condition is None else f" on {plan.condition}")

    def explain(self) -> Explanation:
        several = self._chosen.several
        if self._arranged is not None:
            text = explain_plan(self._arranged.plan, None, [self.sorting] if self.sorting else [])
        else:
            text = explain_inputs(self._plan, self._sources or (None, None), self._sorts)
        return text if several is None else text.with_line(several.said)

    def output_bounds(self) -> dict[str, tuple[Value | None, Value | None]]:
        return self.operator.output_bounds()

    def release(self) -> None:
        if not isinstance(self.operator, SymmetricHashJoin):
            self.operator.close()
        self._sources = self._looked_up = None
        if self._arranged is not None:
            self._arranged = replace(self._arranged, batches=(iter(()), iter(())), sweep=None, ready=(None, None))

    def output(self) -> Iterator[pa.RecordBatch]:
        return map(self._chosen.pick, to_the_end(self._joined()))

    def _joined(self) -> Iterator[pa.RecordBatch]:
        arranged, inputs = self._begin()
        self._arranged, self.sorting = arranged, arranged.said
        whole = self._tables_in_slices(arranged)
        if whole is not None:
            self.operator = whole
            yield from whole.output()
            return
        if arranged.plan is not self._plan:
            self._op = self.operator = self._pusher(arranged.plan, arranged.errors_first, arranged.copies)
        yield from self._pushed(self._op, arranged, inputs)

    def _pusher(self, plan: JoinPlan, errors_first: bool = False, copies: bool = False) -> Pusher:
        cut = self._cut(plan)
        op: Pusher
        if self._chosen.several is not None:
            op = self._chosen.several.operator(plan, errors_first, self._budget)
        elif cut is None:
            op = SymmetricHashJoin.from_plan(plan, errors_first=errors_first, budget=self._budget)
        else:
            views = self._in_memory and not copies
            op = SlicedStream(plan, cut, self._threads, errors_first, views, self._budget)
        op.report_late(self._report)
        return op

    def _cut(self, plan: JoinPlan) -> Cut | None:
        """Return the axis along which pushed rows are joined in slices, or None if one operator processes all rows.

        Tables in memory are joined in slices of rows, or by one thread, so that the order does not depend on the
        threads.
        """
        if self._chosen.several is not None or (self._in_memory and self._budget is None):
            return None
        if self._few and not plan.looks_up:
            return None
        cut = cut_of(plan) if self._threads > 1 or self._of_files else ""
        return None if isinstance(cut, str) or not can_slice_stream(plan, cut, self._budget) else cut

    def _open(self, sources: tuple[Source, Source]) -> None:
        """Skip the row groups that cannot match, and start to read the inputs that must not wait."""
        left, right = sources
        if left.ranges is not None and right.ranges is not None:
            ranges = left.ranges, right.ranges.of_side("right")
            from ivjoin.plan.derived.row_groups import meeting_groups

            # Each of several lookups needs its own row groups.
            several = self._chosen.several
            plans = [self._plan] if several is None else several.plans()
            met = [meeting_groups(plan, ranges) for plan in plans]
            kept = [sorted({group for groups in met for group in groups[s]}) for s in (0, 1)]
            self.skipped = ranges[0].row_groups - len(kept[0]), ranges[1].row_groups - len(kept[1])
            for source, groups in zip(sources, kept, strict=True):
                source.keep_groups(groups)
        for source in sources:
            source.ready()

    def _begin(self) -> tuple[Arranged, tuple[Pieces, Pieces]]:
        assert self._sources is not None
        if self._plan.looks_up and self._budget is None:
            self._looked_up = looked_up(self._plan, self._sources, self._table_threads, self._chosen.several)
        sorts = self._sorts and self._looked_up is None
        if self._plan.spec.picks_one:
            arranged = arrange_picked(self._plan, self._sources, sorts, self._table_threads, self._budget)
        else:
            arrange_ = arrange if sorts else as_they_are
            arranged = arrange_(self._plan, self._sources, self._table_threads, self._budget)
        self._most = self._rows_of_a_push(arranged)
        if self._looked_up is None and self._takes_parts(arranged):
            from ivjoin.stream.tables.lookup_parts import LookupParts

            self._looked_up = LookupParts(self._chosen, arranged.batches, self._table_threads)
        if not any(side.orders for side in arranged.plan.sides):
            warn_of_pairs(arranged.plan, arranged.rows, arranged.compared)
        most = [self._most, self._most]
        if self._plan.spec.picks_one and arranged.leads == 1 and self._budget is None:
            most[1] = MOST_ROWS  # stored as a whole, because gathering rows from many pieces is slow
        left, right = (
            Pieces(batches, rows, source.in_memory)
            for batches, source, rows in zip(arranged.batches, self._sources, most, strict=True)
        )
        return arranged, (left, right)

    def _rows_of_a_push(self, arranged: Arranged) -> int:
        spec = self._plan.spec
        if self._cut(arranged.plan) is not None:
            most = _PARALLEL_ROWS
        elif spec.picks_one:
            together = _PARALLEL_ROWS if self._ends else _SWEEP_ROWS
            most = together if arranged.leads is None else _PICK_ROWS
        else:
            most = _PARALLEL_ROWS if spec.grouped else _PUSH_ROWS
        if self._budget is not None and (spec.pick is not None or spec.grouped):
            # A push is refused as a whole, so it must be a small part of the limit.
            most = min(most, max(_LEAST_ROWS, self._budget.limit // _LIMIT_A_ROW))
        return most

    def _takes_parts(self, arranged: Arranged) -> bool:
        """Return whether left rows are answered in parts, because nothing limits the right rows to read."""
        plain = not any(side.orders or side.bounds for side in arranged.plan.sides)
        return plain and self._budget is None and self._of_files

    def _tables_in_slices(self, arranged: Arranged) -> TableJoin | TableLookup | LookupParts | None:
        """Return the join of two tables in slices, or None if their rows are pushed."""
        if self._plan.looks_up:
            return self._looked_up
        if self._sources is None or self._budget is not None or self._rows < _LEAST_IN_SLICES:
            return None
        from ivjoin.stream.tables.table_join import table_join

        return table_join(arranged, self._sources, self._table_threads)

    def _pushed(self, op: Pusher, arranged: Arranged, inputs: tuple[Pieces, Pieces]) -> Iterator[pa.RecordBatch]:
        """Push rows piece by piece, and yield the output."""
        first = arranged.first
        if arranged.sweep is not None:
            most = _WALKED_ROWS if _walks(arranged.plan) else max(_SWEEP_ROWS, self._most)
            for p, piece in arranged.sweep.turns(most):
                yield from op.finish(SIDES[p]) if piece is None else op.push(SIDES[p], piece)
            return
        readers = None
        if self._idle is not None and first is None and not isinstance(op, SlicedStream):
            readers = Readers(op, inputs, self._idle)
        sides = inputs if readers is None else readers.sides
        open_ = [True, True]
        try:
            while open_[0] or open_[1]:
                if first is not None and open_[first]:
                    p = first
                else:
                    p = 0 if not open_[1] else 1 if not open_[0] else op.lagging(sides[0].rows, sides[1].rows)
                if readers is not None and open_[1 - p]:
                    p = readers.turn(p)
                batch = sides[p].next()
                if batch is None:
                    open_[p] = False
                    yield from op.finish(SIDES[p])
                    continue
                yield from op.push(SIDES[p], batch)
                if readers is not None and open_[1 - p]:
                    yield from readers.advanced(p)
        finally:
            if readers is not None:
                readers.stop()


def _walks(plan: JoinPlan) -> bool:
    terms = plan.kernel_terms
    below = {n for t in terms if t.lo is not None for n in (t.left, t.right)}
    above = {n for t in terms if t.hi is not None for n in (t.left, t.right)}
    return not plan.sides[0].keys and not below & above
