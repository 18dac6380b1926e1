"""Static frames: Spark's own batch join against band_join, the same Parquet data, in one session on ``local[2]``.

Each engine is run once cold, then ``--repeat`` times; the result goes to a sink that keeps nothing. The script checks
that both give the same number of rows before it times them.

    python bench/spark_static.py --case uniform              # 10^6 rows a side, 10^4 keys, band of -10 s .. +5 s
    python bench/spark_static.py --case zipf --rows 200000   # keys by Zipf(1.2): Spark compares all pairs of a key
    python bench/spark_static.py --case nokey --rows 100000  # no equality key: Spark runs a nested loop

Source of the data: drawn by numpy's PCG64 with the seeds 1 (left) and 2 (right).
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BAND = "l.ts BETWEEN r.ts - INTERVAL 10 SECONDS AND r.ts + INTERVAL 5 SECONDS"
NARROW = "l.ts BETWEEN r.ts - INTERVAL '0.02' SECOND AND r.ts + INTERVAL '0.01' SECOND"


def write_inputs(folder: Path, case: str, rows: int) -> None:
    for seed, side in ((1, "left"), (2, "right")):
        rng = np.random.default_rng(seed)
        weights = np.arange(1, 10_001) ** -1.2
        zipf = rng.choice(10_000, rows, p=weights / weights.sum())
        keys = zipf if case == "zipf" else rng.integers(0, 10_000, rows)
        micros = rng.integers(0, rows * 10_000, rows) + 1_700_000_000_000_000
        table = pa.table({
            "k": pa.array(keys, pa.int64()), "ts": pa.array(micros, pa.timestamp("us", "UTC")),
            "v": pa.array(np.arange(rows), pa.int64()),
        })
        (folder / side).mkdir()
        for part in range(4):
            piece = table.slice(part * rows // 4, (part + 1) * rows // 4 - part * rows // 4)
            pq.write_table(piece, folder / side / f"{part}.parquet")


def timed(run: Any, repeat: int) -> tuple[float, list[float]]:
    """Seconds of the first run, and of the later ones."""
    out = []
    for _ in range(repeat + 1):
        begin = time.perf_counter()
        run()
        out.append(round(time.perf_counter() - begin, 2))
    return out[0], out[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=("uniform", "zipf", "nokey"), default="uniform")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows a side")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--results", type=Path, help="append the result to this file, one JSON object a line")
    args = parser.parse_args()
    from pyspark.sql import functions as F

    import ivjoin.spark

    folder = Path(tempfile.mkdtemp(prefix="ivjoin-bench-"))
    try:
        write_inputs(folder, args.case, args.rows)
        spark = ivjoin.spark.session(
            "local[2]", "bench static", spark__ui__enabled="false", spark__driver__memory="4g",
            spark__sql__session__timeZone="UTC", spark__ui__showConsoleProgress="false",
        )
        spark.sparkContext.setLogLevel("ERROR")
        left, right = (spark.read.parquet(str(folder / side)) for side in ("left", "right"))
        keyed = args.case != "nokey"
        band = BAND if keyed else NARROW
        ours = left.band_join(right, on="k" if keyed else None, condition=band)
        native = left.alias("l").join(right.alias("r"), F.expr(f"l.k = r.k AND {band}" if keyed else band))
        seconds, rows = {}, {}
        for name, frame in (("ivjoin", ours), ("native", native)):
            rows[name] = frame.count()
            seconds[name] = timed(lambda f=frame: f.write.format("noop").mode("overwrite").save(), args.repeat)  # type: ignore[misc]
            print(f"{name:8} cold {seconds[name][0]:7.2f} s, then {seconds[name][1]}, {rows[name]} rows", flush=True)
        if len(set(rows.values())) != 1:
            raise SystemExit("the engines differ in the number of rows")
        ratio = min(seconds["native"][1]) / min(seconds["ivjoin"][1])
        print(f"ivjoin is {ratio:.1f} times as fast")
        if args.results:
            with args.results.open("a") as file:
                result = {"case": f"static {args.case}", "rows": args.rows, "seconds": seconds}
                file.write(json.dumps({**result, "ratio": round(ratio, 2)}) + "\n")
        spark.stop()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
