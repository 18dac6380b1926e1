"""The core of an operator that emits, for each left row, aggregates of its matches instead of pairs.

Left rows wait until no future right row can match them. Then their matches are looked up among the sorted right rows.
If the condition consists of keys and bands along the sort order, the matches are a range, which is aggregated as a
whole. Otherwise the pairs of the range are evaluated in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any
from weakref import WeakMethod

import numpy as np
import pyarrow as pa

from ivjoin.errors import EvaluationError
from ivjoin.expr import build
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import from_arrow
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.intake import Intake
from ivjoin.operator.lookup.key_ids import key_table, sweep_keys
from ivjoin.operator.memory.memory_parts import OutputLimit
from ivjoin.operator.prune_bounds import Bounder
from ivjoin.operator.windows.answer import Answers
from ivjoin.operator.windows.best import BestAnswers
from ivjoin.operator.windows.held import Bounds, LeftRows, RightRows, Waiting, dead_rows, split
from ivjoin.operator.windows.previous import older_than, previous_bounds, without_older
from ivjoin.operator.windows.reading import Arrived, read
from ivjoin.operator.windows.rows import Rows, joined
from ivjoin.operator.windows.run import Run
from ivjoin.operator.windows.search import search_of
from ivjoin.plan.derivations import Derived
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.spec import SIDES
from ivjoin.separation.separate import conjuncts_of
from ivjoin.shj.plain import rows_at
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.disk.backing import Files

__all__ = ["WindowCore"]

_SOME = 16  # if 1 in so many rows is new, rows are evicted before a batch is refused or columns are spilled


class WindowCore:
    """The state of an operator that aggregates, with the calls of ``Core`` and of ``steps``."""

    _least, _share = 0, 8  # rows are evicted after so many have come, and one in so many of the stored right rows

    def __init__(self, plan: JoinPlan, late_within: bool = True, errors_first: bool = False) -> None:
        self.plan = plan = plan.own()
        self.how, self.layouts = plan.how, row_layouts(plan)
        self.frontiers = plan.frontiers()
        self.bounder = Bounder(plan, self.frontiers)
        self.intake = Intake(plan, self.frontiers, late_within, errors_first)
        self.rekeyed, self.full_predicate, self.ended = False, plan.raises, [False, False]
        self.watermarks: dict[tuple[int, str], tuple[Node, bool]] = {}
        self.metrics = JoinMetrics()
        self.limits: OutputLimit | None = None
        held = WeakMethod(self.bytes_held)
        self.account = Account(lambda: (of() if (of := held()) else 0))
        self.keys = key_table(plan)
        self.seq = [0, 0]
        self.terms, self.order, self._axis = search_of(plan, plan.spec.picks_one)
        for s in (0, 1):
            self.bounder.refit(s)
        self.left, self.right = LeftRows(), RightRows(self._axis)
        self._answers = self._make_answers()
        self._untaken()
        self._previous = plan.spec.include_previous
        self._new: Rows | None = None  # left rows that have just arrived
        self._since, self._stale = 0, False  # rows since the last eviction, and whether a frontier has moved since
        self._giving: list[Rows] = []  # left rows that are being emitted

    def _make_answers(self) -> Answers:
        return Answers(self) if self.plan.spec.aggregates else BestAnswers(self)

    def _untaken(self) -> None:
        """Collect evicted right rows if they are emitted where no left row has taken them."""
        self.right.evicted = [] if self.how.keep[1] else None

    @property
    def _best(self) -> BestAnswers:
        assert isinstance(self._answers, BestAnswers)
        return self._answers

    @property
    def axis(self) -> int | None:
        """The axis that sorts the right rows."""
        return self._axis

    @property
    def n_ids(self) -> int:
        """An upper bound of the ids of keys."""
        return self.keys.n_ids

    # -- a push ------------------------------------------------------------------------------------------------------

    def take(self, p: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take a batch. The returned iterator emits what the batch decides."""
        if self.account.limit is not None:
            self._want(p, batch)
        before = self.frontiers[p].mark()
        try:
            kept, late = self.intake.screen(p, batch)
            arrived = self._read(p, kept)
        except BaseException:
            self.frontiers[p].reset(before)
            raise
        self.came(p, batch.num_rows, late)
        rows = arrived.rows
        self.went(p, kept.num_rows - len(rows))
        self._store(p, rows)
        self.seq[p] += kept.num_rows
        return self._rest(p, kept, arrived.usable)

    def _want(self, p: int, batch: pa.RecordBatch) -> None:
        """Request memory for a batch."""
        words = len(self.plan.sides[p].axes) + (3 if p == 0 else 6 + 3 * len(self.plan.spec.aggregates))
        keys = 0 if self.plan.int_keys else self.keys.more(self._most_keys(p, batch), batch.nbytes)
        self.account.want(batch.nbytes + 8 * words * batch.num_rows + keys)

    def _store(self, p: int, rows: Rows) -> None:
        self._since, self._stale = self._since + len(rows), True
        if p == 0:
            self._new = rows
        else:
            self.right.add(rows)

    def _most_keys(self, p: int, batch: pa.RecordBatch) -> int:
        """Return an upper bound of the number of keys in a batch."""
        import pyarrow.compute as pc

        most = 1 if self.plan.sides[p].keys else 0
        for node in self.plan.sides[p].keys:
            if node.op != "column":
                return batch.num_rows
            try:
                most *= pc.count_distinct(batch.column(self.layouts[p].index[node.params[1]]), mode="all").as_py()
            except pa.ArrowNotImplementedError:
                return batch.num_rows
        return min(most, batch.num_rows)

    def _read(self, p: int, batch: pa.RecordBatch) -> Arrived:
        seq = np.arange(self.seq[p], self.seq[p] + batch.num_rows, dtype=np.int64)
        stored = [batch.column(i) for i in self.plan.sides[p].stored]
        named = self.plan.spec.picks_one
        arrived = read(self.plan, p, stored, seq, self.layouts[p], self.intake, self.keys, batch.columns, named)
        if arrived.found.key_erred:
            self.rekey()
            arrived = read(self.plan, p, stored, seq, self.layouts[p], self.intake, self.keys, batch.columns)
        self.full_predicate = self.full_predicate or arrived.found.wild
        return arrived

    def _rest(self, p: int, batch: pa.RecordBatch, usable: np.ndarray | None) -> Iterator[pa.RecordBatch]:
        if usable is not None and self.how.keep[p]:
            alone = rows_at(batch, np.flatnonzero(~usable))
            yield from self._answers.without(alone, p)
        yield from self._moved(p, False)

    def _moved(self, p: int, force: bool) -> Iterator[pa.RecordBatch]:
        """Emit what a side's frontier decides, and evict rows that nothing can match."""
        self.bounder.move(p, force, len(self.right) if p == 0 else len(self.left))
        self._stale = self._stale or force
        new, self._new = self._new, None
        if new is not None:
            rest, found = self._decided(new)
            yield from self._out(found)
            self.left.add(rest)
        elif p == 1:
            chunks = []
            for rows in self.left.chunks:
                rest, found = self._decided(rows)
                chunks.append(rest)
                yield from self._out(found)
            self.left.keep(chunks)
        self._evict(force)
        if self.right.evicted:
            gone, self.right.evicted = self.right.evicted, []
            for part in gone:
                yield from self._best.untaken(part)
            taken = self._best.taken
            assert taken is not None
            taken.forget(min((int(r.seq.min()) for r in self.right.each()), default=self.seq[1]))
        self._sweep_keys()
        files = self.account.files
        if files is not None:
            self.left.keep([rows.compacted(files) for rows in self.left.chunks])
            self.right.compact(files)

    def _decided(self, rows: Rows) -> tuple[Rows, Any]:
        """Return the rows that are not decided, and the others as :meth:`_out` takes them."""
        bounds: Bounds = self.bounder.bounds(0)
        if self._previous:
            bounds = None if self.ended[1] else previous_bounds(bounds, self.terms, len(self.plan.sides[0].axes))
        return split(rows, rows.outside(bounds))

    def _out(self, found: Any) -> Iterator[pa.RecordBatch]:
        """Emit decided rows."""
        if len(found):
            self.went(0, len(found))
            yield from self._answers.of(found, self.right.sorted())

    # -- eviction ----------------------------------------------------------------------------------------------------

    def _evict(self, force: bool) -> None:
        """Evict the right rows that no left row can match, if enough rows have arrived."""
        held, bounds = len(self.right), self.bounder.bounds(1)
        if bounds is None and not len(self.left):
            self.right.clear()
        elif not held or not self._stale or (not force and self._since < max(self._least, held // self._share)):
            return
        else:
            self._stale, self._since = False, 0
            waiting = None if self._previous else self._waiting()
            self.right.evict(self._dead(bounds, waiting), self._merges(), force)
        self.went(1, held - len(self.right))

    def _merges(self) -> bool:
        """Return whether all runs are merged first."""
        return False

    def _dead(self, bounds: Bounds, waiting: Waiting | None) -> Callable[[Run], np.ndarray]:
        """Return what marks the rows of a run that no left row can match : bool[n]."""
        if self._previous:
            if bounds is None and not self.ended[0]:
                return lambda run: np.zeros(len(run), dtype=bool)
            assert self._axis is not None
            return partial(without_older, axis=self._axis, low=older_than(bounds, self.left, self.terms, self._axis))
        return lambda run: dead_rows(run.rows, bounds, waiting, self.terms)

    def _waiting(self) -> Waiting | None:
        """Return what the waiting left rows can match, by key."""
        return self.left.by_key({t.left for t in self.terms})

    def _sweep_keys(self) -> None:
        sweep_keys(self.keys, sum(self.rows_held()), lambda: [r.kids for r in (*self.left.chunks, *self.right.each())])

    def settle(self, p: int) -> Iterator[pa.RecordBatch]:
        """Emit and evict rows after side p's frontier has moved by a promise or by rows of another operator."""
        return self._moved(p, True)

    def end(self, sides: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """End sides."""
        for p in sides:
            yield from self._moved(p, True)
        self.count_state()

    # -- counts ------------------------------------------------------------------------------------------------------

    def rows_held(self) -> tuple[int, int]:
        """Return the number of stored rows of each side."""
        return len(self.left), len(self.right)

    def bytes_held(self) -> int:
        """Return the approximate bytes of the state."""
        return sum(self.bytes_of_sides()) + self.keys.nbytes

    def bytes_of_sides(self) -> tuple[int, int]:
        """Return the bytes of the left and the right side, without the keys, which both share."""
        return self.left.nbytes, self.right.nbytes

    def came(self, p: int, rows: int, late: int) -> None:
        """Count ``rows`` rows that were pushed on side p, including ``late`` late rows."""
        m = self.metrics
        m.late_rows += late
        if p == 0:
            m.left_rows_in, m.left_late_rows = m.left_rows_in + rows, m.left_late_rows + late
        else:
            m.right_rows_in, m.right_late_rows = m.right_rows_in + rows, m.right_late_rows + late

    def went(self, p: int, rows: int) -> None:
        """Count rows of side p that are decided and no longer stored."""
        if p == 0:
            self.metrics.left_rows_retired += rows
        else:
            self.metrics.right_rows_retired += rows

    def count_state(self) -> None:
        """Update the counts of the state and their peaks."""
        m = self.metrics
        m.state_rows = sum(self.rows_held())
        m.state_bytes = self.bytes_held()
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows)
        m.peak_state_bytes = max(m.peak_state_bytes, m.state_bytes)
        if self.limits is not None:
            self.limits.stepped()

    def filed_rows(self) -> int:
        """Return the number of rows with columns in files."""
        return sum(len(rows) for rows in (*self.left.chunks, *self.right.each()) if rows.lies_in_files)

    def counts(self) -> JoinMetrics:
        """Return a copy of the counts at this moment."""
        m = replace(self.metrics)
        m.left_lateness, m.right_lateness = self.intake.lateness
        m.state_rows = sum(self.rows_held())
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows)
        m.state_bytes = self.bytes_held()
        if self.account.files is not None:
            m.spilled_rows, m.spilled_bytes = self.filed_rows(), self.account.files.nbytes
        return m

    # -- memory ------------------------------------------------------------------------------------------------------

    def limit(self, limit: OutputLimit) -> None:
        """Obey a limit from now on."""
        self.limits = limit

    def make_room(self, force: bool) -> None:
        """Drop rows that no row can match. Without ``force``, only if they are likely to be many."""
        if force or self._since > len(self.right) // _SOME:
            self._stale = True
            self._evict(True)

    def spill(self, files: Files, most: int) -> None:
        """Spill columns until at most ``most`` bytes are in memory, or none; MemoryLimitError if the disk is full."""
        def left() -> None:
            self.left.keep([rows if rows.lies_in_files else rows.spilled(files) for rows in self.left.chunks])

        first, second = self.bytes_of_sides()
        ways: list[Callable[[], object]] = [left, partial(self.right.spill, files)]
        for way in ways if first > second else ways[::-1]:
            if self.bytes_held() > most:
                way()

    def is_refused(self, error: BaseException) -> bool:
        """Return whether memory was refused for the push under way before it changed anything."""
        return self.account.refused

    def let_go(self) -> None:
        """Release all rows."""
        self.metrics = self.counts()
        self.left, self.right, self.keys = LeftRows(), RightRows(self._axis), key_table(self.plan)
        self._untaken()
        self.count_state()

    # -- what is known of the sides ----------------------------------------------------------------------------------

    def promise(self, p: int, node: Node, ordinal: int, descending: bool) -> bool:
        """Record a promise about later rows of a side; return whether its expression already had one."""
        known = node in self.frontiers[p].promised
        self.frontiers[p].promise(node, ordinal, descending)
        return known

    def learn(self) -> None:
        """Add the axes that prune after the frontiers got new expressions."""
        for frontier in self.frontiers:
            frontier.refresh()
        missing = list(self.bounder.missing_axes())
        for s, node in missing:
            if node not in self.plan.sides[s].axes:
                self.plan.sides[s].axes.append(node)
        if missing:
            self.plan.derived = Derived()
            for s in (0, 1):
                self.bounder.refit(s)
            self.read_again()

    def rekey(self) -> None:
        """After a computed key failed for some row: look up by plain columns only; pairs decide the rest."""
        if self._previous:
            raise EvaluationError(
                "a computed key has an error for a row, and include_previous=True needs all keys; use try_cast or "
                "try_add in the key, or filter the row first"
            )
        plan = self.plan
        plain = [a.op == b.op == "column" for a, b in zip(plan.sides[0].keys, plan.sides[1].keys, strict=True)]
        self.rekeyed = self.full_predicate = True
        plan.null_safe = list(compress(plan.null_safe, plain))
        for side in plan.sides:
            side.keys = list(compress(side.keys, plain))
        plan.derived = Derived()
        self.read_again()

    def read_again(self) -> None:
        """Evaluate the stored rows again for other keys or axes."""
        self.keys = key_table(self.plan)
        self.right.keys = self.keys if self.right.keys is not None else None
        self.left.keep([self._reread(0, rows) for rows in self.left.chunks])
        self.right.replace(lambda rows: self._reread(1, rows))

    def _reread(self, s: int, rows: Rows) -> Rows:
        return self._stored_rows(s, rows.columns, rows.seq)

    def _stored_rows(self, s: int, columns: Sequence[pa.Array], seq: np.ndarray) -> Rows:
        picks = self.plan.spec.picks_one
        return read(self.plan, s, columns, seq, self.layouts[s], self.intake, self.keys, None, picks).rows

    def saved_rows(self, s: int) -> tuple[list[pa.Array], np.ndarray]:
        """Return the stored rows of a side in order of arrival: the columns, and which are taken : bool[n]."""
        parts = self.left.chunks if s == 0 else list(self.right.each())
        if not parts:
            return [pa.nulls(0, t) for t in self.layouts[s].stored], np.zeros(0, dtype=bool)
        rows = joined(parts)
        rows = rows.take(np.argsort(rows.seq, kind="stable"))
        if s == 1 and self.how.keep[1] and (taken := self._best.taken) is not None:
            return rows.columns, taken.of(rows.seq)
        return rows.columns, np.zeros(len(rows), dtype=bool)

    def adopt_rows(self, s: int, arrays: Sequence[pa.Array], marked: np.ndarray) -> None:
        """Store rows of a snapshot."""
        n = len(marked)
        if n:
            seq = np.arange(self.seq[s], self.seq[s] + n, dtype=np.int64)
            rows = self._stored_rows(s, arrays, seq)
            (self.left if s == 0 else self.right).add(rows)
            if s == 1 and self.how.keep[1] and (taken := self._best.taken) is not None:
                taken.add(seq[np.asarray(marked, dtype=bool)])
            self.seq[s] += n

    def column(self, s: int, index: int) -> Node:
        """Return the node of a column of side s."""
        field = self.plan.sides[s].schema.field(index)
        return build.column(SIDES[s], field.name, from_arrow(field.type))

    def rows_at_hand(self, s: int) -> Iterator[tuple[Callable[[int], pa.Array | None], int]]:
        """Yield the rows of side s that later output may have: (function from place to column or None, rows)."""
        places = self.layouts[s].places
        for rows in (*self.left.chunks, *self._giving) if s == 0 else self.right.each():
            yield (lambda i, r=rows: None if places[i] < 0 else r.column(places[i])), len(rows)  # type: ignore[misc]

    def led(self, s: int) -> None:
        """Return None: the index of a side never changes."""

    def refresh_bounds(self) -> None:
        """Compute axes and bounds again after the frontiers were set from outside."""
        self.learn()
        for p in (0, 1):
            self.bounder.move(p, True, 1)

    def decides(self) -> list[Node]:
        """Return the conjuncts to evaluate for each pair."""
        condition = self.plan.condition
        if self.full_predicate and condition is not None:
            return list(conjuncts_of(condition))
        return list(self.plan.separation.residual)
