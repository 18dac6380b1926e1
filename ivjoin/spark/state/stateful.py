"""Join two streaming DataFrames with ``applyInPandasWithState``: pack, group by bucket, join with state.

::

    left  -- bucket number -- pack (mapInArrow) --+
                                                  +-- union -- groupBy(label, part) -- applyInPandasWithState(operator)
    right -- bucket number -- pack (mapInArrow) --+                                 -- counts -- open (mapInArrow)

The join sets no Spark timeout and no Spark watermark: rows and ticks advance the frontiers.

On this backend, a group has one state, which is always written as a whole. A call sees only the state of its own group.
A bucket therefore has two groups in the same state partition. Spark calls them one after the other in one task::

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
import pyarrow as pa
from pyspark.sql import functions as F

from ivjoin.errors import SnapshotError
from ivjoin.operator.memory.budget import Budget
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.arrow import hash_sql, in_places, key_sql
from ivjoin.spark.rows.late import kept_late
from ivjoin.spark.rows.metrics import MOST_GATHERED, observed
from ivjoin.spark.rows.pack import PACKED_SCHEMA, packer
from ivjoin.spark.rows.results import RESULT_SCHEMA, MapStage, Results
from ivjoin.spark.runtime.environment import arrow_batch_rows
from ivjoin.spark.spread.buckets import bucket_labels, count_in_task
from ivjoin.spark.state.bucket import Arrivals, Turn, arrivals
from ivjoin.spark.state.codec import FORMAT, STATE_SCHEMA, BucketState, new_token, note_and_state, read_state, with_note
from ivjoin.spark.state.journal import BucketJoin, Log, segment_of
from ivjoin.spark.state.streamspread import UNSPREAD, StreamSpread

__all__ = ["BucketFunction", "packed_sides", "streaming_join"]

# Token and size of the last base of each bucket that this process wrote, oldest first: the base's call cannot write to
# the log. Other workers use an earlier base's size from the log.
_sizes: OrderedDict[tuple[str, int], tuple[str, int]] = OrderedDict()
_MOST_SIZES = 4096


@dataclass(slots=True)
class _TwoGroups:
    """The state of a bucket, which the call for the log passes on to the call for the base."""

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


class BucketFunction(BucketJoin):
    """The function that Spark calls for each group. The key is a label, and null or a number."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
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
        base, size = _sizes.get((self.meta, label), ("", 0))
        if before and base == log.base:
            log = replace(log, base_size=size)
        came = arrivals(self.spec, frames)
        again = sum(len(s) for _, s in log.segments)  # Spark writes the whole state, including the old segments
        segment = None if stored.moved else segment_of(came, log.base_size - log.written - again)
        after = new_token()
        if segment is None:
            new = Log(after, log.base_size)
        else:
            written = log.written + again + len(segment)
            new = Log(log.base, log.base_size, written, (*log.segments, (after, segment)))
        packed = new.packed()
        if self.plans_in(label):
            said = self.note(said, came)
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
            _remember((self.meta, label), begun.after, len(made))
            self._write(state, begun.after, "", made)

        begun.stored, begun.write = stored.payload, write
        yield from self.turn(label, begun.came, begun, begun.turn)

    def _read(self, state: Any) -> tuple[str, BucketState]:
        """Return the note and the state of a group; both are empty before the first turn."""
        if not state.exists:
            return "", BucketState("", b"")
        said, stored = note_and_state(state.get) if self.has_notes else ("", state.get)
        return said, read_state(stored, self.meta)

    def _write(self, state: Any, token: str, said: str, payload: bytes) -> None:
        stored = with_note(said, payload) if self.has_notes else payload
        state.update((FORMAT, self.meta, token, stored))


def _remember(name: tuple[str, int], token: str, size: int) -> None:
    _sizes[name] = token, size
    _sizes.move_to_end(name)
    while len(_sizes) > _MOST_SIZES:
        _sizes.popitem(last=False)


def packed_sides(
    left: Any, right: Any, spec: JoinSpec, buckets: int | None, spread: StreamSpread = UNSPREAD,
    two_groups: bool = False,
) -> Any:
    """Return both inputs as packed rows."""
    plan = plan_of(spec)
    packed = []
    for side, frame in enumerate((left, right)):
        # plans look at the rows themselves
        hashed = F.lit(0) if spread.plans else F.expr(hash_sql(key_sql(plan, by_name=True), side))
        rows = in_places(frame).select(hashed.cast("bigint").alias("hash"), "*")
        packed.append(rows.mapInArrow(_packer(spec, side, buckets, spread, two_groups), PACKED_SCHEMA))
    return packed[0].union(packed[1])


def _packer(spec: JoinSpec, side: int, buckets: int | None, spread: StreamSpread, two_groups: bool) -> MapStage:
    """Return the function of a map task, which looks up the number of buckets when it runs."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        labels = bucket_labels(spread.used(spec, count_in_task(buckets)))
        route = spread.plans.way if spread.plans else None
        return packer(spec, side, labels, route=route, two_groups=two_groups)(batches)

    return pack


def streaming_join(
    packed: Any, spec: JoinSpec, buckets: int | None, name: str, segmented: bool, results: Results | None = None,
    spread: StreamSpread = UNSPREAD, budget: Budget | None = None,
) -> Any:
    """Join the frame of :func:`packed_sides`, and return packed rows. Counts are observed under ``name``.

    ``segmented`` selects the backend of ``segments``, which allows several such joins in one query.
    """
    if results is None:  # transformWithState passes every frame on at once
        results = Results(0 if segmented else arrow_batch_rows(packed.sparkSession), late=kept_late(spec))
    if segmented:
        from ivjoin.spark.state.segments import SegmentedBucket, check_setup

        check_setup(packed.sparkSession)
        played = packed.groupBy("label").transformWithStateInPandas(
            SegmentedBucket(spec, buckets, results, spread, budget), RESULT_SCHEMA, "append", "None"
        )
    else:
        played = packed.groupBy("label", "part").applyInPandasWithState(
            BucketFunction(spec, buckets, results, spread, budget), RESULT_SCHEMA, STATE_SCHEMA, "append", "NoTimeout"
        )
    return observed(played, name, by_bucket=(buckets or 0) <= MOST_GATHERED)
