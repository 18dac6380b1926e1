"""Python workers of their own for the stateful stage.

Spark hands a task whichever worker has been idle longest, of those that were started with the same environment. Were
map stages served by the same workers, a bucket would find its operator in memory one time in five; so the stateful
function asks for a variable more. It also leaves the join's kernels to the workers that need them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ivjoin.spark.environment import is_connect

__all__ = ["own_workers"]

_VARIABLE = "IVJOIN_WORKERS"


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
