"""Join many Arrow streams into one. The input that is furthest behind is read next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ivjoin.arguments import one_of
from ivjoin.conditions.strictness import skips_nulls
from ivjoin.errors import IvjoinError, ProtocolError
from ivjoin.expr.nodes import LEFT, Node, columns_of, make
from ivjoin.expr.timezones import zone_of_call
from ivjoin.frontier.late import OnLate, late_rule
from ivjoin.frontier.order import Order
from ivjoin.metrics import MultiJoinMetrics
from ivjoin.multi.operator import MultiJoin
from ivjoin.multi.pace import sorted_along
from ivjoin.multi.question import MultiSpec, condition_of, multi_spec, named_inputs
from ivjoin.multi.shape.steps import Shape, laid_out
from ivjoin.multi.shape.trees import Seen, best_shape
from ivjoin.multi.state.memory import allowed
from ivjoin.operator.explaining.picture import Explanation
from ivjoin.operator.explaining.wording import listed
from ivjoin.operator.memory.budget import WhenFull
from ivjoin.stream.join_stream import JoinStream
from ivjoin.stream.pull import thread_count
from ivjoin.stream.running import Run
from ivjoin.stream.sharing import Question, separated, shared_stream
from ivjoin.stream.sort.axis import Axis
from ivjoin.stream.sort.given import Given
from ivjoin.stream.sort.ordered import moves
from ivjoin.stream.sort.sorting import in_order
from ivjoin.stream.sources.columns import places_of
from ivjoin.stream.sources.gathering import Pieces
from ivjoin.stream.sources.hints import index_hints
from ivjoin.stream.sources.inputs import ArrowStream, Source, open_input
from ivjoin.stream.sources.sampled import seen_of
from ivjoin.stream.tables.table_steps import BY_TABLES, table_steps
from ivjoin.stream.threads.memory import to_the_end

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression
    from ivjoin.expr.literals import Params, Value
    from ivjoin.multi.question import AliasBounds, AliasOrders, Views
    from ivjoin.operator.memory.budget import Budget
    from ivjoin.plan.question import Sort

__all__ = ["MultiJoinStream", "join_many", "opened", "prepared", "tables_joined", "with_present"]

# Rows of a push: from a stream, and from a table that is completely in memory.
_PUSH_ROWS, _TABLE_ROWS = 4096, 16_384
_DONE = {"groups": "read in the order of row groups", "kept": "in order already", "sorted": "sorted"}


def prepared(
    spec: MultiSpec, sources: Mapping[str, Source | None], sort: bool = True
) -> tuple[MultiSpec, Shape, dict[str, Node]]:
    """Return the question with the orders of sorted inputs, its steps, and the column that sorts each sorted input.

    ``spec`` must be a result of :func:`with_present`.
    """
    seen = seen_of(spec, sources)
    shape = best_shape(spec, seen)
    by = sorted_by(spec, shape, sources, seen) if sort else {}
    ordered = spec.derived(
        ("sorted", *by.items()), lambda: spec.with_orders({a: (Order(_widened(a, n)),) for a, n in by.items()})
    )
    return ordered, shape, by


def with_present(spec: MultiSpec, sources: Mapping[str, Source | None]) -> MultiSpec:
    """Return the question. If the condition ignores NULLs, add the columns of tables in memory that have no NULL."""
    if not skips_nulls(p.node for p in spec.parts):
        return spec
    asked = {c.params[1] for c in columns_of(*(p.node for p in spec.parts))}
    present = {
        a: frozenset(s.without_nulls(n for n in spec.schemas[a].names if f"{a}_{n}" in asked))
        for a, s in sources.items() if s is not None
    }
    return spec.derived(("present", *present.items()), lambda: spec.with_present(present))


def _widened(alias: str, node: Node) -> Node:
    return make("column", (), (LEFT, f"{alias}_{node.params[1]}"), node.type)


def sorted_by(
    spec: MultiSpec, shape: Shape, sources: Mapping[str, Source | None], seen: Mapping[str, Seen]
) -> dict[str, Node]:
    """Return the column that sorts each input that ends and has no order, under its own name."""
    free = [
        a for a, s in sources.items()
        if s is not None and s.ends and not spec.inputs[a].orders[0] and moves(s.schema)
    ]
    found = sorted_along(spec, laid_out(spec, shape).steps, free, seen)
    return {
        a: make("column", (), (LEFT, column.params[1].removeprefix(f"{a}_")), column.type)
        for a, (column, _) in found.items()
    }


class _RunOfMany(Run):
    """A running join of many inputs."""

    def __init__(
        self, spec: MultiSpec, sources: dict[str, Source], sort: bool,
        columns: Sequence[str] | None = None, budget: Budget | None = None, threads: int | Literal["auto"] = "auto",
    ) -> None:
        self._sources = sources
        self.read_from = [files for source in sources.values() for files in source.read_from]
        self.schema = spec.schema if columns is None else pa.schema([spec.schema.field(n) for n in columns])
        unsorted = with_present(spec, sources)
        self._spec, shape, self._by = prepared(unsorted, sources, sort)
        self.joining = MultiJoin.from_spec(self._spec, shape, budget=budget)
        self.tables = table_steps(unsorted, shape, sources, threads) if sort and budget is None else None

    @property
    def metrics(self) -> MultiJoinMetrics:
        return self.joining.metrics if self.tables is None else self.tables.metrics

    @property
    def question(self) -> str:
        spec = self.joining.spec
        return f"join of {listed(spec.aliases)}" + ("" if spec.condition is None else f" on {spec.condition}")

    def explain(self) -> Explanation:
        text = self.joining.explain()
        return text if self.tables is None else text.with_line(BY_TABLES)

    def output_bounds(self) -> dict[str, tuple[Value | None, Value | None]]:
        bounds = None if self.tables is None else self.tables.output_bounds()
        bounds = self.joining.output_bounds() if bounds is None else bounds
        return {n: bounds[n] for n in self.schema.names if n in bounds}

    def release(self) -> None:
        self._sources = {}
        if self.tables is not None:
            self.tables.close()

    def output(self) -> Iterator[pa.RecordBatch]:
        joined = to_the_end(self._joined())
        if self.schema.equals(self._spec.schema):
            yield from joined
            return
        places = [self._spec.schema.get_field_index(n) for n in self.schema.names]
        for batch in joined:
            yield pa.RecordBatch.from_arrays([batch.column(i) for i in places], schema=self.schema)

    def _joined(self) -> Iterator[pa.RecordBatch]:
        if self.tables is not None and self.tables.prepare():
            self.sorting = self.tables.sorting
            yield from self.tables.output()
            self.sorting = self.tables.sorting
            return
        self.tables = None
        inputs = self._inputs()
        op = self.joining
        rows = dict.fromkeys(inputs, 0)
        # Read inputs without an order that prunes first, to their ends, starting with the shortest.
        unordered = [a for a, s in self._sources.items() if s.ends and not op.inputs[a].frontier.trackers]
        unordered.sort(key=lambda a: self._sources[a].rows or 0)
        while rows:
            alias = unordered[0] if unordered else op.lagging(rows)
            batch = inputs[alias].next()
            if batch is None:
                del rows[alias]
                if unordered:
                    unordered.pop(0)
                yield from op.end(alias, False)
            else:
                rows[alias] += batch.num_rows
                yield from op.push(alias, batch)

    def _inputs(self) -> dict[str, Pieces]:
        """Return the inputs, sorted where sorting prunes rows."""
        done: dict[str, list[str]] = {}
        pieces = {}
        for alias, source in self._sources.items():
            node = self._by.get(alias)
            if node is None:
                batches = source.batches()
            else:
                ready = in_order(Axis((node, node), False), 0, Given(source), 1)
                batches = (batch for batch, _ in ready.rows)
                done.setdefault(_DONE[ready.done], []).append(f"{alias}.{node.params[1]}")
            whole = source.in_memory or node is not None
            pieces[alias] = Pieces(batches, _TABLE_ROWS if whole else _PUSH_ROWS, whole)
        self.sorting = "; ".join(f"{how} by {listed(names)}" for how, names in done.items())
        return pieces


class MultiJoinStream(JoinStream):
    """The output of a join of many inputs; see :class:`JoinStream`."""

    _run: _RunOfMany

    @property
    def metrics(self) -> MultiJoinMetrics:  # type: ignore[override]
        """Counts so far."""
        return self._run.metrics

    @property
    def views(self) -> list[tuple[str, ...]]:
        """Return the views: groups of inputs whose joined rows are stored."""
        return self._run.joining.views


def opened(inputs: Mapping[str, ArrowStream]) -> dict[str, Source]:
    """Return the inputs by alias. If two of them are the same stream, raise a ProtocolError."""
    given = named_inputs(inputs)
    seen: dict[int, str] = {}
    for alias, x in given.items():
        if isinstance(x, Iterator) or hasattr(x, "read_next_batch"):
            if id(x) in seen:
                raise ProtocolError(
                    f"{seen[id(x)]!r} and {alias!r} are the same {type(x).__name__}, which gives each batch once; pass "
                    "a table, or one stream for each input"
                )
            seen[id(x)] = alias
    return {alias: open_input(x, repr(alias)) for alias, x in given.items()}


def tables_joined(spec: MultiSpec, tables: Mapping[str, pa.Table]) -> MultiJoinStream:
    """Return the join of tables on one thread, for an already resolved question."""
    return MultiJoinStream(_RunOfMany(spec, opened(tables), True, threads=1))


def join_many(
    inputs: Mapping[str, ArrowStream], condition: Expression | None = None, *, orders: AliasOrders | None = None,
    bounds: AliasBounds | None = None, batch_size: int = 65536, views: Views = "auto", on_late: OnLate = "raise",
    timezone: str | None = None, allow_cross: bool = False, sort: Sort = "auto", columns: Sequence[str] | None = None,
    threads: int | Literal["auto"] = "auto", memory_limit: int | str | None = None, when_full: WhenFull = "raise",
    params: Params | None = None,
) -> JoinStream:
    """Return the inner join of many inputs; see :func:`ivjoin.multi_join`."""
    one_of("sort", sort, ("auto", "never"))
    threads = thread_count(threads)
    rule, report = late_rule(on_late)
    sources = opened(inputs)
    budget = allowed(memory_limit, when_full)

    asked: dict[str, Any] = {
        "condition": condition, "orders": orders, "bounds": bounds, "views": views, "batch_size": batch_size,
        "on_late": rule, "timezone": timezone, "allow_cross": allow_cross, "params": params,
    }  # fmt: skip

    def written(names: Sequence[str] | None, question: Question | None = None) -> JoinStream:
        opened = {a: copy(s) for a, s in (sources if question is None else question.inputs).items()}
        others = {} if question is None else {"condition": question.condition, "params": question.params}
        with index_hints(inputs if isinstance(inputs, Mapping) else {}):
            spec = multi_spec({a: s.schema for a, s in opened.items()}, **(asked | others))
        if names is None and question is not None:  # omit the columns of constants
            names = [n for a, s in sources.items() for n in (f"{a}_{n}" for n in s.schema.names)]
        if names is not None:
            wanted = [spec.schema.names[i] for i in places_of(spec.schema.names, names)]
            names, spec = wanted, spec.derived(("columns", *wanted), partial(spec.of_columns, wanted))
            for alias, source in opened.items():
                source.keep(spec.schemas[alias].names)
        for source in opened.values():
            source.ready()
        run = _RunOfMany(spec, opened, sort == "auto", names, budget, threads)
        for own in run.joining.inputs.values():
            own.report_late(report)
        return MultiJoinStream(run)

    if orders is None and bounds is None and budget is None:
        planned = {"aliases": list(sources), "case_sensitive": True, **asked}
        question = separated(
            sources, condition, params, {"timezone": timezone}, planned,
            lambda given, schemas: condition_of(given, schemas, timezone, params),
            zone_of_call(timezone),
        )
        if question is not None:
            with suppress(IvjoinError):  # the join as written raises the error
                return shared_stream(written(columns, question), lambda names: written(names or columns))
    return written(columns)
