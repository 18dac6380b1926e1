"""Write Columns of classic PySpark as SQL text, from the tree that Spark stores before it analyses a Column.

An expression id binds a reference such as ``left.ts`` to one attribute of one DataFrame. So two columns called ``ts``
cannot be confused. The Column's own SQL text does not distinguish them.
"""

from __future__ import annotations

from typing import Any

from ivjoin.errors import ColumnError, UnsupportedError
from ivjoin.spark.rows.sqlwriter import arrow, called, case_when, literal, name_of, no_text, quoted_name

__all__ = ["aliases", "sql_text"]


def _each(scala: Any) -> list[Any]:
    return [scala.apply(i) for i in range(scala.size())]


def _outputs(frame: Any) -> list[Any]:
    return _each(frame._jdf.queryExecution().analyzed().output())


def aliases(frame: Any) -> list[str]:
    """Return the names that can qualify every column of a frame."""
    qualifiers = [tuple(_each(a.qualifier())) for a in _outputs(frame)]
    if not qualifiers or len(set(qualifiers)) != 1 or not qualifiers[0]:
        return []
    return [str(qualifiers[0][-1])]


def sql_text(column: Any, left: Any, right: Any) -> str:
    """Return a Column over the columns of two frames as SQL text with ``l.`` and ``r.``.

    Raises
    ------
    ColumnError
        If it reads an attribute that belongs to neither frame, or to both.
    UnsupportedError
        If it contains something that SQL text cannot express; the error names it.
    """
    owners: dict[int, list[tuple[str, str]]] = {}
    for side, frame in (("left", left), ("right", right)):
        for attribute, name in zip(_outputs(frame), frame.columns, strict=True):
            owners.setdefault(attribute.exprId().id(), []).append((side, name))
    return _text(column._jc.node(), owners)


def _text(node: Any, owners: dict[int, list[tuple[str, str]]]) -> str:
    kind = node.getClass().getSimpleName()
    if kind == "UnresolvedFunction":
        return called(node.productElement(0), [_text(c, owners) for c in _each(node.productElement(1))])
    if kind == "ExpressionColumnNode":
        return _attribute(node.productElement(0), owners)
    if kind == "UnresolvedAttribute":
        return ".".join(quoted_name(p) for p in _each(node.productElement(0)))
    if kind == "SqlExpression":
        text = str(node.productElement(0)).strip()
        # The SQL parsers of Spark and ivjoin accept an interval only without parentheses.
        return text if text.upper().startswith("INTERVAL") else f"({text})"
    if kind == "Literal":
        return _literal(node)
    if kind == "CaseWhenOtherwise":
        parts = [_text(c, owners) for c in _each(node.children())]
        pairs = list(zip(parts[0::2], parts[1::2], strict=False))
        return case_when(pairs, parts[-1] if len(parts) % 2 else None)
    if kind == "Cast":
        cast = "TRY_CAST" if "Try" in node.productElement(2).toString() else "CAST"
        return f"{cast}({_text(node.productElement(0), owners)} AS {node.productElement(1).sql()})"
    if kind == "Alias":
        return _text(node.productElement(0), owners)
    if kind == "UnresolvedExtractValue":
        return f"{_text(node.productElement(0), owners)}[{_text(node.productElement(1), owners)}]"
    if kind == "LambdaFunction":
        return arrow([_text(a, owners) for a in _each(node.productElement(1))], _text(node.productElement(0), owners))
    if kind == "UnresolvedNamedLambdaVariable":
        return quoted_name(str(node.productElement(0)))
    raise no_text(_known(kind), node.sql())


def _known(kind: str) -> str:
    return {
        "Window": "a window function",
        "InvokeInlineUserDefinedFunction": "a user-defined function",
        "PythonUDF": "a user-defined function",
        "SortOrder": "a sort order",
        "SubqueryExpression": "a subquery",
    }.get(kind, kind)


def _attribute(expression: Any, owners: dict[int, list[tuple[str, str]]]) -> str:
    kind = expression.getClass().getSimpleName()
    if kind != "AttributeReference":
        raise no_text(_known(kind), expression.sql())
    found = owners.get(expression.exprId().id(), [])
    if len(found) == 1:
        return name_of(*found[0])
    name = expression.name()
    if not found:
        raise ColumnError(
            f"the Column {name!r} in the condition belongs to neither DataFrame of the join; take it from them: "
            f"left[{name!r}] or right[{name!r}]"
        )
    raise ColumnError(
        f"the Column {name!r} in the condition belongs to both sides, which are the same DataFrame; give them aliases "
        f"(df.alias('a'), df.alias('b')) and write F.col('a.{name}')"
    )


def _literal(node: Any) -> str:
    value = node.productElement(0)
    if isinstance(value, (bool, float, str, bytes, bytearray)) or value is None:
        return literal(value)
    if isinstance(value, int):
        return literal(value, 64 if str(node.sql()).endswith("L") else 32)
    if not hasattr(value, "getClass"):
        return literal(value)
    kind = value.getClass().getName()
    if kind in ("java.sql.Timestamp", "java.time.Instant"):
        instant = value.toInstant() if kind == "java.sql.Timestamp" else value
        return f"TIMESTAMP '{instant.toString()}'"
    if kind == "java.time.LocalDateTime":
        return f"TIMESTAMP_NTZ '{value.toString()}'"
    if kind in ("java.sql.Date", "java.time.LocalDate"):
        return f"DATE '{value.toString()}'"
    if kind == "java.time.Duration":
        return f"(INTERVAL '{value.getSeconds()}.{value.getNano() // 1000:06d}' SECOND)"
    if kind == "java.time.Period":
        return f"(INTERVAL '{value.toTotalMonths()}' MONTH)"
    raise UnsupportedError(f"a literal of type {kind} cannot be used in a join condition: {node.sql()}")
