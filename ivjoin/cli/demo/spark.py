"""The demo's first join on Spark: two streams of files. The query is stopped halfway and restarted from its checkpoint.

::

    flights/00000.parquet, 00001, ...  --+
                                         +-- band_join --> joined/*.parquet, with a checkpoint
    weather/00000.parquet, 00001, ...  --+

One file of each side is one micro-batch. A stream of files has no end. Therefore the last file contains one reading
without an airport, a day after the last flight. This reading moves the frontier past the end of the year, so that the
join emits the flights that still wait for weather.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ivjoin.cli.demo.flights import DemoError
from ivjoin.cli.demo.jobs import Job, Verdict, compare, compare_files
from ivjoin.errors import IvjoinError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["SparkRun", "join_files", "run_on_spark"]

_FILES = 12
_STOP_AFTER = 5  # micro-batches that end before the stop, which interrupts the next one
_PARTS = ("flights", "weather", "joined", "checkpoint")
_DAY = 86_400_000_000  # microseconds


@dataclass(frozen=True, slots=True)
class SparkRun:
    """Results of the streaming query, before and after the stop.

    ``batches`` has the number of micro-batches that ended in each run. ``rows_at_stop`` is the number of rows in the
    sink after the first run, and ``rows`` the number after both. ``counts`` has ``ivjoin.spark.metrics`` for each
    micro-batch. ``files`` are the files that the sink's log names. A stopped micro-batch may leave other files next to
    them.
    """

    batches: tuple[int, int]
    rows_at_stop: int
    counts: list[dict[str, Any]]
    seconds: float
    files: list[Path]
    rows: int


def run_on_spark(console: Console, job: Job, output: Path, arrow_result: Path, check: bool) -> bool:
    """Run the join of flights and weather in a separate Spark session, and show the results.

    Spark writes to ``<job.name>_spark`` in ``output``, which is emptied first. With ``check``, the rows are compared
    with the file ``arrow_result`` of the Arrow operator and with DuckDB. Return False if a result differs. If Spark
    cannot run, print what to install.
    """
    console.print("[bold cyan]3. the first join on Spark, stopped half way and started again[/bold cyan]")
    folder = output / f"{job.name}_spark"
    for part in _PARTS:
        shutil.rmtree(folder / part, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "spark.log"
    try:
        with console.status("starting Spark"), _messages_to(log):
            start = perf_counter()
            from ivjoin.spark import session

            spark = session(
                "local[2]", "ivjoin demo", spark__ui__enabled="false", spark__ui__showConsoleProgress="false",
                spark__sql__shuffle__partitions=2, spark__sql__session__timeZone="UTC", spark__driver__memory="1g",
                spark__sql__warehouse__dir=str((folder / "warehouse").absolute()),
                spark__sql__parquet__outputTimestampType="TIMESTAMP_MICROS",
            )  # fmt: skip
    except IvjoinError as e:
        console.print(f"   left out: {e}", style="yellow", markup=False)
        return True
    try:
        console.print(f"   Spark {spark.version} started in {perf_counter() - start:.1f} s")
        try:
            run = join_files(spark, console, job, folder)
        except DemoError:
            raise
        except Exception as e:
            raise DemoError(f"the streaming query failed; Spark's messages are in {str(log)!r}: {e}") from e
    finally:
        spark.stop()
    by_duckdb = by_arrow = None
    if check:
        with console.status("comparing all rows with DuckDB's and with the Arrow operator's"):
            by_duckdb, by_arrow = compare(job, run.files), compare_files([arrow_result], run.files)
    _show(console, run, folder, by_duckdb, by_arrow)
    return all(v is None or v.same for v in (by_duckdb, by_arrow))


def join_files(spark: Any, console: Console, job: Job, folder: Path, files: int = _FILES) -> SparkRun:
    """Write the job's inputs to files, join them as two streams, stop the query halfway and restart it.

    ``folder`` must not yet contain ``flights``, ``weather``, ``joined`` or ``checkpoint``. Each input has ``files``
    files (at least two) of equal times. DemoError if the query ended before it could be stopped.
    """
    from ivjoin.spark import metrics

    closing = pa.array([_micros(job.left, job.left_order)[-1] + _DAY], pa.int64()).cast(
        job.right.schema.field(job.right_order).type
    )
    ends = _cuts(job, files)
    for table, order, name in ((job.left, job.left_order, "flights"), (job.right, job.right_order, "weather")):
        _write_files(table, order, ends, folder / name)
    last = {f.name: closing if f.name == job.right_order else pa.nulls(1, f.type) for f in job.right.schema}
    _write(pa.table(last, schema=job.right.schema), folder / "weather", files)

    sides = []
    for name in ("flights", "weather"):
        path = str(folder / name)
        reader = spark.readStream.schema(spark.read.parquet(path).schema).option("maxFilesPerTrigger", 1)
        sides.append(reader.parquet(path))
    joined = sides[0].band_join(
        sides[1], on=job.on, condition=job.condition, how=job.how, left_order=job.left_order,
        right_order=job.right_order,
    )

    def started() -> Any:
        writer = joined.writeStream.format("parquet").option("path", str(folder / "joined"))
        return (
            writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
        )

    def committed() -> tuple[list[Path], int]:
        frame = spark.read.schema(joined.schema).parquet(str(folder / "joined"))
        paths = [Path(unquote(urlparse(uri).path)) for uri in frame.inputFiles()]
        return paths, sum(pq.read_metadata(path).num_rows for path in paths)

    start = perf_counter()
    stop_after = min(_STOP_AFTER, files // 2)
    rows_in: dict[int, int] = {}  # by micro-batch
    with console.status("first micro-batch") as status:

        def show(query: Any) -> None:
            rows_in.update((progress["batchId"], progress["numInputRows"]) for progress in query.recentProgress)
            status.update(f"{sum(rows_in.values()):,} rows in, {len(rows_in)} micro-batches")

        first = started()
        try:
            while first.isActive and len(metrics(first)) < stop_after:
                show(first)
                sleep(0.2)
        finally:
            first.stop()
        if first.exception() is not None:
            raise first.exception()
        rows_at_stop = committed()[1]
        status.update("stopped; starting again from the checkpoint")
        second = started()
        try:
            while not second.awaitTermination(0.2):
                show(second)
        finally:
            second.stop()
    seconds = perf_counter() - start
    counts = metrics(first), metrics(second)
    if not counts[0] or not counts[1]:
        raise DemoError("the query could not be stopped halfway: all or none of its micro-batches had ended")
    paths, rows = committed()
    return SparkRun((len(counts[0]), len(counts[1])), rows_at_stop, counts[0] + counts[1], seconds, paths, rows)


# -- files -------------------------------------------------------------------------------------------------------------


def _micros(table: pa.Table, column: str) -> np.ndarray:
    return np.asarray(table[column].combine_chunks().cast(pa.int64()))


def _cuts(job: Job, files: int) -> np.ndarray:
    """Return the ends of ``files`` equal spans of the inputs' time, int64[files - 1] in microseconds."""
    spans = [_micros(job.left, job.left_order), _micros(job.right, job.right_order)]
    ends = np.linspace(min(t[0] for t in spans), max(t[-1] for t in spans), files + 1)
    return ends[1:-1].astype(np.int64)


