"""Second stage of a streaming join: a bucket's operator as the function of ``applyInPandasWithState``.

A group has one state there, which is written whole or not at all, and a call sees that of its own group alone. A bucket
therefore has two groups, of one state partition, that Spark calls one after the other in one task::

    label, null     log     rows and ticks come here; written in each micro-batch: what came since the base
    label, second   base    joins what the log's call has left in memory; written where the log has outgrown it

Spark leaves a null out of a hash, ``second_key`` is an int that changes none, and nulls are sorted first. Both states
belong to one commit of one partition. Of very many buckets, each is small, and a second call costs more than it saves:
there the bucket is one group, its state the snapshot.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from ivjoin.errors import SnapshotError
from ivjoin.operator.memory.budget import Budget
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.codec import FORMAT, compressed, meta_text, new_token, note_and_state, read_state, with_note
from ivjoin.spark.rows.results import Results
from ivjoin.spark.spread.buckets import bucket_labels
from ivjoin.spark.spread.spec import identity
from ivjoin.spark.state.bucket import Arrivals, Turn, arrivals, keep, play
from ivjoin.spark.state.journal import Log, opened, segment_of
from ivjoin.spark.state.streamspread import UNSPREAD, StreamSpread
from ivjoin.spark.state.turns import leave_turn

__all__ = ["BucketFunction", "bucket_function", "in_two_groups"]

StateFunction = Callable[[tuple[Any, ...], Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]

_MOST_IN_TWO = 16  # buckets; part of the form of their states, as FORMAT is
# Token and size of the last base that this process wrote of a bucket, oldest first. The log's call decides before a
# base is made, and the base's call cannot write to the log; other workers go by what the log says of an earlier one.
_sizes: OrderedDict[tuple[str, int], tuple[str, int]] = OrderedDict()
_MOST_SIZES = 4096


@dataclass(frozen=True, slots=True)
class _Begun:
    """What the log's call leaves to that of the base.

    ``before`` and ``after`` are tokens of the state, ``log`` is the log as it was. ``rebased`` says that it ends here,
    ``written`` how many bytes of state were handed to Spark.
    """

    turn: Turn
    came: Arrivals
    before: str
    after: str
    log: Log
    rebased: bool
    written: int


def in_two_groups(spec: JoinSpec, buckets: int, spread: StreamSpread = UNSPREAD) -> bool:
    """Whether each bucket has a group for its log and another one for its base: where no more than some are used."""
    return spread.used(spec, buckets) <= _MOST_IN_TWO


def bucket_function(
    spec: JoinSpec, buckets: int, results: Results, spread: StreamSpread = UNSPREAD, budget: Budget | None = None
) -> StateFunction:
    """The function that Spark calls for each group and micro-batch; by its label and, of a bucket's second, a key."""
    return BucketFunction(spec, buckets, results, spread, budget)


class BucketFunction:
    """As :func:`bucket_function` gives it."""

    def __init__(
        self, spec: JoinSpec, buckets: int, results: Results, spread: StreamSpread, budget: Budget | None
    ) -> None:
        self._meta = meta_text(identity(spec) | spread.identity, buckets)
        self._owned, self._spec = spread.owner(spec), spread.run(spec)
        self._plans, self._labels = spread.plans, bucket_labels(buckets)
        self._results, self._budget = results, budget
        self._in_two = in_two_groups(spec, buckets, spread)
        self._begun: dict[int, _Begun] = {}  # between the two calls of a bucket

    def __call__(self, key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        label = int(key[0])
        if not self._in_two:
            yield from self._whole(label, frames, state)
        elif pd.isna(key[1]):  # None, or NaN or NA as the session has pandas hold it
            self._log(label, frames, state)
        else:
            for _ in frames:
                pass
            yield from self._base(label, state)

    def _log(self, label: int, frames: Iterator[pd.DataFrame], state: Any) -> None:
        """Take what came, and write the log."""
        turn = Turn({})
        said, before, payload = self._read(state)
        log = Log.unpacked(payload) if before else Log()
        base, size = _sizes.get((self._meta, label), ("", 0))
        if before and base == log.base:
            log = replace(log, base_size=size)
        came = arrivals(self._spec, frames)
        again = sum(map(len, log.segments))  # the state is written whole
        segment = segment_of(came, log.base_size - log.written - again)
        after = new_token()
        if segment is None:
            new = Log(after, log.base_size)
        else:
            new = Log(log.base, log.base_size, log.written + again + len(segment), (*log.segments, segment))
        written = new.packed()
        state.update((FORMAT, self._meta, after, self._noted(self._told(said, came, label), written)))
        self._begun[label] = _Begun(turn, came, before, after, log, segment is None, len(written))

    def _base(self, label: int, state: Any) -> Iterator[pd.DataFrame]:
        """Join what came, and write the operator where it has no log."""
        begun = self._begun.pop(label, None)
        base, payload = self._read(state)[1:]
        if begun is None or base != begun.log.base:
            raise SnapshotError(
                f"of bucket {label}, the base of the state is {base!r} and its log "
                f"{'was not met before it' if begun is None else f'belongs to {begun.log.base!r}'}; expected them in "
                "one partition, of one micro-batch: start from a new checkpoint"
            )
        yield from self._joined(label, begun, payload, state)

    def _whole(self, label: int, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        """A bucket of one group, whose state is its base."""
        turn = Turn({})
        said, before, payload = self._read(state)
        came = arrivals(self._spec, frames)
        begun = _Begun(turn, came, before, new_token(), Log(before), True, 0)
        yield from self._joined(label, begun, payload, state, self._told(said, came, label))

    def _joined(
        self, label: int, begun: _Begun, base: bytes, state: Any, said: str = ""
    ) -> Iterator[pd.DataFrame]:
        """``said`` is the note that goes with the base."""
        name, turn = (self._meta, label), begun.turn
        op = opened(self._spec, name, begun.before, lambda: base, lambda: begun.log.segments, turn, self._budget)
        turn.before = op.metrics.as_dict()
        turn.mark()
        out = turn.delay.counted(play(op, self._spec, begun.came, self._owned), begun.came.arrived)
        yield from self._results.frames(out, label)
        turn.mark(self._results.sink_ns)
        written = begun.written
        if begun.rebased:
            payload = compressed(op.snapshot())
            written += len(payload)
            _remember(name, begun.after, len(payload))
            state.update((FORMAT, self._meta, begun.after, self._noted(said, payload)))
        leave_turn(name, begun.before, begun.after, begun.came, turn.rows_in(op), op.metrics.state_rows)
        keep(name, begun.after, op)
        yield self._results.counts(turn.counts(op, written, self._labels.index(label)))

    def _read(self, state: Any) -> tuple[str, str, bytes]:
        """Note, token and payload of a state; empty where there is none."""
        if not state.exists:
            return "", "", b""
        said, stored = ("", state.get) if self._plans is None else note_and_state(state.get)
        held = read_state(stored, self._meta)
        return said, held.token, held.payload

    def _told(self, said: str, came: Arrivals, label: int) -> str:
        """What the planner keeps, which has its place in the first bucket."""
        if self._plans is None or label != self._labels[0]:
            return said
        return self._plans.planner().turn(said, came.heard, [s.edges for s in came.seen])

    def _noted(self, said: str, payload: bytes) -> bytes:
        return payload if self._plans is None else with_note(said, payload)


def _remember(name: tuple[str, int], token: str, size: int) -> None:
    _sizes[name] = token, size
    _sizes.move_to_end(name)
    while len(_sizes) > _MOST_SIZES:
        _sizes.popitem(last=False)
