"""Store a bucket's state as a base and a log: the operator's snapshot, and the turns that it has run since.

A turn depends only on the state and its input. So replaying the log rebuilds the operator, and a micro-batch only has
to add its input to the log. A new base replaces the log when more bytes were written to it than a base takes. Each
segment carries the token of the state that it led to, so a worker whose operator is some turns old replays only what
it missed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.codec import compressed, expanded
from ivjoin.spark.rows.pack import Seen
from ivjoin.spark.state.bucket import Arrivals, Turn, new_operator, play, restored, run_spec, taken
from ivjoin.spark.state.moving import moved

__all__ = ["Log", "Segment", "StateBackend", "opened", "segment_of"]

#: The token of the state after a turn, and the input of the turn, compressed.
Segment = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Log:
    """The turns since a base."""

    base: str = ""  # token of the state in the base; empty without a base
    base_size: int = 0  # bytes of the base, or of the one before while the new size is not known here
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
    """The state of one bucket in one turn, wherever Spark stores it."""

    before: str  # token of the state before the turn; empty if the bucket has no state yet
    after: str
    rebased: bool  # whether the turn writes a new base, as the first turn and those of a ``moved`` state do
    moved: bool  # as in ``BucketState``

    def base(self) -> bytes:
        """Return the compressed snapshot of a state."""

    def log(self) -> Log:
        """Return the log before this turn."""

    def written(self, base: bytes | None) -> int:
        """Write the state after the turn, with this base if it is a new one. Return the bytes passed to Spark."""


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
