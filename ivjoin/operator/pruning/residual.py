"""Bound the axes of a side by propagating TRUE through the residual."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from ivjoin.expr.nodes import Node, columns_of, walk
from ivjoin.expr.ordinal import NAN_ORDINAL
from ivjoin.frontier.order import ordinal_range
from ivjoin.frontier.tracking import Frontier
from ivjoin.operator.pruning.implied import Interval, both
from ivjoin.plan.derived.certain import domain_of, ordinals_of
from ivjoin.plan.join_plan import JoinPlan, of_plan

__all__ = ["Residual"]


@of_plan
def _inside(plan: JoinPlan) -> frozenset[Node]:
    return frozenset(walk(*plan.separation.residual))


class Residual:
    """The residual of a plan. ``inside`` are the expressions that it reads."""

    def __init__(self, plan: JoinPlan) -> None:
        self._plan = plan
        self.inside = _inside(plan)
        self._rounds = any(n.type.kind == "float" for n in self.inside)
        self._ends: dict[tuple[int, Node, bool], int] = {}  # the last end found for (side, axis, whether it falls)

    def axes(self, s: int) -> list[tuple[int, Node]]:
        """Return the axes of side s that are part of the residual, with their places."""
        axes = enumerate(self._plan.sides[s].axes)
        return [(a, n) for a, n in axes if n in self.inside and n.type.kind != "bool"]

    def propagate(
        self, s: int, want: list[Node], never_null: Set[Node], theirs: Mapping[Node, Interval],
        always: Mapping[Node, Interval],
    ) -> dict[Node, tuple[int, int]] | None:
        """Return bounds of axes of side s, or None if no pair can match.

        - ``theirs`` are intervals of the other side's later rows.
        - ``never_null`` are its columns without NULL.
        - ``always`` are intervals of every row of side s.
        """
        from ivjoin.propagation import Dom, Outcome, contract_nodes, propagator

        # Bands already have exact bounds, so only the residual is propagated.
        residual, side = self._plan.separation.residual, self._plan.sides[s]
        present = never_null | side.present
        known = {c: Dom.of(c.type, null=False) for c in columns_of(*residual) if c in present}
        known |= {n: domain_of(n, span) for n, span in theirs.items()}
        # Under on_late="join", a stored row may be outside the declared bounds of its side and still match.
        own = Frontier([], side.bounds if self._plan.spec.on_late != "join" else {}, side.present)
        known |= {n: domain_of(n, span) for n, span in both(own.intervals, always).items()}
        also = tuple(dict.fromkeys(n for each in self._plan.sides for n in each.axes if n in self.inside))
        outcome, doms = contract_nodes(residual, known, want, also)
        if outcome is Outcome.INFEASIBLE:
            return None
        p = propagator(residual, also)
        return {n: self._checked(s, p, known, n, *ordinals_of(d, n)) for n, d in doms.items()}

    def _checked(self, s: int, p: Any, known: dict[Node, Any], n: Node, low: int, high: int) -> tuple[int, int]:
        """Return the ends of an axis.

        Ends from an inverse are confirmed; others follow from forward evaluation alone.
        """
        from ivjoin.propagation import confirmed, dead_until, refutes

        if low > high:
            return low, high
        ends = [low, high]
        for falling in (False, True):
            if falling and n.type.kind == "float" and high >= NAN_ORDINAL:
                # NaN is above every number, and forward evaluation was not checked for it.
                continue
            proposed, out = ends[falling], -1 if falling else 1
            key = (s, n, falling)
            # Start from the end found for the last frontier, if it is beyond the end that the inverse finds now.
            near = max(out * proposed, out * self._ends.get(key, proposed)) * out
            dead = dead_until(p, known, n, falling, near) if refutes(p, known, n, proposed, falling) else None
            if dead is not None:
                self._ends[key] = dead
                ends[falling] = dead + out
            elif self._rounds:
                ends[falling] = confirmed(p, known, n, proposed, falling)
        return (1, 0) if ends[0] > ends[1] or ends[1] < ordinal_range(n.type)[0] else (ends[0], ends[1])
