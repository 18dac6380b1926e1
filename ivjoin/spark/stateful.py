"""Second stage of a streaming join: a bucket's operator as the function of ``applyInPandasWithState``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd

from ivjoin.operator.budget import Budget
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.bucket import Turn, arrivals, keep, new_operator, play, restored, taken
from ivjoin.spark.buckets import bucket_labels
from ivjoin.spark.codec import (
    FORMAT,
    compressed,
    expanded,
    meta_text,
    new_token,
    note_and_state,
    read_state,
    with_note,
)
from ivjoin.spark.results import Results
from ivjoin.spark.spec import identity
from ivjoin.spark.streamspread import UNSPREAD, StreamSpread
from ivjoin.spark.turns import found_again, leave_turn

__all__ = ["bucket_function"]

StateFunction = Callable[[tuple[Any, ...], Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]


def bucket_function(
    spec: JoinSpec, buckets: int, results: Results, spread: StreamSpread = UNSPREAD, budget: Budget | None = None
) -> StateFunction:
    """The function that Spark calls once per bucket and micro-batch."""
    meta = meta_text(identity(spec) | spread.identity, buckets)
    owned, spec = spread.owner(spec), spread.run(spec)
    plans, labels = spread.plans, bucket_labels(buckets)

    def join_bucket(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        name = (meta, int(key[0]))
        turn = Turn({})
        stored = state.get if state.exists else None
        said = ""
        if plans is not None and stored is not None:
            said, stored = note_and_state(stored)
        op, before = _opened(spec, name, stored, turn, budget)
        turn.before = op.metrics.as_dict()
        came = arrivals(spec, frames)
        turn.mark()
        yield from results.frames(turn.delay.counted(play(op, spec, came, owned), came.arrived), name[1])
        turn.mark(results.sink_ns)
        payload = compressed(op.snapshot())
        token = new_token()
        if plans is None:
            state.update((FORMAT, meta, token, payload))
        else:
            if name[1] == labels[0]:
                said = plans.planner().turn(said, came.heard, [s.edges for s in came.seen])
            state.update((FORMAT, meta, token, with_note(said, payload)))
        leave_turn(name, before, token, came, turn.rows_in(op), op.metrics.state_rows)
        keep(name, token, op)
        yield results.counts(turn.counts(op, len(payload), labels.index(name[1])))

    return join_bucket


def _opened(
    spec: JoinSpec, name: tuple[str, int], stored: Any, turn: Turn, budget: Budget | None
) -> tuple[SymmetricHashJoin, str]:
    """A bucket's operator (new, from memory, or made from the state), and the token of its state."""
    if stored is None:
        taken(name)
        return new_operator(spec, budget), ""
    state = read_state(stored, name[0])
    op, turn.caught_up = found_again(spec, name, state.token, budget)
    if op is None:
        turn.restored = True
        op = restored(expanded(state.payload), budget)
    return op, state.token
