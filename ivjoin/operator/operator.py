"""The push operator: a symmetric hash join over RecordBatches that evicts rows when no later row can match them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from ivjoin.arguments import known_options
from ivjoin.errors import EvaluationError, LateRowError, ProtocolError, SchemaError
from ivjoin.frontier.late import OnLate, late_rule
from ivjoin.metrics import JoinMetrics
from ivjoin.operator import snapshot
from ivjoin.operator.base import Operator
from ivjoin.operator.engines import engine_of
from ivjoin.operator.explaining.output_bounds import output_bounds
from ivjoin.operator.memory.budget import WhenFull, budget_of
from ivjoin.operator.promises import check_edges, promises_of
from ivjoin.operator.protocol import NOTHING, Output
from ivjoin.plan.cache import planned
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression
    from ivjoin.expr.literals import Params, Value
    from ivjoin.operator.explaining.picture import Explanation
    from ivjoin.plan.picking.choice import Pick
    from ivjoin.plan.question import Aggregates, DeclaredBounds, JoinHow, Keys, Orders, SupportsArrowSchema

__all__ = ["SymmetricHashJoin"]

_PLACES = {side: p for p, side in enumerate(SIDES)}
_REFUSALS = (ProtocolError, SchemaError, LateRowError, EvaluationError)  # raised before any state has changed


class SymmetricHashJoin(Operator):
    """Join two inputs batch by batch, and store only the rows that can still match.

    ``push``, ``advance``, ``reach`` and ``finish`` return an iterator of output batches. Take all batches before the
    next call. If you close or drop the iterator earlier, the operator stops, and later calls raise ProtocolError.

    One thread at a time may use an operator and its iterators. A call from another thread raises ProtocolError. Any
    thread may read ``metrics`` and ``schema``. Different operators can run in different threads.

    Parameters
    ----------
    left_schema, right_schema : pa.Schema
    on : str, list of str, or list of (str, str), optional
        Key columns, equal on both sides.
    condition : str, SymPy relation or ivjoin expression, optional
        The condition on a pair of rows. ``l.`` and ``r.`` name the sides, and ``:name`` is a value of ``params``.
    how : str
        inner, left, right, full, left_semi, left_anti, right_semi, right_anti, or Spark's aliases.
    left_order, right_order : str, expression, Order, or a list of these
    left_bounds, right_bounds : mapping of column to (least, greatest)
        Promises about the order of arrival, and closed bounds of every row. None: no bound.
    suffix : str
    batch_size : int
    on_late : {"raise", "drop", "join"} or function
        What to do with a row that breaks its side's order or bounds. A function receives the side and such rows.
    timezone : str, optional
        Zone of calendar days and of timestamps without a zone; UTC by default. Comparing one of these with a timestamp
        that has a zone requires this option.
    pick : Pick, optional
        Which of the right rows that satisfy the whole condition each left row takes; see :class:`~ivjoin.Pick`.
    aggregate : mapping of str to (column, function), optional
        ``{"vwap": ("price", "mean"), "n": ("*", "count")}``: each left row is emitted once, with aggregates of its
        matching right rows, when no later row can match it. Functions: count, sum, mean, min, max, first, last.
        ``how`` is inner or left; left also emits unmatched rows, with count 0 and nulls.
    memory_limit : int or str, optional
        Limit in bytes, or text such as "512MB" (MB are 10**6 bytes, MiB 2**20).
    when_full : {"raise", "spill", "shed"}, :class:`~ivjoin.Spill` or :class:`~ivjoin.Shed`
        What to do if the rows that can still match do not fit. "raise" raises MemoryLimitError. "spill" writes rows to
        files. "shed" drops rows, and the result is a subset (inner and semi joins only).
    params : mapping of str to value, optional

    Raises
    ------
    OptionError, ColumnError, ConditionError, UnsupportedError, OrderError, SchemaError
        If an argument is invalid.

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

    @known_options("SymmetricHashJoin")
    def __init__(
        self, left_schema: SupportsArrowSchema, right_schema: SupportsArrowSchema, *, on: Keys | None = None,
        condition: Expression | None = None, how: JoinHow = "inner", left_order: Orders | None = None,
        right_order: Orders | None = None, left_bounds: DeclaredBounds | None = None,
        right_bounds: DeclaredBounds | None = None, suffix: str = "_right", batch_size: int = 65536,
        on_late: OnLate = "raise", timezone: str | None = None, aggregate: Aggregates | None = None,
        memory_limit: int | str | None = None, when_full: WhenFull = "raise",
        pick: Pick | None = None, params: Params | None = None,
    ) -> None:
        self._begin()
        budget = budget_of(memory_limit, when_full)
        rule, report = late_rule(on_late)
        plan = planned(
            left_schema, right_schema, on=on, condition=condition, how=how, left_order=left_order,
            right_order=right_order, left_bounds=left_bounds, right_bounds=right_bounds, suffix=suffix,
            batch_size=batch_size, on_late=rule, timezone=timezone, aggregate=aggregate, pick=pick,
            params=params,
        )
        self._engine = engine_of(plan, takes=budget is None)
        self._engine.intake.report = report
        self._limit(budget)

    @property
    def plan(self) -> JoinPlan:
        """Return the plan of the join."""
        return self._engine.plan

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the output."""
        return self._engine.plan.schema

    @property
    def metrics(self) -> JoinMetrics:
        """Return the counts so far, as a copy."""
        m = self._engine.counts()
        m.peak_state_bytes = max(m.peak_state_bytes, m.state_bytes)  # a restored operator may have no peak yet
        return m

    def explain(self) -> Explanation:
        """Return the plan: how each conjunct is used, and what evicts the rows of each side."""
        from ivjoin.operator.explaining.explain import explain_plan

        return explain_plan(self.plan)

    def push(self, side: str, batch: pa.RecordBatch) -> Output:
        """Add a batch to a side; iterate over the result to take all output before the next call.

        The operator does not copy nested columns. It refers to the buffers of lists, structs and dictionaries in the
        batch. Do not write to these buffers afterwards. Allocate new ones for the next batch, as Arrow's builders do.

        Raises
        ------
        SchemaError
            If the columns differ from the side's schema, or a column that is not nullable has nulls.
        LateRowError
            If a row breaks an order, bound or watermark of its side and ``on_late`` is ``"raise"``.
        EvaluationError
            If an expression has no value for a row, for example because of a division by zero or an overflow.
        MemoryLimitError
            If the rows that can still match do not fit.
        ProtocolError
            If the side has finished, earlier output was not taken, or another thread uses the operator.
        """
        p = _PLACES[side] if type(side) is str and side in _PLACES else self._side(side)
        self._enter()
        try:
            engine = self._engine
            if engine.ended[p]:
                raise ProtocolError(f"push({side!r}, ...) after finish({side!r}); a finished side takes no rows")
            engine.intake.check_schema(p, batch)
            if engine.layouts[p].never_null:
                engine.intake.check_nulls(p, batch)
            return self._push(p, batch) if batch.num_rows else NOTHING
        except _REFUSALS:
            raise
        except BaseException as e:
            if not self._engine.is_refused(e):
                self._stop(e)
            raise
        finally:
            self._busy = False

    def push_matched(self, side: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Push rows that count as matched, so they are never emitted as unmatched. Take all output."""
        self._engine.count_as_matched(True)
        try:
            yield from self.push(side, batch)
        finally:
            self._engine.count_as_matched(False)

    def advance(self, side: str, values: Mapping[Expression, Value]) -> Output:
        """Promise that an expression has no value below a watermark in later rows of a side.

        For a descending order, the promise is that no value is above it. ``values`` maps expressions to watermarks.

        Raises
        ------
        OptionError
            If ``values`` is not a mapping of expressions to watermarks.
        """
        p = self._side(side)
        self._enter()
        try:
            return self._start("advance", self._promised(p, promises_of(self._engine, p, values)))
        finally:
            self._busy = False

    def reach(self, side: str, edges: Sequence[int | None]) -> Output:
        """Advance the orders of a side to values that another operator of the same join has seen.

        If the keys of a join are spread over several operators, each one sees only part of a side. A declared order
        applies to the whole side. The call emits all rows that are then decided, including rows that :meth:`push` has
        deferred to save time. Unlike after :meth:`advance`, the slack of each order still applies to later rows.

        Parameters
        ----------
        side : {"left", "right"}
        edges : list or tuple of int or None
            For each declared order, the ordinal (``ivjoin.expr.ordinal``) of the greatest value seen; for a descending
            order, ``~ordinal`` of the least value. None if no value was seen. An edge behind the operator's own
            position has no effect.

        Raises
        ------
        ProtocolError
            If ``edges`` is not a list with an int64 or None for each order.
        """
        p = self._side(side)
        self._enter()
        try:
            check_edges(self._engine.plan, p, edges)
            return self._start("reach", self._reached(p, edges))
        finally:
            self._busy = False

    def finish(self, side: str | None = None) -> Output:
        """End one side, or both, and emit all rows that no later row can change."""
        sides = (0, 1) if side is None else (self._side(side),)
        self._enter()
        try:
            return self._start("finish", self._finished(sides))
        finally:
            self._busy = False

    def snapshot(self) -> bytes:
        """Return the whole state as bytes for :meth:`restore`. Spilled rows are included; the memory limit is not.

        Raises
        ------
        CapacityError
            If the stored rows of a side have more text, bytes or list items in a column than its type can hold.
        """
        self._enter()
        try:
            return snapshot.write(self._engine)
        finally:
            self._busy = False

    @classmethod
    def restore(
        cls, blob: bytes, *, memory_limit: int | str | None = None, when_full: WhenFull = "raise",
    ) -> Self:
        """Return an operator that continues from a snapshot, within the memory limit given here.

        Raises
        ------
        SnapshotError
            If the bytes are not a snapshot, are damaged, or come from a newer version.
        MemoryLimitError
            If the stored rows do not fit the limit.
        """
        return cls._restored(blob, budget_of(memory_limit, when_full))

    def output_bounds(self) -> dict[str, tuple[Value | None, Value | None]]:
        """Return closed bounds of each output column over all later output rows. This reads every stored row.

        The bounds follow from the stored rows, the frontiers and the condition. A consumer can use them as a watermark.

        Returns
        -------
        dict of str to (inf, sup)
            Python values: int, float, Decimal, bool, date, datetime, time, timedelta. An end without a bound is
            ``None``. The dict is empty if no output row can follow. Nulls may follow in any column. If NaN, the
            greatest value, may follow, the column has no upper bound. Text and nested columns have no bounds. With
            ``on_late="join"``, the orders of an input bound nothing.

        Raises
        ------
        ProtocolError
            If the operator stopped with an error, computes aggregates, picks several rows for each left row, or is
            used by another thread.
        """
        self._enter(between=False)
        try:
            spec = self._engine.plan.spec
            if spec.grouped:
                what = "aggregates" if spec.aggregates else "several picked rows for each left row"
                raise ProtocolError(f"output_bounds() describes joined rows, but this operator emits {what}")
            return output_bounds(self._engine, self._pending is not None)
        finally:
            self._busy = False
