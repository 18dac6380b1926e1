"""Decide along which columns inputs are sorted, and which input to read next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.frontier.order import ordinal_range
from ivjoin.multi.inputs import Input
from ivjoin.multi.shape.steps import Step, wide
from ivjoin.multi.shape.trees import Seen
from ivjoin.multi.spec import MultiSpec
from ivjoin.plan.cache import plan_of

__all__ = ["behind", "offsets", "sorted_along"]


def offsets(steps: Sequence[Step], roots: Iterable[Node], keys: bool = True) -> list[dict[Node, int]]:
    """Return groups of expressions over a wide row that bands connect, with the offset of each in its group.

    Offsets are ordinals in the middle of the bands. Groups with the most expressions come first. Keys are bands without
    width; without ``keys`` they are left out.
    """
    links: dict[Node, list[tuple[Node, int]]] = {}
    for step in steps:
        plan = plan_of(step.spec)
        for t in plan.terms if keys else plan.kernel_terms:
            if t.left.type != t.right.type or not has_ordinal(t.left.type):
                continue
            ends = [x for x in (t.lo, t.hi) if x is not None]
            middle = sum(ends) // len(ends) if ends and t.left.type.kind != "float" else 0
            a, b = wide(t.left), wide(t.right)
            links.setdefault(a, []).append((b, -middle))
            links.setdefault(b, []).append((a, middle))
    out: list[dict[Node, int]] = []
    for root in (*roots, *links):
        if any(root in g for g in out):
            continue
        group, stack = {root: 0}, [root]
        while stack:
            node = stack.pop()
            for other, ahead in links.get(node, ()):
                if other not in group:
                    group[other] = group[node] + ahead
                    stack.append(other)
        out.append(group)
    return sorted(out, key=len, reverse=True)


def sorted_along(
    spec: MultiSpec, steps: Sequence[Step], free: Collection[str], seen: Mapping[str, Seen] | None = None
) -> dict[str, tuple[Node, Node]]:
    """Return the sort column of each input, and the expression of it that bands compare, over wide names.

    All inputs then follow connected bands. The expression rises with the column and has the same type in all inputs.
    Bands are preferred to keys that connect as many inputs, because all rows of a hot key would be stored. Keys are
    selected only if the sample ``seen`` shows that bands store many rows and the most frequent key has few. The result
    is empty if no two inputs are connected.
    """
    declared = {a: {o.node for o in spec.inputs[a].orders[0]} for a in spec.aliases}
    owner = {f.name: a for a in spec.aliases for f in spec.wide(a)}
    best: dict[str, tuple[Node, Node]] = {}
    most, stored = 1, None
    roots = [n for a in spec.aliases for n in declared[a]]
    widths = _widths(steps)
    for group in (*offsets(steps, roots, keys=False), *offsets(steps, roots)):
        found: dict[str, tuple[Node, Node]] = {}
        covered = set()
        for node in group:
            alias = next((a for a in spec.aliases if node in declared[a]), None)
            if alias is not None:
                covered.add(alias)
            column = _column(node)
            if column is not None and owner[column.params[1]] in free:
                found.setdefault(owner[column.params[1]], (column, node))
        both = len(covered | found.keys())
        if not found or both < most or both < 2:
            continue
        own = None if covered else _stored(found, widths, seen or {})
        fewer = stored is not None and own is not None and stored > _MANY and own * _FEWER < stored
        if both > most or fewer:
            best, most, stored = found, both, own
    return best


# Below this number, rows stored along bands do not matter; and how many times fewer rows a key must store.
# Measured with 10,000 even keys: sorting by keys is as fast if bands store 60,000 of 300,000 rows, or 400,000 of 10^6.
_MANY = 1 << 18
_FEWER = 8


def _widths(steps: Sequence[Step]) -> dict[Node, float]:
    """Return the width of the widest band of an expression over a wide row, in ordinals."""
    out: dict[Node, float] = {}
    for step in steps:
        for t in plan_of(step.spec).kernel_terms:
            width = inf if t.lo is None or t.hi is None else float(max(t.hi - t.lo, 0))
            for node in (wide(t.left), wide(t.right)):
                out[node] = max(width, out.get(node, 0.0))
    return out


def _stored(
    by: Mapping[str, tuple[Node, Node]], widths: Mapping[Node, float], seen: Mapping[str, Seen]
) -> float | None:
    """Return the rows that are stored at once for this sorting; None if the inputs are not sampled."""
    rows = 0.0
    for alias, (_, node) in by.items():
        known = seen.get(alias)
        if known is None or node.type.kind == "float":
            return None
        if node not in widths:
            share = known.top.get(node)
        else:
            span = known.span.get(node)
            share = None if span is None else min(1.0, widths[node] / (span + 1))
        if share is None:
            return None
        rows += share * known.rows
    return rows


_RISING = frozenset({"int", "decimal", "float", "date", "timestamp"})


def _column(node: Node) -> Node | None:
    while node.op == ops.CAST and {node.type.kind, node.args[0].type.kind} <= _RISING:
        node = node.args[0]
    return node if node.op == "column" and has_ordinal(node.type) else None


def behind(groups: Sequence[Mapping[Node, int]], inputs: Mapping[str, Input], rows: Mapping[str, int]) -> str:
    """Return the input that is furthest behind along connected bands, or else the one with the fewest rows read."""
    least = min(rows, key=lambda a: rows[a])
    progress: dict[str, tuple[int, int]] = {}
    for group in groups:
        for a in rows:
            if a in progress:
                continue
            frontier = inputs[a].frontier
            for t in frontier.trackers:
                if t.node not in group or t.node not in frontier.matching:
                    continue
                low, high, _ = frontier.matching[t.node]
                start, end = ordinal_range(t.node.type)
                at = end - high if t.descending else low - start
                progress[a] = (at - (-1 if t.descending else 1) * group[t.node] if at else -(2**70), rows[a])
                break
        if len(progress) > 1 or (progress and len(rows) == 1):
            break
        progress.clear()
    if len(progress) < 2:
        return least
    return min(progress, key=lambda a: progress[a])
