"""Mistakes that newcomers bring from other tools, and the fix that the error names."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import ivjoin
from ivjoin import (
    ColumnError,
    ConditionError,
    LateRowError,
    OptionError,
    Order,
    SchemaError,
    SymmetricHashJoin,
    asof_join,
    band_join,
    explain,
    multi_join,
    window_join,
)

T = pa.table({"k": [1], "ts": [1]})
TIMES = pa.table({"t": [datetime(2024, 1, 1), datetime(2024, 1, 9)]})


@pytest.mark.parametrize(("call", "options", "says"), [
    (asof_join, {"left_on": "ts", "right_on": "ts"}, r"on=\('left name', 'right name'\)"),
    (asof_join, {"on": "ts", "left_by": "k"}, r"by=\[\('left name', 'right name'\)\]"),
    (asof_join, {"on": "ts", "strategy": "nearest"}, "direction='backward', 'forward' or 'nearest'"),
    (asof_join, {"on": "ts", "left_index": True}, r"df.reset_index\(\)"),
    (band_join, {"on": "k", "suffixes": ("a", "b")}, "suffix='_right'"),
    (band_join, {"on": "k", "where": "l.ts < 3"}, "condition='l.a <= r.b'"),
    (band_join, {"on": "k", "colums": ["k"]}, "did you mean 'columns'"),
])  # fmt: skip
def test_options_of_other_tools(call: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        call(T, T, **options)


def test_how_of_many() -> None:
    with pytest.raises(OptionError, match="write hows={'alias': 'left'}"):
        multi_join({"a": T, "b": T}, "a.k = b.k", how="left")  # type: ignore[call-arg]


@pytest.mark.parametrize(("condition", "says"), [
    ("SELECT * FROM l JOIN r ON l.k = r.k", "takes a whole query"), ("ON l.k = r.k", "leave out ON"),
    ("where l.k = r.k", "leave out WHERE"), ("l.k = r.k && l.ts > r.ts", "write AND for &&"),
    ("l.ts < r.ts + INTERVAL 999999999 DAYS", r"(?s)the longest is 106,751,991 DAY.*INTERVAL 999999999 DAYS\n +\^{23}"),
])  # fmt: skip
def test_conditions_that_are_statements(condition: str, says: str) -> None:
    with pytest.raises(ConditionError, match=says):
        band_join(T, T, condition=condition)


def test_a_condition_where_a_key_is_expected_and_other_things_as_conditions() -> None:
    with pytest.raises(ColumnError, match="pass a condition as condition="):
        band_join(T, T, "l.ts BETWEEN r.ts AND r.ts + 5")
    polars = pytest.importorskip("polars")
    with pytest.raises(ConditionError, match=r"which side.*ivjoin.left\('a'\) > 1"):
        band_join(T, T, condition=polars.col("a") > 1)
    with pytest.raises(ConditionError, match="write 'infinity' or '-infinity'"):
        band_join(TIMES, TIMES, condition="l.t < coalesce(r.t, 'inf')")
    assert band_join(TIMES, TIMES, condition="l.t < coalesce(r.t, 'infinity')").read_all().num_rows == 1


def test_columns_of_the_other_side() -> None:
    right = T.rename_columns(["k", "x"])
    with pytest.raises(ColumnError, match="a column of the left side; expected columns of the right side"):
        window_join(T, right, on="k", aggregate={"w": ("l.ts * r.x", "sum")})


@pytest.mark.parametrize("call", [band_join, SymmetricHashJoin])
def test_removed_options_name_what_replaces_them(call: Any) -> None:
    sides = (T, T) if call is band_join else (T.schema, T.schema)
    for option, instead in (
        ({"pick_by": "ts"}, r"no option 'pick_by'; write pick=ivjoin.Pick\(by='ts', keep='last'\)"),
        ({"pick": "last"}, r"pick is 'last'; expected ivjoin.Pick\(.*such as pick=ivjoin.Pick\(by='ts', keep='last'\)"),
        ({"pick": "nearest"}, r"pick is 'nearest'; expected ivjoin.Pick\(...\)"),
    ):
        with pytest.raises(OptionError, match=instead):
            call(*sides, on="k", **option)
    with pytest.raises(OptionError, match=r"no option 'aggregate'; use window_join\(..., aggregate="):
        band_join(T, T, on="k", aggregate={"n": ("*", "count")})  # type: ignore[call-arg]


def test_all_pairs_need_allow_cross() -> None:
    for call in (band_join, explain):
        with pytest.raises(ConditionError, match="neither a key nor a condition.*allow_cross=True"):
            call(T, T)
    assert band_join(T, pa.concat_tables([T, T]), allow_cross=True).read_all().num_rows == 2
    assert "every pair matches" in explain(T, T, allow_cross=True)
    assert band_join(T, T, condition="true").read_all().num_rows == 1


def test_the_index_of_a_pandas_frame() -> None:
    pd = pytest.importorskip("pandas")
    i = pd.DataFrame({"v": [1]}, index=pd.DatetimeIndex([datetime(2024, 1, 1)], name="at"))
    for call in (
        lambda: asof_join(i, i, on="at"), lambda: band_join(i, i, on="at"),
        lambda: band_join(i, i, condition="l.at = r.at"), lambda: multi_join({"left": i, "b": i}, "left.at = b.at"),
    ):  # fmt: skip
        with pytest.raises(ColumnError, match=r"'at' is the index of the left frame.*pass df.reset_index\(\)"):
            call()
    with pytest.raises(ColumnError) as told:
        band_join(i, i, on="att")
    assert "index" not in str(told.value)


@pytest.mark.parametrize(("text", "span"), [
    ("100ns", None), ("500 ms", timedelta(milliseconds=500)), ("1h30m", timedelta(minutes=90)),
    ("1w", timedelta(weeks=1)),
    ("2 days 3 hours", timedelta(days=2, hours=3)), ("1.5 minutes", timedelta(seconds=90)),
    ("10µs", timedelta(microseconds=10)),
    ("1d 2h 3m 4s", timedelta(days=1, hours=2, minutes=3, seconds=4)),
])  # fmt: skip
def test_durations_as_text(text: str, span: timedelta | None) -> None:
    if span is not None:
        assert Order("t", slack=text) == Order("t", slack=span)
        left = TIMES.slice(0, 1)
        for away, found in ((span, 1), (span + timedelta(microseconds=1), 0)):
            near = pa.table({"t": [datetime(2024, 1, 1) - away], "j": [1]})
            assert asof_join(left, near, on="t", how="inner", tolerance=text).read_all().num_rows == found
            streams = iter(left.to_batches()), iter(near.to_batches())
            assert asof_join(*streams, on="t", slack=text, tolerance=text, how="inner").read_all().num_rows == found
    nanos = pa.table({"t": pa.array([0, 100], pa.timestamp("ns"))})
    found = asof_join(nanos.slice(1), nanos.slice(0, 1), on="t", how="inner", tolerance=text).read_all()
    assert found.num_rows == 1
    assert Order("t", slack="100ns") == Order("t", slack=timedelta(microseconds=1))


def test_durations_that_are_none() -> None:
    with pytest.raises(ConditionError, match=r"'-1s'; expected zero or more"):
        asof_join(TIMES, TIMES, on="t", tolerance="-1s")
    with pytest.raises(ConditionError, match=r"give a timedelta, or text such as '5 minutes'$"):
        asof_join(TIMES, TIMES, on="t", tolerance=5)
    for text in ("soon", "5 parsecs", "h", "1h3"):
        with pytest.raises(ConditionError, match="such as '100ns'"):
            asof_join(TIMES, TIMES, on="t", tolerance=text)
        with pytest.raises(ivjoin.OrderError, match="such as '100ns'"):
            Order("t", slack=text)
    with pytest.raises(ivjoin.OrderError, match="zero or more"):
        Order("t", slack="-5s")


def test_what_a_late_row_tells() -> None:
    late = pa.table({"t": [datetime(2024, 1, 5), datetime(2024, 1, 1)]}).to_batches()
    options: dict[str, Any] = {"condition": "l.t = r.t", "left_order": Order("t", slack="1d")}
    with pytest.raises(LateRowError) as told:
        list(band_join(iter(late), TIMES, **options))
    e = told.value
    assert (e.side, e.column, e.value, e.frontier) == ("left", "l.t", datetime(2024, 1, 1), datetime(2024, 1, 4))
    falling = pa.table({"v": [1.5, 3.0]}).to_batches()
    with pytest.raises(LateRowError) as told:
        list(band_join(pa.table({"v": [1.5]}), iter(falling), on="v", right_order=Order("v", descending=True)))
    assert (told.value.side, told.value.value, told.value.frontier) == ("right", 3.0, 1.5)
    with pytest.raises(LateRowError) as told:
        multi_join({"a": iter(late), "b": TIMES}, "a.t = b.t", orders={"a": "t"}).read_all()
    assert (told.value.side, told.value.value, told.value.frontier) == ("a", datetime(2024, 1, 1), datetime(2024, 1, 5))
    with pytest.raises(LateRowError) as told:
        band_join(pa.table({"v": [7]}), pa.table({"v": [7]}), on="v", left_bounds={"v": (0, 5)}).read_all()
    assert (told.value.column, told.value.value, told.value.frontier) == ("l.v", 7, 5)


def test_explain_takes_the_arguments_of_the_join() -> None:
    options: dict[str, Any] = {"on": "k", "condition": "l.ts BETWEEN r.ts AND r.ts + 5"}
    whole = explain(T, T, **options)
    for more in ({"threads": 2}, {"columns": ["k"]}, {"memory_limit": "64MB", "when_full": "spill"}):  # fmt: skip
        assert explain(T, T, **options, **more) == whole
    assert explain(T, T, "k", options["condition"]) == whole
    assert "sort='never'" in explain(T, T, **options, sort="never")
    assert "0 <= l.ts - r.ts <= 5" in explain(T.schema, T.schema, **options)
    for wrong in ({"columns": ["kk"]}, {"threads": 0}, {"sort": "x"}, {"memory_limit": "x"}, {"how": "x"}):
        with pytest.raises(ivjoin.IvjoinError):
            explain(T, T, **options | wrong)
        with pytest.raises(ivjoin.IvjoinError):
            band_join(T, T, **options | wrong)
    with pytest.raises(SchemaError, match=r"expected explain\(left, right, condition=...\)"):
        explain(options["condition"], T)
    with pytest.raises(ivjoin.errors.OptionError, match="got 'condition' twice"):
        explain(T, T, "k", "l.ts = r.ts", condition="l.ts = r.ts")


def test_explain_does_not_advise_against_itself() -> None:
    told = explain(T, T, on="k", condition="l.ts BETWEEN r.ts AND r.ts + 5")
    assert "there are few rows, so they are not sorted" in told
    assert "declare " not in told.split("threads")[0]
    assert "left rows are stored until the right input ends, which is a table or files" in told
    assert "declare right_order='ts'" in explain(T.schema, T.schema, on="k", condition="l.ts BETWEEN r.ts AND r.ts + 5")


@pytest.mark.parametrize(("condition", "column", "says"), [
    ("l.ts >= r.ts", pa.int64(), "add an upper limit such as l.ts <= r.ts + 100"),
    ("l.ts >= r.ts", pa.timestamp("us"), "add an upper limit such as l.ts <= r.ts + INTERVAL 1 HOUR"),
    ("l.ts <= r.ts", pa.date32(), "add a lower limit such as l.ts >= r.ts - INTERVAL 7 DAYS"),
])  # fmt: skip
def test_explain_names_the_limit_that_an_open_band_lacks(condition: str, column: pa.DataType, says: str) -> None:
    s = pa.schema({"ts": column})
    assert says in explain(s, s, condition=condition, left_order="ts", right_order="ts")
