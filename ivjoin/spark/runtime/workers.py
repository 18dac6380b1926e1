"""Compile kernels before the query needs them.

A worker would take about ten seconds to compile the kernels of an installation. Therefore the driver starts a process
that compiles them while the driver plans the query. The workers on its machine read the kernels from disk, or wait for
them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ivjoin.shj.kernels import everything
from ivjoin.spark.runtime.environment import is_connect

__all__ = ["kernels_early"]


def kernels_early(frame: Any) -> None:
    """Start to compile the kernels that workers will call, if they are not on disk. Do nothing over Connect."""
    if not is_connect(frame):
        with suppress(OSError):
            everything.begin()
