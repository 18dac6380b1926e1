"""Read plans and expressions of Catalyst, Spark's optimizer, from the JVM of a classic session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["analyzed", "computed", "each", "ids", "kind_of", "reference", "walk"]


def analyzed(frame: Any) -> Any:
    return frame._jdf.queryExecution().analyzed()


def each(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def kind_of(node: Any) -> str:
    return node.getClass().getSimpleName()


def walk(plan: Any) -> Iterator[Any]:
    """Yield a plan and all plans below it."""
    yield plan
    for child in each(plan.children()):
        yield from walk(child)


def ids(attributes: Any) -> tuple[int, ...]:
    return tuple(a.exprId().id() for a in each(attributes))


def computed(project: Any) -> dict[int, Any]:
    """Return the expressions of a projection, by the id of the output."""
    return {e.exprId().id(): e.child() if kind_of(e) == "Alias" else e for e in each(project.projectList())}


def reference(expression: Any) -> int | None:
    """Return the id if an expression is an attribute, else None."""
    return int(expression.exprId().id()) if kind_of(expression) == "AttributeReference" else None
