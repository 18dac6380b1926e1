"""Read, write and evaluate conditions: Spark SQL text, Python expressions or SymPy relations.

:func:`condition` and :func:`scalar` accept any of these. sympy and sqlglot are imported on first use.
"""

from __future__ import annotations

from typing import Any

from ivjoin.conditions.read.deep import refuse_deep
from ivjoin.conditions.text import to_text
from ivjoin.errors import ConditionError
from ivjoin.expr import nodes
from ivjoin.expr.nodes import Node, columns_of
from ivjoin.expr.scope import Scope

__all__ = ["condition", "scalar"]

nodes.to_text = to_text


def condition(obj: Any, scope: Scope, timezone: str = "UTC") -> Node | None:
    """Return the bool node of a condition in any form, or None for None.

    ``timezone`` is the zone of local times and calendar days. A condition that cannot be parsed, or whose types do not
    fit, raises a ConditionError.
    """
    if obj is None:
        return None
    node = scalar(obj, scope, timezone)
    if node.type.kind not in ("bool", "null"):
        raise ConditionError(f"a condition must be true or false, but this is a value of type {node.type}: {node}")
    from ivjoin.expr.build import cast
    from ivjoin.expr.types import BOOL

    return cast(node, BOOL)


def scalar(obj: Any, scope: Scope, timezone: str = "UTC") -> Node:
    """Return the node of an expression of any type, such as an order. See :func:`condition`."""
    if isinstance(obj, str):
        from ivjoin.conditions.read.sqltext import parse_scalar

        return parse_scalar(obj, scope, timezone)
    if isinstance(obj, Node):
        _check_columns(obj, scope)
        return obj
    from ivjoin.conditions.read.fluent import Expr

    if isinstance(obj, Expr):
        node = obj.resolve(scope, timezone)
        refuse_deep(node)
        return node
    module = obj.__class__.__module__.partition(".")[0]
    if module == "sympy" or any(c.__module__.startswith("sympy.") for c in obj.__class__.__mro__):
        from ivjoin.conditions.read.sympyform import from_sympy

        return from_sympy(obj, scope, timezone)
    if isinstance(obj, bool):
        raise ConditionError(
            f"the condition is Python's {obj}: Python compared it before the call. With SymPy write Eq(a, b) and "
            "Ne(a, b) for == and !=; pass None for no condition"
        )
    hint = ""
    if module == "pyspark":
        hint = "; a PySpark Column is taken by ivjoin.spark only, here pass its SQL text"
    elif module == "polars":
        hint = (
            "; a polars expression does not say which side a column is of: write SQL text such as 'l.a > 1', or "
            "ivjoin.left('a') > 1"
        )
    elif module in ("ibis", "duckdb", "pandas", "pyarrow"):
        hint = "; pass its SQL text"
    raise ConditionError(
        f"a condition cannot be made of {obj.__class__.__module__}.{obj.__class__.__qualname__}; expected SQL text, "
        f"an ivjoin expression, a SymPy relation or None{hint}"
    )


def _check_columns(node: Node, scope: Scope) -> None:
    for c in columns_of(node):
        side, name = c.params
        known = scope.resolve(side, name)
        if known.type != c.type:
            raise ConditionError(f"{c} has type {c.type} in the expression, but {known.type} in the input")
