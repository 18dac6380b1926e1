"""The command ``ivjoin sql``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ivjoin.cli.options import NAMED, add_param, limit_of, params_of, parse_orders, parse_zone
from ivjoin.errors import FileError, IvjoinError, came
from ivjoin.files.datasets import Files

__all__ = ["SQL_EXAMPLE", "Tables", "add_sql", "sql_question"]

SQL_EXAMPLE = """\
example:
  ivjoin sql "SELECT l.id, r.ad FROM 'clicks.parquet' l LEFT JOIN 'views/*.parquet' r \\
      ON l.user = r.user AND l.ts BETWEEN r.ts AND r.ts + INTERVAL 1 HOUR" -o matches.parquet
"""

def add_sql(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("query", metavar="QUERY", help="SELECT ... FROM 'file' l JOIN 'file' r ON ...; put paths in single quotes")
    add("files", metavar="NAME=FILE", nargs="*", help="a file and its name in the query")
    add("--order", action="append", default=[], metavar="ALIAS=ORDER", help="promised order of a table; repeatable")
    add_param(command)


class Tables(Mapping[str, Files]):
    """The files of a query by name or path, each opened when the query needs it."""

    def __init__(self, named: list[str], opened: Callable[[str], Files]) -> None:
        self._paths: dict[str, str] = {}
        self._opened = opened
        self.files: list[Files] = []
        for text in named:
            found = NAMED.fullmatch(text)
            if found is None:
                raise IvjoinError(f"{came(text)} follows the query; expected NAME=FILE, or a path in its quotes")
            self._paths[found["name"]] = found["value"]

    def __getitem__(self, name: str) -> Files:
        self.files.append(self._opened(self._paths.get(name, name)))
        return self.files[-1]

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or name in self._paths or os.path.splitext(name)[1] or os.path.exists(name):
            return isinstance(name, str)
        raise FileError(f"the query names the table {name!r}; pass NAME=FILE, or put the path of a file in quotes")

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def sql_question(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of :func:`ivjoin.sql`, without the inputs."""
    return {
        "params": params_of(options), "orders": parse_orders(options.order), "batch_size": options.batch_size,
        "on_late": options.on_late, "timezone": parse_zone(options.timezone), "sort": options.sort,
    } | limit_of(options)
