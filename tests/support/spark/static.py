"""Static frames with a hot key, joined on several tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from spark.script import rows_of

BAND = "l.x BETWEEN r.x - 2 AND r.x + 1"

KEYED = "coalesce(l.k, r.k) AS k, l.x, l.v, r.x AS x_right, r.v AS v_right"

UNKEYED = "l.k, l.x, l.v, r.k AS k_right, r.x AS x_right, r.v AS v_right"

N = 900


def table(seed: int, hot: float = 0.0, keys: int = 60, n: int = N) -> pa.Table:
    """Rows, a share of them with the key "0"; some keys and places are null."""
    rng = np.random.default_rng(seed)
    k = np.where(rng.random(n) < hot, 0, rng.integers(1, keys, n)) if keys > 1 else np.zeros(n, dtype=np.int64)
    x = rng.integers(0, 2000, n)
    return pa.table({
        "k": pa.array([str(i) for i in k], mask=rng.random(n) < 0.03),
        "x": pa.array(x, mask=rng.random(n) < 0.03), "v": np.arange(n),
    })  # fmt: skip


def run(joined_frame: Any) -> tuple[Any, int]:
    """The rows, and how many tasks had some."""
    out = joined_frame.withColumn("_task", F.spark_partition_id()).toArrow()
    return rows_of(out.drop_columns(["_task"])), len(set(out.column("_task").to_pylist()))
