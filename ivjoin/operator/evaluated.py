"""Evaluate the keys, axes, filters and guards of a side's rows, and find the rows that can match."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import Vector, evaluate, first_error
from ivjoin.errors import EvaluationError
from ivjoin.expr.nodes import Node, is_met
from ivjoin.expr.ordinal import ordinals
from ivjoin.operator.intake import outside
from ivjoin.outer.values import errors_of, has_value
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.picking.pick import picking_of
from ivjoin.plan.spec import SIDES

__all__ = ["Evaluated", "evaluated", "of_stored"]


@dataclass(slots=True)
class Evaluated:
    """The values of n rows."""

    values: dict[Node, Vector]
    usable: np.ndarray  # bool[n]: whether a row can match at all
    wild: bool  # whether some pairs need the whole condition
    key_erred: bool  # whether a computed key has an error for some row
    # Both flags apply only to picks whose condition ignores overflow. ``beyond``: a time exists that the finer of the
    # two units cannot represent. ``at_end``: a row lies outside its guards. Once both are true, values at the ends of
    # int64 decide bands.
    beyond: bool
    at_end: bool
    axes: list[np.ndarray]  # int64[n]: ordinals, for each axis of the side
    absent: dict[int, np.ndarray]  # for an axis, bool[n]: the rows without a value there


def of_stored(plan: JoinPlan, s: int, arrays: Sequence[pa.Array]) -> Callable[[str, str], pa.Array]:
    """Return a function that reads a column of side s by its name, from the stored columns."""
    layout = row_layouts(plan)[s]
    return lambda _, name: arrays[layout.places[layout.index[name]]]


def evaluated(plan: JoinPlan, s: int, n: int, column: Callable[[str, str], pa.Array], fresh: bool) -> Evaluated:
    """Evaluate n rows of side s. ``fresh`` rows also need filters and guards, which stored rows have passed.

    For fresh rows of a pick, some errors raise an EvaluationError: errors in a key, in an expression that ranks right
    rows, or in the left value of a distance.
    """
    side = plan.sides[s]
    filters, guards = (side.filters, side.guards) if fresh else ([], [])
    picks = plan.spec.picks_one
    musts = _musts(plan, s) if fresh and picks else []
    nodes = [*side.keys, *side.axes, *filters, *(g for g, _, _ in guards), *(node for _, node, _ in musts)]
    nodes = list(dict.fromkeys(nodes))
    values = dict(zip(nodes, evaluate(nodes, column, n), strict=True)) if nodes else {}
    usable, wild, key_erred = np.ones(n, dtype=bool), plan.raises, False
    unbounded, beyond, at_end = picks and _unbounded(plan), False, False
    for what, node, needed in musts:
        v = values[node]
        if (erred := errors_of(v)) is not None:
            raise EvaluationError(f"{what} of the {SIDES[s]} side: {first_error(node, column, int(erred.argmax()))}")
        if needed and v.valid is not None:
            usable &= v.valid
    for node in filters:
        v = values[node]
        true = np.asarray(v.values if v.valid is None else v.values & v.valid, dtype=bool)
        erred = errors_of(v)
        if erred is not None:
            true, wild = true | erred, True
        usable &= true
    for node, low, high in guards:
        far = outside(values[node], low, high) is not None
        if unbounded:
            at_end = at_end or far
        else:
            wild = wild or far or errors_of(values[node]) is not None
    if plan.never:
        usable[:] = False
    for node, safe in zip(side.keys, plan.null_safe, strict=True):
        v = values[node]
        if errors_of(v) is not None:
            key_erred = True
        if not safe and v.valid is not None:
            usable &= v.valid
    axes, absent = [], {}
    for a, node in enumerate(side.axes):
        v = values[node]
        axes.append(np.ascontiguousarray(ordinals(v.values, node.type)))
        erred = errors_of(v)
        if a < side.band_axes:
            if unbounded and is_met(node):
                least, most = node.type.limits
                beyond = beyond or outside(v, least + 1, most - 1) is not None
            if v.valid is not None:
                usable &= v.valid if erred is None else v.valid | erred
            wild = wild or erred is not None
        elif node in side.checked:
            wild = wild or erred is not None
        there = has_value(v)
        if there is not None and not there.all():
            absent[a] = ~there
    return Evaluated(values, usable, wild, key_erred, beyond, at_end, axes, absent)


def _musts(plan: JoinPlan, s: int) -> list[tuple[str, Node, bool]]:
    """Return the expressions of a pick that must not fail: (name, expression, whether a NULL prevents a match)."""
    pick, picking = plan.spec.pick, picking_of(plan)
    out = [("the key", node, False) for node in plan.sides[s].keys]
    if s == 1 and pick is not None:
        return out + [("the pick", node, i == 0) for i, node in enumerate(pick.by)]
    return out + ([("the distance", picking.near, True)] if picking.near is not None else [])


def _unbounded(plan: JoinPlan) -> bool:
    """Return whether overflow is allowed, and can occur only in bands of doubles, which do not decide pairs."""
    pick = plan.spec.pick
    return pick is not None and pick.unbounded and plan.decided and all(
        t.exact or t.left.type.kind == "float" for t in plan.kernel_terms
    )
