"""The demo's Spark part on four days of flights: stopped, started again, the right rows."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import ivjoin
from ivjoin.cli.demo.flights import read_flights, read_weather
from ivjoin.cli.demo.jobs import Job, compare, compare_files, make_jobs
from ivjoin.cli.demo.spark import join_files

pytestmark = pytest.mark.spark

FILES = 6


@pytest.fixture(scope="module")
def job() -> Job:
    flights, weather = read_flights(), read_weather()
    end = pc.add(pc.min(flights["scheduled"]), pa.scalar(timedelta(days=4)))
    weather = weather.filter(pc.less(weather["measured"], end))
    return make_jobs(flights.filter(pc.less(flights["scheduled"], end)), weather)[0]


def test_each_row_once_across_a_restart(spark: Any, tmp_path: Path, job: Job) -> None:
    run = join_files(spark, Console(quiet=True), job, tmp_path, FILES)
    assert run.batches[0] >= FILES // 2
    assert run.batches[1] >= 1
    assert 0 < run.rows_at_stop < run.rows
    assert sum(c["left_rows_in"] for c in run.counts) <= job.left.num_rows
    arrow = ivjoin.band_join(
        job.left, job.right, on=job.on, condition=job.condition, how=job.how, left_order=job.left_order,
        right_order=job.right_order,
    ).read_all()
    pq.write_table(arrow, tmp_path / "arrow.parquet")
    for verdict in (compare(job, run.files), compare_files([tmp_path / "arrow.parquet"], run.files)):
        assert verdict.same, verdict
        assert verdict.rows == run.rows == arrow.num_rows
    # and the check can fail: without one of the files, or with one of them twice
    largest = max(run.files, key=lambda path: pq.read_metadata(path).num_rows)
    assert not compare(job, [path for path in run.files if path != largest]).same
    assert not compare_files([tmp_path / "arrow.parquet"], [*run.files, largest]).same
