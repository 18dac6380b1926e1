"""Conditions as users of Spark write them: SQL text or a Column, with the DataFrames' aliases."""

from __future__ import annotations

from typing import Any

from ivjoin import expr
from ivjoin.errors import ConditionError
from ivjoin.expr.nodes import Node
from ivjoin.spark import classiccolumn, connectcolumn
from ivjoin.spark.environment import is_connect

__all__ = ["aliases_of", "condition_of"]

_OWN = {"l": "left", "left": "left", "r": "right", "right": "right"}


def aliases_of(left: Any, right: Any) -> dict[str, str]:
    """Alias -> side, for the aliases of DataFrames (``df.alias("a")``) and names of tables that name one side alone.

    ``l``, ``left``, ``r`` and ``right`` keep their meaning, unless a frame carries one of them for the other side.

    Raises
    ------
    ConditionError
        If the left frame is called ``r`` or ``right``, or the right one ``l`` or ``left``.
    """
    found: dict[str, set[str]] = {}
    for side, frame in (("left", left), ("right", right)):
        names = connectcolumn.aliases(frame) if is_connect(frame) else classiccolumn.aliases(frame)
        for name in names:
            found.setdefault(name.lower(), set()).add(side)
    out = {name: sides.pop() for name, sides in found.items() if len(sides) == 1}
    for name, side in out.items():
        if _OWN.get(name, side) != side:
            raise ConditionError(
                f"the {side} DataFrame has the alias {name!r}, which in a condition names the {_OWN[name]} side; "
                "give it another alias"
            )
    return out


def condition_of(condition: Any, left: Any, right: Any, scope: expr.Scope, timezone: str) -> Node | None:
    """The node of a condition in any form.

    Raises
    ------
    ConditionError
        If it does not parse, does not type, or is not true or false; ``UnsupportedError`` if it needs what the operator
        cannot evaluate.
    """
    text = column_text(condition, left, right) if is_column(condition) else condition
    return expr.condition(text, scope, timezone=timezone)


def is_column(obj: Any) -> bool:
    return type(obj).__module__.startswith("pyspark.sql") and type(obj).__name__ == "Column"


def column_text(column: Any, left: Any, right: Any) -> str:
    """A Column over both sides as SQL text with ``l.`` and ``r.``."""
    if hasattr(column, "_jc"):
        return classiccolumn.sql_text(column, left, right)
    return connectcolumn.sql_text(column, left, right)
