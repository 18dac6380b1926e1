"""A join of many inputs as steps of two inputs each, and the routes of each input's rows through the steps.

In a *tree*, one operator stores both sides of a step: inputs, or views, which are results of earlier steps. In a
*cascade*, no view is stored. Rows of an input probe the stores of the other inputs one after the other. An input has
several stores if routes reach it after different other inputs.

The first step with all columns of a conjunct evaluates it. If two sides share a class of equal columns that no conjunct
between them names, the step gets an additional equality as a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from ivjoin.conditions.strictness import skips_nulls
from ivjoin.expr import build, ops
from ivjoin.expr.nodes import LEFT, RIGHT, Node, columns_of, make, rewrite
from ivjoin.multi.spec import MultiSpec, Part
from ivjoin.plan.spec import JoinSpec
from ivjoin.separation.separate import Separation, separate

__all__ = [
    "Layout", "Paths", "Shape", "Side", "Step", "Tree", "equal_classes", "laid_out", "local", "pair_parts", "wide",
]  # fmt: skip

Tree: TypeAlias = "str | tuple[Tree, Tree]"
Paths: TypeAlias = "dict[str, tuple[str, ...]]"  # by input: the others, in the order in which its rows probe them
Shape: TypeAlias = "Tree | Paths"


@dataclass(frozen=True)
class Side:
    """One side of a step: the inputs of its columns (several inputs are already joined)."""

    aliases: tuple[str, ...]
    awaits: tuple[str, ...]  # their later rows produce rows of this side, so their bounds matter
    keeps: bool = True  # whether its rows are stored, and not only probe

    @property
    def is_joined(self) -> bool:
        return len(self.aliases) > 1

    @property
    def is_view(self) -> bool:
        return self.is_joined and self.keeps

    @property
    def name(self) -> str:
        return self.aliases[0] if not self.is_joined else f"({', '.join(self.aliases)})"


@dataclass(frozen=True)
class Step:
    """A join of two sides, with the spec of its operator over wide names, and the conjuncts that it evaluates."""

    sides: tuple[Side, Side]
    spec: JoinSpec
    parts: tuple[Part, ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        return (*self.sides[0].aliases, *self.sides[1].aliases)


@dataclass(frozen=True)
class Layout:
    """The steps, and the steps and sides to which each input's rows go."""

    steps: list[Step]
    routes: dict[str, list[tuple[int, int]]]  # where rows are pushed, then the steps that receive the results
    stores: dict[str, list[tuple[int, int]]]  # the other places where rows are stored for later rows of other inputs

    def homes(self, alias: str) -> list[tuple[int, int]]:
        first = self.routes[alias][0]
        return [*([first] if self.steps[first[0]].sides[first[1]].keeps else []), *self.stores[alias]]


def laid_out(spec: MultiSpec, shape: Shape) -> Layout:
    """Return the steps of a tree, or of a cascade."""
    if isinstance(shape, dict):
        paths = tuple((a, tuple(path)) for a, path in shape.items())
        return spec.derived(("steps", paths), lambda: _cascade(spec, shape))
    return spec.derived(("steps", shape), lambda: _tree(spec, shape))


def _tree(spec: MultiSpec, tree: Tree) -> Layout:
    steps: list[Step] = []
    routes: dict[str, list[tuple[int, int]]] = {a: [] for a in spec.aliases}
    classes = equal_classes(spec)

    def add(t: Tree) -> Side:
        if isinstance(t, str):
            return Side((t,), (t,))
        sides = add(t[0]), add(t[1])
        steps.append(_step(spec, sides, classes))
        for p, side in enumerate(sides):
            for alias in side.aliases:
                routes[alias].append((len(steps) - 1, p))
        both = steps[-1].aliases
        return Side(both, both)

    add(tree)
    return Layout(steps, routes, {a: [] for a in spec.aliases})


def _cascade(spec: MultiSpec, paths: Paths) -> Layout:
    classes = equal_classes(spec)
    found: dict[tuple[frozenset[str], str], list[str]] = {}  # joined inputs, next input: whose rows go there
    for start, path in paths.items():
        for k, alias in enumerate(path):
            found.setdefault((frozenset((start, *path[:k])), alias), []).append(start)
    steps: list[Step] = []
    routes: dict[str, list[tuple[int, int]]] = {a: [] for a in spec.aliases}
    stores: dict[str, list[tuple[int, int]]] = {a: [] for a in spec.aliases}
    for (hand, alias), starts in sorted(found.items(), key=lambda f: len(f[0][0])):
        # in the column order of the first route, so that no columns move; for other routes by name
        left = Side(tuple(a for a in spec.aliases if a in hand), tuple(starts), keeps=False)
        steps.append(_step(spec, (left, Side((alias,), (alias,))), classes))
        stores[alias].append((len(steps) - 1, 1))
        for start in starts:
            routes[start].append((len(steps) - 1, 0))
    return Layout(steps, routes, stores)


