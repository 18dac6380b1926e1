"""The cells of a routing plan, each joined by itself with ``band_join``."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from join.tables import rows
from routing.routed import batch_of

import ivjoin
from ivjoin.routing import RoutingPlan

MARKS = "owned on the left", "owned on the right"


def whole(left: pa.Table, right: pa.Table, call: dict[str, Any]) -> pa.Table:
    return ivjoin.band_join(left, right, **call).to_arrow()


def cell_by_cell(plan: RoutingPlan, left: pa.Table, right: pa.Table, call: dict[str, Any]) -> Counter[Any]:
    """What is owned of each cell's join."""
    parts: list[dict[int, tuple[list[int], list[bool]]]] = [{}, {}]
    for s, (side, table) in enumerate((("left", left), ("right", right))):
        for row, cell, owned in zip(*(x.tolist() for x in plan.cells(side, batch_of(table))), strict=True):
            numbers, marks = parts[s].setdefault(cell, ([], []))
            numbers.append(row)
            marks.append(owned)
    out: Counter[Any] = Counter()
    for cell in parts[0].keys() | parts[1].keys():
        sides = []
        for s, table in enumerate((left, right)):
            numbers, marks = parts[s].get(cell, ([], []))
            # not by take, which has no way with views of text
            taken = pa.concat_tables([table.slice(0, 0), *(table.slice(n, 1) for n in numbers)])
            sides.append(taken.append_column(MARKS[s], pa.array(marks, pa.bool_())))
        joined = whole(sides[0], sides[1], call)
        marks_there = [joined.column(name) for name in MARKS if name in joined.column_names]
        kept = pc.coalesce(*marks_there).to_pylist()
        there = rows(joined.drop_columns([name for name in MARKS if name in joined.column_names]))
        out += Counter(row for row, mark in zip(there, kept, strict=True) if mark)
    return out
