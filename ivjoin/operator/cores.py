"""What an operator of a plan is made of."""

from __future__ import annotations

from typing import TypeAlias

from ivjoin.operator.core import Core
from ivjoin.operator.picks.core import PickCore
from ivjoin.operator.windows.core import WindowCore
from ivjoin.plan.planner import JoinPlan

__all__ = ["AnyCore", "core_of"]

AnyCore: TypeAlias = "Core | PickCore | WindowCore"


def core_of(plan: JoinPlan, late_within: bool = True, errors_first: bool = False) -> AnyCore:
    """The state of an operator for a plan, without rows."""
    made: type[AnyCore] = Core
    if plan.spec.aggregates:
        made = WindowCore
    elif plan.spec.pick is not None:
        made = PickCore
    return made(plan, late_within, errors_first)
