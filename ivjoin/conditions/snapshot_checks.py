"""Check the parts of a snapshot: plain values, types and expressions. Each check raises SnapshotError.

A checksum cannot detect that another program wrote the file. Kernels and interval rules therefore rely on these checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.errors import SnapshotError, came
from ivjoin.expr.kernels.cells import dtype_of
from ivjoin.expr.literals import zone_named
from ivjoin.expr.nodes import Node, walk
from ivjoin.expr.types import INT64, Type, from_arrow, to_arrow
from ivjoin.functions.table import operator_of

__all__ = ["check_expressions", "damaged", "flag", "whole", "wholes"]

_LEAST, _MOST = INT64.limits
_ZEROS: dict[str, Any] = {"decimal": Decimal(0), "decimal256": Decimal(0), "bool": False, "string": "", "float": 0.0}


def damaged(what: str) -> SnapshotError:
    """Return the error for an invalid part of a snapshot."""
    return SnapshotError(f"the snapshot is damaged: {what}")


def flag(value: Any, name: str) -> bool:
    """Return ``value`` if it is True or False, else raise SnapshotError."""
    if not isinstance(value, bool):
        raise damaged(f"{name} is {came(value)}; expected true or false")
    return value


def whole(value: Any, name: str, least: int = _LEAST, most: int = _MOST) -> int:
    """Return ``value`` if it is a whole number from ``least`` to ``most``, else raise SnapshotError."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise damaged(f"{name} is {came(value)}; expected a whole number from {least} to {most}")
    return value


def wholes(values: Any, name: str, least: int = _LEAST, most: int = _MOST) -> list[int]:
    """Return ``values`` if it is a list of whole numbers from ``least`` to ``most``, else raise SnapshotError."""
    if not isinstance(values, list):
        raise damaged(f"{name} is {came(values)}; expected a list of whole numbers")
    return [whole(v, name, least, most) for v in values]


def check_expressions(roots: Iterable[Node], schemas: dict[str, pa.Schema]) -> None:
    """Check the operators, columns, constants and types of expressions. ``schemas`` maps each side to its schema.

    Each operator is evaluated once, over a null and a zero of each column. Its result must have the stated type.
    """
    nodes = list(walk(*roots))
    for n in nodes:
        _check_leaf(n, schemas)
    samples = {n.params: _sample(schemas[n.params[0]].field(n.params[1]).type) for n in nodes if n.op == "column"}
    try:
        vectors = evaluate(nodes, lambda side, name: samples[side, name], 2)
    except Exception as e:
        raise damaged(f"an expression cannot be evaluated: {came(e)}") from e
    for n, v in zip(nodes, vectors, strict=True):
        if len(v.values) != 2 or not _is_of(v.values, n.type):
            raise damaged(f"an expression has the type {n.type}, but its values do not")


def _check_leaf(n: Node, schemas: dict[str, pa.Schema]) -> None:
    _check_type(n.type)
    if n.op == "column":
        side, name = n.params if len(n.params) == 2 else (None, None)
        schema = schemas.get(side) if isinstance(side, str) else None
        if schema is None or not isinstance(name, str) or schema.get_field_index(name) < 0:
            raise damaged(f"an expression reads the column {came(n.params)}; expected one of an input")
        if from_arrow(schema.field(name).type) != n.type:
            raise damaged(f"an expression reads {came(name)} as {n.type}; the column is {schema.field(name).type}")
    elif n.op == "literal":
        if len(n.params) != 1 or not _is_value(n.params[0], n.type):
            raise damaged(f"a constant of type {n.type} is {came(n.params)}")
    elif operator_of(n) is None:
        raise damaged(f"an expression has the operator {came(n.op)}, which does not exist")


def _check_type(t: Type) -> None:
    """Check that a type is the type of an Arrow column or of an operator's result."""
    if t.kind in ("opaque", "months", "null", "decimal256"):
        return
    try:
        right = from_arrow(to_arrow(t)) == t
        if t.tz is not None:
            zone_named(t.tz)
    except Exception:  # Arrow raises many classes
        right = False
    if not right:
        raise damaged(f"an expression has the type {came(t)}, which does not exist")


def _is_value(value: Any, t: Type) -> bool:
    """Return whether a constant is a physical value of a type."""
    if value is None:
        return True
    if t.is_discrete:
        return isinstance(value, int) and not isinstance(value, bool) and t.limits[0] <= value <= t.limits[1]
    kinds = {"bool": bool, "float": float, "string": str, "binary": bytes, "decimal256": int}
    return t.kind in kinds and isinstance(value, kinds[t.kind])


def _sample(t: pa.DataType) -> pa.Array:
    """Return an array of an Arrow type with a null and, for simple types, a zero."""
    kind = from_arrow(t)
    try:
        if kind.is_temporal or kind.kind == "int":
            width = pa.int32() if kind.kind == "date" or (kind.kind == "time" and kind.unit in "ms") else pa.int64()
            return pa.array([None, 0], width).cast(pa.date32() if kind.kind == "date" else t).cast(t)
        if kind.kind == "binary":
            return pa.array([None, b"\0" * 16]).cast(t)
        return pa.array([None, _ZEROS[kind.kind]], to_arrow(kind)).cast(t)
    except (KeyError, pa.ArrowException):
        return pa.nulls(2, t)


def _is_of(values: Sequence[Any], t: Type) -> bool:
    """Return whether values have the form that :class:`ivjoin.conditions.evaluate.Vector` documents for a type."""
    if t.kind in ("opaque", "null", "decimal256", "string", "binary"):
        return t.kind not in ("string", "binary") or not isinstance(values, np.ndarray)
    if not isinstance(values, np.ndarray):
        return False
    if t.kind == "decimal":
        return t.precision > 18 or values.dtype == np.int64
    return values.dtype == dtype_of(t)
