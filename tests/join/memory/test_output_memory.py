"""Memory of output batches is used again when nobody refers to them any more, and never before."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from join.cases import in_blocks
from memory.output import PAYLOADS, ROWS, join, pushes

from ivjoin.operator.memory import scratch
from ivjoin.shj.kernels import compiling, memory
from ivjoin.shj.kernels.output import spare_blocks
from ivjoin.shj.store.disk.backing import give_back

needs_blocks = pytest.mark.skipif(not compiling.COMPILES, reason="uncompiled kernels keep no blocks")






def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same in other memory."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def part_of(batch: pa.RecordBatch, rng: np.random.Generator) -> Any:
    """What a user may hold of a batch, and the same in other memory."""
    column = batch.column(int(rng.integers(batch.num_columns)))
    some = slice(*sorted(rng.integers(0, len(column), 2).tolist()))
    held = [
        lambda: batch, lambda: column, lambda: column[some], lambda: batch[some],
        lambda: pa.table([column], ["c"]), lambda: batch.column(1).to_numpy(),
    ][int(rng.integers(6))]()  # fmt: skip
    if isinstance(held, np.ndarray):
        return held, held.copy()
    whole = held if isinstance(held, pa.RecordBatch) else pa.record_batch([column[some]], ["c"])
    if isinstance(held, pa.Table):
        whole = held.to_batches()[0]
    elif isinstance(held, pa.Array):
        whole = pa.record_batch([held], ["c"])
    return whole, copied(whole)


def same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a.equals(b))


@pytest.mark.one_in(7)
@pytest.mark.parametrize("how", ["inner", "full"])
@pytest.mark.parametrize("kind", [*PAYLOADS])
@pytest.mark.parametrize("blocks", [True, False])
def test_what_a_user_holds_of_the_output_never_changes(kind: str, how: str, blocks: bool) -> None:
    """Batches, columns, slices, NumPy's views, held for a while and let go in any order while the join goes on."""
    rng = np.random.default_rng(7)
    fed, held, rows = pushes(kind, 40), [], 0
    with in_blocks(blocks):
        op = join(fed[0][1].schema, how=how)
        for side, batch in fed:
            for out in op.push(side, batch):
                rows += out.num_rows
                out.validate(full=True)
                if rng.random() < 0.6:
                    held.append(part_of(out, rng))
                while len(held) > 12 or (held and rng.random() < 0.3):
                    a, b = held.pop(int(rng.integers(len(held))))
                    assert same(a, b)
        list(op.finish())
        del op  # what it leaves to others is as this was
    assert all(same(a, b) for a, b in held)
    assert rows > 8 * ROWS * 40


@needs_blocks
def test_a_block_is_used_again_as_soon_as_nobody_refers_to_it() -> None:
    spare_blocks.empty()
    fed = pushes("doubles", 12)
    op = join(fed[0][1].schema)
    seen: list[int] = []
    for side, batch in fed:
        for out in op.push(side, batch):
            if out.num_rows == 4096:
                seen.append(out.column(0).buffers()[1].address)
            out = None
    assert len(seen) > 10
    assert len(set(seen)) == 1
    assert spare_blocks.LEAST < spare_blocks.kept() < 4 << 20
    held = [out for side, batch in pushes("doubles", 4, 1) for out in join(batch.schema).push(side, batch)]
    del held
    give_back()
    assert spare_blocks.kept() == 0


@needs_blocks
def test_what_is_kept_is_bounded() -> None:
    spare_blocks.empty()
    most = 1 << 20
    spare_blocks._table()[0] = most
    fed = pushes("doubles", 30)
    op = join(fed[0][1].schema)
    held = [out for side, batch in fed for out in op.push(side, batch)]
    assert sum(out.nbytes for out in held) > 4 * most
    assert spare_blocks.kept() == 0
    del held
    try:
        assert most // 2 < spare_blocks.kept() <= most
    finally:
        spare_blocks._table()[0] = spare_blocks.MOST
    spare_blocks.empty()
    assert spare_blocks.kept() == 0


