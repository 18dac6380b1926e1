"""Parse inputs with aliases, ``a=a.parquet b=b.parquet ...``, and the options of a join of many inputs."""

from __future__ import annotations

import argparse
import glob
import os
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ivjoin.cli.options import params_of, parse_bounds, parse_orders, parse_pick, parse_zone
from ivjoin.errors import IvjoinError, came

__all__ = ["add_options", "aliased", "question_of_many", "steps_of_many"]

_ALIASED = re.compile(r"(?P<alias>[A-Za-z_]\w*)=(?P<path>.+)", re.DOTALL)
# Options without a meaning for more than two inputs: the name, and what to write instead.
_OF_TWO = {
    "on": "write the equalities into --condition, as in a.k = b.k",
    "left_order": "write --order a=ts", "right_order": "write --order a=ts",
    "left_bounds": "write --bounds a.w=0..60", "right_bounds": "write --bounds a.w=0..60",
    "aggregate": "explain a window join of two inputs", "suffix": "columns are named alias_name",
    "shed": "no rows are dropped", "shed_shared": "no rows are dropped",
    "idle_timeout": "join two inputs at a time", "idle": "join two inputs at a time",
}  # fmt: skip


def add_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--order", action="append", default=[], metavar="ALIAS=ORDER", help="promised order of an input; repeatable")
    add("--bounds", action="append", default=[], metavar="ALIAS.NAME=A..B", help="promised bounds; repeatable")
    add("--views", default="auto", help="intermediate results to store: auto (default), none, all, or a,b;a,b,c")
    add("--allow-cross", action="store_true", help="pair all rows of inputs that no key or --condition connects")


def aliased(options: argparse.Namespace, defaults: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the paths of inputs by alias; None for two inputs without aliases."""
    given = [options.left, options.right, *options.more]
    found = [None if _is_there(text) else _ALIASED.fullmatch(text) for text in given]
    if not all(found):
        if any(found):
            plain = next(t for t, f in zip(given, found, strict=True) if f is None)
            other = next(t for t, f in zip(given, found, strict=True) if f is not None)
            raise IvjoinError(
                f"the input {came(plain)} has no alias, and {came(other)} is read as alias=path, since no file has "
                f"that name; write alias=path for each, as in a={plain}, or for none"
            )
        if len(given) > 2:
            raise IvjoinError(f"{len(given)} inputs; give each an alias, as in a={given[0]} b={given[1]} c={given[2]}")
        for name in ("order", "bounds"):
            if getattr(options, name):
                raise IvjoinError(f"--{name} is for inputs by alias; write --left-{name} or --right-{name}")
        return None
    out: dict[str, str] = {}
    for match in found:
        assert match is not None
        if match["alias"] in out:
            raise IvjoinError(f"the alias {match['alias']!r} is used twice; give each input its own alias")
        out[match["alias"]] = match["path"]
    for name, instead in _OF_TWO.items():
        if hasattr(options, name) and getattr(options, name) != defaults.get(name):
            raise IvjoinError(f"--{name.replace('_', '-')} is for two inputs without an alias; {instead}")
    if list(out.values()).count("-") > 1:
        raise IvjoinError("two inputs are standard input; one of them must be a file")
    return out


def _is_there(text: str) -> bool:
    """Return whether the whole text names files, such as ``year=2023/x.parquet``: an existing path is not an alias."""
    try:
        # glob lists a folder before ``**`` that does not exist.
        return os.path.exists(text) or any(map(os.path.exists, glob.glob(text, recursive=True)))
    except (ValueError, OSError):  # a NUL, or a name that is too long
        return False


def question_of_many(options: argparse.Namespace, schemas: Mapping[str, pa.Schema]) -> dict[str, Any]:
    """Return the options of :func:`ivjoin.multi_join`, without the inputs."""
    orders = parse_orders(options.order, schemas)
    bounds: dict[str, Any] = {}
    for text in options.bounds:
        alias, dot, rest = (p.strip() for p in text.partition("."))
        if not dot or alias not in schemas:
            raise IvjoinError(f"--bounds is {came(text)}; expected ALIAS.NAME=A..B, with one of {', '.join(schemas)}")
        bounds.setdefault(alias, {}).update(parse_bounds([rest], schemas[alias], options.timezone) or {})
    views: Any = options.views
    if views not in ("auto", "none", "all"):
        views = [[a.strip() for a in group.split(",")] for group in views.split(";")]
    return {
        "condition": options.condition, "orders": orders, "bounds": bounds or None, "views": views,
        "allow_cross": options.allow_cross, "timezone": parse_zone(options.timezone),
        "params": params_of(options),
    }


def steps_of_many(options: argparse.Namespace) -> dict[str, Any]:
    """Return ``hows`` and ``pick`` of :func:`ivjoin.multi_join`."""
    hows = None if options.how == "inner" else _by_alias("how", options.how, ",")
    picks = None if options.pick is None else _by_alias("pick", options.pick, ";")
    return {"hows": hows, "pick": None if picks is None else {a: parse_pick(text) for a, text in picks.items()}}


def _by_alias(name: str, text: str, between: str) -> dict[str, str]:
    """Return the values of ``a=left,b=left``."""
    out = {}
    for part in text.split(between):
        alias, equals, value = (p.strip() for p in part.partition("="))
        if not equals or not value or not alias.isidentifier():
            such = "cart=left,buy=left" if name == "how" else "cart=first by cart.ts; buy=last by buy.ts"
            raise IvjoinError(f"--{name} is {came(text)}; for inputs by alias write --{name} '{such}'")
        out[alias] = value
    return out
