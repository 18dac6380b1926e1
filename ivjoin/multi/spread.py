"""Describe a join of many inputs as relations with attributes, for the hypercube planner."""

from __future__ import annotations

from collections.abc import Mapping

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node
from ivjoin.multi.shape.steps import equal_classes
from ivjoin.multi.spec import MultiSpec
from ivjoin.routing import HypercubePlan, Relation, hypercube

__all__ = ["attributes", "cube", "skewed_names"]


def attributes(spec: MultiSpec) -> dict[str, dict[str, Node]]:
    """Return for each attribute, a class of equal columns, the expression of each input.

    An attribute has the name of its column, with the input's name if two attributes share a name.
    """
    out: dict[str, dict[str, Node]] = {}
    for c in equal_classes(spec):
        own: dict[str, Node] = {}
        for alias, node in c:
            own.setdefault(alias, node)
        first, node = next(iter(own.items()))
        inner = node
        while inner.args:
            inner = inner.args[0]
        name = inner.params[1].removeprefix(f"{first}_")
        out[name if name not in out else f"{first}.{name}"] = own
    return out


def cube(
    spec: MultiSpec, workers: int, rows: Mapping[str, float] | None = None, scheme: str = "auto",
    skewed: frozenset[str | tuple[str, str]] = frozenset(),
) -> HypercubePlan:
    """Return the grid of a join: hashed attributes, random dims, or both; inputs of unknown size count as equal."""
    named = attributes(spec)
    relations = {
        a: Relation((rows or {}).get(a, 1.0), tuple(n for n, own in named.items() if a in own)) for a in spec.aliases
    }
    return hypercube(relations, workers, scheme, skewed)


def skewed_names(spec: MultiSpec, skewed: object) -> frozenset[str | tuple[str, str]]:
    """Return the skewed attributes: a name, or ``alias.column`` of one input; OptionError for others."""
    from collections.abc import Iterable

    from ivjoin.errors import OptionError, came
    from ivjoin.expr.scope import nearest

    if skewed is None:
        return frozenset()
    if isinstance(skewed, str):
        skewed = [skewed]
    if not isinstance(skewed, Iterable):
        raise OptionError(f"skewed is {came(skewed)}; expected names such as ['t.sym'] or ['sym']")
    named = attributes(spec)
    columns = {
        f"{a}.{column.params[1].removeprefix(f'{a}_')}": (a, n)
        for n, own in named.items() for a, node in own.items()
        # an integer of another width is widened to the common type
        if (column := node.args[0] if node.op == ops.CAST else node).op == "column"
    }
    out: set[str | tuple[str, str]] = set()
    for item in skewed:
        name = ".".join(item) if isinstance(item, tuple) and all(isinstance(x, str) for x in item) else item
        if isinstance(name, str) and name in columns:
            out.add(columns[name])
        elif isinstance(name, str) and name in named:
            out.add(name)
        else:
            hint = nearest(name, [*columns, *named]) if isinstance(name, str) else ""
            raise OptionError(
                f"skewed names {came(item)}, which no equality of the condition joins; "
                f"it has {', '.join([*columns]) or '(none)'}{hint}"
            )
    return frozenset(out)
