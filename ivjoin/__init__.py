"""Join ordered streams and large tables on keys and a band condition, and store only rows that can still match.

``import ivjoin`` loads only the error classes. The other names are loaded at first use. The first condition or join
imports numba, sympy and sqlglot, and ``ivjoin.spark`` imports pyspark and pandas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ivjoin.errors import (
    CardinalityError,
    ColumnError,
    ConditionError,
    EvaluationError,
    FileError,
    IvjoinError,
    LateRowError,
    MemoryLimitError,
    MissingPackageError,
    OptionError,
    OrderError,
    ProtocolError,
    SchemaError,
    SnapshotError,
    SpillError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from ivjoin.conditions.read.fluent import column, left, lit, right
    from ivjoin.files.declared import csv, json
    from ivjoin.frontier.order import Order
    from ivjoin.metrics import JoinMetrics, MultiJoinMetrics
    from ivjoin.multi.operator import MultiJoin
    from ivjoin.operator.memory.budget import Shed, Spill
    from ivjoin.operator.operator import SymmetricHashJoin
    from ivjoin.plan.picking.choice import Pick
    from ivjoin.stream.asof import asof_join
    from ivjoin.stream.explaining import explain
    from ivjoin.stream.join_stream import JoinStream
    from ivjoin.stream.pruning import prune_row_groups
    from ivjoin.stream.pull import band_join
    from ivjoin.stream.query.many import multi_join
    from ivjoin.stream.query.sql import sql
    from ivjoin.stream.window.join import window_join

__version__ = "0.1.0"

# public name -> the module it lives in
_LAZY = {
    "JoinMetrics": "ivjoin.metrics",
    "MultiJoin": "ivjoin.multi.operator",
    "MultiJoinMetrics": "ivjoin.metrics",
    "JoinStream": "ivjoin.stream.join_stream",
    "Order": "ivjoin.frontier.order",
    "Pick": "ivjoin.plan.picking.choice",
    "Shed": "ivjoin.operator.memory.budget",
    "Spill": "ivjoin.operator.memory.budget",
    "SymmetricHashJoin": "ivjoin.operator.operator",
    "asof_join": "ivjoin.stream.asof",
    "band_join": "ivjoin.stream.pull",
    "column": "ivjoin.conditions.read.fluent",
    "csv": "ivjoin.files.declared",
    "explain": "ivjoin.stream.explaining",
    "json": "ivjoin.files.declared",
    "left": "ivjoin.conditions.read.fluent",
    "multi_join": "ivjoin.stream.query.many",
    "lit": "ivjoin.conditions.read.fluent",
    "prune_row_groups": "ivjoin.stream.pruning",
    "right": "ivjoin.conditions.read.fluent",
    "sql": "ivjoin.stream.query.sql",
    "window_join": "ivjoin.stream.window.join",
}

__all__ = [
    "CardinalityError",
    "ColumnError",
    "ConditionError",
    "EvaluationError",
    "FileError",
    "IvjoinError",
    "JoinMetrics",
    "JoinStream",
    "LateRowError",
    "MemoryLimitError",
    "MissingPackageError",
    "MultiJoin",
    "MultiJoinMetrics",
    "OptionError",
    "Order",
    "OrderError",
    "Pick",
    "ProtocolError",
    "SchemaError",
    "Shed",
    "SnapshotError",
    "Spill",
    "SpillError",
    "SymmetricHashJoin",
    "UnsupportedError",
    "__version__",
    "asof_join",
    "band_join",
    "column",
    "csv",
    "explain",
    "json",
    "left",
    "lit",
    "multi_join",
    "prune_row_groups",
    "right",
    "sql",
    "window_join",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'ivjoin' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
