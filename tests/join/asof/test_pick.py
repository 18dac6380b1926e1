"""``Pick`` against DuckDB's ranks, over expressions, ties, nulls, NaN, join types, orders, batches and snapshots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ivjoin
from ivjoin import Pick


def test_one_row_along_the_axis_takes_the_fast_path() -> None:
    rows = pa.schema([("t", pa.int64()), ("x", pa.int64())])
    said = ivjoin.explain(rows, rows, condition="abs(l.t - r.t) <= 5", pick=Pick("abs(l.t - r.t)"))
    assert "the nearest by r.t to l.t" in said
    said = ivjoin.explain(rows, rows, condition="r.t <= l.t", pick=Pick(["t", "x"], keep="last"))
    assert "the last by r.t, ties by r.x" in said
    # A null could win here, which no right row decides alone.
    said = ivjoin.explain(rows, rows, condition="r.t <= l.t", pick=Pick("x", k=3, ties="all"))
    assert "the first 3 by r.x, and what ties with the last of them" in said


def test_nulls_sort_last_either_way() -> None:
    a, b = pa.table({"k": [1]}), pa.table({"k": [1, 1, 1], "x": [None, 2, 1]})
    for keep, wanted in (("first", [1, 2, None]), ("last", [2, 1, None])):
        for k in (1, 2, 3):
            got = ivjoin.band_join(a, b, on="k", pick=Pick("x", keep, k))  # type: ignore[arg-type]
            assert got.to_arrow()["x"].to_pylist() == wanted[:k]


@pytest.mark.parametrize("ties", ["any", "all"])
def test_few_rows_of_long_windows_are_compared(ties: Any) -> None:
    n = 20_000
    t = np.sort(np.random.default_rng(1).integers(0, n, n))
    rows = pa.table({"t": t, "i": np.arange(n)})
    got = ivjoin.band_join(rows, rows, condition="abs(l.t - r.t) <= 10000", pick=Pick("abs(l.t - r.t)", k=3, ties=ties))
    out = got.to_arrow()
    assert out.num_rows >= 3 * n and (ties == "all" or out.num_rows == 3 * n)
    i = int(np.flatnonzero(np.asarray(out["i"]) == n // 2)[0])
    near = np.sort(np.abs(t - t[n // 2]))[:3]
    assert abs(out["t"][i].as_py() - out["t_right"][i].as_py()) == near[0]


@pytest.mark.parametrize(("pick", "how", "said"), [
    ({"by": "nope"}, "left", "'nope'"), ({"by": "t", "keep": "nearest"}, "left", "keep"),
    ({"by": "t", "k": 0}, "left", "k is 0"), ({"by": "t", "ties": "some"}, "left", "ties"),
    ({"by": []}, "left", "by is"), ({"by": "t"}, "left_semi", "pick="),
    ({"by": "struct"}, "left", "expected a number"),
])  # fmt: skip
def test_refused(pick: Any, how: str, said: str) -> None:
    rows = pa.table({"t": [1], "struct": [{"a": 1}]})
    with pytest.raises(ivjoin.IvjoinError, match=said):
        ivjoin.band_join(rows, rows, condition="r.t <= l.t", pick=Pick(**pick), how=how)


def test_limits() -> None:
    rows = pa.table({"t": np.arange(30_000), "x": np.arange(30_000) % 7})
    options: dict[str, Any] = {"condition": "abs(l.t - r.t) <= 9000", "pick": Pick("r.x * l.x", k=2),
                               "memory_limit": "100kB"}  # fmt: skip
    with pytest.raises(ivjoin.UnsupportedError, match="'shed' cannot be used with pick"):
        ivjoin.band_join(rows, rows, when_full="shed", **options)
    with pytest.raises(ivjoin.MemoryLimitError, match="All columns are in files"):
        ivjoin.band_join(rows, rows, when_full="spill", **options).to_arrow()
    with pytest.raises(ivjoin.MemoryLimitError):
        ivjoin.band_join(rows, rows, **options).to_arrow()


def test_an_error_in_the_order() -> None:
    rows = pa.table({"t": [1, 2], "x": [0, 1]})
    with pytest.raises(ivjoin.EvaluationError, match="pick: .*zero"):
        ivjoin.band_join(rows, rows, condition="r.t <= l.t", pick=Pick("1 / r.x")).to_arrow()


@pytest.mark.parametrize("ties", ["any", "all"])
def test_views_of_an_empty_right_table(ties: Any) -> None:
    left, right = pa.table({"t": [1]}), pa.table({"t": pa.array([], pa.int64()), "w": pa.array([], pa.string_view())})
    got = ivjoin.band_join(left, right, condition="r.t <= l.t", how="left", pick=Pick("r.w", ties=ties)).to_arrow()
    assert got.to_pylist() == [{"t": 1, "t_right": None, "w": None}] and got.schema.field("w").type == pa.string_view()
