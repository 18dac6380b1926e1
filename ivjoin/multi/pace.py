"""Which input to read next: the one that holds the others back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.frontier.order import ordinal_range
from ivjoin.multi.steps import Step, wide
from ivjoin.plan.cache import plan_of

if TYPE_CHECKING:
    from ivjoin.multi.operator import MultiJoin

__all__ = ["behind", "offsets"]


def offsets(steps: Sequence[Step], roots: Iterable[Node]) -> list[dict[Node, int]]:
    """Expressions over a wide row that bands tie together, and how far each is ahead of the first of its group.

    Ordinals, in the middle of the bands; groups with the most expressions first.
    """
    links: dict[Node, list[tuple[Node, int]]] = {}
    for step in steps:
        for t in plan_of(step.spec).terms:
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


def behind(op: MultiJoin, rows: Mapping[str, int]) -> str:
    """The input that has come least far along what bands tie together; else the one of which least was read."""
    least = min(rows, key=lambda a: rows[a])
    progress: dict[str, tuple[int, int]] = {}
    for group in op.groups:
        for a in rows:
            if a in progress:
                continue
            frontier = op.inputs[a].frontier
            for t in frontier.trackers:
                if t.node not in group or t.node not in frontier.intervals:
                    continue
                low, high, _ = frontier.intervals[t.node]
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
