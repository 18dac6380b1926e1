"""Spark's Python workers: which of them serve the stateful stage, and what is begun before the query needs them.

Spark hands a task whichever worker has been idle longest, of those that were started with the same environment. Where
joined rows go through Python once more to be opened, twice as many workers are at work, and a bucket would find its
operator in memory one time in five; there the stateful function asks for a variable more, and so for workers of its
own. A sink that takes packed rows needs none: no more workers map than join.

Kernels that this installation has never called are compiled at their first call: in a worker, that is some ten seconds
of the first micro-batch. The driver knows the plan, so a process beside it compiles them while the query is planned.
Workers of its machine find them on disk, or wait for the one under way; those of other machines compile for themselves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from ivjoin.shj.kernels import everything
from ivjoin.spark.runtime.environment import is_connect

if TYPE_CHECKING:
    import pyarrow as pa


__all__ = ["kernels_early", "own_workers", "start_early"]

_VARIABLE = "IVJOIN_WORKERS"
# Spark ends workers that were idle for a minute.
_AGAIN = 60.0
_MOST_STARTED = 64
# When the workers of an application were last started, by its id.
_started: dict[str, float] = {}


@contextmanager
def own_workers(frame: Any) -> Iterator[None]:
    """Functions given to Spark meanwhile run in workers apart from all others; over Connect this is not to be had."""
    environment = None if is_connect(frame) else frame.sparkSession.sparkContext.environment
    if environment is None or _VARIABLE in environment:
        yield
        return
    environment[_VARIABLE] = "stateful"
    try:
        yield
    finally:
        environment.pop(_VARIABLE, None)


def kernels_early(frame: Any) -> None:
    """Have kernels compiled that workers will call, if they are not on disk; nobody waits for it.

    Not over Connect, whose workers are elsewhere. What fails is left to the workers.
    """
    if not is_connect(frame):
        with suppress(OSError):
            everything.begin()


def start_early(frame: Any) -> threading.Thread | None:
    """Have workers started, and the join loaded in them, while the driver still plans the query.

    A small job of Spark's, in a thread of its own; what it meets with is left to the query to report. Returns the
    thread; None over Connect, and where the application's workers were started in the last minute.
    """
    if is_connect(frame):
        return None
    from py4j.protocol import Py4JError

    spark = frame.sparkSession
    context = spark.sparkContext
    name, now = context.applicationId, time.monotonic()
    if now - _started.get(name, -_AGAIN) < _AGAIN:
        return None
    _started.clear()
    _started[name] = now
    tasks = max(1, min(context.defaultParallelism, _MOST_STARTED))

    def start() -> None:
        # the last three: a session that is stopped meanwhile has no Java side left
        with suppress(PySparkException, Py4JError, OSError, EOFError, AttributeError):
            context.setJobDescription("ivjoin: Python workers load the join")
            spark.range(0, tasks, 1, tasks).mapInArrow(_load, "id long").toArrow()

    thread = threading.Thread(target=start, name="ivjoin-workers", daemon=True)
    thread.start()
    return thread


def _load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a worker: load what both stages need."""
    from importlib import import_module

    from ivjoin.spark.runtime.daemon import MODULES

    begin = time.monotonic()
    for name in MODULES:
        import_module(name)
    # A task that ended at once would leave its worker to the next one.
    time.sleep(max(0.0, 0.05 - (time.monotonic() - begin)))
    yield from batches
