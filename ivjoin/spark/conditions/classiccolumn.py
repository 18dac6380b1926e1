"""Write Columns of classic PySpark as SQL text, from the tree that Spark stores before it analyses a Column.

An expression id binds a reference such as ``left.ts`` to one attribute of one DataFrame. Two columns called ``ts``
therefore cannot be confused. The Column's own SQL text does not distinguish them.
"""

from __future__ import annotations

from typing import Any

from ivjoin.errors import UnsupportedError
from ivjoin.spark.conditions import sqlwriter as sql
from ivjoin.spark.runtime.catalyst import analyzed, each, kind_of

__all__ = ["aliases", "sql_text"]


def aliases(frame: Any) -> list[str]:
    """Return the names that can qualify every column of a frame."""
    qualifiers = [tuple(each(a.qualifier())) for a in each(analyzed(frame).output())]
    if not qualifiers or len(set(qualifiers)) != 1 or not qualifiers[0]:
        return []
    return [str(qualifiers[0][-1])]


def sql_text(column: Any, left: Any, right: Any) -> str:
    """Return a Column over the columns of two frames as SQL text with ``l.`` and ``r.``.

    Raise ColumnError if it reads an attribute that does not belong to one frame alone.
    """
    owners: dict[int, list[tuple[str, str]]] = {}
    for side, frame in (("left", left), ("right", right)):
        for attribute, name in zip(each(analyzed(frame).output()), frame.columns, strict=True):
            owners.setdefault(attribute.exprId().id(), []).append((side, name))
    return _text(column._jc.node(), owners)


def _text(node: Any, owners: dict[int, list[tuple[str, str]]]) -> str:
    kind = kind_of(node)
    if kind == "UnresolvedFunction":
        return sql.called(node.productElement(0), [_text(c, owners) for c in each(node.productElement(1))])
    if kind == "ExpressionColumnNode":
        return _attribute(node.productElement(0), owners)
    if kind == "UnresolvedAttribute":
        return ".".join(sql.quoted_name(p) for p in each(node.productElement(0)))
    if kind == "SqlExpression":
        return sql.sql_expression(str(node.productElement(0)).strip())
    if kind == "Literal":
        return _literal(node)
    if kind == "CaseWhenOtherwise":
        parts = [_text(c, owners) for c in each(node.children())]
        pairs = list(zip(parts[0::2], parts[1::2], strict=False))
        return sql.case_when(pairs, parts[-1] if len(parts) % 2 else None)
    if kind == "Cast":
        cast = "TRY_CAST" if "Try" in node.productElement(2).toString() else "CAST"
        return f"{cast}({_text(node.productElement(0), owners)} AS {node.productElement(1).sql()})"
    if kind == "Alias":
        return _text(node.productElement(0), owners)
    if kind == "UnresolvedExtractValue":
        return f"{_text(node.productElement(0), owners)}[{_text(node.productElement(1), owners)}]"
    if kind == "LambdaFunction":
        arguments = [_text(a, owners) for a in each(node.productElement(1))]
        return sql.arrow(arguments, _text(node.productElement(0), owners))
    if kind == "UnresolvedNamedLambdaVariable":
        return sql.quoted_name(str(node.productElement(0)))
    raise sql.no_text(kind, node.sql())


def _attribute(expression: Any, owners: dict[int, list[tuple[str, str]]]) -> str:
    kind = kind_of(expression)
    if kind != "AttributeReference":
        raise sql.no_text(kind, expression.sql())
    found = owners.get(expression.exprId().id(), [])
    return sql.column_of([side for side, _ in found], found[0][1] if len(found) == 1 else expression.name())


def _literal(node: Any) -> str:
    value = node.productElement(0)
    if isinstance(value, (bool, float, str, bytes, bytearray)) or value is None:
        return sql.literal(value)
    if isinstance(value, int):
        return sql.literal(value, 64 if str(node.sql()).endswith("L") else 32)
    if not hasattr(value, "getClass"):
        return sql.literal(value)
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
