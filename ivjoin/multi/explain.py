"""Explain a join of many inputs: its steps, its state, the bounds that other inputs give, and its grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ivjoin.conditions.strictness import skips_nulls
from ivjoin.expr.nodes import Node, columns_of
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.frontier.tracking import Frontier, OrderTracker
from ivjoin.multi.reach import Span, columns_read, rounds_of, united
from ivjoin.multi.shape.steps import Layout, Side, Step
from ivjoin.multi.spec import MultiSpec, Part
from ivjoin.multi.spread import attributes, cube
from ivjoin.operator.explaining.explain import interval_text, typical
from ivjoin.operator.explaining.picture import Explanation
from ivjoin.operator.explaining.wording import listed, said
from ivjoin.plan.cache import plan_of
from ivjoin.plan.derived.certain import domain_of, there

__all__ = ["explained"]

_WORKERS = 8


def explained(
    spec: MultiSpec, layout: Layout, rows: Mapping[str, float] | None = None, workers: int = _WORKERS
) -> Explanation:
    """Return the explanation of a join whose steps are laid out; ``rows`` and ``workers`` describe the grid."""
    words = _Words(spec)
    lines = [f"inner join of {len(spec.aliases)} inputs: {', '.join(spec.aliases)}", "", "condition"]
    lines += [f"  {words(p.node)}    ({listed([a for a in spec.aliases if a in p.aliases]) or 'no input'})"
              for p in spec.parts] or ["  (none: every row is compared with every row)"]  # fmt: skip
    classes = [" = ".join(words(n) for n in own.values()) for own in attributes(spec).values()]
    lines += ["", "equal, also through each other", *(f"  {c}" for c in classes)] if classes else []
    lines += ["", "steps", *_steps(layout, words)]
    lines += ["", "what bounds later rows (an order at a typical value)", *_reaches(spec, words)]
    state = _state(spec, layout, words)
    lines += ["", "state", *state]
    lines += ["", f"grid of {workers} workers", *_grids(spec, rows, workers)]
    return Explanation("\n".join(lines), (), tuple(s.strip() for s in state))


class _Words:
    """Expressions over a wide row, in the form of the condition."""

    def __init__(self, spec: MultiSpec) -> None:
        self._names = [
            (f"l.{f.name}", f"{a}.{n}") for a in spec.aliases
            for f, n in zip(spec.wide(a), spec.schemas[a].names, strict=True)
        ]
        self._names.sort(key=lambda pair: -len(pair[0]))

    def __call__(self, node: Node) -> str:
        text = said(node).replace(" r.", " l.").replace("(r.", "(l.")
        text = text.replace("r.", "l.", 1) if text.startswith("r.") else text
        for wide, own in self._names:
            text = text.replace(wide, own)
        return text


def _steps(layout: Layout, words: _Words) -> list[str]:
    out = []
    for i, step in enumerate(layout.steps, 1):
        left, right = step.sides
        kept = f", keeps the view {left.name}" if left.is_view else ""
        kept += f", keeps the view {right.name}" if right.is_view else ""
        if not left.keeps:
            kept = f", for rows of {listed(left.awaits)}"
        out.append(f"  {i}. {left.name} with {right.name}{kept}")
        plan = plan_of(step.spec)
        sep = plan.separation
        out += [f"       key       {words(k.left)} {'<=>' if k.null_safe else '='} {words(k.right)}" for k in sep.keys]
        bands = plan.kernel_terms
        out += [f"       band      {words(t.left)} with {words(t.right)}" for t in bands]
        out += [f"       residual  {words(r)}" for r in sep.residual]
        if not sep.keys and not bands:
            out.append("       every pair is looked at" if sep.residual else "       every pair")
    return out


def _frontier(spec: MultiSpec, alias: str) -> Frontier:
    """Return the bounds of an input whose orders are at a typical value."""
    trackers = []
    for o in spec.inputs[alias].orders[0]:
        t = OrderTracker(o.node, str(o.node), o.descending, o.slack, o.nulls)
        ordinal = typical(o.node.type)
        turned = ~ordinal if o.descending else ordinal
        t.edge, t.seen_value, t.limit = turned, 1, t.least_after(turned)
        trackers.append(t)
    bounds = {n: (low, high) for n, low, high in spec.inputs[alias].bounds[0]}
    return Frontier(trackers, bounds, *spec.certain)


def _bounds(
    parts: Iterable[Part], frontier: Frontier, nodes: list[Node], columns: Iterable[Node]
) -> dict[Node, Span]:
    """Return the domains of expressions next to a later row. ``columns``: columns that are not null there."""
    from ivjoin.propagation import Dom, contract_nodes

    parts = list(parts)
    conjuncts = tuple(p.node for p in parts)
    if not conjuncts or not nodes:
        return {}
    never_null = frozenset(columns)
    conjuncts = (*there((), never_null, {}, frontier.matching), *conjuncts)
    known = {c: Dom.of(c.type, null=False) for c in never_null}
    known |= {n: domain_of(n, (a, b, null and n not in never_null)) for n, (a, b, null) in frontier.matching.items()}
    rounds = rounds_of(set[str]().union(*(p.aliases for p in parts)))
    _, left = contract_nodes(conjuncts, known, tuple(nodes), rounds=rounds)
    return {n: span for n in nodes if (span := united([left[n]], n)) is not None}


def _needed(
    parts: list[Part], frontier: Frontier, node: Node, span: Span, columns: Iterable[Node]
) -> list[Part]:
    """Return a minimal set of conjuncts that implies a bound, by removing one after the other."""
    for p in list(parts):
        rest = [q for q in parts if q is not p]
        if _bounds(rest, frontier, [node], columns).get(node) == span:
            parts = rest
    return parts


def _path(source: str, target: str, parts: list[Part]) -> list[str]:
    ways = [[source]]
    seen = {source}
    while ways:
        way = ways.pop(0)
        if way[-1] == target:
            return way
        for p in parts:
            for a in sorted(p.aliases - seen if way[-1] in p.aliases else ()):
                seen.add(a)
                ways.append([*way, a])
    return [source, target]


def _columns(spec: MultiSpec, alias: str) -> list[Node]:
    names = set(spec.wide(alias).names)
    return [c for c in columns_read(p.node for p in spec.parts) if c.params[1] in names and has_ordinal(c.type)]


def _reaches(spec: MultiSpec, words: _Words) -> list[str]:
    out = []
    for source in spec.aliases:
        frontier = _frontier(spec, source)
        if not frontier.intervals:
            out.append(f"  {source}: no order and no bounds; nothing is known of its later rows by themselves")
            continue
        for n, (low, high, _) in frontier.matching.items():
            out.append(f"  {source}: {words(n)} {interval_text(low, high, n.type)}")
        for target in spec.aliases:
            if target == source:
                continue
            found = _bounds(spec.parts, frontier, _columns(spec, target), spec.certain[0])
            for n, span in found.items():
                used = _needed(list(spec.parts), frontier, n, span, spec.certain[0])
                way = _path(source, target, used)
                through = f" through {listed(way[1:-1])}" if len(way) > 2 else ""
                by = "; ".join(words(p.node) for p in used)
                out.append(f"    so {words(n)} {interval_text(*span, n.type)}{through}    (by {by})")
            if not found:
                out.append(f"    says nothing of {target}")
    return out


def _state(spec: MultiSpec, layout: Layout, words: _Words) -> list[str]:
    out = []
    for step in layout.steps:
        for p, side in enumerate(step.sides):
            if side.keeps:
                out.append(f"  {side.name}: {_stored(spec, step, side, step.sides[1 - p], words)}")
    return out


def _stored(spec: MultiSpec, step: Step, side: Side, other: Side, words: _Words) -> str:
    nodes = [c for a in side.aliases for c in _columns(spec, a)]
    bound: list[str] = []
    whole: list[str] = []
    for source in other.awaits:
        found = _bounds(spec.parts, _frontier(spec, source), nodes, spec.certain[0])
        if not found:
            whole.append(source)
        for n, span in found.items():
            bound.append(f"{words(n)} {interval_text(*span, n.type)} for later rows of {source}")
    view = "a view; " if side.is_view else ""
    if whole:
        all_of = "every row" if not bound else "each row"
        ends, its = ("ends", "its") if len(whole) == 1 else ("end", "their")
        said = f"{view}{all_of} is stored until {listed(whole)} {ends}, because nothing bounds it by {its} later rows"
        return f"{said}{_passed_by(spec, whole, nodes, words)}"
    return f"{view}stored while " + " or ".join(bound)


def _passed_by(spec: MultiSpec, sources: list[str], nodes: list[Node], words: _Words) -> str:
    """Return the columns that must not be null so that later rows of some inputs bound rows; "" if no column."""
    if not skips_nulls(p.node for p in spec.parts):
        return ""
    asked = [c for c in columns_of(*(p.node for p in spec.parts)) if c not in spec.certain[0]]
    if not all(_bounds(spec.parts, _frontier(spec, a), nodes, asked) for a in sources):
        return ""
    for c in list(asked):  # a minimal set, by removing one after the other
        rest = [x for x in asked if x is not c]
        if all(_bounds(spec.parts, _frontier(spec, a), nodes, rest) for a in sources):
            asked = rest
    names = listed([words(c) for c in asked])
    return f": a null in {names} would be passed by; declare it not nullable, or ask for IS NOT NULL"


def _grids(spec: MultiSpec, rows: Mapping[str, float] | None, workers: int) -> list[str]:
    named = attributes(spec)
    if not named:
        return [f"  {cube(spec, workers, rows, 'random')}", "  no equality joins two inputs: nothing can be hashed"]
    out = [f"  {cube(spec, workers, rows, scheme)}" for scheme in ("hash", "random")]
    best = cube(spec, workers, rows)
    produced = sum((rows or {}).get(a, 1.0) for a in spec.aliases)
    return [
        *out,
        f"  chosen: {best.scheme}, replication {best.replication:.4g}, "
        f"greatest over average load {best.load * best.workers / best.total if best.total and produced else 1:.4g}",
    ]
