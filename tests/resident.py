"""The memory that a process has: malloc's, Arrow's and numpy's alike."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_STATM = Path("/proc/self/statm")
needs_resident = pytest.mark.skipif(not _STATM.exists(), reason="the system does not tell the resident size so")


def resident() -> int:
    """Bytes of this process that lie in memory."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
