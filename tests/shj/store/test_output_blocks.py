"""Output batches in Arrow's C data interface: each child has its own release callback and may be moved out."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import SymmetricHashJoin
from ivjoin.operator.match import output as output_steps
from ivjoin.operator.match.pair_state import PairState
from ivjoin.shj.kernels.compiling import COMPILES

pytestmark = pytest.mark.skipif(not COMPILES, reason="without numba's compiler there are no output blocks")

BAND = "l.x >= r.x AND l.x <= r.x"
SCHEMA = pa.schema({"k": pa.int64(), "x": pa.int32(), "b": pa.binary(20)})


class Array(ctypes.Structure):
    """``struct ArrowArray``."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)), ("children", ctypes.POINTER(ctypes.c_void_p)),
        ("dictionary", ctypes.c_void_p), ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p),
    ]  # fmt: skip


def call_release(array: Array) -> None:
    assert array.release, "released already"
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(array.release)(ctypes.addressof(array))
    assert not array.release, "a release callback marks its struct as released"


def moved(address: int) -> Array:
    """A struct of one's own with what is at an address, which is marked as released, as a move has it."""
    source = Array.from_address(address)
    assert source.release
    target = Array()
    ctypes.memmove(ctypes.addressof(target), address, ctypes.sizeof(Array))
    source.release = None
    return target


def batch(n: int, seed: int = 0, first: int = 0) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    b = pa.array([b"%020d" % v for v in rng.integers(0, 10**9, n)], pa.binary(20))
    x = pa.array(np.arange(n) + first, pa.int32())
    return pa.record_batch([pa.array(np.zeros(n, np.int64)), x, b], schema=SCHEMA)


def output(
    consume: Callable[[Array], Any], monkeypatch: pytest.MonkeyPatch, how: str = "inner", first: int = 0
) -> list[Any]:
    """What a consumer makes of the structs of a join's output."""
    real, found = output_steps.made, []

    def made(engine: PairState) -> pa.RecordBatch:
        found.append(consume(moved(engine.state.out_struct)))
        return pa.RecordBatch.from_pylist([], schema=engine.plan.schema)

    with monkeypatch.context() as patch:
        op = SymmetricHashJoin(SCHEMA, SCHEMA, on="k", condition=BAND, how=how, left_order="x", right_order="x")
        list(op.push("left", batch(9)))
        assert op._engine.state.get("blocks")
        patch.setattr(output_steps, "made", made)
        list(op.push("right", batch(6, 1, first)))
    assert found
    assert output_steps.made is real
    return found


def columns(of: Array, which: Iterator[int] | list[int]) -> dict[int, Array]:
    return {i: moved(of.children[i]) for i in which}


def imported(child: Array, t: pa.DataType) -> list[Any]:
    return pa.Array._import_from_c(ctypes.addressof(child), t).to_pylist()


TYPES = [pa.int64(), pa.int32(), pa.binary(20), pa.int32(), pa.binary(20)]
EXPECTED = [
    [0] * 6, list(range(6)), batch(9)["b"].to_pylist()[:6], list(range(6)), batch(6, 1)["b"].to_pylist(),
]  # fmt: skip


