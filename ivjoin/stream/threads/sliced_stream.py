"""Join streams and rows of files on several threads: cut an axis into slices, and join each slice as a whole.

Rows are collected until no later row can belong to a slice. Then the next free thread joins it. Rows of the other side
that can match rows of two slices are in both. This works for any keys, including skewed ones (TiLT, ASPLOS 2023). In a
full join, each row has one home: the slice of its own value, or of the least value it can match. Copies in other slices
are not emitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin.frontier.late import Report
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.intake import Intake
from ivjoin.operator.match.whole import Whole
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.outer.batches import pieces_of
from ivjoin.plan.cache import plan_of
from ivjoin.plan.cutting import Cut, why_not_cut
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.stream.known_bounds import known_bounds
from ivjoin.stream.threads.memory import Memory
from ivjoin.stream.threads.pieces import cut_at
from ivjoin.stream.threads.slice_joins import Joiners, SliceTask
from ivjoin.stream.threads.sliced_axis import SlicedAxis
from ivjoin.stream.workers import Workers

if TYPE_CHECKING:
    from ivjoin.stream.threads.carried import Carried

__all__ = ["SlicedStream", "can_slice_stream"]

_SLICE_ROWS = 131_072  # rows of both sides in a slice that is worth a call
_SLICE_BYTES, _WIDE_ROWS = 16 << 20, 16_384  # a slice that exceeds these bytes has fewer rows, but at least these
_COPIED, _MORE_COPIED = 4, 2  # at most 1 / this of a slice's rows is copied to the next one; the second within a limit
_CARRIED = 4  # a slice has at least _CARRIED times the rows that earlier slices pass on
# Waiting rows, in slices, that show that a band is too wide to be cut. Pushed lookups take twice as long.
_MOST_ROWS, _MOST_LOOKUP_ROWS = 8, 64
_THREAD_ROWS = 4  # rows in slices for each thread that wait or are being joined


def can_slice_stream(plan: JoinPlan, cut: Cut, budget: Budget | None) -> bool:
    """Return whether pushed rows can be joined in slices. If not, one operator processes all rows."""
    if plan.looks_up:
        return budget is None and not (cut.both or plan.raises)
    return not why_not_cut(plan, cut)


class SlicedStream:
    """Join like :class:`SymmetricHashJoin`, on several threads. The output follows the order of the slices.

    ``cut`` is the axis, for which :func:`can_slice_stream` is true. ``errors_first`` is as for
    ``SymmetricHashJoin.from_plan``. ``views``: pushed batches are views of memory that the caller owns. ``budget``
    limits rows that wait and running slices together.
    """

    def __init__(
        self, plan: JoinPlan, cut: Cut, threads: int, errors_first: bool = False, views: bool = False,
        budget: Budget | None = None,
    ) -> None:
        self._plan, self._cut, self._views = plan, cut, views
        self._frontiers = plan.frontiers(of_all=True)  # a row with a NaN also has its own slice
        self._axis = SlicedAxis(plan, cut, self._frontiers)
        self._intake = Intake(plan, self._frontiers)
        self._intake.errors_first = errors_first
        self._part = plan_of(plan.spec.with_late("join"))  # late rows are screened here, by the whole side's frontier
        self._memory = None if budget is None else Memory(budget, threads, views)
        pairs, output = (None, None) if self._memory is None else (self._memory.pairs, self._memory.output)
        self._joiners = Joiners(self._part, cut, pairs)
        self._whole = None if plan.looks_up else Whole(self._part, cut.own)  # checks rows
        self._carried: Carried | None = None
        if cut.carries:
            from ivjoin.stream.threads.carried import Carried

            self._carried = Carried(self._part, cut)
        self._threads = threads if self._memory is None else self._memory.threads
        self._workers = Workers(self._joiners, self._threads, output)
        # The waiting rows. Threads have received all slices before them.
        self._rest = SliceTask(cut, ([], []), I64_MIN, I64_MAX + 1)
        self._alone: SymmetricHashJoin | None = None  # joins the rest if the join cannot be cut
        self._over = False  # both inputs have ended, and all rows were emitted
        self._metrics = JoinMetrics()
        self._left_out = [0, 0]  # late rows that were dropped
        self._n_waiting = self._bytes = 0  # number of waiting rows, and their bytes
        self._next = 0  # number of waiting rows at which to search again for the end of a slice
        self._peak = 0, 0  # peak rows and bytes

    @property
    def schema(self) -> pa.Schema:
        return self._plan.schema

    @property
    def metrics(self) -> JoinMetrics:
        """Counts of the whole join. A row that is copied to two slices counts once.

        The state is the rows of slices that are not joined yet, waiting and carried rows, and the scratch memory of the
        threads. Views of a caller's table do not count.
        """
        m = self._state()
        m.left_rows_retired = m.left_rows_in - self._left_out[0] - self._waiting(0)
        m.right_rows_retired = m.right_rows_in - self._left_out[1] - self._waiting(1)
        return m

    def _state(self) -> JoinMetrics:
        """Return the metrics without the retired rows, because counting these scans all waiting rows."""
        m = replace(self._metrics)
        self._intake.count_into(m)
        tasks = self._workers.tasks
        m.state_rows = sum(task.rows for task in tasks) + (0 if self._views else self._n_waiting)
        m.state_bytes = self._bytes + sum(task.nbytes for task in tasks) + self._joiners.nbytes
        if self._carried is not None:
            m.state_rows += self._carried.rows
            m.state_bytes += self._carried.nbytes
        if self._alone is not None:
            inside = self._alone.metrics
            m.state_rows += inside.state_rows
            m.state_bytes += inside.state_bytes
            m.spilled_rows, m.spilled_bytes, m.reads = inside.spilled_rows, inside.spilled_bytes, inside.reads
            m.peak_state_rows, m.peak_state_bytes = inside.peak_state_rows, inside.peak_state_bytes
        m.peak_state_rows = max(self._peak[0], m.state_rows, m.peak_state_rows)
        m.peak_state_bytes = max(self._peak[1], m.state_bytes, m.peak_state_bytes)
        return m

    def push(self, side: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Push a batch to a side, and yield the output, like :meth:`SymmetricHashJoin.push`."""
        p = SIDES.index(side)
        self._intake.check_schema(p, batch)
        self._intake.check_nulls(p, batch)
        most = batch.num_rows if self._memory is None else self._memory.most_rows(batch)
        for start in range(0, max(1, batch.num_rows), max(1, most)):
            yield from self._screened(p, batch.slice(start, most))

    def _screened(self, p: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Push rows after screening the late ones."""
        came = batch.num_rows
        batch, late = self._intake.screen(p, batch)
        m = self._metrics
        m.late_rows += late
        self._left_out[p] += came - batch.num_rows
        m.left_rows_in += came * (p == 0)
        m.right_rows_in += came * (p == 1)
        yield from self._taken(p, batch, bool(late) and batch.num_rows == came)

    def _taken(self, p: int, batch: pa.RecordBatch, everywhere: bool) -> Iterator[pa.RecordBatch]:
        """Let rows wait for their slice. If the join is no longer cut, join them at once.

        ``everywhere``: some of the rows are late and can match rows of slices that are already running.
        """
        if self._alone is None and batch.num_rows:
            piece, erred = self._axis.placed(p, batch, self._rest.start)
            piece.each = piece.bytes_a_row(self._views)
            everywhere = everywhere or erred or (self._whole is not None and self._whole.strays(p, [batch]))
            if self._memory is not None and not everywhere:
                yield from self._made_room(piece.nbytes)
            if self._alone is None:
                self._rest.pieces[p].append(piece)
                self._n_waiting += piece.rows
                self._bytes += piece.nbytes
                if everywhere:
                    yield from self._give_up()
                else:
                    yield from self._advanced()
                return
        if self._alone is None:
            yield from self._advanced()
        else:
            yield from self._counted(self._alone.push(SIDES[p], batch))

    def report_late(self, report: Report | None) -> None:
        """Set a function that is called with the side and each batch of late rows."""
        self._intake.report = report

    def finish(self, side: str | None = None) -> Iterator[pa.RecordBatch]:
        """End one side, or both, and yield the rows that are now final."""
        sides = (0, 1) if side is None else (SIDES.index(side),)
        fresh = [p for p in sides if not self._frontiers[p].ended]
        for p in fresh:
            self._frontiers[p].ended = True
        if not fresh:
            return
        if self._alone is not None:
            for p in fresh:
                yield from self._counted(self._alone.finish(SIDES[p]))
        else:
            yield from self._advanced()
        self._over = all(f.ended for f in self._frontiers)

    def lagging(self, rows_left: int, rows_right: int) -> int:
        """Return the side to read next (0 left, 1 right)."""
        return self._axis.lagging(rows_left, rows_right)

    def output_bounds(self) -> dict[str, tuple[Any, Any]]:
        """Return bounds of output rows, like ``SymmetricHashJoin.output_bounds``."""
        return known_bounds(self._plan, self._over)

    def close(self) -> None:
        """End all threads and release all rows. Do not push afterwards."""
        self._note()
        self._workers.stop()
        self._joiners.clear()
        self._carried = None
        self._rest, self._n_waiting, self._bytes = SliceTask(self._cut, ([], []), I64_MIN, I64_MAX + 1), 0, 0

    def _made_room(self, more: int) -> Iterator[pa.RecordBatch]:
        """Free memory for ``more`` bytes of waiting rows: wait for running slices, and stop cutting if necessary."""
        assert self._memory is not None
        most = len(self._workers)
        while most and self._bytes + sum(task.nbytes for task in self._workers.tasks) + more > self._memory.gathered:
            most -= 1
            yield from self._joined(most)
        if self._bytes + more > self._memory.gathered:
            yield from self._give_up()

    def _enough(self) -> int:
        """Return the rows of a slice that is worth a call and leaves memory for other threads' slices."""
        if self._memory is None:
            return max(self._slice_rows(), _CARRIED * (self._carried.rows if self._carried else 0))
        fit = self._memory.rows
        if self._bytes:
            fit = min(fit, self._memory.gathered * self._n_waiting // (self._bytes * (self._threads + 3)))
        return max(1, min(_SLICE_ROWS, fit // 2))

    def _slice_rows(self) -> int:
        """Return the rows of a slice that is worth a call. Wide rows need fewer."""
        if not self._bytes:
            return _SLICE_ROWS
        return min(_SLICE_ROWS, max(_WIDE_ROWS, _SLICE_BYTES * self._n_waiting // self._bytes))

    def _advanced(self) -> Iterator[pa.RecordBatch]:
        """Pass complete slices of sufficient size to the threads, and yield the output of finished ones."""
        ended = all(f.ended for f in self._frontiers)
        enough = self._enough()
        if self._n_waiting >= enough:
            settled = self._axis.settled()
            while self._alone is None and self._n_waiting >= enough and (top := self._slice_end(settled)) is not None:
                yield from self._given(*self._rest.split(top))
                enough = self._enough()
            most = _MOST_LOOKUP_ROWS if self._plan.looks_up else _MOST_ROWS
            if self._alone is None and self._n_waiting >= max(most * _SLICE_ROWS, 2 * enough):
                yield from self._give_up()
        if ended and self._alone is None:
            yield from self._given(self._rest, SliceTask(self._cut, ([], []), I64_MAX, I64_MAX + 1))
        if self._alone is None:
            yield from self._eased(0 if ended else self._threads)

    def _slice_end(self, settled: int) -> int | None:
        """Return where the next slice may end, so that it is large enough and copies few rows to the next one."""
        other = self._rest.pieces[1 - self._cut.own]
        end = settled
        if self._cut.both:  # rows of the other side with their home here must find all rows that they can match
            end = min([end, *(p.begin(i) for p in other if (i := p.ended(settled)) < p.rows)])
        if end <= self._rest.start or self._n_waiting < self._next:
            return None
        own, parts = self._rest.pieces[self._cut.own], _COPIED if self._memory is None else _MORE_COPIED
        cut = cut_at(own, other, self._enough(), parts, self._rest.start, end)
        self._next = 0 if cut is not None else self._n_waiting + self._n_waiting // 8  # scanning them takes time
        return cut

    def _given(self, task: SliceTask, rest: SliceTask) -> Iterator[pa.RecordBatch]:
        """Pass a slice to the threads, and store the rows that later slices need."""
        if self._memory is not None and task.rows > self._memory.rows:
            yield from self._give_up()
            return
        if self._carried is not None:
            task.carried = [] if self._carried.batch is None else [self._carried.batch]
            if task.end <= I64_MAX and not self._carried.after(task.batches(1)[len(task.carried):], task.end):
                yield from self._give_up()
                return
        self._rest = rest
        self._n_waiting, self._bytes = rest.rows, rest.nbytes
        if task.rows:
            self._workers.add(task)
            self._note()
            yield from self._eased(self._threads)

    def _eased(self, most: int) -> Iterator[pa.RecordBatch]:
        """Yield the output of slices until at most ``most`` of them have output left, and few rows are in memory."""
        most = most if self._threads > 1 else 0  # no other thread would join them in the meantime
        yield from self._joined(most)
        enough = self._threads * _THREAD_ROWS * self._slice_rows()
        while most and self._n_waiting + sum(task.rows for task in self._workers.tasks) > enough:
            most -= 1
            yield from self._joined(most)

    def _give_up(self) -> Iterator[pa.RecordBatch]:
        """Join the waiting and all later rows with one operator. Its limit grows as waiting rows are pushed."""
        yield from self._joined(0)
        self._workers.stop()
        self._joiners.clear()
        limit = 0 if self._memory is None else self._memory.budget.limit
        budget = None if self._memory is None else replace(self._memory.budget, limit=limit - self._bytes)
        op = self._alone = SymmetricHashJoin.from_plan(
            self._part, errors_first=self._intake.errors_first, budget=budget
        )
        rest, other = self._rest, 1 - self._cut.own
        self._rest = SliceTask(self._cut, ([], []), rest.start, I64_MAX + 1)
        left, right = (side[::-1] for side in rest.pieces)  # in order of arrival; rows would be late otherwise
        del rest
        if self._carried is not None and self._carried.batch is not None:
            yield from self._counted(op.push(SIDES[1], self._carried.batch))
            self._carried = None
        while left or right:
            p = 0 if not right or (left and left[-1].begin(0) <= right[-1].begin(0)) else 1
            piece = (left, right)[p].pop()
            copies = piece.below(self._rest.start) if p == other and self._cut.both else 0
            if copies:  # their home is an earlier slice, which has emitted the unmatched ones
                yield from self._counted(op.push_matched(SIDES[p], piece.batch.slice(0, copies)))
            yield from self._counted(op.push(SIDES[p], piece.batch.slice(copies)))
            self._n_waiting -= piece.rows
            self._bytes = max(0, self._bytes - piece.nbytes)
            del piece
            if budget is not None:
                op.account.limit = limit - self._bytes
        self._n_waiting = self._bytes = 0
        for p in (0, 1):
            if self._frontiers[p].ended:
                yield from self._counted(op.finish(SIDES[p]))

    def _joined(self, most: int) -> Iterator[pa.RecordBatch]:
        """Yield the output of slices until at most ``most`` of them have output left."""
        yield from self._counted(batch for _, batch in self._workers.output(most))

    def _counted(self, out: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in out:
            for piece in pieces_of(batch, self._plan.spec.batch_size):
                self._metrics.rows_out += piece.num_rows
                yield piece
        self._note()

    def _note(self) -> None:
        """Record the current size of the state."""
        now = self._state()
        self._peak = now.peak_state_rows, now.peak_state_bytes

    def _waiting(self, p: int) -> int:
        """Return the number of rows of side p that no slice owns yet."""
        pieces = self._rest.pieces[p]
        if p == self._cut.own:
            return sum(piece.rows for piece in pieces)
        carried = 0 if self._carried is None else self._carried.rows
        return carried + sum(piece.rows - piece.below(self._rest.start) for piece in pieces)
