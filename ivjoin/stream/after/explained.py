"""Explain a plan with its inputs: how they arrive, and how they are sorted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ivjoin.expr.literals import literal
from ivjoin.expr.ordinal import value_of
from ivjoin.operator.explaining.explain import explain_plan
from ivjoin.operator.explaining.picture import Explanation
from ivjoin.operator.explaining.wording import listed, said
from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.stream.sort.picked import picked_arrival
from ivjoin.stream.sort.sorting import Prospect, prospect
from ivjoin.stream.sources.compared import pairs_text
from ivjoin.stream.sources.inputs import Source

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression
    from ivjoin.expr.literals import Value

__all__ = ["explain_inputs"]


def explain_inputs(
    plan: JoinPlan, sources: tuple[Source | None, Source | None], sort: bool,
    frontier: Mapping[str, Mapping[Expression, Value]] | None = None,
) -> Explanation:
    """Explain a plan with its inputs. None represents an input with only a schema."""
    if plan.spec.picks_one:
        return explain_plan(plan, frontier, picked_arrival(plan, *sources))
    if not sort:
        return explain_plan(plan, frontier, ["sort='never': inputs are read in the order in which they come"])
    found = prospect(plan, sources)
    tables = sources[0] is not None and sources[0].ends, sources[1] is not None and sources[1].ends
    if found.orders is None:
        return explain_plan(plan, frontier, _arrival(plan, sources, found), tables=tables)
    arranged = plan_of(plan.spec.with_orders(*found.orders, plan.spec.on_late))
    seen = _frontier(found) if frontier is None else None
    return explain_plan(arranged, frontier or seen, _arrival(plan, sources, found), bool(seen), tables)


def _frontier(found: Prospect) -> dict[str, dict[Any, Any]]:
    """Return the middle of the sampled rows, as values of the expressions that will order them."""
    out: dict[str, dict[Any, Any]] = {}
    for s, ordinal in enumerate(found.middle):
        if ordinal is not None and found.axis is not None:
            node = found.axis.nodes[s]
            out[SIDES[s]] = {node: literal(value_of(ordinal, node.type), node.type)}
    return out


def _arrival(plan: JoinPlan, sources: tuple[Source | None, Source | None], found: Prospect) -> list[str]:
    unordered = [s for s in (0, 1) if not plan.sides[s].orders]
    if not unordered:
        return []
    who = "neither side is ordered" if len(unordered) == 2 else f"the {SIDES[unordered[0]]} side is not ordered"
    plain = [a for a in found.choices if all(n.op == "column" for n in a.nodes)]
    by = [listed(dict.fromkeys(said(a.nodes[s]) for s in unordered)) for a in plain or found.choices]
    names = listed(list(dict.fromkeys(by))[:4], "or")
    both = "both" if len(unordered) == 2 else "it"
    left, right = sources
    rows = None if left is None else left.rows, None if right is None else right.rows
    pairs = pairs_text(rows, found.compared if len(unordered) == 2 else 0.0)
    if all(sources[s] is None for s in unordered):
        if not by:
            return [f"{who}: {pairs}"] if pairs else []
        return [
            f"{who}: a table or files would be sorted by {names}; every row of a stream stays in state until "
            f"the other input ends"
        ]
    if found.small:
        return [f"{who}, and there are few rows, so they are not sorted"]
    if found.orders is None:
        streams = [SIDES[s] for s in unordered if (source := sources[s]) is not None and not source.ends]
        if streams:
            return [f"{who}: every row of the {listed(streams)} stream stays in state until the other input ends"]
        found_none = f"{who}, and sorting would not reduce the state: the shorter side is stored as a whole"
        return [f"{found_none}; {pairs}" if pairs else found_none]
    if len(by) > 1:
        names += ", which a sample decides"
    size = "" if found.size is None else f", about {max(found.size, 0.1):,.1f} MB"
    return [f"{who}: {both} will be sorted by {names}{size}"]
