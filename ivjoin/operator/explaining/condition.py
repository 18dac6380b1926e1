"""Explain the arguments of a join: pick, conjuncts, aggregates, inferred orders and expressions."""

from __future__ import annotations

from dataclasses import replace

from ivjoin.expr.nodes import Node, walk
from ivjoin.frontier.tracking import Frontier
from ivjoin.operator.explaining.picture import Box
from ivjoin.operator.explaining.wording import band_said, domain_said, label, listed, said
from ivjoin.plan.derived.certain import domain_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.planner import inferred
from ivjoin.plan.spec import SIDES

__all__ = ["aggregate_lines", "conjunct_lines", "dag_of", "inferred_lines", "pick_lines"]

_IN_PROBE = "decided in the compiled probe"


def pick_lines(plan: JoinPlan) -> list[str]:
    """Return the line that states which matches a left row takes."""
    pick = plan.spec.pick
    if pick is None:
        return []
    if plan.spec.grouped:
        end = "first" if pick.which == "least" else "last"
        tied = ", and what ties with the last of them" if pick.ties else ""
        return [f"  each left row takes of its matches the {end} {pick.k} by {listed([*map(said, pick.by)])}{tied}"]
    place, *ties = (said(n) for n in pick.by)
    near = "" if pick.near is None else f" to {said(pick.near)}"
    last = f", ties by {listed(ties)}" if ties else ""
    return [f"  each left row takes one row of those that match: the {pick.which} by {place}{near}{last}"]


def conjunct_lines(plan: JoinPlan) -> list[str]:
    sep = plan.separation
    out = []
    for k in sep.keys:
        out.append(f"  key        {said(k.left)} {'<=>' if k.null_safe else '='} {said(k.right)}")
    for t in plan.kernel_terms:
        kind = "band term " if t.exact else "band term*"
        out.append(f"  {kind} {band_said(t)}")
    for s, filters in ((0, sep.left_filter), (1, sep.right_filter)):
        out.extend(f"  filter     {said(f)}    (decided when a {SIDES[s]} row arrives)" for f in filters)
    rest = "the pairs that the compiled probe leaves open" if sep.checks else "each candidate pair"
    for r in sep.residual:
        out.append(f"  residual   {said(r)}    ({_IN_PROBE if r in sep.decided else f'evaluated on {rest}'})")
    out.extend(f"  constant   {said(c)}" for c in sep.constant)
    if any(not t.exact for t in plan.kernel_terms):
        out.append("  * a relaxation: finds candidates and prunes; the residual decides")
    return out or ["  (none: every pair matches)"]


def aggregate_lines(plan: JoinPlan) -> list[str]:
    if not plan.spec.aggregates:
        return []
    bands = {t.right for t in plan.kernel_terms}
    if plan.separation.residual:
        how = "the pairs of each left row are evaluated in pieces and aggregated"
    elif len(bands) > 1:
        lead = said(plan.kernel_terms[0].right)
        how = f"over ranges of right rows sorted by {lead}; pairs decide other bands that do not rise with it"
    else:
        how = f"over ranges of right rows sorted by {listed([*map(said, bands)] or ['their key'])}; no pairs are made"
    called = {a: f"{a.function}({'*' if a.node is None else said(a.node)})" for a in plan.spec.aggregates}
    made = [text if a.name.startswith(f"{a.function}(") else f"{a.name} = {text}" for a, text in called.items()]
    waits = "  a left row is emitted once no later right row can match it; right rows are stored until then"
    return ["", "aggregates", *(f"  {m}" for m in made), f"  {how}", waits]


def inferred_lines(plan: JoinPlan) -> list[str]:
    """Return lines about axes and keys whose order follows from the declared orders."""
    out = []
    for s, side in enumerate(plan.sides):
        for node in dict.fromkeys([*side.axes, *side.keys]):
            why = inferred(side, node)
            if why is not None:
                out.append(f"  {SIDES[s]}: {said(node)} {why}    (inferred)")
    return out


def dag_of(plan: JoinPlan, frontiers: tuple[Frontier, Frontier]) -> tuple[list[Box], list[str]]:
    if plan.condition is None:
        return [], ["  (empty)"]
    from ivjoin.propagation import forward_all

    nodes = list(walk(plan.condition))
    domains = forward_all(nodes, {n: domain_of(n, f.intervals[n]) for f in frontiers for n in f.intervals})
    names: dict[Node, str] = {}
    sides: dict[Node, str] = {}
    boxes, out = [], []
    for i, node in enumerate(nodes):
        names[node] = said(node) if node.op in ("column", "literal") else f"n{i}"
        read = {sides[a] for a in node.args} - {"none"}
        sides[node] = node.params[0] if node.op == "column" else read.pop() if len(read) == 1 else (
            "both" if read else "none"
        )
        values = "" if node.op == "literal" else domain_said(domains[node])
        boxes.append(Box(f"b{i}", label(node), values, (), sides[node]))
        if node.op == "literal":
            continue
        head = names[node]
        if node.op != "column":
            uses = [names[a] for a in node.args]
            sign = not label(node).isidentifier() or label(node) in ("AND", "OR")
            infix = sign and len(uses) > 1
            head += " = " + (f" {label(node)} ".join(uses) if infix else " ".join([label(node), *uses]))
        out.append(f"  {head:<44} {values}")
    at = {node: boxes[i].name for i, node in enumerate(nodes)}
    return [replace(b, args=tuple(at[a] for a in n.args)) for b, n in zip(boxes, nodes, strict=True)], out
