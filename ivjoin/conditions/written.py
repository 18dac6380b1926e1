"""Type aliases of public arguments that take an expression or a value."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from sympy import Basic

    from ivjoin.conditions.read.fluent import Expr
    from ivjoin.expr.nodes import Node

__all__ = ["Expression", "Params", "Slack", "Value"]

Expression: TypeAlias = "str | Expr | Node | Basic"  # SQL text, `ivjoin.left(...)`, SymPy
Value: TypeAlias = "bool | int | float | Decimal | str | bytes | date | time | timedelta"  # a datetime is a date
Params: TypeAlias = "Mapping[str, Value | None]"  # the values of ``:name`` in a condition
Slack: TypeAlias = "int | float | Decimal | timedelta | str"
