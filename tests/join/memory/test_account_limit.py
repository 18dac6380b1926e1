"""Memory that is refused: the push has no effect, and the join continues once memory is free."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from memory.kinds import KINDS, QUESTIONS, piece, schema_of

from ivjoin import Order, SymmetricHashJoin
from ivjoin.errors import CapacityError, MemoryLimitError

pytestmark = pytest.mark.nojit


SOME = [(q, k) for i, q in enumerate(QUESTIONS) for j, k in enumerate(KINDS) if (i + j) % 4 == 0]


class Full(Exception):
    """What the callers of these tests raise."""


def rows_of(batches: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def as_it_was(op: SymmetricHashJoin) -> tuple[Any, ...]:
    m = op.metrics
    state = re.sub(rb'"(peak_)?state_bytes": ?\d+', b"", op.snapshot()[22:])  # without its checksum and length
    return state, m.left_rows_in, m.right_rows_in, m.late_rows, m.rows_out, m.state_rows


def key_type(question: str, kind: str) -> pa.DataType:
    return [pa.int64(), pa.string()][(list(QUESTIONS).index(question) + list(KINDS).index(kind)) % 2]


@pytest.mark.one_in(7)
@pytest.mark.parametrize(("question", "kind"), SOME)
def test_refused_at_any_growth(question: str, kind: str) -> None:
    """Each batch is refused at its first growth, then at its second one, and so on until it passes."""
    rng = np.random.default_rng(len(question) + 7 * len(kind))
    key = key_type(question, kind)
    schema = schema_of(kind, key)
    free, op = (SymmetricHashJoin(schema, schema, **QUESTIONS[question]) for _ in range(2))
    refusals = 0
    for i in range(14):
        n = int(rng.choice([1, 5, 30, 400 if i == 8 else 3]))
        for side in ("left", "right"):
            batch = piece(kind, key, rng, 25 * i, n, question)
            want = rows_of(free.push(side, batch))
            before = as_it_was(op)
            for passed in range(100):
                asked: list[tuple[int, int]] = []

                def full(needed: int, held: int, asked: list[Any] = asked, passed: int = passed) -> None:
                    assert needed > 0
                    assert held >= 0
                    asked.append((needed, held))
                    if len(asked) > passed:
                        raise Full

                op.account.limit, op.account.on_full = 0, full
                try:
                    got = rows_of(op.push(side, batch))
                except Full:
                    refusals += 1
                    op.account.limit = None
                    assert as_it_was(op) == before
                    continue
                break
            assert got == want
            assert op.metrics.state_rows == free.metrics.state_rows
    op.account.limit = None
    assert rows_of(op.finish()) == rows_of(free.finish())
    assert refusals > 2


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("question", "kind"), SOME)
def test_memory_stays_within_the_limit(question: str, kind: str) -> None:
    """Under a limit that is lifted for a moment now and then, the same rows, and never more bytes than were allowed."""
    rng = np.random.default_rng(11 + len(question) * len(kind))
    key = key_type(question, kind)
    schema = schema_of(kind, key)
    free, op = (SymmetricHashJoin(schema, schema, **QUESTIONS[question]) for _ in range(2))
    told: list[tuple[str, str]] = []
    for i in range(25):
        n = int(rng.choice([1, 5, 30, 200 if i == 12 else 3]))
        for side in ("left", "right"):
            batch = piece(kind, key, rng, 25 * i, n, question)
            want = rows_of(free.push(side, batch))
            op.account.limit = op.metrics.state_bytes + int(rng.choice([0, 0, 0, 100, 5_000]))
            while True:
                limit = op.account.limit
                try:
                    out = op.push(side, batch)
                except CapacityError as e:
                    told.append((str(e), f"expected at most {limit:,}"))
                    assert op.metrics.state_bytes <= limit
                    op.account.limit = 2 * limit
                    continue
                break
            got = []
            for b in out:
                got += rows_of([b])
                assert op.metrics.state_bytes <= limit
            assert op.metrics.state_bytes <= limit
            assert got == want
    assert len(told) > 1
    assert all(part in error for error, part in told)
    op.account.limit = None
    assert rows_of(op.finish()) == rows_of(free.finish())


def test_a_caller_may_let_it_grow() -> None:
    schema = pa.schema({"k": pa.int64(), "t": pa.int64()})
    op = SymmetricHashJoin(schema, schema, on="k", condition="l.t <= r.t", left_order="t", right_order="t")
    asked: list[tuple[int, int]] = []
    op.account.limit = 20_000
    op.account.on_full = lambda needed, held: asked.append((needed, held))
    for i in range(20):
        t = np.arange(100) + 100 * i
        list(op.push("right", pa.record_batch({"k": t % 7, "t": t})))
    assert asked
    assert all(needed + held > 20_000 for needed, held in asked)
    assert op.metrics.state_rows == 2000


def test_late_rows_and_computed_orders_are_put_back() -> None:
    """What Python records of a batch before the kernels reserve memory is dropped with the batch."""
    schema = pa.schema({"k": pa.int64(), "x": pa.float64()})
    order = Order("x", slack=0.5)
    free, op = (
        SymmetricHashJoin(
            schema, schema, on="k", condition="l.x * l.x <= r.x + 9", left_order=order, right_order=order,
            on_late="drop",
        )
        for _ in range(2)
    )
    rng = np.random.default_rng(3)
    refusals = 0
    for i in range(12):
        x = rng.permutation(np.arange(40) / 10 + 4 * i)
        batch = pa.record_batch({"k": rng.integers(0, 5, 40), "x": x}, schema=schema)
        for side in ("left", "right"):
            want = rows_of(free.push(side, batch))
            before = as_it_was(op)
            op.account.limit = 0
            try:
                got = rows_of(op.push(side, batch))
            except CapacityError:
                refusals += 1
                op.account.limit = None
                assert as_it_was(op) == before
                got = rows_of(op.push(side, batch))
            assert got == want
    assert refusals > 5
    assert op.metrics.late_rows == free.metrics.late_rows > 0


@pytest.mark.slow
def test_rebuilt_state_is_complete() -> None:
    """After a key that raised, or a watermark that needs a search of rows, without memory left."""
    schema = pa.schema({"k": pa.int64(), "t": pa.int64()})
    free, op = (
        SymmetricHashJoin(schema, schema, condition="l.k + 1 = r.k AND l.t * 2 + r.t < 4000", how="full")
        for _ in range(2)
    )
    for i in range(20):
        batch = pa.record_batch({"k": np.arange(50) % 9, "t": np.arange(50) + 50 * i})
        for side in ("left", "right"):
            assert rows_of(op.push(side, batch)) == rows_of(free.push(side, batch))
        op.account.limit = 0
        if i == 12:
            for each in (free, op):
                each._engine.rekey()
        if i in (14, 16):
            marks = {"t": 50 * i, "t * 2": 100 * i}
            assert rows_of(op.advance("left", marks)) == rows_of(free.advance("left", marks))
        assert op.account.limit == 0
        assert op.metrics.state_rows == free.metrics.state_rows
        op.account.limit = None
    assert rows_of(op.finish()) == rows_of(free.finish())


def test_rows_out_of_order_in_many_axes_fit_together() -> None:
    """Memory for schedules of several axes is reserved at once for a batch: each alone would fit."""
    names = ("k", "a", "b", "c", "d")
    schema = pa.schema({n: pa.int64() for n in names})
    condition = " AND ".join(f"abs(l.{n} - r.{n}) <= 5" for n in names[1:])
    orders = [Order(n, slack=10**6) for n in names[1:]]
    for limit in (75_000, 111_000, 150_000):
        rng = np.random.default_rng(1)
        op = SymmetricHashJoin(
            schema, schema, on="k", condition=condition, left_order=orders, right_order=orders, memory_limit=limit
        )
        pushed, refused = 0, ""
        while not refused and pushed < 5_000:
            batch = pa.record_batch([pa.array(rng.integers(0, 10**6, 8)) for _ in names], schema=schema)
            try:
                assert not list(op.push("right", batch))
                pushed += 8
            except MemoryLimitError as e:
                refused = str(e)
            assert op.metrics.state_bytes <= limit
        assert f"memory_limit of {limit:,} bytes" in refused
        assert op.metrics.state_rows == pushed > 100
