"""Choose the engine of an operator: pairs, or one answer for each left row."""

from __future__ import annotations

from ivjoin.operator.engine import Engine
from ivjoin.operator.match.pair_engine import PairEngine
from ivjoin.plan.join_plan import JoinPlan

__all__ = ["engine_of"]


def engine_of(
    plan: JoinPlan, late_within: bool = True, keeps: tuple[bool, bool] = (True, True), takes: bool = False,
) -> Engine:
    """Return an engine without rows.

    - ``keeps``: for each side, whether its rows are stored.
    - ``takes``: whether the engine may reuse the memory of an ended operator of the same plan.
    """
    if plan.looks_up:
        from ivjoin.operator.lookup.lookup_engine import LookupEngine

        return LookupEngine(plan, late_within)
    return PairEngine(plan, late_within, keeps, takes)
