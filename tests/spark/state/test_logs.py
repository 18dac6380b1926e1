"""The state of the default backend as log and base: what a micro-batch writes, and what Spark has to keep for it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import numpy as np
import pandas as pd
from spark.states import Property

from ivjoin.errors import SnapshotError
from ivjoin.plan.cache import plan_of
from ivjoin.plan.question import join_spec
from ivjoin.spark.rows.pack import packer, unpacked
from ivjoin.spark.rows.results import Results
from ivjoin.spark.spread.buckets import bucket_labels, murmur3_of_int, second_key
from ivjoin.spark.state import bucket, stateful
from ivjoin.spark.state.bucket import COUNTS
from ivjoin.spark.state.journal import Log

NUMBERED = pa.schema([("k", pa.int64()), ("t", pa.int64())])
WIDTH = 30_000
SECOND = second_key(0)
SPEC = join_spec(
    NUMBERED, NUMBERED, on="k", condition=f"l.t BETWEEN r.t - {WIDTH} AND r.t", left_order="t", right_order="t"
)


class Bucket:
    """The only bucket of a join, its two groups called as Spark does."""

    def __init__(self) -> None:
        self.function = stateful.BucketFunction(SPEC, 1, Results(most_rows=0))
        self.log, self.base = Property({}, "log"), Property({}, "base")
        self.counts: list[dict[str, int]] = []

    def turn(self, rows: tuple[pa.Table, pa.Table]) -> int:
        """The output."""
        frames, called = packed(rows)
        assert called
        assert not list(self.function((0, None), iter(frames), self.log))
        out = 0
        for frame in self.function((0, SECOND), iter(called), self.base):
            out += sum(unpacked(r, plan_of(SPEC).schema).num_rows for r in frame["rows"] if r is not None)
            self.counts += [
                dict(zip(COUNTS, map(int, c.split(",")), strict=False)) for c in frame["counts"] if c is not None
            ]
        return out


def packed(sides: tuple[pa.Table, pa.Table]) -> tuple[list[pd.DataFrame], list[pd.DataFrame]]:
    """What the map stage sends to the log of the bucket, and to its base."""
    log, base = [], []
    for side, table in enumerate(sides):
        whole = table.add_column(0, "bucket", pa.array([0] * table.num_rows, pa.int32())).to_batches()
        for batch in packer(SPEC, side, [0], two_groups=True)(iter(whole)):
            frame = batch.to_pandas()
            log.append(frame[frame["part"] != SECOND])
            base.append(frame[frame["part"] == SECOND])
    return log, [frame for frame in base if len(frame)]


def drawn(begin: int, end: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"k": rng.integers(0, 10**15, end - begin), "t": np.arange(begin, end)})


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "_kept", OrderedDict())
    monkeypatch.setattr(stateful, "_sizes", OrderedDict())


@pytest.mark.slow
@pytest.mark.parametrize("forget", [False, True])
def test_a_small_micro_batch_over_a_large_window_writes_little(forget: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """30,000 live rows a side, 100 at a time: the state of the window is about 300 times a micro-batch."""
    one, rows, step = Bucket(), 0, 100
    ends = [WIDTH, *range(WIDTH + step, WIDTH + 60 * step, step)]
    begin = 0
    for i, end in enumerate(ends):
        # the same keys on both sides at the same time: each left row has one partner
        if forget:
            bucket._kept.clear()
        rows += one.turn((drawn(begin, end, i), drawn(begin, end, i)))
        begin = end
    assert rows == ends[-1]
    steady = one.counts[2:]
    window = one.counts[0]["bytes_written"]
    written = sum(c["bytes_written"] for c in steady)
    assert written < len(steady) * window / 4
    # and most micro-batches no more than the log
    assert one.base.updates < len(steady) / 8
    assert all(c["restored"] == int(forget) for c in steady)


def test_large_micro_batches_over_a_small_window_write_a_base_each() -> None:
    one = Bucket()
    for i in range(4):
        begin, end = i * 2 * WIDTH, (i + 1) * 2 * WIDTH
        one.turn((drawn(begin, end, i), drawn(begin, end, i)))
    assert one.base.updates == 4
    assert not Log.unpacked(one.log.get[3]).segments


def test_a_base_that_its_log_does_not_name_is_refused() -> None:
    one = Bucket()
    rows = (drawn(0, 50, 0), drawn(0, 50, 0))
    one.turn(rows)
    other = Bucket()
    other.turn(rows)
    one.base = other.base
    with pytest.raises(SnapshotError, match="its log belongs to"):
        one.turn((drawn(50, 60, 1), drawn(50, 60, 1)))
    with pytest.raises(SnapshotError, match="was not met before it"):
        list(one.function((0, SECOND), iter(()), one.base))


@pytest.mark.parametrize("absent", [None, np.nan, pd.NA])
def test_the_key_of_the_log_may_be_absent_in_any_pandas_form(absent: Any) -> None:
    function, log = stateful.BucketFunction(SPEC, 1, Results(most_rows=0)), Property({}, "log")
    assert not list(function((0, absent), iter(()), log))
    assert log.updates == 1


def test_the_two_groups_of_a_bucket_meet_in_one_task(spark: Any) -> None:
    """Spark's hash is the label's in both cases, and Spark sorts null first."""
    labels = sorted({*bucket_labels(64), *range(-50, 50), 2**31 - 1, -(2**31)})
    assert all(murmur3_of_int(second_key(x), murmur3_of_int(x)) == murmur3_of_int(x) for x in labels)
    both = [(label, part) for label in labels for part in (second_key(label), None)]
    groups = spark.createDataFrame(both, "label int, part int")
    hashes = groups.selectExpr("hash(label) = hash(label, part) AS same", "part IS NULL AS log")
    assert {(r.same, r.log) for r in hashes.collect()} == {(True, True), (True, False)}
    first = groups.where("label = 7").sort("label", "part").collect()
    assert [r.part for r in first] == [None, second_key(7)]
