"""The pull API: two Arrow streams in, one out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from ivjoin.errors import ConditionError, OptionError, UnsupportedError, came
from ivjoin.expr.arguments import known_options, one_of, whole_number
from ivjoin.expr.nodes import columns_of
from ivjoin.frontier.late import OnLate, Report, late_rule
from ivjoin.operator.memory.budget import Budget, WhenFull, budget_of
from ivjoin.plan.cache import planned
from ivjoin.plan.derived.certain import passes_nulls
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.stream.after.matched import matching_of
from ivjoin.stream.join_stream import JoinStream
from ivjoin.stream.prepared import PreparedJoin
from ivjoin.stream.sources.columns import Chosen, chosen
from ivjoin.stream.sources.hints import index_hints
from ivjoin.stream.sources.idle import Idle, idle_of
from ivjoin.stream.sources.inputs import ArrowStream, Source, SupportsArrowStream, open_inputs

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression
    from ivjoin.expr.literals import Params
    from ivjoin.plan.picking.choice import Pick
    from ivjoin.plan.picking.pick import PickBy
    from ivjoin.plan.question import Aggregates, DeclaredBounds, Keys, Orders

__all__ = [
    "ArrowStream", "JoinStream", "SupportsArrowStream", "band_join", "check_call", "refuse_cross", "stream_of",
]  # fmt: skip

_MOST_THREADS = 1024


@known_options("band_join")
def band_join(
    left: ArrowStream, right: ArrowStream, on: Keys | None = None, condition: Expression | None = None,
    how: str = "inner", *, left_order: Orders | None = None, right_order: Orders | None = None,
    left_bounds: DeclaredBounds | None = None, right_bounds: DeclaredBounds | None = None, suffix: str = "_right",
    batch_size: int = 65536, on_late: OnLate = "raise", timezone: str | None = None,
    threads: int | Literal["auto"] = "auto", sort: str = "auto", columns: Sequence[str] | None = None,
    aggregate: Aggregates | None = None, memory_limit: int | str | None = None, when_full: WhenFull = "raise",
    pick: Pick | str | None = None, pick_by: PickBy | None = None, allow_cross: bool = False,
    params: Params | None = None, maintain_order: str | None = None, indicator: bool | str = False,
    validate: str | None = None, idle_timeout: str | float | timedelta | None = None, idle: str = "wait",
) -> JoinStream:
    """Join two tables or streams on keys and a band condition, holding only the rows that can still match.

    Parameters
    ----------
    left, right : table, frame, files or stream
        Anything with ``__arrow_c_stream__`` (pyarrow, polars, duckdb, pandas, ...), a polars LazyFrame, a path, several
        paths, a pattern, a folder or a URI of Parquet, CSV, JSON lines or Arrow files, what ``pyarrow.dataset`` makes
        of files, or an iterable of RecordBatches, tables or frames. A list has an end; an iterator, a generator and a
        RecordBatchReader are streams, which may have none.
    on : str, list of str, or list of (str, str), optional
        Key columns.
    condition : str, SymPy relation or ivjoin expression, optional
        SQL text (Spark's dialect) such as ``"l.ts >= r.ts - INTERVAL 10 SECONDS AND l.ts <= r.ts"``.
    how : str, default "inner"
        inner, left, right, full, left_semi, left_anti, right_semi, right_anti, or Spark's aliases.
    left_order, right_order : str, expression, Order, or a list of these, optional
        Promises about the order of arrival; without one, nothing of the other side can be dropped before the end.
    left_bounds, right_bounds : mapping of column to (least, greatest), optional
        Closed bounds that every row keeps.
    suffix : str, default "_right"
        For right columns whose name collides.
    batch_size : int, default 65536
        Greatest number of rows of an output batch.
    on_late : {"raise", "drop", "join"} or function
        What to do with a row that breaks its side's order. A function ``(side, batch) -> None`` receives such rows,
        which are then dropped. ``metrics`` counts them for each side.
    timezone : str, optional
        Zone of calendar days and of timestamps without a zone; UTC by default. A timestamp without a zone is compared
        with one that has a zone only if you give it.
    threads : int or "auto", default "auto"
        The threads that join slices of an ordered axis at the same time. It needs a side with an order, declared or by
        sorting, and a band on it with two ends; otherwise the join runs on one thread, and :func:`ivjoin.explain` shows
        the reason. Tables in memory: the output has the same rows in the same order for any number of threads, and the
        thread that reads the output joins, too. Streams: the output follows the slices, and each thread stores a slice
        of about 131,072 rows, or more if the band is wide. ``"auto"``: for tables, one thread for each 262,144
        rows of both inputs, and no more than the CPUs of the process; for streams and within ``memory_limit``, one.
    sort : {"auto", "never"}
        What to do with an input that has an end (a table, a frame, a list of batches) and no declared order: sort it
        along the band that lets the join hold the fewest rows, unless it is in order or small, or read it as it is.
    columns : list of str, optional
        The columns of the output, by their names and in their order; all by default. What neither they nor the
        question needs is not read.
    aggregate : mapping of str to (column, function), optional
        ``{"vwap": ("price", "mean"), "n": ("*", "count")}``: one row for each left row, its columns and then aggregates
        of the right rows that match it, found without making the pairs. A column is one of the right side or an
        expression over it; functions are count, sum, mean, min, max, first and last, which are as SQL's: null is
        passed over but by first and last, NaN is the greatest value, and a sum of whole numbers that is too great for
        int64 is an error. First and last are by the order of the right side that is declared first, else by the band.
        ``how`` is inner, which drops left rows that nothing matches, or left, which keeps them with count 0 and null.
    memory_limit : int or str, optional
        Bytes that the join may hold beside its inputs, or text such as "512MB"; see :class:`SymmetricHashJoin`. Threads
        share it, as far as each has 4 MB of it.
    when_full : {"raise", "spill", "shed"}, :class:`~ivjoin.Spill` or :class:`~ivjoin.Shed`
        What happens where the rows that can still match do not fit: MemoryLimitError; files (exact); or rows are
        dropped (a subset of the result, inner and semi joins alone, on one thread).
    pick : Pick, or {"last", "first", "nearest"}, optional
        Which of the right rows that satisfy the whole condition each left row takes; see :class:`Pick`. A word takes
        one row by ``pick_by``.
    pick_by : str, expression, or list of these
        Right columns by which rows are compared, text too; the later ones break ties.
    allow_cross : bool, default False
        Whether a join without ``on`` and ``condition`` may pair every left row with every right row.
    params : mapping of str to value, optional
        The values of ``:name`` in the condition: ``params={"w": 5}`` for ``l.t <= r.t + :w``.
    maintain_order : {"left", "right", "left_right", "right_left"}, optional
        Emit the rows in the order in which this input was given, by both for ``"left_right"``. Rows without a row of
        that input are last. The output is stored, and its first row comes when both inputs have ended.
    indicator : bool or str, default False
        Add a column ``_merge``, or of this name: ``left_only``, ``right_only`` or ``both``.
    validate : {"1:1", "1:m", "m:1", "m:m"}, optional
        Raise CardinalityError if a row matches more than one: for ``"m:1"`` a left row, for ``"1:m"`` a right row.
    idle_timeout : str, number of seconds or timedelta, optional
        For streams: each input is read by a thread of its own, and one that gives nothing for so long, such as
        ``"5s"``, does not hold the other one back. Matches with rows in state are emitted; rows that wait for the
        silent input stay in state. Without it, the join waits for the input that is behind.
    idle : {"wait", "advance"}
        With ``"advance"``, a silent input counts as being as far as the other one: rows that only wait for it are
        decided and leave the state. Rows that it gives below that are late, and ``on_late`` decides about them.

    Returns
    -------
    JoinStream
        An iterable of RecordBatches with ``schema``, ``read_all()``, ``metrics`` and ``__arrow_c_stream__``.

    Raises
    ------
    IvjoinError
        A subclass that says what came, what was expected, and the nearest fix.

    Examples
    --------
    >>> import pyarrow as pa
    >>> a = pa.table({"k": [1, 1, 2], "x": [1, 5, 9]})
    >>> b = pa.table({"k": [1, 2, 2], "x": [2, 9, 30]})
    >>> s = band_join(a, b, on="k", condition="abs(l.x - r.x) <= 1", left_order="x", right_order="x")
    >>> s.read_all().to_pylist()
    [{'k': 1, 'x': 1, 'x_right': 2}, {'k': 2, 'x': 9, 'x_right': 9}]
    """
    budget = budget_of(memory_limit, when_full)
    matching = matching_of(maintain_order, indicator, validate)
    rule, report = late_rule(on_late)
    patience = idle_of(idle_timeout, idle)
    sources = open_inputs(left, right)

    def plan_for(inputs: tuple[Source, Source]) -> JoinPlan:
        return planned(
            inputs[0].schema, inputs[1].schema, on=on, condition=condition, how=how, left_order=left_order,
            right_order=right_order, left_bounds=left_bounds, right_bounds=right_bounds, suffix=suffix,
            batch_size=batch_size, on_late=rule, timezone=timezone, aggregate=aggregate, pick=pick, pick_by=pick_by,
            params=params,
        )

    def join(inputs: tuple[Source, Source], plan: JoinPlan, names: Sequence[str] | None) -> JoinStream:
        return stream_of(inputs, plan, threads, sort, names, budget, report=report, idle=patience)

    with index_hints({"left": left, "right": right}):
        plan = plan_for(sources)
    refuse_cross(plan, allow_cross)
    if matching is None:
        return join(sources, plan, columns)
    return matching.join(sources, plan_for, join, columns)


def _present(sources: tuple[Source, Source], plan: JoinPlan) -> tuple[frozenset[str], frozenset[str]]:
    """Columns of tables in memory that hold no null, where a null would be passed by."""
    if plan.condition is None or not passes_nulls([plan.condition]):
        return frozenset(), frozenset()
    asked = columns_of(plan.condition)
    left, right = (
        source.without_nulls(c.params[1] for c in asked if c.params[0] == side)
        for source, side in zip(sources, SIDES, strict=True)
    )
    return left, right


def refuse_cross(plan: JoinPlan, allow_cross: bool) -> None:
    """Refuse a join without a key and a condition that pairs all rows, unless the caller allows it.

    Raises
    ------
    ConditionError
    """
    if not isinstance(allow_cross, bool):
        raise OptionError(f"allow_cross is {came(allow_cross)}; expected True or False")
    spec = plan.spec
    all_pairs = not spec.on and spec.condition is None and spec.pick is None and not spec.aggregates
    if all_pairs and not allow_cross and plan.how.single is None:
        raise ConditionError(
            "the join has neither a key nor a condition, so every left row would be paired with every right row; give "
            "on= or condition=, or pass allow_cross=True (--allow-cross) if you want all pairs"
        )


def check_call(
    plan: JoinPlan, threads: int | Literal["auto"], sort: str, budget: Budget | None
) -> int | Literal["auto"]:
    """Return ``threads`` once all options are checked.

    Raises
    ------
    IvjoinError
        A subclass that names the option.
    """
    if not isinstance(threads, str) or threads != "auto":
        threads = whole_number("threads", threads, 1, _MOST_THREADS, "'auto' or a whole number")
    one_of("sort", sort, ("auto", "never"))
    if budget is not None:
        budget.check(plan)
        if budget.when_full == "shed" and threads not in ("auto", 1):
            raise UnsupportedError(
                f"when_full='shed' with threads={threads}: which rows go is chosen among all that are held, by one "
                "operator; leave threads out, or use when_full='spill', which is exact"
            )
    return threads


def stream_of(
    sources: tuple[Source, Source], plan: JoinPlan, threads: int | Literal["auto"], sort: str,
    columns: Sequence[str] | None, budget: Budget | None = None,
    choose: Callable[..., Chosen] = chosen, report: Report | None = None,
    idle: Idle | None = None,
) -> JoinStream:
    """Return the join of two opened inputs.

    The arguments are as for :func:`band_join`; ``choose`` replaces :func:`~ivjoin.stream.sources.columns.chosen`,
    and ``report`` receives late rows.
    """
    threads = check_call(plan, threads, sort, budget)
    first, second = map(copy, sources)  # before the columns that are read are chosen

    def again(names: Sequence[str] | None) -> JoinStream:
        inputs = copy(first), copy(second)
        return stream_of(inputs, plan, threads, sort, names or columns, budget, choose, report, idle)

    found = choose(plan, columns, (not sources[0].ends, not sources[1].ends), _present(sources, plan))
    for source, names in zip(sources, found.names, strict=True):
        source.keep(names)
    join = PreparedJoin(found, sources, sort == "auto", threads, budget, report, idle)
    join.open()
    stream = JoinStream(join)
    stream._again, stream._repeats = again, first.ends and second.ends
    return stream
