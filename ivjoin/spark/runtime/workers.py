"""Give the stateful stage its own Python workers, and compile kernels before the query needs them.

Spark gives a task the worker that has been idle longest, among the workers with the same environment. If a last Python
stage opens the joined rows, twice as many workers run, and a bucket would find its operator in memory one time in five.
So the stateful function has an additional environment variable, and Spark starts separate workers for it.

A worker would take about ten seconds to compile the kernels of an installation. Therefore the driver starts a process
that compiles them while it plans the query. The workers on its machine read the kernels from disk, or wait for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ivjoin.shj.kernels import everything
from ivjoin.spark.runtime.environment import is_connect

__all__ = ["kernels_early", "own_workers"]

_VARIABLE = "IVJOIN_WORKERS"


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
