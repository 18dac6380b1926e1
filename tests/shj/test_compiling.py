"""The disk cache of compiled kernels: keyed by content, and done without where it cannot be."""

from __future__ import annotations

from typing import Any

import numba
import pytest

from ivjoin.shj import compiling
from ivjoin.shj.compiling import I8

pytestmark = pytest.mark.skipif(not compiling.COMPILES, reason="without numba's compiler nothing is cached")


def twice(x: int) -> int:
    return 2 * x


def test_the_key_holds_the_content_of_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def key() -> Any:
        dispatcher = compiling._dispatcher(twice)
        return dispatcher._cache._index_key(I8(I8), dispatcher.targetctx.codegen())

    before = key()
    assert key() == before
    monkeypatch.setattr(compiling, "_STAMP", "an edited file")
    assert key() != before


def test_without_a_folder_to_write_to_kernels_compile_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numba.njit

    def njit(*args: Any, cache: bool = False, **options: Any) -> Any:
        def refuse(_function: Any) -> Any:
            raise RuntimeError("cannot cache function 'twice': no locator available")

        return refuse if cache else real(*args, **options)

    monkeypatch.setattr(numba, "njit", njit)
    made = compiling._build(twice, I8(I8))
    assert made(21) == 42


def test_what_is_not_on_disk_is_not_said_to_be() -> None:
    @compiling.compiled(I8(I8))
    def thrice(x):  # type: ignore[no-untyped-def]
        return 3 * x

    assert not compiling.is_cached(thrice)
