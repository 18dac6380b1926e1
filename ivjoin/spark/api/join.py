"""``band_join`` on DataFrames: resolve the arguments against schemas and session, then run a backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin import expr
from ivjoin.errors import ConditionError, IvjoinError, OrderError, UnsupportedError
from ivjoin.expr.arguments import known_options, warn_caller
from ivjoin.expr.literals import zone_named
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.frontier.order import Order
from ivjoin.frontier.tracking import OrderTracker
from ivjoin.operator.memory.budget import Budget, Shed, Spill, WhenFull, budget_of
from ivjoin.plan.cache import plan_of
from ivjoin.plan.question import join_spec, named_pairs
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.api.carried import carried_slacks
from ivjoin.spark.api.origin import Joined, remember
from ivjoin.spark.api.schema import arrow_schema, output_type, refuse_collated, spelled_alike
from ivjoin.spark.api.schemes import SCHEMES
from ivjoin.spark.api.undecided import refuse_undecided
from ivjoin.spark.conditions.columns import aliases_of, condition_of, is_column
from ivjoin.spark.conditions.dialect import AnsiWarning, ansi_note, backquoted
from ivjoin.spark.conditions.leftover import rows_where
from ivjoin.spark.conditions.padding import char_widths, padded, refuse_pairs
from ivjoin.spark.rows.metrics import observed_name
from ivjoin.spark.runtime.environment import Settings, settings_of
from ivjoin.spark.runtime.eventtime import (
    WatermarkWarning,
    in_order,
    watermark_note,
    window_note,
    windows_without_order,
)
from ivjoin.spark.runtime.watermark import delays, with_watermarks
from ivjoin.spark.runtime.workers import kernels_early, start_early
from ivjoin.spark.spread.buckets import stream_count

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

    from ivjoin.plan.picking.asof import AsOf
    from ivjoin.plan.picking.choice import Pick
    from ivjoin.plan.question import Aggregates, DeclaredBounds, Keys, Orders
    from ivjoin.spark.rows.results import Results
    from ivjoin.spark.state.streamspread import StreamSpread

__all__ = ["band_join", "joined_frames", "refuse_unbuilt", "resolved", "worker_budget"]

BACKENDS = ("applyInPandasWithState", "transformWithState")


@dataclass(frozen=True)
class Resolved:
    """A call of ``band_join`` with every name resolved, and the notes for the caller."""

    spec: JoinSpec
    settings: Settings
    types: tuple[Any, Any]
    aliases: dict[str, str]
    notes: tuple[Warning, ...] = ()


@known_options("band_join")
def band_join(
    left: DataFrame, right: DataFrame, on: Keys | None = None, condition: str | Column | None = None,
    how: str = "inner", *, left_order: Orders | None = None, right_order: Orders | None = None,
    left_bounds: DeclaredBounds | None = None, right_bounds: DeclaredBounds | None = None, suffix: str = "_right",
    batch_size: int = 65536, on_late: str = "raise", timezone: str | None = None, buckets: int | None = None,
    backend: str = "applyInPandasWithState", name: str | Observation | None = None, routing: str = "auto",
    hot_keys: Sequence[object] | None = None, routing_dir: str | None = None, aggregate: Aggregates | None = None,
    pick: Pick | str | None = None, pick_by: str | Sequence[str] | None = None, memory_limit: int | str | None = None,
    when_full: WhenFull = "raise", allow_unbounded: bool = False,
) -> DataFrame:
    """Join two DataFrames on keys and a band condition; store only the rows that can still match.

    Parameters
    ----------
    left, right : DataFrame
        Both streaming or both static; classic or Connect.
    on : str, list of str, or list of (str, str), optional
        Key columns. Without a key, rows are spread along the band.
    condition : str or Column, optional
        SQL text in which ``l.`` and ``r.``, or the DataFrames' aliases, name the sides, or a Column over both. In an
        inner join, Spark filters the joined rows by conjuncts that the operator cannot evaluate. Other join types
        refuse such conjuncts.
    how : str, default "inner"
        inner, left, right, full, left_semi, left_anti, right_semi, right_anti, or Spark's aliases.
    left_order, right_order : str, Order, or a list of these, optional
        Order in which rows arrive, up to a slack. For static frames it is only a hint: the join sorts them in the
        order that evicts most. For streams, a watermark set by ``withWatermark`` counts as an order, with its delay as
        the slack. It does not count after a union or a join of streams, because these change the order of rows. The
        output of another ``band_join`` has the order that this join gives it, where that is known; see
        ``docs/spark-order-and-watermarks.md``.
    left_bounds, right_bounds : mapping of column to (least, greatest), optional
    suffix : str, default "_right"
        Suffix of right columns whose name collides.
    batch_size : int, default 65536
        Greatest number of rows that the operator emits at once.
    on_late : {"raise", "drop", "join"}
        What to do with a late row of a stream: end the query with LateRowError, drop and count it, or join it with the
        rows that are still stored. A query that "raise" has ended continues from its checkpoint with "drop".
    timezone : str, optional
        The session's by default.
    buckets : int, optional
        For streams, the number of groups into which the state is divided: by default 16, or
        ``spark.sql.shuffle.partitions`` if that is less. A checkpoint retains the number with which it began. For
        static frames, the number of tasks.
    backend : {"applyInPandasWithState", "transformWithState"}
        For streaming frames.
    name : str or Observation, optional
        Name of this join's counts, see :func:`ivjoin.spark.metrics`. Two joins of one query need different names, or
        none. Joins of static frames are counted only if you pass a ``pyspark.sql.Observation``.
    routing : {"auto", "hash", "slices", "grid"}
        How heavy keys, and joins without a key or with computed keys, are spread over the tasks. See
        ``ivjoin.routing``. For static frames, all but "hash" read the inputs once for a sample during this call. If
        both frames are small and have keys, "auto" takes no sample: it joins them in one task, without a shuffle,
        unless ``buckets`` is given. For streams without a key, "auto" and "slices" cut the axis into slices of four
        bands.
    hot_keys : list of keys, optional
        For streams: keys whose rows are cut into slices, too. With several key columns, each key is a tuple. A
        checkpoint retains its hot keys. For static frames, the sample finds them.
    routing_dir : str or path, optional
        For streams: a folder for this join and checkpoint alone, which all workers share. It is mounted, or on HDFS,
        S3, Google Cloud or Azure (``s3://bucket/plans``). Keys that become heavy while the query runs are detected and
        spread within a few micro-batches. The folder stores the plans for them; see ``docs/routing.md``.
    aggregate : mapping of str to (column, function), optional
        Emit each left row once, with aggregates of the right rows that match it: count, sum, mean, min, max, first or
        last. An example is ``{"vwap": ("price", "mean"), "n": ("*", "count")}``. In streams, the row is emitted as
        soon as no later right row can match it. ``how`` is inner or left.
    pick : {"last", "first", "nearest"}, optional
        Join each left row with one of the right rows that satisfy the whole condition; ``how`` is inner or left. Rows
        are then divided by their keys alone. Without a key, one task joins all of them.
    pick_by : str, or list of str, optional
        Right columns, or SQL text over them, that order the right rows. Later ones break ties.
    memory_limit : int or str, optional
        Limit for an operator in a Python worker, in bytes or as text such as "512MB". For static frames it applies to
        a task, for streams to a bucket. For a bucket it also limits the rows
        that are stored between micro-batches.
    when_full : {"raise", "spill"}
        What to do when the state exceeds the limit. "raise" raises MemoryLimitError, which ends the query. "spill",
        for static frames only, writes rows to files; the result stays exact.
    allow_unbounded : bool, default False
        For streams, whether an outer or anti join is allowed if nothing decides that a row has no partner. Such rows
        stay in the state and are never emitted.

    Returns
    -------
    DataFrame

    Raises
    ------
    OrderError
        If unmatched rows of a stream would never be emitted, and ``allow_unbounded`` is False.
    IvjoinError
        Or another subclass, before the query starts. Its message names the given value, the expected one and a fix.

    Warns
    -----
    AnsiWarning
        If the session's ANSI mode is off and the condition can raise an error.
    WatermarkWarning
        If a watermark is not read as an order, because a union or a join of streams comes after it.
    """
    streaming = _streaming(left, right)
    refuse_unbuilt(routing, hot_keys, routing_dir, streaming)
    if pick is not None and routing not in ("auto", "hash"):
        raise UnsupportedError(
            f"routing is {routing!r} with pick={pick!r}: all partners of a left row meet in one task; expected 'auto' "
            "or 'hash'"
        )
    call = resolved(
        left, right, on, condition, how, left_order, right_order, left_bounds, right_bounds, suffix, batch_size,
        on_late, timezone, aggregate, pick, pick_by,
    )
    if streaming and not allow_unbounded:
        refuse_undecided(call.spec)
    if call.spec.aggregates and routing not in ("auto", "hash"):
        raise UnsupportedError(
            f"routing is {routing!r} with aggregate=; expected 'auto' or 'hash': a left row meets all of its partners "
            "in one task"
        )
    budget = worker_budget(call.spec, memory_limit, when_full, streaming)
    return joined_frames(left, right, call, buckets, backend, name, routing, hot_keys, routing_dir, budget)


def joined_frames(
    left: DataFrame, right: DataFrame, call: Resolved, buckets: int | None, backend: str,
    name: str | Observation | None, routing: str, hot_keys: Sequence[object] | None = None,
    routing_dir: str | None = None, budget: Budget | None = None,
) -> DataFrame:
    """Return the joined frame of a resolved call, executed by the given backend."""
    if backend not in BACKENDS:
        raise IvjoinError(f"backend is {backend!r}; expected {' or '.join(map(repr, BACKENDS))}")
    streaming = _streaming(left, right)
    for note in call.notes:
        warn_caller(note)
    out = output_type(plan_of(call.spec), call.types)
    if streaming and not isinstance(name, str | None):
        raise IvjoinError(f"name is a {type(name).__name__}; expected text (an Observation is for static frames)")
    if not (name is None or isinstance(name, str) or hasattr(type(name), "get")):
        raise IvjoinError(f"name is a {type(name).__name__}; expected a pyspark.sql.Observation, or text")
    if not streaming:
        from ivjoin.spark.api.static import static_join
        from ivjoin.spark.spread.spreading import spread_of

        observation = None if isinstance(name, str) else name
        kernels_early(left)
        spread = spread_of(left, right, call.spec, call.settings, buckets, routing)
        joined = static_join(left, right, call.spec, out, spread, observation, budget)
    else:
        from ivjoin.spark.state.streamspread import stream_spread

        count = stream_count(buckets, call.settings.partitions)
        spread_out = stream_spread(call.spec, count, routing, hot_keys, routing_dir)
        kernels_early(left)
        if not call.spec.left_over:  # which Spark has yet to look at
            start_early(left)
        joined = _joined_stream(left, right, call, out, count, observed_name(name), backend, spread_out, budget)
    if not call.spec.left_over:
        return joined
    kept = rows_where(joined, plan_of(call.spec), call.types, call.aliases, call.spec.left_over)
    _ = kept.schema  # over Connect, this is when Spark looks at the conjuncts
    if streaming:
        start_early(left)
    return kept


def _joined_stream(
    left: Any, right: Any, call: Resolved, out: Any, buckets: int, name: str, backend: str, spread: StreamSpread,
    budget: Budget | None,
) -> DataFrame:
    """Return the joined stream, and remember it for sinks that read its packed rows."""
    from ivjoin.spark.state.segments import segmented_join
    from ivjoin.spark.state.stateful import in_two_groups
    from ivjoin.spark.state.streaming import opened, packed_sides, streaming_join

    segmented = backend == "transformWithState"
    build = segmented_join if segmented else streaming_join

    in_two = not segmented and in_two_groups(call.spec, buckets, spread)
    sides = packed_sides(left, right, call.spec, buckets, spread, in_two)

    def packed(results: Results | None = None) -> Any:
        return build(sides, call.spec, buckets, name, results, spread, budget)

    joined = opened(packed(), call.spec, out)
    remember(Joined(joined, call.spec, call.notes, buckets, spread, packed))
    return joined


def worker_budget(
    spec: JoinSpec, memory_limit: int | str | None, when_full: WhenFull, streaming: bool
) -> Budget | None:
    """Return the memory budget of an operator in a worker; None for no limit.

    Raises
    ------
    IvjoinError
        If the options are not a valid limit. If Spark cannot follow them, it is an UnsupportedError.
    """
    if when_full == "shed" or isinstance(when_full, Shed):
        raise UnsupportedError(
            "when_full is 'shed'; expected 'raise', or 'spill' of static frames: on Spark no rows are dropped"
        )
    if streaming and (when_full == "spill" or isinstance(when_full, Spill)):
        raise UnsupportedError(
            "when_full is 'spill' with streams; expected 'raise': Spark keeps the whole state of a bucket as bytes, "
            "which files do not shorten. Take more buckets or a narrower window"
        )
    budget = budget_of(memory_limit, when_full)
    if budget is not None:
        budget.check(plan_of(spec))
    return budget


def refuse_unbuilt(routing: object, hot_keys: object, routing_dir: object, streaming: bool) -> None:
    """
    Raises
    ------
    IvjoinError
        If ``routing`` is not a scheme. If the rows cannot be spread by it, it is an UnsupportedError.
    """
    if routing not in SCHEMES:
        raise IvjoinError(f"routing is {routing!r}; expected {', '.join(map(repr, SCHEMES[:-1]))} or {SCHEMES[-1]!r}")
    if routing_dir is not None and not streaming:
        raise UnsupportedError(f"routing_dir is {routing_dir!r}; expected None: static frames follow one plan")
    if routing_dir is not None and routing == "hash":
        raise UnsupportedError(
            f"routing_dir is {routing_dir!r} with routing='hash'; expected 'auto' or 'slices', or no routing_dir"
        )
    if hot_keys is not None and not streaming:
        raise UnsupportedError(f"hot_keys is {hot_keys!r}; expected None: a sample finds the hot keys of static frames")
    if streaming and routing == "grid":
        raise UnsupportedError("routing is 'grid'; expected 'auto', 'slices' or 'hash': streams have no grids")


def _streaming(left: Any, right: Any) -> bool:
    """Return whether both sides are streams.

    Raises
    ------
    IvjoinError
        If only one side is a stream, or one is not a DataFrame.
    """
    for frame, side in ((left, "left"), (right, "right")):
        if not hasattr(frame, "isStreaming") or not hasattr(frame, "mapInArrow"):
            raise IvjoinError(f"the {side} input is a {type(frame).__name__}; expected a PySpark DataFrame")
    a, b = left.isStreaming, right.isStreaming
    if a != b:
        static = "right" if a else "left"
        raise UnsupportedError(
            f"one side is a stream and the {static} side is static: the static rows would have to be read again in "
            "every micro-batch. Read both as streams (spark.readStream on the same files), or join each micro-batch to "
            "the static frame with Spark's own join inside foreachBatch"
        )
    return bool(a)


def resolved(
    left: Any, right: Any, on: Any = None, condition: Any = None, how: str = "inner", left_order: Any = None,
    right_order: Any = None, left_bounds: Any = None, right_bounds: Any = None, suffix: str = "_right",
    batch_size: int = 65536, on_late: str = "raise", timezone: str | None = None, aggregate: Any = None,
    pick: Any = None, pick_by: Any = None,
    as_of: Callable[[list[pa.Schema], Callable[[Any, int], Any]], AsOf] | None = None,
) -> Resolved:
    """Resolve every name and plan once, so that all errors are raised here.

    ``as_of`` replaces a condition and a pick. It receives both schemas, and a function that spells a name of a side.
    """
    settings = settings_of(left.sparkSession)
    zone = timezone or settings.timezone
    zone_named(zone)  # before Spark says it of each time
    types = (left.schema, right.schema)
    schemas = [arrow_schema(t, zone) for t in types]
    if not settings.case_sensitive:
        spelt = spelled_alike(schemas[0].names, schemas[1].names)
        schemas[1] = pa.schema([f.with_name(n) for f, n in zip(schemas[1], spelt, strict=True)])
    pairs = _pairs(on, schemas, settings.case_sensitive)
    aliases = aliases_of(left, right)
    scope = expr.Scope(schemas[0], schemas[1], on=pairs, case_sensitive=settings.case_sensitive, aliases=aliases)
    near = None
    if as_of is not None:
        asked = as_of(schemas, lambda n, s: _spelt(n, schemas[s].names, settings.case_sensitive))
        condition, pick, pick_by, near = asked.condition, asked.pick, asked.pick_by, asked.near
    elif pick_by is not None:
        items = list(pick_by) if isinstance(pick_by, (list, tuple)) else [pick_by]
        right_scope = expr.Scope(pa.schema([]), schemas[1], case_sensitive=settings.case_sensitive)
        pick_by = [_side_node(item, 1, right_scope, settings, zone) for item in items]
    # rows that Spark would filter afterwards are aggregated, or picked, by then
    kind = "left" if pick is not None or (aggregate is not None and how == "inner") else how
    given, left_over = condition_of(condition, left, right, scope, zone, kind, settings.quoted_names)
    widths = char_widths(types, schemas)
    refuse_pairs(pairs, widths)
    given = None if given is None else padded(given, widths)
    notes: list[Warning] = []
    orders = [
        _orders(o, s, f, schemas, settings, zone, notes)
        for s, (o, f) in enumerate(((left_order, left), (right_order, right)))
    ]
    for s, frame in enumerate((left, right)):
        windows = windows_without_order(pairs, s, frame, orders[s])
        notes += [WatermarkWarning(window_note(SIDES[s], name)) for name in windows]
    bounds = [_bounds(b, s.names, settings) for b, s in zip((left_bounds, right_bounds), schemas, strict=True)]
    spec = join_spec(
        schemas[0], schemas[1], on=pairs, condition=given, how=how, left_order=orders[0], right_order=orders[1],
        left_bounds=bounds[0], right_bounds=bounds[1], suffix=suffix, on_late=on_late, timezone=zone,
        batch_size=batch_size, aggregate=_aggregates(aggregate, schemas[1].names, settings), pick=pick,
        pick_by=pick_by, pick_near=near,
    )
    spec = replace(spec, left_over=left_over)
    if as_of is not None and spec.pick is not None:
        spec = replace(spec, pick=replace(spec.pick, unbounded=True))
    plan = plan_of(spec)
    compared = [a.node for a in spec.aggregates if a.function in ("min", "max")]
    refuse_collated([n for n in (plan.condition, *compared) if n is not None], types)
    for side in plan.sides:
        for node, name, o in side.orders:
            OrderTracker(node, name, o.descending, o.slack, o.nulls)  # the operator's own refusals, before a query runs
    note = None if settings.ansi else ansi_note(plan.condition)
    if note is not None:
        notes.append(AnsiWarning(note))
    return Resolved(spec, settings, types, aliases, tuple(notes))


def _pairs(on: Any, schemas: list[pa.Schema], case_sensitive: bool) -> list[tuple[str, str]]:
    """Return the key pairs, with names as the schemas spell them; the planner reports unknown names."""
    if on is None:
        return []
    for i in [on] if is_column(on) else on if isinstance(on, Iterable) and not isinstance(on, str) else ():
        if is_column(i):
            raise ConditionError(
                f"on holds the Column {i}; expected names of key columns, such as on='id' or on=[('a', 'b')]. "
                "A Column belongs in condition=..., where equalities are found to be keys too"
            )
    pairs = named_pairs(on)
    return [
        (_spelt(a, schemas[0].names, case_sensitive), _spelt(b, schemas[1].names, case_sensitive)) for a, b in pairs
    ]


def _text(given: Any, names: list[str], settings: Settings) -> Any:
    """Return a column's name as its schema spells it, or SQL text with its names quoted as in the session."""
    name = _spelt(given, names, settings.case_sensitive)
    return backquoted(name) if settings.quoted_names and isinstance(name, str) and name not in names else name


def _bounds(given: Any, names: list[str], settings: Settings) -> Any:
    return {_text(k, names, settings): v for k, v in given.items()} if isinstance(given, Mapping) else given


def _aggregates(given: Any, names: list[str], settings: Settings) -> Any:
    if not isinstance(given, Mapping):
        return given
    pairs = {n: p for n, p in given.items() if isinstance(p, (tuple, list)) and len(p) == 2 and p[0] != "*"}
    return {**given, **{n: (_text(p[0], names, settings), p[1]) for n, p in pairs.items()}}


def _spelt(name: Any, names: list[str], case_sensitive: bool) -> Any:
    if case_sensitive or not isinstance(name, str) or name in names:
        return name
    alike = [n for n in names if n.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else name


def _orders(
    given: Any, side: int, frame: Any, schemas: list[pa.Schema], settings: Settings, zone: str, notes: list[Warning]
) -> tuple[Order, ...]:
    """Return the declared orders and watermarks of a side, their expressions as nodes."""
    items = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    empty = pa.schema([])
    both = (schemas[0], empty) if side == 0 else (empty, schemas[1])
    scope = expr.Scope(*both, case_sensitive=settings.case_sensitive)
    declared = [o if isinstance(o, Order) else Order(o) for o in items]
    declared = [replace(o, expr=_side_node(o.expr, side, scope, settings, zone)) for o in declared]
    delay, no_order = {}, []
    for i, f in enumerate(frame.schema):
        for wait in delays([f]).values():
            column = scope.resolve(SIDES[side], schemas[side].names[i])
            # Spark marks the windows over an event time too, which are structs.
            if not has_ordinal(column.type):
                continue
            delay[column] = wait
            if frame.isStreaming and all(o.expr is not column for o in declared) and not in_order(frame, i):
                no_order.append(column)
                notes.append(WatermarkWarning(watermark_note(SIDES[side], f.name)))
    for i, slack in carried_slacks(frame).items():
        column = scope.resolve(SIDES[side], schemas[side].names[i])
        if all(o.expr is not column for o in declared) and column not in delay:
            declared.append(Order(column, slack=slack))
    return tuple(with_watermarks(declared, delay, no_order))


def _side_node(given: Any, side: int, scope: expr.Scope, settings: Settings, zone: str) -> Node:
    if isinstance(given, Node):
        return given
    given = _text(given, (scope.left if side == 0 else scope.right).names, settings)
    if isinstance(given, str) and given in (scope.left if side == 0 else scope.right).names:
        return scope.resolve(SIDES[side], given)
    if isinstance(given, str) and given.upper().split()[-1:] in (["ASC"], ["DESC"]):
        plain, word = given.rsplit(None, 1)
        raise OrderError(
            f"{SIDES[side]}_order is {given!r}; write "
            + (f"Order({plain!r}, descending=True)" if word.upper() == "DESC" else f"{plain!r}, which ascends")
        )
    if is_column(given):
        raise OrderError(
            f"{SIDES[side]}_order is the Column {given}; expected a column's name, SQL text, or an Order of either"
        )
    return expr.scalar(given, scope, timezone=zone)
