"""The switch that runs kernels with checked array bounds does check them."""

from __future__ import annotations

import gc

import numba
import numpy as np
import pytest

from ivjoin.shj.kernels import compiling, plain_memory
from ivjoin.shj.kernels.push import index_kernels

pytestmark = pytest.mark.nojit
CHECKED = not compiling.COMPILES or numba.config.BOUNDSCHECK


def test_items_of_a_known_array() -> None:
    a = np.arange(4)
    at = plain_memory.address_of(a)
    p = plain_memory.pointer_to("int64")(at + 8)
    assert (p[-1], p[0], p[2]) == (0, 1, 3)
    p[2] = 7
    assert a[3] == 7
    bits = plain_memory.pointer_to("uint8")(at)
    assert bits[8] == 1
    for outside in (-2, 3):
        with pytest.raises(IndexError, match="lies outside of 32 bytes"):
            p[outside]
        with pytest.raises(IndexError):
            p[outside] = 1
    with pytest.raises(IndexError):
        plain_memory.pointer_to("int64")(at + 28)[0]


@pytest.mark.slow
def test_a_view_knows_the_whole_array_and_a_dead_array_is_forgotten() -> None:
    a = np.arange(6)
    at = plain_memory.address_of(a[2:4])
    p = plain_memory.pointer_to("int64")(at)
    assert (p[-2], p[3]) == (0, 5)
    with pytest.raises(IndexError):
        p[4]
    begin = at - 16
    assert plain_memory._region(at) == (begin, begin + 48)
    del a, p
    gc.collect()
    assert plain_memory._region(at) is None


def test_an_item_lies_within_the_array_of_its_address() -> None:
    a = np.zeros((3, 2), dtype=np.int64)
    at = plain_memory.address_of(a)
    assert [plain_memory.item_at(at + 16, offset, 16) - at for offset in (-16, 0, 16)] == [0, 16, 32]
    for offset in (-17, 17, 32):
        with pytest.raises(IndexError, match="16 bytes from byte .* outside of 48 bytes"):
            plain_memory.item_at(at + 16, offset, 16)


def test_blocks_are_freed_once() -> None:
    before = plain_memory.held_blocks()
    block = plain_memory.malloc(24)
    words = plain_memory.pointer_to("float64")
    words(block)[2] = 0.5
    assert words(block)[2] == 0.5
    with pytest.raises(IndexError):
        words(block)[3]
    assert plain_memory.held_blocks() == before + 1
    plain_memory.free(block)
    assert plain_memory.held_blocks() == before
    with pytest.raises(KeyError):
        plain_memory.free(block)


@pytest.mark.skipif(not CHECKED, reason="bounds are looked at under NUMBA_DISABLE_JIT=1 or NUMBA_BOUNDSCHECK=1")
def test_a_place_past_the_end_of_a_ring_is_seen() -> None:
    links, slots = np.zeros((4, 6), dtype=np.int32), np.zeros((1, 8), dtype=np.int32)
    with pytest.raises(IndexError):
        index_kernels.unlink(np.array([5]), links, slots, 0)
