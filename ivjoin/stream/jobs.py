"""Whole joins on other threads, their output through queues that hold them back when nobody takes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from queue import Full, Queue
from threading import Event, Semaphore, Thread

import pyarrow as pa

from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.planner import JoinPlan

__all__ = ["Job", "Jobs", "Pushes"]

_AHEAD = 16  # output batches that a job may hold ready
_WAIT = 0.05  # seconds between two looks at whether anybody still reads

Pushes = list[tuple[str, pa.RecordBatch]]


class Job:
    """A join of what is pushed, from its first row to its end, on a thread of its own.

    Attributes
    ----------
    rows, nbytes : int
        Of its input.
    """

    def __init__(self, plan: JoinPlan, pushes: Pushes, turn: Semaphore) -> None:
        self.rows = sum(b.num_rows for _, b in pushes)
        self.nbytes = sum(b.nbytes for _, b in pushes)
        self._queue: Queue[pa.RecordBatch | None] = Queue(_AHEAD)
        self._stop = Event()
        self._error: BaseException | None = None
        # A daemon: a program that ends with a stream half read does not wait for it.
        self._thread = Thread(target=self._run, args=(plan, pushes, turn), name="ivjoin slice", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether all of its output waits to be taken."""
        return not self._thread.is_alive()

    def output(self) -> Iterator[pa.RecordBatch]:
        """All output; an error of the join comes out here."""
        while (batch := self._queue.get()) is not None:
            yield batch
        if self._error is not None:
            raise self._error

    def end(self) -> None:
        """Let it stop, and wait until it has."""
        self._stop.set()
        self._thread.join()

    def _run(self, plan: JoinPlan, pushes: Pushes, turn: Semaphore) -> None:
        try:
            with turn:
                op = SymmetricHashJoin.from_plan(plan)
                for side, batch in pushes:
                    for out in op.push(side, batch):
                        self._put(out)
                    if self._stop.is_set():
                        return
                for out in op.finish():
                    self._put(out)
        except BaseException as e:
            self._error = e
        finally:
            pushes.clear()
            self._put(None)

    def _put(self, item: pa.RecordBatch | None) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=_WAIT)
                return
            except Full:
                continue


class Jobs:
    """Jobs in the order in which their output is wanted; so many are at work at a time, and one more may wait."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._turn = Semaphore(threads)
        self._jobs: deque[Job] = deque()

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def rows(self) -> int:
        """Rows of their inputs."""
        return sum(job.rows for job in self._jobs)

    @property
    def nbytes(self) -> int:
        """Bytes of their inputs."""
        return sum(job.nbytes for job in self._jobs)

    def start(self, plan: JoinPlan, pushes: Pushes) -> None:
        """Begin a job."""
        self._jobs.append(Job(plan, pushes, self._turn))

    def taken(self, most: int) -> Iterator[pa.RecordBatch]:
        """Output until no more than ``most`` jobs are left, and of those that are done by then."""
        while self._jobs and (len(self._jobs) > most or self._jobs[0].is_done):
            job = self._jobs[0]
            try:
                yield from job.output()
            finally:
                job.end()
                self._jobs.popleft()

    def end(self) -> None:
        """Stop all; nothing more is taken."""
        for job in self._jobs:
            job._stop.set()
        while self._jobs:
            self._jobs.popleft().end()


