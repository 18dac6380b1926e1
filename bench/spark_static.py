"""Static frames: Spark's own joins against ivjoin's, the same Parquet data, each in a session on ``local[2]``.

Each engine runs in a fresh process: once cold, then ``--repeat`` times; the result goes to a sink that keeps nothing.
The script checks that both gave the same number of rows. A run that has not ended after ``--limit`` seconds is given
up, and the ratio is then a lower bound.

    python bench/spark_static.py --case uniform              # 10^6 rows a side, 10^4 keys, 1.5 M matches
    python bench/spark_static.py --case zipf                 # keys by Zipf(1.2), 9 M matches: Spark compares all pairs
    python bench/spark_static.py --case unique               # a row a key and side: what Spark does best
    python bench/spark_static.py --case hot                  # 80 % of the rows have one key: Spark compares all pairs
    python bench/spark_static.py --case nokey                # 10^5 rows a side, no key: Spark runs a nested loop
    python bench/spark_static.py --case asof                 # the last row before: a window function, and ASOF JOIN

Source of the data: drawn by numpy's PCG64 with the seeds 1 (left) and 2 (right), in no order.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

if __package__ in (None, ""):
    sys.path.append(str(Path(__file__).resolve().parent.parent))

from bench.static_spark import compare, drawn_keys, session_for, timed_runs, write_parts

_EPOCH = 1_700_000_000_000_000


@dataclass(frozen=True)
class Case:
    """Two tables and a band, ``before`` and ``after`` in seconds; ``rate`` is rows a side per second of time."""

    rows: int = 1_000_000
    rate: int = 1000
    before: str = "10"
    after: str = "5"
    zipf: bool = False
    hot: float = 0.0  # share of the rows with one key
    keys: int = 10_000  # 0: as many as rows
    keyed: bool = True
    engines: tuple[str, ...] = ("ivjoin", "native")

    @property
    def band(self) -> str:
        return f"l.ts BETWEEN r.ts - INTERVAL '{self.before}' SECOND AND r.ts + INTERVAL '{self.after}' SECOND"


CASES = {
    "uniform": Case(),
    # At 1000 rows a second the hot keys alone would give 900 M matches.
    "zipf": Case(rate=10, zipf=True),
    "unique": Case(keys=0),
    "hot": Case(before="0.002", after="0", hot=0.8),
    "asof": Case(engines=("ivjoin", "window", "asof")),
    "nokey": Case(rows=100_000, rate=100, before="0.02", after="0.01", keyed=False),
}


def write_inputs(folder: Path, case: Case, rows: int) -> None:
    for seed, side in ((1, "left"), (2, "right")):
        rng = np.random.default_rng(seed)
        keys = drawn_keys(rng, rows, case.keys or rows, 1.2 if case.zipf else 0.0)
        if case.hot:
            keys[rng.random(rows) < case.hot] = 7
        micros = rng.integers(0, rows * 1_000_000 // case.rate, rows) + _EPOCH
        table = pa.table({
            "k": pa.array(keys, pa.int64()), "ts": pa.array(micros, pa.timestamp("us", "UTC")),
            "v": pa.array(np.arange(rows), pa.int64()),
        })
        write_parts(folder / side, table, 4)


def by_ivjoin(left: Any, right: Any) -> Any:
    return left.asof_join(right, on="ts", by="k")


def by_window(left: Any, right: Any) -> Any:
    """The rows of both sides in one frame, and a window function that looks back for the last right row."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    nulls = "CAST(NULL AS TIMESTAMP) AS ts_right", "CAST(NULL AS BIGINT) AS v_right"
    rows = left.selectExpr("k", "ts", "v", *nulls, "1 AS side")
    rows = rows.union(right.selectExpr("k", "ts", "CAST(NULL AS BIGINT) AS v", "ts", "v", "0 AS side"))
    before = Window.partitionBy("k").orderBy("ts", "side").rowsBetween(Window.unboundedPreceding, 0)
    last = [F.last(name, ignorenulls=True).over(before).alias(name) for name in ("ts_right", "v_right")]
    return rows.select("k", "ts", "v", *last, "side").where("side = 1")


def by_asof(left: Any, right: Any) -> Any:
    left.sparkSession.conf.set("spark.sql.join.asofJoin.enabled", "true")
    left.createOrReplaceTempView("l")
    right.createOrReplaceTempView("r")
    return left.sparkSession.sql(
        "SELECT l.*, r.ts AS ts_right, r.v AS v_right "
        "FROM l LEFT ASOF JOIN r MATCH_CONDITION (l.ts >= r.ts) ON l.k = r.k"
    )


def run_engine(engine: str, folder: Path, case: Case, repeat: int, limit: float) -> dict[str, Any]:
    """One engine's runs, in this process."""
    from pyspark.sql import functions as F

    spark = session_for(f"bench static {engine}")
    left, right = (spark.read.parquet(str(folder / side)) for side in ("left", "right"))

    def joined() -> Any:
        if len(case.engines) == 3:
            return {"ivjoin": by_ivjoin, "window": by_window, "asof": by_asof}[engine](left, right)
        if engine == "ivjoin":
            return left.band_join(right, on="k" if case.keyed else None, condition=case.band)
        on = f"l.k = r.k AND {case.band}" if case.keyed else case.band
        return left.alias("l").join(right.alias("r"), F.expr(on))

    return {"engine": engine, **timed_runs(spark, joined, repeat, limit)}


def main() -> None:
    compare(__file__, __doc__, "static", CASES, write_inputs, run_engine, repeat=3, limit=300.0)


if __name__ == "__main__":
    main()
