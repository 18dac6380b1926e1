"""The command line: ``ivjoin join``, ``asof``, ``window``, ``sql``, ``explain`` and ``demo``."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any

import pyarrow as pa

import ivjoin
from ivjoin import MultiJoinMetrics
from ivjoin.cli.asof import asof_question
from ivjoin.cli.dialects import as_options, check_types, dialect_of
from ivjoin.cli.many import question_of_many, steps_of_many
from ivjoin.cli.options import parse_pick, question_of_two, running_of
from ivjoin.cli.parser import command_parser, paths_by_alias
from ivjoin.cli.progress import Progress
from ivjoin.cli.sql import Tables, sql_question
from ivjoin.cli.stopping import fail
from ivjoin.cli.window import parse_aggregates, window_question
from ivjoin.errors import IvjoinError
from ivjoin.files.atomic import Replacement, output_place, remove_unfinished, unwritable
from ivjoin.files.datasets import Files, open_files, open_stream
from ivjoin.files.formats import Sink, has_no_format
from ivjoin.files.overwriting import refuse_overwriting, same_place

__all__ = ["main"]

_SIGPIPE = 13  # `signal` has this name on POSIX only

# An option by its name in Python.
_OPTION = re.compile(r"\b(left|right)_(order|bounds)(?:='([^']*)')?")


def main(arguments: Sequence[str] | None = None, on_stop: list[Callable[[], None]] | None = None) -> int:
    """Run a command, and return its exit status. Functions to call when it is stopped are appended to ``on_stop``."""
    options = command_parser().parse_args(arguments)
    options.on_stop = [] if on_stop is None else on_stop
    options.on_stop.append(remove_unfinished)
    try:
        if "metrics_json" in options:
            _check_places(options)
        code = int(_COMMANDS[options.command](options))
        if sys.stdout is not None:
            _flush_output()
        return code
    except BrokenPipeError:
        # The reader has closed our output.
        _drop_output()
        return 128 + _SIGPIPE
    except (IvjoinError, pa.ArrowException, OSError) as e:
        _drop_output()
        return fail(as_options(str(e)), 2)


def _flush_output() -> None:
    """Flush standard output, so that an error is raised here and not when the process ends."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as e:
        raise unwritable("-", e) from e


