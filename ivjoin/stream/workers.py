"""Threads that join slices: tasks are numbered, each is one hand-over, and the output comes in the order of the tasks.

The thread that reads the output is one of them. It takes the output of one task after the other and joins a task itself
where the next one is not ready. So the rows and their order are the same for any number of threads.

Threads know the board alone, never the stream: a stream that is dropped is noticed, and they end. To stop them takes no
lock, since a stream may be dropped, and collected, wherever Python code runs.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Condition, Lock, Thread
from typing import Generic, TypeVar

import pyarrow as pa

from ivjoin.errors import ProtocolError

__all__ = ["joined"]

_AHEAD = 2  # tasks for each thread that are begun before the output of those before is taken
_WAIT = 0.05  # seconds between two looks at whether the stream is still there
_MOST_BYTES = 1 << 26  # of a task's output that wait to be taken; its thread waits then

_Task = TypeVar("_Task")
_Joiner = Callable[[_Task], Iterator[pa.RecordBatch]]


class _Place:
    """The output of a task that waits to be taken."""

    __slots__ = ("batches", "done", "error", "nbytes")

    def __init__(self) -> None:
        self.batches: deque[pa.RecordBatch] = deque()
        self.nbytes = 0
        self.done = False
        self.error: BaseException | None = None


class _Board(Generic[_Task]):
    """What the threads share."""

    def __init__(self, tasks: Sequence[_Task], make: Callable[[], _Joiner[_Task]], ahead: int) -> None:
        self.tasks, self.make, self.ahead = tasks, make, ahead
        self.stopped = False
        self.places: dict[int, _Place] = {}
        self.begun = self.taken = 0  # tasks
        # Held by `with held`: an interrupt may come within Condition's own __enter__ once it has the lock.
        self.held = Lock()
        self.changed = Condition(self.held)
        self.process = os.getpid()

    def claimed(self) -> tuple[int, _Place] | None:
        """The next task, where there is one and it is not too far ahead; ``held`` is to be held."""
        number = self.begun
        if number == len(self.tasks) or number >= self.taken + self.ahead:
            return None
        self.begun += 1
        place = self.places[number] = _Place()
        return number, place

    def run(self) -> None:
        """What each thread does."""
        join: _Joiner[_Task] | None = None
        while not self.stopped:
            with self.held:
                found = self.claimed()
                if found is None:
                    if self.begun == len(self.tasks):
                        return
                    self.changed.wait(_WAIT)
                    continue
            number, place = found
            try:
                join = join or self.make()
                for batch in join(self.tasks[number]):
                    self.put(place, batch)
                    if self.stopped:
                        return
            except BaseException as e:
                place.error = e
            place.done = True
            with self.held:
                self.changed.notify_all()

    def put(self, place: _Place, batch: pa.RecordBatch) -> None:
        """Add a batch; where too much waits already, let some of it be taken first."""
        size = batch.nbytes
        if place.nbytes and place.nbytes + size > _MOST_BYTES:
            with self.held:
                self.changed.notify_all()
                while not self.stopped and place.nbytes and place.nbytes + size > _MOST_BYTES:
                    self.changed.wait(_WAIT)
        place.batches.append(batch)
        place.nbytes += size


def joined(tasks: Sequence[_Task], make: Callable[[], _Joiner[_Task]], threads: int) -> Iterator[pa.RecordBatch]:
    """The output of all tasks, in their order, by so many threads.

    Parameters
    ----------
    tasks : sequence
    make : callable
        What joins one task after the other; each thread makes its own.
    threads : int
        The one that reads is among them.

    Raises
    ------
    BaseException
        Whatever a task raises, after the output of the tasks before.
    """
    threads = min(threads, len(tasks))
    if threads <= 1:
        join = make()
        for task in tasks:
            yield from join(task)
        return
    board = _Board(tasks, make, _AHEAD * threads)
    try:
        _start(board, threads - 1)
        yield from _taken(board)
    finally:
        board.stopped = True


def _start(board: _Board[_Task], threads: int) -> None:
    for _ in range(threads):
        # A daemon: a program that ends with a stream half read does not wait for it.
        thread = Thread(target=board.run, name="ivjoin slice", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has none to give; the others do the work
            return


def _taken(board: _Board[_Task]) -> Iterator[pa.RecordBatch]:
    join: _Joiner[_Task] | None = None
    while board.taken < len(board.tasks):
        with board.held:
            place = board.places.get(board.taken)
            found = None if place is not None and (place.done or place.batches) else board.claimed()
            if found is None and not (place is not None and (place.done or place.batches)):
                board.changed.wait(_WAIT)
                if board.process != os.getpid():
                    raise ProtocolError(
                        "this process was forked from the one whose threads join this stream; join again here"
                    )
                continue
        if found is None:
            assert place is not None
            yield from _output(board, place)
            continue
        number, place = found
        join = join or board.make()
        if number == board.taken:  # nothing is before it: its output is taken as it is made
            yield from join(board.tasks[number])
            place.done = True
        else:
            try:
                for batch in join(board.tasks[number]):
                    place.batches.append(batch)
            except Exception as e:
                place.error = e
            place.done = True


def _output(board: _Board[_Task], place: _Place) -> Iterator[pa.RecordBatch]:
    """What waits of the next task; the task after it is the next one once there is no more."""
    done = place.done  # before its batches are looked at
    while place.batches:
        batch = place.batches.popleft()
        place.nbytes = max(0, place.nbytes - batch.nbytes)
        yield batch
    if done and place.error is not None:
        raise place.error
    with board.held:
        if done:
            del board.places[board.taken]
            board.taken += 1
        board.changed.notify_all()
