"""One join on several threads: slices of an ordered axis, each joined by an operator of its own.

Rows are gathered until a slice of the axis is whole: no later row of either side can belong to it. Then it is a join of
its own, for the next free thread; the kernels let other threads run while they work. Rows of the other side that can
meet rows of two slices go to both. Of tables in memory there are as many slices as threads, and one that is done takes
over half of what another has left (``shares``). That joins along time instead of along keys, so neither
keys nor their skew matter (TiLT, Jayarajan et al., ASPLOS 2023, names the idea).

Where rows of both sides come out alone (a full join), each row has one home, the slice of its own value or of the least
value it can meet; copies elsewhere are marked, and what is not owned does not leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ivjoin.expr.evaluate import evaluate
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.budget import Budget
from ivjoin.operator.core import frontiers_of
from ivjoin.operator.intake import Intake
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.operator.prune_bounds import Bounder
from ivjoin.outer.values import has_value
from ivjoin.plan.cache import plan_of
from ivjoin.plan.cutting import Cut, shifted
from ivjoin.plan.planner import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.shj.plain import rows_at
from ivjoin.stream.jobs import Jobs
from ivjoin.stream.memory import Memory, Segment
from ivjoin.stream.pieces import I64_MAX, I64_MIN, Loose, Piece, Run
from ivjoin.stream.shares import OWNED, Pushes, Share, marked

__all__ = ["SlicedJoin", "slice_rows"]

_SLICE_ROWS = 131_072  # of both sides together, in a slice that is worth an operator of its own
# Rows of a slice where both tables are in memory and a slice is a view of them: one a thread, up to this many. Threads
# that are done with theirs take over a part of another's (``shares``).
_MOST_VIEWED = 4_194_304
# Where rows were moved, and slices hold their rows: three a thread, up to this many rows.
_MOST_HELD, _TURNS = 524_288, 3
_BANDS = 8  # a slice is this many bands wide, so that few rows go to two
_ENOUGH = 1.02  # times the rows of a slice, which is not looked at more closely
_MOST_ROWS = 32  # slices' worth of rows that are gathered before a band proves too wide to be cut


def slice_rows(rows: int, threads: int, views: bool) -> int:
    """How many rows of both sides a slice has at least, of so many in memory; 0 of what is read as it comes."""
    most = min(_MOST_VIEWED, rows // threads) if views else min(_MOST_HELD, rows // (_TURNS * threads))
    return max(_SLICE_ROWS, most)


class SlicedJoin:
    """What :class:`SymmetricHashJoin` does, by ``threads`` threads; the order of the output is another one.

    Parameters
    ----------
    plan : JoinPlan
    cut : Cut
        Along what.
    threads : int
        At least 1.
    errors_first : bool
        As for ``SymmetricHashJoin.from_plan``.
    rows : int
        Of both sides, where they are in memory, and slices may be larger; 0 for not known.
    views : bool
        Whether batches that are pushed hold no memory of their own.
    budget : Budget, optional
        What all of it may hold: rows that wait, and operators at work.
    """

    def __init__(
        self, plan: JoinPlan, cut: Cut, threads: int, errors_first: bool = False, rows: int = 0, views: bool = False,
        budget: Budget | None = None,
    ) -> None:
        self._plan, self._cut, self._threads = plan, cut, threads
        self._slice_rows, self._views = slice_rows(rows, threads, views), views
        self._expected = rows // self._slice_rows  # slices, where all is in memory
        self._frontiers = frontiers_of(plan, of_all=True)  # a row with a NaN has a slice of its own, too
        self._bounder = Bounder(plan, self._frontiers)
        self._errors_first = errors_first
        self._intake = Intake(plan, self._frontiers, errors_first=errors_first)
        spec = plan.spec.with_late("join")  # rows are screened here, by what the whole side has seen
        if cut.both:
            left, right = (s.append(pa.field(OWNED, pa.bool_())) for s in spec.schemas)
            spec = replace(spec, schemas=(left, right))
        self._part = plan_of(spec)
        self._checker = SymmetricHashJoin.from_plan(plan)
        self._pieces: tuple[list[Piece], list[Piece]] = ([], [])
        self._done = I64_MIN  # all slices below this value are given away
        self._alone: SymmetricHashJoin | None = None  # takes the rest of a join that cannot be cut after all
        keep = _owner(plan.schema, cut.own) if cut.both else None
        self._memory = None if budget is None else Memory(budget, threads, views)
        self._jobs = Jobs(self._part, threads, keep, self._memory)
        self._metrics = JoinMetrics()
        self._left_out = [0, 0]  # rows that came late and were dropped
        self._held = self._bytes = 0  # rows that wait, and their bytes
        self._peak = 0, 0  # of what was held beside the operators

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._plan.schema

    @property
    def metrics(self) -> JoinMetrics:
        """Counts of the whole join, a copied row once.

        The state is what was gathered and what slices at work were given, unless that is a view of a caller's table.
        Its peak holds the peaks of as many operators as there are threads besides.
        """
        m = self._state()
        m.left_rows_retired = m.left_rows_in - self._left_out[0] - self._waiting(0)
        m.right_rows_retired = m.right_rows_in - self._left_out[1] - self._waiting(1)
        return m

    def _state(self) -> JoinMetrics:
        """The metrics but for the rows retired, of which to know takes a look at all that wait."""
        m = replace(self._metrics)
        if not self._views:
            m.state_rows = self._held + self._jobs.rows
        m.state_bytes = self._bytes + self._jobs.nbytes
        m.spilled_rows, m.reads = self._jobs.spilled
        if self._alone is not None:
            inside = self._alone.metrics
            m.state_rows += inside.state_rows
            m.state_bytes += inside.state_bytes
            m.spilled_rows, m.spilled_bytes = inside.spilled_rows, inside.spilled_bytes
            m.reads += inside.reads
        rows, size = self._jobs.peak
        m.peak_state_rows = max(self._peak[0], m.state_rows) + rows
        m.peak_state_bytes = max(self._peak[1], m.state_bytes) + size
        if self._memory is not None:
            # The peaks of the operators need not have come at one time; together they never had more than this.
            m.peak_state_bytes = min(m.peak_state_bytes, self._memory.budget.limit)
            m.spilled_bytes += self._memory.file_bytes
        return m

    def push(self, side: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Feed a batch to a side; what :meth:`SymmetricHashJoin.push` raises, and iterate to take the output.

        Raises
        ------
        SchemaError, LateRowError, EvaluationError
        """
        p = SIDES.index(side)
        self._checker.check(side, batch)
        if self._views and self._memory is None and self._alone is None and not self._metrics.left_rows_in:
            self._jobs.prepare(self._expected)
        most = batch.num_rows if self._memory is None else self._memory.most_rows(batch)
        for start in range(0, max(1, batch.num_rows), max(1, most)):
            yield from self._screened(p, batch.slice(start, most))

    def _screened(self, p: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rows of which the late ones are yet to be found."""
        came = batch.num_rows
        batch, late = self._intake.screen(p, batch)
        m = self._metrics
        m.late_rows += late
        self._left_out[p] += came - batch.num_rows
        if p == 0:
            m.left_rows_in += came
        else:
            m.right_rows_in += came
        yield from self._taken(p, batch, not late)

    def _taken(self, p: int, batch: pa.RecordBatch, on_time: bool) -> Iterator[pa.RecordBatch]:
        """Rows that may wait for their slice, or are joined at once where none are cut any more."""
        memory, segment = self._memory, None
        if memory is not None and memory.spills and self._alone is None and batch.num_rows and not self._views:
            if self._bytes + self._jobs.nbytes + batch.nbytes > memory.gathered:
                batch, segment = memory.in_file(batch)
        piece, everywhere = self._placed(p, batch, on_time)
        piece.each = self._each(piece, segment)
        piece.segment = segment
        if segment is not None:
            segment.let_go()
        if memory is not None and self._alone is None and not everywhere:
            yield from self._made_room(piece.nbytes)
        if self._alone is not None:
            yield from self._given_alone(self._alone.push(SIDES[p], marked(piece, self._cut)))
            return
        if piece.rows:
            self._pieces[p].append(piece)
            self._held += piece.rows
            self._bytes += piece.nbytes
        if everywhere:
            yield from self._give_up()
            return
        yield from self._advanced()

    def finish(self, side: str | None = None) -> Iterator[pa.RecordBatch]:
        """End one side, or both; iterate to take what that decides."""
        sides = (0, 1) if side is None else (SIDES.index(side),)
        fresh = [p for p in sides if not self._frontiers[p].ended]
        for p in fresh:
            self._frontiers[p].ended = True
        if not fresh:
            return
        if self._alone is not None:
            for p in fresh:
                yield from self._given_alone(self._alone.finish(SIDES[p]))
        else:
            yield from self._advanced()

    def lagging(self, rows_left: int, rows_right: int) -> int:
        """Which side (0 left, 1 right) to read next."""
        for f in self._frontiers:
            f.refresh()
        return self._bounder.lagging(rows_left, rows_right)

    def close(self) -> None:
        """End all threads and let go of all rows; nothing more is taken."""
        now = self._state()
        self._peak = now.peak_state_rows - self._jobs.peak[0], now.peak_state_bytes - self._jobs.peak[1]
        self._jobs.end()
        if self._memory is not None:
            self._memory.clear()
        self._pieces, self._held, self._bytes = ([], []), 0, 0

    # -- memory --------------------------------------------------------------------------------------------------

    def _each(self, piece: Piece, segment: Segment | None) -> float:
        """Bytes of memory that a row of a piece takes: none of what lies in a file, or is a view of a caller's."""
        if not piece.rows:
            return 0
        arrays = {id(a): a for a in (piece.low, piece.high)}.values()
        size = sum(a.nbytes for a in arrays if not _lies_in(a, piece.batch))
        if isinstance(piece, Loose):
            size += piece.marked.nbytes
        if segment is None and not self._views:
            size += piece.batch.nbytes
        return float(size / piece.rows)

    def _made_room(self, more: int) -> Iterator[pa.RecordBatch]:
        """Before more bytes of rows wait: let slices at work end, or cut no more, until there is room for them."""
        assert self._memory is not None
        most = len(self._jobs)
        while most and self._bytes + self._jobs.nbytes + more > self._memory.gathered:
            most -= 1
            yield from self._counted(self._jobs.taken(most))
        if self._bytes + more > self._memory.gathered:
            yield from self._give_up()

    def _enough(self) -> int:
        """Rows of a slice that is worth an operator of its own, and leaves room for those of other threads."""
        if self._memory is None or not self._bytes:
            return self._slice_rows
        fit = self._memory.gathered * self._held // (self._bytes * (self._threads + 3))
        return max(1, min(self._slice_rows, fit))

    # -- where rows lie ------------------------------------------------------------------------------------------

    def _placed(self, p: int, batch: pa.RecordBatch, on_time: bool) -> tuple[Piece, bool]:
        """A batch with the ranges of its rows, and whether some row may meet rows of every slice."""
        cut, n = self._cut, batch.num_rows
        nodes = [cut.node] if p == cut.own else list(dict.fromkeys(node for node, _ in (*cut.lows, *cut.highs)))
        index = self._intake.index[p]
        found = evaluate(nodes, lambda _, name: batch.column(index[name]), n)
        values: dict[Node, np.ndarray] = {}
        valid: np.ndarray | None = None
        erred = False
        for node, v in zip(nodes, found, strict=True):
            values[node] = ordinals(v.values, node.type)
            present = has_value(v)
            if present is not None:
                valid = present if valid is None else valid & present
            erred = erred or (v.error is not None and bool(v.error.any()))
        lows = cut.lows if p != cut.own else ((cut.node, 0),)
        highs = cut.highs if p != cut.own else ((cut.node, 0),)
        if valid is None and n and len(nodes) == len(lows) == len(highs) == 1:
            rises = on_time and self._keeps_order(p, nodes[0])
            run = self._run(batch, values[nodes[0]], lows[0][1], highs[0][1], rises)
            if run is not None:
                return run, erred
        low, high = np.full(n, I64_MIN), np.full(n, I64_MAX)
        for node, by in lows:
            low = np.maximum(low, shifted(values[node], by))
        for node, by in highs:
            high = np.minimum(high, shifted(values[node], by))
        if cut.falling:
            low, high = ~high, ~low
        # Without a value a row meets nothing: it belongs wherever the join is at.
        fine = low <= high if valid is None else valid & (low <= high)
        if n and fine.all() and _rises(low) and _rises(high):
            widest = int((high - low).max()) if int(high[-1]) - int(low[0]) <= I64_MAX else I64_MAX + 1
            return Run(batch, low, high, 0, 0, widest, 0, n), erred
        now = max(self._done, I64_MIN + 1)
        low, high = np.where(fine, low, now), np.where(fine, high, now if p == cut.own else now - 1)
        return Loose(batch, low, high, np.ones(n, dtype=bool)), erred

    def _keeps_order(self, p: int, node: Node) -> bool:
        """Whether values of an expression, where all have one and none is late, never turn back along the axis."""
        return node.type.kind != "float" and any(
            t.node is node and t.descending == self._cut.falling and not t.slack for t in self._frontiers[p].trackers
        )

    def _run(self, batch: pa.RecordBatch, values: np.ndarray, low_by: int, high_by: int, rises: bool) -> Run | None:
        """Rows whose ranges are one expression's values, moved; None where they do not rise, or a range is empty."""
        if self._cut.falling:
            values, low_by, high_by = ~values, -high_by, -low_by
        if low_by > high_by or not (rises or _rises(values)):
            return None
        return Run(batch, values, values, low_by, high_by, high_by - low_by, 0, len(values))

    def _whole(self) -> int:
        """The value below which no row of either side is still to come, nor to be met."""
        cut = self._cut
        own, other = self._frontiers[cut.own], self._frontiers[1 - cut.own]
        for f in (own, other):
            f.refresh()
        ends = []
        if not own.ended:
            low, high, _ = own.intervals.get(cut.node, (I64_MIN, I64_MAX, True))
            ends.append(~high if cut.falling else low)
        if not other.ended:
            self._bounder.move(1 - cut.own, True, 1)
            bounds = self._bounder.bounds(cut.own)
            if bounds is not None:
                low, high = bounds[cut.axis]
                ends.append(I64_MAX if low > high else ~high if cut.falling else low)
        return min(ends, default=I64_MAX)

    # -- slices --------------------------------------------------------------------------------------------------

    def _advanced(self) -> Iterator[pa.RecordBatch]:
        """Give away the slices that are whole by now, if they are worth it; take what others have put out."""
        ended = all(f.ended for f in self._frontiers)
        if ended:
            yield from self._given(I64_MAX, True)
        elif self._held >= self._enough():
            whole = self._whole()
            while self._held >= self._enough() and (top := self._slice_end(whole)) is not None:
                yield from self._given(top, False)
            if self._held >= _MOST_ROWS * self._slice_rows * self._threads:
                yield from self._give_up()
                return
        yield from self._counted(self._jobs.taken(0 if ended else self._threads))

    def _slice_end(self, whole: int) -> int | None:
        """Where the slice from ``_done`` on may end, and is large enough."""
        own, other = self._pieces[self._cut.own], self._pieces[1 - self._cut.own]
        widest = max((p.widest for p in other), default=0)
        if widest > I64_MAX:
            return None
        end = whole
        if self._cut.both:  # rows of the other side at home here must find all that they can meet
            end = whole - widest - 1 if whole > I64_MIN + widest + 1 else I64_MIN
        if end <= self._done:
            return None
        first = min((p.least for p in (*own, *other)), default=end)
        if end - max(first, self._done) < _BANDS * (widest + 1):
            return None
        return self._cut_at(max(first, self._done) + _BANDS * (widest + 1), end)

    def _cut_at(self, low: int, high: int) -> int | None:
        """A value up to ``high`` that has a slice's rows below it, and few more where that can be had."""
        pieces = [p for side in self._pieces for p in side]
        enough = self._enough()
        if sum(p.below(high) for p in pieces) < enough:
            return None
        if not all(isinstance(p, Run) for p in pieces):
            return high
        while low < high:
            middle = (low + high) // 2
            rows = sum(p.below(middle) for p in pieces)
            if rows < enough:
                low = middle + 1
            else:
                high = middle
                if rows <= _ENOUGH * enough:
                    break
        return high

    def _given(self, end: int, last: bool) -> Iterator[pa.RecordBatch]:
        """Make the rows below ``end`` a job, and keep what later slices need."""
        share = Share(self._cut, self._pieces, max(self._done, I64_MIN + 1))
        share, kept = (share, Share(self._cut, ([], []), end)) if last else share.split(end)
        self._pieces, self._done, self._held = kept.pieces, end, kept.rows
        self._bytes = sum(piece.nbytes for side in kept.pieces for piece in side)
        if share.pieces[0] or share.pieces[1]:
            self._jobs.start(share, last)
        if last:
            self._jobs.close()
        if share.pieces[0] or share.pieces[1]:
            yield from self._counted(self._jobs.taken(self._threads))

    def _give_up(self) -> Iterator[pa.RecordBatch]:
        """Join all that is gathered, and all that comes, by one operator; its room grows as what is gathered goes."""
        yield from self._counted(self._jobs.taken(0))
        if self._memory is None:
            self._jobs.end()
        limit = 0 if self._memory is None else self._memory.budget.limit
        budget = None if self._memory is None else replace(self._memory.budget, limit=limit - self._bytes)
        op = self._alone = SymmetricHashJoin.from_plan(self._part, errors_first=self._errors_first, budget=budget)
        pushes = Pushes(Share(self._cut, self._pieces, max(self._done, I64_MIN + 1)))
        size = self._bytes / max(1, self._held)
        self._pieces = [], []
        while (push := pushes.next()) is not None:
            self._held -= push.batch.num_rows
            yield from self._given_alone(op.push(SIDES[push.side], push.batch))
            if push.segment is not None:
                push.segment.let_go()
            del push
            self._bytes = int(size * self._held)
            if budget is not None:
                op.account.limit = limit - self._bytes
        self._held = self._bytes = 0
        for p in (0, 1):
            if self._frontiers[p].ended:
                yield from self._given_alone(op.finish(SIDES[p]))

    # -- in and out ----------------------------------------------------------------------------------------------

    def _given_alone(self, out: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self._counted(map(_owner(self._plan.schema, self._cut.own), out) if self._cut.both else out)

    def _counted(self, out: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in out:
            if batch.num_rows:
                self._metrics.rows_out += batch.num_rows
                yield batch
        now = self._state()
        self._peak = now.peak_state_rows - self._jobs.peak[0], now.peak_state_bytes - self._jobs.peak[1]

    def _waiting(self, p: int) -> int:
        return sum(piece.owned for piece in self._pieces[p])


def _owner(schema: pa.Schema, own: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """What keeps of an output batch what is owned: a pair where the row of the side that is cut is, a row that comes
    alone where it is itself."""

    def owned(batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow.compute as pc

        places = [i for i, name in enumerate(batch.schema.names) if name.startswith(OWNED)]
        keep = pc.coalesce(*(batch.column(i) for i in (places if own == 0 else reversed(places))))
        rest = [batch.column(i) for i in range(batch.num_columns) if i not in places]
        kept = pa.RecordBatch.from_arrays(rest, schema=schema)
        own_rows = np.flatnonzero(keep.to_numpy(zero_copy_only=False))
        return kept if len(own_rows) == kept.num_rows else rows_at(kept, own_rows)

    return owned


def _rises(values: np.ndarray) -> bool:
    return bool((values[1:] >= values[:-1]).all())


def _lies_in(array: np.ndarray, batch: pa.RecordBatch) -> bool:
    """Whether an array is a view of a batch's memory."""
    at = array.ctypes.data
    buffers = (b for column in batch.columns for b in column.buffers() if b is not None)
    return any(b.address <= at < b.address + b.size for b in buffers)
