"""Joins of many tables in steps, each of which joins two tables on all threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin.cli import main
from ivjoin.stream.tables import table_steps

ROWS = 30_000
CONDITION = "a.k = b.k AND b.k = c.k AND b.t BETWEEN a.t AND a.t + 500 AND c.t BETWEEN b.t - 500 AND b.t"
SAID = "each step joins two of them"


def table(seed: int, rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"k": rng.integers(0, 50, rows), "t": rng.integers(0, 10 * rows, rows), "id": range(rows)})


TABLES = {alias: table(seed) for seed, alias in enumerate("abc")}
IDS = [f"{a}_id" for a in TABLES]


def in_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(n, "ascending") for n in IDS])


@pytest.fixture(scope="module")
def pushed() -> pa.Table:
    rows = in_order(ivjoin.multi_join(TABLES, CONDITION, sort="never").read_all())
    assert rows.num_rows > 1000
    return rows


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_the_rows_and_their_order_do_not_depend_on_the_threads(threads: int, pushed: pa.Table) -> None:
    rows = ivjoin.multi_join(TABLES, CONDITION, threads=threads).read_all()
    assert rows.equals(ivjoin.multi_join(TABLES, CONDITION).read_all())
    assert in_order(rows).equals(pushed)


def test_small_files_are_read_into_tables(pushed: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for alias, rows in TABLES.items():
        pq.write_table(rows, tmp_path / f"{alias}.parquet")
    files = {alias: tmp_path / f"{alias}.parquet" for alias in TABLES}
    stream = ivjoin.multi_join(files, CONDITION, batch_size=100)
    assert SAID in stream.explain() and SAID in ivjoin.explain(files, CONDITION)
    first = next(stream)
    assert stream.metrics.peak_state_bytes > sum(t.nbytes for t in TABLES.values()) - 10_000
    assert in_order(pa.concat_tables([pa.Table.from_batches([first]), stream.read_all()])).equals(pushed)
    assert stream.metrics.state_bytes == 0
    one = ivjoin.multi_join({**TABLES, "b": files["b"]}, CONDITION, columns=IDS)  # type: ignore[dict-item]
    assert in_order(one.read_all()).equals(pushed.select(IDS))
    monkeypatch.setattr(table_steps, "_MOST_TIMES", 0)  # rows are pushed: the files are read again
    assert in_order(ivjoin.multi_join(files, CONDITION).read_all()).equals(pushed)
    monkeypatch.setattr(table_steps, "_MOST_READ", 0)
    stream = ivjoin.multi_join(files, CONDITION)
    assert SAID not in stream.explain() and in_order(stream.read_all()).equals(pushed)


def test_counts_of_rows_and_sorted_inputs(pushed: pa.Table) -> None:
    stream = ivjoin.multi_join(TABLES, CONDITION, batch_size=100)
    assert SAID in stream.explain()
    first = next(stream)
    assert first.num_rows <= 100
    m, view = stream.metrics, stream.views[0]  # type: ignore[attr-defined]
    held = m.views[", ".join(view)]
    assert held > 0 and m.state_rows >= held and m.rows_in[view[0]] == ROWS
    low, high = stream.output_bounds()["b_t"]
    rest = stream.read_all()
    assert low is None or low <= min(rest["b_t"].to_pylist())
    assert high is None or high >= max(rest["b_t"].to_pylist())
    m = stream.metrics
    assert m.rows_in == m.rows_retired == dict.fromkeys("abc", ROWS)
    assert (m.rows_out, m.state_rows, sum(m.views.values())) == (pushed.num_rows, 0, 0)
    assert m.peak_state_rows > 0 and m.peak_state_bytes > 0
    assert "neither side was ordered" in stream.sorting and "a.t" in stream.sorting


def test_columns_are_in_the_order_named(pushed: pa.Table) -> None:
    rows = ivjoin.multi_join(TABLES, CONDITION, columns=["c_id", "a_id", "b_id"]).read_all()
    assert rows.column_names == ["c_id", "a_id", "b_id"]
    assert in_order(rows).equals(pushed.select(rows.column_names))


def test_results_of_many_rows_are_not_cached(monkeypatch: pytest.MonkeyPatch, pushed: pa.Table) -> None:
    monkeypatch.setattr(table_steps, "_MOST_TIMES", 0)
    stream = ivjoin.multi_join(TABLES, CONDITION)
    assert in_order(stream.read_all()).equals(pushed)
    assert stream.metrics.views.keys() == {", ".join(stream.views[0])}  # type: ignore[attr-defined]
    assert SAID not in stream.explain()


@pytest.mark.parametrize("options", [{"sort": "never"}, {"memory_limit": "1GB"}, {"views": "none"}])
def test_other_joins_are_pushed(options: dict[str, object]) -> None:
    assert SAID not in ivjoin.multi_join(TABLES, CONDITION, **options).explain()  # type: ignore[arg-type]
    small = {alias: rows.slice(0, 100) for alias, rows in TABLES.items()}
    assert SAID not in ivjoin.multi_join(small, CONDITION).explain()
    streams = {alias: rows.to_reader() for alias, rows in TABLES.items()}
    assert SAID not in ivjoin.multi_join(streams, CONDITION).explain()


def test_declared_orders_and_bounds_that_are_kept(pushed: pa.Table) -> None:
    ordered = {alias: rows.sort_by("t") for alias, rows in TABLES.items()}
    promises = {"orders": {"a": "t", "b": ivjoin.Order("t")}, "bounds": {"c": {"t": (0, 10 * ROWS)}}}
    stream = ivjoin.multi_join(ordered, CONDITION, **promises)  # type: ignore[arg-type]
    assert SAID in stream.explain()
    assert in_order(stream.read_all()).equals(pushed)
    assert SAID in stream.explain()


@pytest.mark.parametrize("promise", [{"orders": {"a": "t"}}, {"bounds": {"b": {"t": (0, 100)}}}])
def test_a_row_that_breaks_a_promise_is_pushed(promise: dict[str, object]) -> None:
    stream = ivjoin.multi_join(TABLES, CONDITION, **promise)  # type: ignore[arg-type]
    with pytest.raises(ivjoin.LateRowError, match="on_late"):
        stream.read_all()
    late: list[tuple[str, int]] = []
    count = lambda alias, rows: late.append((alias, rows.num_rows))  # noqa: E731
    reported = ivjoin.multi_join(TABLES, CONDITION, **promise, on_late=count)  # type: ignore[arg-type]
    dropped = ivjoin.multi_join(TABLES, CONDITION, **promise, on_late="drop", sort="never")  # type: ignore[arg-type]
    assert in_order(reported.read_all()).equals(in_order(dropped.read_all()))
    assert sum(rows for _, rows in late) == dropped.metrics.late_rows > 0


def test_explain_shows_it() -> None:
    assert SAID in ivjoin.explain(TABLES, CONDITION, threads=2)
    assert SAID in ivjoin.explain(TABLES, "a.k = b.k AND b.id = c.id")
    assert SAID not in ivjoin.explain(TABLES, CONDITION, memory_limit="1GB")


@pytest.mark.parametrize("threads", [0, -1, 1.5, "many", True])
def test_a_wrong_number_of_threads_is_refused(threads: object) -> None:
    for options in ({}, {"hows": {"b": "left"}}):
        with pytest.raises(ivjoin.errors.OptionError, match="threads"):
            ivjoin.multi_join(TABLES, CONDITION, threads=threads, **options)  # type: ignore[arg-type]


def test_an_error_names_the_input_and_comes_before_rows() -> None:
    stream = ivjoin.multi_join(TABLES, CONDITION + " AND 1 / (a.id - b.id) < 2", threads=2)
    with pytest.raises(ivjoin.errors.EvaluationError, match=r"a\.id"):
        next(stream)
    with pytest.raises(ivjoin.errors.ProtocolError, match="stopped with an error"):
        next(stream)


def test_a_stream_that_is_closed_releases_its_tables() -> None:
    stream = ivjoin.multi_join(TABLES, CONDITION, batch_size=10, threads=2)
    next(stream)
    stream.close()
    assert sum(stream.metrics.views.values()) == 0
    with pytest.raises(ivjoin.errors.ProtocolError, match="closed"):
        stream.read_all()


def test_outer_joins_take_threads() -> None:
    one, two = (
        ivjoin.multi_join(TABLES, CONDITION, hows={"c": "left"}, threads=threads).read_all() for threads in (1, 2)
    )
    assert in_order(one).equals(in_order(two))
    assert one["c_id"].null_count


def test_the_command_takes_threads(tmp_path: Path, pushed: pa.Table) -> None:
    for alias, rows in TABLES.items():
        pq.write_table(rows, tmp_path / f"{alias}.parquet")
    out = tmp_path / "out.parquet"
    inputs = [f"{alias}={tmp_path / alias}.parquet" for alias in TABLES]
    assert main(["join", *inputs, "--condition", CONDITION, "--threads", "2", "-o", str(out)]) == 0
    assert in_order(pq.read_table(out)).num_rows == pushed.num_rows
