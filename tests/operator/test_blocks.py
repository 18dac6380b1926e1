"""Compiled blocks where the platform has them; elsewhere the same rows without them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ivjoin import SymmetricHashJoin
from ivjoin.operator.match import blocks, lending
from ivjoin.shj.kernels import memory as mem

pytestmark = pytest.mark.nojit
S = pa.schema({"k": pa.int64(), "t": pa.int64()})


def joined() -> tuple[list[Any], bool]:
    """The rows of a small join, and whether its output was built in blocks."""
    op = SymmetricHashJoin(S, S, on="k", condition="l.t <= r.t", how="full", left_order="t", right_order="t")
    out = [*op.push("left", pa.record_batch({"k": [1, 2], "t": [5, 6]}, schema=S))]
    out += [*op.push("right", pa.record_batch({"k": [1, 1], "t": [5, 7]}, schema=S)), *op.finish()]
    rows = sorted((tuple(row.values()) for b in out for row in b.to_pylist()), key=repr)
    return rows, bool(op._core.state.get("blocks"))


ROWS = [(1, 5, 5), (1, 5, 7), (2, 6, None)]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a new process."""
    monkeypatch.delenv(blocks.VARIABLE, raising=False)
    blocks._possible.cache_clear()
    lending.forget()
    yield
    blocks._possible.cache_clear()


def test_with_and_without_blocks_the_rows_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert joined() == (ROWS, True)
    monkeypatch.setenv(blocks.VARIABLE, "0")
    assert joined() == (ROWS, False)


def other_bytes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys, "byteorder", "big")


def short_addresses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mem, "struct", SimpleNamespace(calcsize=lambda _: 4))


def no_c_functions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mem, "COMPILES", True)
    patch.setattr(mem, "llvm", SimpleNamespace(address_of_symbol=lambda name: None if name == "free" else 1))


def another_pyarrow(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(blocks, "pa", SimpleNamespace(RecordBatch=SimpleNamespace(_export_to_c=None)))


@pytest.mark.parametrize("platform", [other_bytes, short_addresses, no_c_functions, another_pyarrow])
def test_platforms_they_are_not_made_for(
    platform: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform(monkeypatch)
    assert joined() == (ROWS, False)
