"""Bound the values of later rows of each side of a step, from the frontiers of all inputs.

A future result contains a future row of some input x. For each x, the whole condition contracts a box in which x is in
its frontier, and every other input is stored or future. The frontier of one input therefore bounds another input
through a third one. A stored row is evicted if it matches only rows outside these bounds. Results of stored rows alone
have already been emitted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ivjoin.expr.nodes import Node, columns_of
from ivjoin.expr.ordinal import NAN_ORDINAL, has_ordinal, ordinal_of
from ivjoin.frontier.order import ordinal_range
from ivjoin.frontier.tracking import Frontier
from ivjoin.multi.spec import MultiSpec
from ivjoin.plan.derived.certain import domain_of, ordinals_of, there

__all__ = ["Box", "Reach", "Span", "hull", "rounds_of", "united"]

Span: TypeAlias = tuple[int, int]
Box: TypeAlias = dict[Node, Any]  # domains of expressions over a wide row


class Reach:
    """The condition of a join of many inputs, with all expressions over a wide row whose bounds are needed."""

    def __init__(self, spec: MultiSpec, want: Iterable[Node]) -> None:
        self._spec = spec
        self._conjuncts = tuple(p.node for p in spec.parts)
        self.want = tuple(dict.fromkeys(n for n in want if has_ordinal(n.type)))
        self._rounds = any(n.type.kind == "float" for n in self.want)
        self._present = {c: c.type for c in spec.certain[0]}
        self._asserted: dict[tuple[Node, ...], tuple[Node, ...]] = {}

    def future(self, alias: str, frontiers: Mapping[str, Frontier], hulls: Mapping[str, Box]) -> Box | None:
        """Return the values of wanted expressions in results with a later row of an input; None for no result.

        ``hulls`` are the domains of the other inputs' rows, stored and future. A missing input is unbounded. The alias
        "" means a result of stored rows alone.
        """
        from ivjoin.propagation import Dom, Outcome, confirmed, contract_nodes, propagator

        known: Box = {c: Dom.of(t, null=False) for c, t in self._present.items()}
        for other, box in hulls.items():
            if other != alias:
                known |= box
        own = frontiers[alias].matching if alias else {}
        known |= {n: domain_of(n, v) for n, v in own.items()}
        if not self._conjuncts:
            return known
        conjuncts = self._with(tuple(own))
        outcome, left = contract_nodes(conjuncts, known, self.want, rounds=rounds_of(self._spec.aliases))
        if outcome is Outcome.INFEASIBLE:
            return None
        if self._rounds:
            p = propagator(conjuncts, self.want)
            for n, dom in left.items():
                if n.type.kind == "float" and not dom.is_empty and n not in own:
                    low, high = ordinals_of(dom, n)
                    low = confirmed(p, known, n, low)
                    high = high if dom.may_nan else confirmed(p, known, n, high, True)
                    left[n] = hull(n, (low, high))
        return left

    def _with(self, known: tuple[Node, ...]) -> tuple[Node, ...]:
        """Return the condition, and conjuncts that make expressions with known domains part of the graph."""
        found = self._asserted.get(known)
        if found is None:
            found = self._asserted[known] = (*there((), self._present.keys(), {}, known), *self._conjuncts)
        return found


def rounds_of(aliases: Collection[str]) -> int:
    """Return the number of rounds in which a bound can pass from any input to any other."""
    return len(aliases) + 1


def hull(node: Node, span: Span | None, null: bool = True) -> Any:
    """Return the domain of a closed interval of ordinals; None means the empty domain."""
    return domain_of(node, (*((1, 0) if span is None else span), null))


def united(doms: Sequence[Any], node: Node) -> Span | None:
    """Return the interval that encloses some domains; None if they are all empty, or unbounded."""
    spans = [s for s in (ordinals_of(d, node) for d in doms) if s[0] <= s[1]]
    if not spans:
        return None
    low, high = min(a for a, _ in spans), max(b for _, b in spans)
    least, most = ordinal_range(node.type)
    if node.type.is_discrete:
        near = (most - least) >> 12  # a limit of the type that moved by a band's width is not a bound
        first = 0 if node.type.limits[0] == 0 else near  # unsigned types begin at 0
        low, high = (least if low - least < first else low), (most if most - high < near else high)
    if node.type.kind == "float" and high >= ordinal_of(float("inf"), node.type):
        most = high = NAN_ORDINAL
    return None if low <= least and high >= most else (low, high)


def columns_read(parts: Iterable[Node]) -> list[Node]:
    return [c for c in columns_of(*parts) if has_ordinal(c.type)]