@needs_blocks
@pytest.mark.parametrize("kind", ["doubles", "text"])
def test_under_a_limit_nothing_is_kept(kind: str) -> None:
    spare_blocks.empty()
    scratch.idle_pairs.clear()
    fed = pushes(kind, 12)
    op = join(fed[0][1].schema, memory_limit="64MB")
    sizes = [out.nbytes for side, batch in fed for out in op.push(side, batch)]
    list(op.finish())
    assert max(sizes) > spare_blocks.LEAST
    assert spare_blocks.kept() == 0
    assert not scratch.idle_pairs


@needs_blocks
def test_operators_of_several_threads_share_what_is_kept() -> None:
    """Batches are let go in another thread than the one whose join made them, and no two have the same memory."""
    spare_blocks.empty()
    done: queue.Queue[Any] = queue.Queue(8)
    errors, rows = [], [0] * 3

    def run(i: int) -> None:
        try:
            fed = pushes("doubles", 30, i)
            op = join(fed[0][1].schema)
            for side, batch in fed:
                for out in op.push(side, batch):
                    rows[i] += out.num_rows
                    done.put((out, copied(out)))
        except BaseException as e:  # told in the test's own thread
            errors.append(e)
        finally:
            done.put(None)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    ends = 0
    while ends < 3:
        got = done.get()
        if got is None:
            ends += 1
        else:
            assert same(*got)
        got = None
    for thread in threads:
        thread.join()
    assert not errors
    assert min(rows) > 8 * ROWS * 30
    assert 0 < spare_blocks.kept() <= spare_blocks.MOST
    spare_blocks.empty()
    assert spare_blocks.kept() == 0


PROGRAM = """
import resource
from memory.output import join, pushes
fed = pushes("doubles", 160)
op = join(fed[0][1].schema, batch_size=65536)
size = before = 0
for i, (side, batch) in enumerate(fed):
    if i == 160:
        size, before = 0, resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for out in op.push(side, batch):
        size += out.nbytes
print(size // resource.getpagesize(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.slow
@needs_blocks
@pytest.mark.skipif(sys.platform != "linux", reason="of glibc's malloc, and Linux's count of pages")
def test_pages_of_output_are_not_the_systems_again_for_each_batch() -> None:
    """Where malloc keeps nothing at all."""
    settings = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    paths = os.pathsep.join(p for p in sys.path if p)
    got = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **settings, "PYTHONPATH": paths}, capture_output=True,
        text=True, check=True, timeout=120,
    )  # fmt: skip
    pages, faults = map(int, got.stdout.split())
    assert pages > 4000
    assert faults < pages // 4


@pytest.mark.nojit
@pytest.mark.skipif(compiling.COMPILES, reason="parts of kernels are called by themselves under NUMBA_DISABLE_JIT=1")
def test_a_pool_step_by_step() -> None:
    words = np.zeros_like(spare_blocks._table())
    words[0] = 400_000
    pool = memory.address_of(words)
    kept = words[1:2]

    def made(size: int) -> int:
        block: int = spare_blocks.new_block(pool, size)
        memory.save(block, 1)
        return block

    assert spare_blocks.new_block(0, 100_000) != 0, "no pool, no block that is kept"
    first, second = made(100_000), made(100_000)
    size = memory.load(first + 8)
    assert 100_000 <= size < 112_500
    spare_blocks._put(pool, first)
    spare_blocks._put(pool, second)
    assert kept == 2 * size
    assert made(50_000) not in (first, second), "half of a block is not wasted"
    assert made(99_000) == second, "the last that came"
    assert made(100_000) == first
    assert kept == 0
    for block in (first, second, made(100_000), made(100_000)):
        spare_blocks._put(pool, block)
    assert kept == 3 * size, "the first went"
    large = made(300_000)
    spare_blocks._put(pool, large)
    assert kept == memory.load(large + 8), "all others went"
    spare_blocks._put(pool, made(500_000))
    assert kept == memory.load(large + 8), "one that is too large does not stay"
    for _ in range(40):
        spare_blocks._put(pool, made(40_000))
        made(40_000)
    few = [made(33_000) for _ in range(30)]
    words[0] = 4_000_000
    for block in few:
        spare_blocks._put(pool, block)
    assert kept < 4_000_000
    assert np.count_nonzero(words[2 : 2 + spare_blocks._PLACES]) == spare_blocks._PLACES
    spare_blocks._emptied(pool)
    assert not words[1 : 2 + spare_blocks._PLACES].any()
