"""Calendar functions against Python's datetime and DuckDB, over the whole range of years and before 1970."""

from __future__ import annotations

import datetime as dt
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from evaluating import ERROR, answers, col

from ivjoin.expr import types as ty
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import TICKS_PER_SECOND

duckdb = pytest.importorskip("duckdb")
EPOCH = dt.datetime(1970, 1, 1)


def days() -> pa.Array:
    rng = random.Random(3)
    first, last = dt.date(1, 1, 1).toordinal(), dt.date(9999, 12, 31).toordinal()
    some = [dt.date.fromordinal(rng.randint(first, last)) for _ in range(2000)]
    ends = [dt.date(y, m, d) for y in (1, 4, 100, 1582, 1900, 1968, 1969, 1970, 2000, 2023, 2024, 9999)
            for m, d in ((1, 1), (1, 31), (2, 28), (3, 1), (12, 31), (12, 28))]  # fmt: skip
    return pa.array([*some, *ends, dt.date(2000, 2, 29), dt.date(2024, 2, 29), None])


def stamps(unit: str) -> pa.Array:
    rng = random.Random(5)
    span = 9_000_000_000 if unit == "ns" else 60_000_000_000
    per = TICKS_PER_SECOND[unit]
    ticks = [rng.randint(-span * per, span * per) for _ in range(1000)] + [-1, 0, 1, -per, -per - 1, -86_400 * per,
        None]
    return pa.array(ticks, pa.int64()).cast(pa.timestamp(unit))


def asked(sql: str, array: pa.Array) -> list[object]:
    with duckdb.connect() as connection:
        connection.register("given", pa.table({"x": array}))
        return [r[0] for r in connection.execute(f"select {sql} from given").fetchall()]


def extract(x: Node, field: str) -> Node:
    return make("extract", (x,), (field, "UTC"), ty.INT32)


DUCK = {"dayofweek": "isodow(x) % 7 + 1", "dayofweek_iso": "isodow(x)", "weekday": "isodow(x) - 1",
    "yearofweek": "isoyear(x)"}
