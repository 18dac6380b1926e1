"""The cells of a plan, each joined by itself with ``band_join``, give together what the whole join gives."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from join.cases import Case
from join.strategies import cases
from join.tables import rows
from routing.joined import cell_by_cell, whole
from routing.routed import batch_of, random_plan
from weights import examples

from ivjoin.errors import IvjoinError
from ivjoin.routing import RoutingPlan, plan_join


def compared(case: Case, plan: RoutingPlan) -> None:
    call = {"on": case.on, "condition": case.condition.sql if case.condition else None, "how": case.how}
    want = Counter(rows(whole(case.left, case.right, call)))
    got = cell_by_cell(plan, case.left, case.right, call)
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
