"""Derive an axis that is the sum of another axis and a number, instead of storing it.

Over doubles, ``r.t - w`` and ``r.t + w`` are different axes because of rounding. But the rounded sum x + w never falls
while x rises. A bound of x + w is therefore a bound of x: the least x for which x + w reaches it. Rows store only x.
"""

from __future__ import annotations

import math

import numpy as np

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node, walk
from ivjoin.plan.join_plan import JoinPlan, SidePlan, of_plan
from ivjoin.separation.separate import Separation
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.shj.store.rows.bands import BandTable

__all__ = ["Line", "leave_sums", "probes", "sum_of"]

Line = tuple[int, int, float]  # an axis of the probe side, an integer added to its ordinal, and a double


def leave_sums(side: SidePlan, sep: Separation) -> None:
    """Move axes that need not be stored to the end of the list, and add their base axes."""
    asked = {n for c in sep.checks for n in (c.left, c.right)}
    inside = frozenset(walk(*sep.residual))
    made: dict[Node, dict[Node, float]] = {}
    for node in side.axes:
        found = None if node in asked else sum_of(node)
        # A base that only propagation would use does not become an axis.
        if found is not None and (found[0] in side.axes or found[0] not in inside):
            made.setdefault(found[0], {})[node] = found[1]
    base_of: dict[Node, Node] = {}
    for base, sums in made.items():
        if len(sums) > 1 or base in side.axes or base.op == "column":
            base_of |= dict.fromkeys((n for n in sums if n not in made), base)
    if not base_of:
        return
    band, rest = side.axes[: side.band_axes], side.axes[side.band_axes :]
    band = list(dict.fromkeys(base_of.get(n, n) for n in band))
    side.band_axes = len(band)
    stored = list(dict.fromkeys([*band, *(base_of.get(n, n) for n in rest)]))
    side.sums = [(stored.index(base), made[base][n]) for n, base in base_of.items()]
    side.axes[:] = [*stored, *base_of]


def sum_of(node: Node) -> tuple[Node, float] | None:
    """Return (base, number) if a node adds a finite number to a double."""
    if not (node.op in (ops.ADD, ops.SUB) and node.type.kind == "float" and node.type.bits == 64):
        return None
    a, b = node.args
    if a.op == "literal" and node.op == ops.ADD:
        a, b = b, a
    if a.op == "literal" or b.op != "literal" or not (a.type == b.type == node.type):
        return None
    number = b.params[0]
    if not isinstance(number, float) or not math.isfinite(number):
        return None
    return a, -number if node.op == ops.SUB else number


@of_plan
def probes(plan: JoinPlan, p: int) -> tuple[BandTable, list[Line]]:
    """Return the bands for probe rows of side p over the stored axes of the other side, and the lines that they need.

    The values of the lines follow the values of the axes of side p. A line's target is the ordinal of the axis plus the
    integer. Its value is the ordinal of the least double x for which ``x + number`` reaches the target.
    """
    table, side = plan.tables[p], plan.sides[1 - p]
    if not side.sums:
        return table, []
    first = len(plan.sides[p].axes)
    rows: list[tuple[int, int, int, int]] = []
    lines: list[Line] = []
    for mine, theirs, low, high in table.terms.tolist():
        if theirs < side.n_stored_axes:
            rows.append((mine, theirs, low, high))
            continue
        axis, number = side.sums[theirs - side.n_stored_axes]
        if low != I64_MIN:
            rows.append((first + len(lines), axis, 0, I64_MAX))
            lines.append((mine, low, number))
        if high != I64_MAX:
            rows.append((first + len(lines), axis, I64_MIN, -1))
            lines.append((mine, high + 1, number))
    rows.sort(key=lambda r: r[1] != 0)
    terms = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
    terms.flags.writeable = False
    return BandTable(terms, sum(r[1] == 0 for r in rows)), lines
