"""Joins of many static frames on a hypercube, under each scheme, against DuckDB; what is refused."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin.spark
from ivjoin.errors import ColumnError, ConditionError, IvjoinError, OptionError, SchemaError, UnsupportedError

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


@pytest.fixture(scope="module", params=["rows", "files"])
def frames(spark: Any, request: Any, tmp_path_factory: Any) -> dict[str, Any]:
    """Rows of the driver, or files."""
    if request.param == "rows":
        return {a: spark.createDataFrame(t) for a, t in TABLES.items()}
    out = {}
    for alias, t in TABLES.items():
        folder = tmp_path_factory.mktemp(alias)
        for part in range(2):
            pq.write_table(t.slice(part * 70, 70 if part == 0 else None), folder / f"{part}.parquet", row_group_size=30)
        out[alias] = spark.read.parquet(str(folder))
    return out


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


def test_rows_that_match_nothing_are_dropped_before_the_shuffle(frames: dict[str, Any]) -> None:
    from ivjoin.multi.question import multi_spec
    from ivjoin.multi.spread import cube
    from ivjoin.spark.spread.cells import packed_for_cells

    condition = f"a.id % 9 < 4 AND b.ts > TIMESTAMP '1970-01-01 00:01:00' AND {CONDITIONS['chain of two']}"
    want = wanted(condition)
    assert ids(ivjoin.spark.multi_join(frames, condition, workers=6)) == want
    assert want
    spec = multi_spec(dict.fromkeys("abc", SCHEMA), condition)
    packed = packed_for_cells(frames, spec, cube(spec, 1), ticks=False).toArrow()
    sent = Counter[str]()
    for side, rows in zip(packed["side"].to_pylist(), packed["rows"].to_pylist(), strict=True):
        sent["abc"[side]] += pa.ipc.read_record_batch(pa.py_buffer(rows), spec.wide("abc"[side])).num_rows
    minute = dt.datetime(1970, 1, 1, 0, 1)
    assert sent == {
        "a": sum(r["id"] % 9 < 4 and r["k"] is not None for r in TABLES["a"].to_pylist()),
        "b": sum(
            None not in (r["ts"], r["k"], r["j"]) and r["ts"] > minute for r in TABLES["b"].to_pylist()
        ),
        "c": sum(r["j"] is not None for r in TABLES["c"].to_pylist()),
    }


def test_an_input_has_the_name_of_a_column_that_others_are_joined_by(frames: dict[str, Any]) -> None:
    """Its random dim has that name, too."""
    condition = CONDITIONS["chain of two"].replace("c.", "k.")
    given = {"a": frames["a"], "b": frames["b"], "k": frames["c"]}
    joined = ivjoin.spark.multi_join(given, condition, scheme="random", workers=12)
    out = joined.select("a_id", "b_id", "k_id").toArrow()
    assert Counter(zip(*(c.to_pylist() for c in out.columns), strict=True)) == wanted(CONDITIONS["chain of two"])


@pytest.mark.parametrize("on_late", ["raise", "drop", "join"])
def test_a_row_outside_of_its_bounds_ends_the_query(frames: dict[str, Any], on_late: str) -> None:
    """Pruning relies on bounds: rows would be lost, as many as the join happens to prune."""
    for bounds in ({"a": {"id": (0, 80)}}, {"c": {"j": (1, 9)}}):
        joined = ivjoin.spark.multi_join(frames, CONDITIONS["one class"], bounds=bounds, workers=4, on_late=on_late)
        with pytest.raises(Exception, match="LateRowError"):
            joined.toArrow()
    kept = {"a": {"id": (0, 160), "j": (0, 5)}}
    joined = ivjoin.spark.multi_join(frames, CONDITIONS["one class"], bounds=kept, workers=4, on_late=on_late)
    assert ids(joined) == wanted(CONDITIONS["one class"])


def test_rows_that_a_cast_makes_equal_may_come_in_any_order(spark: Any) -> None:
    """Spark sorts by doubles, and one double represents several bigints."""
    big = 2**53
    tables = {
        "q": pa.table({"x": pa.array([float(big), float(big + 2)]), "id": [0, 1]}),
        "t": pa.table({"ts": pa.array([big + 1, big, big + 3, big + 2, big + 1]), "id": [0, 1, 2, 3, 4]}),
        "n": pa.table({"ts": pa.array([big, big + 1]), "id": [0, 1]}),
    }
    frames = {a: spark.createDataFrame(t) for a, t in tables.items()}
    condition = "t.ts BETWEEN q.x AND q.x + 4 AND n.ts BETWEEN q.x - 4 AND q.x + 4"
    for workers in (1, 3):
        out = ivjoin.spark.multi_join(frames, condition, workers=workers).select("q_id", "t_id", "n_id").toArrow()
        found = Counter(zip(*(c.to_pylist() for c in out.columns), strict=True))
        q, t, n = (tables[a].to_pylist() for a in "qtn")
        assert found == Counter(
            (a["id"], b["id"], c["id"]) for a in q for b in t for c in n
            if a["x"] <= float(b["ts"]) <= a["x"] + 4 and a["x"] - 4 <= float(c["ts"]) <= a["x"] + 4
        )  # fmt: skip


@pytest.mark.parametrize("kind", [pa.int32(), pa.int16()], ids=str)
def test_a_key_of_another_type(spark: Any, kind: pa.DataType) -> None:
    tables = {
        "a": table(4).select(["id", "ts", "j"]), "b": table(5).select(["j", "k", "ts", "id"]),
        "c": table(6).select(["ts", "j", "id"]),
    }
    tables["c"] = tables["c"].set_column(1, "j", tables["c"]["j"].cast(kind))
    given = {a: spark.createDataFrame(t) for a, t in tables.items()}
    condition = f"a.j = b.j AND b.j = c.j AND {BAND}"
    joined = ivjoin.spark.multi_join(given, condition, workers=2)
    want = wanted(condition, tables)
    assert ids(joined) == want
    assert sum(want.values()) > 20


def test_conjuncts_of_one_input(spark: Any) -> None:
    schema = pa.schema([
        *SCHEMA, ("x", pa.float64()), ("d", pa.date32()), ("m", pa.decimal128(9, 2)), ("b", pa.bool_()),
        ("z", pa.timestamp("us", "UTC")),
    ])  # fmt: skip
    tables = {}
    for seed, a in enumerate("abc", 27):
        rng, own = random.Random(seed), table(seed)
        n = own.num_rows
        more = {
            "x": [rng.choice([None, math.nan, -0.0, 0.0, 2.5, math.inf]) for _ in range(n)],
            "d": [rng.choice([None, 0, 19723]) for _ in range(n)], "m": [rng.choice([None, 1, 2]) for _ in range(n)],
            "b": [rng.choice([None, True, False]) for _ in range(n)], "z": own["ts"].to_pylist(),
        }  # fmt: skip
        tables[a] = pa.table(own.to_pydict() | more, schema=schema)
    frames = {a: spark.createDataFrame(t) for a, t in tables.items()}
    for alone in (
        "a.j > 2", "a.x >= 0.0", "b.k IN ('a', 'ü')", "c.d >= DATE '2024-01-01'",
        "(a.j < 2 OR a.k = 'ü')", "NOT b.b", "b.b", "c.m <= 1.5", "a.x <> 2.5",
        "c.j IS NULL", "c.j IS NOT NULL", "a.z < TIMESTAMP '1970-01-01 00:02:00+00:00'",
        "a.j + 1 > 2", "b.k LIKE '%a'", "c.ts < TIMESTAMP '1970-01-01 00:02:00'",
    ):  # fmt: skip
        condition = f"{CONDITIONS['one class']} AND {alone}"
        joined = ivjoin.spark.multi_join(frames, condition, workers=2)
        want = wanted(condition, tables)
        assert ids(joined) == want, alone
        assert sum(want.values()) > 0, alone


def test_unselected_columns_are_not_shuffled(frames: dict[str, Any]) -> None:
    condition = CONDITIONS["chain of two"]
    joined = ivjoin.spark.multi_join(frames, condition, workers=4, columns=["c_id", "a_id", "b_id"])
    assert joined.columns == ["c_id", "a_id", "b_id"]
    assert ids(joined) == wanted(condition)
    few = ivjoin.spark.multi_join(frames, condition, workers=4, columns=["b_id"])
    assert Counter(few.toArrow()["b_id"].to_pylist()) == Counter(b for _, b, _ in wanted(condition).elements())
    with pytest.raises(ColumnError, match="d_id"):
        ivjoin.spark.multi_join(frames, condition, columns=["d_id"])


def test_null_safe_keys_and_columns_that_may_be_null_keep_their_rows(spark: Any) -> None:
    tables = {a: table(seed, 60) for seed, a in enumerate("abc", 17)}
    frames = {a: spark.createDataFrame(t) for a, t in tables.items()}
    for condition in (
        "a.j <=> b.j AND b.k = c.k AND coalesce(a.ts, b.ts) <= c.ts",
        "a.k = b.k AND b.k = c.k AND (a.ts <= b.ts OR a.j IS NULL) AND c.id = b.id",
    ):
        want = wanted(condition.replace("<=>", "IS NOT DISTINCT FROM"), tables)
        assert ids(ivjoin.spark.multi_join(frames, condition, workers=4)) == want
        assert sum(want.values()) > 10


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
