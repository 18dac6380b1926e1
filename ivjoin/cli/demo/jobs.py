"""The demo's two joins: their inputs, their conditions, and the same queries for DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ivjoin.cli.demo import flights as data
from ivjoin.cli.demo.flights import DemoError

__all__ = ["Job", "Verdict", "compare", "compare_files", "make_jobs"]


@dataclass(frozen=True, slots=True)
class Job:
    """One join, as a call of ivjoin and as a query for DuckDB.

    ``name`` is also the name of the output file. ``left`` and ``right`` are sorted by their orders. ``sql`` reads
    tables ``l`` and ``r``, and has the same columns in the same order. ``shown`` columns are printed.
    """

    name: str
    title: str
    left: pa.Table
    right: pa.Table
    on: str
    condition: str
    left_order: str
    right_order: str
    how: str
    sql: str
    shown: tuple[str, ...]


def make_jobs(flights: pa.Table, weather: pa.Table) -> list[Job]:
    """Return the two joins over the year's flights and readings."""
    return [
        Job(
            name="flights_weather",
            title="flights, and the weather at their origin in the two hours before",
            left=data.scheduled(flights),
            right=data.weather_by_time(weather),
            on="origin",
            condition="r.measured BETWEEN l.scheduled - INTERVAL 2 HOURS AND l.scheduled",
            left_order="scheduled",
            right_order="measured",
            how="left",
            sql="SELECT l.*, r.* EXCLUDE (origin) FROM l LEFT JOIN r ON l.origin = r.origin "
            "AND r.measured BETWEEN l.scheduled - INTERVAL 2 HOURS AND l.scheduled",
            shown=("carrier", "flight", "origin", "dest", "scheduled", "measured", "temp", "wind_speed"),
        ),
        Job(
            name="arrivals_departures",
            title="arrivals, and the take-offs of the same plane in the next four hours",
            left=data.arrivals(flights),
            right=data.departures(flights),
            on="tailnum",
            condition="r.departed BETWEEN l.arrived AND l.arrived + INTERVAL 4 HOURS",
            left_order="arrived",
            right_order="departed",
            how="left",
            sql="SELECT l.*, r.* EXCLUDE (tailnum) FROM l LEFT JOIN r ON l.tailnum = r.tailnum "
            "AND r.departed BETWEEN l.arrived AND l.arrived + INTERVAL 4 HOURS",
            shown=("tailnum", "flight", "dest", "arrived", "flight_next", "origin_next", "departed_next"),
        ),
    ]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A comparison of a result with DuckDB's: the rows of both, and how many of DuckDB's rows are missing."""

    rows: int
    expected: int
    missing: int

    @property
    def same(self) -> bool:
        """Return whether both are the same multiset of rows: the same number, and none missing."""
        return self.rows == self.expected and self.missing == 0


def compare(job: Job, result: Sequence[Path]) -> Verdict:
    """Run the same query in DuckDB and compare all rows and columns with the Parquet files.

    DemoError if duckdb is not installed.
    """
    with _duckdb() as connection:
        connection.register("l", job.left)
        connection.register("r", job.right)
        connection.execute(f"CREATE TEMP TABLE expected AS {job.sql}")
        return _verdict(connection, result)


def compare_files(expected: Sequence[Path], result: Sequence[Path]) -> Verdict:
    """Compare all rows and columns of two results. Each result is one table in one or more Parquet files."""
    with _duckdb() as connection:
        connection.execute("CREATE TEMP TABLE expected AS SELECT * FROM read_parquet(?)", [_names(expected)])
        return _verdict(connection, result)


def _duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError as e:
        raise DemoError("the check needs the package duckdb: pip install 'ivjoin[demo]', or pass --no-check") from e
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
    return connection


def _names(paths: Sequence[Path]) -> list[str]:
    return [str(path) for path in paths]


def _verdict(connection: Any, result: Sequence[Path]) -> Verdict:
    connection.execute("CREATE TEMP TABLE result AS SELECT * FROM read_parquet(?)", [_names(result)])
    counts = [
        connection.execute(f"SELECT count(*) FROM {query}").fetchall()[0][0]
        for query in ("result", "expected", "(FROM expected EXCEPT ALL FROM result)")
    ]
    return Verdict(*counts)
