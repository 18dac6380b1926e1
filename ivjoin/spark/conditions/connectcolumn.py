"""Write Columns of Spark Connect as SQL text, from the client's own tree. This module does not import Connect."""

from __future__ import annotations

from typing import Any

from ivjoin.spark.conditions import sqlwriter as sql

__all__ = ["aliases", "sql_text"]

# Plans that keep their input's alias.
_TRANSPARENT = frozenset({"WithWatermark", "Filter", "Hint", "Sort", "Limit", "Deduplicate"})


def aliases(frame: Any) -> list[str]:
    """Return the last alias of a frame, through operations that preserve it."""
    plan = frame._plan
    while plan is not None:
        kind = type(plan).__name__
        if kind == "SubqueryAlias":
            return [plan._alias]
        if kind not in _TRANSPARENT:
            return []
        plan = getattr(plan, "_child", None)
    return []


def sql_text(column: Any, left: Any, right: Any) -> str:
    """Return a Column over two frames as SQL text with ``l.`` and ``r.``, as ``classiccolumn.sql_text`` does."""
    owners: dict[int, list[str]] = {}
    for side, frame in (("left", left), ("right", right)):
        for plan_id in _plan_ids(frame._plan):
            owners.setdefault(plan_id, []).append(side)
    return _text(column._expr, owners)


def _plan_ids(plan: Any) -> list[int]:
    out = []
    while plan is not None:
        out.append(plan._plan_id)
        plan = getattr(plan, "_child", None)
    return out


def _text(e: Any, owners: dict[int, list[str]]) -> str:
    kind = type(e).__name__
    if kind == "ColumnReference":
        return _reference(e, owners)
    if kind == "UnresolvedFunction":
        return sql.called(e._name, [_text(a, owners) for a in e._args])
    if kind == "LiteralExpression":
        return sql.literal(_value(e), 64 if type(e._dataType).__name__ == "LongType" else 32)
    if kind == "SQLExpression":
        return sql.sql_expression(e._expr.strip())
    if kind == "CastExpression":
        cast = "TRY_CAST" if "try" in str(e._eval_mode or "").lower() else "CAST"
        target = e._data_type if isinstance(e._data_type, str) else e._data_type.simpleString()
        return f"{cast}({_text(e._expr, owners)} AS {target})"
    if kind == "CaseWhen":
        pairs = [(_text(w, owners), _text(t, owners)) for w, t in e._branches]
        return sql.case_when(pairs, None if e._else_value is None else _text(e._else_value, owners))
    if kind == "ColumnAlias":
        return _text(e._child, owners)
    if kind == "UnresolvedExtractValue":
        return f"{_text(e._child, owners)}[{_text(e._extraction, owners)}]"
    if kind == "LambdaFunction":
        return sql.arrow([_text(a, owners) for a in e._arguments], _text(e._function, owners))
    if kind == "UnresolvedNamedLambdaVariable":
        return sql.quoted_name(e._name_parts[-1])
    raise sql.no_text(kind, repr(e))


def _value(e: Any) -> Any:
    """Return the Python value of a literal. The client stores times as the numbers of the wire format."""
    kind = type(e._dataType).__name__
    if e._value is not None and kind in ("DateType", "TimestampType", "TimestampNTZType", "DayTimeIntervalType"):
        from datetime import UTC, date, datetime, timedelta

        if not isinstance(e._value, int):
            return e._value
        if kind == "DateType":
            return date.fromordinal(date(1970, 1, 1).toordinal() + e._value)
        span = timedelta(microseconds=e._value)
        if kind == "DayTimeIntervalType":
            return span
        return datetime(1970, 1, 1, tzinfo=UTC if kind == "TimestampType" else None) + span
    return e._value


def _reference(e: Any, owners: dict[int, list[str]]) -> str:
    if e._plan_id is None:
        return e._unparsed_identifier
    return sql.column_of(owners.get(e._plan_id, []), e._unparsed_identifier.strip("`"))
