"""``window_join`` against DuckDB's grouped joins, over tables, streams, orders, threads and batches."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin import Order


def side(rng: np.random.Generator, n: int, span: int, ordered: bool) -> pa.Table:
    t = rng.integers(0, span, n)
    t = np.sort(t) if ordered else t
    x = np.where(rng.random(n) < 0.05, np.nan, np.round(rng.normal(size=n) * 100, 1))
    return pa.table({
        "i": np.arange(n), "j": np.arange(n), "k": rng.integers(0, 3, n),
        "t": pa.array(t, mask=np.zeros(n, bool) if ordered else rng.random(n) < 0.05),
        "x": pa.array(x, mask=rng.random(n) < 0.2), "y": pa.array(rng.random(n), mask=rng.random(n) < 0.2),
        "w": rng.random(n), "q": pa.array(rng.integers(-100, 100, n), mask=rng.random(n) < 0.3),
        "small": pa.array(rng.integers(0, 6, n), mask=rng.random(n) < 0.3),
        "s": pa.array(np.array(["a", "b", "é", ""])[rng.integers(0, 4, n)], mask=rng.random(n) < 0.3),
    })  # fmt: skip


def with_previous(left: pa.Table, right: pa.Table, low: int, high: int, back: int = 1) -> dict[int, list[int]]:
    """Return the numbers of the right rows of each left row: those in the window, and the last one before it.

    Of rows of one time, the one that arrives last is the last; with ``back=-1`` the rows arrive in reverse.
    """
    out = {}
    rows = sorted((r for r in right.to_pylist() if r["t"] is not None), key=lambda r: (r["t"], back * r["j"]))
    for a in left.to_pylist():
        if a["t"] is None:
            out[a["i"]] = []
            continue
        same = [b for b in rows if b["k"] == a["k"]]
        before = [b["j"] for b in same if b["t"] < a["t"] + low]
        out[a["i"]] = before[-1:] + [b["j"] for b in same if a["t"] + low <= b["t"] <= a["t"] + high]
    return out


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(20))
def test_the_row_before_the_window_counts_as_its_first(seed: int) -> None:
    rng = np.random.default_rng([seed, 5])
    ordered = seed % 4 != 3
    left, right = side(rng, 60, 300, ordered), side(rng, 120, 300, ordered)
    low, high = [(-20, 0), (-5, -2), (3, 9), (-1, 1), (-300, 10)][seed % 5]
    options: dict[str, Any] = {
        "on": "k", "condition": f"r.t BETWEEN l.t + ({low}) AND l.t + ({high})", "include_previous": True,
        "aggregate": {"n": "count(*)", "js": "array_agg(r.j)", "first": "first(r.j)", "total": "sum(r.j)"},
    }
    wanted = with_previous(left, right, low, high, -1 if seed % 4 == 2 else 1)
    sides: list[Any] = [left, right]
    if ordered:
        options |= {"left_order": "t", "right_order": "t"}
        if seed % 4 == 1:
            sides = [iter(left.to_batches(3)), iter(right.to_batches(5))]
        if seed % 4 == 2:  # both fall
            sides = [left.take(np.arange(60)[::-1]), right.take(np.arange(120)[::-1])]
            fall = ivjoin.Order("t", descending=True)
            options |= {"left_order": fall, "right_order": fall}
    got = ivjoin.window_join(*sides, **options).to_arrow()
    assert len(got) == 60
    for row in got.to_pylist():
        js = wanted[row["i"]]
        assert row["n"] == len(js) and sorted(row["js"] or []) == sorted(js)
        assert row["total"] == (sum(js) if js else None)
        if seed % 4 < 2:
            assert row["first"] == (js[0] if js else None) and row["js"] == (js or None)
    inner = ivjoin.window_join(left, right, **options | {"left_order": None, "right_order": None}, how="inner")
    assert inner.to_arrow().num_rows == sum(map(bool, wanted.values()))


@pytest.mark.parametrize("how", ["left", "inner"])
def test_the_row_before_the_window_is_read_from_any_row_group(how: Any, tmp_path: Path) -> None:
    """Row groups without a row in a window were skipped."""
    left, right = pa.table({"t": [50, 150]}), pa.table({"t": [1, 2, 100, 101, 300], "x": [1, 2, 3, 4, 5]})
    for name, rows in (("l", left), ("r", right)):
        pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=1)
    for more in ({}, {"left_order": "t", "right_order": "t"}):
        got = ivjoin.window_join(
            tmp_path / "l.parquet", tmp_path / "r.parquet", condition="r.t BETWEEN l.t - 5 AND l.t", how=how,
            aggregate={"x": "array_agg(r.x)"}, include_previous=True, **more,
        ).read_all()
        assert got.sort_by("t")["x"].to_pylist() == [[2], [4]]


def test_the_state_with_previous_rows_stays_at_the_window() -> None:
    n = 20_000
    t = np.arange(n)
    left, right = pa.table({"t": t, "k": t % 5}), pa.table({"t": t, "k": t % 5, "x": t})
    got = ivjoin.window_join(
        iter(left.to_batches(500)), iter(right.to_batches(500)), on="k", condition="r.t BETWEEN l.t - 20 AND l.t",
        aggregate={"n": "count(*)"}, include_previous=True, left_order="t", right_order="t",
    )
    assert set(got.to_arrow()["n"].to_pylist()[100:]) == {6}
    assert got.metrics.peak_state_rows < 4000


@pytest.mark.parametrize(("aggregate", "said"), [
    ({"a": "r.x"}, "outside an aggregate function"), ({"a": "sum(l.y * r.x)"}, "left column in an aggregate"),
    ({"a": "sum(count(*))"}, "within another"), ({"a": "stddev(r.s)"}, "expected a number"),
    ({"a": "quantile(r.x, 2)"}, "from 0 to 1"), ({"a": "quantile(r.x)"}, "expected 2"),
    ({"a": "sum(DISTINCT r.x)"}, "only in count"), ({"a": "sum(r.x) OVER (ORDER BY r.t)"}, "leave OVER out"),
    ({"a": "array_agg(r.x ORDER BY r.y)"}, "ORDER BY"), ({"a": "sum(r.nope)"}, "'nope'"),
    ({"a": "median(*)"}, "only count"), ({"a": "bool_and(r.q)"}, "expected a condition"),
    ({"a": "nosuch(r.x)"}, "not known"), ({"a": ("sum", "x")}, "the column comes first"),
    ({"a": ("x", "quantile")}, "0.9"), ({"a": 5}, "expected SQL text"), ({"t": "count(*)"}, "left column"),
    ({}, "expected {name: text}"), ({"a": "sum(r.x"}, "cannot be read"),
])  # fmt: skip
def test_refused_aggregates(aggregate: Any, said: str) -> None:
    rows = side(np.random.default_rng(0), 3, 10, True)
    with pytest.raises(ivjoin.IvjoinError, match="(?s)" + said.replace("{", r"\{").replace("(", r"\(")):
        ivjoin.window_join(rows, rows, on="k", condition="abs(l.t - r.t) < 5", aggregate=aggregate)


def test_refused_options() -> None:
    rows = side(np.random.default_rng(0), 3, 10, True)
    count = {"n": "count(*)"}
    with pytest.raises(ivjoin.ConditionError, match="'left'.*'inner'"):
        ivjoin.window_join(rows, rows, on="k", aggregate=count, how="full")
    with pytest.raises(ivjoin.UnsupportedError, match="FILTER"):
        ivjoin.window_join(rows, rows, on="k", condition="r.t BETWEEN l.t - 5 AND l.t AND r.x < l.x", aggregate=count,
                           include_previous=True)  # fmt: skip
    with pytest.raises(ivjoin.UnsupportedError, match="lower end"):
        ivjoin.window_join(rows, rows, on="k", condition="r.t <= l.t", aggregate=count, include_previous=True)
    with pytest.raises(ivjoin.UnsupportedError, match="aggregate"):
        ivjoin.window_join(rows, rows, on="k", aggregate=count, memory_limit="1MB", when_full="shed")
    assert ivjoin.window_join(rows, rows, aggregate=count).to_arrow()["n"].to_pylist() == [3, 3, 3]


def test_an_error_names_the_aggregate() -> None:
    rows = pa.table({"t": [1, 2], "x": [0, 1]})
    stream = ivjoin.window_join(rows, rows, condition="l.t = r.t", aggregate={"a": "1 / sum(r.x)"})
    with pytest.raises(ivjoin.EvaluationError, match=r"a: .*zero"):
        stream.to_arrow()


def test_types_of_the_output() -> None:
    rows = pa.table({
        "t": pa.array([1, 2], pa.timestamp("us", "UTC")), "d": pa.array(["a", "b"]).dictionary_encode(),
        "c": pa.array([Decimal("1.50"), Decimal("2.25")], pa.decimal128(9, 2)), "n": pa.nulls(2),
        "u": pa.array([1, 2**64 - 1], pa.uint64()), "b": pa.array([b"a", None], pa.binary()),
    })  # fmt: skip
    stream = ivjoin.window_join(rows, rows, condition="r.t <= l.t", aggregate={
        "last_t": "max(r.t)", "some_t": "max(r.t) FILTER (WHERE r.u > 5)", "d1": "first(r.d)", "ds": "array_agg(r.d)",
        "c1": "sum(r.c)", "c2": "median(r.c)", "n1": "median(r.n)", "n2": "count_distinct(r.n)", "u1": "max(r.u)",
        "u2": "count_distinct(r.u)", "b1": "any_value(r.b)", "ago": "l.t - min(r.t)", "ts": "array_agg(r.t)",
    })  # fmt: skip
    got = stream.to_arrow()
    assert got.schema.equals(stream.schema)
    last = got.to_pylist()[1]
    at = rows["t"].to_pylist()
    assert (last["last_t"], last["some_t"], last["ts"], last["ago"]) == (at[1], at[1], at, at[1] - at[0])
    assert (last["d1"], last["ds"], last["c1"], last["c2"]) == ("a", ["a", "b"], Decimal("3.75"), 1.875)
    assert (last["n1"], last["n2"], last["u1"], last["u2"], last["b1"]) == (None, 0, 2**64 - 1, 2, b"a")


def test_params_in_condition_and_aggregates() -> None:
    rows = pa.table({"t": [1, 2, 3], "x": [5, 6, 7]})
    got = ivjoin.window_join(
        rows, rows, condition="r.t BETWEEN l.t - :w AND l.t", aggregate={"n": "count(*) FILTER (WHERE r.x > :least)"},
        params={"w": 1, "least": 5},
    )
    assert got.to_arrow().sort_by("t")["n"].to_pylist() == [0, 1, 2]


def test_explain_names_the_pairs() -> None:
    rows = pa.table({"t": [1, 2], "x": [5, 6]})
    for more, said in ((" AND r.x <> l.x + l.t", "the pairs of each left row"), ("", "no pairs are made")):
        stream = ivjoin.window_join(rows, rows, condition=f"r.t <= l.t{more}", aggregate={"m": "median(r.x)"})
        assert said in stream.explain()


@pytest.mark.parametrize("function", ["count_distinct", "first", "last", "any_value", "array_agg", "max", "median"])
@pytest.mark.parametrize("values", [
    pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16, None, b"b" * 16], pa.binary(16))),
    pa.array([Decimal("1.5"), None, Decimal("2.5")], pa.decimal32(5, 2)),
    pa.array([Decimal("1.5"), None, Decimal("2.5")], pa.decimal64(12, 2)), pa.nulls(3), pa.array([b"a", None, b"b"]),
    pa.array(["a", None, "b"], pa.string_view()), pa.array([1.0, None, math.nan], pa.float32()),
], ids=lambda v: str(v.type))  # fmt: skip
def test_values_of_unusual_types(values: pa.Array, function: str) -> None:
    left, right = pa.table({"k": [1, 2]}), pa.table({"k": [1] * 3, "n": [0, 1, 2], "v": values})
    number = pa.types.is_decimal(values.type) or pa.types.is_floating(values.type) or pa.types.is_null(values.type)
    if function == "median" and not number:
        with pytest.raises(ivjoin.UnsupportedError, match="expected a number"):
            ivjoin.window_join(left, right, on="k", aggregate={"m": f"{function}(r.v)"})
        return
    found = values.to_pylist()
    whole = {
        "count_distinct": len({v for v in found if v is not None}), "first": found[0], "last": found[2],
        "any_value": next((v for v in found if v is not None), None), "array_agg": found,
        "max": found[2],
        "median": (float(found[0]) + float(found[2])) / 2 if number and found[2] is not None else None,
    }  # fmt: skip
    empty = 0 if function == "count_distinct" else None
    for where, want in (("", whole[function]), (" FILTER (WHERE r.n > 5)", empty)):
        got = ivjoin.window_join(left, right, on="k", aggregate={"m": f"{function}(r.v){where}"}).to_arrow()
        got.validate(full=True)
        assert repr(got["m"].to_pylist()) == repr([want, empty])


def test_values_of_no_type() -> None:
    left, right = pa.table({"k": [1], "ts": pa.array([0], pa.timestamp("us"))}), pa.table({"k": [1], "at": pa.nulls(1)})
    for text in ("l.ts - max(r.at)", "max(r.at) < l.ts", "first(r.at) + 1", "upper(max(r.at))", "bool_or(r.at)"):
        assert ivjoin.window_join(left, right, on="k", aggregate={"m": text}).to_arrow()["m"].to_pylist() == [None]


def test_a_column_that_does_not_exist_is_named_with_its_aggregate() -> None:
    rows = pa.table({"k": [1], "x": [1]})
    for text in ("sum(r.zz)", "sum(l.x)", "zz + count(*)"):
        with pytest.raises(ivjoin.ColumnError, match="the aggregate 'total': "):
            ivjoin.window_join(rows, rows, on="k", aggregate={"total": text})


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("kind", ["far from zero", "whole", "decimal", "equal"])
def test_variances_are_numpys(kind: str, streams: bool) -> None:
    rng = np.random.default_rng(3)
    n = 900
    x: Any = {"far from zero": 1e8 + rng.normal(size=n), "whole": rng.integers(-5, 5, n),
              "decimal": np.round(rng.normal(size=n), 2), "equal": np.full(n, 0.1)}[kind]  # fmt: skip
    mask = rng.random(n) < 0.2
    values = pa.array(x, mask=mask)
    values = values.cast(pa.decimal128(9, 2)) if kind == "decimal" else values
    right = pa.table({"k": rng.integers(0, 2, n), "t": np.arange(n), "x": values})
    left = pa.table({"k": rng.integers(0, 3, 300), "t": np.sort(rng.integers(0, n, 300))})
    inputs = [iter(table.to_batches(max_chunksize=11)) if streams else table for table in (left, right)]
    functions = ("stddev", "stddev_pop", "variance", "var_pop")
    got = ivjoin.window_join(
        *inputs, on="k", condition="r.t BETWEEN l.t - 200 AND l.t + 30", left_order="t", right_order="t",
        aggregate={**{f: f"{f}(r.x)" for f in functions}, "some": "stddev_pop(r.x) FILTER (WHERE r.t % 2 = 0)"},
    )
    rows = got.read_all().to_pylist()
    assert len(rows) == 300
    k, t = np.asarray(right["k"]), np.asarray(right["t"])
    for row in rows:
        inside = (k == row["k"]) & (t >= row["t"] - 200) & (t <= row["t"] + 30) & ~mask
        some = np.array(x[inside], dtype=np.float64)
        for f in functions:
            fewer = int(not f.endswith("pop"))
            if len(some) <= fewer:
                assert row[f] is None
                continue
            wanted = np.var(some, ddof=fewer)
            wanted = np.sqrt(wanted) if f.startswith("stddev") else wanted
            assert row[f] == pytest.approx(wanted, rel=1e-8, abs=1e-12), (row, f)
        even = np.array(x[inside & (t % 2 == 0)], dtype=np.float64)
        assert row["some"] == (pytest.approx(np.std(even), rel=1e-8, abs=1e-12) if len(even) else None)


@pytest.mark.parametrize("seed", range(8))
def test_state_in_files_gives_the_same_rows(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    n = 5000

    def side(most: int) -> pa.Table:
        t = np.sort(rng.integers(0, 4000, n)) + rng.integers(0, 9, n)
        words = pa.array([f"{i:0{int(rng.integers(1, 200))}}" for i in range(50)])
        return pa.table({
            "k": rng.integers(0, most, n), "t": t, "x": pa.array(rng.normal(size=n), mask=rng.random(n) < 0.1),
            "s": words.take(pa.array(rng.integers(0, 50, n))),
            "d": words.dictionary_encode().take(pa.array(rng.integers(0, 50, n))),
        })  # fmt: skip

    left, right = side(4), side(3)
    low, high = rng.integers(400, 900, 2).tolist()
    asked: dict[str, Any] = {
        "on": "k", "condition": f"r.t BETWEEN l.t - {low} AND l.t + {high}{' AND r.x < l.x' if seed % 3 == 2 else ''}",
        "left_order": Order("t", slack=9), "right_order": Order("t", slack=9),
    }
    if seed % 4 == 3:
        join: Any = ivjoin.band_join
        asked |= {"pick": ivjoin.Pick(["abs(l.t - r.t)", "r.x", "r.s"], k=2), "how": str(rng.choice(["inner", "left"]))}
    else:
        join = ivjoin.window_join
        asked["aggregate"] = {
            "n": "count(*)", "sum": "sum(r.x)", "low": "min(r.s)", "new": "max(r.x)", "v": "variance(r.x)",
            "middle": "median(r.x)", "words": "count_distinct(r.d)", "end": "last(r.t)",
        }  # fmt: skip

    def rows(**more: Any) -> tuple[list[str], ivjoin.JoinStream]:
        stream = join(*(iter(t.to_batches(max_chunksize=257)) for t in (left, right)), **asked, **more)
        return sorted(str([f"{v:.9g}" if isinstance(v, float) else v for v in r.values()])
                      for b in stream for r in b.to_pylist()), stream  # fmt: skip

    wanted, _ = rows()
    spilled = 0
    for limit in (300_000, 500_000, 800_000, 1_300_000):
        try:
            got, stream = rows(memory_limit=limit, when_full=ivjoin.Spill(tmp_path))
        except ivjoin.MemoryLimitError as e:
            assert "All columns are in files" in str(e)  # noqa: PT017
            continue
        assert got == wanted
        spilled += stream.metrics.reads
    assert spilled
