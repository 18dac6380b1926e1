"""Compiled blocks where the platform has them and they give right rows; elsewhere the same rows without them."""

from __future__ import annotations

import ctypes
import sys
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ivjoin import SymmetricHashJoin
from ivjoin.operator.match import blocks, lending
from ivjoin.shj import registers as at
from ivjoin.shj.kernels import memory as mem
from ivjoin.shj.kernels.push import push_kernels

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
    monkeypatch.setattr(blocks, "_found", [])
    blocks._possible.cache_clear()
    lending.forget()
    yield
    blocks._possible.cache_clear()


def test_with_and_without_blocks_the_rows_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert joined() == (ROWS, True)
    monkeypatch.setenv(blocks.VARIABLE, "0")
    assert joined() == (ROWS, False)


def test_they_are_tried_before_the_first_operator_that_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []
    real = blocks._tried
    monkeypatch.setattr(blocks, "_tried", lambda: tries.append(1) or real())
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="ivjoin")
        assert joined() == joined() == (ROWS, True)
    assert tries == [1]


def nothing_comes_out(real: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def push(operator: int, p: int) -> int:
        return real(operator, p) & ~at.OUTPUT

    return push


def a_value_is_wrong(real: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def push(operator: int, p: int) -> int:
        status = real(operator, p)
        assert at.OPERATOR.fields is not None
        if status & at.OUTPUT and _word(operator + at.OPERATOR.fields["blocks"][1]):
            out = _word(operator + at.OPERATOR.fields["out_struct"][1])
            first_column = _word(_word(out + mem.CHILDREN))
            _cell(_word(_word(first_column + mem.BUFFERS) + 8)).value += 1
        return status

    return push


def it_raises(real: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def push(operator: int, p: int) -> int:
        assert at.OPERATOR.fields is not None
        if _word(operator + at.OPERATOR.fields["blocks"][1]):
            raise RuntimeError("no such machine")
        return real(operator, p)

    return push


def there_is_no_memory(real: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def push(operator: int, p: int) -> int:
        status = real(operator, p)
        return status & ~at.OUTPUT | at.FULL if status & at.OUTPUT else status

    return push


def _cell(address: int) -> Any:
    return ctypes.c_int64.from_address(address)


def _word(address: int) -> int:
    return int(_cell(address).value)


@pytest.mark.parametrize("fault", [nothing_comes_out, a_value_is_wrong, it_raises, there_is_no_memory])
def test_where_they_fail_joins_go_without_and_say_so(
    fault: Callable[[Callable[[int, int], int]], Callable[[int, int], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert blocks.works()  # compiled by now
    blocks._found.clear()
    lending.forget()
    monkeypatch.setattr(push_kernels, "push_batch", fault(push_kernels.push_batch))
    with pytest.warns(RuntimeWarning, match=r"do not work on this platform.*IVJOIN_COMPILED_BLOCKS=0"):
        assert joined() == (ROWS, False)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="ivjoin")
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
