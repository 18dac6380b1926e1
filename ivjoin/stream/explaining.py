"""``ivjoin.explain``: show the plan of a join of inputs or schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

import pyarrow as pa

from ivjoin.arguments import known_options, worker_count
from ivjoin.errors import OptionError, SchemaError, came
from ivjoin.frontier.late import OnLate, late_rule
from ivjoin.operator.explaining.picture import Explanation
from ivjoin.operator.explaining.wording import listed
from ivjoin.operator.memory.budget import WhenFull, budget_of
from ivjoin.plan.cache import planned
from ivjoin.stream.after.explained import explain_inputs
from ivjoin.stream.after.lookups import Lookups
from ivjoin.stream.after.matched import matching_of
from ivjoin.stream.asof import asof_plan
from ivjoin.stream.options import DEFAULTS, Direction, JoinOptions
from ivjoin.stream.pull import check_call, refuse_cross, thread_count
from ivjoin.stream.sources.columns import chosen
from ivjoin.stream.sources.idle import idle_of
from ivjoin.stream.sources.inputs import ArrowStream, Source, open_input
from ivjoin.stream.window.join import window_plan

if TYPE_CHECKING:
    from ivjoin.conditions.written import Slack
    from ivjoin.expr.literals import Params
    from ivjoin.multi.question import AliasBounds, AliasOrders, Views
    from ivjoin.plan.join_plan import JoinPlan
    from ivjoin.plan.picking.asof import Tolerance
    from ivjoin.plan.picking.choice import Pick
    from ivjoin.plan.question import Expression, JoinHow, Keys, Orders, Sort, SupportsArrowSchema, Value
    from ivjoin.stream.window.join import WindowAggregates

_CONDITION = re.compile(r"[<>]|\s(=|between|is|in|like)\s", re.IGNORECASE)  # text that no file path contains
_OF_ASOF = ("by", "direction", "tolerance", "allow_exact_matches", "ties", "slack", "interpolate", "offsets")

Inputs: TypeAlias = "Mapping[str, SupportsArrowSchema | ArrowStream]"

__all__ = ["explain"]


class ExplainOptions(JoinOptions, total=False):
    """Options of the functions that :func:`explain` explains."""

    aggregate: WindowAggregates | None
    include_previous: bool
    by: Keys | None
    direction: Direction | None
    tolerance: Tolerance | None
    allow_exact_matches: bool
    ties: str | Sequence[str] | None
    slack: Slack | None
    interpolate: str | Sequence[str] | None
    offsets: Sequence[Tolerance] | None
    orders: AliasOrders | None
    bounds: AliasBounds | None
    views: Views


@known_options("explain", also=ExplainOptions.__annotations__)
def explain(
    left: SupportsArrowSchema | ArrowStream | Inputs,
    right: SupportsArrowSchema | ArrowStream | Expression | None = None, on: Keys | None = None,
    condition: Expression | None = None, how: JoinHow | None = None, *, left_order: Orders | None = None,
    right_order: Orders | None = None, pick: Pick | None = None, params: Params | None = None,
    columns: Sequence[str] | None = None, suffix: str = "_right", on_late: OnLate = "raise",
    timezone: str | None = None, threads: int | Literal["auto"] = "auto", sort: Sort = "auto",
    memory_limit: int | str | None = None, when_full: WhenFull = "raise", workers: int = 8,
    frontier: Mapping[str, Mapping[Expression, Value]] | None = None, **options: Unpack[ExplainOptions],
) -> Explanation:
    """Return the plan of a join: its conjuncts, the condition as a graph with intervals, and what prunes each side.

    Pass the same arguments as to :func:`ivjoin.band_join`, :func:`ivjoin.window_join`, :func:`ivjoin.asof_join` or
    :func:`ivjoin.multi_join`. You can pass a schema in place of an input. For many inputs, the plan shows the steps,
    views, bounds, and the grid of workers.

    Parameters
    ----------
    left, right : schema, table, frame or files
        Inputs or schemas. ivjoin reads no rows of a file. A sample of a table shows whether the table will be sorted,
        and the column to sort by. For many inputs, ``left`` is ``{alias: input}``.
    on, condition, how, left_order, right_order, pick, params, columns, suffix, on_late, timezone, threads, sort, \
    memory_limit, when_full
        As for :func:`ivjoin.band_join`.
    workers : int, default 8
        Number of workers in the grid of a join of many inputs.
    frontier : mapping, optional
        Progress of each side, as ``{"left": {expression: value}, "right": {...}}``. By default, typical values.

    Other Parameters
    ----------------
    left_bounds, right_bounds, batch_size, allow_cross, maintain_order, indicator, validate, idle_timeout, idle : any
        As for :func:`ivjoin.band_join`.
    aggregate, include_previous : optional
        As for :func:`ivjoin.window_join`.
    by, direction, tolerance, allow_exact_matches, ties, slack : optional
        As for :func:`ivjoin.asof_join`. If you pass one of these, ``on`` is the time column. To explain an as-of join
        without any of them, pass ``direction="backward"``.
    orders, bounds, views : optional
        As for :func:`ivjoin.multi_join`.

    Returns
    -------
    Explanation
        A ``str`` with ``svg()`` and ``mermaid()``, which a notebook draws.

    Raises
    ------
    OptionError, ColumnError, ConditionError, UnsupportedError, OrderError, FileError
        If the explained call would raise it. OptionError also if you pass options of two functions.
    SchemaError
        If ``left`` or ``right`` is neither an input nor a schema.

    Examples
    --------
    >>> import pyarrow as pa
    >>> s = pa.schema({"a": pa.int64()})
    >>> text = explain(s, s, condition="l.a >= r.a - 3 AND l.a < r.a + 10", left_order="a", right_order="a")
    >>> "band term" in text
    True
    """
    given = DEFAULTS | options
    aggregate = options.get("aggregate")
    rule, _ = late_rule(on_late)
    matching_of(given["maintain_order"], given["indicator"], given["validate"])  # these calls check the options
    idle_of(given["idle_timeout"], given["idle"])
    budget = budget_of(memory_limit, when_full)
    if isinstance(left, Mapping):
        thread_count(threads)
        if condition is not None and right is not None:
            raise OptionError("explain got {alias: input}, another input and a condition; pass explain(inputs, text)")
        return _of_many(
            left, right if condition is None else condition, workers, sort != "never" and budget is None,
            orders=options.get("orders"), bounds=options.get("bounds"), views=options.get("views", "auto"),
            batch_size=given["batch_size"], on_late=rule, timezone=timezone, allow_cross=given["allow_cross"],
            params=params,
        )
    if isinstance(left, str) and _CONDITION.search(left):
        raise SchemaError(f"the left input is the text {came(left)}; expected explain(left, right, condition=...)")
    if right is None or hasattr(on, "__arrow_c_schema__") or hasattr(on, "__arrow_c_stream__"):
        raise SchemaError("explain got one input; expected explain(left, right, ...), or explain({alias: input}, text)")
    sources = _source(left, "left"), _source(right, "right")
    schemas = [x if s is None else s.schema for x, s in zip((left, right), sources, strict=True)]
    ends = [s is not None and s.ends for s in sources]
    asof: dict[str, Any] = {n: options.get(n) for n in _OF_ASOF}
    bounds_of: dict[str, Any] = {"left_bounds": given["left_bounds"], "right_bounds": given["right_bounds"]}
    both: dict[str, Any] = {"batch_size": given["batch_size"], "on_late": rule, "timezone": timezone, "params": params}
    named = [n for n, x in asof.items() if x is not None]
    others = [n for n, x in {**bounds_of, "pick": pick, "aggregate": aggregate}.items() if x is not None]
    if named and others:
        of = "window_join" if others[0] == "aggregate" else "band_join"
        raise OptionError(f"explain got {named[0]}=, of asof_join, and {others[0]}=, of {of}; give one of the two")
    if aggregate is not None and pick is not None:
        raise OptionError("explain got aggregate=, of window_join, and pick=, of band_join; give one of the two")
    several: Lookups | None = None
    if aggregate is not None:
        plan, _ = window_plan(
            schemas[0], schemas[1], aggregate=aggregate, how="left" if how is None else how, on=on, condition=condition,
            include_previous=options.get("include_previous", False), left_order=left_order, right_order=right_order,
            **bounds_of, **both,
        )
    elif named:
        of_two, way = (schemas[0], schemas[1]), asof["direction"] or "backward"
        lookup: Callable[..., JoinPlan] = partial(
            asof_plan, ends=(ends[0], ends[1]), column=on, tolerance=asof["tolerance"], ties=asof["ties"],
            slack=asof["slack"], on=asof["by"], allow_exact_matches=options.get("allow_exact_matches", True),
            how=how or "left", orders=(left_order, right_order), also=condition, **both,
        )
        plan = lookup(of_two, way, None, suffix)
        offsets, interpolate = asof["offsets"], asof["interpolate"]
        if offsets is not None or interpolate is not None:
            together = {"how": how or "left", "ties": asof["ties"], "maintain_order": given["maintain_order"],
                        "indicator": given["indicator"]}  # fmt: skip
            several = Lookups(of_two, lookup, on, way, offsets, interpolate, suffix, together)
            plan = several.plan
    else:
        plan = planned(
            schemas[0], schemas[1], on=on, how="inner" if how is None else how, left_order=left_order,
            right_order=right_order, condition=condition, pick=pick, suffix=suffix, **bounds_of, **both,
        )
    refuse_cross(plan, given["allow_cross"])
    check_call(plan, threads, sort, budget)
    if aggregate is None:
        (chosen if several is None else several.chosen)(plan, columns)
    text = explain_inputs(plan, sources, sort != "never", frontier)
    return text if several is None else text.with_line(several.said)


def _of_many(inputs: Any, condition: Any, workers: int, sorts: bool, **question: Any) -> Explanation:
    from ivjoin.multi.explain import explained
    from ivjoin.multi.question import multi_spec, named_inputs
    from ivjoin.multi.shape.steps import laid_out
    from ivjoin.stream.many import prepared, with_present
    from ivjoin.stream.tables.table_steps import BY_TABLES, table_steps

    workers = worker_count(workers)
    given = named_inputs(inputs)
    sources = {a: _source(x, repr(a)) for a, x in given.items()}
    schemas = {a: given[a] if s is None else s.schema for a, s in sources.items()}
    spec = multi_spec(schemas, condition, **question)
    unsorted = with_present(spec, sources)
    spec, shape, by = prepared(unsorted, sources)
    rows = {a: float(s.rows) for a, s in sources.items() if s and s.rows}
    text = explained(spec, laid_out(spec, shape), rows, workers)
    if by:
        names = listed([f"{a}.{n.params[1]}" for a, n in by.items()])
        text = text.with_line(f"  sorted, where not in order already, by {names}")
    known = {a: s for a, s in sources.items() if s is not None}
    if sorts and len(known) == len(sources) and table_steps(unsorted, shape, known, 1) is not None:
        text = text.with_line(BY_TABLES)
    return text


def _source(given: Any, side: str) -> Source | None:
    """Open an input without reading it; return None for a schema."""
    if isinstance(given, pa.Schema) or (
        hasattr(given, "__arrow_c_schema__") and not hasattr(given, "__arrow_c_stream__")
        and not hasattr(given, "__arrow_c_array__")
    ):
        return None
    if isinstance(given, Iterator) and not hasattr(given, "schema"):
        name = type(given).__name__
        raise SchemaError(f"the {side} input is a {name}, which explain would have to read; pass its schema")
    try:
        return open_input(given, side)
    except SchemaError as e:
        if hasattr(given, "__arrow_c_schema__"):
            return None
        name = type(given).__name__
        raise SchemaError(f"the {side} schema is a {name}; expected a pyarrow.Schema, or an input") from e