FIELDS = ["year", "quarter", "month", "day", "week", "yearofweek", "dayofweek", "dayofweek_iso", "weekday", "dayofyear"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("field", FIELDS)
def test_fields_of_dates(field: str) -> None:
    x = days()
    want = asked(DUCK.get(field, f"{field}(x)"), x)
    assert answers(extract(col("x", x.type), field), {"x": x}) == want


@pytest.mark.one_in(5)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("field", [*FIELDS, "hour", "minute", "second"])
def test_fields_of_timestamps(field: str, unit: str) -> None:
    x = stamps(unit)
    per = TICKS_PER_SECOND[unit]
    # DuckDB cuts nanoseconds toward zero: it is given microseconds, rounded down.
    floored = [None if v is None else v * 10**6 // per for v in x.cast(pa.int64()).to_pylist()]
    micros = pa.array(floored, pa.int64()).cast(pa.timestamp("us"))
    want = asked(DUCK.get(field, f"{field}(x)") if field != "second" else "floor(extract(second from x))::int", micros)
    assert answers(extract(col("x", x.type), field), {"x": x}) == want


PARTS = ["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"]


@pytest.mark.parametrize("part", PARTS)
def test_date_trunc(part: str) -> None:
    x = stamps("us")
    got = answers(make("date_trunc", (col("x", x.type),), (part, "UTC"), ty.timestamp("us")), {"x": x})
    assert got == asked(f"epoch_us(date_trunc('{part}', x))", x)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
@pytest.mark.parametrize("part", PARTS)
def test_date_trunc_of_other_units(part: str, unit: str) -> None:
    x, per = stamps(unit), TICKS_PER_SECOND[unit]
    got = answers(make("date_trunc", (col("x", x.type),), (part, "UTC"), ty.timestamp(unit)), {"x": x})
    if part in ("microsecond", "millisecond", "second"):
        width = max(per // {"microsecond": 10**6, "millisecond": 1000, "second": 1}[part], 1)
        assert got == [None if v is None else v // width * width for v in x.cast(pa.int64()).to_pylist()]
        return
    whole = pc.cast(pa.array(answers(make("date_trunc", (col("x", x.type),), ("second", "UTC"), ty.timestamp(unit)),
        {"x": x}),
                             pa.int64()).cast(pa.timestamp(unit)), pa.timestamp("us"))  # fmt: skip
    want = asked(f"epoch_us(date_trunc('{part}', x))", whole)
    assert got == [None if w is None else w * per // 10**6 for w in want]  # type: ignore[operator]


@pytest.mark.parametrize("part", ["week", "month", "quarter", "year"])
def test_trunc_of_dates(part: str) -> None:
    x = days()
    got = answers(make("trunc_date", (col("x", x.type),), (part,), ty.DATE), {"x": x})
    want = asked(f"date_trunc('{part}', x)::date", x)
    assert got == [None if w is None else (w - EPOCH.date()).days for w in want]  # type: ignore[operator]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_counts_since_the_epoch_floor(unit: str) -> None:
    x = stamps(unit)
    per = TICKS_PER_SECOND[unit]
    for op, grain in (("unix_seconds", 1), ("unix_millis", 1000), ("unix_micros", 10**6)):
        got = answers(make(op, (col("x", x.type),), (), ty.INT64), {"x": x})
        assert got == [None if v is None else v * grain // per for v in x.cast(pa.int64()).to_pylist()]


def test_counts_since_the_epoch_overflow() -> None:
    x = pa.array([2**63 - 1, -(2**63), (2**63 - 1) // 10**6, (2**63 - 1) // 10**6 + 1],
        pa.int64()).cast(pa.timestamp("s"))
    got = answers(make("unix_micros", (col("x", x.type),), (), ty.INT64), {"x": x})
    assert got == [ERROR, ERROR, (2**63 - 1) // 10**6 * 10**6, ERROR]


def months_later(d: dt.date, n: int) -> dt.date | None:
    total = d.year * 12 + d.month - 1 + n
    year, month = divmod(total, 12)
    if not 1 <= year <= 9999:
        return None
    following = dt.date(year + (month == 11), (month + 1) % 12 + 1, 1) if (year, month) != (9999, 11) else None
    last = 31 if following is None else (following - dt.timedelta(days=1)).day
    return dt.date(year, month + 1, min(d.day, last))


def test_add_months_clamps() -> None:
    rng = random.Random(11)
    x = days()
    counts = [rng.choice([0, 1, -1, 11, 12, -12, rng.randint(-500, 500)]) for _ in range(len(x))]
    n = pa.array(counts, pa.int32())
    node = make("add_months", (col("x", x.type), col("n", n.type)), ("UTC",), ty.DATE)
    got = answers(node, {"x": x, "n": n})
    moved = 0
    for d, c, g in zip(x.to_pylist(), counts, got):
        want = None if d is None else months_later(d, c)
        if want is not None or d is None:
            assert g == (None if want is None else (want - EPOCH.date()).days), (d, c)
            moved += 1
    assert moved > 1500
    stamp = x.cast(pa.timestamp("ms"))
    node = make("add_months", (col("x", stamp.type), col("n", n.type)), ("UTC",), ty.timestamp("ms"))
    assert answers(node, {"x": stamp, "n": n}) == [None if g is None else g * 86_400_000 for g in got]


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_months_and_days_in_a_zone_against_datetime(unit: str) -> None:
    import zoneinfo

    name = "Europe/Paris"
    tz, per = zoneinfo.ZoneInfo(name), TICKS_PER_SECOND[unit]
    rng = random.Random(1)
    seconds = [rng.randint(-2_000_000_000, 4_000_000_000) for _ in range(500)]
    seconds += [1711846800 + d for d in range(-90_000, 90_000, 1800)] + [1729990800 + d
        for d in range(-90_000, 90_000, 1800)]
    below = [rng.randrange(per) for _ in seconds]
    ticks = [s * per + b for s, b in zip(seconds, below)]
    x = pa.array(ticks, pa.int64()).cast(pa.timestamp(unit, name))
    t = ty.timestamp(unit, name)

    def moved(second: int, days: int, months: int) -> int:
        at = dt.datetime.fromtimestamp(second, tz)
        date = months_later(at.date(), months)
        assert date is not None
        local = dt.datetime.combine(date + dt.timedelta(days=days), at.time()).replace(tzinfo=tz)
        kept = local.replace(fold=at.fold)
        if kept.utcoffset() != at.utcoffset() and local.replace(fold=1).utcoffset() == at.utcoffset():
            kept = local.replace(fold=1)  # java.time keeps the offset where it can
        gap = local.replace(fold=0).utcoffset() < local.replace(fold=1).utcoffset()  # type: ignore[operator]
        return int((kept.replace(fold=0) if gap else kept).timestamp())

    for days_ in (1, -1, 30):
        literal = make("literal", (), (days_ * 86_400 * per,), ty.duration(unit))
        got = answers(make("add", (col("x", t), literal), (name,), t), {"x": x})
        assert got == [moved(s, days_, 0) * per + b for s, b in zip(seconds, below)]
        back = answers(make("sub", (col("x", t), literal), (name,), t), {"x": x})
        assert back == [moved(s, -days_, 0) * per + b for s, b in zip(seconds, below)]
    for months in (1, -1, 5):
        literal = make("literal", (), (months,), ty.INT32)
        got = answers(make("add_months", (col("x", t), literal), (name,), t), {"x": x})
        assert got == [moved(s, 0, months) * per + b for s, b in zip(seconds, below)]
    # Under a day, a duration is added to the instant.
    short = make("literal", (), (86_400 * per - 1,), ty.duration(unit))
    assert answers(make("add", (col("x", t), short), (name,), t), {"x": x}) == [v + 86_400 * per - 1 for v in ticks]


@pytest.mark.parametrize("u", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("t", ["s", "ms", "us", "ns"])
def test_casts_of_units(t: str, u: str) -> None:
    have, want = TICKS_PER_SECOND[t], TICKS_PER_SECOND[u]
    ticks = [0, 1, -1, 999, -999, 1001, -1001, 10**12, -(10**12) - 1, 2**63 - 1, -(2**63), 2**62, 9_223_372_036]
    for source, target in (
        (pa.timestamp(t), ty.timestamp(u)), (pa.timestamp(t, "UTC"), ty.timestamp(u, "UTC")),
        (pa.duration(t), ty.duration(u)),
    ):
        x = pa.array(ticks, pa.int64()).cast(source)
        got = answers(make("cast", (col("x", source),), (target, "UTC"), target), {"x": x})
        exact = [v * want // have for v in ticks]
        assert got == [v if -(2**63) <= v < 2**63 else ERROR for v in exact]


def test_timestamps_compare_with_dates_at_the_limits() -> None:
    top = pa.array([2**31 - 1, -(2**31), 0, None], pa.int32()).cast(pa.date32())
    for unit in ("s", "ms", "us", "ns"):
        t = ty.timestamp(unit)
        got = answers(make("cast", (col("d", top.type),), (t, "UTC"), t), {"d": top})
        per = 86_400 * TICKS_PER_SECOND[unit]
        want = [v * per if abs(v * per) < 2**63 else ERROR for v in (2**31 - 1, -(2**31), 0)]
        assert got == [*want, None]
    far = pa.array([2**63 - 1, -(2**63), 86_399, -1], pa.int64()).cast(pa.timestamp("s"))
    got = answers(make("cast", (col("t", far.type),), (ty.DATE, "UTC"), ty.DATE), {"t": far})
    assert got == [ERROR, ERROR, 0, -1]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_least_and_greatest_ticks(unit: str) -> None:
    t = ty.timestamp(unit, "UTC")
    x = pa.array([2**63 - 1, -(2**63)], pa.int64()).cast(pa.timestamp(unit, "UTC"))
    a = col("x", t)
    tick = make("literal", (), (1,), ty.duration(unit))
    assert answers(make("add", (a, tick), ("UTC",), t), {"x": x}) == [ERROR, -(2**63) + 1]
    assert answers(make("sub", (a, tick), ("UTC",), t), {"x": x}) == [2**63 - 2, ERROR]
    assert answers(make("sub", (a, a), ("UTC",), ty.duration(unit)), {"x": x}) == [0, 0]
    # The zone's calendar must not lose the ends of the range either.
    zoned = make("add", (a, make("literal", (), (0,), ty.duration(unit))), ("Europe/Paris",), t)
    assert answers(zoned, {"x": x}) == [2**63 - 1, -(2**63)]
    day = 86_400 * TICKS_PER_SECOND[unit]
    column = make("add", (a, col("d", pa.duration(unit))), ("Europe/Paris",), t)
    d = pa.array([-day, day], pa.int64()).cast(pa.duration(unit))
    got = answers(column, {"x": x, "d": d})
    if unit != "s":
        assert abs(got[0] - (2**63 - 1 - day)) <= day // 12 and abs(got[1] - (-(2**63) + day)) <= day // 12


def test_durations() -> None:
    d, n = col("d", pa.duration("us")), col("n", pa.int64())
    columns = {"d": pa.array([5, -(2**63), 2**62], pa.int64()).cast(pa.duration("us")), "n": pa.array([3, 1, 2])}
    t = ty.duration("us")
    assert answers(make("neg", (d,), (), t), columns) == [-5, ERROR, -(2**62)]
    assert answers(make("abs", (d,), (), t), columns) == [5, ERROR, 2**62]
    assert answers(make("mul", (d, n), (), t), columns) == [15, -(2**63), ERROR]
    assert answers(make("mul", (n, d), (), t), columns) == [15, -(2**63), ERROR]
    assert answers(make("add", (d, d), ("UTC",), t), columns) == [10, ERROR, ERROR]


def test_differences_of_dates() -> None:
    a = pa.array([0, 2**31 - 1, None], pa.int32()).cast(pa.date32())
    b = pa.array([5, -1, 1], pa.int32()).cast(pa.date32())
    node = make("date_diff", (col("a", a.type), col("b", b.type)), (), ty.INT32)
    assert answers(node, {"a": a, "b": b}) == [-5, ERROR, None]
    later = make("add_days", (col("a", a.type), col("n", pa.int32())), (), ty.DATE)
    assert answers(later, {"a": a, "n": pa.array([-3, 1, 1], pa.int32())}) == [-3, ERROR, None]
    assert np.int32(2**31 - 1) == a[1].value
