"""A streaming query in a process of its own, which a test kills while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from places import PATHS

BEGIN = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from ivjoin.spark import session
from spark.script import Script
s = session("local[2]", "to be killed", spark__ui__enabled="false", spark__sql__shuffle__partitions=2,
            spark__sql__session__timeZone="UTC", spark__driver__memory="1g")
folder = Path({folder!r})
"""


def started(folder: Path, text: str) -> subprocess.Popen[bytes]:
    """Python that goes on from ``BEGIN``."""
    code = BEGIN.format(paths=PATHS, folder=str(folder)) + text
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL)


def kill_once(ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """``kill -9`` of the driver and its workers."""
    deadline = time.monotonic() + 400
    while not ready() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def committed(folder: Path) -> int:
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))
