"""Joins of many static frames on a hypercube, under each scheme, against DuckDB; what is refused."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import ivjoin.spark
from ivjoin.errors import ConditionError, IvjoinError, OptionError, SchemaError, UnsupportedError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.string()), ("j", pa.int32()), ("ts", pa.timestamp("us")), ("id", pa.int64())])


def table(seed: int, n: int = 160, hot: float = 0.0) -> pa.Table:
    rng = random.Random(seed)
    return pa.table(
        {
            "k": [rng.choice(["a", "ü", "", None]) if rng.random() > hot else "hot" for _ in range(n)],
            "j": [rng.choice([None, *range(6)]) for _ in range(n)],
            "ts": [rng.randrange(300) * 1_000_000 if rng.random() > 0.05 else None for _ in range(n)],
            "id": list(range(n)),
        },
        schema=SCHEMA,
    )  # fmt: skip


TABLES = {"a": table(1), "b": table(2, hot=0.3), "c": table(3, 90)}
BAND = (
    "b.ts BETWEEN a.ts - INTERVAL 4 SECONDS AND a.ts + INTERVAL 3 SECONDS AND c.ts >= b.ts "
    "AND c.ts <= b.ts + INTERVAL 20 SECONDS"
)
CONDITIONS = {
    "one class": f"a.k = b.k AND b.k = c.k AND {BAND}",
    "chain of two": f"a.k = b.k AND b.j = c.j AND {BAND}",
    "triangle": "a.k = b.k AND b.j = c.j AND c.id % 10 = a.id % 10 AND a.ts <= b.ts "
                "AND b.ts <= a.ts + INTERVAL 30 SECONDS",
    "no key": f"{BAND} AND a.j + b.j > c.j",
}


def wanted(condition: str, tables: dict[str, pa.Table] | None = None) -> Counter[tuple[int, ...]]:
    con = duckdb.connect()
    con.execute("SET threads = 1")
    for alias, t in (tables or TABLES).items():
        con.register(alias, t)
    return Counter(con.execute(f"SELECT a.id, b.id, c.id FROM a, b, c WHERE {condition}").fetchall())


def ids(frame: Any) -> Counter[tuple[int, ...]]:
    out = frame.select("a_id", "b_id", "c_id").toArrow()
    return Counter(zip(*(c.to_pylist() for c in out.columns), strict=True))


@pytest.fixture(scope="module")
def frames(spark: Any) -> dict[str, Any]:
    return {a: spark.createDataFrame(t) for a, t in TABLES.items()}


@pytest.mark.parametrize("shape, scheme", [
    ("one class", "auto"), ("chain of two", "hash"), ("chain of two", "hybrid"), ("triangle", "random"),
    ("no key", "auto"),
])  # fmt: skip
def test_each_scheme_agrees_with_duckdb(frames: dict[str, Any], shape: str, scheme: str) -> None:
    skewed = ["b.k"] if scheme == "hybrid" else None
    joined = ivjoin.spark.multi_join(
        frames, CONDITIONS[shape], orders={"a": "ts"}, scheme=scheme, skewed=skewed, workers=6
    )
    want = wanted(CONDITIONS[shape])
    assert ids(joined) == want
    assert sum(want.values()) > 20
    assert joined.columns == [f"{a}_{n}" for a in "abc" for n in SCHEMA.names]
    assert dict(joined.dtypes)["b_ts"] == dict(frames["b"].dtypes)["ts"]


def test_cells_that_share_a_task_are_joined_apart(frames: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from ivjoin.spark import cells

    monkeypatch.setattr(cells, "bucket_labels", lambda count: (0,) * count)
    joined = ivjoin.spark.multi_join(frames, CONDITIONS["chain of two"], workers=6)
    assert ids(joined) == wanted(CONDITIONS["chain of two"])


@pytest.mark.parametrize("kind", [pa.int32(), pa.int16()], ids=str)
def test_what_is_shuffled_and_sorted_by_does_not_travel_twice(spark: Any, kind: pa.DataType) -> None:
    """Columns stand in other places in each input; a key of another type is cast, and then travels by itself."""
    tables = {
        "a": table(4).select(["id", "ts", "j"]),
        "b": table(5).select(["j", "k", "ts", "id"]),
        "c": table(6).select(["ts", "j", "id"]),
    }
    tables["c"] = tables["c"].set_column(1, "j", tables["c"]["j"].cast(kind))
    given = {a: spark.createDataFrame(t) for a, t in tables.items()}
    condition = f"a.j = b.j AND b.j = c.j AND {BAND}"
    joined = ivjoin.spark.multi_join(given, condition, workers=2)
    want = wanted(condition, tables)
    assert ids(joined) == want
    assert sum(want.values()) > 20
    text = joined._jdf.queryExecution().optimizedPlan().toString()
    by, along = (re.findall(rf"{step} \[(\w)\d+#", text) for step in ("RepartitionByExpression", "Sort"))
    assert (by, along) == (["s" if kind == pa.int32() else "b"], ["s"])


@pytest.mark.parametrize("shape", CONDITIONS)
def test_small_frames_are_joined_by_one_task_without_a_shuffle(frames: dict[str, Any], shape: str) -> None:
    joined = ivjoin.spark.multi_join(frames, CONDITIONS[shape])
    assert ids(joined) == wanted(CONDITIONS[shape])
    assert "Exchange" not in joined._jdf.queryExecution().executedPlan().toString()


def test_one_frame_under_three_aliases(frames: dict[str, Any]) -> None:
    a = frames["a"]
    joined = ivjoin.spark.multi_join({"x": a, "y": a, "z": a}, "x.id = y.id AND y.id = z.id AND z.j > 2")
    assert joined.count() == sum(j is not None and j > 2 for j in TABLES["a"]["j"].to_pylist())


def test_what_is_refused(spark: Any, frames: dict[str, Any]) -> None:
    condition = CONDITIONS["one class"]
    from pyspark.sql import functions as F

    for call, error, said in (
        (lambda: ivjoin.spark.multi_join({"a": frames["a"]}, condition), SchemaError, "1 input; expected 2 to 8"),
        (lambda: ivjoin.spark.multi_join(frames, "a.k = b.k"), ConditionError, "input 'c' is not connected"),
        (lambda: ivjoin.spark.multi_join(frames, F.col("a") > 1), ConditionError, "takes SQL text"),
        (lambda: ivjoin.spark.multi_join(frames, condition, scheme="cube"), IvjoinError, "scheme is 'cube'"),
        (lambda: ivjoin.spark.multi_join(frames, condition, skewed=["b.j"]), OptionError, "skewed names 'b.j'"),
        (lambda: ivjoin.spark.multi_join({**frames, "d": 1}, condition), IvjoinError, "input 'd' is a int"),
        (lambda: ivjoin.spark.multi_join({**frames, "s": spark.readStream.format("rate").load()}, condition),
         UnsupportedError, "input 's' is a stream and 'a' is static"),
    ):  # fmt: skip
        with pytest.raises(error) as e:
            call()
        assert said in str(e.value)
