"""Run the second stage of a streaming join: a bucket's operator as the function of ``applyInPandasWithState``.

On this backend a group has one state, which is written whole or not at all. A call only sees the state of its own
group. A bucket therefore has two groups in the same state partition. Spark calls them one after the other in one task::

    label, null     log     receives rows and ticks; stores the turns since the base; written in each micro-batch
    label, second   base    joins what the log's call left in memory; written when the log outgrows it

Spark ignores a null in a hash, and ``second_key`` is an int that does not change the hash, so both groups have the same
partition. Nulls are sorted first, so the log's group is called first. One commit of the partition contains both states.
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
from ivjoin.spark.rows.codec import FORMAT, BucketState, new_token, note_and_state, read_state, with_note
from ivjoin.spark.rows.results import Results
from ivjoin.spark.state.bucket import Arrivals, Turn, arrivals
from ivjoin.spark.state.bucketjoin import BucketJoin
from ivjoin.spark.state.journal import Log, segment_of
from ivjoin.spark.state.streamspread import UNSPREAD, StreamSpread

__all__ = ["BucketFunction"]

# Token and size of the last base of each bucket that this process wrote, oldest first. The log's call decides before a
# base is written, and the base's call cannot write to the log. Other workers use an earlier base's size from the log.
_sizes: OrderedDict[tuple[str, int], tuple[str, int]] = OrderedDict()
_MOST_SIZES = 4096


@dataclass(slots=True)
class _TwoGroups:
    """The state of a bucket, as the log's call leaves it for the base's call."""

    turn: Turn
    came: Arrivals
    before: str
    after: str
    from_log: Log  # before this turn
    rebased: bool
    moved: bool
    log_bytes: int  # after this turn
    stored: bytes = b""  # the base
    write: Callable[[bytes], None] = lambda _: None  # stores a new base

    def base(self) -> bytes:
        return self.stored

    def log(self) -> Log:
        return self.from_log

    def written(self, base: bytes | None) -> int:
        if base is None:
            return self.log_bytes
        self.write(base)
        return self.log_bytes + len(base)


class BucketFunction:
    """The function that Spark calls for each group. The key is a label, and null or a number."""

    def __init__(
        self, spec: JoinSpec, buckets: int | None, results: Results, spread: StreamSpread = UNSPREAD,
        budget: Budget | None = None,
    ) -> None:
        self._join = BucketJoin(spec, buckets, results, spread, budget)
        self._has_notes = spread.plans is not None
        self._begun: dict[int, _TwoGroups] = {}  # data between the two calls of a bucket

    def __call__(self, key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        label = int(key[0])
        if pd.isna(key[1]):  # None, NaN or NA; the session decides how pandas stores it
            self._log(label, frames, state)
        else:
            for _ in frames:
                pass
            yield from self._base(label, state)

    def _log(self, label: int, frames: Iterator[pd.DataFrame], state: Any) -> None:
        turn = Turn()
        said, stored = self._read(state)
        before = stored.token
        log = Log.unpacked(stored.payload) if before else Log()
        base, size = _sizes.get((self._join.meta, label), ("", 0))
        if before and base == log.base:
            log = replace(log, base_size=size)
        came = arrivals(self._join.spec, frames)
        again = sum(len(s) for _, s in log.segments)  # Spark writes the whole state, with the old segments
        segment = None if stored.moved else segment_of(came, log.base_size - log.written - again)
        after = new_token()
        if segment is None:
            new = Log(after, log.base_size)
        else:
            written = log.written + again + len(segment)
            new = Log(log.base, log.base_size, written, (*log.segments, (after, segment)))
        packed = new.packed()
        if self._join.plans_in(label):
            said = self._join.note(said, came)
        self._write(state, after, said, packed)
        self._begun[label] = _TwoGroups(turn, came, before, after, log, segment is None, stored.moved, len(packed))

    def _base(self, label: int, state: Any) -> Iterator[pd.DataFrame]:
        """Join the input of the micro-batch, and write the operator's snapshot if the log ends."""
        begun = self._begun.pop(label, None)
        stored = self._read(state)[1]
        if begun is None or stored.token != begun.from_log.base:
            raise SnapshotError(
                f"of bucket {label}, the base of the state is {stored.token!r} and its log "
                f"{'was not met before it' if begun is None else f'belongs to {begun.from_log.base!r}'}; expected them "
                "in one partition, of one micro-batch: start from a new checkpoint"
            )

        def write(made: bytes) -> None:
            _remember((self._join.meta, label), begun.after, len(made))
            self._write(state, begun.after, "", made)

        begun.stored, begun.write = stored.payload, write
        yield from self._join.turn(label, begun.came, begun, begun.turn)

    def _read(self, state: Any) -> tuple[str, BucketState]:
        """Return the note and the state of a group; both are empty before the first turn."""
        if not state.exists:
            return "", BucketState("", b"")
        said, stored = note_and_state(state.get) if self._has_notes else ("", state.get)
        return said, read_state(stored, self._join.meta)

    def _write(self, state: Any, token: str, said: str, payload: bytes) -> None:
        stored = with_note(said, payload) if self._has_notes else payload
        state.update((FORMAT, self._join.meta, token, stored))


def _remember(name: tuple[str, int], token: str, size: int) -> None:
    _sizes[name] = token, size
    _sizes.move_to_end(name)
    while len(_sizes) > _MOST_SIZES:
        _sizes.popitem(last=False)
