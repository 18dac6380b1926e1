"""Whole joins on several threads, their output through one queue that holds them back when nobody takes it.

Who asks for the output is one of the threads: once all joins are given, it works at one itself, and no thread is
started for the last one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from math import inf
from queue import Empty, SimpleQueue
from threading import Condition, Lock, Thread
from time import perf_counter
from typing import TypeAlias

import pyarrow as pa

from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.planner import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.stream.memory import Memory
from ivjoin.stream.shares import Share, Work

__all__ = ["Jobs"]

_AHEAD = 8  # output batches that may wait to be taken, for each thread
_WORTH = 4  # times as long as an operator takes to make, a part of a share is worth one
_AGAIN = 0.004  # seconds between two looks at what others have left
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


_Item: TypeAlias = "pa.RecordBatch | _Job | BaseException"


class _Output:
    """What waits to be taken: so many items, and so many bytes, but one in any case."""

    def __init__(self, most: int, nbytes: int | None) -> None:
        self._most, self._most_bytes = most, nbytes
        self._items: deque[tuple[_Item, int]] = deque()
        self._bytes = 0
        # Held by `with self._held`: an interrupt may come within Condition's own __enter__ once it has the lock.
        self._held = Lock()
        self._changed = Condition(self._held)

    def put(self, item: _Item, stopped: Callable[[], bool]) -> None:
        """Wait for room, until it is stopped."""
        size = item.nbytes if self._most_bytes is not None and isinstance(item, pa.RecordBatch) else 0
        with self._held:
            while not stopped() and self._items and self._is_full(size):
                self._changed.wait(_WAIT)
            if not stopped():
                self._items.append((item, size))
                self._bytes += size
                self._changed.notify_all()

    def get(self, block: bool, timeout: float | None = None) -> _Item:
        """The next item; Empty where there is none, and it is not to be waited for any longer."""
        with self._held:
            while not self._items:
                if not block or not self._changed.wait(timeout):
                    raise Empty
            item, size = self._items.popleft()
            self._bytes -= size
            self._changed.notify_all()
            return item

    def _is_full(self, more: int) -> bool:
        much = self._most_bytes is not None and self._bytes + more > self._most_bytes
        return much or len(self._items) >= self._most


class _Threads:
    """What the threads know: no reference leads from here to who asked, so that what is dropped is noticed."""

    def __init__(self, plan: JoinPlan, ahead: int, keep: Keep | None, memory: Memory | None) -> None:
        self.plan, self.keep, self.memory = plan, keep, memory
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.output = _Output(ahead, None if memory is None else memory.output)
        self.stop = False
        self._parts: dict[Work, _Job] = {}  # that are under way
        self._operators: dict[Work, SymmetricHashJoin] = {}
        self._reads: deque[int] = deque()  # of operators that are done
        self._making = inf  # seconds that an operator takes to make, at best
        self._lock = Lock()

    def spilled(self) -> tuple[int, int]:
        """Rows of which something lies in files now, and output rows that were put together meanwhile."""
        found = [op.metrics for op in list(self._operators.values())]
        return sum(m.spilled_rows for m in found), sum(self._reads) + sum(m.reads for m in found)

    def run(self, early: bool = False) -> None:
        """Share by share, until there is none; ``early``: an operator is made before the first one is known."""
        try:
            made = [self._operator()] if early else []
            while (found := self._found()) is not None and not self.stop:
                for item in self.joined(*found, made.pop() if made else None):
                    if item is not None:
                        self.output.put(item, self._stopped)
        except BaseException as e:
            self.output.put(e, self._stopped)

    def _stopped(self) -> bool:
        return self.stop

    def _operator(self) -> SymmetricHashJoin:
        begun = perf_counter()
        op = SymmetricHashJoin.from_plan(self.plan, budget=None if self.memory is None else self.memory.part)
        self._making = min(self._making, perf_counter() - begun)
        return op

    def joined(
        self, job: _Job, work: Work, op: SymmetricHashJoin | None = None
    ) -> Generator[pa.RecordBatch | _Job | None, None, None]:
        """What comes of a part of a job, None after each push, and at last the job where no other part is under way.

        ``op``: one that nothing was pushed to.
        """
        op = self._operator() if op is None else op
        with self._lock:
            self._operators[work] = op
        try:
            yield from self._pushed(op, work)
            if self.stop:
                return
            m = op.metrics
            with self._lock:
                del self._parts[work]
                job.peaks.append((m.peak_state_rows, m.peak_state_bytes))
                job.parts -= 1
                done = not job.parts
        finally:
            # Without the lock: the cyclic collector may run this in a thread that has it.
            self._reads.append(self._operators.pop(work).metrics.reads)
            account = op.account
            del op
            if self.memory is not None:
                self.memory.pool.done(account)
        if done:
            yield job

    def _found(self) -> tuple[_Job, Work] | None:
        """The next job; where there is none yet, half of what is left of another thread's."""
        while True:
            try:
                job = self.jobs.get_nowait()
            except Empty:
                helped = self._help()
                if helped is not None:
                    return helped
                if self.memory is not None:
                    self.memory.pool.rest()
                    job = self.jobs.get()
                else:
                    try:
                        job = self.jobs.get(timeout=self.again)
                    except Empty:
                        continue
            return None if job is None else self._begun(job)

    @property
    def again(self) -> float:
        """Seconds after which what another thread has left may be worth to be taken over: it is judged by what it has
        joined until then."""
        return _AGAIN if self._parts else _WAIT

    def ready(self) -> tuple[_Job, Work] | None:
        """A job that waits, or half of what is left of another thread's, for one that has no limit of memory."""
        try:
            job = self.jobs.get_nowait()
        except Empty:
            return self._help()
        return None if job is None else self._begun(job)

    def _begun(self, job: _Job) -> tuple[_Job, Work] | None:
        if self.memory is not None and not self.memory.pool.take(self._stopped):
            return None
        assert job.share is not None
        work, job.share = Work(job.share, self.memory is None), None
        with self._lock:
            self._parts[work] = job
        return job, work

    def _help(self) -> tuple[_Job, Work] | None:
        if self.memory is not None and not self.memory.pool.take():
            return None
        with self._lock:
            if not self._parts:
                return None
            most = max(self._parts, key=lambda work: work.left)
            half, job = most.half(_WORTH * self._making), self._parts[most]
            if half is None:
                return None
            self._parts[half] = job
            job.parts += 1
            return job, half

    def _pushed(self, op: SymmetricHashJoin, work: Work) -> Iterator[pa.RecordBatch | None]:
        while not self.stop and (push := work.next()) is not None:
            rows = push.batch.num_rows
            # Aggregates refuse a push as a whole; the others take it in pieces by themselves.
            most = rows if self.memory is None or not self.plan.spec.aggregates else self.memory.rows_at_once
            for start in range(0, rows, most):
                for out in op.push(SIDES[push.side], push.batch.slice(start, most)):
                    yield out if self.keep is None else self.keep(out)
            if push.segment is not None:
                push.segment.let_go()
            yield None
        if not self.stop:
            for out in op.finish():
                yield out if self.keep is None else self.keep(out)


