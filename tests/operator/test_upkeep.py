"""An operator's memory: grown in time, released again, and not resized more often than pays off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import LateRowError, MemoryLimitError, Order, ProtocolError, SpillError, SymmetricHashJoin
from ivjoin.operator.match.pair_state import PairState
from ivjoin.operator.match.step_join import StepJoin
from ivjoin.shj.kernels.compiling import COMPILES
from ivjoin.shj.kernels.keys import key_kernels
from ivjoin.shj.store.keys import KeyTable
from ivjoin.shj.store.rows import side as side_store

SCHEMA = pa.schema({"k": pa.int64(), "x": pa.int64()})
_ALL_ONE = pow(0x9E3779B97F4A7C15, -1, 2**64)  # times n is what the table's factor makes n of
many_rows = pytest.mark.skipif(not COMPILES, reason="takes long uncompiled")


def band(low: int, high: int, schema: pa.Schema = SCHEMA, **options: Any) -> SymmetricHashJoin:
    return SymmetricHashJoin(
        schema, schema, on="k", condition=f"l.x BETWEEN r.x - {low} AND r.x + {high}", left_order="x", right_order="x",
        **options,
    )


def batch(k: Any, x: Any) -> pa.RecordBatch:
    return pa.record_batch([pa.array(k, pa.int64()), pa.array(x, pa.int64())], schema=SCHEMA)


def counted(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[Any]:
    calls: list[Any] = []
    method = getattr(owner, name)

    def call(self: Any, *args: Any) -> Any:
        calls.append(self)
        return method(self, *args)

    monkeypatch.setattr(owner, name, call)
    return calls


@many_rows
def test_an_idle_side_is_not_carried_over_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = counted(monkeypatch, side_store, "recap")
    op = band(1_000_000, 5)
    n = 20_000
    list(op.push("right", batch(np.arange(n), np.arange(n) + 1000)))
    assert moves
    moves.clear()
    for _ in range(400):
        list(op.push("left", batch(np.full(5, -1), np.full(5, 1000))))
    assert op.metrics.state_rows == n + 2000
    assert [s.side for s in moves if s.side == 1] == []


@many_rows
def test_rows_of_an_idle_side_are_evicted_as_the_other_side_passes_them() -> None:
    op = band(10, 10)
    n = 20_000
    list(op.push("right", batch(np.arange(n), np.arange(n))))
    full = op.metrics.state_bytes
    met = 0
    for x in range(0, n, 100):
        met += sum(out.num_rows for out in op.push("left", batch(np.arange(x, x + 100), np.arange(x, x + 100))))
        # A right row x waits for left ones up to x + 10, a left row for right ones from n - 1 on.
        assert op.metrics.right_rows_retired == max(0, x + 99 - 10)
    assert met == n
    assert op.metrics.state_rows <= 40
    for x in range(n, n + 300):
        list(op.push("left", batch([x], [x])))
    assert op.metrics.right_rows_retired == n
    assert op.metrics.state_bytes < 0.3 * full


def test_a_null_that_has_left_is_forgotten() -> None:
    schema = pa.schema({"k": pa.int64(), "x": pa.int64(), "v": pa.float64(), "s": pa.string()})
    op = band(5, 0, schema)
    had_nulls = []
    for i in range(150):
        none = i == 3
        values = [pa.array([None if none else 1.5, 2.5]), pa.array(["a", None if none else "b"])]
        for side in ("left", "right"):
            arrays = [pa.array([1, 2]), pa.array([i, i]), *values]
            for out in op.push(side, pa.record_batch(arrays, schema=schema)):
                assert out.num_rows
        had_nulls.append([bool(op._engine.state.side(s, "has_nulls")) for s in (0, 1)])
    assert had_nulls[2] == [False, False]
    assert had_nulls[3] == had_nulls[8] == [True, True]
    assert had_nulls[-1] == [False, False]
    held = [c.valid.ring is None for s in op._engine.stores for c in s.columns if c.valid is not None]
    assert all(held)


@many_rows
def test_ring_is_hardly_larger_than_the_window() -> None:
    """As it grows, in the steady state, and after the window has become smaller; windows come with the rows' pace."""
    op, n, x = band(100_000, 0), 500, 0
    rng = np.random.default_rng(5)

    def go(pushes: int, step: int) -> None:
        nonlocal x
        for _ in range(pushes):
            for side in ("left", "right"):
                list(op.push(side, batch(rng.integers(0, 10**9, n), x + step * np.arange(n))))
            x += n * step

    store = op._engine.stores[0]
    for _ in range(18):
        go(2, 10)
        assert store.cap <= 1.0625 * (store.live + n) + 64
    go(400, 10)  # 10,000 rows a window, which the left side holds
    assert 10_000 <= store.live <= 10_500
    assert store.cap <= 1.0625 * 10_501 + 256
    go(600, 100)  # 1,000 rows
    assert store.live <= 1_500
    assert store.cap <= 1.0625 * 1_501 + 256


