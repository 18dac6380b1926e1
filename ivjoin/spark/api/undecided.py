"""Refuse joins of streams with unmatched rows that would never be emitted, or with two states that Spark cannot run."""

from __future__ import annotations

from typing import Any

from ivjoin.errors import OrderError, UnsupportedError
from ivjoin.operator.explaining.explain import why_never_decided
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.runtime.catalyst import analyzed, each, kind_of
from ivjoin.spark.runtime.environment import is_connect

__all__ = ["refuse_second_state", "refuse_undecided"]

_STATES = {"FlatMapGroupsInPandasWithState": "another band_join", "Aggregate": "an aggregation"}


def refuse_second_state(frame: Any, side: str) -> None:
    """Refuse a stream with a stateful operator of Spark before the join. Over Connect, Spark does so at the start."""
    if is_connect(frame):
        return
    plans = [analyzed(frame)]
    while plans:
        plan = plans.pop()
        what = _STATES.get(kind_of(plan))
        if what is not None:
            raise UnsupportedError(
                f"the {side} input has {what} before this join, which Spark does not run in one query with "
                'applyInPandasWithState; use backend="transformWithState", for all joins of the query. It needs the '
                "package protobuf and the RocksDB state store"
            )
        plans += [child for child in each(plan.children()) if child.isStreaming()]


def refuse_undecided(spec: JoinSpec) -> None:
    """Raise OrderError if the join emits unmatched rows of a side, and no later row decides which ones these are."""
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
