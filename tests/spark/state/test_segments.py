"""The second backend: same rows, state in segments, two joins in one query, missing parts named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark.backends import has_protobuf, store_for
from spark.decisions import BAND, CLOSING, ROWS, SLACK, drawn, first_decided, kept_and_late
from spark.recovery import NUMBERED, band, expected, rows
from spark.script import Script, StreamFailed
from spark.states import Handle

from ivjoin.errors import IvjoinError
from ivjoin.frontier.order import Order
from ivjoin.plan.cache import plan_of

pytestmark = pytest.mark.spark


@pytest.fixture
def rocksdb(spark: Any) -> Iterator[Any]:
    with store_for(spark, "transformWithState"):
        yield spark


def test_missing_parts_are_named(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(spark, tmp_path, band, NUMBERED, NUMBERED)
    sides = script.source("left"), script.source("right")
    if has_protobuf():
        with pytest.raises(IvjoinError, match=r"RocksDB state store.*providerClass to org\.apache"):
            band(*sides, backend="transformWithState")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(IvjoinError, match="pip install protobuf"):
        band(*sides, backend="transformWithState")


def test_stop_start_and_another_join(rocksdb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def join(a: Any, b: Any) -> Any:
        return band(a, b, backend="transformWithState")

    script = Script(rocksdb, tmp_path, join, NUMBERED, NUMBERED)
    left: list[tuple[int, int]] = []
    right: list[tuple[int, int]] = []
    total: Counter[Any] = Counter()
    for batch in range(3):
        left += rows(batch)
        right += [r for r in rows(batch) if r[0] != 4]
        script.add(left=rows(batch), right=[r for r in rows(batch) if r[0] != 4])
        if batch:  # the second run takes one more micro-batch, the first two
            total += script.run()
            assert total == expected(left, right, max(t for _, t in right))
    assert script.counts()[-1]["state_rows"] < 15
    script.join = lambda a, b: band(a, b, backend="transformWithState", how="full")
    script.add(left=rows(9), right=rows(9))
    with pytest.raises(StreamFailed, match="how was 'left' and is now 'full'"):
        script.run()


def test_join_types_give_the_rows_of_the_model(
    rocksdb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three in one query with late rows, in workers that remember nothing; ``test_restarts.py`` plays all eight."""
    from ivjoin.spark.state import segments

    class Forgetful(segments.SegmentedBucket):
        def init(self, handle: Any) -> None:
            from ivjoin.spark.state import bucket

            bucket._kept.clear()
            super().init(handle)

    monkeypatch.setattr(segments, "SegmentedBucket", Forgetful)
    hows = ("full", "left_semi", "right_anti")

    def join(a: Any, b: Any) -> Any:
        whole = None
        for how in hows:
            one = a.band_join(
                b, on="k", condition=BAND, how=how, left_order=Order("t", slack=SLACK), right_order="t", buckets=1,
                backend="transformWithState", name=how, on_late="drop",
            )
            rest = [c if c in one.columns else f"CAST(NULL AS LONG) AS {c}" for c in ("t_right", "v_right")]
            one = one.selectExpr(f"'{how}' AS how", "k", "t", "v", *rest)
            whole = one if whole is None else whole.union(one)
        return whole

    left, right = [*drawn(3)[:2], CLOSING[0]], [*drawn(4)[:2], CLOSING[1]]
    script = Script(rocksdb, tmp_path, join, ROWS, ROWS)
    script.add_all(left, right)
    got = script.run_by_batch()
    kept, late = kept_and_late(left, right)
    assert late > 0
    for how in hows:
        wide = 3 if how.endswith(("semi", "anti")) else 5
        of_type = [Counter({r[1 : 1 + wide]: n for r, n in rows.items() if r[0] == how}) for rows in got]
        assert of_type == first_decided(*kept, how), how
    counts = script.counts()
    assert [c["restored"] for c in counts] == [0] * 3 + [1] * 6