@many_rows
def test_keys_that_come_once_are_swept_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms, sweeps = counted(monkeypatch, KeyTable, "_room"), counted(monkeypatch, KeyTable, "_sweep")
    op = band(50, 0)
    for i in range(1000):
        for side in ("left", "right"):
            keys = np.arange(128) + 256 * i + (128 if side == "left" else 0)
            list(op.push(side, batch(keys, np.arange(128) + 128 * i)))
    assert op._engine.keys.n_ids < 3000
    assert len(rooms) < 20
    assert len(sweeps) < 5


@pytest.mark.one_in(2)
@many_rows
@pytest.mark.parametrize("how", ["inner", "full", "left_anti"])
@pytest.mark.parametrize("condition", [
    "abs(l.x - r.x) <= 20",
    "l.x BETWEEN r.x - 20 AND r.x + 20 AND (l.k + r.k) % 7 = 3",
    "l.x BETWEEN r.x - 9 AND r.x",
])  # fmt: skip
def test_waiting_entries_are_freed_with_their_row(condition: str, how: str) -> None:
    """Against the order of the rows every one of them waits in a heap; there are few rows, so it stays small."""
    schema = pa.schema({"k": pa.int64(), "x": pa.float64()})
    order = {"left_order": "x", "right_order": "x"}
    op = SymmetricHashJoin(schema, schema, on="k", condition=condition, how=how, **order)
    held = []
    for i in range(60):
        rows = np.arange(i * 1000, i * 1000 + 1000)
        for side in ("left", "right"):
            list(op.push(side, pa.record_batch([pa.array(rows % 64), pa.array(rows * 0.5)], schema=schema)))
        assert op.metrics.state_rows < 100
        held.append(op.metrics.state_bytes)
    assert max(held[30:]) <= 1.05 * max(held[5:15])


@pytest.mark.slow
@many_rows
def test_rows_of_a_wide_window_free_their_memory() -> None:
    schema = pa.schema({"k": pa.int64(), "x": pa.float64()})
    order = {"left_order": "x", "right_order": "x"}
    op = SymmetricHashJoin(schema, schema, on="k", condition="abs(l.x - r.x) <= 20000", how="full", **order)
    x, held = 0, []
    for step in (1, 2000):
        for _ in range(60):
            rows = x + step * np.arange(1000)
            x = int(rows[-1])
            for side in ("left", "right"):
                list(op.push(side, pa.record_batch([pa.array(rows % 997), pa.array(rows * 1.0)], schema=schema)))
        held.append(op.metrics)
    assert held[0].state_rows > 40_000 and held[1].state_rows < 100
    assert held[1].state_bytes < 0.2 * held[0].state_bytes


def test_a_known_watermark_leaves_the_tables_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch, PairState, "tabulate")
    op = SymmetricHashJoin(SCHEMA, SCHEMA, on="k", condition="l.x BETWEEN r.x - 5 AND r.x + 5")
    before = len(made)
    for x in range(0, 100, 10):
        for side in ("left", "right"):
            list(op.push(side, batch([1, 2, 3], [x + 2, x, x + 1])))
            list(op.advance(side, {"x": x}))
            with pytest.raises(LateRowError, match=f"x is {x - 1}, but it was promised to be from {x} "):
                op.push(side, batch([1], [x - 1]))
        assert op.metrics.state_rows <= 12
    assert len(made) == before + 2
    list(op.advance("left", {"x + k": 200}))
    assert len(made) > before + 2


