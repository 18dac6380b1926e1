"""Find where rows of a join must meet: keys to spread by, axes to cut along, and rows that cannot match.

A row of one side (the *divided* one) has a place on an axis. A row of the other side reaches a closed range of it. Both
are ordinals. The range may be too wide, but contains every pair for which the condition is TRUE.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ivjoin.conditions.strictness import may_err, strict
from ivjoin.expr.conjuncts import conjuncts_of
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.expr.terms import BandTerm
from ivjoin.plan.cutting import Offset, met_by
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES

__all__ = ["Axis", "Reach", "reach_of"]


@dataclass(frozen=True)
class Axis:
    """An axis along which a join can be cut.

    A row of the other side reaches from the greatest ``node + offset`` of low to the least one of high.
    """

    divided: int  # the side (0 left, 1 right) whose rows have one place each
    node: Node  # the place of its rows
    low: tuple[Offset, ...]
    high: tuple[Offset, ...]
    home: Node | None = None  # if not None, ``node + shift`` is the place of rows of the other side
    shift: int = 0
    back: tuple[int, int] = (0, 0)  # a divided row matches homes from its place + back[0] to + back[1]

    @property
    def width(self) -> int | None:
        """Return the number of ordinals that each row reaches, if it is equal for all rows."""
        spans = [h - g for n, g in self.low for m, h in self.high if n is m]
        return min(spans) if spans else None

    def nodes(self, side: int) -> list[Node]:
        if side == self.divided:
            return [self.node]
        own = [n for n, _ in (*self.low, *self.high)]
        return list(dict.fromkeys([*own, *([self.home] if self.home is not None else [])]))

    def __str__(self) -> str:
        return str(self.node)


@dataclass(frozen=True)
class Reach:
    """The parts of a join that determine how rows are spread."""

    keys: tuple[list[Node], list[Node]]  # of each side, whose hash spreads the rows, in the same order
    null_safe: list[bool]
    axes: list[Axis]  # along which rows can be cut
    bands: list[Axis]  # all axes of the condition, also with endless ranges
    surely: frozenset[Node]  # if one raises an error, the condition is not TRUE for any other row
    lone: tuple[list[Node], list[Node]]  # if one is null, the row cannot match
    notes: list[str]  # the parts that cannot be used, with reasons

    def why_it_may_raise(self, axis: Axis) -> str | None:
        """Return which key or place may raise an error, so that a row must go to all cells; None if none may."""
        for node in (*self.keys[0], *self.keys[1], *axis.nodes(0), *axis.nodes(1)):
            if may_err(node):
                return f"{node} may raise an error, and its row must then go to all cells; put it into a column"
        return None


def reach_of(plan: JoinPlan) -> Reach:
    surely = strict(conjuncts_of(plan.condition))
    keys: tuple[list[Node], list[Node]] = ([], [])
    safe, notes = [], []
    for key in plan.separation.keys:
        if any(may_err(n) and n not in surely for n in (key.left, key.right)):
            notes.append(
                f"{key.left} = {key.right} may raise an error where the condition does not, so it does not spread rows"
            )
            continue
        keys[0].append(key.left)
        keys[1].append(key.right)
        safe.append(key.null_safe)
    used = set(zip(*keys, strict=True)) if keys[0] else set()
    terms = [t for t in plan.terms if not (t.lo == t.hi == 0 and (t.left, t.right) in used)]
    lone = tuple([n for n in dict.fromkeys(_own(t, s) for t in terms) if n.op == "column"] for s in (0, 1))
    bands = [a for s in (0, 1) for a in _axes(s, terms, surely)]
    axes = []
    for a in bands:
        if not a.low or not a.high:
            notes.append(f"{a}: the range that a row of the {SIDES[1 - a.divided]} side can match has only one end")
        elif not _is_sure(a.node, surely):
            notes.append(f"{a} may raise an error where the condition does not, so a row may have no place on it")
        else:
            axes.append(a)
    return Reach(keys, safe, axes, bands, surely, (lone[0], lone[1]), notes)


def _own(t: BandTerm, side: int) -> Node:
    return t.right if side else t.left


def _axes(divided: int, terms: Sequence[BandTerm], surely: frozenset[Node]) -> Iterator[Axis]:
    for node in dict.fromkeys(_own(t, divided) for t in terms):
        low, high = met_by(terms, divided, node)
        homes: list[tuple[int, Node, int, tuple[int, int]]] = []
        for t in terms:
            other = _own(t, 1 - divided)
            if _own(t, divided) is node and t.lo is not None and t.hi is not None and _is_sure(other, surely):
                down, up = (t.lo, t.hi) if divided == 0 else (-t.hi, -t.lo)
                shift = (down + up) // 2
                homes.append((up - down, other, shift, (shift - up, shift - down)))
        if homes:
            _, home, shift, back = min(homes, key=lambda h: h[0])
            yield Axis(divided, node, low, high, home, shift, back)
        else:
            yield Axis(divided, node, low, high)


def _is_sure(n: Node, surely: frozenset[Node]) -> bool:
    return has_ordinal(n.type) and (n in surely or not may_err(n))