def test_joins_without_a_name_stand_in_one_query(rocksdb: Any, tmp_path: Path) -> None:
    """One after another, and next to a third; stopped and restarted, under other observation names."""

    def join(a: Any, b: Any) -> Any:
        once = band(a, b, how="inner", backend="transformWithState").selectExpr("k", "t", "t_right AS u")
        twice = band(once, b, how="inner", condition="l.u = r.t", left_order="u", backend="transformWithState")
        beside = band(b, a, how="inner", backend="transformWithState").selectExpr("k", "t", "t_right AS u", "t AS v")
        return twice.union(beside)

    script = Script(rocksdb, tmp_path, join, NUMBERED, NUMBERED)
    for batch in range(2):
        script.add(left=rows(batch), right=rows(batch))
    assert script.run() == Counter({(k, t, t, t): 2 for b in range(2) for k, t in rows(b)})
    names = {"ivjoin", "ivjoin#2", "ivjoin#3"}
    assert {c["join"] for c in script.counts()} == names
    script.add(left=rows(2), right=rows(2))
    assert script.run() == Counter({(k, t, t, t): 2 for k, t in rows(2)})
    assert {c["join"] for c in script.counts()} == names
    assert all(c["left_rows_in"] == len(rows(2)) for c in script.counts() if c["batch"] == 2)
    assert len(script.counts()) == 3


def test_one_joined_frame_may_stand_in_a_query_twice(rocksdb: Any, tmp_path: Path) -> None:
    def join(a: Any, b: Any) -> Any:
        once = band(a, b, how="inner", backend="transformWithState")
        return once.union(once)

    script = Script(rocksdb, tmp_path, join, NUMBERED, NUMBERED)
    script.add(left=rows(0), right=rows(0))
    assert script.run() == Counter({(k, t, t): 2 for k, t in rows(0)})
    assert {c["join"] for c in script.counts()} == {"ivjoin"}


@pytest.mark.soak
def test_windows_counted_before_the_join_are_joined(rocksdb: Any, tmp_path: Path) -> None:
    """The result of an aggregation by windows, its window carried along."""
    from pyspark.sql import functions as F

    timed = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])

    def join(a: Any, b: Any) -> Any:
        counted = a.withWatermark("ts", "0 seconds").groupBy("k", F.window("ts", "10 seconds")).count()
        counted = counted.withColumn("end", F.window_time("window"))
        joined = counted.band_join(
            b.withWatermark("ts", "0 seconds"), on="k", backend="transformWithState",
            condition="l.end BETWEEN r.ts - INTERVAL 20 SECONDS AND r.ts",
        )
        start = "1714521600"
        return joined.selectExpr("k", "count", f"unix_seconds(window.end) - {start}", f"unix_seconds(ts) - {start}")

    script = Script(rocksdb, tmp_path, join, timed, timed)
    for s in (0, 10, 20, 90):
        script.add(left=[(1, at(s + i)) for i in range(5)] + [(2, at(s))], right=[(1, at(s + 9)), (2, at(s + 15))])
    got = script.run()
    want = Counter({
        (k, 5 if k == 1 else 1, s + 10, r): 1
        for s in (0, 10, 20)
        for k, r in [(1, x + 9) for x in (0, 10, 20, 90)] + [(2, x + 15) for x in (0, 10, 20, 90)]
        if s + 10 <= r + 1e-6 and r <= s + 10 + 20 - 1e-6
    })
    assert got == want


def at(seconds: int) -> datetime:
    return datetime(2024, 5, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def test_a_log_that_outgrows_its_base_becomes_a_new_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Spark: the processor against a state store of plain Python."""
    from ivjoin.plan.question import join_spec
    from ivjoin.spark.rows.pack import packer, unpacked
    from ivjoin.spark.rows.results import Results
    from ivjoin.spark.state import bucket, segments

    spec = join_spec(NUMBERED, NUMBERED, on="k", left_order="t", right_order="t", on_late="drop")
    schema = plan_of(spec).schema
    held: dict[str, list[Any]] = {}
    processor = segments.SegmentedBucket(spec, 1, Results(most_rows=0))
    processor.init(Handle(held))
    monkeypatch.setattr(segments, "_SHORT_LOG", 1024)
    out, bases = 0, set()
    for batch in range(12):
        frames = []
        for side in (0, 1):
            table = pa.table({"k": [1] * 20, "t": [batch * 20 + i for i in range(20)]})
            whole = table.add_column(0, "bucket", pa.array([0] * 20, pa.int32())).to_batches()
            frames += [b.to_pandas() for b in packer(spec, side, [0])(iter(whole))]
        if batch % 3 == 0:
            bucket._kept.clear()  # another worker: made from base and log
        for frame in processor.handleInputRows((0,), iter(frames), None):
            out += sum(unpacked(rows, schema).num_rows for rows in frame["rows"] if rows is not None)
        bases.update(map(repr, held.get("base", [])))
    assert out == (12 * 20) ** 2  # without a band every pair of the key matches
    assert len(bases) > 1 and len(held.get("log", [])) < 12
