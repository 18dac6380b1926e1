"""The options of ``ivjoin asof``, and the arguments that they set."""

from __future__ import annotations

import argparse
import re
from typing import Any

from ivjoin.cli.options import add_param, asked_of, names, parse_keys, running_of

__all__ = ["ASOF_EXAMPLE", "add_asof", "asof_question"]

ASOF_EXAMPLE = """\
example:
  ivjoin asof trades.parquet quotes.parquet --on ts --by sym --tolerance "5 minutes" -o trades-with-quotes.parquet
"""


def add_asof(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--on", required=True, metavar="NAME", help="time column: a name, or left=right")
    add("--by", action="append", default=[], metavar="KEYS", help="key columns: name, a,b or left=right; repeatable")
    add("--direction", default="backward", help="backward (default), forward or nearest")
    add("--tolerance", metavar="N", help="the greatest distance: 5, 500ms, '5 minutes'")
    add("--condition", "--where", metavar="SQL", help="additional condition on a match")
    add_param(command)
    add("--how", default="left", help="left (default), inner, right or full")
    add("--ties", metavar="NAMES", help="right columns that decide between rows of the same time; all: take all")
    add("--interpolate", metavar="NAMES", help="right columns to interpolate between the previous and the next row")
    add("--offsets", metavar="LIST", help="look up each row at several times, such as --offsets=-1s,0s,5s")
    add("--no-exact", action="store_true", help="do not match rows of the same time")


def asof_question(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of :func:`ivjoin.asof_join`."""
    on = [part.strip() for part in options.on.split("=")]
    return {
        "on": on[0] if len(on) == 1 else tuple(on),
        "by": parse_keys(options.by),
        "direction": options.direction,
        "tolerance": options.tolerance,
        "how": options.how,
        "suffix": options.suffix,
        "allow_exact_matches": not options.no_exact,
        "ties": "all" if options.ties == "all" else names(options.ties),
        "condition": options.condition,
        "interpolate": names(options.interpolate),
        "offsets": _offsets(options.offsets),
    } | asked_of(options) | running_of(options)


def _offsets(text: str | None) -> list[Any] | None:
    """Return the offsets in ``-1s,0s,5s``, with whole numbers as numbers."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    return [int(p) if re.fullmatch(r"[+-]?[0-9]+", p) else p for p in parts]
