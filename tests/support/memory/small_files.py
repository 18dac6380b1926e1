"""Files of spilled rows that a few hundred rows fill."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ivjoin.operator.lookup import rows
from ivjoin.shj.store.disk import logs
from ivjoin.shj.store.rows import spilled_payload


@contextmanager
def small_files() -> Iterator[str]:
    """Spill in small pieces; give a folder for them."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for module, name, value in (
            (logs, "_SHIFT", 9), (logs, "_SEGMENT", 512), (logs, "_BLOCK_SHIFT", 11), (logs, "_LITTLE", 256),
            (spilled_payload, "_AT_ONCE", 3000), (rows, "_PIECE", 200),
        ):  # fmt: skip
            patch.setattr(module, name, value)
        yield folder
