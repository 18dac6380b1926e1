"""State that a finished operator leaves to the next one of its plan: like new, owned by one operator, and small."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from drivers.taken_over import after_another
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from join.cases import Case
from join.plain_cases import plain_cases
from join.strategies import cases
from weights import examples

from ivjoin import LateRowError, SymmetricHashJoin
from ivjoin.operator.match.kernel import reuse

SCHEMA = pa.schema({
    "k": pa.int64(), "j": pa.int32(), "w": pa.string(), "t": pa.int64(), "u": pa.int64(), "b": pa.bool_(),
    "d": pa.float64(), "x": pa.string(),
})  # fmt: skip
BAND = "l.t BETWEEN r.t - 30 AND r.t + 5"
QUESTIONS: dict[str, dict[str, Any]] = {
    "inner": {"on": "k", "condition": BAND}, "full": {"on": "k", "condition": BAND, "how": "full"},
}


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    reuse.forget()
    yield
    reuse.forget()


def batches(seed: int, n: int, keys: int, nulls: bool) -> list[tuple[str, pa.RecordBatch]]:
    """Both sides in turn, in order of t."""
    rng = np.random.default_rng(seed)
    out, at = [], [0, 0]
    for i in range(12):
        s = i % 2
        t = at[s] + np.cumsum(rng.integers(0, 3, n))
        at[s] = int(t[-1])
        lost = rng.random(n) < 0.1 if nulls else np.zeros(n, bool)
        k = rng.integers(0, keys, n)
        columns = [
            pa.array(k, mask=lost), pa.array(k.astype(np.int32) % 5), pa.array([f"w{v % 7}" for v in k], mask=lost),
            pa.array(t), pa.array(rng.integers(0, 100, n), mask=lost), pa.array(rng.random(n) < 0.5, mask=lost),
            pa.array(rng.random(n), mask=lost), pa.array(["x" * (v % 9) for v in k], mask=lost),
        ]
        out.append((("left", "right")[s], pa.RecordBatch.from_arrays(columns, schema=SCHEMA)))
    return out


def made(**question: Any) -> SymmetricHashJoin:
    return SymmetricHashJoin(SCHEMA, SCHEMA, left_order="t", right_order="t", **question)


def rows(op: SymmetricHashJoin, given: list[tuple[str, pa.RecordBatch]], finish: bool = True) -> Counter[str]:
    found: Counter[str] = Counter()
    for side, batch in given:
        for out in op.push(side, batch):
            found.update(map(repr, out.to_pylist()))
    for out in op.finish() if finish else ():
        found.update(map(repr, out.to_pylist()))
    return found


@given(case=cases() | plain_cases(), turn=st.integers(0, 2**16))
@examples(0.2, suppress_health_check=list(HealthCheck))
def test_remaining_state_works_like_a_new_one(case: Case, turn: int) -> None:
    after_another(case, turn)


def test_a_snapshot_of_one_is_as_of_a_new_one() -> None:
    given = batches(1, 40, 9, nulls=True)
    op = made(**QUESTIONS["full"])
    rows(op, batches(2, 60, 30, nulls=True), finish=False)
    del op
    op = made(**QUESTIONS["full"])
    found = rows(op, given[:7], finish=False)
    back = SymmetricHashJoin.restore(op.snapshot())
    del op
    made(**QUESTIONS["full"])
    found += rows(back, given[7:])
    reuse.forget()
    assert found == rows(made(**QUESTIONS["full"]), given)


def test_an_order_is_that_of_the_new_one() -> None:
    op = made(**QUESTIONS["inner"])
    rows(op, batches(3, 50, 9, nulls=False), finish=False)
    late = batches(3, 5, 9, nulls=False)[0]
    with pytest.raises(LateRowError):
        op.push(*late)
    list(op.advance("left", {"t": 10**6}))
    del op
    op = made(**QUESTIONS["inner"])
    assert rows(op, [late], finish=False) == Counter()
    assert op.metrics.state_rows == 5


def test_no_two_have_the_same() -> None:
    for _ in range(3):
        rows(made(**QUESTIONS["inner"]), batches(4, 20, 9, nulls=False))
    held = [made(**QUESTIONS["inner"]) for _ in range(8)]
    for part in ("state", "keys", "account"):
        assert len({id(getattr(op._engine, part)) for op in held}) == len(held)
    assert len({id(s) for op in held for s in op._engine.stores}) == 2 * len(held)


@pytest.mark.slow
def test_only_so_much_is_left() -> None:
    def waiting() -> int:
        return len(reuse._waiting)

    for i in range(10):
        made(on="k", condition=f"l.t BETWEEN r.t - {i} AND r.t")
    assert waiting() == reuse._MOST
    reuse.forget()
    large = made(**QUESTIONS["inner"])
    rows(large, batches(5, 20_000, 10**6, nulls=False), finish=False)
    assert large.metrics.state_bytes > reuse._MOST_BYTES
    del large
    assert waiting() == 0
    op = made(**QUESTIONS["inner"], memory_limit="1MB")
    del op
    assert waiting() == 0
    op = made(**QUESTIONS["inner"])
    op.account.limit = 10**9
    del op
    assert waiting() == 0
    op = made(**QUESTIONS["inner"])
    first = batches(6, 30, 2, nulls=False)
    list(op.push(*first[0]))
    out = op.push(*first[1])
    assert next(out).num_rows
    del out  # abandoned: the operator has let go of its state
    del op
    assert rows(made(**QUESTIONS["inner"]), first) == rows(made(**QUESTIONS["inner"]), first) != Counter()


def test_first_reservation_is_small() -> None:
    op = made(**QUESTIONS["inner"])
    rows(op, batches(7, 4000, 3000, nulls=False))
    del op
    limited = made(**QUESTIONS["inner"], memory_limit="1MB")
    assert limited.metrics.state_bytes < 64_000


@pytest.mark.slow
def test_threads_that_make_operators_of_one_plan_share_none() -> None:
    given = [batches(i, 40, 12, nulls=i % 2 == 0) for i in range(4)]
    want = [rows(made(**QUESTIONS["full"]), g) for g in given]

    def work(i: int) -> bool:
        return all(rows(made(**QUESTIONS["full"]), given[(i + j) % 4]) == want[(i + j) % 4] for j in range(12))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(24)))


@pytest.mark.slow
def test_state_found_by_the_cyclic_collector_is_not_reused() -> None:
    given = batches(8, 30, 9, nulls=True)
    op: Any = made(**QUESTIONS["full"])
    want = rows(op, given[:5], finish=False)
    op._engine.circle = op
    del op
    gc.collect()
    assert len(reuse._waiting) == 0
    op = made(**QUESTIONS["full"])
    assert rows(op, given[:5], finish=False) == want
    assert rows(SymmetricHashJoin.restore(op.snapshot()), given[5:]) == rows(op, given[5:])
