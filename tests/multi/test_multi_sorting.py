"""How inputs without an order are sorted: along bands, or along keys where bands would retain many more rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from ivjoin import multi_join
from ivjoin.multi import pace
from ivjoin.multi.question import multi_spec
from ivjoin.multi.spread import attributes

N = 3000
NARROW = "a.k = b.k AND b.k = c.k AND abs(a.t - b.t) <= 200 AND abs(b.t - c.t) <= 200"
WIDE = "a.k = b.k AND b.k = c.k AND abs(a.t - b.t) <= 20000 AND abs(b.t - c.t) <= 20000 AND a.v + b.v + c.v < 400"
OPEN = "a.k = b.k AND b.k = c.k AND a.t < b.t AND b.t < c.t AND a.v + b.v + c.v < 400"


def tables(hot: float = 0.0, kind: pa.DataType | None = None) -> dict[str, pa.Table]:
    """Rows in no order, a share of them with one key; some keys and times are null."""
    out = {}
    for seed, alias in enumerate("abc"):
        rng = np.random.default_rng(seed)
        k = np.where(rng.random(N) < hot, 7, rng.integers(0, 300, N))
        out[alias] = pa.table({
            "k": pa.array(k.astype(np.int32), mask=rng.random(N) < 0.02).cast(kind or pa.int64()),
            "t": pa.array(rng.integers(0, 10 * N, N), mask=rng.random(N) < 0.02), "v": rng.integers(0, N, N),
        })  # fmt: skip
    return out


@pytest.fixture
def keys_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_MANY", 2000)


def rows_of(batches: Any) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in pa.table(batches).columns), strict=True))


def second_opinion(given: dict[str, pa.Table], condition: str) -> Counter[tuple[Any, ...]]:
    with duckdb.connect(":memory:", config={"threads": 1}) as db:
        for alias, t in given.items():
            db.register(alias, t)
        return rows_of(db.sql(f"SELECT a.*, b.*, c.* FROM a, b, c WHERE {condition}").to_arrow_table())


@pytest.mark.slow
@pytest.mark.parametrize("condition, hot, kind, by", [
    pytest.param(NARROW, 0.0, None, "t", id="narrow bands"),
    pytest.param(NARROW, 0.3, None, "t", id="narrow bands and a hot key"),
    pytest.param(WIDE, 0.0, None, "k", id="wide bands"),
    pytest.param(WIDE, 0.0, pa.int32(), "k", id="wide bands and short keys"),
    pytest.param(WIDE, 0.0, pa.decimal128(12, 2), "k", id="wide bands and decimal keys"),
    pytest.param(WIDE, 0.0, pa.string(), "t", id="keys that have no order"),
    pytest.param(WIDE, 0.3, None, "t", id="wide bands and a hot key", marks=pytest.mark.soak),
    pytest.param(OPEN, 0.0, None, "k", id="bands with one end"),
])  # fmt: skip
def test_the_order_with_the_smaller_state_is_chosen(
    keys_early: None, condition: str, hot: float, kind: pa.DataType | None, by: str
) -> None:
    given = tables(hot, kind)
    stream = multi_join(given, condition)
    assert rows_of(stream) == second_opinion(given, condition)
    assert stream.sorting == f"sorted by a.{by}, b.{by} and c.{by}"


def test_a_few_rows_are_sorted_along_bands() -> None:
    stream = multi_join(tables(), WIDE)
    assert stream.read_all().num_rows > 0
    assert stream.sorting == "sorted by a.t, b.t and c.t"


def test_bands_go_first_where_an_order_is_declared_or_nothing_is_known(keys_early: None) -> None:
    given = tables()
    given["a"] = given["a"].drop_null().sort_by("t")
    stream = multi_join(given, WIDE, orders={"a": "t"})
    assert rows_of(stream) == second_opinion(given, WIDE)
    assert stream.sorting == "sorted by b.t and c.t"


def test_an_alias_that_begins_with_another_and_a_column() -> None:
    """``q.x_y`` is ``q_x_y`` in the output, as ``q_x.y`` would be."""
    rng = np.random.default_rng(0)
    q, q_x, t = (
        pa.table({n: rng.integers(0, 4, 20) for n in names}) for names in (("x_y", "v"), ("z", "k"), ("k", "z"))
    )
    for condition in ("q.x_y = q_x.z AND q_x.z = t.z", "q.x_y = q_x.z AND q.x_y = t.z"):
        out = multi_join({"q": q, "q_x": q_x, "t": t}, condition).read_all()
        keys = [np.bincount(c.to_numpy(), minlength=4) for c in (q["x_y"], q_x["z"], t["z"])]
        assert out.num_rows == int((keys[0] * keys[1] * keys[2]).sum())
        (own,) = attributes(multi_spec({"q": q.schema, "q_x": q_x.schema, "t": t.schema}, condition)).values()
        assert set(own) == {"q", "q_x", "t"}
