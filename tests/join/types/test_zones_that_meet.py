"""A timestamp without a zone meets one with a zone only if the call gives ``timezone=``."""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin import (
    ConditionError,
    MultiJoin,
    Pick,
    SymmetricHashJoin,
    asof_join,
    band_join,
    column,
    explain,
    lit,
    multi_join,
    window_join,
)
from ivjoin.cli import main
from ivjoin.errors import TimezoneWarning

AT = datetime(2024, 5, 1, 10)
LOCAL = pa.table({"k": [1], "ts": pa.array([AT], pa.timestamp("us"))})
INSTANT = datetime(2024, 5, 1, 8, tzinfo=UTC)
BERLIN = pa.table({"k": [1], "at": pa.array([INSTANT], pa.timestamp("ns", "Europe/Berlin"))})
BOTH = r"(?s)l\.ts .*without a time zone, and r\.at .*timezone='Europe/Berlin'.*convert one of the two columns"
PAIR = {"a": LOCAL, "b": BERLIN}


@pytest.mark.parametrize("condition", [
    "l.ts = r.at", "l.ts <=> r.at", "r.at > l.ts", "l.ts BETWEEN r.at AND r.at",
    "l.ts IN (r.at, TIMESTAMP '2024-01-01')",
    "coalesce(l.ts, r.at) = r.at", "r.at - l.ts < INTERVAL 1 HOUR", "greatest(l.ts, r.at) = r.at",
    "CASE WHEN l.k = 1 THEN l.ts ELSE r.at END = r.at", "l.ts + INTERVAL 1 HOUR <= r.at", "nullif(l.ts, r.at) IS NULL",
    "l.k = r.k AND NOT (l.ts < r.at)", column("ts") == column("at"), "datediff(l.ts, r.at) = 0",
    "timestampdiff(SECOND, l.ts, r.at) <= 5", "timestampdiff(MONTH, r.at, l.ts) = 0", "months_between(l.ts, r.at) < 1",
])  # fmt: skip
def test_conditions(condition: Any) -> None:
    with pytest.raises(ConditionError, match=BOTH):
        band_join(LOCAL, BERLIN, condition=condition)
    band_join(LOCAL, BERLIN, condition=condition, timezone="Europe/Berlin").read_all()


def test_fields_of_structs() -> None:
    nested = pa.table({"s": pa.array([{"ts": AT}])})
    with pytest.raises(ConditionError, match=r"(?s)l\.s\.ts .*without a time zone, and r\.at"):
        band_join(nested, BERLIN, condition="l.s.ts = r.at")
    assert band_join(nested, BERLIN, condition="l.s.ts = r.at", timezone="Europe/Berlin").read_all().num_rows == 1


@pytest.mark.parametrize("query", [
    "SELECT * FROM a JOIN b ON a.ts = b.at", "SELECT * FROM a LEFT JOIN b ON a.ts <= b.at + INTERVAL 1 HOUR",
    "SELECT * FROM a ASOF JOIN b ON a.ts >= b.at", "SELECT a.k FROM a JOIN b ON a.k = b.k WHERE a.ts < b.at",
    "SELECT a.ts = b.at AS same FROM a JOIN b ON a.k = b.k",
])  # fmt: skip
def test_queries(query: str) -> None:
    with pytest.raises(ConditionError, match=r"(?s)a\.ts .*without a time zone, and b\.at"):
        ivjoin.sql(query, **PAIR).read_all()
    ivjoin.sql(query, **PAIR, timezone="Europe/Berlin").read_all()


@pytest.mark.parametrize("query, timezone", [
    ("SELECT b.n FROM a ASOF LEFT JOIN b ON a.at >= b.at", "Europe/Berlin"),
    ("SELECT b.n FROM a ASOF LEFT JOIN b ON b.at <= a.at", "Asia/Tokyo"),
    ("SELECT b.n FROM a ASOF LEFT JOIN b ON a.k = b.k AND a.at <= b.at", "UTC"),
    ("SELECT c.n FROM a ASOF LEFT JOIN c ON a.at >= c.at", None),
])  # fmt: skip
def test_an_asof_join_of_times_of_two_kinds(query: str, timezone: str | None) -> None:
    at = [datetime(2024, 1, 1, h) for h in (3, 9, 15, 21)]
    other = [t + timedelta(minutes=m) for t, m in zip(at, (0, 1, -1, 0), strict=True)]
    a = pa.table({"k": [1] * 4, "at": pa.array(at, pa.timestamp("us"))})
    b = pa.table({"k": [1] * 4, "n": range(4), "at": pa.array(other, pa.timestamp("us", "Europe/Berlin"))})
    c = pa.table({"n": range(4), "at": pa.array([t.date() for t in at])})
    got = ivjoin.sql(query, inputs={"a": a, "b": b, "c": c}, timezone=timezone).to_arrow()["n"].to_pylist()
    right = c if " c " in query else b
    options = {"direction": "forward" if "a.at <=" in query else "backward", "by": "k" if "a.k" in query else None}
    want = ivjoin.asof_join(a, right, on="at", timezone=timezone, suffix="_2", **options).to_arrow()["n"].to_pylist()
    assert got == want
    assert any(n is not None for n in want)


