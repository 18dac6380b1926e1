"""The parts that need no Java: labels, state, packed results, SQL of Columns, watermarks, refusals."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa
import pyarrow.compute as pc

from ivjoin.conditions import condition
from ivjoin.errors import IvjoinError, MissingPackageError, SnapshotError, UnsupportedError
from ivjoin.expr import Scope
from ivjoin.frontier.order import Order
from ivjoin.plan import layout as row_layout
from ivjoin.plan.cache import forget_plans, plan_of
from ivjoin.plan.question import join_spec
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.api.resolving import _orders
from ivjoin.spark.conditions.sqlwriter import called, case_when, literal
from ivjoin.spark.rows.arrow import key_sql
from ivjoin.spark.rows.pack import Seen, packer, parts, whole
from ivjoin.spark.rows.results import Results, opener
from ivjoin.spark.runtime import environment
from ivjoin.spark.runtime.eventtime import with_watermarks
from ivjoin.spark.spread.buckets import (
    bucket_labels,
    checked_count,
    murmur3_of_int,
    state_partition,
    state_partitions,
    stream_count,
)
from ivjoin.spark.spread.spec import differences, identity
from ivjoin.spark.spread.static import _COUNTS, _joiner
from ivjoin.spark.state.bucket import new_operator
from ivjoin.spark.state.codec import FORMAT, compressed, expanded, meta_text, new_token, read_state
from ivjoin.spark.state.streamspread import stream_spread


@pytest.mark.parametrize("value, hashed", [(0, 933211791), (1, -559580957), (12, -319098976), (-1, -1604776387)])
def test_murmur3_is_sparks(value: int, hashed: int) -> None:
    assert murmur3_of_int(value) == hashed


@pytest.mark.parametrize("count", [1, 2, 3, 8, 100, 200])
def test_each_bucket_has_a_state_partition_of_its_own(count: int) -> None:
    labels = bucket_labels(count)
    assert len(set(labels)) == count
    assert {state_partition(x, count) for x in labels} == set(range(count))
    assert labels[0] == 0  # the bucket that notices another count on a checkpoint


def test_labels_measured_on_spark_hit_each_of_eight_partitions() -> None:
    assert [state_partition(x, 8) for x in (12, 6, 5, 1, 25, 15, 2, 0)] == list(range(8))


def test_many_buckets_need_no_search() -> None:
    assert bucket_labels(5000) == tuple(range(5000))


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "8", 100_001])
def test_bucket_counts_are_checked(wrong: Any) -> None:
    with pytest.raises(IvjoinError, match="buckets is"):
        checked_count(wrong, 8)
    assert checked_count(None, 8) == 8


def test_streams_have_at_most_sixteen_buckets_by_default() -> None:
    assert [stream_count(None, partitions) for partitions in (1, 8, 64, 200, 5000)] == [1, 8, 64, 16, 512]
    assert stream_count(40, 200) == 40
    for partitions, cores, n in ((200, 2, 16), (200, 100, 400), (200, 50, 199), (30, 2, 16), (3, 9, 3), (300, 9, 36)):
        assert stream_count(None, state_partitions(partitions, cores)) == state_partitions(partitions, cores) == n
    with pytest.raises(IvjoinError, match="buckets is 0"):
        stream_count(0, 200)


def test_state_of_another_join_is_refused_with_the_difference() -> None:
    meta = meta_text({"how": "inner"}, 8)
    token = new_token()
    assert read_state((FORMAT, meta, token, b"rows"), meta).payload == b"rows"
    with pytest.raises(SnapshotError, match="buckets was '8' and is now '4'; how was 'inner' and is now 'left'"):
        read_state((FORMAT, meta, token, b""), meta_text({"how": "left"}, 4))
    with pytest.raises(SnapshotError, match="format 6.*reads format 5: upgrade"):
        read_state((6, meta, token, b""), meta)
    with pytest.raises(SnapshotError, match="format 2.*reads format 5: start from a new checkpoint"):
        read_state((2, meta, token, b""), meta)


NUMBERED = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.int64())])


def numbered(condition: str = "l.t BETWEEN r.t - 3 AND r.t", slack: int = 4, **changed: Any) -> dict[str, Any]:
    given = {"on": "k", "left_order": Order("t", slack=slack), "right_order": "t", "right": NUMBERED} | changed
    return identity(join_spec(NUMBERED, given.pop("right"), condition=condition, **given))


@pytest.mark.parametrize("now", [
    numbered("r.t >= l.t AND r.t - 3 <= l.t"), numbered("NOT (l.t > r.t) AND l.t - r.t >= -3"), numbered(slack=5),
    numbered(suffix="_r"), numbered(on_late="drop"), numbered(on_late="join"),
    numbered(right=pa.schema(list(NUMBERED)[::-1])),
])  # fmt: skip
def test_what_leaves_the_state_alone_may_change(now: dict[str, Any]) -> None:
    assert now != numbered()
    assert differences(numbered(), now) == []


def test_keys_in_another_order_have_the_same_hot_keys() -> None:
    def spread(on: list[str], key: tuple[int, int]) -> dict[str, str]:
        spec = join_spec(NUMBERED, NUMBERED, on=on, condition="l.t BETWEEN r.t - 3 AND r.t", left_order="t")
        return stream_spread(spec, 4, "auto", [key]).identity

    assert "'v': 2" in spread(["k", "v"], (1, 2))["routing"]
    assert spread(["k", "v"], (1, 2)) == spread(["v", "k"], (2, 1)) != spread(["v", "k"], (1, 2))


@pytest.mark.parametrize(("now", "said"), [
    (numbered(slack=3), "the slack of left_order was 4 and is now 3"),
    (numbered("l.t BETWEEN r.t - 2 AND r.t"), "condition was"),
    (numbered("l.t BETWEEN r.t - 3 AND r.t AND l.v > 0"), "condition was"),
    (numbered("l.t BETWEEN r.t - 3 AND r.t AND l.v * 2 > r.v"), "condition was"),
    (numbered(how="full"), "how was 'inner' and is now 'full'"),
    (numbered(right_order=None), "right_order was 'r.t' and is now 'none'"),
    (numbered(left_bounds={"v": (0, 9)}), "left_bounds was 'none' and is now"),
    (numbered(right=NUMBERED.append(pa.field("w", pa.int64()))), "right columns was"),
    (numbered(on=["k", "v"]), "on was 'k' and is now 'k, v'"), (numbered(timezone="Europe/Paris"), "timezone was"),
])  # fmt: skip
def test_what_changes_the_state_may_not(now: dict[str, Any], said: str) -> None:
    lines = differences(numbered(), now)
    assert any(line.startswith(said) for line in lines), lines


def test_a_declared_order_keeps_all_that_it_says() -> None:
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    frame = SimpleNamespace(schema=[], isStreaming=True, sparkSession=None)
    settings = SimpleNamespace(case_sensitive=False, quoted_names=False)
    given = Order("T", descending=True, slack=3, nulls="last")
    (found,) = _orders(given, 0, frame, [schema, schema], settings, "UTC", [])
    assert str(found.expr) == "l.t"
    assert (found.descending, found.slack, found.nulls) == (True, 3, "last")
    spec = join_spec(schema, schema, on="k", condition="l.t >= r.t", left_order=found)
    assert identity(spec)["left_order"] == "l.t descending nulls last"


@pytest.mark.parametrize("snapshot", [b"", b"x", bytes(range(256)) * 5000], ids=["empty", "a byte", "a megabyte"])
def test_a_snapshot_is_stored_compressed(snapshot: bytes) -> None:
    stored = compressed(snapshot)
    assert expanded(stored) == snapshot
    assert len(stored) < len(snapshot) // 100 + 30


def test_more_than_a_column_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = pa.record_batch({"a": ["x"]})
    assert whole([piece, piece]).num_rows == 2
    many = SimpleNamespace(from_batches=lambda pieces: SimpleNamespace(
        combine_chunks=lambda: SimpleNamespace(to_batches=lambda: list(pieces))
    ))
    monkeypatch.setattr("ivjoin.spark.rows.pack.pa", SimpleNamespace(Table=many))
    with pytest.raises(IvjoinError, match="more than the 2 GB .* take more buckets"):
        whole([piece, piece])


def test_packed_results_come_back_as_they_were() -> None:
    far = datetime(3000, 1, 1, tzinfo=UTC)
    batch = pa.record_batch({
        "a": pa.array([2**60 + 1, None], pa.int64()),
        "t": pa.array([far, None], pa.timestamp("us", "UTC")),
        "m": pa.array([[("x", 2**60 + 1)], None], pa.map_(pa.string(), pa.int64())),
        "n": pa.nulls(2),
    })
    results = Results(most_rows=3)
    frames = [results.output(batch), results.output(batch.slice(1)), results.counts("1,2")]
    whole = pa.concat_tables([pa.Table.from_pandas(f.astype(object), schema=packed_schema()) for f in frames])
    assert whole["counts"].to_pylist() == [None, None, "1,2"]
    rows = [b.select(["rows"]) for b in whole.filter(pc.is_valid(whole["rows"])).to_batches()]
    assert list(opener(batch.schema)(iter(rows))) == [batch, batch.slice(1)]


def packed_schema() -> pa.Schema:
    return pa.schema([("rows", pa.binary()), ("counts", pa.string())])


def test_results_are_flushed_by_their_bytes() -> None:
    batch = pa.record_batch({"a": pa.array(range(1000), pa.int64())})
    results = Results(most_rows=5, flush_bytes=3 * batch.nbytes)
    # with PySpark's limit of 5 rows, what is gathered goes out at every third batch
    assert [len(results.output(batch)) for _ in range(7)] == [1, 1, 7, 1, 1, 7, 1]
    unlimited = Results(most_rows=0, flush_bytes=1)
    assert [len(unlimited.output(batch)) for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("value, text", [
    (None, "NULL"), (True, "TRUE"), (3, "(3)"), (-3, "(-3)"), (2.5, "CAST('2.5' AS DOUBLE)"),
    (float("nan"), "CAST('NaN' AS DOUBLE)"), (Decimal("1.50"), "(1.50)"), (b"\x01a", "X'0161'"),
    ("it's \\", "'it\\'s \\\\'"),
    (date(2020, 2, 29), "DATE '2020-02-29'"), (timedelta(seconds=-1.5), "(INTERVAL '-1.500000' SECOND)"),
    (datetime(2020, 1, 2, 3), "TIMESTAMP_NTZ '2020-01-02 03:00:00'"),
])  # fmt: skip
def test_literals_as_sql(value: Any, text: str) -> None:
    assert literal(value) == text


@pytest.mark.parametrize("left, right, hashed", [
    (pa.timestamp("us"), pa.timestamp("us", "Asia/Tokyo"), False), (pa.date32(), pa.timestamp("us", "UTC"), False),
    (pa.date32(), pa.timestamp("us"), True), (pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"), True),
    (pa.int32(), pa.float64(), True), (pa.decimal128(38, 2), pa.decimal128(38, 20), False),
], ids=str)  # fmt: skip
def test_keys_that_hang_on_the_session_are_not_hashed(left: pa.DataType, right: pa.DataType, hashed: bool) -> None:
    spec = join_spec(pa.schema([("k", left)]), pa.schema([("k", right)]), on="k", timezone="Asia/Tokyo")
    assert bool(key_sql(plan_of(spec))) is hashed


def test_operators_as_sql() -> None:
    assert called("and", ["a", "b"]) == "(a AND b)"
    assert called("isNotNull", ["a"]) == "(a IS NOT NULL)"
    assert called("in", ["a", "1", "2"]) == "(a IN (1, 2))"
    assert called("!", ["a"]) == "(NOT a)"
    assert case_when([("a", "1")], "2") == "(CASE WHEN a THEN 1 ELSE 2 END)"
    with pytest.raises(UnsupportedError, match="'~>'"):
        called("~>", ["a", "b"])


def test_a_watermark_is_an_order_and_its_delay_the_slack() -> None:
    delay = {"ts": timedelta(seconds=10)}
    assert with_watermarks([], delay) == [Order("ts", slack=timedelta(seconds=10))]
    assert with_watermarks([Order("ts")], delay) == [Order("ts", slack=timedelta(seconds=10))]
    given = Order("ts", slack=timedelta(seconds=1))
    assert with_watermarks([given, Order("x")], delay) == [given, Order("x")]


def test_without_java_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(environment.shutil, "which", lambda name: None)
    with pytest.raises(environment.SparkSetupError, match="openjdk-17-jre-headless"):
        environment.session()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(environment.SparkSetupError, match="JAVA_HOME is '/nowhere'"):
        environment.check_java()


@pytest.mark.parametrize("said, old", [
    ('openjdk version "1.8.0_392"', 8), ('openjdk version "11.0.21" 2023-10-17', 11),
    ('openjdk version "17.0.15" 2025-04-15', None), ('openjdk version "21" 2023-09-19', None), ("no version", None),
])  # fmt: skip
def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, old: int | None) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if old is None:
        environment.check_java()
        return
    with pytest.raises(environment.SparkSetupError, match=f"is Java {old}. .*openjdk-17-jre-headless"):
        environment.check_java()


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from ivjoin.spark.runtime import environment

    monkeypatch.setattr(environment, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"pip install 'ivjoin\[spark\]'"):
        environment.require_packages()


@pytest.mark.slow
def test_the_connect_class_has_the_same_methods() -> None:
    from pyspark.sql import DataFrame

    import ivjoin.spark

    assert DataFrame.band_join is ivjoin.spark.band_join
    try:
        from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
    except ImportError:  # grpcio is not there: the parent class is what Connect inherits from since Spark 4
        return
    assert ConnectFrame.band_join is ivjoin.spark.band_join


def plain_spec() -> JoinSpec:
    side = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    band = condition("l.t BETWEEN r.t - 3 AND r.t", Scope(side, side, on=[("k", "k")]))
    return join_spec(side, side, on="k", condition=band, left_order="t", right_order="t", on_late="drop")


def test_operators_of_one_worker_share_what_was_worked_out_of_their_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    before = row_layout._layout
    monkeypatch.setattr(row_layout, "_layout", lambda plan, s: (made.append(s), before(plan, s))[1])
    spec = plain_spec()
    forget_plans()
    ops = [new_operator(spec) for _ in range(3)]
    ops.append(new_operator(pickle.loads(pickle.dumps(spec))))  # each task has a copy of its own
    assert made == [0, 1]
    assert all(op.plan.derived is plan_of(spec).derived for op in ops)
    for op in ops:  # what is shared is not what they join with
        list(op.push("left", pa.record_batch({"k": [1], "t": [5]})))
    for i, op in enumerate(ops):
        got = [b.to_pylist() for b in op.push("right", pa.record_batch({"k": [1], "t": [5 + i]}))]
        assert got == ([[{"k": 1, "t": 5, "t_right": 5 + i}]] if i <= 3 else [])


def test_packed_rows_come_apart_by_label_or_together() -> None:
    spec = plain_spec()
    rows = pa.record_batch({"hash": [0, 1, 2, 1], "k": [0, 1, 2, 1], "t": [5, 6, 9, 7]})
    packed = [b for s in (0, 1) for b in packer(spec, s, (3, 5, 8), ticks=False)(iter([rows]))]
    ordered = pa.Table.from_batches(packed).sort_by("label").to_batches()
    apart = [[t["k"].to_pylist() for t in tables] for tables in parts(iter(ordered), spec.schemas, 1)]
    assert apart == [[[0], [0]], [[1, 1], [1, 1]], [[2], [2]]]
    together = [[sorted(t["k"].to_pylist()) for t in tables] for tables in parts(iter(ordered), spec.schemas)]
    assert together == [[[0, 1, 1, 2], [0, 1, 1, 2]]]


@pytest.mark.parametrize("labels", [(0,), (0, 4, 7)], ids=["one label", "three"])
def test_a_task_of_a_static_join_takes_packed_rows_of_any_labels(labels: tuple[int, ...]) -> None:
    spec = plain_spec().with_orders((), (), "raise")
    given = [{"hash": [1, 2, 2], "k": [1, 2, 2], "t": [5, 6, 9]}, {"hash": [1, 2, -7], "k": [1, 2, 9], "t": [5, 9, 5]}]
    packed = [b for s in (0, 1) for b in packer(spec, s, labels, ticks=False)(iter([pa.record_batch(given[s])]))]
    assert {label for b in packed for label in b.column(0).to_pylist()} <= {*labels}
    total = dict.fromkeys(_COUNTS, 0)
    rows = [tuple(row.values()) for b in _joiner(spec, None, None)(iter(packed), total) for row in b.to_pylist()]
    assert sorted(rows) == [(1, 5, 5), (2, 6, 9), (2, 9, 9)]
    assert (total["left_rows_in"], total["right_rows_in"], total["rows_out"]) == (3, 3, 3)


def test_operators_of_one_worker_do_not_share_what_a_row_that_errs_changes() -> None:
    left = pa.schema([("k", pa.int64()), ("d", pa.int64())])
    right = pa.schema([("k", pa.int64()), ("e", pa.int64())])
    computed = condition("10 div l.d = r.e", Scope(left, right, on=[("k", "k")]))
    spec = join_spec(left, right, on="k", condition=computed, on_late="drop")

    def rows_out(op: Any) -> list[tuple[Any, ...]]:
        list(op.push("left", pa.record_batch([[1, 1, 2], [2, 5, 5]], schema=left)))
        batches = op.push("right", pa.record_batch([[1, 1, 2], [5, 2, 9]], schema=right))
        return sorted(tuple(row.values()) for b in batches for row in b.to_pylist())

    before, erring = new_operator(spec), new_operator(spec)
    list(erring.push("left", pa.record_batch([[7], [0]], schema=left)))  # 10 div 0: hashed by k alone from now on
    for op in (before, new_operator(spec)):
        assert rows_out(op) == [(1, 2, 5), (1, 5, 2)]


def test_a_side_has_come_as_far_as_the_greatest_of_its_batches() -> None:
    schema = pa.schema({"t": pa.int64()})
    spec = join_spec(schema, schema, condition="abs(l.t - r.t) <= 1", left_order=Order("t", slack=9))
    seen = Seen(plan_of(spec), 0)
    for times in ([5, 9], [3, 7]):
        seen.show(pa.record_batch([times], schema=schema))
    assert seen.edges == [9]
