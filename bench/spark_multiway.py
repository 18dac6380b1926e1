"""Three static frames on Spark: ``ivjoin.spark.multi_join`` beside Spark's own two joins, one after the other.

    python bench/spark_multiway.py                       # 300,000 rows an input, 2,000 keys
    python bench/spark_multiway.py --case skewed         # keys by Zipf(1.1): Spark compares all pairs of a hot key
    python bench/spark_multiway.py --case chain          # another key for each of the two joins

Each engine runs in a fresh process on ``local[2]``: once cold, then ``--repeat`` times; the result goes to a sink that
keeps nothing. No frame is broadcast: at this size Spark would, and larger ones are meant. Both have to give the same
number of rows. Shuffled bytes are what Spark says that all stages of the last run wrote. A run that has not ended after
``--limit`` seconds is given up.
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

_KEYS = 2000


@dataclass(frozen=True)
class Case:
    """Conjuncts, in microseconds at a row a millisecond; ``second`` joins ``c`` to the join of the others."""

    first: str
    second: str
    zipf: float = 0.0
    rows: int = 300_000
    engines: tuple[str, ...] = ("ivjoin", "native")

    @property
    def where(self) -> str:
        return f"{self.first} AND {self.second}"


_NEAR = "b.ts BETWEEN a.ts AND a.ts + {0}"
_NEXT = "c.ts BETWEEN b.ts AND b.ts + {0}"
CASES = {
    "uniform": Case(f"a.k = b.k AND {_NEAR.format(2_000_000)}", f"b.k = c.k AND {_NEXT.format(2_000_000)}"),
    "skewed": Case(f"a.k = b.k AND {_NEAR.format(50_000)}", f"b.k = c.k AND {_NEXT.format(50_000)}", zipf=1.1),
    # Twenty partners a row in either join of two, of which the band between a and c leaves few.
    "chain": Case(
        f"a.k = b.k AND {_NEAR.format(40_000_000)}",
        f"b.j = c.j AND {_NEXT.format(40_000_000)} AND c.ts BETWEEN a.ts AND a.ts + 2000000",
    ),
}


def write_inputs(folder: Path, case: Case, rows: int) -> None:
    for seed, alias in enumerate("abc"):
        rng = np.random.default_rng(seed)
        keys = drawn_keys(rng, rows, _KEYS, case.zipf)
        table = pa.table({
            "k": keys, "ts": rng.integers(0, 1000 * rows, rows), f"v{alias}": np.arange(rows),
            "j": rng.integers(0, _KEYS, rows),
        })
        write_parts(folder / alias, table if ".j" in case.where else table.drop_columns("j"), 2)


def run_engine(engine: str, folder: Path, case: Case, repeat: int, limit: float) -> dict[str, Any]:
    """One engine's runs, in this process."""
    import ivjoin.spark

    spark = session_for(
        f"bench multiway {engine}", spark__sql__shuffle__partitions=4, spark__sql__autoBroadcastJoinThreshold=-1
    )
    frames = {alias: spark.read.parquet(str(folder / alias)) for alias in "abc"}

    def joined() -> Any:
        return ivjoin.spark.multi_join(frames, case.where) if engine == "ivjoin" else native(frames, case)

    return {"engine": engine, **timed_runs(spark, joined, repeat, limit)}


def native(frames: dict[str, Any], case: Case) -> Any:
    """Spark's own joins, in the order in which they are written."""
    from pyspark.sql import functions as F

    a, b, c = (frame.alias(alias) for alias, frame in frames.items())
    return a.join(b, F.expr(case.first)).join(c, F.expr(case.second))


def main() -> None:
    compare(__file__, __doc__, "multiway", CASES, write_inputs, run_engine, repeat=2, limit=240.0)


if __name__ == "__main__":
    main()
