"""A run fails when a test without the mark ``slow`` takes more than a second of CPU, twice in a row.

The time is that of the process and of the processes that it started, so a busy machine changes little. The first time
may compile kernels; the test runs again, and the second time counts. ``IVJOIN_PACE`` is a factor for slow machines;
0 switches the check off. It is off where tests take longer on purpose: with more examples, or with other kernels.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

try:
    import resource
except ImportError:  # Windows counts no time of other processes
    resource = None  # type: ignore[assignment]

_LONGER = os.environ.get("IVJOIN_HYPOTHESIS", "quick") != "quick" or bool(
    {"NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"} & set(os.environ)
)
SECONDS = 0.0 if _LONGER else 1.0 * float(os.environ.get("IVJOIN_PACE", "8"))
EXEMPT = ("slow", "spark", "soak")
_slow: list[tuple[str, float]] = []


def cpu_seconds() -> float:
    if resource is None:
        return time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[Any]:
    start = cpu_seconds()
    done = yield
    if not SECONDS or cpu_seconds() - start <= SECONDS or any(map(item.get_closest_marker, EXEMPT)):
        return done
    item._initrequest()  # type: ignore[attr-defined]
    start = cpu_seconds()
    runtestprotocol(item, log=False, nextitem=nextitem)
    took = cpu_seconds() - start
    if took > SECONDS:
        _slow.append((item.nodeid, took))
    return done


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["slow"] = _slow
    elif _slow and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker of pytest-xdist has measured."""
    _slow.extend(map(tuple, getattr(node, "workeroutput", {}).get("slow", ())))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _slow:
        terminalreporter.section("tests that need the mark `slow`", red=True)
        for name, took in sorted(_slow):
            terminalreporter.write_line(f"{took:.2f} s of CPU (twice more than {SECONDS:.1f} s): {name}")
