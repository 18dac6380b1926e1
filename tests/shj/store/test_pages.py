"""Arrays on pages of their own: they count as the process's memory for as long as they exist, and no longer."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ivjoin.shj.store.disk import pages
from ivjoin.shj.store.disk.process_memory import give_back, own_memory
from ivjoin.shj.store.values.rings import regrown

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages are moved by Linux alone")
N = 8 << 20  # words
LITTLE = 8 << 20  # bytes that something else may take meanwhile


def held() -> int:
    """The process's bytes, without those that malloc retains from freed arrays of earlier tests."""
    give_back()
    return own_memory()


def test_longer_array_is_not_a_copy_and_a_freed_one_leaves_nothing() -> None:
    before = held()
    array = pages.paged((N, 2), np.int64)
    assert not array.any()
    array[:] = np.arange(N)[:, None]
    assert held() - before < array.nbytes + N * 8 + LITTLE
    longer = pages.lengthened(array, N + 1000)
    assert longer is not None
    assert longer.shape == (N + 1000, 2)
    assert held() - before < 16 * N + LITTLE
    assert (longer[:N, 0] == np.arange(N)).all()
    assert not longer[N:].any()
    del array, longer
    assert held() - before < LITTLE


def test_small_and_foreign_arrays_are_not_lengthened() -> None:
    small = pages.paged((1000,), np.int64)
    assert small.base is None
    assert pages.lengthened(small, 2000) is None
    assert pages.lengthened(np.zeros(1 << 20), 1 << 21) is None
    large = pages.paged((1 << 20,), np.int64)
    assert pages.lengthened(large, 100) is None


def test_rows_already_read_take_no_memory() -> None:
    before = held()
    array = pages.paged((N,), np.int64)
    array[:] = 1
    pages.let_go(array, 10, N - 10)
    assert held() - before < LITTLE
    assert (array[:10] == 1).all()
    assert (array[-10:] == 1).all()
    pages.let_go(np.ones(1000), 0, 1000)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("lo", "hi", "cap"), [(0, N, N + 500), (5 << 20, N + (4 << 20), N - (1 << 19)), (N, N + 9, 64)]
)
def test_a_ring_is_carried_over_piece_by_piece(lo: int, hi: int, cap: int) -> None:
    ids = np.arange(lo, hi)
    ring = pages.paged((N,), np.int64)
    ring[ids % N] = ids
    before = held()
    grown = regrown(ring, cap, lo, hi)
    assert held() - before < 8 * max(0, cap - N) + 3 * LITTLE
    assert (grown[ids % cap] == ids).all()


def test_on_other_systems_arrays_are_numpys_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_MAPS", False)
    array = pages.paged((1 << 20,), np.int64)
    assert array.base is None
    assert pages.lengthened(array, 1 << 21) is None
