"""What an operator of a plan is made of."""

from __future__ import annotations

from typing import TypeAlias

from ivjoin.operator.core import Core
from ivjoin.operator.picks.core import PickCore
from ivjoin.plan.planner import JoinPlan

__all__ = ["AnyCore", "core_of"]

AnyCore: TypeAlias = "Core | PickCore"


def core_of(plan: JoinPlan, late_within: bool = True, errors_first: bool = False) -> AnyCore:
    """The state of an operator for a plan, without rows."""
    made = Core if plan.spec.pick is None else PickCore
    return made(plan, late_within, errors_first)
