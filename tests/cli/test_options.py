"""Keys, orders and bounds as the command line writes them."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from ivjoin import Order, OrderError
from ivjoin.cli.options import parse_bounds, parse_keys, parse_order, parse_zone


@pytest.mark.parametrize(("texts", "keys"), [
    ([], None), (["k"], ["k"]), (["a,b", " c "], ["a", "b", "c"]), (["id=user_id", "day"], [("id", "user_id"), "day"]),
])  # fmt: skip
def test_keys(texts: list[str], keys: Any) -> None:
    assert parse_keys(texts) == keys


@pytest.mark.parametrize(("text", "order"), [
    pytest.param("ts", Order("ts"), id="name"),
    pytest.param("a + b", Order("a + b"), id="expression"),
    pytest.param(" ts desc ", Order("ts", descending=True), id="descending"),
    pytest.param("ts ASC NULLS LAST", Order("ts", nulls="last"), id="nulls last"),
    pytest.param("ts nulls first", Order("ts", nulls="first"), id="nulls first"),
    pytest.param("price SLACK 5", Order("price", slack=5), id="whole slack"),
    pytest.param("price SLACK 0.1", Order("price", slack=Decimal("0.1")), id="exact slack"),
    pytest.param("ts SLACK 10s", Order("ts", slack=timedelta(seconds=10)), id="seconds"),
    pytest.param("ts SLACK 1.5min", Order("ts", slack=timedelta(seconds=90)), id="minutes"),
    pytest.param("ts SLACK 0.1us", Order("ts", slack=timedelta(microseconds=1)), id="rounded up"),
    pytest.param(
        "a - b DESC NULLS LAST SLACK 2h",
        Order("a - b", descending=True, nulls="last", slack=timedelta(hours=2)),
        id="all of it",
    ),
])  # fmt: skip
def test_orders(text: str, order: Order) -> None:
    assert parse_order(text) == order


@pytest.mark.parametrize("text", ["ts SLACK soon", "ts SLACK -5", "ts SLACK 5y"])
def test_slack_that_cannot_be_read(text: str) -> None:
    with pytest.raises(OrderError, match="slack is '.*'; expected a number, a timedelta, or text such as"):
        parse_order(text)


SCHEMA = pa.schema(
    {
        "k": pa.int64(), "x": pa.float64(), "p": pa.decimal128(9, 2), "d": pa.date32(), "t": pa.timestamp("us"),
        "z": pa.timestamp("us", "UTC"),
    }
)


@pytest.mark.parametrize(("text", "bounds"), [
    ("k=0..6", {"k": (0, 6)}), ("k=-3..", {"k": (-3, None)}), ("k = ..+7", {"k": (None, 7)}),
    ("x=0.5..1e3", {"x": (0.5, 1000.0)}), ("p=0.10..2", {"p": (Decimal("0.10"), 2)}),
    ("d=2024-02-29..2024-03-01", {"d": (date(2024, 2, 29), date(2024, 3, 1))}),
    ("t=2024-03-01T12:00..", {"t": (datetime(2024, 3, 1, 12), None)}),
    ("z=2024-03-01..", {"z": (datetime(2024, 3, 1, tzinfo=ZoneInfo("Europe/Berlin")), None)}),
    ("k + 1=0..6", {"k + 1": (0, 6)}),
])  # fmt: skip
def test_bounds(text: str, bounds: Any) -> None:
    assert parse_bounds([text], SCHEMA, "Europe/Berlin") == bounds


def test_no_bounds() -> None:
    assert parse_bounds([], SCHEMA, "UTC") is None


@pytest.mark.parametrize(("text", "said"), [
    ("k", "expected NAME=LEAST..GREATEST"),
    ("k=5", "expected NAME=LEAST..GREATEST"),
    ("=1..2", "expected NAME=LEAST..GREATEST"),
    ("k=a..b", "a bound of k is 'a'; expected a value of type int64"),
    ("d=today..", "a bound of d is 'today'; expected a value of type date32"),
    ("t=12h..", "a bound of t is '12h'; expected a value of type timestamp"),
])  # fmt: skip
def test_bounds_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(OrderError, match=said):
        parse_bounds([text], SCHEMA, "UTC")


def test_zones() -> None:
    for zone in ("UTC", "+05:30", "GMT-8", "Z", "Europe/Berlin"):
        assert parse_zone(zone) == zone
    bounds = parse_bounds(["z=2024-03-01.."], SCHEMA, "-05:30")
    assert bounds == {"z": (datetime.fromisoformat("2024-03-01T00:00:00-05:30"), None)}


def test_unknown_zone() -> None:
    with pytest.raises(OrderError, match="timezone is 'Mars/Base'"):
        parse_bounds(["z=2024-03-01.."], SCHEMA, "Mars/Base")
