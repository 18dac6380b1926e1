"""Read two inputs in threads, so that the join does not wait for a silent input longer than a timeout."""

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

__all__ = ["Idle", "Readers", "idle_of"]

_LONGEST = threading.TIMEOUT_MAX
_AHEAD = 2  # pieces of an input that are read ahead


@dataclass(frozen=True, slots=True)
class Idle:
    """The time after which an input counts as silent. ``advances``: its order then follows the other input's order."""

    seconds: float
    advances: bool


def idle_of(idle_timeout: str | float | timedelta | None, idle: str) -> Idle | None:
    """Return the meaning of the options, or None without a timeout."""
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
        self.rows = 0  # rows that were returned
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

    def next(self) -> pa.RecordBatch | None:
        """Return the next piece, or None at the end."""
        found = self._found.get()
        if isinstance(found, BaseException):
            raise found
        self.rows += 0 if found is None else found.num_rows
        return found

    def stop(self) -> None:
        self.stopped = True
        while self.waits:  # a reader that waits for capacity in the queue continues, and ends
            self._found.get()


class Readers:
    """Read two inputs in threads. An input that is silent for the timeout is skipped until it has a piece."""

    def __init__(self, op: SymmetricHashJoin | Lockstep, inputs: tuple[Pieces, Pieces], idle: Idle) -> None:
        self._op, self._idle = op, idle
        self._arrived = threading.Event()  # set when a piece of either input has arrived
        self.sides = [_Reader(p, pieces, self._arrived) for p, pieces in enumerate(inputs)]
        self._silent: int | None = None

    def turn(self, p: int) -> int:
        """Return the side to read next while both are open: the lagging side ``p``, unless it is silent."""
        if not self.sides[p].waits and self._silent != p and not self._wait(p):
            self._silent = p
        if not self.sides[p].waits:
            # The side is silent. Read the other side, or the side whose piece arrives first.
            while not any(side.waits for side in self.sides):
                self._arrived.wait()
                self._arrived.clear()
            p = p if self.sides[p].waits else 1 - p
        if self._silent == p:
            self._silent = None
        return p

    def _wait(self, p: int) -> bool:
        """Wait until a side has a piece. Return False if none has arrived within the timeout."""
        end = monotonic() + self._idle.seconds
        while not self.sides[p].waits and (left := end - monotonic()) > 0:
            self._arrived.wait(left)
            self._arrived.clear()
        return self.sides[p].waits

    def advanced(self, p: int) -> Iterator[pa.RecordBatch]:
        """Promise that a silent side has no rows before the position of side ``p``, by their first orders."""
        silent = 1 - p
        if silent != self._silent or not self._idle.advances:
            return
        other = self._op.frontiers[p].trackers
        mine = self._op.plan.sides[silent].orders
        if not other or not mine or not other[0].seen_value:
            return
        node, _, order = mine[0]
        tracker = other[0]
        if tracker.descending != order.descending or tracker.node.type.kind != node.type.kind:
            return
        limit = ~tracker.limit if tracker.descending else tracker.limit
        yield from self._op.advance(SIDES[silent], {node: python_value(limit, tracker.node.type)})

    def stop(self) -> None:
        for side in self.sides:
            side.stop()
