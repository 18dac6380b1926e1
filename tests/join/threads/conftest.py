"""What the tests of threads share."""

from __future__ import annotations

import pytest

from ivjoin.stream import run_of_two
from ivjoin.stream.threads import sliced_stream


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of a few hundred rows, so that small tables are cut into many."""
    monkeypatch.setattr(sliced_stream, "_SLICE_ROWS", 250)
    monkeypatch.setattr(sliced_stream, "_COPIED", 2)
    monkeypatch.setattr(run_of_two, "_PARALLEL_ROWS", 150)
