"""What an operator of a plan is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ivjoin.operator.core import Core
from ivjoin.plan.planner import JoinPlan

if TYPE_CHECKING:
    from ivjoin.operator.picks.core import PickCore
    from ivjoin.operator.windows.core import WindowCore

__all__ = ["AnyCore", "core_of"]

AnyCore: TypeAlias = "Core | PickCore | WindowCore"


def core_of(
    plan: JoinPlan, late_within: bool = True, errors_first: bool = False, keeps: tuple[bool, bool] = (True, True),
    takes: bool = False,
) -> AnyCore:
    """The state of an operator for a plan, without rows.

    ``keeps``: which sides' rows are stored. ``takes``: in memory that an operator of the plan has left, if one has.
    """
    if plan.spec.aggregates:
        from ivjoin.operator.windows.core import WindowCore

        return WindowCore(plan, late_within, errors_first)
    if plan.spec.pick is not None:
        from ivjoin.operator.picks.core import PickCore

        return PickCore(plan, late_within, errors_first)
    return Core(plan, late_within, errors_first, keeps, takes)
