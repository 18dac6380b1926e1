"""Type aliases of public arguments that take an expression or a slack."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from sympy import Basic

    from ivjoin.conditions.read.fluent import Expr
    from ivjoin.expr.nodes import Node

__all__ = ["Expression", "Slack"]

Expression: TypeAlias = "str | Expr | Node | Basic"  # SQL text, `ivjoin.left(...)`, SymPy
Slack: TypeAlias = "int | float | Decimal | timedelta | str"
