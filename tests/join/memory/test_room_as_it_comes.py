"""Memory that is allocated as rows arrive and released after them: scratch of a push, and slots of keys."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import SymmetricHashJoin
from ivjoin.operator.match.kernel import reuse, scratch
from ivjoin.operator.memory.budget import bytes_of
from ivjoin.shj.kernels.keys.key_kernels import SOME_PLACES, SOME_ROOM

REACH = 300
KEYS: dict[str, Any] = {
    "a number": (["k"], lambda k: {"k": k}),
    "two numbers": (["k", "j"], lambda k: {"k": k // 100, "j": k % 100}),
    "text": (["k"], lambda k: {"k": [f"key {x}" for x in k.tolist()]}),
    "text and a number": (["k", "j"], lambda k: {"k": [str(x // 50) for x in k.tolist()], "j": k % 50}),
}


def batches(kind: str, seed: int, rows: int, keys: int) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    rng = np.random.default_rng(seed)
    start = 0
    while start < rows:
        n = int(rng.choice([1, 20, 300, 1500]))
        k = rng.integers(0, keys, n) + (start if rng.random() < 0.3 else 0)  # now and then keys that never come again
        t = np.arange(start, start + n)
        yield k, pa.record_batch(KEYS[kind][1](k) | {"t": t, "n": t})
        start += n


def in_turn(kind: str, keys: int) -> Iterator[tuple[int, np.ndarray, pa.RecordBatch]]:
    """Batches of both sides, of that side next whose rows have come less far; fewer of one key, for its many pairs."""
    feeds = [batches(kind, seed, 9_000 if keys > 1 else 3_000, keys) for seed in (1, 2)]
    tops = [0, 0]
    while feeds[0] or feeds[1]:
        p = int(tops[0] > tops[1]) if all(feeds) else int(not feeds[0])
        taken = next(feeds[p], None)
        if taken is None:
            feeds[p] = None  # type: ignore[call-overload]
            continue
        tops[p] += taken[1].num_rows
        yield p, *taken


def played(op: SymmetricHashJoin, pushes: Iterator[tuple[int, np.ndarray, pa.RecordBatch]]) -> None:
    """Push batches, and compare the pairs with a loop over rows of equal keys."""
    found: Counter[tuple[int, int]] = Counter()
    rows: list[dict[int, list[int]]] = [defaultdict(list), defaultdict(list)]
    for p, key, batch in pushes:
        for k, n in zip(key.tolist(), batch.column("n").to_pylist()):
            rows[p][k].append(n)
        for out in op.push("left" if p == 0 else "right", batch):
            found.update(zip(out.column("n").to_pylist(), out.column("n_right").to_pylist()))
    for out in op.finish():
        found.update(zip(out.column("n").to_pylist(), out.column("n_right").to_pylist()))
    want: Counter[tuple[int, int]] = Counter()
    for k, left in rows[0].items():
        right = rows[1][k]
        assert right == sorted(right)
        want.update((a, b) for a in left for b in right[bisect_left(right, a - REACH) : bisect_right(right, a + REACH)])
    assert found == want


def made(kind: str, **options: Any) -> SymmetricHashJoin:
    on = KEYS[kind][0]
    schema = next(batches(kind, 0, 1, 1))[1].schema
    return SymmetricHashJoin(
        schema, schema, on=on, condition=f"abs(l.t - r.t) <= {REACH}", left_order="t", right_order="t", **options
    )


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("limit", [None, "8MB"])
@pytest.mark.parametrize("keys", [1, 90, 4_000])
@pytest.mark.parametrize("kind", KEYS)
def test_keys_get_slots_in_order_of_arrival(kind: str, keys: int, limit: str | None) -> None:
    played(made(kind, memory_limit=limit), in_turn(kind, keys))


@pytest.mark.parametrize("kind", KEYS)
def test_slots_are_hardly_more_than_keys(kind: str) -> None:
    reuse.forget()
    op = made(kind)
    for k, batch in batches(kind, 3, 20_000, 50):
        cut = batch.filter(pa.array(k < 50))
        for side in ("left", "right"):
            list(op.push(side, cut))
    assert len(op._engine.keys.slots) <= 50 + 1500 // 4 + 64  # type: ignore[union-attr]


@pytest.mark.nojit
@pytest.mark.parametrize("kind", KEYS)
def test_capacity_for_keys_with_many_rows_is_close_to_their_count(kind: str) -> None:
    """Room is made to fit; then 550 new keys come at once, and the table grows between two rows of their batch.

    There are slots for them, which keys had that came once, before the others.
    """
    reuse.forget()
    op = made(kind)
    held = op._engine.keys  # type: ignore[union-attr]
    rng = np.random.default_rng(7)

    def pushes() -> Iterator[tuple[int, np.ndarray, pa.RecordBatch]]:
        edges = [0, *range(600, 2_000, 40)]
        for start, stop in pairwise(edges):
            for p in (0, 1):
                t, k = np.arange(start, stop), rng.integers(0, 30, stop - start)
                if start == 0:
                    k[:570] = np.arange(3_000, 3_570)
                yield p, k, pa.record_batch(KEYS[kind][1](k) | {"t": t, "n": t})
            assert start > 0 or len(held._table) > SOME_PLACES
        assert held.used == 30
        assert 550 < len(held.slots) <= 600 + SOME_ROOM
        assert len(held._table) == SOME_PLACES
        for p in (0, 1):
            t, k = np.arange(edges[-1], edges[-1] + 1_100), rng.permutation(np.repeat(np.arange(1_000, 1_550), 2))
            yield p, k, pa.record_batch(KEYS[kind][1](k) | {"t": t, "n": t})
            assert held.used >= 550
            assert len(held._table) >= 2 * held.used

    played(op, pushes())


@pytest.mark.slow
def test_scratch_belongs_to_one_push_of_one_operator() -> None:
    ops = [made("a number", batch_size=7) for _ in range(3)]
    plain = made("a number")
    given = [[b for _, b in batches("a number", seed, 4_000, 3)] for seed in (4, 5)]
    want = Counter(
        pair for i in range(min(map(len, given))) for p, side in enumerate(("left", "right"))
        for out in plain.push(side, given[p][i])
        for pair in zip(out.column("n").to_pylist(), out.column("n_right").to_pylist())
    )
    got: list[Counter[tuple[int, int]]] = [Counter() for _ in ops]
    for i in range(min(map(len, given))):
        for p, side in enumerate(("left", "right")):
            open_ = [(o, iter(ops[o].push(side, given[p][i]))) for o in range(len(ops))]
            while open_:  # a batch of each in turn, so that all of their pushes are under way
                held = [ops[o]._engine.state._scratch for o, _ in open_]  # type: ignore[union-attr]
                there = [h for h in held if h is not None]
                assert len(set(map(id, there))) == len(there)
                assert not set(map(id, there)) & set(map(id, scratch.idle))
                for o, it in list(open_):
                    out = next(it, None)
                    if out is None:
                        open_.remove((o, it))
                    else:
                        got[o].update(zip(out.column("n").to_pylist(), out.column("n_right").to_pylist()))
            for op in ops:
                assert op._engine.state._scratch is None  # type: ignore[union-attr]
    assert all(g == want for g in got)
    assert len(scratch.idle) <= 4


def test_scratch_that_another_thread_takes_first_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Taken(list[scratch.Scratch]):
        def pop(self, at: Any = -1) -> scratch.Scratch:
            raise IndexError("pop from empty list")  # as of a list whose last one has just gone

    monkeypatch.setattr(scratch, "idle", Taken([scratch.Scratch(512, 1)]))
    played(made("a number"), in_turn("a number", 90))


def test_alternating_wide_and_long_batches_free_scratch() -> None:
    wide = pa.schema({name: pa.int64() for name in "kabcdef"})
    band = " AND ".join(f"abs(l.{name} - r.{name}) <= 5" for name in wide.names[1:])
    many = [SymmetricHashJoin(wide, wide, on="k", condition=band) for _ in range(6)]
    long = made("a number")
    for i, op in enumerate(many):
        t = np.arange(4000 * i, 4000 * i + 4000)
        list(long.push("left", pa.record_batch({"k": t % 9, "t": t, "n": t})))
        list(op.push("left", pa.record_batch([np.arange(300)] * 7, wide)))
        held = [o._engine.state._scratch for o in (long, op)]  # type: ignore[union-attr]
        assert held == [None, None]
    assert len(scratch.idle) <= 4


@pytest.mark.parametrize(("limit", "rows"), [("600kB", 128), ("3MB", 512), ("27MB", 8192), ("90MB", 16384)])
def test_steps_are_as_large_as_the_limit_allows(limit: str, rows: int) -> None:
    n = 20_000
    words = {"k": np.arange(n), "t": np.arange(n)} | {f"c{i}": np.zeros(n) for i in range(16)}
    batch = pa.record_batch(words)
    op = SymmetricHashJoin(
        batch.schema, batch.schema, on="k", condition="abs(l.t - r.t) <= 9", left_order="t", right_order="t",
        memory_limit=limit, when_full="spill",
    )  # fmt: skip
    assert op.rows_at_once("left", batch) == rows
    assert sum(b.num_rows for side in ("left", "right") for b in op.push(side, batch)) == n
    assert op.metrics.peak_state_bytes <= bytes_of(limit)
