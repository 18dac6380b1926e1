"""Three static frames on Spark: ``ivjoin.spark.multi_join`` beside Spark's own two joins, one after the other.

    python bench/spark_multiway.py                       # 300,000 rows an input, 2,000 keys
    python bench/spark_multiway.py --case skewed         # keys by Zipf(1.1): Spark compares all pairs of a hot key

Each engine runs in a fresh process on ``local[2]``: once cold, then ``--repeat`` times; the result goes to a sink that
keeps nothing. No frame is broadcast: at this size Spark would, and larger ones are meant. Both have to give the same
number of rows. Shuffled bytes are what Spark says that all stages of the last run wrote. A run that has not ended after
``--limit`` seconds is given up.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if __package__ in (None, ""):
    sys.path.append(str(Path(__file__).resolve().parent.parent))

from bench.process_tree import answer_of
from bench.runner import append, machine

ENGINES = ("ivjoin", "native")
_KEYS = 2000
# By case: whether keys are skewed, and the width of the bands in microseconds at a row a millisecond.
CASES = {"uniform": (False, 2_000_000), "skewed": (True, 50_000)}
WHERE = "a.k = b.k AND b.k = c.k AND b.ts BETWEEN a.ts AND a.ts + {0} AND c.ts BETWEEN b.ts AND b.ts + {0}"


def write_inputs(folder: Path, rows: int, skewed: bool) -> None:
    for seed, alias in enumerate("abc"):
        rng = np.random.default_rng(seed)
        weights = np.arange(1, _KEYS + 1) ** -1.1
        keys = rng.choice(_KEYS, rows, p=weights / weights.sum()) if skewed else rng.integers(0, _KEYS, rows)
        table = pa.table({"k": keys, "ts": rng.integers(0, 1000 * rows, rows), f"v{alias}": np.arange(rows)})
        (folder / alias).mkdir()
        for part in range(2):
            piece = table.slice(part * rows // 2, (part + 1) * rows // 2 - part * rows // 2)
            pq.write_table(piece, folder / alias / f"{part}.parquet")


def run_engine(engine: str, folder: Path, case: str, repeat: int, limit: float) -> dict[str, Any]:
    """One engine's runs, in this process: seconds of each that ended, the first one cold."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    import ivjoin.spark

    spark = ivjoin.spark.session(
        "local[2]", f"bench multiway {engine}", spark__ui__enabled="false",
        spark__driver__memory="3g", spark__sql__session__timeZone="UTC", spark__ui__showConsoleProgress="false",
        spark__sql__shuffle__partitions="4", spark__sql__autoBroadcastJoinThreshold="-1",
        spark__driver__host="127.0.0.1", spark__driver__bindAddress="127.0.0.1",
    )
    spark.sparkContext.setLogLevel("OFF")
    frames = {alias: spark.read.parquet(str(folder / alias)) for alias in "abc"}
    where = WHERE.format(CASES[case][1])
    gateway = spark.sparkContext._gateway
    none = gateway.new_array(gateway.jvm.double, 0)
    result: dict[str, Any] = {"engine": engine, "case": case, "seconds": [], "ended": False}

    def shuffled() -> int:
        stages = spark._jsc.sc().statusStore().stageList(None, False, False, none, None)  # type: ignore[union-attr]
        return sum(int(stages.apply(i).shuffleWriteBytes()) for i in range(stages.size()))

    def runs() -> None:
        for _ in range(repeat + 1):
            seen, before = Observation(), shuffled()
            begin = time.perf_counter()
            if engine == "ivjoin":
                out = ivjoin.spark.multi_join(frames, where)
            else:
                a, b, c = (frame.alias(alias) for alias, frame in frames.items())
                first, second, *bands = where.split(" AND ", 2)
                of_b, of_c = bands[0].split(" AND c.ts")
                out = a.join(b, F.expr(f"{first} AND {of_b}")).join(c, F.expr(f"{second} AND c.ts{of_c}"))
            out.observe(seen, F.count(F.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
            result["seconds"].append(round(time.perf_counter() - begin, 2))
            result["rows_out"], result["shuffled"] = seen.get["rows"], shuffled() - before
        result["ended"] = True

    work = threading.Thread(target=runs, daemon=True)  # a task inside its join loop cannot be interrupted
    work.start()
    work.join(limit)
    return dict(result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, default="uniform")
    parser.add_argument("--rows", type=int, default=300_000, help="of each input (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for all runs of an engine")
    parser.add_argument("--results", type=Path, help="append the results to this file, one JSON object a line")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.engine:
        print(json.dumps(run_engine(args.engine, args.folder, args.case, args.repeat, args.limit)), flush=True)
        os._exit(0)
    append(args.results, machine())
    with tempfile.TemporaryDirectory() as name:
        write_inputs(Path(name), args.rows, CASES[args.case][0])
        found = {}
        for engine in ENGINES:
            command = [sys.executable, __file__, *sys.argv[1:], "--engine", engine, "--folder", name]
            got, tree = answer_of(command)
            found[engine] = got | {"cpu_seconds": round(tree.cpu_seconds, 1)}
            print(found[engine], flush=True)
            append(args.results, {"kind": "spark multiway", "rows": args.rows, **found[engine]})
    ours, native = found["ivjoin"], found["native"]
    if not ours["ended"]:
        raise SystemExit("ivjoin did not end within the limit")
    if not native["ended"]:
        print(f"Spark's own joins did not end within {args.limit:.0f} s")
        return
    if ours["rows_out"] != native["rows_out"]:
        raise SystemExit("the engines differ in the number of rows")
    times = min(native["seconds"][1:]) / min(ours["seconds"][1:])
    print(f"{times:.1f} times as fast; bytes shuffled: {ours['shuffled']:,}, by Spark's own {native['shuffled']:,}")


if __name__ == "__main__":
    main()
