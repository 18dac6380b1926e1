"""Bound the output of joins that no single operator runs."""

from __future__ import annotations

from typing import Any

from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES

__all__ = ["known_bounds"]


def known_bounds(plan: JoinPlan, ended: bool) -> dict[str, tuple[Any, Any]]:
    """Return the result of ``SymmetricHashJoin.output_bounds`` before the first row, or after both inputs have ended.
    """
    op = SymmetricHashJoin.from_plan(plan)
    for side in SIDES if ended else ():
        list(op.finish(side))
    return op.output_bounds()
