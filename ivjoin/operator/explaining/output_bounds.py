"""Bound the later output rows of an operator by its stored rows, its frontiers and the condition.

A later output row is a pair with at least one future row, or an unmatched row. The values of a side lie in the hull of
its stored rows and its possible future rows. For pairs, the condition narrows both hulls by propagation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.conjuncts import conjuncts_of
from ivjoin.expr.nodes import Node, columns_of
from ivjoin.expr.ordinal import NAN_ORDINAL, has_ordinal, ordinal_of, ordinals, value_of
from ivjoin.frontier.tracking import Frontier
from ivjoin.operator.engine import Engine
from ivjoin.outer.values import has_value
from ivjoin.plan.derived.certain import domain_of
from ivjoin.plan.spec import SIDES

__all__ = ["output_bounds", "stored_span"]


def output_bounds(engine: Engine, taking: bool) -> dict[str, tuple[Any, Any]]:
    """Return closed bounds of each output column over all later rows: {column: (inf, sup)}, with None for no bound.

    ``taking`` states that the output of a call is still being read. The result is empty if no row can follow. Bounds do
    not cover NULL. If NaN can follow, there is no upper bound, because NaN is above all numbers.
    """
    from ivjoin.propagation import Bounds, Dom, Outcome, contract_nodes

    plan, how = engine.plan, engine.how
    for frontier in engine.frontiers:
        frontier.refresh()
    wanted: list[dict[int, Node]] = [{}, {}]
    for f in plan.fields:
        for s, index in ((0, f.left), (1, f.right)):
            if index is not None:
                wanted[s][index] = engine.column(s, index)
    hulls: list[dict[Node, Dom]] = []
    comes = []  # for each side: whether a later output row can contain a row of it
    for s in (0, 1):
        known = [c for c in wanted[s].values() if has_ordinal(c.type)]
        known += [n for n in engine.frontiers[s].intervals if n not in known]
        if plan.condition is not None:
            known += [c for c in columns_of(plan.condition) if c.params[0] == SIDES[s] and c not in known]
        hulls.append({n: _hull(engine, taking, s, n) for n in known if has_ordinal(n.type)})
        comes.append(not engine.ended[s] or any(n for _, n in engine.rows_at_hand(s, taking)))
    parts: list[dict[Node, Dom]] = []
    # A pair contains a future row, or belongs to the output that is still being read.
    fresh = not engine.ended[0] or not engine.ended[1] or taking
    if fresh and comes[0] and comes[1] and not plan.never and how.anti is None:
        both = hulls[0] | hulls[1]
        columns = [n for side in wanted for n in side.values() if n in both]
        outcome, left = Outcome.UNCHANGED, {n: both[n] for n in columns}
        if plan.condition is not None:
            outcome, left = contract_nodes(conjuncts_of(plan.condition), both, columns)
        if outcome is not Outcome.INFEASIBLE:
            parts.append(left)
    for s in (0, 1):
        if how.owes(s) and comes[s]:
            parts.append({n: hulls[s][n] for n in wanted[s].values() if n in hulls[s]})
    if not parts:
        return {}
    out: dict[str, tuple[Any, Any]] = {}
    for name, f in zip(plan.schema.names, plan.fields, strict=True):
        nodes = [wanted[s][i] for s, i in ((0, f.left), (1, f.right)) if i is not None]
        found = [part[n] for part in parts for n in nodes if n in part]
        bounded = all(has_ordinal(n.type) for n in nodes) and len({n.type for n in nodes}) == 1
        out[name] = _shown(found, Bounds, Dom) if bounded and found else (None, None)
    return out


def _shown(found: list[Any], bounds: Any, dom: Any) -> tuple[Any, Any]:
    """Return the hull of domains of one type as Python values."""
    there = [d for d in found if not d.is_empty]
    if not there:
        return (None, None)
    t = there[0].type
    b = bounds(dom.of(t, min(d.lo for d in there), max(d.hi for d in there)))
    return b.inf, None if any(d.may_nan for d in found) else b.sup


def _hull(engine: Engine, taking: bool, s: int, node: Node) -> Any:
    """Return a domain with every value of an expression in stored and future rows of side s."""
    from ivjoin.propagation import Dom

    t, layout = node.type, engine.layouts[s]
    spans = []
    frontier = engine.frontiers[s]
    if not engine.ended[s]:
        if engine.plan.spec.on_late == "join":
            # A late row may have any value.
            frontier = Frontier([], {}, frontier.never_null)
        if node not in frontier.intervals:
            return Dom.top(t)
        future = domain_of(node, frontier.intervals[node])
        if not future.is_empty:
            high = NAN_ORDINAL if future.may_nan else ordinal_of(future.hi, t)
            spans.append((ordinal_of(future.lo, t), high))
        elif future.may_nan:
            spans.append((NAN_ORDINAL, NAN_ORDINAL))
    if any(layout.places[layout.index[c.params[1]]] < 0 for c in columns_of(node)):  # the column is not stored
        if any(n for _, n in engine.rows_at_hand(s, taking)):
            return Dom.top(t)
        here = None
    else:
        here = stored_span(engine, s, node, taking)
    if here is not None:
        spans.append(here)
    if not spans:
        return Dom.empty(t, null=True)
    low, high = min(a for a, _ in spans), max(b for _, b in spans)
    nan = t.kind == "float" and high >= NAN_ORDINAL
    if nan:
        high = ordinal_of(float("inf"), t)
    if low > high:
        return Dom.empty(t, null=True, nan=nan)
    return Dom.of(t, value_of(low, t), value_of(high, t), nan=nan)


def outside(engine: Engine, s: int, spans: Mapping[Node, tuple[int, int]]) -> np.ndarray:
    """Return which live rows of side s have a value outside closed intervals of ordinals : bool[n]."""
    names = engine.layouts[s].index
    out = [np.zeros(0, dtype=bool)]
    for column, n in engine.rows_at_hand(s, False):
        gone = np.zeros(n, dtype=bool)
        vectors = evaluate(list(spans), lambda _, name, column=column: column(names[name]), n)  # type: ignore[misc]
        for (node, (low, high)), v in zip(spans.items(), vectors, strict=True):
            image, present = ordinals(v.values, node.type), has_value(v)
            beyond = (image < low) | (image > high)
            gone |= beyond if present is None else beyond & present
        out.append(gone)
    return np.concatenate(out)


def stored_span(engine: Engine, s: int, node: Node, taking: bool = False) -> tuple[int, int] | None:
    """Return the least and greatest ordinal of an expression in the stored rows of side s, or None if all are NULL."""
    least, most, names = [], [], engine.layouts[s].index
    for column, n in engine.rows_at_hand(s, taking):
        if not n:
            continue
        v = evaluate([node], lambda _, name, column=column: column(names[name]), n)[0]  # type: ignore[misc]
        image = ordinals(v.values, node.type)
        present = has_value(v)
        image = image if present is None else image[present]
        if len(image):
            least.append(int(np.min(image)))
            most.append(int(np.max(image)))
    return (min(least), max(most)) if least else None
