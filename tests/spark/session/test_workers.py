"""The processes that Python functions run in: what they have loaded, and when they start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ivjoin.errors import IvjoinError

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.errors import AnalysisException  # noqa: E402

ARCHIVES = sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
LOADED = """
import importlib, json, sys
from ivjoin.spark.runtime.daemon import MODULES
for name in MODULES:
    importlib.import_module(name)
import py4j, pyspark
print(json.dumps([pyspark.__file__, py4j.__file__, sorted({m.partition(".")[0] for m in sys.modules})]))
"""


def loaded(first: list[str]) -> tuple[str, str, set[str]]:
    """Where the daemon's modules come from, and the packages that it loads, with these entries first on the path."""
    path = os.pathsep.join([*first, *sys.path])
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", LOADED], env=environment, capture_output=True, text=True, check=True)
    spark, py4j, packages = json.loads(done.stdout)
    return spark, py4j, set(packages)


@pytest.mark.slow
def test_the_daemon_loads_what_a_join_needs_and_no_more() -> None:
    assert ARCHIVES
    spark, py4j, packages = loaded([str(p) for p in ARCHIVES])
    assert ".zip" not in spark
    assert ".zip" not in py4j
    assert {"pandas", "pyarrow", "ivjoin"} <= packages
    assert not packages & {"numba", "sympy", "sqlglot", "duckdb", "deltalake"}


@pytest.mark.slow
def test_another_archive_is_left_first_on_the_path(tmp_path: Path) -> None:
    other = tmp_path / "pyspark.zip"
    other.write_bytes(next(p for p in ARCHIVES if p.name == "pyspark.zip").read_bytes())
    spark, _, _ = loaded([str(other)])
    assert Path(spark).is_relative_to(other)


@pytest.mark.spark
def test_workers_are_forked_with_the_join_loaded(spark: Any) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc
        import sys

        for _ in batches:
            loaded = {"ivjoin.spark.state.stateful", "ivjoin.multi.operator"} <= sys.modules.keys()
            yield pa.record_batch({"loaded": [loaded], "frozen": [gc.get_freeze_count()]})

    rows = spark.range(0, 2, 1, 2).mapInArrow(look, "loaded boolean, frozen long").collect()
    assert [r.loaded for r in rows] == [True, True]
    assert all(r.frozen > 0 for r in rows)


@pytest.mark.spark
def test_workers_start_once_a_minute_while_the_driver_plans(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from ivjoin.spark.runtime import workers

    monkeypatch.setattr(workers, "_started", {})
    frame = spark.range(1)
    thread = workers.start_early(frame)
    assert thread is not None
    assert workers.start_early(frame) is None
    thread.join(60)
    assert not thread.is_alive()
    monkeypatch.setattr(workers, "_AGAIN", 0.0)
    again = workers.start_early(frame)
    assert again is not None
    again.join(60)


@pytest.mark.spark
def test_workers_that_cannot_start_are_left_to_the_query(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from ivjoin.spark.runtime import workers

    def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise RuntimeError("no such module")
        yield from batches

    monkeypatch.setattr(workers, "_started", {})
    monkeypatch.setattr(workers, "_load", fails)
    thread = workers.start_early(spark.range(1))
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()
    assert spark.range(3).count() == 3


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often calls have had workers started, and kernels compiled."""
    from ivjoin.spark.api import join, many

    counts = {"workers": 0, "kernels": 0}

    def workers(frame: Any) -> None:
        counts["workers"] += 1

    def kernels(frame: Any) -> None:
        counts["kernels"] += 1

    for module in (join, many):
        monkeypatch.setattr(module, "start_early", workers)
        monkeypatch.setattr(module, "kernels_early", kernels)
    return counts


def stream(spark: Any) -> Any:
    rows = spark.readStream.format("rate").load().selectExpr("value AS k", "timestamp AS ts")
    return rows.withWatermark("ts", "1 second")


@pytest.mark.spark
@pytest.mark.parametrize("wrong", [
    {"how": "outside"}, {"backend": "none"}, {"routing": "grid"}, {"hot_keys": [("a", "b")]}, {"name": 5},
    {"memory_limit": "little"}, {"condition": "l.nothing < r.ts"}, {"buckets": 0},
    {"condition": "l.ts < r.ts AND no_such_function(l.k, r.k)"},
], ids=str)  # fmt: skip
def test_a_call_that_is_refused_starts_no_workers(spark: Any, begun: dict[str, int], wrong: dict[str, Any]) -> None:
    import ivjoin.spark  # noqa: F401

    left, right = stream(spark), stream(spark)
    with pytest.raises((IvjoinError, AnalysisException)):
        left.band_join(right, on="k", **{"condition": "l.ts < r.ts", **wrong})
    assert begun["workers"] == 0


@pytest.mark.spark
def test_calls_that_are_right_start_workers_of_streams_and_kernels_of_all(spark: Any, begun: dict[str, int]) -> None:
    from ivjoin.spark import multi_join

    band = "abs(unix_micros(l.ts) - unix_micros(r.ts)) < 5"
    stream(spark).band_join(stream(spark), on="k", condition=band)
    assert begun == {"workers": 1, "kernels": 1}
    multi_join({"a": stream(spark), "b": stream(spark), "c": stream(spark)}, "a.k = b.k AND b.k = c.k")
    assert begun == {"workers": 2, "kernels": 2}
    static = spark.range(5).selectExpr("id AS k", "id AS t")
    static.band_join(static, on="k", condition="l.t <= r.t")
    assert begun == {"workers": 2, "kernels": 3}
    multi_join({"a": static, "b": static}, "a.k = b.k")
    assert begun == {"workers": 2, "kernels": 4}


@pytest.mark.spark
def test_kernels_that_cannot_be_compiled_beside_are_left_to_the_workers(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ivjoin.spark.runtime import workers

    def fails(*plans: Any) -> None:
        raise OSError("no process")

    monkeypatch.setattr(workers.everything, "begin", fails)
    rows = spark.range(5).selectExpr("id AS k", "id AS t")
    assert rows.band_join(rows, on="k", condition="l.t <= r.t").count() == 5
