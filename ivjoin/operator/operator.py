"""The push operator: a symmetric hash join over RecordBatches that prunes what can no longer match."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from ivjoin.errors import (
    EvaluationError,
    IvjoinError,
    LateRowError,
    MemoryLimitError,
    ProtocolError,
    SchemaError,
    came,
)
from ivjoin.expr.arguments import known_options
from ivjoin.expr.nodes import Node
from ivjoin.frontier.order import physical_ordinal
from ivjoin.metrics import JoinMetrics
from ivjoin.operator import blocks, snapshot, steps
from ivjoin.operator.budget import Budget, budget_of
from ivjoin.operator.core import Core
from ivjoin.operator.cores import AnyCore, core_of
from ivjoin.operator.output_bounds import output_bounds
from ivjoin.operator.protocol import BUSY, NOTHING, OneCall, Output, of_one_process
from ivjoin.plan.cache import planned
from ivjoin.plan.implied import with_edges
from ivjoin.plan.planner import JoinPlan
from ivjoin.plan.question import side_expression
from ivjoin.plan.spec import SIDES
from ivjoin.shj.plain import to_plain
from ivjoin.shj.store.account import Account

if TYPE_CHECKING:
    from ivjoin.expr.written import Expression, Value
    from ivjoin.plan.pick import PickBy
    from ivjoin.plan.question import Aggregates, DeclaredBounds, Keys, Orders, SupportsArrowSchema

__all__ = ["SymmetricHashJoin"]

_PLACES = {side: p for p, side in enumerate(SIDES)}
_MOST_WORDS = 64  # for watermarks that an operator remembers

# What refuses a batch before anything has changed.
_REFUSALS = (ProtocolError, SchemaError, LateRowError, EvaluationError)


class SymmetricHashJoin(OneCall):
    """A pruning symmetric hash join that is fed batch by batch.

    ``push``, ``advance``, ``reach`` and ``finish`` return an iterator of output batches with a ``close``. It must be
    taken to its end before the next call, unless it is empty. Closed or dropped before that, it stops the operator:
    every later call raises ProtocolError. One thread at a time may use an operator and its iterators, others get
    ProtocolError; ``metrics`` and ``schema`` may be read at any time, and different operators run side by side.

    Parameters
    ----------
    left_schema, right_schema : pa.Schema
    on : str, list of str, or list of (str, str), optional
        Key columns, equal on both sides.
    condition : str, SymPy relation or ivjoin expression, optional
        What must hold besides; ``l.`` and ``r.`` name the sides.
    how : str
        inner, left, right, full, left_semi, left_anti, right_semi, right_anti, or Spark's aliases.
    left_order, right_order : str, expression, Order, or a list of these
        Promises about the order of arrival.
    left_bounds, right_bounds : mapping of column to (least, greatest)
        Closed bounds that every row keeps; None for none.
    suffix : str
        Appended to the name of a right column that collides.
    batch_size : int
        Greatest number of rows of an output batch.
    on_late : {"raise", "drop", "join"}
        What to do with a row that breaks its side's order or bounds.
    timezone : str, optional
        Zone of calendar days and of timestamps without a zone; UTC by default. A timestamp without a zone is compared
        with one that has a zone only if you give it.
    pick : {"last", "first", "nearest"}, optional
        Of the right rows that satisfy the whole condition each left row takes one: the last, the first, or the one
        nearest to the left side's order (ties to the earlier one). ``how`` is inner or left.
    pick_by : str, expression, or list of these
        Right columns by which rows are compared; the later ones break ties: numbers, times, bools, text, bytes (of
        ``"nearest"``, the first one is a number or a time). A null in the first never wins, NaN is the greatest value.
        Among rows that are equal in all of them, which one comes is not promised.
    aggregate : mapping of str to (column, function), optional
        ``{"vwap": ("price", "mean"), "n": ("*", "count")}``: each left row comes out once, with aggregates of the right
        rows that match it, when no later one can. Functions: count, sum, mean, min, max, first, last. ``how`` is inner
        or left, which keeps rows that nothing matches, with count 0 and null.
    memory_limit : int or str, optional
        Bytes that the operator may hold, or text such as "512MB" (MB are 10**6 bytes, MiB 2**20).
    when_full : {"raise", "spill", "shed"}
        What happens where the rows that can still match do not fit: MemoryLimitError; files (exact); or rows are
        dropped (a subset of the result, inner and semi joins alone).
    spill_dir : path, optional
        Folder of the files; the system's for temporary files by default. They have no names, and go with the process.
    shed : {"prob", "life", "random"}, optional
        Which rows go first: those least likely to match (the default); those with the least product of that and the
        time that is left to them; any.
    shed_shared : bool
        Let both sides share the memory, and not half of it each.

    Raises
    ------
    IvjoinError
        A subclass that says what came, what was expected, and the nearest fix.

    Examples
    --------
    >>> import pyarrow as pa
    >>> s = pa.schema({"k": pa.int64(), "t": pa.int64()})
    >>> op = SymmetricHashJoin(s, s, on="k", condition="l.t >= r.t - 5 AND l.t <= r.t", left_order="t", right_order="t")
    >>> list(op.push("left", pa.record_batch({"k": [1], "t": [10]})))
    []
    >>> [b.to_pylist() for b in op.push("right", pa.record_batch({"k": [1], "t": [12]}))]
    [[{'k': 1, 't': 10, 't_right': 12}]]
    """

    _takes = True  # memory that an operator of the plan has left

    @known_options("SymmetricHashJoin")
    def __init__(
        self, left_schema: SupportsArrowSchema, right_schema: SupportsArrowSchema, *, on: Keys | None = None,
        condition: Expression | None = None, how: str = "inner", left_order: Orders | None = None,
        right_order: Orders | None = None, left_bounds: DeclaredBounds | None = None,
        right_bounds: DeclaredBounds | None = None, suffix: str = "_right", batch_size: int = 65536,
        on_late: str = "raise", timezone: str | None = None, aggregate: Aggregates | None = None,
        memory_limit: int | str | None = None, when_full: str = "raise",
        spill_dir: str | os.PathLike[str] | None = None, shed: str | None = None, shed_shared: bool = False,
        pick: str | None = None, pick_by: PickBy | None = None,
    ) -> None:
        self._begin()
        budget = budget_of(memory_limit, when_full, spill_dir, shed, shed_shared)
        plan = planned(
            left_schema, right_schema, on=on, condition=condition, how=how, left_order=left_order,
            right_order=right_order, left_bounds=left_bounds, right_bounds=right_bounds, suffix=suffix,
            batch_size=batch_size, on_late=on_late, timezone=timezone, aggregate=aggregate, pick=pick, pick_by=pick_by,
        )
        self._core = core_of(plan, takes=budget is None)
        self._limit(budget)

    def _limit(self, budget: Budget | None) -> None:
        self._limits = None
        if budget is None:
            return
        budget.check(self._core.plan)
        if budget.when_full == "spill":
            of_one_process(self)
        if not isinstance(self._core, Core):
            self._core.limit(budget)
            return
        from ivjoin.operator.limits import Limits

        self._limits = self._core.limits = Limits(self._core, budget)
        self._core.stay_linked()

    @classmethod
    def from_plan(
        cls, plan: JoinPlan, *, late_within: bool = True, errors_first: bool = False,
        keeps: tuple[bool, bool] = (True, True), budget: Budget | None = None,
    ) -> Self:
        """An operator for a plan. ``late_within`` False measures lateness against earlier batches only.

        ``errors_first`` promises that rows for which an ordered expression errs come before all that have a value of
        it, on either side; they are not refused then. ``keeps`` False of a side: its rows probe the other one and are
        not stored; for inner joins. ``budget``: what it may hold (``ivjoin.operator.budget``).
        """
        self = cls.__new__(cls)
        self._begin()
        self._core = core_of(plan, late_within, errors_first, keeps, cls._takes and budget is None)
        self._limit(budget)
        return self

    @property
    def plan(self) -> JoinPlan:
        """What the operator was planned to do."""
        return self._core.plan

    # -- public --------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._core.plan.schema

    @property
    def account(self) -> Account:
        """What the operator may hold, and what is asked before it holds more."""
        return self._core.account

    @property
    def metrics(self) -> JoinMetrics:
        """Counts so far; what is returned does not change any more."""
        m = self._core.counts()
        m.peak_state_bytes = max(m.peak_state_bytes, m.state_bytes)  # less only when just restored
        return m

    def push(self, side: str, batch: pa.RecordBatch) -> Output:
        """Feed a batch to a side; iterate to take the output.

        The batch is taken at the call. The iterator must be drained before the next call.

        The operator refers to the buffers of lists, structs and dictionaries in the batch; it copies no nested column.
        Do not write to those buffers afterwards: allocate new ones for the next batch, as Arrow's builders do.

        Raises
        ------
        SchemaError, LateRowError, EvaluationError, ProtocolError
        """
        p = _PLACES[side] if type(side) is str and side in _PLACES else self._side(side)
        self._enter()
        try:
            core = self._core
            if core.ended[p]:
                raise ProtocolError(f"push({side!r}, ...) after finish({side!r}); a finished side takes no rows")
            self._check_schema(p, batch)
            if core.layouts[p].never_null:
                self._check_nulls(p, batch)
            return self._push(p, batch) if batch.num_rows else NOTHING
        except _REFUSALS:
            raise
        except BaseException as e:
            if not self._core.is_refused(e):
                self._stop(e)
            raise
        finally:
            self._busy = False

    def _push(self, p: int, batch: pa.RecordBatch) -> Output:
        core = self._core
        core.account.refused = False
        schema = core.layouts[p].schema
        if schema is not None:
            plain = batch.columns
            for i, t in core.layouts[p].changed:
                plain[i] = to_plain(plain[i], t)
            batch = pa.RecordBatch.from_arrays(plain, schema=schema)
        if self._limits is not None:
            most = self._limits.most_rows(p, batch)
            if batch.num_rows > most:
                return self._start("push", self._limits.take_pieces(p, batch, most))
            self._limits.make_ready(p, batch.num_rows)
        out = steps.take(core, p, batch)
        if self._limits is not None:
            self._limits.took(p, batch)
            self._limits.stepped()
        if out is None:
            return NOTHING
        if isinstance(out, pa.RecordBatch):
            return self._output("push", out)
        return self._start("push", out)

    def rows_at_once(self, side: str, batch: pa.RecordBatch) -> int:
        """Rows of a batch that one step takes; those of a larger one are pushed in pieces where there is a limit."""
        return batch.num_rows if self._limits is None else self._limits.most_rows(self._side(side), batch)

    def _spares(self, error: BaseException) -> bool:
        return isinstance(error, MemoryLimitError) and self._core.is_refused(error)

    def check(self, side: str, batch: pa.RecordBatch) -> None:
        """Refuse a batch that :meth:`push` would refuse for its schema.

        Raises
        ------
        SchemaError
        """
        p = self._side(side)
        self._check_schema(p, batch)
        self._check_nulls(p, batch)

    def advance(self, side: str, values: Mapping[Expression, Value]) -> Output:
        """Promise that no later row of a side has an expression below a value (above it, for a descending order)."""
        p = self._side(side)
        self._enter()
        try:
            return self._change("advance", self._promised(p, self._promises(p, values)))
        finally:
            self._busy = False

    def _promises(self, p: int, values: Mapping[Any, Any]) -> list[tuple[Node, int, bool]]:
        if not isinstance(values, Mapping) or not values:
            raise IvjoinError(f"advance takes {{expression: value}}; got {came(values)}")
        schema = self._core.plan.sides[p].schema
        promises = []
        for name, value in values.items():
            # Watermarks come with every batch or so, in the same words.
            known = self._core.watermarks.get((p, name)) if type(name) is str else None
            if known is None:
                node = side_expression(name, p, schema, self._core.plan.spec.timezone, "watermark")
                orders = self._core.plan.sides[p].orders
                known = node, any(n is node and o.descending and not o.follows for n, _, o in orders)
                if type(name) is str and len(self._core.watermarks) < _MOST_WORDS:
                    self._core.watermarks[p, name] = known
            node, descending = known
            ordinal = physical_ordinal(value, node.type, f"the watermark of {name}", up=not descending)
            promises.append((node, ordinal, descending))
        return promises

    def _promised(self, p: int, promises: list[tuple[Node, int, bool]]) -> Iterator[pa.RecordBatch]:
        known = [self._core.promise(p, *promise) for promise in promises]
        if not all(known):
            self._core.learn()
        yield from steps.settle(self._core, p)

    def reach(self, side: str, edges: Sequence[int | None]) -> Output:
        """Let a side have come as far as rows that were pushed to another operator of the same join.

        Where keys are spread over several operators, each learns here how far the side has come over all of them: the
        declared orders hold for the side as a whole. All that is decided by then comes out, also what pushes alone
        would have put off until it pays to look. Unlike :meth:`advance`, which promises a least value, the slack of
        each order still applies to later rows.

        Parameters
        ----------
        side : {"left", "right"}
        edges : list or tuple of int or None
            For each declared order of the side, in its order, the ordinal (``ivjoin.expr.ordinal``) of the greatest
            value seen; of the least, as ``~ordinal``, for a descending order. None where no value was seen. An edge
            behind the operator's own changes nothing.

        Raises
        ------
        ProtocolError
            If there is not one edge for each order.
        """
        p = self._side(side)
        self._enter()
        try:
            if not isinstance(edges, (list, tuple)) or not all(_is_edge(e) for e in edges):
                raise ProtocolError(
                    f"reach({side!r}, ...) got {came(edges)}; expected a list with an int64 or None for each order"
                )
            n = sum(not o.follows for _, _, o in self._core.plan.sides[p].orders)
            if len(edges) != n:
                raise ProtocolError(f"reach({side!r}, ...) got {len(edges)} edges; the side has {n} orders")
            return self._change("reach", self._reached(p, edges))
        finally:
            self._busy = False

    def _reached(self, p: int, edges: Sequence[int | None]) -> Iterator[pa.RecordBatch]:
        orders = [o for _, _, o in self._core.plan.sides[p].orders]
        for t, edge in zip(self._core.frontiers[p].trackers, with_edges(orders, edges), strict=True):
            if edge is not None:
                t.reach(edge)
        yield from steps.settle(self._core, p)

    def finish(self, side: str | None = None) -> Output:
        """End one side, or both: everything that no row can change any more comes out."""
        sides = (0, 1) if side is None else (self._side(side),)
        self._enter()
        try:
            return self._change("finish", self._finished(sides))
        finally:
            self._busy = False

    def _finished(self, sides: Sequence[int]) -> Iterator[pa.RecordBatch]:
        if self._limits is not None:
            self._limits.look()
        fresh = [p for p in sides if not self._core.ended[p]]
        for p in fresh:
            self._core.ended[p] = True
            self._core.frontiers[p].ended = True
        yield from steps.end(self._core, fresh)

    def snapshot(self) -> bytes:
        """The whole state as bytes, from which :meth:`restore` goes on: spilled rows included, the limit not."""
        self._enter()
        try:
            return snapshot.write(self._core)
        finally:
            self._busy = False

    @classmethod
    def restore(
        cls, blob: bytes, *, memory_limit: int | str | None = None, when_full: str = "raise",
        spill_dir: str | os.PathLike[str] | None = None, shed: str | None = None, shed_shared: bool = False,
    ) -> Self:
        """An operator that goes on where a snapshot was taken, within the limit that is given here.

        Raises
        ------
        SnapshotError
            If the bytes are no snapshot, are damaged, or come from a newer version.
        MemoryLimitError
            If its rows do not fit the limit.
        """
        return cls._restored(blob, budget_of(memory_limit, when_full, spill_dir, shed, shed_shared))

    @classmethod
    def _restored(cls, blob: bytes, budget: Budget | None) -> Self:
        self = cls.__new__(cls)
        self._begin()
        self._limits = None

        def limit(core: AnyCore) -> None:
            self._core = core
            self._limit(budget)

        self._core = snapshot.read(blob, limit)
        return self

    def output_bounds(self) -> dict[str, tuple[Value | None, Value | None]]:
        """What later output rows can still hold: closed bounds by output column, None for an end that has none.

        Found from the rows that are stored, from how far the inputs have come, and from the condition: what a consumer
        may take as a promise, such as a watermark. Costs a look at every stored row. Empty where no row can come any
        more. NULL is in no bounds; where NaN, the greatest value, may come there is no upper bound; text and nested
        values are not bounded. Under ``on_late="join"`` an input's order says nothing of its later rows.

        Returns
        -------
        dict of str to (inf, sup)
            Python values: int, float, Decimal, bool, date, datetime, time, timedelta.

        Raises
        ------
        ProtocolError
            If the operator has stopped with an error, gives aggregates, or another thread is at work with it.
        """
        self._enter(between=False)
        try:
            from ivjoin.operator.windows.core import WindowCore

            if isinstance(self._core, WindowCore):
                raise ProtocolError("output_bounds() is of joined rows; this operator gives aggregates of them")
            return output_bounds(self._core, self._pending is not None)
        finally:
            self._busy = False

    def lagging(self, rows_left: int, rows_right: int) -> int:
        """Which side (0 left, 1 right) to read next so that neither piles up; given the rows read of each."""
        busy, self._busy = self._busy, True
        if busy:
            raise ProtocolError(BUSY)
        try:
            self._core.frontiers[0].refresh()
            self._core.frontiers[1].refresh()
            return self._core.bounder.lagging(rows_left, rows_right)
        finally:
            self._busy = False

    # -- protocol ------------------------------------------------------------------------------------------------

    def _stepped(self, ended: bool) -> None:
        self._core.count_state()
        if self._limits is not None:
            self._limits.stepped()

    def _gave(self, batch: pa.RecordBatch) -> None:
        self._core.metrics.rows_out += batch.num_rows
        if self._core.account.files is not None:
            self._core.metrics.reads += batch.num_rows

    def _let_go(self) -> None:
        self._core.let_go()

    @staticmethod
    def _side(side: str) -> int:
        if not isinstance(side, str) or side not in SIDES:
            raise ProtocolError(f"side is {came(side)}; expected 'left' or 'right'")
        return SIDES.index(side)

    def _change(self, call: str, rest: Iterator[pa.RecordBatch]) -> Output:
        """Run a call that is not refused any more."""
        return self._start(call, rest)

    def _check_schema(self, p: int, batch: pa.RecordBatch) -> None:
        if not isinstance(batch, pa.RecordBatch):
            raise SchemaError(f"push takes a pyarrow.RecordBatch; got a {type(batch).__name__}")
        want = self._core.plan.sides[p].schema
        got = batch.schema
        if not (got is want or got.equals(want)):
            self._same_types(p, got, want)

    def _check_nulls(self, p: int, batch: pa.RecordBatch) -> None:
        want = self._core.plan.sides[p].schema
        for i in self._core.layouts[p].never_null:
            if batch.column(i).null_count:
                raise SchemaError(f"column {want.names[i]!r} of a {SIDES[p]} batch has nulls but is not nullable")

    @staticmethod
    def _same_types(p: int, got: pa.Schema, want: pa.Schema) -> None:
        if got.names != want.names:
            raise SchemaError(f"a {SIDES[p]} batch has columns {got.names}; expected {want.names}")
        for a, b in zip(got, want, strict=True):
            if a.type != b.type:
                raise SchemaError(f"column {a.name!r} of a {SIDES[p]} batch is {a.type}; expected {b.type}")


def _is_edge(edge: Any) -> bool:
    whole = isinstance(edge, (int, np.integer)) and not isinstance(edge, bool)
    return edge is None or (whole and -(2**63) <= int(edge) < 2**63)


blocks.joining = SymmetricHashJoin