def test_a_sweep_that_ends_half_way_stops_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 8 * key_kernels.SOME_KEYS
    op = band(5, 5)
    keys = op._engine.keys  # type: ignore[attr-defined]
    list(op.push("left", batch(range(n), [0] * n)))
    list(op.push("left", batch(range(10), [200] * 10)))  # keys that stay have the first ids
    list(op.advance("right", {"x": 100}))

    def full(cap: int) -> None:
        raise MemoryLimitError("no room for what stands beside the slots")

    monkeypatch.setattr(keys, "_grow_ids", full)
    with pytest.raises(SpillError, match="no room for what stands beside the slots. The state is incomplete"):
        list(op.finish("left"))
    for call in (lambda: op.push("right", batch([1], [200])), op.finish, op.snapshot):
        with pytest.raises(ProtocolError, match="stopped"):
            call()


@many_rows
def test_waiting_unordered_rows_free_their_memory() -> None:
    """Rows in disorder wait in heaps; once rows come in order again, these shrink to what a batch may need."""
    order = {"left_order": Order("x", slack=4000), "right_order": Order("x", slack=4000)}
    op = SymmetricHashJoin(SCHEMA, SCHEMA, on="k", condition="l.x BETWEEN r.x - 4000 AND r.x + 4000", **order)
    rng, x, held = np.random.default_rng(3), 0, []
    for pushes, size, disorder in ((16, 1000, 3000), (50, 200, 1)):
        for _ in range(pushes):
            rows = np.arange(x, x + size)
            x += size
            for side in ("left", "right"):
                list(op.push(side, batch(rows % 97, np.maximum(rows - rng.integers(0, disorder, size), 0))))
        held.append(sum(heap.nbytes for s in op._engine.stores for _, heap in s.schedules.heaps()))
    assert held[0] > 60_000 and held[1] < 0.4 * held[0]


@pytest.mark.parametrize(("apart", "stirs"), [(1, False), (1 << 32, False), (10946, True), (_ALL_ONE, True)])
@pytest.mark.parametrize("null_safe", [False, True])
def test_keys_that_crowd_in_the_table_are_stirred(apart: int, stirs: bool, null_safe: bool) -> None:
    """10,946, a Fibonacci number, leads next to a whole number of times round the table; the last ones to one place."""
    n = 2000 if COMPILES else 300
    words = np.arange(n, dtype=np.uint64) * np.uint64(apart)
    keys = (words ^ words >> np.uint64(32) if apart == _ALL_ONE else words).astype(np.int64)
    condition = f"l.k {'<=>' if null_safe else '='} r.k AND l.x BETWEEN r.x - 1 AND r.x + 1"
    op = SymmetricHashJoin(SCHEMA, SCHEMA, condition=condition, left_order="x", right_order="x")
    if null_safe:  # of its two words is made another one, which does not crowd
        op._engine.state.set(stirred=int(stirs))  # type: ignore[attr-defined]
    out = []
    for at in range(3):
        for side, x in (("left", 10 * at), ("right", 10 * at + 1)):
            out += op.push(side, batch(keys, np.full(n, x)))
        # All keys are there at the first right push; later ones find them where they lie now.
        assert bool(op._engine.state.get("stirred")) == stirs  # type: ignore[attr-defined]
    out += op.push("left", batch(keys - 1, np.full(n, 100)))
    pairs = pa.Table.from_batches(out)
    left, right = (pairs[name].to_pylist() for name in ("k", "k_right"))
    assert left == right
    assert sorted(left) == sorted(keys.tolist() * 3)


def test_keys_are_read_where_they_are_after_rows_of_the_other_side_have_been_dropped() -> None:
    left, right = (pa.schema({key: pa.int64(), "x": pa.int64()}) for key in ("a", "b"))
    made = SymmetricHashJoin(
        left, right, condition="l.a = r.b AND abs(l.x - r.x) <= 10", left_order="x", right_order="x"
    )
    step = StepJoin.from_plan(made._engine.plan)
    few = pa.record_batch([pa.array([7, 8]), pa.array([5, 5])], schema=right)
    many = pa.record_batch([pa.array(range(1000, 4000)), pa.array([5] * 3000)], schema=left)
    assert not [*step.push("right", few), *step.push("left", many)]
    slots = len(step._engine.keys.slots)
    assert step.let_go("left", {step._engine.plan.sides[0].axes[0]: (100, 200)}) == 3000
    assert len(step._engine.keys.slots) < slots // 8
    other = [np.zeros((n, 8), dtype=np.int32) for n in range(1, slots, 2)]  # where the slots were
    out = [*step.push("left", pa.record_batch([pa.array([7]), pa.array([5])], schema=left))]
    assert [row for b in out for row in b.to_pylist()] == [{"a": 7, "x": 5, "b": 7, "x_right": 5}], len(other)
