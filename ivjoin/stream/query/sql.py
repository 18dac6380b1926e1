"""``ivjoin.sql``: joins written as SQL."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from ivjoin.conditions.read.sqlselect import Select, TableName, read_select
from ivjoin.errors import ConditionError, OptionError, SchemaError, came
from ivjoin.expr.scope import nearest
from ivjoin.expr.timezones import zone_of_call
from ivjoin.frontier.late import OnLate
from ivjoin.operator.memory.budget import WhenFull
from ivjoin.stream.query.joining import joined
from ivjoin.stream.query.resolved import resolved
from ivjoin.stream.sources.inputs import ArrowStream, Source, open_input

if TYPE_CHECKING:
    from ivjoin.expr.literals import Params
    from ivjoin.multi.question import AliasBounds, AliasOrders
    from ivjoin.plan.question import Sort
    from ivjoin.stream.join_stream import JoinStream

__all__ = ["sql"]


def sql(
    query: str, /, *, params: Params | None = None, inputs: Mapping[str, ArrowStream] | None = None,
    orders: AliasOrders | None = None, bounds: AliasBounds | None = None, batch_size: int = 65536,
    on_late: OnLate = "raise", timezone: str | None = None, threads: int | Literal["auto"] = "auto",
    sort: Sort = "auto", memory_limit: int | str | None = None, when_full: WhenFull = "raise", **tables: ArrowStream,
) -> JoinStream:
    """Join tables, files or streams with an SQL query in Spark's dialect.

    The query is ``SELECT columns FROM table JOIN table ON condition WHERE condition``. Joins are INNER, LEFT, RIGHT,
    FULL, SEMI, ANTI, CROSS, NATURAL and ASOF, with ON or USING. Several inner joins run as one :func:`multi_join`. Each
    other join runs as a :func:`band_join` or :func:`asof_join` of the result before it. The select list can contain
    columns, expressions with aliases, ``*``, ``l.*`` and ``* EXCEPT (...)``. Names of tables and columns are not
    case-sensitive.

    Parameters
    ----------
    query : str
        A name in FROM or JOIN is a keyword argument of this call, or else a variable of the caller. Text in quotes is a
        path, a pattern or a folder: ``FROM 'clicks/*.parquet' c``.
    params : mapping of str to value, optional
        The values of ``:name`` in the query.
    inputs : mapping of str to input, optional
        Further inputs by name. Use it for a table whose name is an option of this call.
    orders, bounds : mapping of alias to orders, or to bounds, optional
        As for :func:`multi_join`.
    batch_size, on_late, timezone, threads, sort, memory_limit, when_full
        As for :func:`band_join`. ``memory_limit`` applies to each join of the query.
    **tables : table, frame, files or stream
        The inputs by name.

    Returns
    -------
    JoinStream
        A repeated column name gets the suffix ``_1``, ``_2`` and so on. The name of an expression without an alias is
        its text.

    Raises
    ------
    UnsupportedError
        If the query needs more than joins: GROUP BY, ORDER BY, DISTINCT, LIMIT, windows, subqueries. The message shows
        how to continue with ``to_duckdb()``.
    OptionError, ColumnError, ConditionError, OrderError, SchemaError, FileError
        If an argument or an input is invalid, as for :func:`band_join`.
    LateRowError, EvaluationError, MemoryLimitError, SpillError
        While the output is read, as for :func:`band_join`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> clicks = pa.table({"id": [1, 2], "user": [7, 8], "ts": [10, 90]})
    >>> views = pa.table({"user": [7, 7, 8], "ts": [5, 8, 10], "ad": ["a", "b", "c"]})
    >>> s = sql(
    ...     "SELECT l.id, r.ad FROM clicks l LEFT JOIN views r ON l.user = r.user AND l.ts BETWEEN r.ts AND r.ts + :w",
    ...     clicks=clicks, views=views, params={"w": 3},
    ... )
    >>> s.read_all().to_pylist()
    [{'id': 1, 'ad': 'b'}, {'id': 2, 'ad': None}]
    """
    select = read_select(query)
    given = dict(tables)
    options: dict[str, Any] = {
        "orders": orders, "bounds": bounds, "params": params, "threads": threads, "sort": sort, "timezone": timezone,
    }
    named = {t.name for t in select.tables if not t.quoted}
    for name in options.keys() & named - set(inputs or ()):
        if options[name] is not _DEFAULTS[name]:
            # The query has a table of this name, so the keyword argument is that table.
            given[name], options[name] = options[name], _DEFAULTS[name]
    _refuse_unknown(given, named, select)
    aliases = _aliases(select)
    found = _found(select, given, inputs, _caller())
    opened = {id(x): alias for alias, x in found.items()}
    sources: dict[str, Source] = {}
    for alias, x in found.items():
        if opened[id(x)] != alias and (hasattr(x, "__next__") or hasattr(x, "read_next_batch")):
            raise SchemaError(f"{alias!r} and {opened[id(x)]!r} are the same stream, which can be read only once")
        sources[alias] = open_input(x, repr(alias))
    for what in ("orders", "bounds"):
        options[what] = _by_alias(what, options[what], aliases)
    zone = zone_of_call(options["timezone"])
    question = resolved(select, {a: s.schema for a, s in sources.items()}, zone, options["params"])
    return joined(
        question, sources, options["orders"], options["bounds"],
        {"batch_size": batch_size, "on_late": on_late, "timezone": options["timezone"], "sort": options["sort"],
         "memory_limit": memory_limit, "when_full": when_full},
        options["threads"],
    )  # fmt: skip


_DEFAULTS = {n: p.default for n, p in inspect.signature(sql).parameters.items() if p.kind is p.KEYWORD_ONLY}


def _refuse_unknown(given: Mapping[str, Any], named: set[str], select: Select) -> None:
    folded = {n.lower() for n in named} | {t.name.lower() for t in select.tables}
    for name in given:
        if name.lower() not in folded:
            hint = nearest(name, [*named, *_DEFAULTS])
            raise OptionError(
                f"sql() got {name}=, which is neither a table of the query ({', '.join(sorted(named)) or 'none'}) nor "
                f"an option{hint}"
            )


def _aliases(select: Select) -> list[str]:
    aliases: list[str] = []
    for t in select.tables:
        if any(t.alias.lower() == a.lower() for a in aliases):
            raise ConditionError(f"two tables of the query are named {t.alias!r}; give each its own alias")
        if not t.alias.isidentifier():
            raise ConditionError(
                f"the alias {came(t.alias)} is not a valid name; expected letters, digits and "
                "underscores"
            )
        aliases.append(t.alias)
    return aliases


def _caller() -> FrameType | None:
    """Return the closest frame outside this package on the call stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "ivjoin":
        frame = frame.f_back
    return frame


