"""One join on several threads: slices of an ordered axis, each joined by an operator of its own.

Rows are gathered until a slice of the axis is whole: no later row of either side can belong to it. Then it is a join of
its own, for the next free thread; the kernels let other threads run while they work. Rows of the other side that can
meet rows of two slices go to both. That joins along time instead of along keys, so neither keys nor their skew matter
(TiLT, Jayarajan et al., ASPLOS 2023, names the idea).

Where rows of both sides come out alone (a full join), each row has one home, the slice of its own value or of the least
value it can meet; copies elsewhere are marked, and what is not owned does not leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from ivjoin.expr.evaluate import evaluate
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.core import frontiers_of
from ivjoin.operator.intake import Intake, has_value
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.operator.prune_bounds import Bounder
from ivjoin.plan.cache import plan_of
from ivjoin.plan.cutting import Cut, shifted
from ivjoin.plan.planner import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.stream.jobs import Jobs, Pushes

__all__ = ["SlicedJoin"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_SLICE_ROWS = 65_536  # of both sides together, in a slice that is worth a thread
_BANDS = 8  # a slice is this many bands wide, so that few rows go to two
_MOST_ROWS = 32  # slices' worth of rows that are gathered before a band proves too wide to be cut
_PIECE = 8_192  # rows pushed at once
_OWNED = "owned by this slice"


@dataclass(slots=True)
class _Piece:
    """Rows of a side that are in no finished slice, with the closed range of the axis that they lie in, or can meet."""

    batch: pa.RecordBatch
    low: np.ndarray  # int64[n]; low > high: they meet nothing
    high: np.ndarray
    owned: np.ndarray  # bool[n]: not given to its home yet
    least: int = field(init=False)

    def __post_init__(self) -> None:
        self.least = int(self.low.min()) if len(self.low) else I64_MAX

    def where(self, keep: np.ndarray) -> _Piece | None:
        """The rows that are marked; None for none."""
        count = int(np.count_nonzero(keep))
        if count == len(keep):
            return self
        if not count:
            return None
        first = int(keep.argmax())
        if keep[first : first + count].all():  # in order, as most input is: no row is copied
            cut = slice(first, first + count)
            return _Piece(self.batch.slice(first, count), self.low[cut], self.high[cut], self.owned[cut])
        return _Piece(self.batch.filter(pa.array(keep)), self.low[keep], self.high[keep], self.owned[keep])


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
    """

    def __init__(self, plan: JoinPlan, cut: Cut, threads: int, errors_first: bool = False) -> None:
        self._plan, self._cut, self._threads = plan, cut, threads
        self._frontiers = frontiers_of(plan, of_all=True)  # a row with a NaN has a slice of its own, too
        self._bounder = Bounder(plan, self._frontiers)
        self._errors_first = errors_first
        self._intake = Intake(plan, self._frontiers, errors_first=errors_first)
        spec = plan.spec.with_late("join")  # rows are screened here, by what the whole side has seen
        if cut.both:
            left, right = (s.append(pa.field(_OWNED, pa.bool_())) for s in spec.schemas)
            spec = replace(spec, schemas=(left, right))
        self._part = plan_of(spec)
        self._checker = SymmetricHashJoin.from_plan(plan)
        self._pieces: tuple[list[_Piece], list[_Piece]] = ([], [])
        self._done = I64_MIN  # all slices below this value are given away
        self._alone: SymmetricHashJoin | None = None  # takes the rest of a join that cannot be cut after all
        self._jobs = Jobs(threads)
        self._metrics = JoinMetrics()
        self._held = 0

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._plan.schema

    @property
    def metrics(self) -> JoinMetrics:
        """Counts of the whole join, a copied row once; the state is what is gathered and what slices at work hold."""
        m = replace(self._metrics)
        m.state_rows = self._held + self._jobs.rows
        m.state_bytes = sum(p.batch.nbytes for side in self._pieces for p in side) + self._jobs.nbytes
        m.left_rows_retired = m.left_rows_in - self._waiting(0)
        m.right_rows_retired = m.right_rows_in - self._waiting(1)
        if self._alone is not None:
            inside = self._alone.metrics
            m.state_rows += inside.state_rows
            m.state_bytes += inside.state_bytes
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows)
        m.peak_state_bytes = max(m.peak_state_bytes, m.state_bytes)
        return m

    def push(self, side: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Feed a batch to a side; what :meth:`SymmetricHashJoin.push` raises, and iterate to take the output.

        Raises
        ------
        SchemaError, LateRowError, EvaluationError
        """
        p = SIDES.index(side)
        self._checker.check(side, batch)
        batch, late = self._intake.screen(p, batch)
        m = self._metrics
        m.late_rows += late
        if p == 0:
            m.left_rows_in += batch.num_rows
        else:
            m.right_rows_in += batch.num_rows
        piece, everywhere = self._placed(p, batch)
        if self._alone is not None:
            yield from self._counted(self._alone.push(side, self._marked(piece)))
            return
        if piece.batch.num_rows:
            self._pieces[p].append(piece)
            self._held += piece.batch.num_rows
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
                yield from self._counted(self._alone.finish(SIDES[p]))
        else:
            yield from self._advanced()

    def lagging(self, rows_left: int, rows_right: int) -> int:
        """Which side (0 left, 1 right) to read next."""
        for f in self._frontiers:
            f.refresh()
        return self._bounder.lagging(rows_left, rows_right)

    def close(self) -> None:
        """End all threads; nothing more is taken."""
        self._jobs.end()

    # -- where rows lie ------------------------------------------------------------------------------------------

    def _placed(self, p: int, batch: pa.RecordBatch) -> tuple[_Piece, bool]:
        """A batch with the ranges of its rows, and whether some row may meet rows of every slice."""
        cut, n = self._cut, batch.num_rows
        nodes = [cut.node] if p == cut.own else [node for node, _ in (*cut.lows, *cut.highs)]
        index = self._intake.index[p]
        found = evaluate(nodes, lambda _, name: batch.column(index[name]), n)
        values: dict[Node, np.ndarray] = {}
        valid, erred = np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
        for node, v in zip(nodes, found, strict=True):
            values[node] = ordinals(v.values, node.type)
            present = has_value(v)
            valid &= True if present is None else present
            erred |= False if v.error is None else v.error
        if p == cut.own:
            low = high = values[cut.node]
        else:
            low, high = np.full(n, I64_MIN), np.full(n, I64_MAX)
            for node, by in cut.lows:
                low = np.maximum(low, shifted(values[node], by))
            for node, by in cut.highs:
                high = np.minimum(high, shifted(values[node], by))
        if cut.falling:
            low, high = ~high, ~low
        # Without a value a row meets nothing: it belongs wherever the join is at.
        valid &= low <= high
        now = max(self._done, I64_MIN + 1)
        low, high = np.where(valid, low, now), np.where(valid, high, now if p == cut.own else now - 1)
        return _Piece(batch, low, high, np.ones(n, dtype=bool)), bool(erred.any())

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
        """Give away the slice that is whole by now, if it is worth it; take what others have put out."""
        ended = all(f.ended for f in self._frontiers)
        if ended or self._held >= _SLICE_ROWS:
            top = I64_MAX if ended else self._slice_end(self._whole())
            if top is not None:
                yield from self._given(top, ended)
            elif self._held >= _MOST_ROWS * _SLICE_ROWS * self._threads:
                yield from self._give_up()
                return
        yield from self._counted(self._jobs.taken(0 if ended else self._threads))

    def _slice_end(self, whole: int) -> int | None:
        """Where the slice from ``_done`` on may end, and is large enough."""
        own, other = self._pieces[self._cut.own], self._pieces[1 - self._cut.own]
        widest = 0
        for p in other:
            wide = p.high - p.low
            if ((wide < 0) & (p.high >= p.low)).any():  # past int64
                return None
            widest = max(widest, int(wide.max(initial=0)))
        end = whole
        if self._cut.both:  # rows of the other side at home here must find all that they can meet
            end = whole - widest - 1 if whole > I64_MIN + widest + 1 else I64_MIN
        if end <= self._done:
            return None
        first = min((p.least for p in (*own, *other)), default=end)
        if end - max(first, self._done) < _BANDS * (widest + 1):
            return None
        inside = sum(int(np.count_nonzero(p.low < end)) for p in (*own, *other))
        return end if inside >= _SLICE_ROWS else None

    def _given(self, end: int, last: bool) -> Iterator[pa.RecordBatch]:
        """Make the rows below ``end`` a job, and keep what later slices need."""
        cut = self._cut
        mine: tuple[list[_Piece], list[_Piece]] = ([], [])
        kept: tuple[list[_Piece], list[_Piece]] = ([], [])
        reach = end
        for p in (1 - cut.own, cut.own):
            for piece in self._pieces[p]:
                at_home = piece.low < end if not last else np.ones(len(piece.low), dtype=bool)
                if p != cut.own:
                    homes = piece.high[at_home & piece.owned]
                    if cut.both and len(homes):
                        reach = max(reach, int(homes.max()))
                    inside, later = at_home, piece.high >= end
                else:
                    inside, later = (at_home | (piece.low <= reach) if cut.both else at_home), ~at_home
                now = piece.where(inside)
                if now is not None:
                    mine[p].append(now if last else replace(now, owned=now.owned & (now.low < end)))
                rest = None if last else piece.where(later)
                if rest is not None:
                    kept[p].append(replace(rest, owned=rest.owned & (rest.low >= end)))
        self._pieces, self._done = kept, end
        self._held = sum(p.batch.num_rows for side in kept for p in side)
        if mine[0] or mine[1]:
            self._jobs.start(self._part, self._pushes(mine))
            yield from self._counted(self._jobs.taken(self._threads))

    def _pushes(self, mine: tuple[list[_Piece], list[_Piece]]) -> Pushes:
        pushes: list[tuple[int, int, int, pa.RecordBatch]] = []
        for p in (0, 1):
            for piece in mine[p]:
                for start in range(0, piece.batch.num_rows, _PIECE):
                    low = piece.low[start : start + _PIECE]
                    some = self._marked(piece).slice(start, _PIECE)
                    pushes.append((int(low.min()), p, len(pushes), some))
        # In the order of the axis, and each side in its own order of arrival.
        greatest = [I64_MIN, I64_MIN]
        placed = []
        for low_, p, i, some in pushes:
            greatest[p] = max(greatest[p], low_)
            placed.append((greatest[p], p, i, some))
        placed.sort(key=lambda x: x[:3])
        return [(SIDES[p], some) for _, p, _, some in placed]

    def _give_up(self) -> Iterator[pa.RecordBatch]:
        """Join all that is gathered, and all that comes, by one operator."""
        yield from self._counted(self._jobs.taken(0))
        op = self._alone = SymmetricHashJoin.from_plan(self._part, errors_first=self._errors_first)
        pieces, self._pieces, self._held = self._pieces, ([], []), 0
        for p in (0, 1):
            for piece in pieces[p]:
                yield from self._counted(op.push(SIDES[p], self._marked(piece)))
        for p in (0, 1):
            if self._frontiers[p].ended:
                yield from self._counted(op.finish(SIDES[p]))

    # -- in and out ----------------------------------------------------------------------------------------------

    def _marked(self, piece: _Piece) -> pa.RecordBatch:
        return piece.batch.append_column(_OWNED, pa.array(piece.owned)) if self._cut.both else piece.batch

    def _counted(self, out: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in out:
            if self._cut.both:
                batch = self._owned(batch)
            if batch.num_rows:
                self._metrics.rows_out += batch.num_rows
                yield batch
        now = self.metrics
        self._metrics.peak_state_rows, self._metrics.peak_state_bytes = now.peak_state_rows, now.peak_state_bytes

    def _owned(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What is owned of an output batch: a pair where its left row is, a row that comes alone where it is itself."""
        import pyarrow.compute as pc

        places = [i for i, name in enumerate(batch.schema.names) if name.startswith(_OWNED)]
        keep = pc.coalesce(*(batch.column(i) for i in (places if self._cut.own == 0 else reversed(places))))
        rest = [batch.column(i) for i in range(batch.num_columns) if i not in places]
        return pa.RecordBatch.from_arrays(rest, schema=self._plan.schema).filter(keep)

    def _waiting(self, p: int) -> int:
        return sum(int(np.count_nonzero(piece.owned)) for piece in self._pieces[p])
