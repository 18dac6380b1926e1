"""The page of the Spark benchmarks reports each run as its record does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import spark_report


def run(engine: str, seconds: float, *, ended: bool = True, **more: Any) -> dict[str, Any]:
    return {
        "case": "zipf", "engine": engine, "seconds": seconds, "ended": ended, "batches": 20, "cpu_seconds": 50.0,
        "peak_mb": 2000, "state": [5, 694, 3], "stages": {"addBatch": 7.5, "walCommit": 0.25, "getBatch": 0.5},
        "cpu_by_program": {"java": 40.0, "python": 10.0}, **({"rows_out": 1234} if ended else {}), **more,
    }  # fmt: skip


def written(folder: Path, name: str, records: list[dict[str, Any]]) -> None:
    (folder / name).write_text("".join(json.dumps(r) + "\n" for r in records))


def test_the_last_run_of_each_engine_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_report, "chart", lambda records, folder: "a.svg")
    records = [run("ivjoin", 99.0), run("ivjoin", 10.0), run("native", 75.0, ended=False), run("native-rocksdb", 23.0)]
    written(tmp_path, "spark-streams.jsonl", records)
    page = spark_report.render(tmp_path, tmp_path)
    assert "| zipf | ivjoin | 10.0 | 50 | 2,000 | 1,234 | 694 |  |" in page
    assert "| zipf | native | stopped at 75 | 50 | 2,000 | 20 micro-batches | 694 | > 7.5 |" in page
    assert "| zipf | native-rocksdb | 23.0 | 50 | 2,000 | 1,234 | 694 | 2.3 |" in page
    assert "| zipf | ivjoin |  | 0.8 | 7.5 |  |  |  |  | 40 | 10 |" in page
    assert "99.0" not in page


def test_first_and_steady_micro_batches_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_report, "chart", lambda records, folder: "a.svg")
    records = [
        run("ivjoin-sink", 9.0, planned_s=1.5, batch_ms=[4000, 900, 500, 510, 490]),
        run("native", 20.0, batch_ms=[5000, 999, 1000, 1100, 900]),
        run("native-rocksdb", 20.0, batch_ms=[5000, 999, 2000, 2100, 1900]),
        run("ivjoin-sink", 3.0, rows=20_000, partitions=200, batch_ms=[3000]),
        run("ivjoin", 60.0, ended=False, batches=0, state=[], batch_ms=[]),
    ]  # fmt: skip
    written(tmp_path, "spark-streams.jsonl", records)
    page = spark_report.render(tmp_path, tmp_path)
    assert "| zipf | 50,000 | 2 | ivjoin-sink | 1.5 | 4.0 | 500 | 2,000 | 2.0 |" in page
    assert "| zipf | 50,000 | 2 | native |  | 5.0 | 1,000 | 2,000 |  |" in page
    assert "| zipf | 1,000 | 200 | ivjoin-sink |  | 3.0 |  | 2,000 |  |" in page
    assert "| zipf | ivjoin | stopped at 60 | 50 | 2,000 | 0 micro-batches | 0 |  |" in page
    assert page.count("| 3.0 |") == 1, "a run of another size stands in the first table"


@pytest.mark.slow
def test_the_chart(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / spark_report.chart([run("ivjoin", 10.0), run("native", 75.0, ended=False)], tmp_path)
    drawn = file.read_text()
    assert "<svg" in drawn
    spark_report.chart([run("ivjoin", 10.0), run("native", 75.0, ended=False)], tmp_path)
    assert file.read_text() == drawn


def test_static_runs_and_the_sink(tmp_path: Path) -> None:
    static = {"case": "static zipf", "rows": 1000, "peak_mb": 1500}
    written(tmp_path, "spark-static.jsonl", [
        {**static, "engine": "ivjoin", "seconds": [7.0, 2.5, 2.25]}, {**static, "engine": "native", "seconds": []},
    ])  # fmt: skip
    sink = {"seconds": 69.6, "rows_out": 51_000_000, "cpu": {"java": 55.0}}
    written(tmp_path, "spark-sink.jsonl", [{**sink, "way": "Spark"}, {**sink, "way": "join ivjoin", "seconds": 103.5}])
    page = spark_report.render(tmp_path, tmp_path)
    assert "| zipf | 1,000 | ivjoin | 7.0 | 2.2 | 1,500 |" in page
    assert "| zipf | 1,000 | native | did not end |  | 1,500 |" in page
    assert "| rows made in Spark, sink | 69.6 | 55 | 0 | 51,000,000 |" in page
    assert "| join ivjoin | 103.5 | 55 | 0 | 51,000,000 |" in page


def test_nothing_measured_yet(tmp_path: Path) -> None:
    assert spark_report.main(["--results", str(tmp_path), "--docs", str(tmp_path / "docs")]) == 0
    assert (tmp_path / "docs" / "spark-benchmarks.md").read_text() == spark_report.HEAD


def test_many_frames_and_hot_keys(tmp_path: Path) -> None:
    own: dict[str, Any] = {"case": "multiway chain", "rows": 300_000, "peak_mb": 1500}
    written(tmp_path, "spark-multiway.jsonl", [
        own | {"engine": "ivjoin", "seconds": [9.0, 4.0, 3.5], "shuffled": 32_500_000, "rows_out": 149_089},
        own | {"engine": "native", "seconds": [], "ended": False},
    ])
    way: dict[str, Any] = {"rows": 1_000_000, "peak_mb": 1700}
    written(tmp_path, "spark-spread.jsonl", [
        way | {"case": "static no key", "way": "spread", "seconds": [7.0, 2.5, 2.25]},
        way | {"case": "streams no key", "way": "hashed", "seconds": [30.0], "batch_ms": [9000, 4000, 3000],
               "buckets": [5000, 1]},
    ])
    page = spark_report.render(tmp_path, tmp_path)
    assert "| chain | 300,000 | ivjoin | 9.0 | 3.5 | 32.5 | 149,089 | 1,500 |" in page
    assert "| chain | 300,000 | native | did not end |  |  |  | 1,500 |" in page
    assert "| static no key | 1,000,000 | spread | 7.0 | 2.25 |  | 1,700 |" in page
    assert "| streams no key | 1,000,000 | hashed | 9.0 | 3.50 | 5,000 1 | 1,700 |" in page
