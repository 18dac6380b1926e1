"""Whole joins on other threads, their output through one queue that holds them back when nobody takes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import Empty, Full, Queue, SimpleQueue
from threading import Event, Lock, Thread

import pyarrow as pa

from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.planner import JoinPlan
from ivjoin.stream.shares import Share, Work

__all__ = ["Jobs"]

_AHEAD = 8  # output batches that may wait to be taken, for each thread
_WAIT = 0.05  # seconds between two looks at whether anybody still reads

Keep = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(slots=True, eq=False)
class _Job:
    """A share to be joined, by one thread or by several."""

    share: Share | None  # None once it is begun
    rows: int
    nbytes: int
    parts: int = 1  # that are not done
    peaks: list[tuple[int, int]] = field(default_factory=list)  # rows and bytes that their operators have held


class _Threads:
    """What the threads know: no reference leads from here to who asked, so that what is dropped is noticed."""

    def __init__(self, plan: JoinPlan, ahead: int, keep: Keep | None) -> None:
        self.plan, self.keep = plan, keep
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.output: Queue[pa.RecordBatch | _Job | BaseException] = Queue(ahead)
        self.stop = Event()
        self._parts: dict[Work, _Job] = {}  # that are under way
        self._lock = Lock()

    def run(self) -> None:
        """Share by share, until there is none."""
        while (found := self._found()) is not None and not self.stop.is_set():
            job, work = found
            try:
                peak = self._join(work)
            except BaseException as e:
                self._put(e)
                return
            with self._lock:
                del self._parts[work]
                job.peaks.append(peak)
                job.parts -= 1
                done = not job.parts
            if done:
                self._put(job)

    def _found(self) -> tuple[_Job, Work] | None:
        """The next job; where there is none yet, half of what is left of another thread's."""
        try:
            job = self.jobs.get_nowait()
        except Empty:
            helped = self._help()
            if helped is not None:
                return helped
            job = self.jobs.get()
        if job is None:
            return None
        assert job.share is not None
        work, job.share = Work(job.share), None
        with self._lock:
            self._parts[work] = job
        return job, work

    def _help(self) -> tuple[_Job, Work] | None:
        with self._lock:
            if not self._parts:
                return None
            most = max(self._parts, key=lambda work: work.left)
            half, job = most.half(), self._parts[most]
            if half is None:
                return None
            self._parts[half] = job
            job.parts += 1
            return job, half

    def _join(self, work: Work) -> tuple[int, int]:
        op = SymmetricHashJoin.from_plan(self.plan)
        while (push := work.next()) is not None:
            for out in op.push(*push):
                self._put(out if self.keep is None else self.keep(out))
            if self.stop.is_set():
                return 0, 0
        for out in op.finish():
            self._put(out if self.keep is None else self.keep(out))
        m = op.metrics
        return m.peak_state_rows, m.peak_state_bytes

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
        self._work = _Threads(plan, _AHEAD * threads, keep)
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

    def start(self, share: Share) -> None:
        """Begin a join, as soon as a thread is free."""
        sizes = [piece.nbytes for side in share.pieces for piece in side]
        job = _Job(share, share.rows, sum(sizes))
        self._jobs.append(job)
        self._work.jobs.put(job)
        if len(self._threads) < self._most:
            # A daemon: a program that ends with a stream half read does not wait for it.
            thread = Thread(target=self._work.run, name="ivjoin slice", daemon=True)
            self._threads.append(thread)
            thread.start()

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
                self._peaks = sorted([*self._peaks, *item.peaks])[-self._most :]
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
