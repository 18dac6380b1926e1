"""Whole joins on other threads, their output through one queue that holds them back when nobody takes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, Full, Queue, SimpleQueue
from threading import Event, Thread

import pyarrow as pa

from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.planner import JoinPlan

__all__ = ["Jobs", "Pushes"]

_AHEAD = 8  # output batches that may wait to be taken, for each thread
_WAIT = 0.05  # seconds between two looks at whether anybody still reads

Pushes = list[tuple[str, pa.RecordBatch]]
Keep = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(slots=True, eq=False)
class _Job:
    """A join of what is pushed, from its first row to its end."""

    pushes: Pushes
    rows: int
    nbytes: int
    peak: tuple[int, int] = (0, 0)  # rows and bytes that its operator has held


class _Work:
    """What the threads know: no reference leads from here to who asked, so that what is dropped is noticed."""

    def __init__(self, plan: JoinPlan, ahead: int, keep: Keep | None) -> None:
        self.plan, self.keep = plan, keep
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.output: Queue[pa.RecordBatch | _Job | BaseException] = Queue(ahead)
        self.stop = Event()

    def run(self) -> None:
        """Join by join, until there is none."""
        while (job := self.jobs.get()) is not None and not self.stop.is_set():
            try:
                self._join(job)
            except BaseException as e:
                self._put(e)
                return
            job.pushes.clear()
            self._put(job)

    def _join(self, job: _Job) -> None:
        op = SymmetricHashJoin.from_plan(self.plan)
        for side, batch in job.pushes:
            for out in op.push(side, batch):
                self._put(out if self.keep is None else self.keep(out))
            if self.stop.is_set():
                return
        for out in op.finish():
            self._put(out if self.keep is None else self.keep(out))
        m = op.metrics
        job.peak = m.peak_state_rows, m.peak_state_bytes

    def _put(self, item: pa.RecordBatch | _Job | BaseException) -> None:
        while not self.stop.is_set():
            try:
                self.output.put(item, timeout=_WAIT)
                return
            except Full:
                continue


class Jobs:
    """Joins of one plan, as many at work as there are threads; what they put out comes as it is ready.

    Parameters
    ----------
    plan : JoinPlan
    threads : int
    keep : function, optional
        What is to be kept of each batch of output.
    """

    def __init__(self, plan: JoinPlan, threads: int, keep: Keep | None = None) -> None:
        self._work = _Work(plan, _AHEAD * threads, keep)
        self._most = threads
        self._threads: list[Thread] = []
        self._jobs: deque[_Job] = deque()
        self._peaks: list[tuple[int, int]] = []  # the greatest, as many as there are threads

    @property
    def peak(self) -> tuple[int, int]:
        """Rows and bytes that operators at work at one time have held, at most."""
        return sum(rows for rows, _ in self._peaks), sum(size for _, size in self._peaks)

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def rows(self) -> int:
        """Rows of the inputs of joins that are not done."""
        return sum(job.rows for job in self._jobs)

    @property
    def nbytes(self) -> int:
        """Bytes of these inputs."""
        return sum(job.nbytes for job in self._jobs)

    def start(self, pushes: Pushes) -> None:
        """Begin a join, as soon as a thread is free."""
        job = _Job(pushes, sum(b.num_rows for _, b in pushes), sum(b.nbytes for _, b in pushes))
        self._jobs.append(job)
        if len(self._threads) < min(self._most, len(self._jobs)):
            # A daemon: a program that ends with a stream half read does not wait for it.
            thread = Thread(target=self._work.run, name="ivjoin slice", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._work.jobs.put(job)

    def taken(self, most: int) -> Iterator[pa.RecordBatch]:
        """Output that is ready, and more until no more than ``most`` joins are not done; an error of one comes here."""
        output = self._work.output
        while self._jobs:
            try:
                item = output.get(block=len(self._jobs) > most)
            except Empty:
                return
            if isinstance(item, _Job):
                self._jobs.remove(item)
                self._peaks = sorted([*self._peaks, item.peak])[-self._most :]
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item

    def end(self) -> None:
        """Stop all; nothing more is taken."""
        self._work.stop.set()
        for _ in self._threads:
            self._work.jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._jobs.clear()
        for waiting in (self._work.jobs, self._work.output):  # which hold batches
            while not waiting.empty():
                waiting.get_nowait()
