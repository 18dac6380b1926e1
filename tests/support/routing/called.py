"""A random case as a call of the routing planner."""

from __future__ import annotations

import oracle
from join.cases import Case
from join.tables import records


def met(case: Case) -> set[tuple[int, int]]:
    keys = [(lambda a, p=p: a[p], lambda b, q=q: b[q], False) for p, q in case.names]
    value = case.condition.value if case.condition else None
    return set(oracle.pairs(records(case.left), records(case.right), "inner", keys, value))  # type: ignore[arg-type]


def call(case: Case) -> dict[str, object]:
    return {"on": case.on, "condition": case.condition.sql if case.condition else None, "how": case.how}