def _drop_output() -> None:
    """Discard buffered output that cannot be written, because Python would report it at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):  # it may have no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# -- inputs -----------------------------------------------------------------------------------------------------------


def _open_inputs(options: argparse.Namespace) -> tuple[Files, Files]:
    if options.left == options.right == "-":
        raise IvjoinError("LEFT and RIGHT are both standard input; one of them must be a file")
    left, right = _opened(options.left, options, "left"), _opened(options.right, options, "right")
    check_types(options, (left.schema, right.schema))
    return left, right


def _opened(path: str, options: argparse.Namespace, side: str | None = None) -> Files:
    csv = dialect_of(options, side)
    return open_stream(path, options.format, csv) if path == "-" else open_files(path, options.format, csv)


def _many(options: argparse.Namespace, paths: dict[str, str]) -> tuple[dict[str, Files], dict[str, Any]]:
    """Return the opened inputs by alias, and the options of their join."""
    files = {alias: _opened(path, options) for alias, path in paths.items()}
    check_types(options, [f.schema for f in files.values()])
    return files, question_of_many(options, {alias: f.schema for alias, f in files.items()})


# -- commands ---------------------------------------------------------------------------------------------------------


def _join(options: argparse.Namespace) -> int:
    paths = paths_by_alias(options)
    if paths is None:
        stream, inputs = _join_of_two(options)
    else:
        files, asked = _many(options, paths)
        stream = ivjoin.multi_join(files, **asked, **steps_of_many(options), **running_of(options))
        inputs = list(files.values())
    return _written(options, inputs, stream)


def _asof(options: argparse.Namespace) -> int:
    left, right = _open_inputs(options)
    return _written(options, [left, right], ivjoin.asof_join(left, right, **asof_question(options)))


def _sql(options: argparse.Namespace) -> int:
    tables = Tables(options.files, lambda path: _opened(path, options))
    stream = ivjoin.sql(options.query, inputs=tables, **sql_question(options))
    check_types(options, [f.schema for f in tables.files])
    return _written(options, tables.files, stream)


def _window(options: argparse.Namespace) -> int:
    left, right = _open_inputs(options)
    stream = ivjoin.window_join(left, right, **window_question(options, left.schema, right.schema))
    return _written(options, [left, right], stream)


def _written(options: argparse.Namespace, inputs: Sequence[Files], stream: Any) -> int:
    """Write a join to its output, and report how many rows it had."""
    for what, path in (("the result (-o)", options.output), ("the metrics (--metrics-json)", options.metrics_json)):
        if path is not None:
            refuse_overwriting(what, path, [f.local for f in inputs])
    shown = not options.quiet and (options.progress or sys.stderr.isatty())
    progress = Progress(shown, [f.rows for f in inputs], lambda: stream.metrics)
    for f in inputs:
        f.watch(progress.count)
    counts = ("left_row_groups_skipped", "right_row_groups_skipped")
    skipped = dict(zip(counts, stream.row_groups_skipped or (), strict=False))
    report = Replacement(options.metrics_json) if options.metrics_json is not None else None
    sink: Sink | None = None
    options.on_stop.append(progress.stop)
    start = perf_counter()
    try:
        sink = Sink(options.output, stream.schema, _output_format(options))
        with progress:
            for batch in stream:
                sink.write(batch)
        sink.commit()
        seconds = perf_counter() - start
        if report is not None:
            _write_report(report, stream.metrics.as_dict() | skipped | {"seconds": round(seconds, 6)})
    finally:
        for unfinished in (sink, report):
            if unfinished is not None:
                unfinished.abandon()
    if not options.quiet:
        with suppress(OSError):  # the result is complete, and the disk of a log may be full
            print(_summary(stream.metrics, seconds, sum(skipped.values()), stream.sorting), file=sys.stderr)
    return 0


def _output_format(options: argparse.Namespace) -> str | None:
    """Return the format of an output whose name does not show it.

    ``--format`` also applies to the output, except that an input of JSON lines does not make the output JSON lines.
    """
    if options.output_format is None and options.format == "json":
        paths = paths_by_alias(options) if hasattr(options, "more") else None
        inputs = [options.left, options.right] if paths is None else paths.values()
        return None if any(has_no_format(path) for path in inputs) else "json"
    return options.output_format or options.format


def _join_of_two(options: argparse.Namespace) -> tuple[Any, list[Files]]:
    left, right = _open_inputs(options)
    stream = ivjoin.band_join(
        left, right, **question_of_two(options, left.schema, right.schema), **running_of(options),
        suffix=options.suffix, allow_cross=options.allow_cross,
        pick=None if options.pick is None else parse_pick(options.pick),
    )
    return stream, [left, right]


def _check_places(options: argparse.Namespace) -> None:
    """Refuse to write the result and the metrics to the same place, for any spelling of its name."""
    options.output = output_place(options.output)
    if options.metrics_json is not None:
        options.metrics_json = output_place(options.metrics_json)
    places = [p for p in (options.output, options.metrics_json) if p is not None and same_place(p) is not None]
    if len(places) == 2 and same_place(places[0]) == same_place(places[1]):
        raise IvjoinError(
            f"the metrics (--metrics-json) would go where the result (-o) goes, {places[0]!r}; write to another file"
        )


def _write_report(report: Replacement, figures: dict[str, Any]) -> None:
    try:
        report.file.write((json.dumps(figures, indent=2) + "\n").encode())
        report.commit()
    except OSError as e:
        raise unwritable(report.path, e) from e


def _summary(m: Any, seconds: float, skipped: int, done: str) -> str:
    each = list(m.rows_in.values()) if isinstance(m, MultiJoinMetrics) else [m.left_rows_in, m.right_rows_in]
    groups = f"; {skipped:,} row group{'s' if skipped > 1 else ''} skipped" if skipped else ""
    late = f"; {m.late_rows:,} late" if m.late_rows else ""
    return (
        f"ivjoin: {' + '.join(f'{n:,}' for n in each)} rows in, {m.rows_out:,} out, in {seconds:.2f} s "
        f"({sum(each) / seconds:,.0f} rows/s in); at most {m.peak_state_rows:,} rows stored "
        f"({m.peak_state_bytes / 1e6:,.1f} MB){groups}{late}{f'; {done}' if done else ''}"
    )


def _explain(options: argparse.Namespace) -> int:
    if sys.stdout is None:
        raise IvjoinError("cannot write standard output: it is closed")
    paths = paths_by_alias(options)
    if paths is not None:
        if options.how not in (None, "inner"):
            raise IvjoinError("explain shows inner joins of many inputs; leave --how out")
        files, asked = _many(options, paths)
        print(ivjoin.explain(files, **asked, workers=options.workers))
        return 0
    left, right = _open_inputs(options)
    question = question_of_two(options, left.schema, right.schema) | {"allow_cross": options.allow_cross}
    if options.aggregate:
        question["aggregate"] = parse_aggregates(options.aggregate)
    text = ivjoin.explain(left, right, **question)
    print(_OPTION.sub(lambda m: f"--{m[1]}-{m[2]}" + (f" {m[3]}" if m[3] else ""), text))
    return 0


def _demo(options: argparse.Namespace) -> int:
    from ivjoin.cli.demo.run import run_demo

    if options.batch_size < 1:
        raise IvjoinError(f"--batch-size is {options.batch_size}; expected a whole number of rows, at least 1")
    return 0 if run_demo(options.output, options.batch_size, check=not options.no_check) else 1


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "join": _join, "asof": _asof, "window": _window, "sql": _sql, "explain": _explain, "demo": _demo,
}  # fmt: skip