def _write_files(table: pa.Table, order: str, ends: np.ndarray, folder: Path) -> None:
    places = [0, *np.searchsorted(_micros(table, order), ends), table.num_rows]
    folder.mkdir()
    for number, (begin, end) in enumerate(pairwise(places)):
        _write(table.slice(begin, end - begin), folder, number)


def _write(table: pa.Table, folder: Path, number: int) -> None:
    path = folder / f"{number:05d}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_388_534_400 + number,) * 2)  # Spark reads files by their age


# -- the screen --------------------------------------------------------------------------------------------------------


@contextmanager
def _messages_to(log: Path) -> Iterator[None]:
    """Redirect what Java writes to standard error to a file, while the context is active."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _show(console: Console, run: SparkRun, folder: Path, by_duckdb: Verdict | None, by_arrow: Verdict | None) -> None:
    from rich.markup import escape
    from rich.table import Table

    rows_in = sum(c["left_rows_in"] + c["right_rows_in"] for c in run.counts)
    figures = Table(show_header=False, box=None, padding=(0, 0, 0, 2))
    figures.add_column(style="bold")
    before, after = run.batches
    figures.add_row("first run", f"stopped after {before} micro-batches, with {run.rows_at_stop:,} rows in the sink")
    figures.add_row("second run", f"{after} more, from the checkpoint")
    figures.add_row("rows in", f"{rows_in:,} in {run.seconds:.1f} s, {rows_in / run.seconds:,.0f} rows/s")
    figures.add_row("rows out", f"{run.rows:,}")
    for name, verdict in (("DuckDB", by_duckdb), ("Arrow operator", by_arrow)):
        figures.add_row("", _judgement(name, verdict))
    most = max(c["state_rows"] for c in run.counts)
    figures.add_row("rows in state", f"{most:,} at most at the end of a micro-batch")
    figures.add_row("written", escape(str(folder / "joined")))
    console.print(figures)
    console.print()


def _judgement(name: str, verdict: Verdict | None) -> str:
    if verdict is None:
        return f"(not compared with {name})"
    if verdict.same:
        return f"[green]✓ {name}: {verdict.expected:,}, the same rows, each exactly once[/green]"
    return f"[red]✗ {name}: {verdict.expected:,}, and {verdict.missing:,} of them are missing here[/red]"
