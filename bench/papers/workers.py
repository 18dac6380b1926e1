"""Workers of a windowed join: threads of one process, processes of one machine, or one after the other.

A worker owns one join and a clock. An epoch of rows is handed to it at the end of the epoch, in event time. The clock
starts there, or when the worker has finished the epoch before, and each push moves it by the processor time that the
push took. So a run never waits for its rows, and other programs on the machine do not count. Processor time of the
worker includes receiving and decoding its rows, not the recording of delays.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin import SymmetricHashJoin

__all__ = ["GROUPS", "Worker", "cores", "quantile"]

_BINS = 120_000  # milliseconds; a longer delay counts as this one
_AHEAD = 4  # epochs that may wait for a worker


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """One join of the two streams, with its clock, its delays and what it has done.

    Parameters
    ----------
    schema : Schema
        Of both streams: ``t`` in microseconds, the keys, and perhaps ``own``: the pairs of a left row count if it is
        true.
    keys : sequence of str
    window : float
        Seconds.
    """

    def __init__(self, schema: pa.Schema, keys: Sequence[str], window: float) -> None:
        micros = round(window * 1e6)
        self._op = SymmetricHashJoin(
            schema, schema, on=list(keys), condition=f"l.t BETWEEN r.t - {micros} AND r.t + {micros}",
            left_order="t", right_order="t",
        )
        self._own = "own" in schema.names
        self._free = 0.0
        self.busy = 0.0
        self.rows = self.pairs = 0
        self.last_delay = 0.0
        self.delays = np.zeros(_BINS, dtype=np.int64)

    def epoch(self, end: float | None, batches: Sequence[pa.RecordBatch], spent: float = 0.0) -> None:
        """Join the rows of an epoch that ends at ``end``; None while the windows are filled, which is not counted."""
        if end is None:
            for side, batch in zip(("left", "right"), batches, strict=True):
                for _ in self._op.push(side, batch):
                    pass
            return
        now = max(self._free, end) + spent
        self.busy += spent
        clock = time.thread_time
        for side, batch in zip(("left", "right"), batches, strict=True):
            self.rows += batch.num_rows
            begun = clock()
            found = iter(self._op.push(side, batch))
            while True:
                out = next(found, None)
                took = clock() - begun
                now, self.busy = now + took, self.busy + took
                if out is None:
                    break
                self._record(out, now)
                begun = clock()
        self._free = now
        self.last_delay = now - end

    def _record(self, out: pa.RecordBatch, now: float) -> None:
        later = np.maximum(out["t"].to_numpy(), out["t_right"].to_numpy())
        if self._own:
            later = later[out["own"].to_numpy(zero_copy_only=False)]
        self.pairs += len(later)
        counts = np.bincount(np.minimum((now * 1e3 - later / 1e3).astype(np.int64), _BINS - 1))
        self.delays[: len(counts)] += counts

    def done(self) -> dict[str, Any]:
        return {
            "busy": self.busy, "rows": self.rows, "pairs": self.pairs, "delays": self.delays,
            "state": self._op.metrics.state_rows,
        }  # fmt: skip


def quantile(delays: np.ndarray, part: float) -> float:
    """Seconds within which a part of the pairs leave, from counts by millisecond."""
    total = np.cumsum(delays)
    return float(np.searchsorted(total, part * total[-1])) / 1e3 if len(total) and total[-1] else 0.0


class Simulated:
    """Workers one after the other in this thread: any number of them, each timed alone."""

    def __init__(self, workers: int, *setting: Any) -> None:
        self.workers = [Worker(*setting) for _ in range(workers)]
        self.sent = 0

    def send(self, worker: int, end: float | None, batches: Sequence[pa.RecordBatch]) -> None:
        self.workers[worker].epoch(end, batches)
        self.sent += sum(b.nbytes for b in batches) if end is not None else 0

    def done(self) -> list[dict[str, Any]]:
        return [w.done() for w in self.workers]


class Threads(Simulated):
    """A thread each; rows are handed over, not copied."""

    def __init__(self, workers: int, *setting: Any) -> None:
        super().__init__(workers, *setting)
        self._queues: list[queue.Queue[Any]] = [queue.Queue(_AHEAD) for _ in self.workers]
        self._threads = [
            threading.Thread(target=self._work, args=pair) for pair in zip(self.workers, self._queues, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _work(worker: Worker, waiting: queue.Queue[Any]) -> None:
        while (given := waiting.get()) is not None:
            worker.epoch(*given)

    def send(self, worker: int, end: float | None, batches: Sequence[pa.RecordBatch]) -> None:
        self._queues[worker].put((end, batches))

    def done(self) -> list[dict[str, Any]]:
        for waiting in self._queues:
            waiting.put(None)
        for thread in self._threads:
            thread.join()
        return super().done()


class Processes:
    """A process each; rows travel as Arrow messages through a pipe."""

    def __init__(self, workers: int, *setting: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.sent = 0
        self._pipes, self._processes = [], []
        for _ in range(workers):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, setting), daemon=True)
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)

    def send(self, worker: int, end: float | None, batches: Sequence[pa.RecordBatch]) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        message = sink.getvalue()
        self._pipes[worker].send(end)
        self._pipes[worker].send_bytes(message)
        self.sent += message.size if end is not None else 0

    def done(self) -> list[dict[str, Any]]:
        for pipe in self._pipes:
            pipe.send("done")
        found = [pipe.recv() for pipe in self._pipes]
        for process in self._processes:
            process.join()
        return found


def _serve(pipe: Any, setting: tuple[Any, ...]) -> None:
    worker = Worker(*setting)
    while (end := pipe.recv()) != "done":
        begun = time.thread_time()
        batches = list(pa.ipc.open_stream(pipe.recv_bytes()))
        worker.epoch(end, batches, time.thread_time() - begun)
    pipe.send(worker.done())


GROUPS: dict[str, Any] = {"threads": Threads, "processes": Processes, "simulated": Simulated}