def _step(spec: MultiSpec, sides: tuple[Side, Side], classes: list[list[tuple[str, Node]]]) -> Step:
    a, b = (frozenset(s.aliases) for s in sides)
    mine = []
    for p in spec.parts:
        alone = len(p.aliases) == 1 and any(p.aliases == here and len(here) == 1 for here in (a, b))
        if alone or (p.aliases <= a | b and p.aliases & a and p.aliases & b):
            mine.append(p)
        elif not p.aliases and len(a | b) == len(spec.schemas):
            mine.append(p)
    names = {n for alias in sides[0].aliases for n in spec.wide(alias).names}
    keys = [local(n, names) for n in _implied(classes, a, b, mine)]
    conjuncts = [*keys, *(local(p.node, names) for p in mine)]
    implied = _follows(spec, a, b, mine)
    if implied and not conjuncts:
        conjuncts = [build.literal(True)]
    condition = build.and_(*conjuncts) if conjuncts else None
    options = spec.options
    left, right = (() if s.is_joined else (spec.inputs[s.aliases[0]],) for s in sides)
    schemas = [pa.schema([f for alias in s.aliases for f in spec.wide(alias)]) for s in sides]
    step = JoinSpec(
        schemas=(schemas[0], schemas[1]), condition=condition,
        orders=(
            tuple(o for own in left for o in own.orders[0]),
            tuple(replace(o, expr=local(o.node, ())) for own in right for o in own.orders[0]),
        ),
        bounds=(
            tuple(b for own in left for b in own.bounds[0]),
            tuple((local(n, ()), low, high) for own in right for n, low, high in own.bounds[0]),
        ),
        batch_size=options.batch_size, on_late="join", timezone=options.timezone,
        implied=tuple(local(n, names) for n in implied),
    )
    return Step(sides, step, tuple(mine))


def _follows(spec: MultiSpec, a: frozenset[str], b: frozenset[str], mine: Sequence[Part]) -> list[Node]:
    """Return further conditions between the two sides that are true in every result, over a wide row."""
    out = [p.node for p in spec.implied if p.aliases <= a | b and p.aliases & a and p.aliases & b]
    skipping = [n for n in (*(p.node for p in mine), *out) if skips_nulls([n])]
    there = [c for c in columns_of(*skipping) if c in spec.certain[0]]
    return [*out, *(build.is_not_null(c) for c in there)]


def local(node: Node, left: Iterable[str]) -> Node:
    """Return an expression over a wide row as one over two sides; ``left``: the names of the left side."""

    def placed(n: Node) -> Node | None:
        if n.op != "column" or n.params[1] in left:
            return None
        return make("column", (), (RIGHT, n.params[1]), n.type)

    return rewrite(node, placed)


def wide(node: Node) -> Node:
    """Return an expression over two sides as one over a wide row."""

    def placed(n: Node) -> Node | None:
        return make("column", (), (LEFT, n.params[1]), n.type) if n.op == "column" else None

    return rewrite(node, placed)


def equal_classes(spec: MultiSpec) -> list[list[tuple[str, Node]]]:
    """Return classes of columns of several inputs that are equal if the condition is TRUE: (alias, expression)."""
    return spec.derived("classes", lambda: _classes(spec))


def _classes(spec: MultiSpec) -> list[list[tuple[str, Node]]]:
    owners = {f.name: a for a in spec.aliases for f in spec.wide(a)}
    found: list[dict[Node, str]] = []
    for p in spec.parts:
        if p.node.op != ops.EQ or len(p.aliases) != 2:
            continue
        ends = {n: _owner(n, owners) for n in p.node.args}
        if any(alias is None for alias in ends.values()):
            continue
        joined = {n: a for n, a in ends.items() if a is not None}
        for c in [c for c in found if c.keys() & ends.keys()]:
            joined |= c
            found.remove(c)
        found.append(joined)
    return [[(a, n) for n, a in c.items()] for c in found if len(set(c.values())) > 1]


def _owner(n: Node, owners: Mapping[str, str]) -> str | None:
    """Return the input of one end of an equality; None if it may raise an error or reads several columns."""
    inner = n
    while inner.op == ops.CAST and inner.type.kind == inner.args[0].type.kind == "int" and _holds(inner):
        inner = inner.args[0]
    return owners.get(inner.params[1]) if inner.op == "column" else None


def _holds(cast: Node) -> bool:
    low, high = cast.args[0].type.limits
    least, most = cast.type.limits
    return bool(least <= low and high <= most)


def _implied(
    classes: Sequence[Sequence[tuple[str, Node]]], a: frozenset[str], b: frozenset[str], mine: Sequence[Part]
) -> Iterator[Node]:
    """Return an equality for each class of both sides that no conjunct of the step compares."""
    direct = {n for p in mine if p.node.op == ops.EQ for n in p.node.args}
    for c in classes:
        ends = [next((n for alias, n in c if alias in side), None) for side in (a, b)]
        if ends[0] is None or ends[1] is None:
            continue
        if {n for alias, n in c if alias in a} & direct and {n for alias, n in c if alias in b} & direct:
            continue
        yield build.eq(ends[0], ends[1])


def pair_parts(spec: MultiSpec) -> Mapping[tuple[str, str], Separation]:
    """Return the separated conjuncts of each pair of inputs that conjuncts compare."""
    return spec.derived("pairs", lambda: _pairs(spec))


def _pairs(spec: MultiSpec) -> Mapping[tuple[str, str], Separation]:
    classes = equal_classes(spec)
    out = {}
    for i, a in enumerate(spec.aliases):
        for b in spec.aliases[i + 1 :]:
            mine = [p for p in (*spec.parts, *spec.implied) if p.aliases == {a, b}]
            names = set(spec.wide(a).names)
            keys = [local(n, names) for n in _implied(classes, frozenset({a}), frozenset({b}), mine)]
            conjuncts = [*keys, *(local(p.node, names) for p in mine)]
            if conjuncts:
                out[a, b] = separate(build.and_(*conjuncts))
    return out
