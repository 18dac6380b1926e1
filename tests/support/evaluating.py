"""Runs the evaluator on columns and gives its answers as Python values, after checking the promises of ``Vector``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import Vector, evaluate
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import Type, from_arrow

ERROR = "<error>"

_KINDS = {"bool": "b", "float": "f", "date": "i", "months": "i", "timestamp": "i", "time": "i", "duration": "i"}


def col(name: str, type: Any, side: str = "left") -> Node:
    """A column leaf; ``type`` is a Type or an Arrow type."""
    return make("column", (), (side, name), type if isinstance(type, Type) else from_arrow(type))


def answers(node: Node, columns: Mapping[str, pa.Array], n: int | None = None) -> list[Any]:
    """The value of each row: ERROR, None for NULL, else a Python value (physical, as ``ivjoin.expr.types`` has it)."""
    if n is None:
        n = len(next(iter(columns.values())))
    (vector,) = evaluate([node], lambda _, name: columns[name], n)
    return plain(vector, node.type, n)


def plain(vector: Vector, t: Type, n: int) -> list[Any]:
    """The rows of a vector as Python values."""
    check_vector(vector, t, n)
    values = vector.values.to_pylist() if isinstance(vector.values, pa.Array) else vector.values.tolist()
    out: list[Any] = []
    for i, value in enumerate(values):
        if vector.error is not None and vector.error[i]:
            out.append(ERROR)
        elif vector.valid is not None and not vector.valid[i]:
            out.append(None)
        else:
            out.append(value)
    return out


def there(vector: Vector, n: int) -> np.ndarray:
    """Where a vector has a value, neither NULL nor an error : bool[n]."""
    out = np.ones(n, dtype=bool) if vector.valid is None else np.array(vector.valid)
    return out if vector.error is None else out & ~vector.error


def check_vector(vector: Vector, t: Type, n: int) -> None:
    """Assert the types, lengths and layouts that ``Vector`` promises."""
    for mask in (vector.valid, vector.error):
        assert mask is None or (mask.dtype == np.bool_ and mask.shape == (n,))
    values = vector.values
    if t.kind in ("string", "binary"):
        assert values.type == (pa.large_string() if t.kind == "string" else pa.large_binary())
        assert len(values) == n
        return
    if t.kind == "opaque":
        assert isinstance(values, pa.Array) and len(values) == n
        return
    assert isinstance(values, np.ndarray) and values.shape == (n,)
    assert values.flags.c_contiguous or n < 2
    if t.kind == "int":
        assert values.dtype == np.dtype(f"{'i' if t.signed else 'u'}{t.bits // 8}")
    elif t.kind == "decimal":
        assert values.dtype == (np.int64 if t.precision <= 18 else object)
        if t.precision > 18:
            assert all(type(v) is int for v in values.tolist())
    elif t.kind in _KINDS:
        assert values.dtype.kind == _KINDS[t.kind]
        if t.kind in ("timestamp", "time", "duration"):
            assert values.dtype == np.int64


def same(got: Sequence[Any], want: Sequence[Any]) -> bool:
    """Equal row by row; NaN equals NaN."""
    return len(got) == len(want) and all(
        a == b or (isinstance(a, float) and isinstance(b, float) and a != a and b != b)
        for a, b in zip(got, want, strict=True)
    )
