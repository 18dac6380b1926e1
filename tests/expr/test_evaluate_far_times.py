"""Timestamps in seconds reach 292 billion years: values out of range raise an error, and nothing wraps."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import conditions, expr
from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.kernels.zones import zone_of

TOP = (1 << 63) - 1
ZONES = ["UTC", "America/New_York", "Pacific/Kiritimati", "Asia/Kathmandu", "+14:00", "-12:00"]


def at(text: str, values: list[int], zone: str, tz: str | None = "UTC") -> list[int | None]:
    """Physical results, None where the row errs."""
    t = pa.timestamp("s", tz)
    node = conditions.scalar(text, expr.Scope(pa.schema([("a", t)]), pa.schema([])), timezone=zone)
    column = pa.array(values, pa.int64()).view(t)
    (v,) = evaluate([node], lambda *_: column, len(values))
    erred = [False] * len(values) if v.error is None else list(v.error)
    return [None if e else int(x) for x, e in zip(np.broadcast_to(v.values, (len(values),)), erred)]


def edges() -> list[int]:
    rng = random.Random(5)
    near = [0, 1, 59, 3600, 18_000, 50_399, 50_400, 86_400, 86_401, 31 * 86_400, 366 * 86_400]
    near += [rng.randint(0, 200_000) for _ in range(40)]
    return [TOP - d for d in near] + [-TOP - 1 + d for d in near] + [0, 10**9, -(10**10)]


def near_an_end(second: int) -> bool:
    """Whether the local time, or the start of the day, may be past the range though the instant is not."""
    return not -TOP - 1 + 180_000 <= second <= TOP - 180_000


def offset(second: int, zone: str) -> int:
    return int(zone_of(zone).offsets(np.array([second]))[0])


@pytest.mark.parametrize("zone", ZONES)
def test_instant_to_local_time(zone: str) -> None:
    values = edges()
    want = [v + offset(v, zone) for v in values]
    got = at("CAST(a AS TIMESTAMP_NTZ)", values, zone)
    unit = 1_000_000  # the type's unit is microseconds
    assert got == [w * unit if -TOP - 1 <= w * unit <= TOP else None for w in want]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("field", ["hour", "minute", "second"])
def test_fields_of_the_clock(field: str, zone: str) -> None:
    values = edges()
    for v, got in zip(values, at(f"{field}(a)", values, zone)):
        local = v + offset(v, zone)
        if -TOP - 1 <= local <= TOP:
            assert got == {"hour": local // 3600 % 24, "minute": local // 60 % 60, "second": local % 60}[field], v
        else:
            assert got is None, v


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("text", ["CAST(a AS DATE)", "year(a)"])
def test_dates_and_years_are_32_bits(text: str, zone: str) -> None:
    far = [v for v in edges() if abs(v) > 1 << 60]
    assert at(text, far, zone) == [None] * len(far)
    days = [(1 << 31) - 2, -(1 << 31) + 2]
    if text.startswith("CAST"):
        assert at(text, [d * 86_400 + 43_200 for d in days], "UTC") == days
    else:
        cycles = 5_000_000  # of 400 years
        seconds = cycles * 146_097 * 86_400
        assert at(text, [seconds, 2 * seconds], "UTC") == [400 * cycles + 1970, None]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("months", [1, -1, 12, 1200])
def test_months(months: int, zone: str) -> None:
    values = edges()
    for v, got in zip(values, at(f"a + INTERVAL {months} MONTHS", values, zone)):
        if v == 0 or abs(v) < 1 << 50:
            assert got is not None
            assert abs(got - v - months * 2_629_746) < 10 * 86_400, v
            continue
        low, high = v + months * 28 * 86_400, v + months * 31 * 86_400
        low, high = min(low, high) - 3 * 86_400, max(low, high) + 3 * 86_400
        if low > TOP or high < -TOP - 1:
            assert got is None, v
        elif got is not None:
            assert low <= got <= high, (v, got)
        else:
            assert high > TOP or low < -TOP - 1 or near_an_end(v), v


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("days", [1, -1, 400])
def test_days(days: int, zone: str) -> None:
    values = edges()
    for v, got in zip(values, at(f"a + INTERVAL {days} DAYS", values, zone)):
        want = v + days * 86_400
        if got is None:
            assert near_an_end(v) or near_an_end(want), v
        else:
            assert abs(got - want) <= 7200, (v, got)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", ["DAY", "HOUR", "WEEK", "MONTH", "YEAR"])
def test_truncation_never_rises(unit: str, zone: str) -> None:
    values = edges()
    length = {"HOUR": 3600, "DAY": 86_400, "WEEK": 7 * 86_400, "MONTH": 31 * 86_400, "YEAR": 366 * 86_400}[unit]
    for v, got in zip(values, at(f"date_trunc('{unit}', a)", values, zone)):
        if got is None:
            assert v < -TOP - 1 + length + 100_000 or v > TOP - 100_000, v
        else:
            assert v - length - 3600 <= got <= v, (v, got)
