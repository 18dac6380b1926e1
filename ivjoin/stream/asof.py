"""``ivjoin.asof_join``: match each left row with one right row by time. Other libraries use the same option names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

import pyarrow as pa

from ivjoin.arguments import known_options
from ivjoin.expr.timezones import zone_of_call
from ivjoin.frontier.late import OnLate, late_rule
from ivjoin.frontier.order import Order
from ivjoin.operator.memory.budget import WhenFull, budget_of
from ivjoin.plan.cache import planned
from ivjoin.plan.picking.asof import as_of
from ivjoin.stream.after.lookups import Lookups
from ivjoin.stream.after.matched import matching_of
from ivjoin.stream.join_stream import JoinStream
from ivjoin.stream.options import ASOF_DEFAULTS, AsofOptions, Direction
from ivjoin.stream.pull import stream_of
from ivjoin.stream.sources.columns import Chosen, chosen
from ivjoin.stream.sources.hints import index_hints
from ivjoin.stream.sources.idle import idle_of
from ivjoin.stream.sources.inputs import ArrowStream, Source, open_inputs

if TYPE_CHECKING:

    from ivjoin.conditions.written import Expression, Slack
    from ivjoin.plan.join_plan import JoinPlan
    from ivjoin.plan.picking.asof import Tolerance
    from ivjoin.plan.question import Keys, Orders

__all__ = ["asof_join", "asof_plan"]


@known_options("asof_join", also=ASOF_DEFAULTS)
def asof_join(
    left: ArrowStream, right: ArrowStream, on: str | tuple[str, str], by: Keys | None = None, *,
    direction: Direction = "backward", tolerance: Tolerance | None = None,
    how: Literal["left", "inner", "right", "full"] | str = "left", condition: Expression | None = None,
    columns: Sequence[str] | None = None, suffix: str = "_right", allow_exact_matches: bool = True,
    ties: str | Sequence[str] | None = None, left_order: Orders | None = None, right_order: Orders | None = None,
    slack: Slack | None = None, on_late: OnLate = "raise", threads: int | Literal["auto"] = "auto",
    memory_limit: int | str | None = None, when_full: WhenFull = "raise", **options: Unpack[AsofOptions],
) -> JoinStream:
    """Match each left row with the last right row before it, the first right row after it, or the nearest one.

    Inputs that have an end need no order. If the right side has no declared order, ivjoin reads it first, and the
    output is in the order of the left side. With a ``memory_limit``, ivjoin may sort both sides instead.

    Inputs that may be endless must ascend by ``on``, with disorder of at most ``slack``. ivjoin then emits a left row
    as soon as no later right row can be a better match. The state has about one right row for each key, and the rows
    between the positions of the two sides.

    Parameters
    ----------
    left, right : table, frame, files or stream
        As for :func:`ivjoin.band_join`.
    on : str or (str, str)
        The column to compare, or the left and the right column: numbers, dates, timestamps, or decimals of at most 18
        digits.
    by : str, list of str, or list of (str, str), optional
        Key columns, which must be equal in both rows.
    direction : {"backward", "forward", "nearest"}
        Take the last right row that is not later, the first one that is not earlier, or the one at the least distance.
        If two right rows have the same distance, ``"nearest"`` takes the earlier one.
    tolerance : number, timedelta or str, optional
        The greatest distance of a match: ``5``, ``timedelta(minutes=5)`` or ``"5 minutes"``.
    how : {"left", "inner", "right", "full"}
        Which unmatched rows are emitted, with nulls. "left": left rows. "inner": no rows. "right": right rows that no
        left row takes. "full": both.
    suffix : str
        Appended to the name of a right column that collides with a left one. The output includes the right ``on``
        column.
    allow_exact_matches : bool
        Whether a right row with exactly the same time matches.
    ties : str, list of str, or "all", optional
        Right columns that decide between right rows of the same time. The row with the greatest value is taken with
        ``"backward"``, and the one with the least value otherwise. Without ``ties``, any of these rows may be taken.
        With ``"all"``, all of them are taken.
    left_order, right_order : str, expression, Order, or a list of these, optional
        Orders of arrival, for inputs that are not ordered by ``on``.
    condition : str, SymPy relation or ivjoin expression, optional
        Further conjuncts that a match must satisfy, such as ``"r.price > 0"``.
    slack : number, timedelta or str, optional
        How far inputs may be out of order, such as ``"5s"``.
    columns, on_late
        As for :func:`ivjoin.band_join`.
    threads : int or "auto", default "auto"
        The number of threads that look up slices of both inputs. For tables, the order of the output rows is the same
        for any number. ``"auto"`` uses one thread for each 262,144 rows of tables or Parquet files, up to the CPUs of
        the process, and one thread for other inputs. Joins with ``memory_limit`` run on one thread.
    memory_limit : int or str, optional
        Limit in bytes for the memory of the join, without its inputs, or text such as "512MB". A right side without an
        order may take half of it. If it needs more, ivjoin sorts both sides by ``on``, in files if needed, and the
        order of the output is unspecified.
    when_full : {"raise", "spill"} or :class:`~ivjoin.Spill`
        What to do if the waiting rows and the rows that can still be taken do not fit. "raise" raises MemoryLimitError.
        "spill" writes their columns to files, and the result is exact.

    Other Parameters
    ----------------
    interpolate : str or list of str, optional
        Right columns to interpolate between the previous and the next right row, linearly in time. The value is null if
        one of the two rows does not exist. Numbers become float64, and times retain their type.
    offsets : list of number, timedelta or str, optional
        Look up each left row at several times: ``["-1s", "0s", "5s"]`` returns the right columns once for each offset,
        named ``bid_-1s``, ``bid_0s`` and ``bid_5s``.
    params : mapping of str to value, optional
        The values of ``:name`` in the condition.
    batch_size, timezone, sort, maintain_order, indicator, idle_timeout, idle : optional
        As for :func:`ivjoin.band_join`.

    Returns
    -------
    JoinStream
        At most one row for each left row, unless ``ties="all"``. With ``how="right"`` or ``"full"``, unmatched right
        rows as well.

    Raises
    ------
    OptionError, ColumnError, ConditionError, UnsupportedError, OrderError, SchemaError, FileError
        If an argument or an input is invalid, as for :func:`ivjoin.band_join`.
    LateRowError, EvaluationError, MemoryLimitError, SpillError
        While the output is read, as for :func:`ivjoin.band_join`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> trades = pa.table({"sym": ["A", "A", "B"], "ts": [3, 7, 5]})
    >>> quotes = pa.table({"sym": ["A", "B", "A"], "ts": [2, 6, 6], "bid": [10.0, 20.0, 11.0]})
    >>> asof_join(trades, quotes, on="ts", by="sym", columns=["sym", "ts", "bid"]).read_all().to_pydict()
    {'sym': ['A', 'A', 'B'], 'ts': [3, 7, 5], 'bid': [10.0, 11.0, None]}
    """
    given = ASOF_DEFAULTS | options
    budget = budget_of(memory_limit, when_full)
    sources = open_inputs(left, right)
    matching = matching_of(given["maintain_order"], given["indicator"], None)
    rule, report = late_rule(on_late)
    patience = idle_of(given["idle_timeout"], given["idle"])

    lookup = partial(
        asof_plan, ends=(sources[0].ends, sources[1].ends), column=on, tolerance=tolerance,
        allow_exact_matches=allow_exact_matches, ties=ties, slack=slack, orders=(left_order, right_order), on=by,
        how=how, batch_size=given["batch_size"], on_late=rule, timezone=given["timezone"], also=condition,
        params=given["params"],
    )

    def plan_for(inputs: tuple[Source, Source]) -> JoinPlan:
        return lookup((inputs[0].schema, inputs[1].schema), direction, None, suffix)

    def join(
        inputs: tuple[Source, Source], plan: JoinPlan, names: Sequence[str] | None,
        choose: Callable[..., Chosen] = chosen,
    ) -> JoinStream:
        return stream_of(inputs, plan, threads, given["sort"], names, budget, choose, report, patience)

    with index_hints({"left": left, "right": right}):
        plan = plan_for(sources)
        offsets, interpolate = given["offsets"], given["interpolate"]
        if offsets is not None or interpolate is not None:
            checked = {"how": how, "ties": ties, **{n: given[n] for n in ("maintain_order", "indicator")}}
            schemas = sources[0].schema, sources[1].schema
            question = Lookups(schemas, lookup, on, direction, offsets, interpolate, suffix, checked)
            return join(sources, question.plan, columns, question.chosen)
    return join(sources, plan, columns) if matching is None else matching.join(sources, plan_for, join, columns)


def asof_plan(
    schemas: tuple[pa.Schema, pa.Schema], direction: Any, offset: Any, suffix: str, *, ends: tuple[bool, bool],
    column: Any, tolerance: Any, allow_exact_matches: Any, ties: Any, slack: Any, orders: tuple[Any, Any],
    **options: Any,
) -> JoinPlan:
    """Return the plan of an as-of join.

    ``column`` is the ``on`` of :func:`asof_join`, and ``offset`` is added to it on the left side. An input without an
    order may be endless, or have a ``slack``. The plan then declares an ascending order by that column.
    """
    zone = zone_of_call(options.get("timezone"))
    asked = as_of(schemas, column, direction, tolerance, allow_exact_matches, ties, options["how"], offset, zone=zone)
    left, right = (
        Order(asked.on[s], slack=slack) if orders[s] is None and (not ends[s] or slack is not None) else orders[s]
        for s in (0, 1)
    )
    return planned(
        *schemas, condition=asked.condition, left_order=left, right_order=right, pick=asked.pick, suffix=suffix,
        **options,
    )
