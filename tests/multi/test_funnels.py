"""``multi_join`` step by step: ``hows=``, ``pick=`` per input, aggregates over the last one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drivers.random_funnels import compare

import ivjoin
from ivjoin.cli import main
from ivjoin.errors import ConditionError, IvjoinError, OptionError

VIEW = pa.table({"user": [1, 1, 2, 3], "ts": [10, 20, 30, 40]})
CART = pa.table({"user": [1, 1, 2], "ts": [12, 15, 90], "item": ["a", "b", "c"]})
BUY = pa.table({"user": [1, 1, 3], "ts": [16, 18, 45], "amount": [5.0, 7.0, 1.0]})
FUNNEL = {"view": VIEW, "cart": CART, "buy": BUY}
WITHIN = (
    "cart.user = view.user AND cart.ts BETWEEN view.ts AND view.ts + 5 "
    "AND buy.user = view.user AND buy.ts BETWEEN view.ts AND view.ts + :w"
)


def rows(columns: str, **options: Any) -> list[tuple[Any, ...]]:
    found = ivjoin.multi_join(FUNNEL, WITHIN, params={"w": 10}, columns=columns.split(), **options).to_arrow()
    return sorted(zip(*(c.to_pylist() for c in found.columns), strict=True), key=repr)


@pytest.mark.parametrize("seed", [*range(30), 500_413, 600_198])  # the last two join files with a step without nulls
def test_rows_are_those_of_duckdb(seed: int) -> None:
    compare(seed)


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("first", range(1000, 1400, 100))
def test_more_rows_are_those_of_duckdb(first: int) -> None:
    done = [compare(seed) for seed in range(first, first + 100)]
    assert any(o["pick"] for o in done)
    assert any("aggregate" in o for o in done)


def test_view_without_a_cart_is_emitted() -> None:
    assert rows("view_ts cart_item buy_ts", hows={"cart": "left", "buy": "left"}) == [
        (10, "a", 16), (10, "a", 18), (10, "b", 16), (10, "b", 18), (20, None, None), (30, None, None), (40, None, 45),
    ]  # fmt: skip


def test_one_cart_and_one_purchase_of_each() -> None:
    last = ivjoin.Pick("cart.ts", keep="last")
    first = ivjoin.Pick("abs(buy.ts - view.ts)")
    assert rows("view_ts cart_item buy_ts", pick={"cart": last, "buy": first}) == [(10, "b", 16)]


def test_totals_over_the_last_input() -> None:
    totals = {"n": "count(*)", "per": "sum(buy.amount * :w) / count(*)"}
    assert rows("view_ts cart_item n per", hows={"cart": "left"}, aggregate=totals) == [
        (10, "a", 2, 60.0), (10, "b", 2, 60.0), (20, None, 0, None), (30, None, 0, None), (40, None, 1, 10.0),
    ]  # fmt: skip
    assert rows("view_ts n", hows={"buy": "inner"}, aggregate=totals) == [(10, 2), (10, 2)]


def test_a_column_and_an_aggregate_of_one_name() -> None:
    found = ivjoin.multi_join({"a": VIEW, "b": BUY}, "a.user = b.user", aggregate={"ts": "max(b.ts)"}).to_arrow()
    assert found.column_names == ["a_user", "a_ts", "ts"]
    assert found["ts"].to_pylist() == [18, 18, None, 45]


@pytest.mark.parametrize(("options", "error", "says"), [
    ({"hows": {"view": "left"}}, OptionError, "the first input; expected one that joins it: cart, buy"),
    ({"hows": {"carts": "left"}}, OptionError, "did you mean 'cart'"),
    ({"hows": "left"}, OptionError, "expected a mapping of aliases"),
    ({"hows": {"cart": "right_semi"}}, ConditionError, "how of 'cart'"),
    ({"hows": {"cart": "lft"}}, ConditionError, "did you mean 'left'"),
    ({"pick": {"buy": ivjoin.Pick("buy.ts")}, "aggregate": {"n": "count(*)"}}, OptionError, "both pick= and"),
    ({"hows": {"buy": "full"}, "aggregate": {"n": "count(*)"}}, ConditionError, "expected 'left'"),
    ({"hows": {"cart": "left"}, "views": "all"}, OptionError, "leave views out"),
    ({"pick": {"cart": ivjoin.Pick("cart.tss")}}, IvjoinError, "did you mean 'ts'"),
])  # fmt: skip
def test_what_is_refused(options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        ivjoin.multi_join(FUNNEL, WITHIN, params={"w": 1}, **options)


def test_an_input_that_joins_too_early() -> None:
    condition = "view.user = buy.user AND buy.user = cart.user"
    with pytest.raises(ConditionError, match="no conjunct connects 'cart' with 'view'"):
        ivjoin.multi_join(FUNNEL, condition, hows={"cart": "left"})
    found = ivjoin.multi_join({n: FUNNEL[n] for n in ("view", "buy", "cart")}, condition, hows={"cart": "left"})
    assert found.to_arrow().num_rows == 9


def test_a_column_without_a_type() -> None:
    empty = pa.table({"user": pa.array([], pa.int64()), "item": pa.array([], pa.null())})
    condition = "view.user = cart.user AND cart.item = 'a'"
    found = ivjoin.multi_join({"view": VIEW, "cart": empty}, condition, hows={"cart": "left_anti"})
    assert found.to_arrow().num_rows == 4
    with pytest.raises(ConditionError, match="cart.item and buy.item have no type"):
        ivjoin.multi_join(
            {"view": VIEW, "cart": empty, "buy": empty}, f"{condition} AND view.user = buy.user", hows={"cart": "left"}
        )


def test_late_rows_are_reported_by_alias() -> None:
    late: list[tuple[str, list[int]]] = []
    stream = ivjoin.multi_join(
        {"a": VIEW, "b": pa.table({"user": [1, 1], "ts": [18, 16]})}, "a.user = b.user AND b.ts >= a.ts",
        hows={"b": "left"}, orders={"a": "ts", "b": "ts"},
        on_late=lambda alias, rows: late.append((alias, rows["ts"].to_pylist())),
    )  # fmt: skip
    assert stream.to_arrow().num_rows == 4
    assert late == [("b", [16])]


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = []
    for alias, table in FUNNEL.items():
        pq.write_table(table, tmp_path / f"{alias}.parquet")
        named.append(f"{alias}={tmp_path / alias}.parquet")
    call = ["join", *named, "--condition", WITHIN, "--param", "w=10", "--columns", "view_ts,cart_item,buy_ts",
            "--output-format", "csv"]
    assert main([*call, "--how", "cart=left,buy=left", "--pick", "buy=last by buy.ts"]) == 0
    assert sorted(capsys.readouterr().out.split()[1:]) == ['10,"a",18', '10,"b",18', "20,,", "30,,", "40,,45"]
    assert main([*call, "--how", "left"]) != 0
    assert "--how 'cart=left,buy=left'" in capsys.readouterr().err
