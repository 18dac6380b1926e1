"""The arguments of each command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

import ivjoin
from ivjoin.cli.asof import ASOF_EXAMPLE, add_asof
from ivjoin.cli.dialects import add_csv
from ivjoin.cli.many import add_options, aliased
from ivjoin.cli.options import add_bounds, add_limit, add_param
from ivjoin.cli.sql import SQL_EXAMPLE, add_sql
from ivjoin.cli.window import WINDOW_EXAMPLE, add_aggregate, add_window
from ivjoin.files.formats import FORMATS

__all__ = ["command_parser", "paths_by_alias"]

_REMOVED = {
    "--pick-by": "write --pick 'last by ts'",
    "--aggregate": "use the command 'ivjoin window' with --aggregate NAME=SQL",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        for name, instead in _REMOVED.items():
            if message.startswith("unrecognized arguments:") and name in message.split():
                message = f"{name} does not exist; {instead}"
        self.exit(2, f"ivjoin: error: {message}; see '{self.prog} --help'\n")


_JOIN_EXAMPLE = """\
example:
  ivjoin join clicks.parquet views.parquet --on user \\
      --condition "l.ts BETWEEN r.ts AND r.ts + INTERVAL 1 HOUR" --how left \\
      --left-order ts --right-order "ts SLACK 10s" -o matches.parquet
  ivjoin join q=quotes.parquet t=trades.parquet n=news.parquet \\
      --condition "q.sym = t.sym AND t.ts BETWEEN q.ts AND q.ts + 10 AND n.sym = t.sym AND n.ts = t.ts"
"""


def command_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="ivjoin", description="Join ordered streams and large tables on keys and a band condition.")
    parser.add_argument("--version", action="version", version=f"ivjoin {ivjoin.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

    join = commands.add_parser(
        "join", help="join files or streams", description="Join two files or streams, or up to eight by alias.",
        epilog=_JOIN_EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    _add_join(join)

    asof = commands.add_parser(
        "asof", help="match each left row with the right row before it, after it or nearest to it",
        description="Match each left row with the last right row before it, the first after it, or the nearest one.",
        epilog=ASOF_EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    window = commands.add_parser(
        "window", help="aggregate the right rows in a window around each left row",
        description="Aggregate the right rows that match each left row.",
        epilog=WINDOW_EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    for command, add in ((asof, add_asof), (window, add_window)):
        _add_inputs(command)
        add(command)
        _add_threads(command)
        add_limit(command, "raise (default), or spill to files")
        _add_orders(command)
        _add_files(command)
        _add_output(command)

    sql = commands.add_parser(
        "sql", help="join files with an SQL query", description="Join files with an SQL query in Spark's dialect.",
        epilog=SQL_EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_sql(sql)
    add_limit(sql, "raise (default), or spill to files")
    _add_files(sql)
    _add_output(sql, names=False)

    explain = commands.add_parser("explain", help="show which rows a join evicts, and what prevents it")
    _add_explain(explain)

    demo = commands.add_parser("demo", help="join a year of flights with weather data and with each other")
    demo.add_argument("--output", type=Path, default=Path("demo-output"), metavar="DIR", help="folder for the results")
    demo.add_argument("--batch-size", type=int, default=4096, metavar="ROWS", help="rows of an input batch")
    demo.add_argument("--no-check", action="store_true", help="do not compare the results with DuckDB's")
    return parser


def _add_explain(explain: argparse.ArgumentParser) -> None:
    _add_question(explain)
    add_aggregate(explain)
    explain.set_defaults(how=None)  # of a window join: left
    explain.add_argument("--workers", type=int, default=8, metavar="N", help="workers in the grid of many inputs")


def _threads(text: str) -> int | str:
    return text if text == "auto" else int(text)


def _add_join(join: argparse.ArgumentParser) -> None:
    _add_question(join)
    _add_output(join)
    _add_threads(join)
    add_limit(join, "raise (default), spill to files or shed rows")
    join.add_argument("--shed", metavar="POLICY", help="which rows to drop first: prob (default), life or random")
    join.add_argument("--shed-shared", action="store_true", help="let both sides share the memory; default: half each")
    join.add_argument("--pick", metavar="WHICH", help="which matches a left row takes: 'first 3 by abs(l.x - r.x)'")


def _add_threads(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--threads", type=_threads, default="auto", metavar="N",
        help="threads that share the join: a number, or auto (default), which uses all CPUs for large files",
    )  # fmt: skip


def _add_inputs(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("left", metavar="LEFT", help="Parquet, CSV, JSON lines or Arrow: file, pattern, folder; - is standard input")
    add("right", metavar="RIGHT", help="the same as for LEFT")


def _add_orders(command: argparse.ArgumentParser) -> None:
    for side in ("left", "right"):
        command.add_argument(
            f"--{side}-order", action="append", default=[], metavar="ORDER",
            help=f"promised order of {side.upper()}: EXPR [DESC] [NULLS FIRST|LAST] [SLACK n]; repeatable",
        )  # fmt: skip
    command.add_argument("--idle-timeout", metavar="TIME", help="how long to wait for a silent pipe, such as 5s")
    command.add_argument("--idle", default="wait", help="wait (default); advance: a silent pipe follows the other one")


def _add_output(command: argparse.ArgumentParser, names: bool = True) -> None:
    add = command.add_argument
    if names:
        add("--suffix", default="_right", help="suffix of right columns whose name collides")
        add("--columns", metavar="NAMES", help="output columns, such as a,b,c; all by default")
    add("--batch-size", type=int, default=65536, metavar="ROWS", help="maximum number of rows in an output batch")
    add("--on-late", default="raise", help="what to do with a row out of order: raise, drop or join")
    add("-o", "--output", default="-", metavar="FILE", help="the output; - (the default) is standard output")
    add("--output-format", choices=FORMATS, help="format of an output whose name does not show it (default: arrows)")
    add("--metrics-json", metavar="FILE", help="also write the metrics to this file")
    add("--sort", default="auto", help="auto (default): sort inputs without an order; never: do not sort")
    add("--progress", action="store_true", help="show a progress bar even without a terminal")
    add("-q", "--quiet", action="store_true", help="no progress bar, no metrics on standard error")


def _add_files(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--timezone", metavar="ZONE", help="zone of calendar days and of times without a zone (default UTC)")
    add("--format", choices=FORMATS, help="format of inputs whose names do not show it; default for -: arrows")
    add_csv(command)


def _add_question(command: argparse.ArgumentParser) -> None:
    _add_inputs(command)
    add = command.add_argument
    add("more", metavar="INPUT", nargs="*", help="further inputs; every input must then be ALIAS=FILE")
    add("--on", action="append", default=[], metavar="KEYS", help="key columns: name, a,b or left=right; repeatable")
    add("--condition", "--where", metavar="SQL", help="condition on a pair of rows; l. and r. name the sides")
    kinds = "inner (default), left, right, full, or left_ or right_ with semi or anti; a=left,b=full for many inputs"
    add("--how", default="inner", help=kinds)
    _add_orders(command)
    add_bounds(command)
    add_param(command)
    add_options(command)
    _add_files(command)


def paths_by_alias(options: argparse.Namespace) -> dict[str, str] | None:
    """Return the paths of inputs by alias; None for two inputs without aliases."""
    parser = _Parser()
    (_add_join if options.command == "join" else _add_explain)(parser)
    defaults = {a.dest: a.default for a in parser._actions}
    return aliased(options, defaults)
