"""``MultiJoin``: join many inputs batch by batch, in steps of two inputs, and prune by the bounds of all inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ivjoin.arguments import known_options
from ivjoin.errors import IvjoinError, MemoryLimitError, ProtocolError
from ivjoin.frontier.late import OnLate, late_rule
from ivjoin.metrics import MultiJoinMetrics
from ivjoin.multi.across import Across
from ivjoin.multi.counts import counted, stored
from ivjoin.multi.feeding import Feeding
from ivjoin.multi.inputs import Input
from ivjoin.multi.pace import behind, offsets
from ivjoin.multi.question import AliasBounds, AliasOrders, Views, alias_named, multi_spec
from ivjoin.multi.shape.steps import Shape, laid_out
from ivjoin.multi.shape.trees import best_shape
from ivjoin.multi.spec import MultiSpec
from ivjoin.multi.state.memory import SharedLimit, allowed, part_of, refused, stopped
from ivjoin.multi.wording import by_their_names, own_names
from ivjoin.operator.match.step_join import StepJoin
from ivjoin.operator.memory.budget import WhenFull
from ivjoin.operator.protocol import NOTHING, OneCall, Output, of_one_process
from ivjoin.plan.cache import plan_of

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression
    from ivjoin.expr.literals import Params, Value
    from ivjoin.operator.explaining.picture import Explanation
    from ivjoin.operator.memory.budget import Budget
    from ivjoin.plan.question import SupportsArrowSchema

__all__ = ["MultiJoin"]

# Bytes are counted at each new maximum of stored rows, and once in so many calls. It takes as long as a small push.
_COUNT_EVERY = 8


class MultiJoin(OneCall):
    """Join two to eight inputs batch by batch, and store only the rows that can still match (inner joins only).

    ``push``, ``advance`` and ``finish`` return an iterator of output batches. Take all batches before the next call.
    The output has the columns of all inputs, as ``alias_name``.

    Parameters
    ----------
    inputs : mapping of alias to schema
    condition, orders, bounds, views, batch_size, on_late, timezone, allow_cross, params
        As for :func:`ivjoin.multi_join`. Without a condition, the join is a cross product.
    memory_limit : int or str, optional
        Limit in bytes for all steps together, or text such as "512MB". A batch that exceeds it raises MemoryLimitError.
        Push it again when memory is free, unless the operator has stopped.
    when_full : {"raise", "spill"} or :class:`~ivjoin.Spill`
        At the limit, refuse the batch, or continue on disk. Each step gets an equal part of the limit.

    Raises
    ------
    OptionError, ColumnError, ConditionError, UnsupportedError, OrderError, SchemaError
        If an argument is invalid.

    Examples
    --------
    >>> import pyarrow as pa
    >>> s = pa.schema({"k": pa.int64(), "t": pa.int64()})
    >>> op = MultiJoin(
    ...     {"a": s, "b": s, "c": s}, "a.k = b.k AND b.k = c.k AND b.t BETWEEN a.t AND a.t + 5 AND c.t = b.t",
    ...     orders={"a": "t", "b": "t", "c": "t"},
    ... )
    >>> for alias, t in (("a", 10), ("b", 12), ("c", 12)):
    ...     for batch in op.push(alias, pa.record_batch({"k": [1], "t": [t]})):
    ...         print(batch.to_pylist())
    [{'a_k': 1, 'a_t': 10, 'b_k': 1, 'b_t': 12, 'c_k': 1, 'c_t': 12}]
    """

    @known_options("MultiJoin")
    def __init__(
        self, inputs: Mapping[str, SupportsArrowSchema], condition: Expression | None = None, *,
        orders: AliasOrders | None = None, bounds: AliasBounds | None = None, views: Views = "auto",
        batch_size: int = 65536, on_late: OnLate = "raise", timezone: str | None = None, allow_cross: bool = False,
        memory_limit: int | str | None = None, when_full: WhenFull = "raise", params: Params | None = None,
    ) -> None:
        budget = allowed(memory_limit, when_full)
        rule, report = late_rule(on_late)
        spec = multi_spec(
            inputs, condition, orders=orders, bounds=bounds, views=views, batch_size=batch_size, on_late=rule,
            timezone=timezone, allow_cross=allow_cross, params=params,
        )
        self.make(spec, best_shape(spec), None)
        for own in self.inputs.values():
            own.report_late(report)
        self._limit(budget)

    @classmethod
    def from_spec(
        cls, spec: MultiSpec, shape: Shape | None = None, *, late_within: bool = True, budget: Budget | None = None
    ) -> MultiJoin:
        """Return an operator for a resolved spec. With ``late_within``, rows of one batch can make later ones late."""
        self = cls.__new__(cls)
        self.make(spec, best_shape(spec) if shape is None else shape, None, late_within)
        self._limit(budget)
        return self

    def _limit(self, budget: Budget | None) -> None:
        self._shared, self._has_limit = None, budget is not None
        if budget is None:
            return
        if budget.when_full == "raise":
            self._shared = SharedLimit(self, budget.limit)
            self._shared.give_back()
            return
        of_one_process(self)
        self.across.prepare()
        for step in self.operators:
            step.keep_within(part_of(budget, len(self.operators)))

    def make(self, spec: MultiSpec, shape: Shape, operators: list[StepJoin] | None, late_within: bool = True) -> None:
        """Build the steps of a shape, with the given operators, if any."""
        self._begin()
        self.late_within = late_within
        self.spec, self.shape = spec, shape
        self.layout = laid_out(spec, shape)
        self.steps = self.layout.steps
        self.inputs = {a: Input(a, spec.schemas[a], spec.inputs[a], late_within, spec.certain) for a in spec.aliases}
        self.operators = operators or [
            StepJoin.from_plan(plan_of(s.spec), keeps=(s.sides[0].keeps, s.sides[1].keeps)) for s in self.steps
        ]
        self.across = Across(spec, self.steps, self.inputs, self.operators)
        self._feeding = Feeding(spec, self.layout, self.operators, self.across)
        self._names = own_names(spec.schemas)
        self._limit(None)
        self.limit_error: MemoryLimitError | None = None
        self._rows_out = self._peak_rows = self._peak_bytes = 0
        self._rows = self._uncounted = 0
        self.groups = offsets(self.steps, (t.node for i in self.inputs.values() for t in i.frontier.trackers))

    def resume(self, closed: list[list[bool]], counts: list[int]) -> None:
        self.across.closed = closed
        self._rows_out, self._peak_rows, self._peak_bytes = counts
        self._rows = stored(self.operators)[0]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Return the number of output rows, and the greatest numbers of rows and bytes stored so far."""
        return self._rows_out, self._peak_rows, self._peak_bytes

    @property
    def schema(self) -> pa.Schema:
        """The schema of the output."""
        return self.spec.schema

    @property
    def aliases(self) -> list[str]:
        """The aliases of the inputs."""
        return self.spec.aliases

    @property
    def views(self) -> list[tuple[str, ...]]:
        """The stored intermediate results, each as the inputs that it joins."""
        return [side.aliases for step in self.steps for side in step.sides if side.is_view]

    @property
    def metrics(self) -> MultiJoinMetrics:
        """The counts so far, as a copy."""
        return counted(self.layout, self.operators, self.inputs, self.counts)

    def push(self, alias: str, batch: pa.RecordBatch) -> Output:
        """Add a batch to an input; iterate over the result to take all output before the next call.

        Raise SchemaError, LateRowError, EvaluationError, ProtocolError or MemoryLimitError.
        """
        own = self.inputs[alias_named(alias, self.aliases)]
        self._enter()
        try:
            if own.ended:
                raise ProtocolError(f"push({alias!r}, ...) after finish({alias!r}); a finished input takes no rows")
            rows = own.wide(batch)
            if self._has_limit and batch.num_rows:
                own.refuse_late(rows)
                return self._start("push", self._in_pieces(own, rows))
            rows = own.screen(rows)
            return self._start("push", self._pushed(alias, rows)) if rows.num_rows else NOTHING
        except IvjoinError:
            raise
        except BaseException as e:  # the input's frontier may have moved already
            self._stop(e)
            raise
        finally:
            self._busy = False

    def advance(self, alias: str, values: Mapping[Expression, Value]) -> Output:
        """Promise that no later row of an input has an expression below a value (above it, for a descending order)."""
        own = self.inputs[alias_named(alias, self.aliases)]
        self._enter()
        try:
            for node, ordinal, falls in own.promises(values, self.spec.options.timezone):
                own.frontier.promise(node, ordinal, falls)
            return self._start("advance", self._pruned(True))
        finally:
            self._busy = False

    def reach(self, alias: str, edges: Sequence[int | None]) -> Output:
        """Advance the orders of an input to the values that another operator of the join has seen, as ordinals."""
        own = self.inputs[alias_named(alias, self.aliases)]
        self._enter()
        try:
            own.reach(edges)
            return self._start("reach", self._pruned(True))
        finally:
            self._busy = False

    def lagging(self, rows: Mapping[str, int]) -> str:
        """Return the input to read next so that few rows wait, given the rows read of each unfinished input."""
        return behind(self.groups, self.inputs, rows)

    def finish(self, alias: str | None = None) -> Output:
        """End one input, or all inputs. Rows then no longer wait for later rows of it."""
        return self.end(alias)

    def end(self, alias: str | None, soon: bool = True) -> Output:
        """Do the same as :meth:`finish`. Without ``soon``, a few stored rows are evicted when further rows arrive."""
        ending = self.aliases if alias is None else [alias_named(alias, self.aliases)]
        self._enter()
        try:
            for a in ending:
                self.inputs[a].frontier.ended = True
            return self._start("finish", self._pruned(True, soon))
        finally:
            self._busy = False

    def snapshot(self) -> bytes:
        """Return the whole state as bytes for :meth:`restore`."""
        from ivjoin.multi.state import snapshot

        self._enter()
        try:
            return snapshot.write(self)
        finally:
            self._busy = False

    @classmethod
    def restore(
        cls, blob: bytes, *, memory_limit: int | str | None = None, when_full: WhenFull = "raise"
    ) -> MultiJoin:
        """Return an operator that continues from a snapshot, within the memory limit given here.

        Raise SnapshotError if the bytes are not a snapshot, are damaged, or come from a newer version.
        """
        from ivjoin.multi.state import snapshot

        budget = allowed(memory_limit, when_full)
        self = cls.__new__(cls)
        spills = budget is not None and budget.when_full == "spill"
        snapshot.read(self, blob, budget if spills else None)
        if spills:
            self._has_limit = True
        else:
            self._limit(budget)
        return self

    def output_bounds(self) -> dict[str, tuple[Value | None, Value | None]]:
        """Return closed bounds of each output column over all later output rows; None for an end without a bound.

        The bounds follow from all rows, frontiers and the condition. The dict is empty if no output row can follow.
        Raise ProtocolError if the operator has stopped, or another thread uses it.
        """
        from ivjoin.multi.later import bounds_of_later_output

        self._enter(between=False)
        try:
            return bounds_of_later_output(self.spec, self.across, self.inputs, self._pending is not None)
        finally:
            self._busy = False

    def explain(self) -> Explanation:
        """Return the plan: the steps, the rows that each side stores, and the inputs that bound them."""
        from ivjoin.multi.explain import explained
        return explained(self.spec, self.layout)

    def _in_pieces(self, own: Input, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Push a batch under a limit; if all steps share the limit, in pieces that are small compared with it."""
        shared = self._shared
        most = batch.num_rows if shared is None else shared.most_rows(batch)
        if batch.num_rows > most and not self.late_within:
            raise self._refused(MemoryLimitError(
                f"a batch of {batch.num_rows:,} rows is too large for memory_limit, expected {most:,} rows at most; "
                "give smaller batches or a greater limit"
            ))
        for start in range(0, batch.num_rows, most):
            piece = batch.slice(start, most)
            if shared is not None:
                yield from self._pruned(shared.is_near)
            for last in (shared is None, True):
                before = own.save()
                try:
                    yield from self._screened(own, piece)
                    break
                except MemoryLimitError as e:
                    if self._feeding.begun:
                        raise stopped(e) from e
                    own.load(before)
                    if last:
                        raise self._refused(refused(e, start)) from e
                yield from self._pruned(True)  # this may free enough
                assert shared is not None
                shared.give_back()

    def _screened(self, own: Input, piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._feeding.begun = False
        rows = own.screen(piece)
        if rows.num_rows:
            yield from self._pushed(own.alias, rows)

    def _refused(self, error: MemoryLimitError) -> MemoryLimitError:
        self.limit_error = error
        return error

    def _spares(self, error: BaseException) -> bool:
        return error is self.limit_error

    def _pushed(self, alias: str, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        with by_their_names(self._names):
            yield from self._feeding.push(alias, rows, self._shared is not None)
        self.across.came(rows.num_rows)
        yield from self._pruned(False)

    def _pruned(self, force: bool, soon: bool = True) -> Iterator[pa.RecordBatch]:
        with by_their_names(self._names):
            self.across.prune(self._rows, force, soon)
        yield from ()

    def _stepped(self, ended: bool) -> None:
        if not ended:
            return
        rows = sum(op.rows for op in self.operators)
        self._uncounted += 1
        if rows > self._peak_rows or self._uncounted >= _COUNT_EVERY or self._shared is not None:
            self._uncounted = 0
            self._peak_bytes = max(self._peak_bytes, stored(self.operators)[1])
        self._rows, self._peak_rows = rows, max(self._peak_rows, rows)

    def _gave(self, batch: pa.RecordBatch) -> None:
        self._rows_out += batch.num_rows

    def _let_go(self) -> None:
        self.operators[:] = [StepJoin.from_plan(plan_of(s.spec)) for s in self.steps]
