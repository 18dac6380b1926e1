"""Memory of output batches is unchanged while anything refers to it."""

from __future__ import annotations

import queue
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from join.cases import in_blocks
from memory.output import PAYLOADS, ROWS, join, pushes

from ivjoin.shj.kernels import compiling

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
    """Batches, columns, slices and NumPy views, referenced and then released in any order while the join continues."""
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
def test_batches_may_be_released_in_another_thread() -> None:
    """Batches are released in another thread than the joining one, and no two share memory."""
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
