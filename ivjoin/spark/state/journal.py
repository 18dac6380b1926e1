"""A bucket's state as a base and a log: the operator's snapshot, and the turns that it has played since.

A turn depends on nothing but the state and what came, so an operator is made again from its base by playing the log to
it. A micro-batch then writes what it brought. The log becomes a new base where more has been written to it since the
last one than a base takes, so that over time no more is written for it than for the bases.
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
    """The turns since a base, as the state of a group holds them.

    Attributes
    ----------
    base : str
        The token of the state that the base is; empty where there is none.
    base_size : int
        Bytes of the base, or of the one before it where nobody has told yet.
    written : int
        Bytes that were written to the log since the base.
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
    """What came, as a log takes it; None where it has more than so many bytes, and a new base is due.

    What is larger before it is compressed is not compressed to see: a log of one turn or two would save little.
    """
    if sum(len(rows) for side in came.packed for rows in side) > room:
        return None
    segment = compressed(turn_bytes(came))
    return segment if len(segment) <= room else None


def opened(
    spec: JoinSpec, name: tuple[str, int], token: str, base: Callable[[], bytes | None],
    segments: Callable[[], Iterable[bytes]], turn: Turn, budget: Budget | None,
) -> SymmetricHashJoin:
    """The operator of the state with this token: from memory, or made of its base and its log; new without a token."""
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
