"""Second stage of a streaming join: a bucket's operator as the function of ``applyInPandasWithState``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd

from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.bucket import Turn, arrivals, forget, keep, kept, new_operator, play
from ivjoin.spark.buckets import bucket_labels
from ivjoin.spark.codec import (
    FORMAT,
    compressed,
    expanded,
    meta_text,
    note_and_state,
    read_state,
    version_token,
    with_note,
)  # fmt: skip
from ivjoin.spark.results import Results
from ivjoin.spark.spec import identity
from ivjoin.spark.streamspread import UNSPREAD, StreamSpread

__all__ = ["bucket_function"]

StateFunction = Callable[[tuple[Any, ...], Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]


def bucket_function(spec: JoinSpec, buckets: int, results: Results, spread: StreamSpread = UNSPREAD) -> StateFunction:
    """The function that Spark calls once per bucket and micro-batch."""
    meta = meta_text(identity(spec) | spread.identity, buckets)
    owned, spec = spread.owner(spec), spread.run(spec)
    plans, labels = spread.plans, bucket_labels(buckets)

    def join_bucket(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        name = (meta, int(key[0]))
        turn = Turn({}, False)
        stored = state.get if state.exists else None
        said = ""
        if plans is not None and stored is not None:
            said, stored = note_and_state(stored)
        op, turn.restored = _opened(spec, name, stored)
        turn.before = op.metrics.as_dict()
        came = arrivals(spec, frames)
        turn.mark()
        yield from results.frames(turn.counted(play(op, spec, came, owned)), name[1])
        turn.mark(results.sink_ns)
        payload = compressed(op.snapshot())
        token = version_token(payload)
        if plans is None:
            state.update((FORMAT, meta, token, payload))
        else:
            if name[1] == labels[0]:
                said = plans.planner().turn(said, came.heard, [s.edges for s in came.seen])
            state.update((FORMAT, meta, token, with_note(said, payload)))
        keep(name, token, op)
        yield results.counts(turn.counts(op, len(payload), labels.index(name[1])))

    return join_bucket


def _opened(spec: JoinSpec, name: tuple[str, int], stored: Any) -> tuple[SymmetricHashJoin, bool]:
    """A bucket's operator (new, from memory, or made from the state), and whether it was made from the state."""
    if stored is None:
        forget(name)
        return new_operator(spec), False
    state = read_state(stored, name[0])
    op = kept(name, state.token)
    return (op, False) if op is not None else (SymmetricHashJoin.restore(expanded(state.payload)), True)
