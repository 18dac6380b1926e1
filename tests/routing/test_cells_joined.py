"""The cells of a plan, each joined by itself with ``band_join``, give together what the whole join gives."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from join.cases import Case
from join.strategies import cases
from join.tables import rows
from routing.routed import batch_of, random_plan
from weights import examples

import ivjoin
from ivjoin.errors import IvjoinError
from ivjoin.routing import RoutingPlan, plan_join

MARKS = "owned on the left", "owned on the right"


def whole(left: pa.Table, right: pa.Table, call: dict[str, Any]) -> pa.Table:
    return ivjoin.band_join(left, right, **call).to_arrow()


def cell_by_cell(plan: RoutingPlan, case: Case, call: dict[str, Any]) -> Counter[Any]:
    """What is owned of each cell's join."""
    parts: list[dict[int, tuple[list[int], list[bool]]]] = [{}, {}]
    for s, (side, table) in enumerate((("left", case.left), ("right", case.right))):
        for row, cell, owned in zip(*(x.tolist() for x in plan.cells(side, batch_of(table))), strict=True):
            numbers, marks = parts[s].setdefault(cell, ([], []))
            numbers.append(row)
            marks.append(owned)
    out: Counter[Any] = Counter()
    for cell in parts[0].keys() | parts[1].keys():
        sides = []
        for s, table in enumerate((case.left, case.right)):
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


def compared(case: Case, plan: RoutingPlan) -> None:
    call = {"on": case.on, "condition": case.condition.sql if case.condition else None, "how": case.how}
    want = Counter(rows(whole(case.left, case.right, call)))
    got = cell_by_cell(plan, case, call)
    assert got == want, (str(plan), got - want, want - got)


def call_of(case: Case) -> dict[str, Any]:
    return {"on": case.on, "condition": case.condition.sql if case.condition else None, "how": case.how}


@pytest.mark.slow
@given(cases(max_rows=14), st.sampled_from(("auto", "hash", "slices", "grid")), st.integers(2, 9), st.integers(0, 9))
@examples(0.25)
def test_cells_of_plans_joined_one_by_one(case: Case, scheme: str, workers: int, seed: int) -> None:
    left, right = batch_of(case.left), batch_of(case.right)
    if not left.num_rows or not right.num_rows:
        with pytest.raises(IvjoinError, match="has no rows"):
            plan_join(left, right, **call_of(case), workers=workers, scheme=scheme)
        return
    if seed < 5:  # wilder than the planner would
        plan, _ = random_plan(left, right, call_of(case), random.Random(seed))
    else:
        plan = plan_join(left, right, **call_of(case), workers=workers, scheme=scheme)
    compared(case, plan)
