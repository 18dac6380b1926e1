"""Bound the columns of later output of a join of many inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import NAN_ORDINAL
from ivjoin.multi.across import Across
from ivjoin.multi.inputs import Input
from ivjoin.multi.reach import Box, Reach, columns_read, hull, united
from ivjoin.multi.spec import MultiSpec, wide_column

if TYPE_CHECKING:
    from ivjoin.expr.literals import Value

__all__ = ["bounds_of_later_output"]


def bounds_of_later_output(
    spec: MultiSpec, across: Across, inputs: Mapping[str, Input], pending: bool
) -> dict[str, tuple[Value | None, Value | None]]:
    """Return the results of :meth:`MultiJoin.output_bounds`. ``pending``: output is still being taken."""
    from ivjoin.propagation import Bounds

    columns = {n.params[1]: n for n in columns_read(wide_column(f) for f in spec.schema)}
    boxes = _boxes_to_come(spec, across, inputs, pending, list(columns.values()))
    if not boxes:
        return {}
    out: dict[str, tuple[Value | None, Value | None]] = {}
    for name in spec.schema.names:
        node = columns.get(name)
        found = None if node is None else united([b[node] for b in boxes if node in b], node)
        if node is None or found is None:
            out[name] = (None, None)
            continue
        known = Bounds(hull(node, found))
        out[name] = (known.inf, None if found[1] >= NAN_ORDINAL and node.type.kind == "float" else known.sup)
    return out


def _boxes_to_come(
    spec: MultiSpec, across: Across, inputs: Mapping[str, Input], pending: bool, columns: list[Node]
) -> list[Box]:
    """Return the domains of columns in later output, by the input of its newest row."""
    reach, frontiers = Reach(spec, columns), across.frontiers()
    # While output is still being taken, the stores may no longer have its rows.
    hulls = across.hulls if pending else across.spans(columns)
    boxes = [reach.future(a, frontiers, hulls) for a, i in inputs.items() if not i.ended]
    if pending:
        boxes.append(reach.future("", frontiers, hulls))
    return [box for box in boxes if box is not None]
