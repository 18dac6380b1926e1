"""Compiled blocks at the edges: ends of types, odd column widths, and memory that is released."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from join.cases import in_blocks

from ivjoin import Order, SymmetricHashJoin
from ivjoin.shj.kernels import compiling, plain_memory

MIN, MAX = -(2**63), 2**63 - 1
Push = tuple[str, pa.RecordBatch]


@pytest.fixture(params=[True, False], ids=["blocks", "no-blocks"])
def blocks(request: pytest.FixtureRequest) -> Iterator[bool]:
    with in_blocks(request.param) as went:
        yield request.param
    assert any(went) == request.param, "the pushes went another way"


def rows(pushes: list[Push], **options: Any) -> list[tuple[Any, ...]]:
    """The output, sorted by its text."""
    schemas = [next(b for s, b in pushes if s == side).schema for side in ("left", "right")]
    op = SymmetricHashJoin(*schemas, **options)
    out = [b for side, batch in pushes for b in op.push(side, batch)]
    out += op.finish()
    for b in out:
        b.validate(full=True)
    return in_order(tuple(row.values()) for b in out for row in b.to_pylist())


def in_order(found: Any) -> list[tuple[Any, ...]]:
    return sorted(found, key=repr)


WIDTHS = [*range(1, 18), 20, 23, 24, 31, 32, 33, 40]


@pytest.mark.one_in(2)
@pytest.mark.nojit
@pytest.mark.parametrize("width", WIDTHS)
def test_payload_of_every_width(width: int, blocks: bool) -> None:
    """From the batch and from the store, with some rows of a batch stored and others not, and rings that wrap."""
    rng = np.random.default_rng(width)
    n, step = 60, 6
    payload = [[bytes(rng.integers(0, 256, width, dtype=np.uint8)) for _ in range(n)] for _ in "lr"]
    schema = pa.schema({"t": pa.int64(), "u": pa.int64(), "p": pa.binary(width)})
    t = np.arange(n)
    u = [rng.integers(-3, 3, n) + t for _ in "lr"]
    columns = [[pa.array(t), pa.array(u[s]), pa.array(payload[s], pa.binary(width))] for s in (0, 1)]
    sides = [pa.record_batch(c, schema) for c in columns]
    pushes = [(name, b.slice(at, step)) for at in range(0, n, step) for name, b in zip(("left", "right"), sides)]
    condition = "l.t BETWEEN r.t - 2 AND r.t AND l.u <= r.t"
    got = rows(pushes, condition=condition, how="full", left_order="t", right_order="t", batch_size=7)
    assert got == nested(payload, u, n)


def nested(payload: list[list[bytes]], u: list[np.ndarray], n: int) -> list[tuple[Any, ...]]:
    pairs = [(i, j) for i in range(n) for j in range(n) if j - 2 <= i <= j and u[0][i] <= j]
    left = {i for i, _ in pairs}
    right = {j for _, j in pairs}
    whole = [[(i, int(u[s][i]), payload[s][i]) for i in range(n)] for s in (0, 1)]
    none = (None, None, None)
    out = [whole[0][i] + whole[1][j] for i, j in pairs]
    out += [whole[0][i] + none for i in range(n) if i not in left]
    out += [none + whole[1][j] for j in range(n) if j not in right]
    return in_order(out)


@pytest.mark.nojit
@pytest.mark.parametrize("falling", [False, True], ids=["rising", "falling"])
@pytest.mark.parametrize("how", ["inner", "full"])
@pytest.mark.parametrize("slack", [7, 8, 2**62])
def test_bounds_past_the_ends_of_int64(falling: bool, how: str, slack: int, blocks: bool) -> None:
    """The values keep within; what an order with slack lets come, less or more the band, does not."""
    first, turn = (MAX - 10, -1) if falling else (MIN + 10, 1)
    schema = pa.schema({"k": pa.int64(), "a": pa.int64()})
    order = Order("a", descending=falling, slack=slack)
    sides: dict[str, list[int]] = {"left": [], "right": []}
    pushes = []
    for i in (0, 3, 1, 7, 5, 12):
        for side, at in (("left", i), ("right", i + 1)):
            sides[side].append(first + turn * at)
            pushes.append((side, pa.record_batch([[1], [first + turn * at]], schema=schema)))
    got = rows(
        pushes, on="k", condition="l.a BETWEEN r.a - 5 AND r.a + 5", how=how, left_order=order, right_order=order
    )
    assert got == in_order((1, a, b) for a in sides["left"] for b in sides["right"] if b - 5 <= a <= b + 5)


S = pa.schema({"k": pa.int64(), "a": pa.int64(), "b": pa.float64()})


def batch(a: int, n: int) -> pa.RecordBatch:
    return pa.record_batch([np.zeros(n, np.int64), np.full(n, a), np.ones(n)], schema=S)


@pytest.mark.nojit
@pytest.mark.skipif(compiling.COMPILES, reason="blocks are counted under NUMBA_DISABLE_JIT=1")
def test_each_output_block_is_given_back_once() -> None:
    """In whichever order its columns go."""
    before = plain_memory.held_blocks()
    with in_blocks(True) as went:
        op = SymmetricHashJoin(
            S, S, on="k", condition="l.a >= r.a AND l.a <= r.a", how="full", left_order="a", right_order="a"
        )
        out = [b for a in range(5) for side in ("left", "right") for b in op.push(side, batch(a, 3))]
        assert len(out) == plain_memory.held_blocks() - before == 5
        parts = [b.column(i) for b in out for i in range(b.num_columns)]
        del out
        assert plain_memory.held_blocks() - before <= 5
        for column in range(len(parts)):
            parts[column] = None
            parts[-1 - column] = None
        gc.collect()
        assert plain_memory.held_blocks() == before
    assert went == [True] * 10


@pytest.mark.nojit
@pytest.mark.parametrize("far", [1000, -1000])
def test_two_axes_far_apart(far: int, blocks: bool) -> None:
    """What one axis leaves of a side says nothing of the other, whose numbers are others."""
    schema = pa.schema({"k": pa.int64(), "a": pa.int64(), "b": pa.int64()})
    pushes = []
    for first in range(0, 12, 3):
        for side in ("left", "right"):
            for i in range(first, first + 3):
                pushes.append((side, pa.record_batch([[1, 2], [i, i], [far + i, far + i]], schema=schema)))
    got = rows(
        pushes, on="k", condition="l.a BETWEEN r.a - 2 AND r.a AND l.b BETWEEN r.b - 3 AND r.b", how="left",
        left_order=["a", "b"], right_order=["a", "b"],
    )
    want = [(k, i, far + i, j, far + j) for k in (1, 2) for j in range(12) for i in range(max(0, j - 2), j + 1)]
    assert got == in_order(want)
