"""Determine the default number of threads of a join."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["threads_for", "usable_cpus"]

_ROWS_A_THREAD = 262_144  # rows of both inputs together
_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds of CPU time and of the period, or "max"


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use, by its affinity and its container's quota. At least 1."""
    count = getattr(os, "process_cpu_count", None)  # Python 3.13
    if count is not None:
        cpus = count() or 1
    else:
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text().split()
        if quota != "max":
            cpus = min(cpus, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):
        pass
    return max(1, cpus)


def threads_for(rows: int) -> int:
    """Return the number of threads to join two tables with ``rows`` rows: one for each 262,144, up to the CPUs."""
    threads = rows // _ROWS_A_THREAD
    return 1 if threads <= 1 else min(threads, usable_cpus())