def _found(
    select: Select, given: Mapping[str, Any], inputs: Mapping[str, Any] | None, frame: FrameType | None
) -> dict[str, Any]:
    """Return the inputs by alias."""
    if inputs is not None and not isinstance(inputs, Mapping):
        raise OptionError(f"inputs is {came(inputs)}; expected {{name: input}}")
    found = {}
    places: list[Mapping[str, Any]] = [given, {} if inputs is None else inputs]
    variables: list[Mapping[str, Any]] = [] if frame is None else [frame.f_locals, frame.f_globals]
    for t in select.tables:
        found[t.alias] = _input(t, places, variables)
    return found


def _input(t: TableName, places: list[Mapping[str, Any]], variables: list[Mapping[str, Any]]) -> Any:
    for place in places:
        folded = {n.lower(): n for n in place}
        if (name := folded.get(t.name.lower(), t.name)) in place:
            return place[name]
    if t.quoted:
        return t.name
    for place in variables:
        if t.name in place:
            return place[t.name]
    known = [n for place in places for n in place]
    raise SchemaError(
        f"the query names the table {t.name!r}, which is neither a keyword of sql() nor a variable of the caller; pass "
        f"{t.name}=table, or put the path of a file in quotes{nearest(t.name, known)}"
    )


def _by_alias(what: str, declared: Any, aliases: list[str]) -> dict[str, Any]:
    if declared is None:
        return {}
    if not isinstance(declared, Mapping):
        raise OptionError(f"{what} is {came(declared)}; expected {{alias: {what} of that input}}")
    folded = {a.lower(): a for a in aliases}
    out = {}
    for name, x in declared.items():
        if not isinstance(name, str) or name.lower() not in folded:
            raise OptionError(f"{what} names {came(name)}, which is not a table of the query: {', '.join(aliases)}")
        out[folded[name.lower()]] = x
    return out
