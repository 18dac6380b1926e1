"""memory_limit on Spark: the operator of a task or bucket respects it, with the rows of an unlimited join."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from spark.script import Script, StreamFailed, rows_of

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin import Order, Spill
from ivjoin.errors import IvjoinError, MemoryLimitError, UnsupportedError
from ivjoin.operator.memory.budget import Budget
from ivjoin.plan.cache import plan_of
from ivjoin.plan.question import join_spec
from ivjoin.spark.rows.pack import Seen
from ivjoin.spark.state.bucket import Arrivals, Turn, keep, new_operator, play, restored
from ivjoin.spark.state.codec import compressed
from ivjoin.spark.state.journal import Log, opened

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.int64())])
BAND = "l.t BETWEEN r.t - 4000 AND r.t + 4000"
NARROW = "l.t BETWEEN r.t - 400 AND r.t + 400"
SMALL = Budget(1 << 20)


def rows(seed: int, n: int, start: int = 0, shuffle: bool = True) -> pa.RecordBatch:
    """Times from ``start`` on, one a row, a few of them null or late."""
    rng = np.random.default_rng(seed)
    t = np.arange(start, start + n) - np.where(rng.random(n) < 0.02, 3000, 0)
    order = rng.permutation(n) if shuffle else np.arange(n)
    mask = rng.random(n) < 0.01
    keys, numbers = pa.array(rng.integers(0, 1000, n)), pa.array(np.arange(n) + start)
    return pa.record_batch([keys, pa.array(t[order], mask=mask), numbers], schema=SCHEMA)


def turn(spec: Any, left: pa.RecordBatch, right: pa.RecordBatch) -> Arrivals:
    seen = (Seen(plan_of(spec), 0), Seen(plan_of(spec), 1))
    for s, batch in zip(seen, (left, right), strict=True):
        s.show(batch)
    return Arrivals(([left.serialize().to_pybytes()], [right.serialize().to_pybytes()]), seen)


def played(spec: Any, budget: Budget | None) -> tuple[Counter[Any], Any]:
    op = new_operator(spec, budget)
    out: Counter[Any] = Counter()
    for b in range(4):
        came = turn(spec, rows(2 * b, 20_000, b * 20_000), rows(2 * b + 1, 20_000, b * 20_000))
        for batch in play(op, spec, came):
            out += rows_of(pa.table(batch))
        if b % 2:
            op = restored(op.snapshot(), budget)
    for batch in op.finish():
        out += rows_of(pa.table(batch))
    return out, op.metrics


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "full", "left_anti"])
@pytest.mark.parametrize("on_late", ["drop", "join"])
def test_a_bucket_within_its_limit_gives_the_same_rows(how: str, on_late: str) -> None:
    order = Order("t", slack=100)
    spec = join_spec(
        SCHEMA, SCHEMA, on="k", condition=NARROW, how=how, left_order=order, right_order=order, on_late=on_late
    )
    budget = Budget(3 << 19)
    free, loose = played(spec, None)
    bound, tight = played(spec, budget)
    assert bound == free
    assert sum(free.values()) > 500
    assert loose.late_rows == tight.late_rows
    assert tight.late_rows > 0
    assert tight.peak_state_bytes <= budget.limit < loose.peak_state_bytes


def fill(op: Any, spec: Any) -> None:
    for b in range(20):
        for _ in play(op, spec, turn(spec, rows(b, 5000, b * 5000), rows(b, 5000, b * 5000))):
            pass


def test_a_bucket_past_its_limit_says_what_to_do() -> None:
    spec = join_spec(SCHEMA, SCHEMA, on="k", condition=BAND, on_late="drop")  # no order: every row stays
    op = new_operator(spec, SMALL)
    with pytest.raises(MemoryLimitError, match=r"memory_limit of 1,048,576 bytes.*Of a stream.*more buckets") as e:
        fill(op, spec)
    assert "spill" not in str(e.value)
    grown = restored(op.snapshot(), Budget(64 << 20))
    assert grown.metrics.state_rows == op.metrics.state_rows > 5000
    with pytest.raises(MemoryLimitError, match="Of a stream"):
        restored(op.snapshot(), Budget(100_000))


def test_rows_of_two_orders_are_not_taken_in_pieces() -> None:
    """Sorted by the one, pieces could be late by the other."""
    orders = [Order("t", slack=100), Order("v", slack=100_000)]
    spec = join_spec(SCHEMA, SCHEMA, on="k", condition=NARROW, left_order=orders, right_order=orders, on_late="drop")
    with pytest.raises(MemoryLimitError, match=r"a batch of 60,000 rows is too large"):
        list(play(new_operator(spec, SMALL), spec, turn(spec, rows(1, 60_000), rows(2, 60_000))))


def test_an_operator_kept_under_another_limit_is_not_taken() -> None:
    spec = join_spec(SCHEMA, SCHEMA, on="k", condition=BAND)
    base = compressed(new_operator(spec, None).snapshot())
    stored = SimpleNamespace(before="token", moved=False, log=lambda: Log("token"), base=lambda: base)
    for given, wanted, same in ((None, None, True), (SMALL, SMALL, True), (None, SMALL, False), (SMALL, None, False)):
        op, name = new_operator(spec, given), ("a join", 0)
        keep(name, "token", op)
        found = opened(spec, name, stored, Turn({}), wanted)
        assert (found is op) == same
        assert found.account.limit == (None if wanted is None else wanted.limit)


# -- in Spark ----------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_static_frames_within_a_limit(spark: Any, tmp_path: Path) -> None:
    left, right = (pa.table(rows(s, 60_000)).replace_schema_metadata() for s in (1, 2))
    a, b = (spark.createDataFrame(t) for t in (left, right))
    wide = "l.t BETWEEN r.t - 30000 AND r.t + 30000 AND l.v * 7 % 1000 = r.v"
    call = {"condition": wide, "buckets": 2, "routing": "hash", "on": "k"}
    free = rows_of(a.band_join(b, **call).toArrow())
    assert len(free) > 20
    spilt = a.band_join(b, **call, memory_limit="1MB", when_full=Spill(str(tmp_path)))
    assert rows_of(spilt.toArrow()) == free
    assert not list(tmp_path.iterdir())
    with pytest.raises(Exception, match=r"memory_limit of 1,000,000 bytes.*Fixes: .*when_full='spill'") as error:
        a.band_join(b, **call, memory_limit="1MB").toArrow()
    assert "shed" not in str(error.value).partition("MemoryLimitError: ")[2].partition("\n")[0]


@pytest.mark.spark
def test_a_stream_past_its_limit_goes_on_with_a_greater_one(spark: Any, tmp_path: Path) -> None:
    limit: list[Any] = ["400kB"]

    def join(a: Any, b: Any) -> Any:
        return a.band_join(b, on="k", condition=BAND, buckets=1, memory_limit=limit[0])

    rng = random.Random(3)
    script = Script(spark, tmp_path, join, SCHEMA, SCHEMA)
    given: list[list[tuple[int, int, int]]] = [[], []]
    for b in range(2):
        for side in given:
            side += [(rng.randrange(2000), rng.randrange(20_000), i) for i in range(b * 6000, b * 6000 + 6000)]
        script.add(left=given[0][-6000:], right=given[1][-6000:])
    with pytest.raises(StreamFailed, match=r"memory_limit of 400,000 bytes.*Of a stream"):
        script.run()
    limit[0] = "200MB"
    script.run()
    by_key: dict[int, list[tuple[int, int]]] = {}
    for k, t, v in given[1]:
        by_key.setdefault(k, []).append((t, v))
    want = Counter((k, t, v, u, w) for k, t, v in given[0] for u, w in by_key.get(k, ()) if abs(t - u) <= 4000)
    assert script.seen == want
    assert len(want) > 1000


@pytest.mark.spark
def test_what_is_refused(spark: Any) -> None:
    a = spark.createDataFrame(pa.table({"k": [1], "t": [1], "v": [1]}))
    stream = spark.readStream.format("rate").load().selectExpr("value AS k", "value AS t", "value AS v")
    for frame, options, error, said in (
        (a, {"memory_limit": 0}, IvjoinError, "memory_limit is 0; expected bytes above zero"),
        (a, {"memory_limit": "much"}, IvjoinError, "memory_limit is 'much'"),
        (a, {"when_full": "spill"}, IvjoinError, "without a limit; add memory_limit"),
        (a, {"memory_limit": "1MB", "when_full": Spill("/no/such")}, IvjoinError, "does not exist"),
        (a, {"memory_limit": "1MB", "when_full": "shed"}, UnsupportedError, "expected 'raise', or 'spill' of static"),
        (a, {"memory_limit": "1MB", "when_full": "wait"}, IvjoinError, "when_full is 'wait'"),
        (stream, {"memory_limit": "1MB", "when_full": "spill"}, UnsupportedError, "'spill' with streams"),
    ):  # fmt: skip
        with pytest.raises(error) as e:
            frame.band_join(frame, on="k", condition=BAND, **options)
        assert said in str(e.value)
