"""Shared by the benches of static frames on Spark: drawn keys, Parquet in parts, sessions, timed runs, the command."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.process_tree import Tree, answer_of
from bench.runner import append, machine

__all__ = ["compare", "drawn_keys", "ratio", "session_for", "timed_runs", "write_parts"]


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


def compare(
    script: str, description: str, kind: str, cases: Mapping[str, Any], write: Callable[[Path, Any, int], None],
    run: Callable[[str, Path, Any, int, float], dict[str, Any]], repeat: int, limit: float,
) -> None:
    """The command of a bench: each of a case's ``engines`` in a process of its own, over the same inputs.

    Raises
    ------
    SystemExit
        If ivjoin did not end within the limit, or another engine gave another number of rows.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=cases, default="uniform")
    parser.add_argument("--rows", type=int, help="of each input")
    parser.add_argument("--repeat", type=int, default=repeat)
    parser.add_argument("--limit", type=float, default=limit, help="seconds for all runs of an engine")
    parser.add_argument("--results", type=Path, help="append the results to this file, one JSON object a line")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    args = parser.parse_args()
    case = cases[args.case]
    rows = args.rows or case.rows
    if args.engine:
        print(json.dumps(run(args.engine, args.folder, case, args.repeat, args.limit)), flush=True)
        os._exit(0)
    append(args.results, machine())
    print(f"{kind} {args.case}: {rows} rows an input, {case}", flush=True)
    results = {}
    with tempfile.TemporaryDirectory(prefix="ivjoin-bench-") as folder:
        write(Path(folder), case, rows)
        for engine in case.engines:
            got, tree = answer_of([sys.executable, script, *sys.argv[1:], "--engine", engine, "--folder", folder])
            got |= {"peak_mb": tree.peak_bytes >> 20, "cpu_seconds": round(tree.cpu_seconds, 1)}
            results[engine] = got
            print(got if got["seconds"] else f"{engine}: not ended after {args.limit:.0f} s", flush=True)
            append(args.results, {"case": f"{kind} {args.case}", "rows": rows, **got})
    ours = results.pop("ivjoin")
    if not ours["seconds"]:
        raise SystemExit("ivjoin did not end within the limit")
    for engine, other in results.items():
        if other["seconds"] and ours["rows_out"] != other["rows_out"]:
            raise SystemExit("the engines differ in the number of rows")
        print(f"ivjoin is {ratio(ours, other, args.limit)} ({engine})")
