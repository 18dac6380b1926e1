"""``ivjoin.window_join``: aggregate the right rows that match each left row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, Unpack

import pyarrow as pa

from ivjoin.arguments import known_options
from ivjoin.errors import ConditionError, OptionError, came
from ivjoin.expr.timezones import zone_of_call
from ivjoin.frontier.late import OnLate, late_rule
from ivjoin.operator.memory.budget import WhenFull, budget_of
from ivjoin.plan.cache import plan_of, planned
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.question import schema_of
from ivjoin.stream.join_stream import JoinStream
from ivjoin.stream.options import WINDOW_DEFAULTS, WindowOptions
from ivjoin.stream.pull import stream_of
from ivjoin.stream.sources.columns import Chosen, chosen, places_of
from ivjoin.stream.sources.hints import index_hints
from ivjoin.stream.sources.idle import idle_of
from ivjoin.stream.sources.inputs import ArrowStream, open_inputs
from ivjoin.stream.window.question import Asked, asked_of

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression
    from ivjoin.expr.literals import Params
    from ivjoin.plan.question import Keys, Orders, Sort

__all__ = ["Finished", "WindowAggregates", "window_join", "window_plan"]

WindowAggregates: TypeAlias = "Mapping[str, str | tuple[Expression, str] | tuple[Expression, str, float]]"


@known_options("window_join", also=WINDOW_DEFAULTS)
def window_join(
    left: ArrowStream, right: ArrowStream, on: Keys | None = None, condition: Expression | None = None,
    aggregate: WindowAggregates | None = None, how: Literal["left", "inner"] = "left", *,
    include_previous: bool = False, left_order: Orders | None = None, right_order: Orders | None = None,
    on_late: OnLate = "raise", timezone: str | None = None, threads: int | Literal["auto"] = "auto",
    sort: Sort = "auto", columns: Sequence[str] | None = None, memory_limit: int | str | None = None,
    when_full: WhenFull = "raise", params: Params | None = None, **options: Unpack[WindowOptions],
) -> JoinStream:
    """Aggregate the right rows that match each left row.

    Parameters
    ----------
    left, right : table, frame, files or stream
        As for :func:`ivjoin.band_join`.
    on : str, list of str, or list of (str, str), optional
        Key columns.
    condition : str, SymPy relation or ivjoin expression, optional
        Which right rows belong to the window of a left row, such as ``"r.ts BETWEEN l.ts - 10 AND l.ts"``. Without a
        condition and ``on``, all right rows belong to it.
    aggregate : mapping of str to str
        SQL text for each output column: an expression over aggregate functions of right columns, such as
        ``{"vwap": "sum(r.price * r.qty) / sum(r.qty)", "n": "count(*)"}``. Left columns can appear outside the
        functions. In place of the text, you can pass a tuple such as ``("price", "mean")`` or
        ``("price", "quantile", 0.9)``.

        Functions: count, count_if, count_distinct or ``count(DISTINCT x)``, sum, mean or avg, min, max, first, last,
        any_value, bool_and, bool_or, stddev, stddev_pop, variance, var_pop, median, quantile, array_agg. Each takes
        ``FILTER (WHERE ...)``. ``first``, ``last`` and ``array_agg`` include nulls, and follow the first declared order
        of the right side, or else the band. ``quantile`` and ``median`` are linear between two values.
    how : {"left", "inner"}
        What happens to left rows with an empty window. "left": they have count 0, and null for other functions.
        "inner": they are dropped.
    include_previous : bool, default False
        Whether the last right row before the window counts as its first row, as in kdb+'s ``wj``. The condition must
        then consist of keys and one window with a lower end.
    left_order, right_order, on_late, timezone, threads, sort
        As for :func:`ivjoin.band_join`.
    columns : list of str, optional
        Names of the output columns, in the order you want; by default the left columns, then the aggregates.
    params : mapping of str to value, optional
        The values of ``:name`` in the condition and in aggregates.
    memory_limit, when_full
        As for :func:`ivjoin.asof_join`.

    Other Parameters
    ----------------
    left_bounds, right_bounds, batch_size, idle_timeout, idle : optional
        As for :func:`ivjoin.band_join`.

    Returns
    -------
    JoinStream
        One row for each left row.

    Raises
    ------
    OptionError, ColumnError, ConditionError, OrderError, SchemaError, FileError
        If an argument, an aggregate or an input is invalid, as for :func:`ivjoin.band_join`.
    UnsupportedError
        If a function, or the condition with ``include_previous``, is not supported.
    LateRowError, EvaluationError, MemoryLimitError
        While the output is read, as for :func:`ivjoin.band_join`. A sum that overflows raises EvaluationError.

    Examples
    --------
    >>> import pyarrow as pa
    >>> trades = pa.table({"sym": ["A", "B"], "ts": [10, 11]})
    >>> quotes = pa.table({"sym": ["A", "A", "A"], "ts": [8, 9, 12], "bid": [1.0, 2.0, 9.0]})
    >>> window_join(
    ...     trades, quotes, on="sym", condition="r.ts BETWEEN l.ts - 5 AND l.ts",
    ...     aggregate={"n": "count(*)", "range": "max(r.bid) - min(r.bid)"},
    ... ).to_arrow().to_pylist()
    [{'sym': 'A', 'ts': 10, 'n': 2, 'range': 1.0}, {'sym': 'B', 'ts': 11, 'n': 0, 'range': None}]
    """
    budget = budget_of(memory_limit, when_full)
    rule, report = late_rule(on_late)
    given = WINDOW_DEFAULTS | options
    patience = idle_of(given["idle_timeout"], given["idle"])
    sources = open_inputs(left, right)
    with index_hints({"left": left, "right": right}):
        plan, asked = window_plan(
            sources[0].schema, sources[1].schema, aggregate=aggregate, how=how, include_previous=include_previous,
            on=on, condition=condition, left_order=left_order, right_order=right_order,
            left_bounds=given["left_bounds"], right_bounds=given["right_bounds"], batch_size=given["batch_size"],
            on_late=rule, timezone=timezone, params=params,
        )
    return stream_of(sources, plan, threads, sort, columns, budget, partial(Finished, asked), report, patience)


def window_plan(
    left: pa.Schema, right: pa.Schema, *, aggregate: WindowAggregates | None, how: str, include_previous: bool,
    timezone: str | None, params: Params | None = None, alias: str | None = None, **question: object,
) -> tuple[JoinPlan, Asked]:
    """Return the plan of the engine's aggregates, and the columns computed from them.

    ``alias`` names the right side.
    """
    if not isinstance(include_previous, bool):
        raise OptionError(f"include_previous is {came(include_previous)}; expected True or False")
    if how not in ("left", "inner"):
        raise ConditionError(
            f"how is {came(how)}; expected 'left', which keeps left rows with an empty window, or 'inner'"
        )
    left = schema_of(left, "the left schema", "the left input")
    right = schema_of(right, "the right schema", "the right input")
    asked = asked_of(aggregate, left, right, zone_of_call(timezone), params, alias)
    plan = planned(
        left, right, how=how, timezone=timezone, params=params, aggregate=tuple(asked.engine.values()), **question
    )
    if include_previous:
        plan = plan_of(replace(plan.spec, include_previous=True))
    return plan, asked


class Finished(Chosen):
    """The columns that a window join reads, and the output columns that it computes from the engine's columns."""

    def __init__(
        self, asked: Asked, plan: JoinPlan, columns: Sequence[str] | None, whole: tuple[bool, bool],
        present: tuple[frozenset[str], frozenset[str]],
    ) -> None:
        left = plan.spec.schemas[0]
        outputs = {o.name: o for o in asked.outputs}
        known = [*left.names, *outputs]
        names = known if columns is None else [known[i] for i in places_of(known, columns)]
        self._asked, self._outputs = asked, [outputs[n] for n in names if n in outputs]
        read, engine = asked.needs(self._outputs)
        read |= {n for n in names if n not in outputs}
        if columns is None:
            raw = chosen(plan, None, whole, present)
        else:
            engine = engine or {next(iter(asked.engine))}
            raw = chosen(plan, [n for n in plan.schema.names if n in read or n in engine], whole, present)
        fields = [outputs[n].field if n in outputs else left.field(n) for n in names]
        self._raw, self._of_left = raw, [None if n in outputs else n for n in names]
        self.plan, self.names = raw.plan, raw.names
        self.schema = pa.schema(fields, metadata=left.metadata)

    def pick(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the output columns for a batch of the engine."""
        batch = self._raw.pick(batch)
        made = iter(self._asked.made(batch, self._outputs))
        arrays = [next(made) if n is None else batch.column(n) for n in self._of_left]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
