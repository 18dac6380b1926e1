"""The streams of :mod:`bench.papers.cluster` on Spark: a worker is a task slot, an epoch one micro-batch of two files.

The windows are filled by the first micro-batch. Later ones count with their time on the clock, planning and commit
included: the clock of the query starts at the end of an epoch, or when the micro-batch before it is done. All pairs of
an epoch appear when it is committed.
"""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.papers.common import Refused

__all__ = ["check_spark", "measured_on_spark"]

_EPOCH = 1_700_000_000_000_000
_LIMIT = 400.0  # seconds for all micro-batches


def check_spark() -> None:
    """Refuse where Spark cannot start.

    Raises
    ------
    Refused
    """
    try:
        from ivjoin.spark.runtime.environment import SparkSetupError, check_java
    except ImportError:
        raise Refused("--how spark needs PySpark: pip install 'ivjoin[spark]', or leave --how spark out") from None
    try:
        check_java()
    except SparkSetupError as e:
        raise Refused(f"--how spark needs Java: {' '.join(str(e).split())}") from None


def _write(folder: Path, sources: Any, lengths: list[float]) -> None:
    for side, source in zip(("left", "right"), sources, strict=True):
        (folder / side).mkdir()
        for number, length in enumerate(lengths):
            batch = source.next(length)
            ts = pa.array(batch["t"].to_numpy() + _EPOCH, pa.timestamp("us", "UTC"))
            path = folder / side / f"{number:05d}.parquet"
            pq.write_table(pa.table({"k": batch["k"], "t": ts, "v": batch["v"].cast(pa.binary())}), path)
            os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))


def measured_on_spark(setting: Any, workers: int, sources: Any) -> dict[str, Any]:
    """What the query did in the epochs after the fill: seconds of each micro-batch, rows out."""
    import ivjoin.spark

    epochs = math.ceil(setting.seconds / setting.epoch)
    spark = ivjoin.spark.session(
        f"local[{workers}]", f"bench papers {workers}", spark__ui__enabled="false",
        spark__sql__shuffle__partitions=workers, spark__sql__session__timeZone="UTC",
        spark__executor__memory="2g", spark__ui__showConsoleProgress="false",
    )
    spark.sparkContext.setLogLevel("OFF")
    try:
        with tempfile.TemporaryDirectory(prefix="ivjoin-bench-") as name:
            folder = Path(name)
            _write(folder, sources, [setting.window, *[setting.epoch] * epochs])

            def stream(side: str) -> Any:
                read = spark.readStream.schema("k long, t timestamp, v binary").option("maxFilesPerTrigger", 1)
                return read.parquet(str(folder / side)).withWatermark("t", "0 seconds")

            width = f"INTERVAL {setting.window:.6f} SECONDS"
            out = stream("left").band_join(
                stream("right"), on="k", condition=f"l.t BETWEEN r.t - {width} AND r.t + {width}", buckets=workers,
                routing_dir=str(folder / "plans"),
            )
            query = ivjoin.spark.write_stream(
                out, str(folder / "out"), str(folder / "checkpoint"), trigger="availableNow"
            )
            if not query.awaitTermination(_LIMIT):
                query.stop()
                raise SystemExit(f"the Spark query took more than {_LIMIT:g} s; use lower --rates")
            took = [p["batchDuration"] / 1e3 for p in query.recentProgress if p["numInputRows"]][1 : epochs + 1]
            counts = ivjoin.spark.metrics(query)[-1]
    finally:
        spark.stop()
    free, delays = 0.0, []
    for number, seconds in enumerate(took):
        end = (number + 1) * setting.epoch
        free = max(free, end) + seconds
        delays.append(free - end + setting.epoch * np.linspace(0.005, 0.995, 100))  # arrivals are spread over the epoch
    whole, length = np.concatenate(delays), len(took) * setting.epoch
    return {
        "seconds": length, "busy": round(sum(took) / length, 4), "busiest": round(sum(took) / length, 4),
        "idle": round(max(0.0, 1 - sum(took) / length), 4), "delay": round(float(whole.mean()), 3),
        "median": round(float(np.median(whole)), 3), "p99": round(float(np.quantile(whole, 0.99)), 3),
        "batch_seconds": [round(s, 2) for s in took], "metrics": {k: counts[k] for k in ("rows_out", "state_rows")},
    }  # fmt: skip
