"""Read conditions as users of Spark write them: SQL text or a Column, with the DataFrames' aliases."""

from __future__ import annotations

from typing import Any

from ivjoin import conditions, expr
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
    """Return the side of each DataFrame alias (``df.alias("a")``) or table name that names one side alone.

    Raise ConditionError if the left frame is called ``r`` or ``right``, or the right one ``l`` or ``left``.
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
                f"the {side} DataFrame has the alias {name!r}, but in a condition it means the {_OWN[name]} side; "
                "give it another alias"
            )
    return out


def condition_of(
    condition: Any, left: Any, right: Any, scope: expr.Scope, timezone: str, how: str, quoted_names: bool = False
) -> tuple[Node | None, tuple[str, ...]]:
    """Return the node of a condition in any form, and the SQL text of conjuncts that Spark evaluates.

    Only an inner join has such conjuncts, because its rows can be filtered afterwards. With ``quoted_names``, double
    quotes in SQL text enclose names, not strings.
    """
    if isinstance(condition, (list, tuple)):
        raise ConditionError(
            f"condition is a {type(condition).__name__}; expected SQL text or one Column: combine its parts "
            "with AND, or with & between Columns in parentheses"
        )
    given = condition
    if is_column(condition):
        column_text = classiccolumn.sql_text if hasattr(condition, "_jc") else connectcolumn.sql_text
        given = column_text(condition, left, right)
    if quoted_names and isinstance(given, str):
        given = backquoted(given)
    try:
        return conditions.condition(given, scope, timezone=timezone), ()
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
            conditions.condition(text, scope, timezone=timezone)
            kept.append(f"({text}\n)")
        except UnsupportedError:
            left_over.append(text)
    return conditions.condition(" AND ".join(kept), scope, timezone=timezone) if kept else None, tuple(left_over)


def is_column(obj: Any) -> bool:
    return type(obj).__module__.startswith("pyspark.sql") and type(obj).__name__ == "Column"
