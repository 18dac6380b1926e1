"""The pull API: read two inputs, and return their join as a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ivjoin.arguments import known_options, one_of, whole_number
from ivjoin.conditions.strictness import skips_nulls
from ivjoin.errors import ConditionError, IvjoinError, OptionError, UnsupportedError, came
from ivjoin.expr.nodes import columns_of
from ivjoin.expr.timezones import zone_of_call
from ivjoin.frontier.late import OnLate, Report, late_rule
from ivjoin.operator.memory.budget import Budget, WhenFull, budget_of
from ivjoin.plan.cache import planned
from ivjoin.plan.join_plan import JoinPlan, of_plan
from ivjoin.plan.spec import SIDES
from ivjoin.stream.after.matched import matching_of
from ivjoin.stream.join_stream import JoinStream
from ivjoin.stream.options import DEFAULTS, JoinOptions
from ivjoin.stream.run_of_two import RunOfTwo
from ivjoin.stream.sharing import condition_of, separated, shared_stream
from ivjoin.stream.sources.columns import Chosen, chosen, places_of
from ivjoin.stream.sources.hints import index_hints
from ivjoin.stream.sources.idle import Idle, idle_of
from ivjoin.stream.sources.inputs import ArrowStream, Source, SupportsArrowStream, open_inputs

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression
    from ivjoin.expr.literals import Params
    from ivjoin.plan.picking.choice import Pick
    from ivjoin.plan.question import JoinHow, Keys, Orders, Sort

__all__ = [
    "ArrowStream", "JoinStream", "SupportsArrowStream", "band_join", "check_call", "refuse_cross", "stream_of",
]  # fmt: skip

_MOST_THREADS = 1024


@known_options("band_join", also=DEFAULTS)
def band_join(
    left: ArrowStream, right: ArrowStream, on: Keys | None = None, condition: Expression | None = None,
    how: JoinHow = "inner", *, left_order: Orders | None = None, right_order: Orders | None = None,
    pick: Pick | None = None, params: Params | None = None, columns: Sequence[str] | None = None,
    suffix: str = "_right", on_late: OnLate = "raise", timezone: str | None = None,
    threads: int | Literal["auto"] = "auto", sort: Sort = "auto", memory_limit: int | str | None = None,
    when_full: WhenFull = "raise", **options: Unpack[JoinOptions],
) -> JoinStream:
    """Join two tables or streams on keys and a band condition, and store only the rows that can still match.

    Parameters
    ----------
    left : table, frame, files or stream
        The left input, one of these:

        - a table or a frame: any object with ``__arrow_c_stream__`` (pyarrow, polars, duckdb, pandas and others), or a
          polars LazyFrame
        - Parquet, CSV, JSON lines or Arrow files: a path, several paths, a pattern, a folder, a URI, or an object of
          ``pyarrow.dataset``
        - an iterable of RecordBatches, tables or frames

        A list has an end. An iterator, a generator or a RecordBatchReader is a stream, which may be endless.
    right : table, frame, files or stream
        The right input, as for ``left``.
    on : str, list of str, or list of (str, str), optional
        Key columns. A pair names the left and the right column.
    condition : str, SymPy relation or ivjoin expression, optional
        SQL text (Spark's dialect) such as ``"l.ts >= r.ts - INTERVAL 10 SECONDS AND l.ts <= r.ts"``.
    how : str, default "inner"
        inner, left, right, full, left_semi, left_anti, right_semi, right_anti, or one of Spark's aliases.
    left_order, right_order : str, expression, Order, or a list of these, optional
        Promises about the order of arrival. If a side has no order, ivjoin cannot evict rows of the other side before
        the end.
    pick : Pick, optional
        Which of the right rows that satisfy the whole condition each left row takes; see :class:`Pick`.
    params : mapping of str to value, optional
        The values of ``:name`` in the condition: ``params={"w": 5}`` for ``l.t <= r.t + :w``.
    columns : list of str, optional
        Names of the output columns, in the order you want; all by default. ivjoin reads only these columns, and the
        columns that the join needs.
    suffix : str, default "_right"
        Appended to the name of a right column that collides with a left one.
    on_late : {"raise", "drop", "join"} or function
        What to do with a row that breaks its side's order. A function ``(side, batch) -> None`` receives such rows,
        which are then dropped. ``metrics`` counts them for each side.
    timezone : str, optional
        Zone of calendar days and of timestamps without a zone; UTC by default. Comparing one of these with a timestamp
        that has a zone requires this option.
    threads : int or "auto", default "auto"
        The number of threads that join slices of an ordered axis at the same time. Several threads need a side with an
        order (declared or obtained by sorting), and a band on that order with two ends. Otherwise one thread runs, and
        :func:`ivjoin.explain` shows the reason.

        - Tables and files: the output has the same rows in the same order for any number of threads. Threads also read
          the row groups of Parquet files.
        - Streams: with several threads, the output follows the slices.
        - Files and streams: each thread stores two slices of about 131,072 rows, or more if the band is wide. One
          thread joins Parquet files with less than 262,144 rows together, and stores only the window.
        - ``"auto"``: tables and Parquet files use one thread for each 262,144 rows of both inputs, up to the CPUs of
          the process. Other files, streams and joins with ``memory_limit`` use one thread.
    sort : {"auto", "never"}
        What to do with an input that has an end and no declared order. ``"auto"`` sorts it along the band that needs
        the fewest rows in state, unless it is small or in order already. ``"never"`` reads it in the order given.
    memory_limit : int or str, optional
        Limit in bytes for the memory of the join, without its inputs, or text such as "512MB"; see
        :class:`SymmetricHashJoin`. Threads share the limit. Each thread needs 4 MiB of it, or fewer threads run.
    when_full : {"raise", "spill", "shed"}, :class:`~ivjoin.Spill` or :class:`~ivjoin.Shed`
        What to do if the rows that can still match do not fit. "raise" raises MemoryLimitError. "spill" writes rows to
        files, and the result is exact. "shed" drops rows, and the result is a subset (inner and semi joins only, on one
        thread).

    Other Parameters
    ----------------
    left_bounds, right_bounds : mapping of column to (least, greatest), optional
        Closed bounds that every row satisfies.
    batch_size : int, default 65536
        Maximum number of rows in an output batch.
    allow_cross : bool, default False
        Whether a join without ``on`` and ``condition`` may pair every left row with every right row.
    maintain_order : {"left", "right", "left_right", "right_left"}, optional
        Emit the rows in the original order of this input, or of both inputs for ``"left_right"``. Unmatched rows of the
        other input are last. The join stores its output and emits the first row when both inputs have ended.
    indicator : bool or str, default False
        Add a column ``_merge``, or one of this name: ``left_only``, ``right_only`` or ``both``.
    validate : {"1:1", "1:m", "m:1", "m:m"}, optional
        Raise CardinalityError if a row matches more than one: for ``"m:1"`` a left row, for ``"1:m"`` a right row.
    idle_timeout : str, number of seconds or timedelta, optional
        For streams: how long the join waits for a silent input, such as ``"5s"``. A separate thread reads each input.
        After the timeout, the join emits matches with rows in state, and rows that wait for the silent input stay in
        state. Without this option, the join waits for the input that is behind.
    idle : {"wait", "advance"}
        With ``"advance"``, a silent input counts as having reached the position of the other one. Rows that wait only
        for that input are decided and leave the state. If rows below that position arrive later, they are late.

    Returns
    -------
    JoinStream
        An iterable of RecordBatches with ``schema``, ``read_all()``, ``metrics`` and ``__arrow_c_stream__``.

    Raises
    ------
    OptionError
        If an option is unknown, or another option has an invalid value.
    ColumnError
        If a column is unknown or ambiguous.
    ConditionError
        If the condition has a syntax error, or compares types that cannot be compared. Also if the value of ``how`` or
        ``timezone`` does not exist.
    UnsupportedError
        If the condition, or a combination of options, is valid but not supported.
    OrderError
        If a declared order or bound cannot be used.
    SchemaError, FileError
        If an input is not a table or stream, or its files cannot be read.
    LateRowError
        While the output is read: if a row is late and ``on_late`` is "raise".
    EvaluationError
        While the output is read: if the condition raises an error for a pair of rows.
    CardinalityError
        While the output is read: if ``validate`` does not allow a match.
    MemoryLimitError, SpillError
        While the output is read: if the rows in state do not fit into ``memory_limit``, or a file of spilled rows
        cannot be written or read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> a = pa.table({"k": [1, 1, 2], "x": [1, 5, 9]})
    >>> b = pa.table({"k": [1, 2, 2], "x": [2, 9, 30]})
    >>> s = band_join(a, b, on="k", condition="abs(l.x - r.x) <= 1", left_order="x", right_order="x")
    >>> s.read_all().to_pylist()
    [{'k': 1, 'x': 1, 'x_right': 2}, {'k': 2, 'x': 9, 'x_right': 9}]
    """
    given = DEFAULTS | options
    budget = budget_of(memory_limit, when_full)
    matching = matching_of(given["maintain_order"], given["indicator"], given["validate"])
    rule, report = late_rule(on_late)
    patience = idle_of(given["idle_timeout"], given["idle"])
    sources = open_inputs(left, right)

    asked: dict[str, Any] = {
        "on": on, "condition": condition, "how": how, "left_order": left_order, "right_order": right_order,
        "left_bounds": given["left_bounds"], "right_bounds": given["right_bounds"], "suffix": suffix,
        "batch_size": given["batch_size"], "on_late": rule, "timezone": timezone, "pick": pick, "params": params,
    }  # fmt: skip

    def plan_for(inputs: tuple[Source, Source], **others: Any) -> JoinPlan:
        return planned(inputs[0].schema, inputs[1].schema, **(asked | others))

    def join(inputs: tuple[Source, Source], plan: JoinPlan, names: Sequence[str] | None) -> JoinStream:
        return stream_of(inputs, plan, threads, sort, names, budget, report=report, idle=patience)

    def written(names: Sequence[str] | None) -> JoinStream:
        inputs = copy(sources[0]), copy(sources[1])
        return join(inputs, plan_for(inputs), names or columns)

    bounds = given["left_bounds"], given["right_bounds"]
    if all(x is None for x in (left_order, right_order, *bounds, pick, budget, patience, matching)):
        question = separated(
            dict(zip(SIDES, sources, strict=True)), condition, params, {"on": on, "timezone": timezone}, asked,
            lambda given, schemas: condition_of(given, (schemas[SIDES[0]], schemas[SIDES[1]]), on, timezone, params),
            zone_of_call(timezone),
        )
        if question is not None:
            inputs = question.inputs[SIDES[0]], question.inputs[SIDES[1]]
            with suppress(IvjoinError):  # the join as written raises the error
                plan = plan_for(inputs, condition=question.condition, params=question.params)
                known = [n for n in plan.schema.names if n not in question.slots]
                names = known if columns is None else [known[i] for i in places_of(known, columns)]
                return shared_stream(join(inputs, plan, names), written)
    with index_hints({"left": left, "right": right}):
        plan = plan_for(sources)
    refuse_cross(plan, given["allow_cross"])
    if matching is None:
        return join(sources, plan, columns)
    return matching.join(sources, plan_for, join, columns)


def _present(sources: tuple[Source, Source], plan: JoinPlan) -> tuple[frozenset[str], frozenset[str]]:
    """Return the columns without NULLs of tables in memory, if the condition ignores NULLs."""
    left, right = (
        source.without_nulls(names) for source, names in zip(sources, _where_nulls_are_skipped(plan), strict=True)
    )
    return left, right


@of_plan
def _where_nulls_are_skipped(plan: JoinPlan) -> list[list[str]]:
    """Return the columns of each side that the condition reads, if it ignores NULLs as ``greatest`` does."""
    if plan.condition is None or not skips_nulls([plan.condition]):
        return [[], []]
    read = columns_of(plan.condition)
    return [[c.params[1] for c in read if c.params[0] == side] for side in SIDES]


def refuse_cross(plan: JoinPlan, allow_cross: bool) -> None:
    """Raise a ConditionError if a join has no key and no condition, unless the caller allows this."""
    if not isinstance(allow_cross, bool):
        raise OptionError(f"allow_cross is {came(allow_cross)}; expected True or False")
    spec = plan.spec
    all_pairs = not spec.on and spec.condition is None and spec.pick is None and not spec.aggregates
    if all_pairs and not allow_cross and plan.how.single is None:
        raise ConditionError(
            "the join has neither a key nor a condition, so every left row would be paired with every right row; give "
            "on= or condition=, or pass allow_cross=True (--allow-cross) if you want all pairs"
        )


def thread_count(threads: int | Literal["auto"]) -> int | Literal["auto"]:
    """Return a valid number of threads, or "auto".

    Raises
    ------
    OptionError
    """
    if isinstance(threads, str) and threads == "auto":
        return threads
    return whole_number("threads", threads, 1, _MOST_THREADS, "'auto' or a whole number")


def check_call(
    plan: JoinPlan, threads: int | Literal["auto"], sort: str, budget: Budget | None
) -> int | Literal["auto"]:
    """Check the options, and return ``threads``.

    With ``when_full="shed"`` and several threads, raise UnsupportedError.
    """
    threads = thread_count(threads)
    one_of("sort", sort, ("auto", "never"))
    if budget is not None:
        budget.check(plan)
        if budget.when_full == "shed" and threads not in ("auto", 1):
            raise UnsupportedError(
                f"when_full='shed' with threads={threads}: the rows to drop are chosen among all rows in state, by "
                "one operator; leave threads out, or use when_full='spill', which is exact"
            )
    return threads


def stream_of(
    sources: tuple[Source, Source], plan: JoinPlan, threads: int | Literal["auto"], sort: str,
    columns: Sequence[str] | None, budget: Budget | None = None,
    choose: Callable[..., Chosen] = chosen, report: Report | None = None,
    idle: Idle | None = None,
) -> JoinStream:
    """Return the join of two opened inputs. The arguments are as for :func:`band_join`.

    ``choose`` replaces :func:`~ivjoin.stream.sources.columns.chosen`. ``report`` receives late rows.
    """
    threads = check_call(plan, threads, sort, budget)
    first, second = map(copy, sources)  # copy the sources before the columns to read are chosen

    def again(names: Sequence[str] | None) -> JoinStream:
        inputs = copy(first), copy(second)
        return stream_of(inputs, plan, threads, sort, names or columns, budget, choose, report, idle)

    found = choose(plan, columns, (not sources[0].ends, not sources[1].ends), _present(sources, plan))
    for source, names in zip(sources, found.names, strict=True):
        source.keep(names)
    stream = JoinStream(RunOfTwo(found, sources, sort == "auto", threads, budget, report, idle))
    stream._again, stream._repeats = again, first.ends and second.ends
    return stream
