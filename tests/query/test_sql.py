"""``ivjoin.sql``: the joins, columns and inputs that a query means, and the queries that are refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin.cli import main

CLICKS = pa.table({"id": [1, 2, 3], "user": [7, 8, 9], "ts": [10, 90, 4]})
VIEWS = pa.table({"user": [7, 7, 8], "ts": [5, 8, 10], "ad": ["a", "b", "c"]})
ADS = pa.table({"ad": ["a", "b"], "price": [1.5, 2.5]})


def rows(query: str, **options: Any) -> list[tuple[Any, ...]]:
    given = {n: t for n, t in (("clicks", CLICKS), ("views", VIEWS), ("ads", ADS)) if n in query}
    table = ivjoin.sql(query, **given, **options).read_all()
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=repr)


def test_a_band_with_an_interval() -> None:
    hour = dt.timedelta(hours=1)
    start = dt.datetime(2024, 1, 1)
    clicks = pa.table({"id": [1, 2], "user": [7, 7], "ts": [start + hour / 2, start + 5 * hour]})
    views = pa.table({"user": [7], "ts": [start], "ad": ["a"]})
    query = (
        "SELECT l.id, r.ad FROM clicks l LEFT JOIN views r "
        "ON l.user = r.user AND l.ts BETWEEN r.ts AND r.ts + INTERVAL 1 HOUR"
    )
    stream = ivjoin.sql(query, clicks=clicks, views=views)
    assert isinstance(stream, ivjoin.JoinStream)
    assert stream.schema.names == ["id", "ad"]
    assert stream.read_all().to_pylist() == [{"id": 1, "ad": "a"}, {"id": 2, "ad": None}]


@pytest.mark.parametrize("query, expected", [
    ("SELECT id, ad FROM clicks JOIN views USING (user)", [(1, "a"), (1, "b"), (2, "c")]),
    ("SELECT id, ad FROM clicks c FULL JOIN views v ON c.user = v.user AND v.ts > 9 WHERE ad IS NULL OR id IS NULL",
     [(1, None), (3, None), (None, "a"), (None, "b")]),
    ("SELECT c.id FROM clicks c LEFT SEMI JOIN views v ON c.user = v.user", [(1,), (2,)]),
    ("SELECT c.id FROM clicks c LEFT ANTI JOIN views v ON c.user = v.user AND v.ts < 6", [(2,), (3,)]),
    ("SELECT id, ad FROM clicks RIGHT JOIN views ON id = 1 AND clicks.user = views.user WHERE views.ts > 5",
     [(1, "b"), (None, "c")]),
    ("SELECT id, ad, v.ts FROM clicks c ASOF LEFT JOIN views v ON c.user = v.user AND c.ts >= v.ts",
     [(1, "b", 8), (2, "c", 10), (3, None, None)]),
    ("SELECT id, v.user FROM clicks c ASOF LEFT JOIN views v USING (user, ts)", [(1, 7), (2, 8), (3, None)]),
    ("SELECT id, price FROM clicks c JOIN views v ON c.user = v.user JOIN ads a ON a.ad = v.ad", [(1, 1.5), (1, 2.5)]),
    ("SELECT id, price * 2 AS p FROM clicks c LEFT JOIN views v ON c.user = v.user LEFT JOIN ads a ON a.ad = v.ad",
     [(1, 3.0), (1, 5.0), (2, None), (3, None)]),
    ("SELECT id FROM clicks c JOIN views v ON c.user = v.user LEFT ANTI JOIN ads a ON a.ad = v.ad", [(2,)]),
    ("SELECT c.* EXCEPT (ts), upper(v.ad) AS b FROM clicks c JOIN views v ON c.user = v.user AND c.ts = v.ts + 2",
     [(1, 7, "B")]),
    ("SELECT ID FROM Clicks C, Views V WHERE c.USER = v.User AND v.AD <> 'a'", [(1,), (2,)]),
    ("SELECT id, price FROM clicks CROSS JOIN ads WHERE id = 1", [(1, 1.5), (1, 2.5)]),
])  # fmt: skip
def test_rows(query: str, expected: list[tuple[Any, ...]]) -> None:
    given = {"Clicks": CLICKS, "Views": VIEWS} if "Clicks" in query else {}
    got = ivjoin.sql(query, **given).read_all().to_pylist() if given else None
    assert rows(query) == expected if got is None else [tuple(x.values()) for x in got] == expected


def test_star_shows_a_merged_column_once_and_names_are_unique() -> None:
    assert ivjoin.sql("SELECT * FROM CLICKS JOIN VIEWS USING (user)").schema.names == ["id", "user", "ts", "ts_1", "ad"]
    stream = ivjoin.sql("SELECT l.ts, r.ts, l.ts + 1 FROM a l JOIN b r ON l.user = r.user", a=CLICKS, b=VIEWS)
    assert stream.schema.names == ["ts", "ts_1", "l.ts + 1"]


def test_tables_are_local_variables_and_files(tmp_path: Path) -> None:
    clicks_here = CLICKS.to_pandas()
    path = tmp_path / "views.parquet"
    pq.write_table(VIEWS, path)
    stream = ivjoin.sql(f"SELECT id, ad FROM clicks_here l JOIN '{path}' r ON l.user = r.user AND l.ts > r.ts")
    assert len(clicks_here) == 3
    assert sorted(r["ad"] for r in stream.read_all().to_pylist()) == ["a", "b", "c"]


def test_a_table_may_have_the_name_of_an_option() -> None:
    query = "SELECT o.id FROM orders o JOIN VIEWS v ON o.user = v.user AND v.ts < 6"
    assert ivjoin.sql(query, orders=CLICKS).read_all().to_pylist() == [{"id": 1}]
    assert ivjoin.sql(query, inputs={"orders": CLICKS}, orders={"o": "id"}).read_all().to_pylist() == [{"id": 1}]


def test_streams_with_orders_are_bounded() -> None:
    def stream(n: int) -> pa.RecordBatchReader:
        batches = [pa.record_batch({"t": pa.array(range(i, i + 100), pa.int64())}) for i in range(0, n, 100)]
        return pa.RecordBatchReader.from_batches(batches[0].schema, batches)

    joined = ivjoin.sql(
        "SELECT a.t, b.t AS u FROM a JOIN b ON b.t BETWEEN a.t AND a.t + 1 WHERE a.t % 2 = 0",
        a=stream(5000), b=stream(5000), orders={"a": "t", "b": "t"},
    )
    table = joined.read_all()
    assert table.num_rows == 5000
    assert joined.metrics.peak_state_rows < 500


def test_a_condition_of_where_is_decided_by_the_join() -> None:
    left = pa.table({"k": list(range(1000)), "x": [i % 10 for i in range(1000)]})
    stream = ivjoin.sql("SELECT l.k FROM a l JOIN b r ON l.k = r.k WHERE l.x = 3", a=left, b=left)
    assert stream.read_all().num_rows == stream.metrics.rows_out == 100


def test_parameters() -> None:
    query = "SELECT id, ad FROM clicks l JOIN views r ON l.user = r.user AND l.ts BETWEEN r.ts AND r.ts + :w"
    assert rows(query, params={"w": 5}) == [(1, "a"), (1, "b")]
    assert rows(query, params={"w": 2}) == [(1, "b")]
    with pytest.raises(ivjoin.ConditionError, match=r":w has no value: params= has v; pass params=\{'w': value\}"):
        rows(query, params={"v": 5})


def test_parameters_fill_conditions_everywhere() -> None:
    said, params = "l.ts BETWEEN r.ts AND r.ts + :w AND l.user = r.user", {"w": 2}
    assert ivjoin.band_join(CLICKS, VIEWS, condition=said, params=params).read_all().num_rows == 1
    assert "band term" in ivjoin.explain(CLICKS, VIEWS, condition=said, params=params)
    many = "a.ts BETWEEN b.ts AND b.ts + :w AND a.user = b.user"
    assert ivjoin.multi_join({"a": CLICKS, "b": VIEWS}, many, params=params).read_all().num_rows == 1
    operator = ivjoin.SymmetricHashJoin(CLICKS.schema, VIEWS.schema, condition=said, params={"w": 2})
    ivjoin.MultiJoin({"a": CLICKS.schema, "b": VIEWS.schema}, many, params=params)
    assert "2" in str(operator.plan.condition)
    with pytest.raises(ivjoin.ConditionError, match=r"params= is not given"):
        ivjoin.band_join(CLICKS, VIEWS, condition=said)
    with pytest.raises(ivjoin.OptionError, match=r"expected names and values such as"):
        ivjoin.band_join(CLICKS, VIEWS, condition=said, params=[5])  # type: ignore[arg-type]


@pytest.mark.parametrize("value, rows_out", [
    (dt.timedelta(seconds=5), 1), (dt.timedelta(seconds=4), 0), (dt.timedelta(seconds=-1), 0), (None, 0),
])  # fmt: skip
def test_a_parameter_may_be_a_duration(value: Any, rows_out: int) -> None:
    a = pa.table({"t": [dt.datetime(2024, 1, 1, 0, 0, 5)]})
    b = pa.table({"t": [dt.datetime(2024, 1, 1)]})
    joined = ivjoin.band_join(a, b, condition="l.t BETWEEN r.t AND r.t + :w", params={"w": value})
    assert joined.read_all().num_rows == rows_out


@pytest.mark.parametrize("more, name", [
    ("GROUP BY l.id", "GROUP BY"), ("ORDER BY l.id", "ORDER BY"), ("LIMIT 3", "LIMIT"), ("OFFSET 3", "OFFSET"),
    ("WHERE l.id IN (SELECT 1)", "a subquery"), ("WHERE EXISTS (SELECT 1)", "a subquery"),
    ("UNION SELECT 1", "UNION"), ("WHERE rank() OVER (ORDER BY l.id) = 1", "a window function"),
])  # fmt: skip
def test_other_clauses_are_refused_with_a_fix(more: str, name: str) -> None:
    with pytest.raises(ivjoin.UnsupportedError, match=rf"{name}.* is not supported in ivjoin.sql.*to_duckdb\(\)"):
        ivjoin.sql(f"SELECT l.id FROM clicks l JOIN views r ON l.user = r.user {more}", clicks=CLICKS, views=VIEWS)


@pytest.mark.parametrize("query, error, said", [
    ("SELECT DISTINCT id FROM clicks JOIN views USING (user)", ivjoin.UnsupportedError, "DISTINCT"),
    ("SELECT count(*) FROM clicks JOIN views USING (user)", ivjoin.UnsupportedError, r"aggregate count\(\)"),
    ("WITH x AS (SELECT 1) SELECT * FROM clicks JOIN views USING (user)", ivjoin.UnsupportedError, "WITH"),
    ("SELECT * FROM (SELECT * FROM clicks) c JOIN views USING (user)", ivjoin.UnsupportedError, "a subquery"),
    ("SELECT * FROM clicks", ivjoin.UnsupportedError, "one table; expected a JOIN"),
    ("clicks.user = views.user", ivjoin.ConditionError, "not a SELECT"),
    ("SELECT * FROM clicks JOIN views", ivjoin.ConditionError, "write ON, or CROSS JOIN"),
    ("SELECT * FROM clicks, views", ivjoin.ConditionError, "write ON, or CROSS JOIN"),
    ("SELECT ts FROM clicks JOIN views USING (user)", ivjoin.ColumnError, "ambiguous.*clicks.ts or views.ts"),
    ("SELECT nix FROM clicks JOIN views USING (user)", ivjoin.ColumnError, "'nix' is not in either input"),
    ("SELECT x.id FROM clicks JOIN views USING (user)", ivjoin.ColumnError, "expected one of clicks, views"),
    ("SELECT v.ad FROM clicks c LEFT SEMI JOIN views v USING (user)", ivjoin.ColumnError, "names no input"),
    ("SELECT * EXCEPT (nix) FROM clicks JOIN views USING (user)", ivjoin.ColumnError, "EXCEPT names 'nix'"),
    ("SELECT * FROM clicks a JOIN views a ON a.user = a.user", ivjoin.ConditionError, "two tables.*'a'"),
    ("SELECT * FROM clicks JOIN viewss USING (user)", ivjoin.SchemaError, "did you mean 'views'"),
    ("SELECT * FROM in.clicks JOIN views USING (user)", ivjoin.ConditionError, "in quotes"),
    ("SELECT * FROM clicks JOIN views ON clicks.user", ivjoin.ConditionError, "expected a condition"),
    ("SELECT * FROM clicks c ASOF JOIN views v ON c.user = v.user", ivjoin.UnsupportedError, "has 0 inequalities"),
    ("SELECT * FROM clicks JOIN views ON (", ivjoin.ConditionError, "the query cannot be read, line 1"),
])  # fmt: skip
def test_errors(query: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=f"(?s){said}"):
        ivjoin.sql(query, inputs={"clicks": CLICKS, "views": VIEWS})


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(ivjoin.OptionError, match=r"got thread=.*did you mean 'threads'"):
        ivjoin.sql("SELECT * FROM clicks JOIN views USING (user)", clicks=CLICKS, views=VIEWS, thread=VIEWS)


def test_an_error_of_a_row_is_raised() -> None:
    query = "SELECT 1 / (l.id - 2) AS x FROM clicks l JOIN views r USING (user)"
    with pytest.raises(ivjoin.EvaluationError, match="division by zero"):
        ivjoin.sql(query, clicks=CLICKS, views=VIEWS).read_all()


@pytest.mark.parametrize("condition, said", [
    ("SELECT * FROM a JOIN b ON l.k = r.k", r"ivjoin.sql\(\) takes a whole query"), ("ON l.id = r.ts", "leave out ON"),
    ("WHERE l.id = r.ts", "leave out WHERE"), ("l.id = r.ts WHERE l.id > 1", r"write AND for WHERE.*ivjoin.sql\(\)"),
    ("l.id = r.ts && l.id > 1", "write AND for &&"), ("l.id = r.ts || l.id = 1", r"OR for \|\|"),
    ("l.id = r.ts ORDER BY l.id", r"ivjoin.sql\(\)"),
])  # fmt: skip
def test_a_query_as_a_condition_names_the_function(condition: str, said: str) -> None:
    with pytest.raises(ivjoin.ConditionError, match=f"(?s){said}"):
        ivjoin.band_join(CLICKS, VIEWS, condition=condition)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(CLICKS, tmp_path / "clicks.parquet")
    (tmp_path / "views").mkdir()
    pq.write_table(VIEWS, tmp_path / "views" / "a.parquet")
    query = (
        f"SELECT l.id, r.ad FROM '{tmp_path}/clicks.parquet' l LEFT JOIN '{tmp_path}/views/*.parquet' r "
        "ON l.user = r.user AND l.ts <= r.ts + :w"
    )
    out = tmp_path / "out.parquet"
    assert main(["sql", query, "--param", "w=5", "-o", str(out)]) == 0
    assert sorted(pq.read_table(out).to_pydict()["id"]) == [1, 1, 2, 3]
    assert "rows in" in capsys.readouterr().err
    named = ["sql", "SELECT l.id FROM c l JOIN v r ON l.user = r.user AND r.ad = :ad", f"c={tmp_path}/clicks.parquet",
             f"v={tmp_path}/views", "--param", "ad=c", "-o", str(tmp_path / "out.csv"), "-q"]  # fmt: skip
    assert main(named) == 0
    assert (tmp_path / "out.csv").read_text().split() == ['"id"', "2"]
    assert main(["sql", "SELECT * FROM c JOIN v USING (k)"]) == 2
    assert "NAME=FILE" in capsys.readouterr().err
    assert main(["sql", query, "-o", str(tmp_path / "clicks.parquet"), "--param", "w=1"]) == 2
    assert main(["join", f"{tmp_path}/clicks.parquet", f"{tmp_path}/views", "--condition",
                 "l.user = r.user AND l.ts <= r.ts + :w", "--param", "w=5", "-o", str(out)]) == 0  # fmt: skip
    assert pq.read_table(out).num_rows == 2
