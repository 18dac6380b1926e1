"""The options of ``ivjoin window``, and the arguments that they set."""

from __future__ import annotations

import argparse
from typing import Any

import pyarrow as pa

from ivjoin.cli.options import add_bounds, add_param, question_of_two, running_of
from ivjoin.errors import ColumnError, came

__all__ = ["WINDOW_EXAMPLE", "add_aggregate", "add_window", "parse_aggregates", "window_question"]

WINDOW_EXAMPLE = """\
example:
  ivjoin window trades.parquet quotes.parquet --on sym \\
      --condition "r.ts BETWEEN l.ts - INTERVAL 5 MINUTES AND l.ts" \\
      --aggregate "vwap=sum(r.price * r.qty) / sum(r.qty)" --aggregate "n=count(*)" -o out.parquet
"""


def add_window(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--on", action="append", default=[], metavar="KEYS", help="key columns: name, a,b or left=right; repeatable")
    add("--condition", "--where", metavar="SQL", help="which right rows are in the window of a left row")
    add_aggregate(command, required=True)
    add_param(command)
    add("--how", default="left", help="left (default); inner: drop left rows with an empty window")
    add("--include-previous", action="store_true", help="the last row before a window counts as its first row")
    add_bounds(command)


def add_aggregate(command: argparse.ArgumentParser, required: bool = False) -> None:
    """Add the option for the output columns of a window join."""
    command.add_argument(
        "--aggregate", action="append", default=[], metavar="NAME=SQL", required=required,
        help="an output column, such as 'vwap=sum(r.price * r.qty) / sum(r.qty)'; repeatable",
    )  # fmt: skip


def window_question(options: argparse.Namespace, left: pa.Schema, right: pa.Schema) -> dict[str, Any]:
    """Return the arguments of :func:`ivjoin.window_join`."""
    own = {"aggregate": parse_aggregates(options.aggregate), "include_previous": options.include_previous}
    return question_of_two(options, left, right) | own | running_of(options)


def parse_aggregates(texts: list[str]) -> dict[str, str]:
    """Return the aggregates of ``NAME=SQL`` as a dict; only the first ``=`` separates."""
    made: dict[str, str] = {}
    for text in texts:
        name, _, sql = (part.strip() for part in text.partition("="))
        if not name or not sql:
            raise ColumnError(f"an aggregate is {came(text)}; expected NAME=SQL, such as n=count(*)")
        if name in made:
            raise ColumnError(f"two aggregates are named {came(name)}; choose another name")
        made[name] = sql
    return made
