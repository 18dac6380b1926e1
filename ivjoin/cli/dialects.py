"""The CSV options, for both inputs or for one of them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ivjoin.errors import IvjoinError, came
from ivjoin.files.declared import csv_dialect
from ivjoin.files.text.dialects import Csv

__all__ = ["add_csv", "as_options", "check_types", "dialect_of"]

# The option, its argument, and its help.
_OPTIONS = (
    ("delimiter", "CHAR", "between fields (default: a comma, or a tabulator for .tsv and .bed); \\t is a tabulator"),
    ("decimal", "CHAR", "the decimal sign (default: .)"),
    ("no-header", None, "the first row is no header"),
    ("columns", "NAMES", "names of all columns of the file, a,b,c"),
    ("types", "TYPES", "types of columns: id=int64,ts=timestamp[us, UTC]"),
    ("encoding", "NAME", "the encoding, such as latin-1 (default: utf-8)"),
    ("null", "TEXT", "a field that is null, in addition to the empty one; repeatable"),
    ("quote", "CHAR", "the character around quoted fields (default: \"); none: no field is quoted"),
)
_ITEM = re.compile(r"\s*(?P<name>[^=]+?)\s*=\s*(?P<type>[^,\[(]+(?:[\[(][^\])]*[\])])?)\s*(?:,|$)")

# Calls that errors suggest as the fix.
_HINT = re.compile(r"ivjoin\.csv\(path, (?P<name>delimiter|encoding)=(?P<value>'[^']*')\)")
_TYPE_HINT = re.compile(r"ivjoin\.csv\(path, types=\{'(?P<name>[^']*)': '(?P<type>[^']*)'\}\)")


def add_csv(command: argparse.ArgumentParser) -> None:
    """Add ``--csv-...``, and ``--left-csv-...`` and ``--right-csv-...``, which replace them for one input."""
    for side in ("", "left-", "right-"):
        for name, metavar, text in _OPTIONS:
            options: dict[str, Any] = {"help": f"CSV: {text}" if not side else argparse.SUPPRESS}
            if metavar is None:
                options |= {"action": "store_true"}
            elif name == "null":
                options |= {"action": "append", "default": [], "metavar": metavar}
            else:
                options |= {"metavar": metavar}
            command.add_argument(f"--{side}csv-{name}", **options)


def dialect_of(options: argparse.Namespace, side: str | None) -> Csv:
    """Return the dialect of the left or right input, or (None) of an input by alias."""

    def given(name: str) -> Any:
        own = getattr(options, f"{side}_csv_{name}") if side is not None else None
        return own or getattr(options, f"csv_{name}")

    if side is None:
        for other in ("left", "right"):
            for name, _, _ in _OPTIONS:
                if getattr(options, f"{other}_csv_{name.replace('-', '_')}"):
                    raise IvjoinError(f"--{other}-csv-{name} is for two inputs without an alias; write --csv-{name}")
    quote, names = given("quote"), given("columns")
    return csv_dialect(
        delimiter=None if given("delimiter") is None else given("delimiter").replace("\\t", "\t"),
        decimal=given("decimal") or ".",
        header=not given("no_header"),
        columns=None if names is None else [n.strip() for n in names.split(",")],
        types=None if given("types") is None else _types(given("types")),
        encoding=given("encoding"),
        nulls=["", *given("null")],
        quote=None if quote == "none" else quote or '"',
    )


def as_options(message: str) -> str:
    """Return an error message in which calls of ``ivjoin.csv`` are replaced by options of the command line."""
    message = _HINT.sub(lambda m: f"--csv-{m['name']} {m['value']}", message)
    return _TYPE_HINT.sub(lambda m: f'--csv-types "{m["name"]}={m["type"]}"', message)


def check_types(options: argparse.Namespace, schemas: Sequence[pa.Schema]) -> None:
    """Raise an error for the type of a column that no input has."""
    sides = (("", schemas), ("left_", schemas[:1]), ("right_", schemas[1:]))
    for prefix, known in sides if len(schemas) == 2 else sides[:1]:
        for name in _types(getattr(options, f"{prefix}csv_types") or ""):
            if not any(name in schema.names for schema in known):
                option = f"--{prefix}csv_types".replace("_", "-")
                columns = "; ".join(", ".join(schema.names) for schema in known)
                raise IvjoinError(f"{option} has {came(name)}, which is not a column of {columns}")


def _types(text: str) -> dict[str, str]:
    found, at = {}, 0
    while at < len(text):
        item = _ITEM.match(text, at)
        if item is None:
            raise IvjoinError(
                f"--csv-types is {came(text)}; expected NAME=TYPE, separated by commas, such as "
                "id=int64,ts=timestamp[us, UTC]"
            )
        found[item["name"]] = item["type"].strip()
        at = item.end()
    return found