class Jobs:
    """Joins of one plan, as many at work as there are threads; what they put out comes as it is ready.

    Parameters
    ----------
    plan : JoinPlan
    threads : int
    keep : function, optional
        What is to be kept of each batch of output.
    memory : Memory, optional
        What all of them share.
    """

    def __init__(self, plan: JoinPlan, threads: int, keep: Keep | None = None, memory: Memory | None = None) -> None:
        self._work = _Threads(plan, _AHEAD * threads, keep, memory)
        self._most = threads
        self._threads: list[Thread] = []
        self._idle = 0  # threads that were started before there was a job for them
        self._jobs: deque[_Job] = deque()
        self._peaks: list[tuple[int, int]] = []  # the greatest, as many as there are threads
        self._helps = False  # who asks for the output
        self._all = False  # whether all joins are given, and who asks may help
        self._own: Generator[pa.RecordBatch | _Job | None, None, None] | None = None  # what it is at work at
        self._done: _Job | None = None  # by its own part, which was the last: what others put out for it may still wait

    @property
    def peak(self) -> tuple[int, int]:
        """Rows and bytes that operators at work at one time have held, at most."""
        return sum(rows for rows, _ in self._peaks), sum(size for _, size in self._peaks)

    @property
    def spilled(self) -> tuple[int, int]:
        """Rows of which something lies in files now, and output rows that were put together meanwhile."""
        return self._work.spilled()

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

    def prepare(self, shares: int) -> None:
        """Start threads, for a join that will have so many shares: each makes its operator while shares are cut."""
        for _ in range(min(self._most, shares) - 1 - len(self._threads)):
            try:
                self._thread(True)
            except RuntimeError:  # the system has none to give: it may not be needed
                return
            self._idle += 1

    def start(self, share: Share, last: bool) -> None:
        """Begin a join, as soon as a thread is free; ``last``: there will be no other."""
        sizes = [piece.nbytes for side in share.pieces for piece in side]
        job = _Job(share, share.rows, sum(sizes))
        self._jobs.append(job)
        self._work.jobs.put(job)
        # Within a limit each thread has a part of it, which is another's while it waits to be asked.
        if last and self._work.memory is None and len(self._threads) < self._most:
            self._helps = self._all = True
        elif self._idle:
            self._idle -= 1
        elif len(self._threads) < self._most:
            self._thread()

    def _thread(self, early: bool = False) -> None:
        # A daemon: a program that ends with a stream half read does not wait for it.
        thread = Thread(target=self._work.run, args=(early,), name="ivjoin slice", daemon=True)
        thread.start()
        self._threads.append(thread)

    def close(self) -> None:
        """No join begins any more."""
        if self._work.memory is not None:
            self._work.memory.pool.end()

    def taken(self, most: int) -> Iterator[pa.RecordBatch]:
        """Output that is ready, and more until no more than ``most`` joins are not done; an error of one comes here."""
        while self._jobs:
            item = self._next(wait=len(self._jobs) > most)
            if item is None:
                return
            if isinstance(item, _Job):
                self._jobs.remove(item)
                self._peaks = sorted([*self._peaks, *item.peaks])[-self._most :]
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item

    def _next(self, wait: bool) -> _Item | None:
        """What is ready; None where that is nothing, and it is not to be worked nor waited for."""
        while True:
            try:
                waits = wait and not self._helps and self._done is None
                return self._work.output.get(waits, self._work.again if self._all and waits else None)
            except Empty:
                if self._done is not None:
                    done, self._done = self._done, None
                    return done
                if not wait:
                    return None
            if self._own is None:
                found = self._work.ready()
                self._helps = found is not None
                if found is not None:
                    self._own = self._work.joined(*found)
            else:
                try:
                    item = next(self._own)
                except StopIteration:
                    self._own = None
                else:
                    if isinstance(item, _Job):
                        self._done = item
                    elif item is not None:
                        return item

    def end(self) -> None:
        """Stop all; nothing more is taken.

        This waits for no thread and takes no lock that a thread may have: the cyclic collector may call it from any
        thread, also from one of these. Each thread ends once it has seen that it is stopped, and with the last of them
        the output that was not taken is freed.
        """
        self._work.stop = True
        for _ in self._threads:
            self._work.jobs.put(None)
        if self._own is not None:
            self._own.close()
            self._own = None
        self._done = None
        self._threads.clear()
        self._jobs.clear()
