"""Give the stateful stage its own Python workers, and start workers and compile kernels before the query needs them.

Spark gives a task the worker that has been idle longest, among the workers with the same environment. If a last Python
stage opens the joined rows, twice as many workers run, and a bucket would find its operator in memory one time in five.
So the stateful function has an additional environment variable, and Spark starts separate workers for it. A sink that
takes packed rows does not need this, because its map stage uses no more workers than the join.

A worker would take about ten seconds to compile the kernels of an installation. Therefore the driver starts a process
that compiles them while it plans the query. The workers on its machine read the kernels from disk, or wait for them.
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
# Spark ends workers that have been idle for a minute.
_AGAIN = 60.0
_MOST_STARTED = 64
# The time when the workers of an application were last started, by application id.
_started: dict[str, float] = {}


@contextmanager
def own_workers(frame: Any) -> Iterator[None]:
    """Run functions that are passed to Spark in this context in separate workers. Over Connect, this has no effect."""
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
    """Start to compile the kernels that workers will call, if they are not on disk. Do nothing over Connect."""
    if not is_connect(frame):
        with suppress(OSError):
            everything.begin()


def start_early(frame: Any) -> threading.Thread | None:
    """Start workers and load the join in them, while the driver still plans the query.

    A separate thread runs a small Spark job. It ignores errors, because the query will report them. Return the thread;
    None over Connect, or if the application's workers were started in the last minute.
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
        # the last three errors: the session was stopped in the meantime, so its Java process is no longer there
        with suppress(PySparkException, Py4JError, OSError, EOFError, AttributeError):
            context.setJobDescription("ivjoin: Python workers load the join")
            spark.range(0, tasks, 1, tasks).mapInArrow(_load, "id long").toArrow()

    thread = threading.Thread(target=start, name="ivjoin-workers", daemon=True)
    thread.start()
    return thread


def _load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Load the modules of both stages, in a worker."""
    from importlib import import_module

    from ivjoin.spark.runtime.daemon import MODULES

    begin = time.monotonic()
    for name in MODULES:
        import_module(name)
    # If this task ended at once, the next task would reuse its worker.
    time.sleep(max(0.0, 0.05 - (time.monotonic() - begin)))
    yield from batches
