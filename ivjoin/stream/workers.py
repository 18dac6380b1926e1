"""Join slices in threads. Tasks are numbered, and the output follows the order of the tasks.

While the next output is not ready, the thread that reads the output also joins tasks. The rows and their order are the
same for any number of threads.

Threads refer only to the shared state, never to the stream, so they notice when the stream is dropped. A thread ends
when no task has arrived for a few milliseconds. Stopping acquires no lock, because a stream may be garbage-collected in
any thread at any time.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Condition, Lock, Thread
from typing import Generic, TypeVar

import pyarrow as pa

from ivjoin.errors import ProtocolError

__all__ = ["Workers", "each", "joined"]

_AHEAD = 2  # tasks for each thread that start before the output of earlier tasks is read
_WAIT = 0.05  # seconds between two checks whether the stream still exists
_LINGER = 0.005  # seconds that a thread waits for another task; starting a thread takes a tenth of a millisecond
_MOST_BYTES = 1 << 26  # bytes of a task's output that may wait for the reader; beyond this, its thread waits

_Task = TypeVar("_Task")


class _Place(Generic[_Task]):
    """A task, and its output that waits for the reader. One thread adds to the output, and another one reads it."""

    __slots__ = ("added", "batches", "done", "error", "number", "taken", "task")

    def __init__(self, number: int, task: _Task) -> None:
        self.number = number
        self.task: _Task | None = task  # None once it is joined
        self.batches: deque[pa.RecordBatch] = deque()
        self.added = self.taken = 0  # bytes; one thread writes each counter
        self.done = False
        self.error: BaseException | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.added += batch.nbytes

    def end(self, error: BaseException | None) -> None:
        self.error, self.task = error, None
        self.done = True  # set this last, because the reader checks it first


class _Shared(Generic[_Task]):
    """The state that threads share."""

    def __init__(self, make: Callable[[], Callable[[_Task], Iterator[pa.RecordBatch]]], most_bytes: int | None) -> None:
        self.make = make
        self.most_bytes = _MOST_BYTES if most_bytes is None else most_bytes
        self.stopped = False
        self.waiting: deque[_Place[_Task]] = deque()  # tasks that no thread has started
        self.spare: list[Callable[[_Task], Iterator[pa.RecordBatch]]] = []  # join functions of threads that have ended
        self.at_work = 0  # running threads, without the reader
        self.idle = 0  # how many of these wait for a task
        # Use `with lock`: an interrupt may occur in Condition's own __enter__ after it has acquired the lock.
        self.lock = Lock()
        self.changed = Condition(self.lock)
        self.given = Condition(self.lock)

    def is_full(self, place: _Place[_Task]) -> bool:
        return place.added - place.taken > self.most_bytes

    def joiner(self) -> Callable[[_Task], Iterator[pa.RecordBatch]]:
        """Return a function that joins tasks, one after the other."""
        try:
            return self.spare.pop()
        except IndexError:
            return self.make()

    def claimed(self) -> _Place[_Task] | None:
        """Return a task that no thread has started. The caller must have the lock."""
        try:
            return self.waiting.popleft()
        except IndexError:
            return None

    def run(self) -> None:
        """Join tasks. Each thread runs this."""
        join = None
        while True:
            with self.lock:
                place = self.claimed()
                if place is None and not self.stopped:
                    self.idle += 1
                    self.given.wait(_LINGER)
                    self.idle -= 1
                    place = self.claimed()
                if place is None or self.stopped:
                    self.at_work -= 1
                    if join is not None and not self.stopped:
                        self.spare.append(join)
                    return
            error: BaseException | None = None
            try:
                join = join or self.joiner()
                assert place.task is not None
                for batch in join(place.task):
                    place.add(batch)
                    if self.is_full(place):
                        self._wait_for_reader(place)
                    if self.stopped:
                        return
            except BaseException as e:
                if self.stopped:  # the tables of the task may already be released
                    return
                error, join = e, None
            place.end(error)
            del place, error  # the error's traceback refers to this frame, which must not refer to the error
            with self.lock:
                self.changed.notify_all()

    def _wait_for_reader(self, place: _Place[_Task]) -> None:
        with self.lock:
            self.changed.notify_all()
            while not self.stopped and self.is_full(place):
                self.changed.wait(_WAIT)


class Workers(Generic[_Task]):
    """Threads that join tasks. The thread that reads the output is one of them.

    ``make`` returns each thread's own function, which joins one task after the other. ``most_bytes`` of a task's output
    may wait, in addition to one batch.
    """

    def __init__(
        self, make: Callable[[], Callable[[_Task], Iterator[pa.RecordBatch]]], threads: int,
        most_bytes: int | None = None,
    ) -> None:
        self._threads = threads
        self._shared = _Shared(make, most_bytes)
        self._places: deque[_Place[_Task]] = deque()  # tasks in order whose output was not read yet
        # The task that the reader joins: its place and the rest of its output.
        self._own: tuple[_Place[_Task], Iterator[pa.RecordBatch]] | None = None
        self._join: Callable[[_Task], Iterator[pa.RecordBatch]] | None = None
        self._given = 0
        self._process = os.getpid()

    def __len__(self) -> int:
        """Return the number of tasks whose output was not read."""
        return len(self._places)

    @property
    def tasks(self) -> list[_Task]:
        """Return the tasks that are not joined yet."""
        return [task for place in list(self._places) if (task := place.task) is not None]

    def add(self, *tasks: _Task) -> None:
        """Add tasks. The next free threads run them."""
        self._check_process()
        shared = self._shared
        places = [_Place(number, task) for number, task in enumerate(tasks, self._given)]
        self._given += len(places)
        self._places.extend(places)
        with shared.lock:
            shared.waiting.extend(places)
            starts = max(0, min(len(shared.waiting) - shared.idle, self._threads - 1 - shared.at_work))
            shared.at_work += starts
            shared.given.notify(len(places))
        for started in range(starts):
            # A daemon thread: a program that ends while a stream is half read does not wait for it.
            thread = Thread(target=shared.run, name="ivjoin slice", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system refuses more threads, so the other threads do the work
                self._threads = 1
                with shared.lock:
                    shared.at_work -= starts - started
                return

    def output(self, most: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield (number, batch) of output that is ready, and more until at most ``most`` tasks have output.

        A task's error is raised after the output of the tasks before it.
        """
        while self._places:
            self._check_process()
            place = self._places[0]
            if place.done or place.batches:
                yield from self._taken(place)
            elif self._own is not None and (self._own[0] is place or not self._shared.is_full(self._own[0])):
                yield from self._step(*self._own)
            elif self._own is None and len(self._places) <= most:
                return
            elif self._own is not None or not self._begin():
                with self._shared.lock:
                    if not (place.done or place.batches):
                        self._shared.changed.wait(_WAIT)

    def stop(self) -> None:
        """End the threads. No output can be read afterwards. This neither waits for a thread nor acquires a lock."""
        self._shared.stopped = True
        self._shared.waiting.clear()
        self._shared.spare.clear()
        self._places.clear()
        self._own = self._join = None

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise ProtocolError("this process was forked from the one whose threads join this stream: join again")

    def _begin(self) -> bool:
        """Start a task that no thread has started. Return False if no such task exists."""
        shared = self._shared
        with shared.lock:
            place = shared.claimed()
        if place is None:
            return False
        self._join = self._join or shared.joiner()
        assert place.task is not None
        self._own = place, self._join(place.task)
        return True

    def _step(
        self, place: _Place[_Task], rest: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Return the next batch of the reader's own task."""
        error = None
        try:
            batch = next(rest, None)
        except Exception as e:
            error, batch, self._join = e, None, None
        if batch is None:
            self._own = None
            place.end(error)
        elif place is self._places[0]:
            yield place.number, batch
        else:
            place.add(batch)

    def _taken(self, place: _Place[_Task]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the waiting output of the next task."""
        done = place.done  # read this before the batches
        while place.batches:
            batch = place.batches.popleft()
            place.taken += batch.nbytes
            yield place.number, batch
        if done:
            self._places.popleft()
            if place.error is not None:
                raise place.error
        with self._shared.lock:
            self._shared.changed.notify_all()


def joined(
    tasks: Sequence[_Task], make: Callable[[], Callable[[_Task], Iterator[pa.RecordBatch]]], threads: int,
    ahead: int | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (number of the task, batch) of all tasks, in the order of the tasks. The reader is one of the threads.

    ``make`` returns each thread's own function, which joins one task after the other. A task's error is raised after
    the output of the tasks before it. At most ``ahead`` tasks start before the output of the first one is read.
    """
    threads = min(threads, len(tasks))
    if threads <= 1:
        work = make()
        for number, task in enumerate(tasks):
            for batch in work(task):
                yield number, batch
        return
    workers = Workers(make, threads)
    if ahead is None:
        ahead = _AHEAD * threads
    try:
        workers.add(*tasks[:ahead])
        for task in tasks[ahead:]:
            yield from workers.output(ahead - 1)
            workers.add(task)
        yield from workers.output(0)
    finally:
        workers.stop()


def each(tasks: Sequence[_Task], make: Callable[[], Callable[[_Task], None]], threads: int) -> None:
    """Run all tasks with several threads. Each thread creates its own function, which receives tasks in order.

    The error of the first task that has one is raised.
    """

    def worker() -> Callable[[_Task], Iterator[pa.RecordBatch]]:
        work = make()

        def run(task: _Task) -> Iterator[pa.RecordBatch]:
            work(task)
            return iter(())

        return run

    for _ in joined(tasks, worker, threads, len(tasks)):
        raise AssertionError("a task without output has some")
