"""Where the tree lies, and the path that a separate Python process needs to import it and the tests' support."""

from __future__ import annotations

import os
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
TESTS = SUPPORT.parent
ROOT = TESTS.parent
PATHS = [str(ROOT), str(SUPPORT)]


def environment(**more: str) -> dict[str, str]:
    """The environment of a Python process that imports ``ivjoin``, ``bench`` and the modules of this folder."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(PATHS)} | more
