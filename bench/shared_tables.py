"""The tables of conditions that the tests are made of (tests/support/join), to run them through other systems too."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = ["datafusion_sql", "traps", "weak"]

TESTS = Path(__file__).parent.parent / "tests" / "support"


def _import(name: str) -> Any:
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    return __import__(name, fromlist=["*"])


def traps() -> Any:
    """tests/support/join/traps.py: conditions at whose edges a row is easily lost."""
    return _import("join.traps")


def weak() -> Any:
    """tests/support/join/weak.py: conditions under which pruning is easily lost."""
    return _import("join.weak")


def column(kind: Any, values: list[Any]) -> pa.Array:
    return _import("join.tables").column(kind, values)


def records(table: pa.Table) -> list[dict[str, Any]]:
    return _import("join.tables").records(table)


_REWRITES = (
    # Spark's spelling -> DataFusion's
    (r"INTERVAL '?(-?\d+)'? (\w+?)S?\b", r"INTERVAL '\1 \2'"),
    (r"(\S+) div (\d+)", r"CAST(\1 / \2 AS BIGINT)"),
    (r"CAST\((\S+) AS FLOAT\)", r"CAST(\1 AS REAL)"),
    (r"unix_seconds\((\S+?)\)", r"floor(CAST(arrow_cast(\1, 'Timestamp(Nanosecond, None)') AS BIGINT) / 1e9)"),
    (r"unix_micros\((\S+?)\)", r"CAST(\1 AS BIGINT) / 1000"),
    (r"\bpow\(", "power("),
)


def datafusion_sql(condition: str) -> str:
    """A condition in DataFusion's words."""
    for spark, other in _REWRITES:
        condition = re.sub(spark, other, condition)
    return condition
