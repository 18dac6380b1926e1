"""What is lowered otherwise than by numba, in kernels of words: calls, ``range``, ``min`` and ``max``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.base import BaseContext
from numba.core.cpu import CPUContext
from numba.core.lowering import Lower

from ivjoin.shj.kernels import compiling
from ivjoin.shj.kernels.compiling import I8, IN1, inner
from ivjoin.shj.kernels.memory import load, save

pytestmark = pytest.mark.skipif(not compiling.COMPILES, reason="nothing is lowered without numba's compiler")

MOST = 2**63 - 1


def numbers(start: int, stop: int, step: int) -> int:
    """Digits of a range, so that their order counts."""
    n = 7
    if step == 1 and start == 0:
        for i in range(stop):
            n = 31 * n + i
    elif step == 1:
        for i in range(start, stop):
            n = 31 * n + i
    elif step == -1:
        for i in range(start, stop, -1):
            n = 31 * n + i
    else:
        for i in range(start, stop, step):
            n = 31 * n + i
    return n


def nested(n: int) -> int:
    found = 0
    for i in range(n):
        for j in range(i, n):
            if j == i + 3:
                break
            if j % 2:
                continue
            found = 10 * found + j
    return found


def between(x: int, low: int, high: int) -> int:
    return int(min(max(x, low), high, 1000))


@inner
def _put(address, value):  # type: ignore[no-untyped-def]
    """Returns nothing, and so does the next."""
    save(address, value)


@inner
def _put_twice(address, value):  # type: ignore[no-untyped-def]
    _put(address, value)
    _put(address + 8, -value)


@inner
def _is_odd(x):  # type: ignore[no-untyped-def]
    return x % 2 == 1


@inner
def _part(x):  # type: ignore[no-untyped-def]
    return x / 4


def stored(address: int, value: int) -> int:
    _put_twice(address, value)
    if _is_odd(value):
        return int(load(address))
    return int(_part(value) * 100)


@inner
def _every(rows, step):  # type: ignore[no-untyped-def]
    """A step of 0 is an error."""
    return rows[::step].shape[0]


@inner
def _every_and_one(rows, step):  # type: ignore[no-untyped-def]
    return _every(rows, step) + 1


def sure(rows: Any, step: int) -> int:
    return int(_every_and_one(rows, step) + _every_and_one(rows, step + 1))


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(numba.core.config, "CACHE_DIR", str(tmp_path))


def built(function: Callable[..., int], arguments: int) -> Any:
    """The kernel, which must be an object file."""
    made = compiling._build(function, I8(*[I8] * arguments))
    assert compiling._name(function) not in compiling.refused
    return made


def wrapped(n: int) -> int:
    """As int64 has it."""
    return (n + 2**63) % 2**64 - 2**63


@pytest.mark.slow
def test_a_range_has_the_numbers_that_pythons_has() -> None:
    kernel = built(numbers, 3)
    ends = (-4, -1, 0, 1, 2, 5)
    for given in [(a, b, s) for a in ends for b in ends for s in (-3, -1, 1, 2, 7)]:
        assert kernel(*given) == wrapped(numbers(*given)), given
    for given in ((MOST - 2, MOST, 1), (-MOST, 1 - MOST, 1), (-MOST, MOST, MOST), (MOST, -MOST, -MOST)):
        assert kernel(*given) == wrapped(numbers(*given)), given


@pytest.mark.slow
def test_loops_within_loops_end_where_pythons_do() -> None:
    kernel = built(nested, 1)
    assert [kernel(n) for n in range(9)] == [nested(n) for n in range(9)]


@pytest.mark.slow
def test_the_least_and_the_most_are_those_of_whole_numbers() -> None:
    kernel = built(between, 3)
    ends = (-MOST - 1, -5, 0, 3, 999, 1001, MOST)
    for given in [(x, low, high) for x in ends for low in ends for high in ends]:
        assert kernel(*given) == between(*given), given


@pytest.mark.slow
def test_what_a_called_function_returns_arrives_and_what_follows_is_done() -> None:
    kernel, room = built(stored, 2), np.zeros(2, np.int64)
    at = room.ctypes.data
    assert kernel(at, 7) == 7
    assert room.tolist() == [7, -7]
    assert kernel(at, 6) == 150
    assert room.tolist() == [6, -6]


@pytest.mark.slow
def test_an_exception_passes_two_calls_up() -> None:
    """A kernel that may raise is numba's to make, of the parts that were made for an object file."""
    kernel = compiling._build(sure, I8(IN1, I8))
    assert "an exception" in compiling.refused.pop("test_word_lowering.sure")
    rows = np.arange(12)
    assert kernel(rows, 2) == 12
    for step in (0, -1):
        with pytest.raises(ValueError, match="slice step cannot be zero"):
            kernel(rows, step)


@pytest.mark.slow
def test_numba_is_as_it_was_once_a_kernel_is_made() -> None:
    ours = ((BaseContext, "get_function"), (CPUContext, "call_conv"), (Lower, "storevar"), (Lower, "incref"))
    before = [getattr(owner, name) for owner, name in ours]
    built(nested, 1)
    assert [getattr(owner, name) for owner, name in ours] == before
    assert all("ivjoin" not in getattr(it, "__module__", "numba") for it in before)
