"""Choose the core of an operator: pairs, picks or aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ivjoin.operator.core import Core
from ivjoin.plan.join_plan import JoinPlan

if TYPE_CHECKING:
    from ivjoin.operator.lookup.core import LookupCore

__all__ = ["AnyCore", "core_of"]

AnyCore: TypeAlias = "Core | LookupCore"


def core_of(
    plan: JoinPlan, late_within: bool = True, errors_first: bool = False, keeps: tuple[bool, bool] = (True, True),
    takes: bool = False,
) -> AnyCore:
    """Return a core without rows.

    ``keeps``: for each side, whether its rows are stored. ``takes``: whether the core may reuse the memory of an
    operator of the same plan that has ended.
    """
    if plan.spec.grouped:
        from ivjoin.operator.lookup.core import LookupCore

        return LookupCore(plan, late_within, errors_first)
    if plan.spec.pick is not None:
        from ivjoin.operator.lookup.picks.core import PickedCore

        return PickedCore(plan, late_within, errors_first)
    return Core(plan, late_within, errors_first, keeps, takes)
