"""Threads that join slices: tasks are numbered, each is one hand-over, and the output follows the order of the tasks.

The thread that reads the output is one of them. It takes the output of one task after the other, and joins a task
itself while the next output is not ready. So the rows and their order are the same for any number of threads.

Threads know the shared state alone, never the stream, so a stream that is dropped is noticed. To stop them takes no
lock: a stream may be dropped, and collected, in any thread and at any time.
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

_AHEAD = 2  # tasks for each thread that begin before the output of earlier tasks is taken
_WAIT = 0.05  # seconds between two looks at whether the stream is still there
_MOST_BYTES = 1 << 26  # of a task's output that wait to be taken; its thread waits then

_Task = TypeVar("_Task")


class _Place:
    """The output of a task that waits to be taken. One thread adds to it and another one takes."""

    __slots__ = ("added", "batches", "done", "error", "taken")

    def __init__(self) -> None:
        self.batches: deque[pa.RecordBatch] = deque()
        self.added = self.taken = 0  # bytes, each written by one thread
        self.done = False
        self.error: BaseException | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.added += batch.nbytes

    @property
    def is_ready(self) -> bool:
        return self.done or bool(self.batches)

    @property
    def is_full(self) -> bool:
        return self.added - self.taken > _MOST_BYTES


class _Shared(Generic[_Task]):
    """What the threads share."""

    def __init__(
        self, tasks: Sequence[_Task], make: Callable[[], Callable[[_Task], Iterator[pa.RecordBatch]]], ahead: int
    ) -> None:
        self.tasks, self.make, self.ahead = tasks, make, ahead
        self.stopped = False
        self.places: dict[int, _Place] = {}
        self.begun = self.taken = 0  # tasks
        # Used by `with held`: an interrupt may come within Condition's own __enter__ once it has the lock.
        self.held = Lock()
        self.changed = Condition(self.held)
        self.process = os.getpid()

    def claimed(self) -> tuple[int, _Place] | None:
        """The next task, if there is one and it is not too far ahead; the caller has the lock."""
        number = self.begun
        if number == len(self.tasks) or number >= self.taken + self.ahead:
            return None
        self.begun += 1
        place = self.places[number] = _Place()
        return number, place

    def run(self) -> None:
        """What each thread does."""
        join = None
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
                    place.add(batch)
                    if place.is_full:
                        self._wait_for_reader(place)
                    if self.stopped:
                        return
            except BaseException as e:
                if self.stopped:  # its tables may be released by now
                    return
                place.error = e
            place.done = True
            del found, place  # the error's traceback refers to this call, which is not to refer to the error
            with self.held:
                self.changed.notify_all()

    def _wait_for_reader(self, place: _Place) -> None:
        with self.held:
            self.changed.notify_all()
            while not self.stopped and place.is_full:
                self.changed.wait(_WAIT)


def joined(
    tasks: Sequence[_Task], make: Callable[[], Callable[[_Task], Iterator[pa.RecordBatch]]], threads: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The output of all tasks, in their order, by a number of threads: (number of the task, batch).

    Parameters
    ----------
    tasks : sequence
    make : callable
        Returns a function that joins one task after the other; each thread makes its own.
    threads : int
        The thread that reads is one of them.

    Raises
    ------
    BaseException
        The error of a task, after the output of the tasks before it.
    """
    threads = min(threads, len(tasks))
    if threads <= 1:
        join = make()
        for number, task in enumerate(tasks):
            for batch in join(task):
                yield number, batch
        return
    shared = _Shared(tasks, make, _AHEAD * threads)
    try:
        for _ in range(threads - 1):
            # A daemon: a program that ends with a stream half read does not wait for it.
            thread = Thread(target=shared.run, name="ivjoin slice", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system refuses more threads; the others do the work
                break
        yield from _Reader(shared).output()
    finally:
        shared.stopped = True


class _Reader(Generic[_Task]):
    """The thread that reads: it takes output in order, and joins tasks while the next output is not ready."""

    def __init__(self, shared: _Shared[_Task]) -> None:
        self._shared = shared
        self._join: Callable[[_Task], Iterator[pa.RecordBatch]] | None = None
        # The task that it joins: its number, its place, and the rest of its output.
        self._own: tuple[int, _Place, Iterator[pa.RecordBatch]] | None = None

    def output(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        shared = self._shared
        while shared.taken < len(shared.tasks):
            if self._has_ready():
                yield from self._taken(shared.places[shared.taken])
            elif self._own is not None:
                number, place, rest = self._own
                try:
                    batch = next(rest, None)
                except Exception as e:
                    place.error, batch = e, None
                if batch is None:
                    place.done, self._own = True, None
                elif number == shared.taken and not place.batches:
                    yield number, batch
                else:
                    place.add(batch)

    def _has_ready(self) -> bool:
        """Whether output can be taken; else there is a task of its own to go on with, or it has waited."""
        shared = self._shared
        with shared.held:
            place = shared.places.get(shared.taken)
            if place is not None and place.is_ready:
                return True
            if self._own is None:
                found = shared.claimed()
                if found is not None:
                    self._join = self._join or shared.make()
                    self._own = (*found, self._join(shared.tasks[found[0]]))
                    return False
            elif self._own[0] == shared.taken or not self._own[1].is_full:
                return False
            shared.changed.wait(_WAIT)
            if shared.process != os.getpid():
                raise ProtocolError("this process was forked from the one whose threads join this stream: join again")
            return place is not None and place.is_ready

    def _taken(self, place: _Place) -> Iterator[tuple[int, pa.RecordBatch]]:
        """What waits of the next task."""
        shared = self._shared
        done = place.done  # before its batches are looked at
        while place.batches:
            batch = place.batches.popleft()
            place.taken += batch.nbytes
            yield shared.taken, batch
        if done and place.error is not None:
            raise place.error
        with shared.held:
            if done:
                del shared.places[shared.taken]
                shared.taken += 1
            shared.changed.notify_all()
