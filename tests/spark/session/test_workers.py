"""The processes that Python functions run in: the modules they load, and when they start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")


LOADED = """
import importlib, json, sys
from ivjoin.spark.runtime.daemon import MODULES
for name in MODULES:
    importlib.import_module(name)
print(json.dumps(sorted({m.partition(".")[0] for m in sys.modules})))
"""


@pytest.mark.slow
def test_the_daemon_loads_what_a_join_needs_and_no_more() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    packages = set(json.loads(done.stdout))
    assert {"pandas", "pyarrow", "ivjoin"} <= packages
    assert not packages & {"numba", "sympy", "sqlglot", "duckdb", "deltalake"}


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
def test_kernels_that_the_driver_cannot_compile_are_left_to_the_workers(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ivjoin.spark.runtime import workers

    def fails(*plans: Any) -> None:
        raise OSError("no process")

    monkeypatch.setattr(workers.everything, "begin", fails)
    rows = spark.range(5).selectExpr("id AS k", "id AS t")
    assert rows.band_join(rows, on="k", condition="l.t <= r.t").count() == 5
