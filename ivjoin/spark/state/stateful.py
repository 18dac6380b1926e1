"""Run the second stage of a streaming join: a bucket's operator as the function of ``applyInPandasWithState``.

On this backend a group has one state, which is written whole or not at all. A call only sees the state of its own
group. A bucket therefore has two groups in the same state partition. Spark calls them one after the other in one task::

    label, null     log     receives rows and ticks; stores the turns since the base; written in each micro-batch
    label, second   base    joins what the log's call left in memory; written when the log outgrows it

Spark ignores a null in a hash, and ``second_key`` is an int that does not change the hash, so both groups have the same
partition. Nulls are sorted first, so the log's group is called first. One commit of the partition contains both states.
If a join uses very many buckets, each is small, and a second call costs more than it saves. A bucket is then one group,
and its state is the snapshot.
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

_MOST_IN_TWO = 16  # buckets; a part of the state format, like FORMAT
# Token and size of the last base of each bucket that this process wrote, oldest first. The log's call decides before a
# base is written, and the base's call cannot write to the log. Other workers use an earlier base's size from the log.
_sizes: OrderedDict[tuple[str, int], tuple[str, int]] = OrderedDict()
_MOST_SIZES = 4096


@dataclass(frozen=True, slots=True)
class _Begun:
    """The data that the log's call leaves for the base's call.

    ``before`` and ``after`` are tokens of the state, and ``log`` is the log before this turn. ``rebased`` is True if a
    new base replaces the log. ``written`` is the number of bytes of state passed to Spark.
    """

    turn: Turn
    came: Arrivals
    before: str
    after: str
    log: Log
    rebased: bool
    written: int


def in_two_groups(spec: JoinSpec, buckets: int, spread: StreamSpread = UNSPREAD) -> bool:
    """Return whether each bucket has separate groups for log and base: if at most ``_MOST_IN_TWO`` are used."""
    return spread.used(spec, buckets) <= _MOST_IN_TWO


def bucket_function(
    spec: JoinSpec, buckets: int, results: Results, spread: StreamSpread = UNSPREAD, budget: Budget | None = None
) -> StateFunction:
    """Return the function that Spark calls for each group. The key is a label and, for a second group, a number."""
    return BucketFunction(spec, buckets, results, spread, budget)


class BucketFunction:
    """The function that :func:`bucket_function` returns."""

    def __init__(
        self, spec: JoinSpec, buckets: int, results: Results, spread: StreamSpread, budget: Budget | None
    ) -> None:
        self._meta = meta_text(identity(spec) | spread.identity, buckets)
        self._owned, self._spec = spread.owner(spec), spread.run(spec)
        self._plans, self._labels = spread.plans, bucket_labels(buckets)
        self._results, self._budget = results, budget
        self._in_two = in_two_groups(spec, buckets, spread)
        self._begun: dict[int, _Begun] = {}  # data between the two calls of a bucket

    def __call__(self, key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        label = int(key[0])
        if not self._in_two:
            yield from self._whole(label, frames, state)
        elif pd.isna(key[1]):  # None, NaN or NA; the session decides how pandas stores it
            self._log(label, frames, state)
        else:
            for _ in frames:
                pass
            yield from self._base(label, state)

    def _log(self, label: int, frames: Iterator[pd.DataFrame], state: Any) -> None:
        """Read the input of the micro-batch, and write the log."""
        turn = Turn({})
        said, before, payload = self._read(state)
        log = Log.unpacked(payload) if before else Log()
        base, size = _sizes.get((self._meta, label), ("", 0))
        if before and base == log.base:
            log = replace(log, base_size=size)
        came = arrivals(self._spec, frames)
        again = sum(map(len, log.segments))  # Spark writes the whole state, with the old segments
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
        """Join the input of the micro-batch, and write the operator's snapshot if the log ends."""
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
        """Run a bucket that is one group, whose state is its base."""
        turn = Turn({})
        said, before, payload = self._read(state)
        came = arrivals(self._spec, frames)
        begun = _Begun(turn, came, before, new_token(), Log(before), True, 0)
        yield from self._joined(label, begun, payload, state, self._told(said, came, label))

    def _joined(
        self, label: int, begun: _Begun, base: bytes, state: Any, said: str = ""
    ) -> Iterator[pd.DataFrame]:
        """Join the input, yield the results and write the state. ``said`` is the note that is stored with the base."""
        name, turn = (self._meta, label), begun.turn
        op = opened(self._spec, name, begun.before, lambda: base, lambda: begun.log.segments, turn, self._budget)
        turn.before = op.metrics.as_dict()
        turn.mark()
        joined = play(op, self._spec, begun.came, self._owned, late=self._results.late)
        out = turn.delay.counted(joined, begun.came.arrived)
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
        """Return the note, token and payload of a state; empty if the group has no state."""
        if not state.exists:
            return "", "", b""
        said, stored = ("", state.get) if self._plans is None else note_and_state(state.get)
        held = read_state(stored, self._meta)
        return said, held.token, held.payload

    def _told(self, said: str, came: Arrivals, label: int) -> str:
        """Run the planner in the first bucket and return its new note. In other buckets, return the note unchanged."""
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
