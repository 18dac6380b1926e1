"""``ivjoin.multi_join``: join many inputs, inner joins in one step and other join types step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ivjoin.arguments import known_options, one_of
from ivjoin.conditions import scalar
from ivjoin.errors import ConditionError, OptionError, came
from ivjoin.expr.conjuncts import conjuncts_of
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.scope import Scope, nearest
from ivjoin.expr.timezones import zone_of_call
from ivjoin.expr.types import INT64, from_arrow
from ivjoin.frontier.late import OnLate, late_rule
from ivjoin.multi.question import multi_spec
from ivjoin.multi.spec import MultiSpec
from ivjoin.operator.memory.budget import WhenFull
from ivjoin.outer.jointype import join_type
from ivjoin.plan.picking.choice import Pick, check_pick
from ivjoin.stream.join_stream import JoinStream
from ivjoin.stream.many import join_many, opened
from ivjoin.stream.pull import thread_count
from ivjoin.stream.query.joining import joined
from ivjoin.stream.query.resolved import Resolved, Step, pushed, sides
from ivjoin.stream.sources.columns import places_of
from ivjoin.stream.sources.hints import index_hints
from ivjoin.stream.sources.inputs import ArrowStream

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression
    from ivjoin.expr.literals import Params
    from ivjoin.multi.question import AliasBounds, AliasOrders, Views
    from ivjoin.plan.question import Sort
    from ivjoin.stream.window.join import WindowAggregates

__all__ = ["multi_join"]

_HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti")
_NO_COLUMNS = ("left_semi", "left_anti")


@known_options("multi_join")
def multi_join(
    inputs: Mapping[str, ArrowStream], condition: Expression | None = None, *,
    hows: Mapping[str, str] | None = None, pick: Mapping[str, Pick] | None = None,
    aggregate: WindowAggregates | None = None, orders: AliasOrders | None = None,
    bounds: AliasBounds | None = None, batch_size: int = 65536, views: Views = "auto", on_late: OnLate = "raise",
    timezone: str | None = None, allow_cross: bool = False, sort: Sort = "auto", columns: Sequence[str] | None = None,
    threads: int | Literal["auto"] = "auto", memory_limit: int | str | None = None, when_full: WhenFull = "raise",
    params: Params | None = None,
) -> JoinStream:
    """Join two to eight tables or streams in one step, and store only the rows that can still match.

    The join is an inner join, unless ``hows``, ``pick`` or ``aggregate`` is given. With these, each input joins the
    result of the inputs before it, in the order given, as in SQL. A conjunct belongs to the ON clause of the last input
    that it reads. A conjunct over the first input alone belongs to the WHERE clause.

    Parameters
    ----------
    inputs : mapping of alias to table, frame, files or stream
        Any input that :func:`band_join` takes. One table may have several aliases.
    condition : str, SymPy relation or ivjoin expression
        The condition; columns are ``alias.name``. An order of one input can bound another input through a third one.
    hows : mapping of alias to str, optional
        How an input after the first one joins: "inner" (the default), "left", "right", "full", "left_semi" or
        "left_anti". ``hows={"cart": "left"}`` also emits rows without a match in ``cart``.
    pick : mapping of alias to Pick, optional
        Which matches from an input each joined row takes: see :class:`Pick`, with columns as ``alias.name``.
    aggregate : mapping of str to str, optional
        Aggregates that replace the columns of the last input, as in :func:`window_join`, with columns as
        ``alias.name``. Rows without a match are also emitted, unless ``hows`` is "inner".
    orders : mapping of alias to str, expression, Order, or a list of these, optional
        Promises about the order of arrival. ivjoin sorts an input with an end and no order by the column that bands
        connect with the orders of the other inputs.
    bounds : mapping of alias to mapping of column to (least, greatest), optional
        Closed bounds that every row satisfies.
    batch_size : int, default 65536
        Maximum number of rows in an output batch.
    views : "auto", "none", "all" or a list of groups of aliases, default "auto"
        Which intermediate results of an inner join are stored. ``"auto"`` decides by estimated sizes.
    on_late : {"raise", "drop", "join"} or function
        What to do with a row that breaks its input's order. A function receives the alias and a batch of such rows,
        which are then dropped.
    timezone : str, optional
        Zone of calendar days and of timestamps without a zone; UTC by default. Comparing one of these with a timestamp
        that has a zone requires this option.
    allow_cross : bool, default False
        Whether every row of an input may be paired with every row of another input if the condition does not connect
        them.
    sort : {"auto", "never"}
        Whether to sort inputs that have an end and no order. ``"never"`` reads them in their given order.
    columns : list of str, optional
        Names of the output columns, as ``alias_name``, in the order you want; all by default. ivjoin reads only these
        columns, and the columns that the join needs.
    threads : int or "auto", default "auto"
        Threads that join tables in memory. The rows and their order are the same for any number. Streams, files, and
        joins with ``memory_limit`` or ``sort="never"`` use one thread.
    memory_limit, when_full
        As for :class:`MultiJoin`. The limit does not include tables that are read or sorted as a whole.
    params : mapping of str to value, optional
        The values of ``:name`` in the condition: ``params={"w": 5}`` for ``l.t <= r.t + :w``.

    Returns
    -------
    JoinStream
        An iterable of RecordBatches with the columns of all inputs, as ``alias_name``. Its ``metrics`` are
        :class:`MultiJoinMetrics`; with ``hows``, ``pick`` or ``aggregate``, the :class:`JoinMetrics` of the last step.

    Raises
    ------
    OptionError, ColumnError, ConditionError, UnsupportedError, OrderError, SchemaError, FileError
        If an argument or an input is invalid, as for :func:`ivjoin.band_join`.
    LateRowError, EvaluationError, MemoryLimitError, SpillError
        While the output is read, as for :func:`ivjoin.band_join`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> q = pa.table({"sym": ["a", "b"], "ts": [1, 5]})
    >>> t = pa.table({"sym": ["a", "b"], "ts": [4, 50]})
    >>> s = multi_join({"q": q, "t": t, "u": t}, "q.sym = t.sym AND t.ts BETWEEN q.ts AND q.ts + 10 AND u.ts = t.ts")
    >>> s.read_all().to_pylist()
    [{'q_sym': 'a', 'q_ts': 1, 't_sym': 'a', 't_ts': 4, 'u_sym': 'a', 'u_ts': 4}]
    >>> s = multi_join({"q": q, "t": t}, "q.sym = t.sym AND t.ts BETWEEN q.ts AND q.ts + 10", hows={"t": "left"})
    >>> s.read_all().to_pylist()
    [{'q_sym': 'a', 'q_ts': 1, 't_sym': 'a', 't_ts': 4}, {'q_sym': 'b', 'q_ts': 5, 't_sym': None, 't_ts': None}]
    """
    if hows is None and pick is None and aggregate is None:
        return join_many(
            inputs, condition, orders=orders, bounds=bounds, batch_size=batch_size, views=views, on_late=on_late,
            timezone=timezone, allow_cross=allow_cross, sort=sort, columns=columns, threads=threads,
            memory_limit=memory_limit, when_full=when_full, params=params,
        )
    one_of("sort", sort, ("auto", "never"))
    if views != "auto":
        raise OptionError(
            f"views is {came(views)} with hows=, pick= or aggregate=, which join step by step; leave views out"
        )
    sources = opened(inputs)
    with index_hints(inputs if isinstance(inputs, Mapping) else {}):
        spec = multi_spec(
            {a: s.schema for a, s in sources.items()}, condition, orders=orders, bounds=bounds, batch_size=batch_size,
            on_late=late_rule(on_late)[0], timezone=timezone, allow_cross=allow_cross, params=params,
        )
        question = _question(spec, hows, pick, aggregate, params)
    if columns is not None:
        found = places_of([n for n, _ in question.output], columns)
        question = replace(question, output=tuple(question.output[i] for i in found))
    return joined(
        question, sources, orders or {}, bounds or {},
        {"batch_size": batch_size, "on_late": on_late, "timezone": timezone, "sort": sort,
         "memory_limit": memory_limit, "when_full": when_full},
        thread_count(threads), params,
    )  # fmt: skip


def _question(
    spec: MultiSpec, hows: Any, pick: Any, aggregate: WindowAggregates | None, params: Params | None
) -> Resolved:
    """Return the steps of the joins, in the order of the inputs, and their output."""
    first, *others = spec.aliases
    by_how = {a: join_type(h).name for a, h in _by_alias("hows", hows, first, others, "'left'").items()}
    for alias, how in by_how.items():
        one_of(f"how of {alias!r}", how, _HOWS, ConditionError)
    picks = _by_alias("pick", pick, first, others, "ivjoin.Pick(by='v.ts', keep='last')")
    last = others[-1]
    if aggregate is not None and last in picks:
        raise OptionError(f"{last!r} has both pick= and aggregate=; expected one of them for the last input")
    scope = Scope.of_inputs(spec.schemas, params=params)
    zone = str(zone_of_call(spec.options.timezone))
    ons: dict[str, list[Node]] = {a: [] for a in spec.aliases}
    for c in conjuncts_of(spec.condition):
        ons[max(sides(c), key=spec.aliases.index, default=None) or _untyped(c, spec)].append(c)
    steps = []
    for i, alias in enumerate(others):
        how = by_how.get(alias, "left" if alias == last and aggregate is not None else "inner")
        pick_of = picks.get(alias)
        chosen = None if pick_of is None else _resolved(check_pick(pick_of, alias), alias, spec, scope, zone)
        computed = aggregate if alias == last else None
        steps.append(Step(alias, how, False, tuple(ons[alias]), spec.allow_cross, chosen, computed))
        if not any(sides(c) - {alias} for c in ons[alias]) and not spec.allow_cross:
            raise ConditionError(
                f"no conjunct connects {alias!r} with {', '.join(map(repr, spec.aliases[: i + 1]))}, which join before "
                "it; put it behind the inputs that it is connected with, or allow the cross product with "
                "allow_cross=True (--allow-cross)"
            )
    after = tuple(c for c in ons[first] if not pushed(c, steps, len(steps)))
    shown = [a for a in spec.aliases if by_how.get(a) not in _NO_COLUMNS and (aggregate is None or a != last)]
    output = [
        (f"{a}_{f.name}", make("column", (), (a, f.name), from_arrow(f.type))) for a in shown for f in spec.schemas[a]
    ]
    # The type of an aggregate is known when its step is planned. The output column does not need the type here.
    output += [(n, make("column", (), ("", n), INT64)) for n in aggregate or ()]
    return Resolved(first, tuple(steps), after, tuple(output))


def _untyped(c: Node, spec: MultiSpec) -> str:
    """Return the input whose ON contains a conjunct without columns, because a comparison of an untyped column is NULL.

    A ConditionError is raised if several inputs have untyped columns.
    """
    found = {a: f.name for a, schema in spec.schemas.items() for f in schema if pa.types.is_null(f.type)}
    if len(found) > 1:
        named = " and ".join(f"{a}.{n}" for a, n in found.items())
        raise ConditionError(
            f"{c} reads no column, and {named} have no type, so it is unknown which ON it belongs to; cast them in the "
            "input"
        )
    return next(iter(found), spec.aliases[0])


def _by_alias(what: str, given: Any, first: str, others: Sequence[str], such: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise OptionError(f"{what} is {came(given)}; expected a mapping of aliases, such as {{{others[0]!r}: {such}}}")
    known = ", ".join(others)
    for alias in given:
        if alias == first:
            raise OptionError(f"{what} names {first!r}, the first input; expected one that joins it: {known}")
        if alias not in others:
            hint = nearest(alias, others) if isinstance(alias, str) else ""
            raise OptionError(f"{what} names {came(alias)}, which is not an input; expected one of {known}{hint}")
    return dict(given)


def _resolved(pick: Pick, alias: str, spec: MultiSpec, scope: Scope, zone: str) -> Pick:
    """Return a pick with nodes over ``alias.column``. A bare name is a column of the picked input."""

    def node(item: Any) -> Node:
        own: pa.Schema = spec.schemas[alias]
        return scope.resolve(alias, item) if isinstance(item, str) and item in own.names else scalar(item, scope, zone)

    return replace(pick, by=[node(item) for item in pick.items])
