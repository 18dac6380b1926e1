"""Columns without any value, as a CSV file with only a header gives them: no type is known or needed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ivjoin

LEFT = pa.table({
    "id": [1], "ts": [datetime(2024, 1, 1)], "x": [1.5], "d": pa.array([datetime(2024, 1, 1)]).cast(pa.date32()),
    "s": ["a"], "u": pa.nulls(1),
})  # fmt: skip
RIGHT = pa.table({"id": [1, 1], "at": pa.nulls(2), "v": pa.nulls(2)})


@pytest.fixture
def header(tmp_path: Path) -> str:
    (tmp_path / "head.csv").write_text("id,at,v\n")
    return str(tmp_path / "head.csv")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("condition", [
    "l.ts <= r.at + INTERVAL 1 HOUR", "l.ts <= r.at + INTERVAL 1 HOUR + INTERVAL 1 MONTH",
    "r.at - l.ts < INTERVAL 1 DAY",
    "l.ts - r.at < INTERVAL 1 HOUR", "r.at - INTERVAL 1 DAY < l.ts", "l.d - r.at < 3", "r.v + 1 < 2",
    "l.ts + r.v < r.at", "year(r.at) = 2024", "hour(r.at) = 1", "dayofweek(r.at) = 1",
    "abs(l.x - r.v) < 1", "l.x * r.v > 0", "date_trunc('day', r.at) = l.ts", "unix_micros(r.at) > 3", "r.v LIKE 'a%'",
    "upper(r.v) = l.s", "CAST(r.at AS TIMESTAMP) < l.ts", "r.at BETWEEN l.ts AND l.ts + INTERVAL 1 DAY",
    "r.v IN (1, 2)", "NOT r.v", "datediff(l.d, r.at) < 3", "sqrt(r.v) < 1", "-r.v < 1", "r.v = l.u",
    "r.at + INTERVAL 1 HOUR < r.v", "r.v + 1 = 2", "l.x BETWEEN r.v - 1 AND r.v + 1",
])  # fmt: skip
def test_a_condition_over_them_is_never_true(condition: str, header: str) -> None:
    for right in (RIGHT, RIGHT.slice(0, 0), header):
        got = ivjoin.band_join(LEFT, right, on="id", condition=condition, how="left").read_all()
        assert got["at"].to_pylist() == [None]
        assert ivjoin.band_join(LEFT, right, on="id", condition=condition).read_all().num_rows == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("on", [("ts", "at"), ("u", "at"), ("x", "v"), ("d", "at")])
@pytest.mark.parametrize("options", [
    {}, {"direction": "forward"}, {"direction": "nearest"}, {"by": "id"}, {"allow_exact_matches": False},
])  # fmt: skip
def test_an_asof_join_finds_no_row(on: tuple[str, str], options: dict[str, Any], header: str) -> None:
    for right in (RIGHT, header):
        got = ivjoin.asof_join(LEFT, right, on=on, **options).read_all()
        assert got.num_rows == 1
        assert got[on[1]].to_pylist() == [None]
    swapped = ivjoin.asof_join(RIGHT, LEFT, on=on[::-1], **options).read_all()
    assert (swapped.num_rows, swapped["s"].to_pylist()) == (2, [None, None])


def test_a_tolerance_is_in_the_unit_of_the_other_column() -> None:
    assert ivjoin.asof_join(LEFT, RIGHT, on=("ts", "at"), tolerance="1 hour").read_all().num_rows == 1
    assert ivjoin.asof_join(LEFT, RIGHT, on=("x", "v"), tolerance=3).read_all().num_rows == 1


@pytest.mark.parametrize(("function", "value", "t"), [
    ("count", 0, pa.int64()), ("sum", None, pa.float64()), ("mean", None, pa.float64()), ("min", None, pa.null()),
    ("max", None, pa.null()), ("first", None, pa.null()), ("last", None, pa.null()),
])  # fmt: skip
def test_aggregates_of_them(function: str, value: object, t: pa.DataType, header: str) -> None:
    for right in (RIGHT, header):
        got = ivjoin.window_join(LEFT, right, on="id", how="left", aggregate={"m": ("v", function)}).read_all()
        assert (got["m"].to_pylist(), got["m"].type) == ([value], t)


def test_a_pick_by_them_takes_any_row() -> None:
    got = ivjoin.band_join(LEFT, RIGHT, on="id", how="left", pick=ivjoin.Pick("at", "last")).read_all()
    assert (got.num_rows, got["v"].to_pylist()) == (1, [None])
