"""Run a bucket on ``transformWithState``. Its state is an occasional snapshot, and a log of the turns since then.

::

    head      format, meta, two tokens                         one row, rewritten each micro-batch
    base      the operator's snapshot                          rewritten when the log outgrows it
    log       one segment per micro-batch: rows and ticks      appended to, cleared with each new base

Base and log are compressed, and ``journal`` describes both. A worker with the operator in memory reads only the head.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ivjoin.errors import IvjoinError
from ivjoin.spark.state.bucket import Turn, arrivals
from ivjoin.spark.state.codec import FORMAT, new_token, read_state
from ivjoin.spark.state.journal import BucketJoin, Log, segment_of

__all__ = ["SegmentedBucket", "check_setup"]

# For a log shorter than this, no new base is written: the log is quick to replay, and segments are written once.
_SHORT_LOG = 1 << 20
_HEAD = "format int, meta string, token string, base string, base_size long, log_size long"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def check_setup(spark: Any) -> None:
    """Refuse a session that cannot run ``transformWithState``."""
    from importlib.util import find_spec

    try:
        protobuf = find_spec("google.protobuf")
    except ModuleNotFoundError:
        protobuf = None
    if protobuf is None:
        raise IvjoinError(
            'backend="transformWithState" needs the package protobuf on the driver and on every worker: '
            "pip install protobuf; or omit the option to use applyInPandasWithState"
        )
    provider = spark.conf.get("spark.sql.streaming.stateStore.providerClass", "")
    if "RocksDB" not in provider:
        raise IvjoinError(
            'backend="transformWithState" needs the RocksDB state store; the session has '
            f"{provider.rpartition('.')[2] or 'the default'}: set "
            f"spark.sql.streaming.stateStore.providerClass to {_ROCKSDB}"
        )


class SegmentedBucket(BucketJoin, StatefulProcessor):
    """Run the operator of a bucket, and store its state as head, base and log."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.head = handle.getValueState("head", _HEAD)
        self.payload = handle.getValueState("base", "payload binary")
        self.segments = handle.getListState("log", "token string, segment binary")
        self.stored_note = handle.getValueState("note", "text string") if self.has_notes else None

    def handleInputRows(
        self, key: tuple[Any, ...], rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        label, turn = int(key[0]), Turn()
        state = _Stored(self)
        came = arrivals(self.spec, rows)
        state.receive(None if state.moved or not state.before else segment_of(came, state.room))
        if self.stored_note is not None and self.plans_in(label):
            said = self.stored_note.get()[0] if self.stored_note.exists() else ""
            self.stored_note.update((self.note(said, came),))
        yield from self.turn(label, came, state, turn)

    def close(self) -> None:
        pass


class _Stored:
    """The state of the bucket that a processor handles."""

    def __init__(self, of: SegmentedBucket) -> None:
        self._of = of
        self.before, self.after, self.rebased, self.moved = "", new_token(), True, False
        self._base, self._base_size, self._log_size = "", 0, 0
        self._segment: bytes | None = None
        if of.head.exists():
            version, was, token, self._base, self._base_size, self._log_size = of.head.get()
            found = read_state((version, was, token, b""), of.meta)
            self.before, self.moved = found.token, found.moved

    @property
    def room(self) -> int:
        return max(self._base_size, _SHORT_LOG) - self._log_size

    def receive(self, segment: bytes | None) -> None:
        """Take the input of the turn as a segment. None means that the turn writes a new base."""
        self._segment, self.rebased = segment, segment is None

    def base(self) -> bytes:
        return bytes(self._of.payload.get()[0])

    def log(self) -> Log:
        return Log(self._base, segments=tuple((token, bytes(made)) for token, made in self._of.segments.get()))

    def written(self, base: bytes | None) -> int:
        if base is not None:
            self._of.payload.update((base,))
            self._of.segments.clear()
            self._base, self._base_size, self._log_size, size = self.after, len(base), 0, len(base)
        else:
            assert self._segment is not None
            self._of.segments.appendValue((self.after, self._segment))
            size = len(self._segment)
            self._log_size += size
        self._of.head.update((FORMAT, self._of.meta, self.after, self._base, self._base_size, self._log_size))
        return size
