"""Conditions as users of Spark write them: SQL text or a Column, with the DataFrames' aliases."""

from __future__ import annotations

from typing import Any

from ivjoin import expr
from ivjoin.expr.nodes import Node

__all__ = ["aliases_of", "condition_of"]


def aliases_of(left: Any, right: Any) -> dict[str, str]:
    """Alias -> side, for the aliases that name one side alone."""
    return {}


def condition_of(condition: Any, left: Any, right: Any, scope: expr.Scope, timezone: str) -> Node | None:
    return expr.condition(condition, scope, timezone=timezone)