def test_every_entry_point() -> None:
    schemas = LOCAL.schema, BERLIN.schema
    alone = LOCAL.select(["ts"]), BERLIN.select(["at"])
    calls: list[Any] = [
        lambda **z: band_join(LOCAL, BERLIN, on=[("ts", "at")], **z).read_all(),
        lambda **z: asof_join(LOCAL, BERLIN, on=("ts", "at"), **z).read_all(),
        lambda **z: asof_join(LOCAL, BERLIN, on=("ts", "at"), direction="nearest", how="inner", **z).read_all(),
        lambda **z: asof_join(LOCAL, BERLIN, on="k", by=("ts", "at"), **z).read_all(),
        lambda **z: window_join(LOCAL, BERLIN, condition="l.ts = r.at", aggregate={"n": "count(*)"}, **z).read_all(),
        lambda **z: band_join(LOCAL, BERLIN, on="k", pick=Pick("abs(l.ts - r.at)"), **z).read_all(),
        lambda **z: SymmetricHashJoin(*schemas, condition="l.ts = r.at", **z),
        lambda **z: explain(LOCAL, BERLIN, condition="l.ts = r.at", **z),
        lambda **z: explain(*alone, on=[("ts", "at")], **z),
    ]
    for call in calls:
        with pytest.raises(ConditionError, match=BOTH):
            call()
        call(timezone="Europe/Berlin")
    for many in (multi_join, MultiJoin):
        with pytest.raises(ConditionError, match=r"a\.ts is .*b\.at is"):
            many(PAIR if many is multi_join else {"a": schemas[0], "b": schemas[1]}, "a.ts = b.at")
    assert multi_join(PAIR, "a.ts = b.at", timezone="Europe/Berlin").read_all().num_rows == 1
    spec = ivjoin.plan.question.join_spec(*schemas, condition="l.ts = r.at", timezone="UTC")
    assert spec.timezone == "UTC"


def test_the_zone_that_is_given_decides_every_distance() -> None:
    for zone, rows in (("Europe/Berlin", 1), ("UTC", 0)):
        assert band_join(LOCAL, BERLIN, on=[("ts", "at")], timezone=zone).read_all().num_rows == rows
        instants = [datetime(2024, 5, 1, 7, tzinfo=UTC), datetime(2024, 5, 1, 11, tzinfo=UTC)]
        later = pa.table({"at": pa.array(instants, pa.timestamp("us", "UTC")), "j": [0, 1]})
        near = asof_join(LOCAL, later, on=("ts", "at"), direction="nearest", timezone=zone).read_all()
        assert near["j"].to_pylist() == [0 if rows else 1]


def test_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pq.write_table(LOCAL, tmp_path / "l.parquet")
    pq.write_table(BERLIN, tmp_path / "r.parquet")
    (tmp_path / "l.csv").write_text("k,ts\n1,2024-05-01 10:00:00\n")
    out = str(tmp_path / "o.parquet")
    for left in ("l.parquet", "l.csv"):
        files = str(tmp_path / left), str(tmp_path / "r.parquet")
        assert main(["join", *files, "--condition", "l.ts = r.at", "-o", out, "-q"]) == 2
        assert "--timezone" in capfd.readouterr().err
        assert main(["join", *files, "--condition", "l.ts = r.at", "--timezone", "Europe/Berlin", "-o", out, "-q"]) == 0
        assert pq.read_table(out).num_rows == 1
        assert main(["asof", *files, "--on", "ts=at", "-o", out, "-q"]) == 2


def test_functions_without_a_zone() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for condition in (
            "l.ts >= TIMESTAMP '2024-05-01 00:00:00'", "l.ts >= '2024-05-01'",
            "r.at >= TIMESTAMP '2024-05-01 00:00:00'", "r.at >= '2024-05-01'", "l.ts >= DATE '2024-05-01'",
            "CAST(l.ts AS TIMESTAMP) >= r.at - INTERVAL 3 HOURS",
            "l.ts >= timestamp_seconds(l.k)", column("ts") >= lit(datetime(2024, 5, 1)),
        ):  # fmt: skip
            assert band_join(LOCAL, BERLIN, condition=condition).read_all().num_rows == 1, condition
        days = pa.table({"d": [date(2024, 5, 1)]})
        assert band_join(LOCAL, days, condition="l.ts <= r.d + INTERVAL 10 HOURS").read_all().num_rows == 1
    utc = BERLIN.set_column(1, "at", BERLIN["at"].cast(pa.timestamp("us", "UTC")))
    assert band_join(BERLIN, utc, on="at").read_all().num_rows == 1


@pytest.mark.parametrize("condition", [
    "CAST(l.at AS DATE) = r.d", "date_trunc('day', l.at) >= r.d", "hour(l.at) < 3 AND day(r.d) = 31",
    "CAST(l.at AS STRING) < '2025' AND r.d > DATE '2000-01-01'",
])  # fmt: skip
def test_local_time_in_utc_of_another_zone_warns(condition: str) -> None:
    late = pa.table({"at": pa.array([datetime(2024, 3, 30, 23, 30, tzinfo=UTC)], pa.timestamp("us", "Europe/Berlin"))})
    days = pa.table({"d": [date(2024, 3, 30), date(2024, 3, 31)]})
    with pytest.warns(TimezoneWarning, match="local time of UTC, though the column has the zone Europe/Berlin"):
        band_join(late, days, condition=condition)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = band_join(late, days, condition=condition, timezone="Europe/Berlin").read_all()
        assert date(2024, 3, 31) in found["d"].to_pylist()
        band_join(late.set_column(0, "at", late["at"].cast(pa.timestamp("us", "UTC"))), days, condition=condition)
