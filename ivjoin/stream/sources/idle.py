"""Read two inputs in threads, so that one that is silent for a while does not hold the other one back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from queue import Queue
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin.arguments import one_of
from ivjoin.errors import OptionError, came
from ivjoin.expr.ordinal import python_value
from ivjoin.frontier.durations import EXAMPLES, seconds_of_text
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.spec import SIDES
from ivjoin.stream.sources.gathering import Pieces

if TYPE_CHECKING:
    from ivjoin.stream.after.lockstep import Lockstep

__all__ = ["Idle", "idle_of", "joined_idly"]

_LONGEST = threading.TIMEOUT_MAX
_AHEAD = 2  # pieces of an input that wait


@dataclass(frozen=True, slots=True)
class Idle:
    """When an input counts as silent; ``advances``: its order then follows the other one."""

    seconds: float
    advances: bool


def idle_of(idle_timeout: str | float | timedelta | None, idle: str) -> Idle | None:
    """Return what the options mean; None without a timeout."""
    one_of("idle", idle, ("wait", "advance"), OptionError)
    if idle_timeout is None:
        if idle != "wait":
            raise OptionError(f"idle={idle!r} without idle_timeout=; give one, such as idle_timeout='5s'")
        return None
    seconds: Any = None
    if isinstance(idle_timeout, str):
        seconds = seconds_of_text(idle_timeout)
    elif isinstance(idle_timeout, timedelta):
        seconds = idle_timeout.total_seconds()
    elif isinstance(idle_timeout, (int, float)) and not isinstance(idle_timeout, bool):
        seconds = idle_timeout
    if seconds is None or not 0 < seconds <= _LONGEST:
        raise OptionError(
            f"idle_timeout is {came(idle_timeout)}; expected a time above zero: seconds, a timedelta or text such as "
            f"{EXAMPLES}"
        )
    return Idle(float(seconds), idle == "advance")


class _Reader(threading.Thread):
    """Reads the pieces of an input until it ends or :meth:`stop` is called."""

    def __init__(self, p: int, pieces: Pieces, arrived: threading.Event) -> None:
        super().__init__(name=f"ivjoin reading {SIDES[p]}", daemon=True)
        self._pieces, self._arrived = pieces, arrived
        self._found: Queue[pa.RecordBatch | BaseException | None] = Queue(_AHEAD)
        self.stopped = False
        self.start()

    def run(self) -> None:
        while not self.stopped:
            found: pa.RecordBatch | BaseException | None
            try:
                found = self._pieces.next()
            except BaseException as e:
                found = e
            self._found.put(found)
            self._arrived.set()
            if not isinstance(found, pa.RecordBatch):
                return

    @property
    def waits(self) -> bool:
        """Return whether a piece, or the end, has arrived."""
        return not self._found.empty()

    def take(self) -> pa.RecordBatch | None:
        """Return the next piece; None at the end."""
        found = self._found.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def stop(self) -> None:
        self.stopped = True
        while self.waits:  # a reader that waits for capacity continues, and ends
            self._found.get()


def joined_idly(
    op: SymmetricHashJoin | Lockstep, inputs: tuple[Pieces, Pieces], idle: Idle
) -> Iterator[pa.RecordBatch]:
    """Yield the output of a join. An input that is silent for the timeout is left aside until it gives a piece.

    Pieces are taken from the lagging input, as without a timeout, as long as it is not silent.
    """
    arrived = threading.Event()  # of a piece of either input
    readers = [_Reader(p, pieces, arrived) for p, pieces in enumerate(inputs)]
    rows, open_ = [0, 0], [True, True]
    silent: int | None = None
    try:
        while any(open_):
            p = _next(op, rows, open_)
            if not readers[p].waits and silent != p and open_[1 - p]:
                if not _wait(arrived, readers[p], idle.seconds):
                    silent = p
            if not readers[p].waits and open_[1 - p]:
                # Silent: take what the other side has, or whichever piece arrives first.
                while not any(r.waits and open_[s] for s, r in enumerate(readers)):
                    arrived.wait()
                    arrived.clear()
                p = p if readers[p].waits else 1 - p
            batch = readers[p].take()
            if silent == p:
                silent = None
            if batch is None:
                open_[p] = False
                yield from op.finish(SIDES[p])
                continue
            rows[p] += batch.num_rows
            yield from op.push(SIDES[p], batch)
            if silent == 1 - p and idle.advances and open_[silent]:
                yield from _advanced(op, silent)
    finally:
        for reader in readers:
            reader.stop()


def _next(op: SymmetricHashJoin | Lockstep, rows: list[int], open_: list[bool]) -> int:
    if not (open_[0] and open_[1]):
        return 0 if open_[0] else 1
    return op.lagging(rows[0], rows[1])


def _wait(arrived: threading.Event, reader: _Reader, seconds: float) -> bool:
    """Wait until a reader has a piece; return False if nothing came within so many seconds."""
    end = monotonic() + seconds
    while not reader.waits and (left := end - monotonic()) > 0:
        arrived.wait(left)
        arrived.clear()
    return reader.waits


def _advanced(op: SymmetricHashJoin | Lockstep, silent: int) -> Iterator[pa.RecordBatch]:
    """Promise that the silent side has nothing before the position of the other one, by their first orders."""
    other = op.frontiers[1 - silent].trackers
    mine = op.plan.sides[silent].orders
    if not other or not mine or not other[0].seen_value:
        return
    node, _, order = mine[0]
    tracker = other[0]
    if tracker.descending != order.descending or tracker.node.type.kind != node.type.kind:
        return
    limit = ~tracker.limit if tracker.descending else tracker.limit
    yield from op.advance(SIDES[silent], {node: python_value(limit, tracker.node.type)})


