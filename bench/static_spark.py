"""What the benches of static frames on Spark have in common: drawn keys, Parquet in parts, sessions, timed runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.process_tree import Tree

__all__ = ["drawn_keys", "ratio", "session_for", "timed_runs", "write_parts"]


def drawn_keys(rng: np.random.Generator, rows: int, keys: int, exponent: float = 0.0) -> np.ndarray:
    """Keys from 0 on, int64[rows], uniform or by Zipf's law."""
    if not exponent:
        return rng.integers(0, keys, rows)
    weights = np.arange(1, keys + 1) ** -exponent
    return rng.choice(keys, rows, p=weights / weights.sum())


def write_parts(folder: Path, table: pa.Table, parts: int) -> None:
    """A table as so many Parquet files in a new folder."""
    folder.mkdir()
    rows = table.num_rows
    for part in range(parts):
        begin, end = part * rows // parts, (part + 1) * rows // parts
        pq.write_table(table.slice(begin, end - begin), folder / f"{part}.parquet")


def session_for(name: str, **config: Any) -> Any:
    """A session on two cores, without what a bench does not look at."""
    import ivjoin.spark

    spark = ivjoin.spark.session(
        "local[2]", name, spark__ui__enabled="false", spark__driver__memory="4g",
        spark__sql__session__timeZone="UTC", spark__ui__showConsoleProgress="false", **config,
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def timed_runs(spark: Any, joined: Callable[[], Any], repeat: int, limit: float) -> dict[str, Any]:
    """Seconds and processor seconds of each run that ended within the limit, the first one cold; rows out and bytes
    shuffled of the last.

    ``joined`` makes the frame anew for each run; its rows go to a sink that keeps nothing.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    gateway = spark.sparkContext._gateway
    none = gateway.new_array(gateway.jvm.double, 0)
    result: dict[str, Any] = {"seconds": [], "cpu": [], "ended": False}
    tree = Tree(os.getpid())

    def shuffled() -> int:
        stages = spark._jsc.sc().statusStore().stageList(None, False, False, none, None)
        return sum(int(stages.apply(i).shuffleWriteBytes()) for i in range(stages.size()))

    def runs() -> None:
        for _ in range(repeat + 1):
            seen, before = Observation(), shuffled()
            tree.look()
            begin, cpu = time.perf_counter(), tree.cpu_seconds
            joined().observe(seen, F.count(F.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
            result["seconds"].append(round(time.perf_counter() - begin, 2))
            tree.look()
            result["cpu"].append(round(tree.cpu_seconds - cpu, 2))
            result["rows_out"], result["shuffled"] = seen.get["rows"], shuffled() - before
        result["ended"] = True

    # Spark cannot interrupt a task that is inside its join loop, so that the process is left to be ended from outside.
    work = threading.Thread(target=runs, daemon=True)
    work.start()
    work.join(limit)
    return dict(result)


def ratio(ours: dict[str, Any], native: dict[str, Any], limit: float) -> str:
    """How many times as fast, from the best run of each; cold run against cold run where one ended no other."""
    if not native["seconds"]:
        return f"at least {limit / ours['seconds'][0]:.0f} times as fast, both cold"
    if 1 in (len(native["seconds"]), len(ours["seconds"])):
        return f"{native['seconds'][0] / ours['seconds'][0]:.1f} times as fast, both cold"
    return f"{min(native['seconds'][1:]) / min(ours['seconds'][1:]):.1f} times as fast"
