"""Streams cut along the band into slices of one width: the stages by themselves at random, and in Spark."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import oracle
import pyarrow as pa
import pytest
from spark.backends import BACKENDS, store_for
from spark.script import Script, StreamFailed
from spark.second_opinion import joined

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin.errors import IvjoinError, UnsupportedError
from ivjoin.frontier.order import Order
from ivjoin.plan.cache import plan_of
from ivjoin.plan.question import join_spec
from ivjoin.routing.endless import endless_plans
from ivjoin.spark.rows.pack import packer
from ivjoin.spark.state.bucket import arrivals, new_operator, play
from ivjoin.spark.state.streamspread import StreamSpread, stream_spread

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.int64())])
ENDS = [-(2**63) + 20, -(2**63) + 21, -(2**63) + 30, 2**63 - 31, 2**63 - 22, 2**63 - 21]  # no sum overflows
Row = tuple[int | None, int | None, int]


def spec_of(
    how: str, low: int, high: int, keyed: bool, orders: tuple[bool, bool] = (True, True), more: str = ""
) -> Any:
    left, right = ((Order("t"),) if o else () for o in orders)
    sql = f"l.t >= r.t + ({low}) AND l.t <= r.t + ({high}){more}"
    return join_spec(
        SCHEMA, SCHEMA, on=["k"] if keyed else None, condition=sql, how=how, left_order=left, right_order=right,
        on_late="raise",
    )


def played(spec: Any, spread: StreamSpread, batches: list[tuple[list[Row], list[Row]]], count: int) -> Any:
    """The rows of all buckets, by bucket, each micro-batch in two map tasks a side."""
    run, keep = spread.run(spec), spread.owner(spec)
    assert spread.plans is not None
    ops = {label: new_operator(run) for label in range(count)}
    out: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
    for rows in batches:
        packed = []
        for side in (0, 1):
            for part in (rows[side][::2], rows[side][1::2]):
                batch = pa.RecordBatch.from_pylist([dict(zip("ktv", r, strict=True)) for r in part], SCHEMA)
                given = pa.RecordBatch.from_arrays(
                    [pa.array([0] * len(part), pa.int64()), *batch.columns], names=["hash", *SCHEMA.names]
                )
                packed += packer(spec, side, range(count), route=spread.plans.way)(iter([given]))
        frame = pa.Table.from_batches(packed).to_pandas()
        for label, op in ops.items():
            came = arrivals(run, iter([frame[frame["label"] == label]]))
            out[label] += play(op, run, came, keep)
    for label, op in ops.items():
        assert keep is not None
        out[label] += [kept for b in op.finish() if (kept := keep(b)).num_rows]
    return [pa.Table.from_batches(found, plan_of(spec).schema) for found in out]


def drawn(rng: random.Random, n: int, at_ends: bool) -> list[Row]:
    def place() -> int | None:
        if rng.random() < 0.05:
            return None
        return rng.choice(ENDS) if at_ends and rng.random() < 0.3 else rng.randint(-60, 60)

    return [(rng.choice([None, 0, 0, 0, 1, 2]), place(), i) for i in range(n)]


@pytest.mark.parametrize("how", oracle.HOWS)
def test_random_streams_against_the_nested_loop(how: str) -> None:
    rng = random.Random(how)
    cut = 0
    for turn in range(25):
        low = rng.randint(-4, 4)
        high = low + rng.randint(0, 5)
        keyed, count = rng.random() < 0.5, rng.randint(2, 5)
        orders = rng.choice([(True, True), (True, False), (False, True)])
        computed = not keyed and rng.random() < 0.3  # a key that Spark's hash cannot use
        spec = spec_of(how, low, high, keyed, orders, " AND l.v % 3 = r.v % 3" if computed else "")
        spread = stream_spread(spec, count, "auto", [0] if keyed else None)
        if spread.plans is None:
            assert "no declared order" in spread.why
            continue
        cut += 1
        tables = [sorted(drawn(rng, 40, turn % 5 == 0), key=lambda r: (r[1] is not None, r[1] or 0)) for _ in (0, 1)]
        places = sorted(rng.sample(range(1, 40), 2))
        batches = [(tables[0][a:b], tables[1][a:b]) for a, b in zip([0, *places], [*places, 40], strict=True)]
        out = played(spec, spread, batches, count)

        def met(a: Row, b: Row, low: int = low, high: int = high, computed: bool = computed) -> bool:
            near = a[1] is not None and b[1] is not None and low <= a[1] - b[1] <= high
            return near and not (computed and a[2] % 3 != b[2] % 3)

        keys: Any = [(lambda r: r[0], lambda r: r[0], False)] if keyed else []
        want = oracle.join(tables[0], tables[1], how, keys, met, merged=[(0, 0)] if keyed else [], widths=(3, 3))
        got = Counter(tuple(row.values()) for table in out for row in table.to_pylist())
        assert got == want, (turn, low, high, keyed, count, got - want, want - got)
    assert cut > 5


def test_every_bucket_has_its_share_without_a_key() -> None:
    rows = [(0, t, t) for t in range(4000)]
    for count in (2, 4, 8):
        spec = spec_of("inner", -2, 2, False)
        out = played(spec, stream_spread(spec, count, "auto", None), [(rows, rows)], count)
        sizes = [table.num_rows for table in out]
        assert sum(sizes) == 4000 * 5 - 6
        assert max(sizes) < 1.3 * sum(sizes) / count


@pytest.mark.parametrize("how, condition, orders, why", [
    ("inner", "l.t >= r.t", (True, True), "a band with one end alone"),
    ("inner", "l.t BETWEEN r.t AND r.v", (True, True), "the width of a slice is unknown"),
    ("inner", "l.t + l.v BETWEEN r.t AND r.t + 1", (True, True), "l.t + l.v is not a column"),
    ("left", "l.t BETWEEN r.t AND r.t + 1", (False, True), "the left side has no declared order"),
    ("inner", "l.t BETWEEN -r.t AND 1 - r.t", (True, True), "is not a column"),
    ("inner", "l.t BETWEEN r.t - 9000000000000000000 AND r.t", (True, True), "too wide"),
])  # fmt: skip
def test_streams_that_are_not_cut_give_the_reason(
    tmp_path: Path, how: str, condition: str, orders: tuple[bool, bool], why: str
) -> None:
    left, right = ((Order("t"),) if o else () for o in orders)
    spec = join_spec(SCHEMA, SCHEMA, condition=condition, how=how, left_order=left, right_order=right)
    reason = endless_plans(plan_of(spec))
    assert isinstance(reason, str)
    assert why in reason
    spec = join_spec(SCHEMA, SCHEMA, on=["k"], condition=condition, how=how, left_order=left, right_order=right)
    spread = stream_spread(spec, 4, "auto", None, str(tmp_path))  # nor does a plan cut them
    assert spread.plans is None
    assert why in spread.why
    assert plan_of(spread.run(spec)) is plan_of(spec)


START = datetime(2024, 5, 1, tzinfo=UTC)
TIMED = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
BAND = "l.ts BETWEEN r.ts - INTERVAL 3 SECONDS AND r.ts + INTERVAL 2 SECONDS"
FAR = START + timedelta(seconds=100_000)


def timed(seed: int, n: int) -> list[list[tuple[Any, ...]]]:
    rng = random.Random(seed)
    out = []
    for b in range(2):
        times = sorted(b * 200 + rng.random() * 200 for _ in range(n))
        rows = [(rng.choice([7, 7, 7, 1, 2, None]), START + timedelta(seconds=t), seed * 1000 + b * n + i)
                for i, t in enumerate(times)]  # fmt: skip
        out.append(rows)
    return out


def table(rows: list[list[tuple[Any, ...]]]) -> pa.Table:
    flat = [r for batch in rows for r in batch]
    return pa.table([pa.array(c, f.type) for c, f in zip(zip(*flat, strict=True), TIMED, strict=True)], schema=TIMED)


@pytest.mark.parametrize("how, hot, backend", [("full", False, BACKENDS[0]), ("left", True, BACKENDS[1])])
def test_in_spark_and_after_a_restart(spark: Any, tmp_path: Path, how: str, hot: bool, backend: str) -> None:
    left, right = timed(1, 120), timed(2, 120)
    options: dict[str, Any] = {"on": "k", "hot_keys": [7]} if hot else {}

    def join(a: Any, b: Any, **more: Any) -> Any:
        given = {**options, "buckets": 3, **more}
        return a.band_join(b, condition=BAND, how=how, left_order="ts", right_order="ts", backend=backend, **given)

    with store_for(spark, backend, 2):
        script = Script(spark, tmp_path, join, TIMED, TIMED)
        script.add(left=left[0], right=right[0])
        got = script.run()
        for a, b in zip(left[1:], right[1:], strict=True):
            script.add(left=a, right=b)
        script.add(left=[(-1, FAR, -1)], right=[(-2, FAR, -2)])
        got += script.run()
        sql = BAND.replace("SECONDS", "SECOND") + (" AND l.k = r.k" if hot else "")
        columns = "coalesce(l.k, r.k) AS k, l.ts, l.v, r.ts AS ts_right, r.v AS v_right" if hot else (
            "l.k, l.ts, l.v, r.k AS k_right, r.ts AS ts_right, r.v AS v_right"
        )
        got = Counter({row: n for row, n in got.items() if not {-1, -2} & set(row)})
        assert got == joined(table(left), table(right), how, sql, columns)
        assert sum(c["late_rows"] for c in script.counts()) == 0
        script.join = lambda a, b: join(a, b, routing="hash")
        script.add(left=[(-1, FAR, -1)])
        with pytest.raises(StreamFailed, match="routing|buckets|columns"):
            script.run()


def test_messages_and_refusals(spark: Any) -> None:
    from ivjoin.spark import explain

    rate = spark.readStream.format("rate").load().selectExpr("value AS k", "timestamp AS ts", "value AS v")
    orders = {"left_order": "ts", "right_order": "ts", "buckets": 4}
    text = explain(rate, rate, condition=BAND, **orders)
    assert text.startswith("streaming: rows in 4 buckets, by slices of 20000004 ordinals along l.ts of the left side")
    text = explain(rate, rate, on="k", condition=BAND, hot_keys=[1, 2], **orders)
    assert text.startswith("streaming: rows hashed to 4 buckets by 1 key, those of 2 hot keys by slices of ")
    text = explain(rate, rate, condition="l.ts >= r.ts", **orders)
    assert "in one bucket, since there is no key that both sides share (l.ts has a band with one end alone" in text
    for options, said in (
        ({"hot_keys": "a"}, "hot_keys is 'a'; expected a list of keys"),
        ({"hot_keys": ["a"]}, "hot_keys holds 'a', which is no int64"),
        ({"hot_keys": [(1, 2)]}, r"hot_keys holds \(1, 2\); expected 1 values"),
    ):
        with pytest.raises(IvjoinError, match=said):
            rate.band_join(rate, on="k", condition=BAND, **orders, **options)
    with pytest.raises(IvjoinError, match="but the join has 0 key columns"):
        rate.band_join(rate, condition=BAND, hot_keys=[1], **orders)
    with pytest.raises(UnsupportedError, match="routing is 'grid'; expected 'auto', 'slices' or 'hash'"):
        rate.band_join(rate, condition=BAND, routing="grid", **orders)
    with pytest.raises(UnsupportedError, match="routing_dir is '/tmp/x' with routing='hash'; expected 'auto'"):
        rate.band_join(rate, condition=BAND, routing_dir="/tmp/x", routing="hash", **orders)
