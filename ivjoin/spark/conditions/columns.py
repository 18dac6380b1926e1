"""Conditions as users of Spark write them: SQL text or a Column, with the DataFrames' aliases."""

from __future__ import annotations

from typing import Any

from ivjoin import expr
from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr.nodes import Node
from ivjoin.outer.jointype import join_type
from ivjoin.spark.conditions import classiccolumn, connectcolumn
from ivjoin.spark.conditions.dialect import backquoted
from ivjoin.spark.conditions.leftover import conjuncts
from ivjoin.spark.runtime.environment import is_connect

__all__ = ["aliases_of", "condition_of", "is_column"]

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


def condition_of(
    condition: Any, left: Any, right: Any, scope: expr.Scope, timezone: str, how: str, quoted_names: bool = False
) -> tuple[Node | None, tuple[str, ...]]:
    """The node of a condition in any form, and the SQL text of conjuncts that are left to Spark.

    Only an inner join leaves any: its rows can be filtered afterwards. ``quoted_names`` says that text has names, not
    strings, in double quotes.

    Raises
    ------
    ConditionError
        If it does not parse, does not type, or is not true or false; ``UnsupportedError`` if it needs what the operator
        cannot evaluate, and the join is not inner.
    """
    if isinstance(condition, (list, tuple)):
        raise ConditionError(
            f"condition is a {type(condition).__name__}; expected SQL text or one Column: put its parts together "
            "with AND, or with & between Columns in parentheses"
        )
    given = column_text(condition, left, right) if is_column(condition) else condition
    if quoted_names and isinstance(given, str):
        given = backquoted(given)
    try:
        return expr.condition(given, scope, timezone=timezone), ()
    except UnsupportedError as e:
        if not isinstance(given, str):
            raise
        name = join_type(how).name
        if name != "inner":
            raise UnsupportedError(
                f"{e}\nOnly an inner join can leave a conjunct to Spark; a {name} join has to know by the whole "
                "condition which rows have a match. Compute what the conjunct needs in a column before the join"
            ) from None
    kept, left_over = [], []
    for text in conjuncts(given):
        try:
            expr.condition(text, scope, timezone=timezone)
            kept.append(f"({text}\n)")
        except UnsupportedError:
            left_over.append(text)
    return expr.condition(" AND ".join(kept), scope, timezone=timezone) if kept else None, tuple(left_over)


def is_column(obj: Any) -> bool:
    return type(obj).__module__.startswith("pyspark.sql") and type(obj).__name__ == "Column"


def column_text(column: Any, left: Any, right: Any) -> str:
    """A Column over both sides as SQL text with ``l.`` and ``r.``."""
    if hasattr(column, "_jc"):
        return classiccolumn.sql_text(column, left, right)
    return connectcolumn.sql_text(column, left, right)
