"""Join a bucket's input of one micro-batch. Its state is a base and a log: a snapshot, and the turns since then.

A turn depends only on the state and its input. Replaying the log therefore rebuilds the operator, and a micro-batch
only has to add its input to the log. When the log has more bytes than a base, a new base replaces it. Each segment
contains the token of the state after it. A worker with an older operator therefore replays only the turns that it
missed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter_ns
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa

from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.operator.snapshot import MAGIC, VERSION, frontier_state, load_frontier, sealed
from ivjoin.operator.snapshot import opened as unsealed
from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.pack import Seen
from ivjoin.spark.rows.results import Results
from ivjoin.spark.spread.buckets import bucket_labels, count_in_task
from ivjoin.spark.spread.spec import identity
from ivjoin.spark.state.bucket import Arrivals, Turn, keep, new_operator, play, restored, run_spec, taken
from ivjoin.spark.state.codec import compressed, expanded, meta_text
from ivjoin.spark.state.streamspread import UNSPREAD, StreamSpread

__all__ = ["BucketJoin", "Log", "Segment", "StateBackend", "moved", "opened", "segment_of"]

#: The token of the state after a turn, and the input of the turn, compressed.
Segment = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Log:
    """The turns since a base."""

    base: str = ""  # token of the state in the base; empty without a base
    base_size: int = 0  # bytes of the base, or of the previous base until the new size is known
    written: int = 0  # bytes written to the log since the base
    segments: tuple[Segment, ...] = ()  # oldest first

    def packed(self) -> bytes:
        """Return the log in the form that the state of a group stores."""
        sizes = [(token, len(s)) for token, s in self.segments]
        head = json.dumps([self.base, self.base_size, self.written, sizes], separators=(",", ":"))
        return head.encode() + b"\n" + b"".join(s for _, s in self.segments)

    @classmethod
    def unpacked(cls, data: bytes) -> Log:
        head, _, body = data.partition(b"\n")
        base, base_size, written, sizes = json.loads(head)
        segments, at = [], 0
        for token, size in sizes:
            segments.append((token, body[at : at + size]))
            at += size
        return cls(base, base_size, written, tuple(segments))


class StateBackend(Protocol):
    """The state of one bucket in one turn, for any storage of Spark."""

    before: str  # token of the state before the turn; empty if the bucket has no state yet
    after: str
    rebased: bool  # whether the turn writes a new base, as the first turn and turns of a ``moved`` state do
    moved: bool  # as in ``BucketState``

    def base(self) -> bytes:
        """Return the compressed snapshot of a state."""

    def log(self) -> Log:
        """Return the log before this turn."""

    def written(self, base: bytes | None) -> int:
        """Write the state after the turn, with this base if it is new. Return the number of bytes passed to Spark."""


def segment_of(came: Arrivals, room: int) -> bytes | None:
    """Return the input of a turn as a segment of the log; None if it exceeds ``room`` bytes and needs a new base.

    An input that exceeds ``room`` before compression is not compressed: the log could take only one or two such turns.
    """
    if sum(len(rows) for side in came.packed for rows in side) > room:
        return None
    segment = compressed(_bytes_of(came))
    return segment if len(segment) <= room else None


def opened(
    spec: JoinSpec, name: tuple[str, int], state: StateBackend, turn: Turn, budget: Budget | None
) -> SymmetricHashJoin:
    """Return the operator of the state before a turn: from memory, from memory and log, or from base and log."""
    since, op = taken(name) or ("", None)
    if not state.before:
        return new_operator(spec, budget)
    if op is not None and op.account.limit != (None if budget is None else budget.limit):  # of an earlier query
        op = None
    if op is not None and since == state.before:
        return op
    log = state.log()
    tokens = [log.base, *(token for token, _ in log.segments)]
    missed = log.segments
    if op is not None and since in tokens:
        missed = missed[tokens.index(since) :]
        turn.caught_up = len(missed)
    else:
        turn.restored = True
        op = restored(expanded(state.base()), budget)
    of_log = op.plan.spec  # the join that wrote the state
    for _, segment in missed:
        for _ in play(op, of_log, _arrivals_of(of_log, expanded(segment)), again=True):
            pass
    return restored(moved(op.snapshot(), run_spec(spec)), budget) if state.moved else op


def _bytes_of(came: Arrivals) -> bytes:
    """Return the input of a turn as bytes: a line of JSON with sizes and edges, then the packed rows."""
    sizes = [[len(rows) for rows in side] for side in came.packed]
    head = json.dumps({"sizes": sizes, "seen": [s.edges for s in came.seen]}, separators=(",", ":"))
    return head.encode() + b"\n" + b"".join(rows for side in came.packed for rows in side)


def _arrivals_of(spec: JoinSpec, turn: bytes) -> Arrivals:
    head, _, body = turn.partition(b"\n")
    said = json.loads(head)
    packed: tuple[list[bytes], list[bytes]] = ([], [])
    at = 0
    for side, sizes in enumerate(said["sizes"]):
        for size in sizes:
            packed[side].append(body[at : at + size])
            at += size
    seen = (Seen(plan_of(spec), 0), Seen(plan_of(spec), 1))
    for s, edges in zip(seen, said["seen"], strict=True):
        s.edges = edges
    return Arrivals(packed, seen)


class BucketJoin:
    """The join of a bucket. A backend is a subclass that stores the state."""

    def __init__(
        self, spec: JoinSpec, buckets: int | None, results: Results, spread: StreamSpread = UNSPREAD,
        budget: Budget | None = None,
    ) -> None:
        self.spec = spread.run(spec)
        self._identity, self._buckets = identity(spec) | spread.identity, buckets
        self._owned, self._plans = spread.owner(spec), spread.adaptive
        self._results, self._budget = results, budget

    @cached_property
    def meta(self) -> str:
        """The identity of the join, which is part of its state; known in a task."""
        return meta_text(self._identity, len(self._labels))

    @cached_property
    def _labels(self) -> tuple[int, ...]:
        return bucket_labels(count_in_task(self._buckets))

    def turn(self, label: int, came: Arrivals, state: StateBackend, turn: Turn) -> Iterator[pd.DataFrame]:
        """Join the input, yield the results, and write the state and the counts."""
        name = (self.meta, label)
        op = opened(self.spec, name, state, turn, self._budget)
        turn.before = op.metrics.as_dict()
        turn.read = perf_counter_ns()
        joined = play(op, self.spec, came, self._owned, late=self._results.late)
        yield from self._results.frames(turn.delay.counted(joined, came.arrived), label)
        written = state.written(compressed(op.snapshot()) if state.rebased else None)
        keep(name, state.after, op)
        yield self._results.counts(turn.counts(op, written, self._labels.index(label)))

    @property
    def has_notes(self) -> bool:
        return self._plans is not None

    def plans_in(self, label: int) -> bool:
        return self._plans is not None and label == self._labels[0]

    def note(self, said: str, came: Arrivals) -> str:
        assert self._plans is not None
        return self._plans.planned(said, came.heard, [s.edges for s in came.seen])


# -- joins that differ in arguments that may change (``spread.spec``) --------------------------------------------------

def moved(snapshot: bytes, spec: JoinSpec) -> bytes:
    """Return the snapshot of an operator as a snapshot of another join, with the same rows and frontiers.

    An order with a greater slack accepts later rows from now on. Rows that could match these may have been evicted.
    Therefore the earlier promise of the order becomes a watermark, and a row below it is still late.
    """
    header, parts = unsealed(snapshot, MAGIC, VERSION)
    old, new = plan_of(JoinSpec.from_json(header["plan"])), plan_of(spec)
    header["plan"] = spec.as_json
    header["frontiers"] = [_frontier(saved, new, s) for s, saved in enumerate(header["frontiers"])]
    tables = [_columns(part, old, new, s) for s, part in enumerate(parts)]
    header["sizes"] = [len(table) for table in tables]
    return sealed(MAGIC, VERSION, header, tables)


def _frontier(saved: dict[str, Any], plan: JoinPlan, s: int) -> dict[str, Any]:
    frontier = plan.frontiers()[s]
    limits = [order["limit"] for order in saved["orders"]]
    for tracker, order in zip(frontier.trackers, saved["orders"], strict=True):
        order["limit"] = tracker.least_after(order["edge"])
    load_frontier(frontier, saved, s, plan.spec.schemas[s])
    for tracker, limit in zip(frontier.trackers, limits, strict=True):
        if limit != tracker.limit:
            frontier.promise(tracker.node, ~limit if tracker.descending else limit, tracker.descending)
    return frontier_state(frontier)


def _columns(part: bytes, old: JoinPlan, new: JoinPlan, s: int) -> bytes:
    """Return the stored rows of a side with their columns in the order of another plan."""
    before, after = ([p.sides[s].schema.names[i] for i in p.sides[s].stored] for p in (old, new))
    if before == after:
        return part
    batch = pa.ipc.open_stream(pa.py_buffer(part)).read_next_batch()
    columns = [batch.column(before.index(name)) for name in after] + [batch.columns[-1]]
    moved_rows = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, moved_rows.schema) as writer:
        writer.write_batch(moved_rows)
    return sink.getvalue().to_pybytes()
