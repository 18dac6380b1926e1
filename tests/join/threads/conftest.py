"""What the tests of threads share."""

from __future__ import annotations

import pytest

from ivjoin.stream import prepared
from ivjoin.stream.threads import slices


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of a few hundred rows, so that small tables are cut into many."""
    monkeypatch.setattr(slices, "_SLICE_ROWS", 250)
    monkeypatch.setattr(slices, "_COPIED", 2)
    monkeypatch.setattr(prepared, "_PARALLEL_ROWS", 150)
