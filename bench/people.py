"""Joins as people ask for them, over files as they have them: no order declared, start-up and reading included.

    python -m bench.people [--scale 1] [--tasks clicks price] [--engines ivjoin duckdb polars] [--seconds 170]

Each task runs in a process of its own that reads two Parquet files, joins them and takes the rows. Time is wall clock
from the start of the process to its end, memory the greatest resident set; the engines must agree on the rows.
Bytecode is kept, as it is of a package that is installed; `--runs 2` leaves out the run that makes it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["main"]

ENGINES = ("ivjoin", "duckdb", "polars")
DAY = 86_400 * 10**6


@dataclass(frozen=True)
class Task:
    """A join in the terms of each engine; ``columns`` are the output, whose last one is summed to compare."""

    title: str
    make: Callable[[np.random.Generator, float], tuple[pa.Table, pa.Table]]
    question: dict[str, Any]
    sql: str
    polars: Callable[[Any, Any], Any]


def _times(values: np.ndarray) -> pa.Array:
    return pa.array(values.astype(np.int64)).view(pa.timestamp("us"))


def _clicks(rng: np.random.Generator, scale: float) -> tuple[pa.Table, pa.Table]:
    n, m, users = int(200_000 * scale), int(1_000_000 * scale), max(1, int(50_000 * scale))
    return (
        pa.table({
            "user": rng.integers(0, users, n), "ts": _times(np.sort(rng.integers(0, 7 * DAY, n))),
            "click": np.arange(n),
        }),
        pa.table({
            "user": rng.integers(0, users, m), "ts": _times(np.sort(rng.integers(0, 7 * DAY, m))),
            "shown": np.arange(m),
        }),
    )  # fmt: skip


def _readings(rng: np.random.Generator, scale: float) -> tuple[pa.Table, pa.Table]:
    n, m, machines = int(5_000_000 * scale), int(20_000 * scale), 200
    start = rng.integers(0, 365 * DAY, m)
    return (
        pa.table({
            "machine": rng.integers(0, machines, n), "ts": _times(np.sort(rng.integers(0, 365 * DAY, n))),
            "value": rng.random(n), "reading": np.arange(n),
        }),
        pa.table({
            "machine": rng.integers(0, machines, m), "start": _times(start),
            "stop": _times(start + rng.integers(0, DAY // 4, m)), "job": np.arange(m),
        }),
    )  # fmt: skip


def _intervals(rng: np.random.Generator, scale: float) -> tuple[pa.Table, pa.Table]:
    def side(n: int, name: str) -> pa.Table:
        lo = rng.integers(0, 250_000_000, n)
        return pa.table({"lo": lo, "hi": lo + rng.integers(50, 3000, n), name: np.arange(n)})

    return side(int(200_000 * scale), "read"), side(int(20_000 * scale), "gene")


def _prices(rng: np.random.Generator, scale: float) -> tuple[pa.Table, pa.Table]:
    n = int(300_000 * scale)
    return (
        pa.table({"price": rng.random(n) * 1e6 * scale, "ask": np.arange(n)}),
        pa.table({"price": rng.random(n) * 1e6 * scale, "bid": np.arange(n)}),
    )


def _places(rng: np.random.Generator, scale: float) -> tuple[pa.Table, pa.Table]:
    n, m = int(300_000 * scale), int(50_000 * scale)
    return (
        pa.table({"x": rng.random(n) * 1000, "y": rng.random(n) * 1000, "car": np.arange(n)}),
        pa.table({"x": rng.random(m) * 1000, "y": rng.random(m) * 1000, "stop": np.arange(m)}),
    )


def _events(rng: np.random.Generator, scale: float) -> tuple[pa.Table, pa.Table]:
    n = int(1_000_000 * scale)
    table = pa.table({
        "user": rng.integers(0, max(1, n // 10), n), "ts": _times(np.sort(rng.integers(0, DAY, n))), "id": np.arange(n),
    })  # fmt: skip
    return table, table


def _orders(rng: np.random.Generator, scale: float) -> tuple[pa.Table, pa.Table]:
    n, m = int(1_000_000 * scale), int(900_000 * scale)
    placed = np.sort(rng.integers(0, 90 * DAY, n))
    paid = rng.permutation(n)[:m]
    at = placed[paid] + rng.integers(0, int(1.2 * DAY), m)
    by_time = np.argsort(at)
    return (
        pa.table({"order": np.arange(n), "placed": _times(placed)}),
        pa.table({"order": paid[by_time], "paid": _times(at[by_time])}),
    )


def _band(rng: np.random.Generator, scale: float) -> tuple[pa.Table, pa.Table]:
    n, m = int(10_000_000 * scale), int(1_000_000 * scale)
    return (
        pa.table({"t": np.sort(rng.integers(0, 10**9, n)), "a": np.arange(n)}),
        pa.table({"t": np.sort(rng.integers(0, 10**9, m)), "b": np.arange(m)}),
    )


def _keyed_band(rng: np.random.Generator, scale: float) -> tuple[pa.Table, pa.Table]:
    sides = _band(rng, scale)
    left, right = (side.add_column(0, "k", pa.array(rng.integers(0, 1000, side.num_rows))) for side in sides)
    return left, right


def _quotes(rng: np.random.Generator, scale: float) -> tuple[pa.Table, pa.Table]:
    n, m = int(500_000 * scale), int(2_000_000 * scale)
    return (
        pa.table({
            "sym": rng.integers(0, 100, n), "ts": _times(np.sort(rng.integers(0, DAY, n))), "trade": np.arange(n),
        }),
        pa.table({
            "sym": rng.integers(0, 100, m), "ts": _times(np.sort(rng.integers(0, DAY, m))), "quote": np.arange(m),
        }),
    )  # fmt: skip


def _where(*conditions: str) -> Callable[[Any, Any], Any]:
    """``join_where`` of polars; names of the right side with ``_right`` where the left has them too."""

    def join(left: Any, right: Any) -> Any:
        import polars as pl

        return left.join_where(right, *[pl.sql_expr(c) for c in conditions])

    return join


def _unpaid(left: Any, right: Any) -> Any:
    import polars as pl

    paid = left.join(right, on="order").filter(
        pl.col("paid").is_between(pl.col("placed"), pl.col("placed") + pl.duration(days=1))
    )
    return left.join(paid, on="order", how="anti")


def _as_of(left: Any, right: Any) -> Any:
    return left.join_asof(right, on="ts", by="sym")


TASKS: dict[str, Task] = {
    "clicks": Task(
        "clicks to impressions, 30 min", _clicks,
        {"on": "user", "condition": "l.ts BETWEEN r.ts AND r.ts + INTERVAL 30 MINUTES", "columns": ["click", "shown"]},
        'SELECT click, shown FROM l JOIN r ON l."user" = r."user" AND l.ts BETWEEN r.ts AND r.ts + INTERVAL 30 MINUTE',
        lambda a, b: _where('"user" = user_right', "ts >= ts_right", "ts <= ts_right + INTERVAL '30 minutes'")(a, b)
        .select("click", "shown"),
    ),
    "readings": Task(
        "readings in maintenance windows", _readings,
        {"on": "machine", "condition": "l.ts BETWEEN r.start AND r.stop", "columns": ["value", "job", "reading"]},
        "SELECT value, job, reading FROM l JOIN r ON l.machine = r.machine AND l.ts BETWEEN r.start AND r.stop",
        lambda a, b: _where("machine = machine_right", "ts >= start", "ts <= stop")(a, b)
        .select("value", "job", "reading"),
    ),
    "intervals": Task(
        "overlapping intervals", _intervals,
        {"condition": "l.lo <= r.hi AND r.lo <= l.hi", "columns": ["gene", "read"]},
        "SELECT gene, read FROM l JOIN r ON l.lo <= r.hi AND r.lo <= l.hi",
        lambda a, b: _where("lo <= hi_right", "hi >= lo_right")(a, b).select("gene", "read"),
    ),
    "price": Task(
        "price band, unordered", _prices,
        {"condition": "l.price BETWEEN r.price - 1 AND r.price + 1", "columns": ["ask", "bid"]},
        "SELECT ask, bid FROM l JOIN r ON l.price BETWEEN r.price - 1 AND r.price + 1",
        lambda a, b: _where("price >= price_right - 1", "price <= price_right + 1")(a, b).select("ask", "bid"),
    ),
    "places": Task(
        "two-dimensional band, unordered", _places,
        {
            "condition": "l.x BETWEEN r.x - 1 AND r.x + 1 AND l.y BETWEEN r.y - 1 AND r.y + 1",
            "columns": ["car", "stop"],
        },
        "SELECT car, stop FROM l JOIN r ON l.x BETWEEN r.x - 1 AND r.x + 1 AND l.y BETWEEN r.y - 1 AND r.y + 1",
        lambda a, b: _where(
            "x >= x_right - 1", "x <= x_right + 1", "y >= y_right - 1", "y <= y_right + 1"
        )(a, b).select("car", "stop"),
    ),
    "dedup": Task(
        "dedup self-join", _events,
        {
            "on": "user", "condition": "r.ts BETWEEN l.ts AND l.ts + INTERVAL 10 SECONDS AND l.id < r.id",
            "columns": ["id", "id_right"],
        },
        'SELECT l.id, r.id AS id_right FROM l JOIN r ON l."user" = r."user" AND r.ts BETWEEN l.ts AND '
        "l.ts + INTERVAL 10 SECOND AND l.id < r.id",
        lambda a, b: _where(
            '"user" = user_right', "ts_right >= ts", "ts_right <= ts + INTERVAL '10 seconds'", "id < id_right"
        )(a, b).select("id", "id_right"),
    ),
    "unpaid": Task(
        "orders without payment in a day (anti)", _orders,
        {
            "on": "order", "condition": "r.paid BETWEEN l.placed AND l.placed + INTERVAL 1 DAY", "how": "left_anti",
            "columns": ["placed", "order"],
        },
        'SELECT placed, l."order" FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r."order" = l."order" AND '
        "r.paid BETWEEN l.placed AND l.placed + INTERVAL 1 DAY)",
        lambda a, b: _unpaid(a, b).select("placed", "order"),
    ),
    "band": Task(
        "10^7 x 10^6 band", _band,
        {"condition": "l.t BETWEEN r.t - 100 AND r.t + 100", "columns": ["a", "b"]},
        "SELECT a, b FROM l JOIN r ON l.t BETWEEN r.t - 100 AND r.t + 100",
        lambda a, b: _where("t >= t_right - 100", "t <= t_right + 100")(a, b).select("a", "b"),
    ),
    "keyed_band": Task(
        "10^7 x 10^6 band, 1,000 keys", _keyed_band,
        {"on": "k", "condition": "l.t BETWEEN r.t - 100000 AND r.t + 100000", "columns": ["a", "b"]},
        "SELECT a, b FROM l JOIN r ON l.k = r.k AND l.t BETWEEN r.t - 100000 AND r.t + 100000",
        lambda a, b: _where("k == k_right", "t >= t_right - 100000", "t <= t_right + 100000")(a, b).select("a", "b"),
    ),
    "asof": Task(
        "as-of", _quotes, {"on": "ts", "by": "sym", "columns": ["trade", "quote"]},
        "SELECT trade, quote FROM l ASOF LEFT JOIN r ON l.sym = r.sym AND l.ts >= r.ts",
        lambda a, b: _as_of(a, b).select("trade", "quote"),
    ),
}  # fmt: skip


# -- one join in a process of its own ---------------------------------------------------------------------------------


def child(task: Task, engine: str, folder: Path) -> dict[str, Any]:
    """Rows, and the sum of the last column."""
    left, right = str(folder / "l.parquet"), str(folder / "r.parquet")
    rows, total, said = 0, 0, ""
    if engine == "ivjoin":
        import ivjoin

        join = ivjoin.asof_join if "by" in task.question else ivjoin.band_join
        stream = join(left, right, **task.question)
        for batch in stream:
            rows += batch.num_rows
            total += _sum(batch)
        said = stream.sorting
    elif engine == "duckdb":
        import duckdb

        db = duckdb.connect()
        db.execute(f"CREATE VIEW l AS FROM '{left}'")
        db.execute(f"CREATE VIEW r AS FROM '{right}'")
        for batch in db.sql(task.sql).to_arrow_reader(65536):
            rows += batch.num_rows
            total += _sum(batch)
    else:
        import polars as pl

        table = task.polars(pl.scan_parquet(left), pl.scan_parquet(right)).collect().to_arrow()
        rows = table.num_rows
        total = sum(_sum(b) for b in table.to_batches())
    status = Path("/proc/self/status").read_text()  # the greatest resident set since exec; getrusage has the parent's
    held = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return {"rows": rows, "sum": total, "said": said, "mb": held / 1024}


def _sum(batch: pa.RecordBatch) -> int:
    import pyarrow.compute as pc

    return pc.sum(batch.column(batch.num_columns - 1)).as_py() or 0


def run(name: str, engine: str, folder: Path, seconds: float) -> dict[str, Any]:
    """One task by one engine: seconds, peak megabytes, and the output."""
    command = [sys.executable, "-m", "bench.people", "--child", name, engine, str(folder)]
    around = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=around)
    late = threading.Timer(seconds, process.kill)
    late.start()
    out, err = process.stdout, process.stderr
    assert out is not None
    assert err is not None
    text, complaint = out.read(), err.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    late.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode == -signal.SIGKILL and wall >= seconds:
        return {"failed": f"none in {seconds:.0f} s"}
    if process.returncode:
        return {"failed": (complaint.decode().strip().splitlines() or ["?"])[-1][:200]}
    return {"seconds": wall, "cpu": used.ru_utime + used.ru_stime} | json.loads(text)


def main() -> int:
    """Run the tasks and print a table; 1 if engines disagree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--tasks", nargs="*", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--seconds", type=float, default=170, help="after so many a run is given up")
    parser.add_argument("--runs", type=int, default=1, help="the quickest of so many counts")
    parser.add_argument("--out", type=Path, help="figures as JSON lines")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, engine, folder = options.child
        print(json.dumps(child(TASKS[name], engine, Path(folder))))
        return 0
    wrong = 0
    print(f"| task | {' | '.join(f'{e} s (cpu) / peak MB' for e in options.engines)} | rows |")
    print(f"|---|{'--|' * len(options.engines)}--:|")
    for name in options.tasks:
        with tempfile.TemporaryDirectory() as where:
            folder = Path(where)
            for side, table in zip("lr", TASKS[name].make(np.random.default_rng(7), options.scale), strict=True):
                pq.write_table(table, folder / f"{side}.parquet")
            done = {e: [run(name, e, folder, options.seconds) for _ in range(options.runs)] for e in options.engines}
        best = {e: min(runs, key=lambda r: r.get("seconds", float("inf"))) for e, runs in done.items()}
        answers = {(r["rows"], r["sum"]) for r in best.values() if "rows" in r}
        wrong += len(answers) > 1
        cells = [
            f"{r['seconds']:.2f} ({r['cpu']:.1f}) / {r['mb']:.0f}" if "seconds" in r else r["failed"]
            for r in best.values()
        ]
        shown = " or ".join(f"{rows:,}" for rows, _ in sorted(answers))
        shown = f"DIFFER: {shown}" if len(answers) > 1 else shown
        print(f"| {TASKS[name].title} | {' | '.join(cells)} | {shown} |", flush=True)
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            with options.out.open("a") as file:
                file.write(json.dumps({"task": name, "scale": options.scale, **best}) + "\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
