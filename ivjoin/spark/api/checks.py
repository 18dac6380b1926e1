"""Check what the operator cannot check: the kinds of the inputs, and the options that Spark cannot follow."""

from __future__ import annotations

from typing import Any

from ivjoin.errors import IvjoinError, OrderError, UnsupportedError
from ivjoin.operator.explaining.explain import why_never_decided
from ivjoin.operator.memory.budget import Budget, Shed, Spill, WhenFull, budget_of
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import SIDES, JoinSpec
from ivjoin.spark.runtime.catalyst import analyzed, kind_of, walk
from ivjoin.spark.runtime.environment import is_connect

__all__ = ["both_streaming", "refuse_second_state", "refuse_unbuilt", "refuse_undecided", "worker_budget"]

SCHEMES = ("auto", "hash", "slices", "grid")
_STATES = {"FlatMapGroupsInPandasWithState": "another band_join", "Aggregate": "an aggregation"}


def refuse_second_state(frame: Any, side: str) -> None:
    """Refuse a stream with a stateful operator of Spark before the join. Over Connect, Spark does so at the start."""
    if is_connect(frame):
        return
    for plan in walk(analyzed(frame)):
        what = _STATES.get(kind_of(plan))
        if what is not None and plan.isStreaming():
            raise UnsupportedError(
                f"the {side} input has {what} before this join, which Spark does not run in one query with "
                'applyInPandasWithState; use backend="transformWithState", for all joins of the query. It needs the '
                "package protobuf and the RocksDB state store"
            )


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


def worker_budget(
    spec: JoinSpec, memory_limit: int | str | None, when_full: WhenFull, streaming: bool
) -> Budget | None:
    """Return the memory budget of an operator in a worker; None for no limit. Refuse what Spark cannot follow."""
    if when_full == "shed" or isinstance(when_full, Shed):
        raise UnsupportedError(
            "when_full is 'shed'; expected 'raise', or 'spill' of static frames: on Spark no rows are dropped"
        )
    if streaming and (when_full == "spill" or isinstance(when_full, Spill)):
        raise UnsupportedError(
            "when_full is 'spill' with streams; expected 'raise': Spark keeps the whole state of a bucket as bytes, "
            "which files do not shorten. Take more buckets or a narrower window"
        )
    budget = budget_of(memory_limit, when_full)
    if budget is not None:
        budget.check(plan_of(spec))
    return budget


def refuse_unbuilt(routing: object, hot_keys: object, routing_dir: object, streaming: bool) -> None:
    """Refuse a ``routing`` that is not a scheme, and options that do not apply to these inputs."""
    if routing not in SCHEMES:
        raise IvjoinError(f"routing is {routing!r}; expected {', '.join(map(repr, SCHEMES[:-1]))} or {SCHEMES[-1]!r}")
    if routing_dir is not None and not streaming:
        raise UnsupportedError(f"routing_dir is {routing_dir!r}; expected None: static frames follow one plan")
    if routing_dir is not None and routing == "hash":
        raise UnsupportedError(
            f"routing_dir is {routing_dir!r} with routing='hash'; expected 'auto' or 'slices', or no routing_dir"
        )
    if hot_keys is not None and not streaming:
        raise UnsupportedError(f"hot_keys is {hot_keys!r}; expected None: a sample finds the hot keys of static frames")
    if streaming and routing == "grid":
        raise UnsupportedError("routing is 'grid'; expected 'auto', 'slices' or 'hash': streams have no grids")


def both_streaming(left: Any, right: Any) -> bool:
    """Return whether both sides are streams; raise IvjoinError if one is not a DataFrame."""
    for frame, side in ((left, "left"), (right, "right")):
        if not hasattr(frame, "isStreaming") or not hasattr(frame, "mapInArrow"):
            raise IvjoinError(f"the {side} input is a {type(frame).__name__}; expected a PySpark DataFrame")
    return bool(left.isStreaming and right.isStreaming)
