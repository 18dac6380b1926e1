"""``MultiJoin``: a join of many inputs batch by batch, in steps of two inputs, pruned by the bounds of all inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ivjoin.errors import IvjoinError, MemoryLimitError, ProtocolError
from ivjoin.expr.arguments import known_options
from ivjoin.expr.nodes import LEFT, Node, make
from ivjoin.expr.ordinal import NAN_ORDINAL
from ivjoin.expr.types import from_arrow
from ivjoin.frontier.late import OnLate, late_rule
from ivjoin.metrics import MultiJoinMetrics
from ivjoin.multi.across import Across
from ivjoin.multi.inputs import Input
from ivjoin.multi.pace import behind, offsets
from ivjoin.multi.question import AliasBounds, AliasOrders, MultiSpec, Views, alias_named, multi_spec
from ivjoin.multi.reach import Box, Reach, columns_read, hull, united
from ivjoin.multi.state.memory import SharedLimit, allowed, part_of, refused, stopped
from ivjoin.multi.steps import Shape, laid_out
from ivjoin.multi.trees import best_shape
from ivjoin.multi.wording import by_their_names, own_names
from ivjoin.operator.match.step_join import StepJoin
from ivjoin.operator.memory.budget import WhenFull
from ivjoin.operator.protocol import NOTHING, OneCall, Output, of_one_process
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import SIDES

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression
    from ivjoin.expr.literals import Params, Value
    from ivjoin.operator.explaining.picture import Explanation
    from ivjoin.operator.memory.budget import Budget
    from ivjoin.plan.question import SupportsArrowSchema

__all__ = ["MultiJoin"]

# Bytes are counted if more rows are stored than ever, and once in so many calls: counting takes as long as a small
# push.
_COUNT_EVERY = 8


class MultiJoin(OneCall):
    """Join two to eight inputs batch by batch, storing only the rows that can still match (inner joins).

    ``push``, ``advance`` and ``finish`` return an iterator of output batches. Take all batches before the next call.
    The output has the columns of all inputs, as ``alias_name``.

    Parameters
    ----------
    inputs : mapping of alias to schema
    condition : str, SymPy relation or ivjoin expression
        Columns are ``alias.name``, or a bare name that only one input has. None for a cross product.
    orders : mapping of alias to str, expression, Order, or a list of these
    bounds : mapping of alias to mapping of column to (least, greatest)
        Promises about the order of arrival of an input, and closed bounds of its rows.
    views : "auto", "none", "all" or a list of groups of aliases
        Which intermediate results are stored.
    batch_size : int
        Most rows of an output batch.
    on_late : {"raise", "drop", "join"} or function
        What to do with a row that breaks its input's order or bounds. A function receives its alias and such rows.
    timezone : str, optional
        Zone of calendar days and of timestamps without a zone; UTC by default.
    allow_cross : bool
        Whether the condition may leave inputs unconnected.
    memory_limit : int or str, optional
        Limit in bytes for all steps together, or text such as "512MB". A batch that exceeds it raises MemoryLimitError;
        push it again when memory is free, unless the error states that the operator has stopped.
    when_full : {"raise", "spill"} or :class:`~ivjoin.Spill`
        Refuse the batch, or continue with files and an equal part of the limit for each step.
    params : mapping of str to value, optional

    Raises
    ------
    IvjoinError
        If an argument is invalid. The text states what came, what was expected, and the fix.

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
        """Return an operator for a resolved spec. ``late_within``: whether rows of one batch make later ones late."""
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
            StepJoin.from_plan(plan_of(s.spec), keeps=(s.sides[0].keeps, s.sides[1].keeps))
            for s in self.steps
        ]
        self.across = Across(spec, self.steps, self.inputs, self.operators)
        self._picks = {
            (i, alias): _order(step.sides[0].aliases + step.sides[1].aliases, self._taker(i, alias), spec)
            for alias, route in self.layout.routes.items() for step, i in ((self.steps[i], i) for i, _ in route)
        }
        self._names = own_names(spec.schemas)
        self._limit(None)
        self._refusal: MemoryLimitError | None = None
        self._begun = False  # whether a step has taken rows of the batch under way
        self._rows_out = self._peak_rows = self._peak_bytes = 0
        self._rows = self._uncounted = 0
        self.groups = offsets(self.steps, (t.node for i in self.inputs.values() for t in i.frontier.trackers))

    def resume(self, closed: list[list[bool]], counts: list[int]) -> None:
        """Continue from a snapshot."""
        self.across.closed = closed
        self._rows_out, self._peak_rows, self._peak_bytes = counts
        self._rows = self._stored()[0]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Return the rows out, and the most rows and bytes stored so far."""
        return self._rows_out, self._peak_rows, self._peak_bytes

    # -- public --------------------------------------------------------------------------------------------------

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
        copies = {a: [self.operators[i].stored(SIDES[p]) for i, p in self.layout.homes(a)] for a in self.inputs}
        views = {
            ", ".join(side.aliases): self.operators[i].stored(SIDES[p])
            for i, step in enumerate(self.steps) for p, side in enumerate(step.sides) if side.is_view
        }
        rows, size = self._stored()
        spilled = [op.spilled for op in self.operators]
        return MultiJoinMetrics(
            rows_in={a: i.rows_in for a, i in self.inputs.items()},
            rows_retired={a: i.rows_in - max(copies[a]) for a, i in self.inputs.items()},
            late={a: i.late for a, i in self.inputs.items()}, lateness={a: i.lateness for a, i in self.inputs.items()},
            stored={a: sum(c) for a, c in copies.items()}, views=views, rows_out=self._rows_out,
            late_rows=sum(i.late for i in self.inputs.values()), state_rows=rows, state_bytes=size,
            peak_state_rows=max(self._peak_rows, rows), peak_state_bytes=max(self._peak_bytes, size),
            spilled_rows=sum(rows for rows, _ in spilled), spilled_bytes=sum(size for _, size in spilled),
        )

    def push(self, alias: str, batch: pa.RecordBatch) -> Output:
        """Add a batch to an input; iterate over the result to take all output before the next call.

        Raises
        ------
        SchemaError, LateRowError, EvaluationError, ProtocolError, MemoryLimitError
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
        """Move the orders of an input to what another operator of the join has seen.

        ``edges`` has the ordinal of the greatest value for each declared order.
        """
        own = self.inputs[alias_named(alias, self.aliases)]
        self._enter()
        try:
            own.reach(edges)
            return self._start("reach", self._pruned(True))
        finally:
            self._busy = False

    def lagging(self, rows: Mapping[str, int]) -> str:
        """Return the input to read next so that few rows wait, given the rows read of each input that has not ended."""
        return behind(self.groups, self.inputs, rows)

    def finish(self, alias: str | None = None) -> Output:
        """End one input, or all, so that no row waits for later rows of it."""
        return self.end(alias)

    def end(self, alias: str | None, soon: bool = True) -> Output:
        """Do as :meth:`finish`. Without ``soon``, a few stored rows are evicted when further rows come."""
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
        cls, blob: bytes, *, memory_limit: int | str | None = None, when_full: WhenFull = "raise",
    ) -> MultiJoin:
        """Return an operator that continues from a snapshot, within the memory limit given here.

        Raises
        ------
        SnapshotError
            If the bytes are not a snapshot, are damaged, or come from a newer version.
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

        They follow from all rows, frontiers and the condition. The dict is empty if no output row can follow.

        Raises
        ------
        ProtocolError
            If the operator has stopped, another thread uses it, or output is still being taken.
        """
        from ivjoin.propagation import Bounds

        self._enter(between=False)
        try:
            columns = {n.params[1]: n for n in columns_read(self._every_column())}
            boxes = self._boxes_to_come(list(columns.values()))
            if not boxes:
                return {}
            out: dict[str, tuple[Value | None, Value | None]] = {}
            for name in self.schema.names:
                node = columns.get(name)
                found = None if node is None else united([b[node] for b in boxes if node in b], node)
                if node is None or found is None:
                    out[name] = (None, None)
                    continue
                known = Bounds(hull(node, found))
                out[name] = (known.inf, None if found[1] >= NAN_ORDINAL and node.type.kind == "float" else known.sup)
            return out
        finally:
            self._busy = False

    def _boxes_to_come(self, columns: list[Node]) -> list[Box]:
        """Return the domains of columns in later output, by the input of its newest row."""
        reach, frontiers = Reach(self.spec, columns), self.across.frontiers()
        # While output is still being taken, the stores may no longer have its rows.
        hulls = self.across.hulls if self._pending is not None else self.across.spans(columns)
        boxes = [reach.future(a, frontiers, hulls) for a, i in self.inputs.items() if not i.ended]
        if self._pending is not None:
            boxes.append(reach.future("", frontiers, hulls))
        return [box for box in boxes if box is not None]

    def explain(self) -> Explanation:
        """Return the steps, the rows that each side stores, and the inputs that bound them."""
        from ivjoin.multi.explain import explained
        return explained(self.spec, self.layout)

    def _taker(self, i: int, alias: str) -> tuple[str, ...]:
        """Return the inputs of the rows that a step passes on, in their order; for results, all inputs."""
        route = [step for step, _ in self.layout.routes[alias]]
        at = route.index(i) + 1
        if at == len(route):
            return tuple(self.spec.aliases)
        step, p = self.layout.routes[alias][at]
        return self.steps[step].sides[p].aliases

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
                    if self._begun:
                        raise stopped(e) from e
                    own.load(before)
                    if last:
                        raise self._refused(refused(e, start)) from e
                yield from self._pruned(True)  # this may free enough
                assert shared is not None
                shared.give_back()

    def _screened(self, own: Input, piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._begun = False
        rows = own.screen(piece)
        if rows.num_rows:
            yield from self._pushed(own.alias, rows)

    def _refused(self, error: MemoryLimitError) -> MemoryLimitError:
        self._refusal = error
        return error

    def _spares(self, error: BaseException) -> bool:
        return error is self._refusal

    def _pushed(self, alias: str, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        with by_their_names(self._names):
            if self._shared is not None and self.layout.stores[alias]:
                for i, p in self.layout.stores[alias]:
                    self.operators[i].reserve(SIDES[p], rows)
            for i, p in self.layout.stores[alias]:
                if not self.across.closed[i][1 - p]:
                    for _ in self._take(i, p, rows):
                        raise AssertionError("rows matched a side that stores no rows")
            yield from self._fed(alias, 0, rows)
        self.across.came(rows.num_rows)
        yield from self._pruned(False)

    def _take(self, i: int, p: int, rows: pa.RecordBatch) -> Output:
        op = self.operators[i]
        try:
            out = op.push(SIDES[p], rows)
        except MemoryLimitError as e:
            self._begun = self._begun or bool(e.rows_taken) or not op.refused(e)
            raise
        self._begun = True
        return out

    def _fed(self, alias: str, at: int, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Push rows to a step of an input's route, and its results to the next step."""
        route = self.layout.routes[alias]
        i, p = route[at]
        if self.across.closed[i][p]:  # they can be in no result
            return
        picks = self._picks[i, alias]
        for batch in self._take(i, p, rows):
            if picks is not None:
                order, schema = picks
                batch = pa.RecordBatch.from_arrays([batch.column(c) for c in order], schema=schema)
            if at + 1 < len(route):
                yield from self._fed(alias, at + 1, batch)
            else:
                yield batch

    def _pruned(self, force: bool, soon: bool = True) -> Iterator[pa.RecordBatch]:
        with by_their_names(self._names):
            self.across.prune(self._rows, force, soon)
        yield from ()

    def _every_column(self) -> list[Node]:
        return [make("column", (), (LEFT, f.name), from_arrow(f.type)) for f in self.schema]

    def _stored(self) -> tuple[int, int]:
        stored = [op.held for op in self.operators]
        return sum(rows for rows, _ in stored), sum(size for _, size in stored)

    def _stepped(self, ended: bool) -> None:
        if not ended:
            return
        rows = sum(op.rows for op in self.operators)
        self._uncounted += 1
        if rows > self._peak_rows or self._uncounted >= _COUNT_EVERY or self._shared is not None:
            self._uncounted = 0
            self._peak_bytes = max(self._peak_bytes, self._stored()[1])
        self._rows, self._peak_rows = rows, max(self._peak_rows, rows)

    def _gave(self, batch: pa.RecordBatch) -> None:
        self._rows_out += batch.num_rows

    def _let_go(self) -> None:
        self.operators = [StepJoin.from_plan(plan_of(s.spec)) for s in self.steps]


def _order(
    given: tuple[str, ...], wanted: tuple[str, ...], spec: MultiSpec
) -> tuple[list[int], pa.Schema] | None:
    """Return the places of columns of some inputs in the order of others, and the schema; None if it is that order."""
    if given == wanted:
        return None
    names = [n for a in given for n in spec.wide(a).names]
    schema = pa.schema([f for a in wanted for f in spec.wide(a)])
    return [names.index(n) for n in schema.names], schema

