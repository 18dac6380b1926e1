"""Run a bucket on ``transformWithState``. Its state is an occasional snapshot, and a log of the turns since then.

::

    head      format, meta, token                              one row, rewritten each micro-batch
    base      the operator's snapshot                          rewritten when the log outgrows it
    log       one segment per micro-batch: rows and ticks      appended to, cleared with each new base

Base and log are compressed; ``journal`` describes both. A worker with the operator in memory only reads the head.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ivjoin.errors import IvjoinError
from ivjoin.operator.memory.budget import Budget
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.codec import FORMAT, compressed, meta_text, new_token, read_state
from ivjoin.spark.rows.late import kept_late
from ivjoin.spark.rows.metrics import MOST_GATHERED, observed
from ivjoin.spark.rows.results import RESULT_SCHEMA, Results
from ivjoin.spark.runtime.workers import own_workers
from ivjoin.spark.spread.buckets import bucket_labels
from ivjoin.spark.spread.spec import identity
from ivjoin.spark.state.bucket import Turn, arrivals, keep, play
from ivjoin.spark.state.journal import opened, segment_of
from ivjoin.spark.state.streamspread import UNSPREAD, StreamSpread
from ivjoin.spark.state.turns import leave_turn

__all__ = ["SegmentedBucket", "segmented_join"]

# A log shorter than this is not worth a new base: it is quick to replay, and its segments are written only once.
_SHORT_LOG = 1 << 20
_HEAD = "format int, meta string, token string, base_size long, log_size long"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def segmented_join(
    packed: Any, spec: JoinSpec, buckets: int, name: str, results: Results | None = None,
    spread: StreamSpread = UNSPREAD, budget: Budget | None = None,
) -> Any:
    """Join like ``streaming_join``, with the state in segments. One query may have several such joins.

    Raises
    ------
    IvjoinError
        If the protobuf package or the RocksDB state store is missing.
    """
    _check_setup(packed.sparkSession)
    with own_workers(packed) if results is None else nullcontext():
        played = packed.groupBy("label").transformWithStateInPandas(
            SegmentedBucket(spec, buckets, results, spread, budget), RESULT_SCHEMA, "append", "None"
        )
    return observed(played, name, by_bucket=buckets <= MOST_GATHERED)


def _check_setup(spark: Any) -> None:
    from importlib.util import find_spec

    try:
        protobuf = find_spec("google.protobuf")
    except ModuleNotFoundError:
        protobuf = None
    if protobuf is None:
        raise IvjoinError(
            'backend="transformWithState" needs the package protobuf on the driver and on every worker: '
            "pip install protobuf; or leave the option out for applyInPandasWithState"
        )
    provider = spark.conf.get("spark.sql.streaming.stateStore.providerClass", "")
    if "RocksDB" not in provider:
        raise IvjoinError(
            'backend="transformWithState" needs the RocksDB state store; the session has '
            f"{provider.rpartition('.')[2] or 'the default'}: set "
            f"spark.sql.streaming.stateStore.providerClass to {_ROCKSDB}"
        )


class SegmentedBucket(StatefulProcessor):
    """Run the operator of a bucket, and store its state as head, base and log."""

    def __init__(
        self, spec: JoinSpec, buckets: int, results: Results | None = None, spread: StreamSpread = UNSPREAD,
        budget: Budget | None = None,
    ) -> None:
        self._budget = budget
        self._spec = spread.run(spec)
        self._owned = spread.owner(spec)
        self._meta = meta_text(identity(spec) | spread.identity, buckets)
        self._plans, self._labels = spread.plans, bucket_labels(buckets)
        # On this backend PySpark passes every frame on at once.
        self._results = results or Results(most_rows=0, late=kept_late(spec))

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState("head", _HEAD)
        self._base = handle.getValueState("base", "payload binary")
        self._log = handle.getListState("log", "segment binary")
        self._note = handle.getValueState("note", "text string") if self._plans is not None else None

    def handleInputRows(
        self, key: tuple[Any, ...], rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        name = (self._meta, int(key[0]))
        turn = Turn({})
        head = self._head.get() if self._head.exists() else None
        before, base_size, log_size = ("", 0, 0) if head is None else head[2:]
        if head is not None:
            read_state((head[0], head[1], head[2], b""), self._meta)
        op = opened(self._spec, name, before, self._payload, self._segments, turn, self._budget)
        turn.before = op.metrics.as_dict()
        came = arrivals(self._spec, rows)
        segment = segment_of(came, max(base_size, _SHORT_LOG) - log_size)
        turn.mark()
        out = turn.delay.counted(play(op, self._spec, came, self._owned, late=self._results.late), came.arrived)
        yield from self._results.frames(out, name[1])
        turn.mark(self._results.sink_ns)
        if self._plans is not None and self._note is not None and name[1] == self._labels[0]:
            said = self._note.get()[0] if self._note.exists() else ""
            self._note.update((self._plans.planner().turn(said, came.heard, [s.edges for s in came.seen]),))
        if segment is None:
            payload = compressed(op.snapshot())
            self._base.update((payload,))
            self._log.clear()
            base_size, log_size, written = len(payload), 0, len(payload)
        else:
            self._log.appendValue((segment,))
            log_size, written = log_size + len(segment), len(segment)
        token = new_token()
        self._head.update((FORMAT, self._meta, token, base_size, log_size))
        leave_turn(name, before, token, came, turn.rows_in(op), op.metrics.state_rows)
        keep(name, token, op)
        yield self._results.counts(turn.counts(op, written, self._labels.index(name[1])))

    def close(self) -> None:
        pass

    def _payload(self) -> bytes | None:
        return bytes(self._base.get()[0]) if self._base.exists() else None

    def _segments(self) -> Iterator[bytes]:
        return (bytes(segment) for (segment,) in self._log.get())
