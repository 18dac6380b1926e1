"""Store a bucket's state as a base and a log: the operator's snapshot, and the turns that it has run since.

A turn depends only on the state and its input. So the operator can be built again from its base by replaying the log,
and a micro-batch only has to write its input. When the bytes written to the log since the last base exceed the size of
a base, a new base replaces the log. Over time, the log therefore takes no more writes than the bases.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.codec import compressed, expanded
from ivjoin.spark.state.bucket import Arrivals, Turn, new_operator, play, restored, taken
from ivjoin.spark.state.turns import arrivals_of, found_again, turn_bytes

__all__ = ["Log", "opened", "segment_of"]

@dataclass(frozen=True, slots=True)
class Log:
    """The turns since a base, in the form that the state of a group stores.

    Attributes
    ----------
    base : str
        The token of the state in the base; empty if there is no base yet.
    base_size : int
        Bytes of the base, or of the base before it while the size of the new one is not yet known here.
    written : int
        Bytes written to the log since the base.
    segments : tuple of bytes
        The turns, oldest first, compressed.
    """

    base: str = ""
    base_size: int = 0
    written: int = 0
    segments: tuple[bytes, ...] = ()

    def packed(self) -> bytes:
        sizes = [len(s) for s in self.segments]
        head = json.dumps([self.base, self.base_size, self.written, sizes], separators=(",", ":"))
        return head.encode() + b"\n" + b"".join(self.segments)

    @classmethod
    def unpacked(cls, data: bytes) -> Log:
        head, _, body = data.partition(b"\n")
        base, base_size, written, sizes = json.loads(head)
        segments, at = [], 0
        for size in sizes:
            segments.append(body[at : at + size])
            at += size
        return cls(base, base_size, written, tuple(segments))


def segment_of(came: Arrivals, room: int) -> bytes | None:
    """Return the input of a turn as a segment of the log; None if it exceeds ``room`` bytes and needs a new base.

    An input that exceeds ``room`` before compression is not compressed. The log could take only one or two such turns,
    which would not save much.
    """
    if sum(len(rows) for side in came.packed for rows in side) > room:
        return None
    segment = compressed(turn_bytes(came))
    return segment if len(segment) <= room else None


def opened(
    spec: JoinSpec, name: tuple[str, int], token: str, base: Callable[[], bytes | None],
    segments: Callable[[], Iterable[bytes]], turn: Turn, budget: Budget | None,
) -> SymmetricHashJoin:
    """Return the operator of the state with this token, from memory or from base and log; a new one without a token."""
    if not token:
        taken(name)
        return new_operator(spec, budget)
    op, turn.caught_up = found_again(spec, name, token, budget)
    if op is not None:
        return op
    turn.restored = True
    payload = base()
    op = new_operator(spec, budget) if payload is None else restored(expanded(payload), budget)
    for segment in segments():
        for _ in play(op, spec, arrivals_of(spec, expanded(segment)), again=True):
            pass
    return op
