"""Outer and anti joins of streams whose unmatched rows would never be emitted are refused. Without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin.errors import OrderError
from ivjoin.plan.question import join_spec
from ivjoin.spark.api.schema import refuse_undecided

SIDE = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us", "UTC")), ("x", pa.float64())])
BAND = "l.t BETWEEN r.t - INTERVAL 5 SECONDS AND r.t"
BOTH: dict[str, Any] = {"left_order": "t", "right_order": "t"}


def spec(how: str, **given: Any) -> Any:
    return join_spec(SIDE, SIDE, how=how, **({"on": "k", "timezone": "UTC"} | given))


@pytest.mark.parametrize("how, given, side, why", [
    ("left", {}, "left", "the condition compares nothing but keys"),
    ("full", {"condition": BAND}, "left", "no order and no bounds are declared for the right input"),
    ("left", {"condition": BAND, "left_order": "t"}, "left", "no order and no bounds are declared for the right"),
    ("right_anti", {"condition": BAND, "right_order": "t"}, "right", "no order and no bounds are declared"),
    ("left_anti", {"condition": "l.t <= r.t", **BOTH}, "left", "the band is open; add a lower limit"),
    ("full", {"condition": "l.t <= r.t", **BOTH}, "left", "the band is open"),
    ("right", {"condition": "l.t >= r.t", **BOTH}, "right", "the band is open"),
    ("left", {"condition": f"{BAND} AND l.x > r.x", "left_order": "x"}, "left", "no order"),
])  # fmt: skip
def test_rows_that_nothing_decides_are_refused(how: str, given: dict[str, Any], side: str, why: str) -> None:
    with pytest.raises(OrderError, match=f"how is '{how}', but {side} rows .*{why}.*allow_unbounded=True"):
        refuse_undecided(spec(how, **given))


@pytest.mark.parametrize("how, given", [
    ("inner", {}), ("left_semi", {}), ("right_semi", {"condition": BAND}),
    ("full", {"condition": BAND, **BOTH}), ("left", {"condition": BAND, "right_order": "t"}),
    ("right_anti", {"condition": BAND, "left_order": "t"}), ("right", {"condition": "l.t <= r.t", **BOTH}),
    ("left_anti", {"condition": "l.t >= r.t", **BOTH}), ("full", {"on": ["k", "t"], **BOTH}),
    ("left", {"condition": "abs(l.x - r.x) < 2 AND l.t = r.t", "right_order": "x"}),
    ("left", {"condition": "l.x > 1 AND 1 = 0"}),
])  # fmt: skip
def test_rows_that_a_later_row_decides_are_not(how: str, given: dict[str, Any]) -> None:
    refuse_undecided(spec(how, **given))


def test_a_window_as_a_key_needs_an_order_of_its_end() -> None:
    time = pa.timestamp("us", "UTC")
    side = pa.schema([("k", pa.int64()), ("window", pa.struct([("start", time), ("end", time)]))])
    orders: dict[str, Any] = {"left_order": "window.end", "right_order": "window.end"}
    keys: dict[str, Any] = {"on": ["k", "window"], "how": "full", "timezone": "UTC"}
    with pytest.raises(OrderError, match="compares nothing but keys"):
        refuse_undecided(join_spec(side, side, **keys, **orders))
    refuse_undecided(join_spec(side, side, condition="l.window.end = r.window.end", **keys, **orders))
