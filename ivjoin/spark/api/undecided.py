"""Outer and anti joins of streams whose unmatched rows would never be emitted."""

from __future__ import annotations

from ivjoin.errors import OrderError
from ivjoin.operator.explaining.explain import why_never_decided
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import SIDES, JoinSpec

__all__ = ["refuse_undecided"]


def refuse_undecided(spec: JoinSpec) -> None:
    """
    Raises
    ------
    OrderError
        If the join emits unmatched rows of a side, and no later row of the other side decides which ones these are.
    """
    plan = plan_of(spec)
    for s in (0, 1):
        why = why_never_decided(plan, s) if plan.how.owes(s) else None
        if why is not None:
            raise OrderError(
                f"how is {spec.how!r}, but {SIDES[s]} rows without a partner would never be emitted, since the "
                f"{SIDES[1 - s]} stream does not end: {why}. Set a watermark or an order on the {SIDES[1 - s]} input "
                "and bound the difference of the two times on both ends, or pass allow_unbounded=True to store these "
                "rows forever"
            )
