"""Functions of angles and clocks, value by value and against DuckDB; and the pruning they allow."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import ivjoin
from ivjoin.conditions.text import to_text
from ivjoin.plan.question import join_spec

D, T = dt.date, dt.datetime
ONE = pa.table({"one": [1]})


def values(expression: str, table: pa.Table, **options: Any) -> list[Any]:
    query = f"SELECT a.i, {expression} AS v FROM a CROSS JOIN one"
    return ivjoin.sql(query, a=table, one=ONE, **options).read_all().sort_by("i")["v"].to_pylist()


def theirs(expression: str, table: pa.Table) -> list[Any]:
    with duckdb.connect() as connection:
        connection.register("a", table)
        connection.sql("SET TimeZone = 'UTC'")
        return connection.sql(f"SELECT i, {expression} AS v FROM a ORDER BY i").to_arrow_table()["v"].to_pylist()


def some(n: int = 60) -> pa.Table:
    r = random.Random(5)
    times = [None, T(1970, 1, 1), T(2000, 1, 3), T(2, 1, 1), T(9999, 12, 31, 23, 59, 59, 999999)]
    times += [T(1900, 1, 1) + dt.timedelta(microseconds=r.randrange(10**16)) for _ in range(n - len(times))]
    numbers = [None, 0.0, -0.0, math.inf, -math.inf, math.nan, 1e308, 5e-324]
    numbers += [r.uniform(-9, 9) for _ in range(n - len(numbers))]
    return pa.table({
        "i": range(n), "t": pa.array(times, pa.timestamp("us")), "x": numbers, "y": r.sample(numbers, n),
        "u": pa.array(times, pa.timestamp("us", "UTC")), "d": [None if t is None else t.date() for t in times],
    })


@pytest.mark.parametrize("expression", [
    "radians(a.x)", "degrees(a.x)", "pi()", "atan2(a.y, a.x)", "epoch(a.t)", "epoch(a.u)",
    "time_bucket(INTERVAL '15' MINUTE, a.t)", "time_bucket(INTERVAL '14' DAY, a.t)",
    "time_bucket(INTERVAL '7' SECOND, a.t, INTERVAL '3' SECOND)", "time_bucket(INTERVAL '1' MONTH, a.t)",
    "time_bucket(INTERVAL '1' YEAR, a.t)", "time_bucket(INTERVAL '5' DAY, a.d)", "CAST(a.t AS TIME)",
    "time_bucket(INTERVAL '1' HOUR, a.u)",
])  # fmt: skip
def test_values_are_those_of_duckdb(expression: str) -> None:
    table = some()
    got, expected = values(expression, table), theirs(expression, table)
    for a, b in zip(got, expected, strict=True):
        if isinstance(b, float):
            assert a == pytest.approx(b, rel=1e-15, abs=5e-324, nan_ok=True)
        else:
            assert a == b


@pytest.mark.parametrize("expression, expected", [
    ("from_utc_timestamp(a.t, 'Asia/Seoul')", T(2016, 8, 31, 9)),
    ("to_utc_timestamp(a.t, 'Asia/Seoul')", T(2016, 8, 30, 15)),
    ("from_utc_timestamp(a.u, 'America/New_York')", T(2016, 8, 30, 20, tzinfo=dt.UTC)),
    ("to_utc_timestamp(a.u, 'America/New_York')", T(2016, 8, 31, 4, tzinfo=dt.UTC)),
    ("date_format(a.t, 'yyyy-MM-dd HH:mm:ss.SSSSSS')", "2016-08-31 00:00:00.000000"),
    ("date_format(a.t, 'EEEE, d MMMM yy, h:m a')", "Wednesday, 31 August 16, 12:0 AM"),
    ("date_format(a.t, '''day'' D EEE MMM ''''')", "day 244 Wed Aug '"),
    ("date_format(a.u, 'HH:mm')", "02:00"), ("CAST(a.u AS TIME)", dt.time(2)),
    ("unix_millis(a.u)", 1472601600000), ("unix_micros(a.u)", 1472601600000000),
])  # fmt: skip
def test_values_as_spark_documents_them(expression: str, expected: Any) -> None:
    at = T(2016, 8, 31)
    table = pa.table({
        "i": [0, 1], "t": pa.array([at, None], pa.timestamp("us")),
        "u": pa.array([at, None], pa.timestamp("us", "UTC")),
    })
    assert values(expression, table, timezone="Europe/Berlin") == [expected, None]


NEW_YORK = "America/New_York"


@pytest.mark.parametrize("expression, expected", [
    ("date_format(a.t, 'yyyy-MM-dd HH:mm')", "2024-03-10 03:30"), ("date_format(a.t, 'h a')", "3 AM"),
    ("timestampdiff(MINUTE, TIMESTAMP_NTZ '2024-03-10 00:00:00', a.t)", 210),
    ("timestampdiff(HOUR, a.t, TIMESTAMP_NTZ '2024-03-10 05:30:00')", 2),
    ("timestampdiff(MINUTE, TIMESTAMP_NTZ '2024-11-03 00:30:00', TIMESTAMP_NTZ '2024-11-03 02:30:00')", 120),
    ("months_between(a.t, TIMESTAMP_NTZ '2024-02-01 00:00:00', FALSE)", 1.2936827956989247),
    ("from_utc_timestamp(a.t, 'America/New_York')", T(2024, 3, 9, 22, 30)),
    ("from_utc_timestamp(TIMESTAMP_NTZ '2024-03-09 17:30:00', 'Asia/Seoul')", T(2024, 3, 10, 3, 30)),
    ("from_utc_timestamp(TIMESTAMP_NTZ '2024-03-10 01:30:00', 'Europe/Berlin')", T(2024, 3, 10, 3, 30)),
    ("to_utc_timestamp(TIMESTAMP_NTZ '2024-03-09 21:30:00', 'America/New_York')", T(2024, 3, 10, 3, 30)),
    ("to_utc_timestamp(TIMESTAMP_NTZ '2024-03-10 04:30:00', '+03:00')", T(2024, 3, 10, 0, 30)),
    ("to_utc_timestamp(TIMESTAMP_NTZ '2024-03-30 23:30:00', 'Europe/Berlin')", T(2024, 3, 30, 21, 30)),
])  # fmt: skip
def test_a_time_that_the_clocks_skip_moves_forward_as_in_spark(expression: str, expected: Any) -> None:
    """Spark 4.3 casts times without a zone to TIMESTAMP for these functions."""
    table = pa.table({"i": [0, 1], "t": pa.array([T(2024, 3, 10, 2, 30), None], pa.timestamp("us"))})
    got = values(expression, table, timezone=NEW_YORK)
    assert got == [expected, None if "a.t" in expression else expected]


@pytest.mark.parametrize("condition", [
    "timestampdiff(MINUTE, l.t, r.t) BETWEEN 0 AND 30", "timestampdiff(HOUR, l.t, r.t) = 1",
    "date_format(l.t, 'MM-dd HH:mm') = date_format(r.t, 'MM-dd HH:mm')",
    "from_utc_timestamp(l.t, 'Asia/Seoul') BETWEEN r.t AND r.t + INTERVAL 13 HOURS",
    "to_utc_timestamp(r.t, 'America/New_York') <= l.t + INTERVAL 4 HOURS",
])  # fmt: skip
@pytest.mark.parametrize("start", [T(2024, 3, 10), T(2024, 11, 3)])
def test_eviction_keeps_the_matches_of_skipped_and_repeated_times(condition: str, start: dt.datetime) -> None:
    times = [start + i * dt.timedelta(minutes=15) for i in range(24)]
    table = pa.table({"t": pa.array(times, pa.timestamp("us"))})
    pairs = ivjoin.sql(
        f"SELECT l.t, r.t AS u, {condition} AS v FROM a l CROSS JOIN a r", a=table, timezone=NEW_YORK
    ).read_all().to_pylist()
    op = ivjoin.SymmetricHashJoin(
        table.schema, table.schema, condition=condition, left_order="t", right_order="t", timezone=NEW_YORK
    )
    got = []
    for row in table.to_batches(max_chunksize=1):
        for side in ("left", "right"):
            got += [tuple(x.values()) for batch in op.push(side, row) for x in batch.to_pylist()]
    assert sorted(got) == sorted((x["t"], x["u"]) for x in pairs if x["v"])


@pytest.mark.parametrize("expression, said", [
    ("time_bucket(INTERVAL '0' SECOND, a.t)", "width above zero"), ("time_bucket(a.i, a.t)", "takes INTERVAL literals"),
    ("time_bucket(INTERVAL '2' MONTH, a.t)", "INTERVAL 1 MONTH, 3 MONTHS or 1 YEAR"),
    ("date_format(a.t, 'QQ')", "does not support 'QQ'"), ("to_utc_timestamp(a.t, 'Nowhere')", "Nowhere"),
])  # fmt: skip
def test_errors(expression: str, said: str) -> None:
    with pytest.raises(ivjoin.ConditionError, match=said):
        values(expression, some(9))


@pytest.mark.parametrize("width", ["INTERVAL 15 MINUTES", "INTERVAL 7 SECONDS", "INTERVAL 1500 MICROSECONDS"])
def test_a_bucket_prunes(width: str) -> None:
    schema = pa.schema([("t", pa.timestamp("us"))])
    said = f"time_bucket({width}, l.t) = time_bucket({width}, r.t)"
    op = ivjoin.SymmetricHashJoin(schema, schema, condition=said, left_order="t", right_order="t")
    start = T(2024, 1, 1)
    for i in range(200):
        row = pa.record_batch([pa.array([start + i * dt.timedelta(minutes=4)], schema.field("t").type)], schema=schema)
        for side in ("left", "right"):
            list(op.push(side, row))
    assert op.metrics.peak_state_rows < 20


def test_periods_overlap_as_in_postgresql() -> None:
    r = random.Random(2)
    rows = [(a, a + r.choice((0, 1, 3, 9))) for a in (r.randrange(20) for _ in range(40))]
    table = pa.table({"s": [s for s, _ in rows], "e": [e for _, e in rows]})
    got = ivjoin.band_join(table, table, condition="(l.s, l.e) OVERLAPS (r.s, r.e)").read_all().to_pylist()
    expected = [
        (a, b, c, d) for a, b in rows for c, d in rows
        if (a == c if a == b and c == d else c <= a < d if a == b else a <= c < b if c == d else a < d and c < b)
    ]
    assert sorted(tuple(x.values()) for x in got) == sorted(expected)
    text = ivjoin.explain(table, table, condition="(l.s, l.e) OVERLAPS (r.s, r.e)")
    assert text.count("band term") == 2


def test_a_period_may_have_a_length() -> None:
    at = pa.table({"t": [T(2024, 1, 1), T(2024, 1, 2)]})
    said = "(l.t, INTERVAL 1 HOUR) OVERLAPS (r.t, INTERVAL 1 DAY)"
    assert ivjoin.band_join(at, at, condition=said).read_all().num_rows == 2


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_infinity_is_beyond_all_times(unit: str) -> None:
    left = pa.table({"t": pa.array([T(2024, 1, 1), T(2200, 1, 1), None], pa.timestamp(unit))})
    periods = duckdb.sql(
        "SELECT * FROM (VALUES (TIMESTAMP '2023-01-01', TIMESTAMP 'infinity'), (TIMESTAMP '-infinity', NULL), "
        "(TIMESTAMP '2100-01-01', TIMESTAMP '2300-01-01')) v(s, e)"
    ).to_arrow_table()
    for said, n in (
        ("l.t >= r.s AND l.t < r.e", 3), ("l.t >= r.s AND l.t < coalesce(r.e, TIMESTAMP 'infinity')", 5),
        ("r.e = 'infinity' AND l.t IS NOT NULL", 2), ("r.s = '-infinity' AND l.t < 'infinity'", 2),
        ("l.t > 'infinity'", 0), ("l.t < '-infinity'", 0), ("l.t BETWEEN '-infinity' AND 'infinity'", 6),
    ):
        assert ivjoin.band_join(left, periods, condition=said).read_all().num_rows == n, said


def test_infinity_reads_back() -> None:
    schema = pa.schema([("d", pa.date32()), ("u", pa.timestamp("us", "UTC")), ("t", pa.timestamp("us"))])
    for said in ("l.d < DATE 'infinity'", "l.u > TIMESTAMP '-infinity'", "l.t < TIMESTAMP_NTZ 'infinity'"):
        node = join_spec(schema, schema, condition=said).condition
        assert node is not None
        assert join_spec(schema, schema, condition=to_text(node)).condition is node


def test_columns_of_intervals_are_widths() -> None:
    left = pa.table({"t": pa.array([T(2024, 1, 1, 1), T(2024, 1, 3)], pa.timestamp("us"))})
    right = duckdb.sql(
        "SELECT TIMESTAMP '2024-01-01' s, unnest([INTERVAL 2 HOURS, INTERVAL 3 DAYS, NULL]) w"
    ).to_arrow_table()
    assert pa.types.is_interval(right.schema.field("w").type)
    for said in ("l.t BETWEEN r.s AND r.s + r.w", "l.t - r.s <= r.w AND l.t >= r.s", "r.w >= l.t - r.s AND l.t >= r.s"):
        assert ivjoin.band_join(left, right, condition=said).read_all().num_rows == 3, said
    assert "band term" in ivjoin.explain(left, right, condition="l.t BETWEEN r.s AND r.s + r.w")


@pytest.mark.parametrize("span, fails", [
    ((0, 0, 1_500_000), False), ((0, -2, 0), False), ((1, 0, 0), True), ((0, 0, 1), True), ((0, 2**31 - 1, 0), True),
])  # fmt: skip
def test_an_interval_without_a_fixed_length_is_an_error(span: tuple[int, int, int], fails: bool) -> None:
    table = pa.table({"i": [1], "t": [T(2024, 1, 1)], "w": pa.array([pa.MonthDayNano(span)])})
    if fails:
        with pytest.raises(ivjoin.EvaluationError, match="interval_length"):
            values("a.t + a.w", table)
    else:
        expected = T(2024, 1, 1) + dt.timedelta(days=span[1], microseconds=span[2] // 1000)
        assert values("a.t + a.w", table) == [expected]
