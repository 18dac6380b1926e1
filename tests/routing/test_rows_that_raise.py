"""A row whose key or place raises an error goes to all cells: it raises there if it does in the whole join."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from join.tables import rows
from routing.joined import cell_by_cell, whole
from routing.routed import batch_of, random_plan

from ivjoin.errors import EvaluationError, OptionError
from ivjoin.frontier.order import Order
from ivjoin.plan.cache import planned
from ivjoin.routing import along, plan_join
from ivjoin.routing.endless import endless_plans

BIG = 2**62
N = range(12)
#: Row 7 raises in ``s`` as a number and in ``a + a``. No other row has its ``n``; it alone is not ``ok``.
LEFT = pa.table({
    "s": ["x" if i == 7 else str(i) for i in N], "a": [BIG if i == 7 else i for i in N],
    "n": [-1 if i == 7 else i % 3 for i in N], "ok": [i != 7 for i in N],
})  # fmt: skip
RIGHT = pa.table({"i": [2 * (i // 2) for i in N], "n": [i % 3 for i in N]})
RAISING = {
    "a text as a key": "l.s = r.i", "a sum as a key": "l.a + l.a = r.i", "null-safe": "l.s <=> r.i",
    "two keys": "l.s = r.i AND l.n < r.n + 9 AND l.a + l.a = r.i + r.i",
    "a text in a band": "l.s BETWEEN r.i - 2 AND r.i + 2",
    "a sum in a band": "l.a + l.a BETWEEN r.i - 2 AND r.i + 2",
    "a key and a band": "l.s = r.i AND l.n BETWEEN r.n - 2 AND r.n + 2",
    "a text in a product": "l.s * 2 = r.i",
}
SILENT = {
    "another key": "l.n = r.n AND l.s = r.i",
    "a filter": "l.ok AND l.s = r.i",
    "a filter and a band": "l.ok AND l.s BETWEEN r.i - 2 AND r.i + 2",
    "another key and a band": "l.n = r.n AND l.s BETWEEN r.i - 2 AND r.i + 2",
}


def plans(call: dict[str, Any]) -> list[Any]:
    sides = batch_of(LEFT), batch_of(RIGHT)
    made = [plan_join(*sides, **call, workers=3, scheme=scheme) for scheme in ("auto", "grid")]
    made += [random_plan(*sides, call, random.Random(seed))[0] for seed in range(2)]
    assert max(plan.n_cells for plan in made) > 1
    return made


@pytest.mark.parametrize("condition", RAISING.values(), ids=RAISING)
def test_rows_that_raise_in_the_whole_join_raise_in_a_cell(condition: str) -> None:
    call = {"condition": condition, "how": "left"}
    with pytest.raises(EvaluationError):
        whole(LEFT, RIGHT, call)
    for plan in plans(call):
        with pytest.raises(EvaluationError):
            cell_by_cell(plan, LEFT, RIGHT, call)


@pytest.mark.parametrize("condition", SILENT.values(), ids=SILENT)
@pytest.mark.parametrize("how", ["full", "left_anti", "right_semi"])
def test_rows_that_do_not_raise_in_the_whole_join_are_emitted_once(condition: str, how: str) -> None:
    call = {"condition": condition, "how": how}
    want = Counter(rows(whole(LEFT, RIGHT, call)))
    for plan in plans(call):
        assert cell_by_cell(plan, LEFT, RIGHT, call) == want, str(plan)


def test_plans_that_follow_each_other_need_keys_that_raise_nothing() -> None:
    band = "l.n BETWEEN r.n - 5 AND r.n + 5"
    order = (Order("n"),)
    for key in ("l.s = r.i", "l.a + l.a = r.i"):
        condition = f"{key} AND {band}"
        with pytest.raises(OptionError, match="may raise an error"):
            along(plan_join(batch_of(LEFT), batch_of(RIGHT), condition=condition, workers=3))
        plan = planned(LEFT.schema, RIGHT.schema, condition=condition, left_order=order, right_order=order)
        why = endless_plans(plan)
        assert isinstance(why, str) and "may raise an error" in why
    along(plan_join(batch_of(LEFT), batch_of(RIGHT), condition=f"l.a = r.i AND {band}", workers=3))