@pytest.mark.parametrize("taken", [[0], [2], [4], [1, 3], [4, 2, 0], [0, 1, 2, 3, 4]], ids=str)
@pytest.mark.parametrize("first", [True, False], ids=["the parent goes first", "the parent goes last"])
def test_a_child_that_was_moved_out_lives_on(taken: list[int], first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[int] = []

    def consume(array: Array) -> dict[int, list[Any]]:
        children = columns(array, taken)
        count = ctypes.c_int64.from_address(array.private_data)
        assert count.value == 6
        if first:
            call_release(array)
            assert count.value == len(taken)  # the parent and what was left in it
            churn()
        found = {i: imported(child, TYPES[i]) for i, child in children.items()}
        if not first:
            assert count.value == 6 - len(taken)
            call_release(array)
        freed.append(1)
        return found

    found = output(consume, monkeypatch)
    assert found == [{i: EXPECTED[i] for i in taken}]
    assert freed == [1]


def churn() -> None:
    """Write over memory that was just freed."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(size) for size in range(512, 4096, 64)]
    for p, size in zip(blocks, range(512, 4096, 64), strict=True):
        ctypes.memset(p, 0xAB, size)
        libc.free(p)


def test_children_go_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    for order in list(permutations(range(6)))[::37]:

        def consume(array: Array, order: tuple[int, ...] = order) -> int:
            parts = [*columns(array, [0, 1, 2, 3, 4]).values(), array]
            count = ctypes.c_int64.from_address(array.private_data)
            seen = []
            for i in order:
                seen.append(count.value)
                call_release(parts[i])
            assert seen == [6, 5, 4, 3, 2, 1]  # the block goes with the last of them, and not before
            return len(seen)

        assert output(consume, monkeypatch) == [6]


@pytest.mark.slow
def test_children_may_go_in_different_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def consume(array: Array) -> bool:
        parts = [*columns(array, [0, 1, 2, 3, 4]).values(), array]
        go = threading.Barrier(len(parts))
        threads = [threading.Thread(target=lambda a=a: (go.wait(), call_release(a))) for a in parts]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return all(not a.release for a in parts)

    for _ in range(50):
        assert output(consume, monkeypatch) == [True]


def test_null_extended_columns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def consume(array: Array) -> list[Any]:
        children = columns(array, [2, 4])
        call_release(array)
        churn()
        return [imported(children[i], TYPES[i]) for i in (2, 4)]

    assert output(consume, monkeypatch, "left", 100) == [[batch(9)["b"].to_pylist(), [None] * 9]]


@pytest.mark.parametrize("pairs", [50, 20_000], ids=["one call", "several calls"])
def test_the_input_is_released_when_it_is_read_to_its_end(pairs: int) -> None:
    """A caller who keeps nothing but the operator and the output: the struct itself holds the batch until then."""
    n = int(pairs**0.5)
    schema = pa.schema({"k": pa.int64(), "x": pa.int64()})
    one = pa.record_batch([np.zeros(n, np.int64), np.zeros(n, np.int64)], schema=schema)
    op = SymmetricHashJoin(schema, schema, on="k", condition=BAND, left_order="x", right_order="x")
    list(op.push("left", one))
    held: Any = op._engine.state["structs"]
    before = pa.total_allocated_bytes()
    copy = pa.concat_batches([one, one])
    size = pa.total_allocated_bytes() - before
    assert size > 0
    out = op.push("right", copy)
    del copy
    going = bool(held[8])
    assert going == (pairs > 10_000)
    now = pa.total_allocated_bytes() - before
    assert now >= size if going else now == 0
    rows = sum(b.num_rows for b in out)
    assert rows == 2 * n * n
    assert not held[8]
    assert pa.total_allocated_bytes() == before


class InUse(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_ = [
        (n, ctypes.c_size_t)
        for n in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library does not tell what is in use")
@pytest.mark.parametrize("moved_out", [[], [2], [0, 1, 2, 3, 4]], ids=str)
def test_the_block_is_freed(moved_out: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    told = ctypes.CDLL(None).mallinfo2
    told.restype = InUse

    def in_use() -> int:
        now = told()
        return int(now.uordblks + now.hblkhd)

    n = 20_000
    real, used = output_steps.made, []
    rows = 0

    def made(engine: PairState) -> pa.RecordBatch:
        if not moved_out:
            return real(engine)
        array = moved(engine.state.out_struct)
        children = columns(array, moved_out)
        call_release(array)
        for child in children.values():
            call_release(child)
        return pa.RecordBatch.from_pylist([], schema=engine.plan.schema)

    monkeypatch.setattr(output_steps, "made", made)
    op = SymmetricHashJoin(SCHEMA, SCHEMA, on="k", condition=BAND, left_order="x", right_order="x")
    for i in range(12):
        for side in ("left", "right"):
            x = np.arange(n) + n * i
            b = pa.array([b"%020d" % v for v in range(n)], pa.binary(20))
            one = pa.record_batch([pa.array(x), pa.array(x, pa.int32()), b], schema=SCHEMA)
            rows += sum(out.num_rows for out in op.push(side, one))
            used.append(in_use())
    assert op._engine.state.get("blocks")
    assert rows == (0 if moved_out else 12 * n)
    blocks = n * (8 + 4 + 20 + 4 + 20)  # of one turn
    assert used[-1] - used[7] < 3 * blocks, "eight turns lie between"
