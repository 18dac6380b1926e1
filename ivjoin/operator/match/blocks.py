"""Decide whether compiled code builds output batches on this platform.

Compiled code builds them in raw memory of a 64-bit little-endian machine, which C's malloc allocates and the Arrow C
data interface hands over. On any other platform, or if a trial join fails, Arrow builds the same rows.
"""

from __future__ import annotations

import os
import struct
from functools import cache
from importlib import import_module
from typing import Any

import pyarrow as pa

from ivjoin.expr.arguments import warn_caller

__all__ = ["VARIABLE", "wanted", "works"]

VARIABLE = "IVJOIN_COMPILED_BLOCKS"
joining: Any = None  # the operator class, which sets itself here: an import would be a circle


def wanted() -> bool:
    """Return whether the environment variable allows compiled blocks and the platform supports them."""
    return os.environ.get(VARIABLE, "1") != "0" and _possible()


@cache
def _possible() -> bool:
    from ivjoin.shj.kernels.memory import is_for_this_machine

    calls = (pa.RecordBatch, "_export_to_c"), (pa.RecordBatch, "_import_from_c")
    return is_for_this_machine() and all(hasattr(owner, name) for owner, name in calls)


_TYPES = {"k": pa.int64(), "t": pa.int32(), "x": pa.float64(), "b": pa.binary(3)}
_CODES = {"k": "q", "t": "i", "x": "d"}
_LEFT: dict[str, list[Any]] = {
    "k": [7, 1, 2, 2], "t": [0, 10, 11, 12], "x": [-0.0, 1.5, 2.5, -1.0], "b": [b"xyz", b"abc", b"def", b"ghi"],
}  # fmt: skip
_RIGHT: dict[str, list[Any]] = {"k": [2, 1, 3], "t": [12, 14, 30], "x": [9.0, 0.5, 1e300]}
_ROWS = [
    (1, 10, 1.5, b"abc", None, None), (2, 11, 2.5, b"def", 12, 9.0), (2, 12, -1.0, b"ghi", 12, 9.0),
    (3, None, None, None, 30, 1e300), (7, 0, -0.0, b"xyz", None, None), (1, None, None, None, 14, 0.5),
]  # fmt: skip


_found: list[bool] = []  # the result of the trial, empty before the first one; True while the trial runs


def works() -> bool:
    """Return whether compiled code builds the right rows, by a small join that runs once a process.

    If it does not, warn once with a `RuntimeWarning`; Arrow builds the output from then on.
    """
    if _found:
        return _found[0]
    _found.append(True)
    try:
        got: Any = _tried()
    except Exception as e:
        got = f"{type(e).__name__}: {e}"
    if got != sorted(_ROWS, key=repr):
        _found[0] = False
        warn_caller(RuntimeWarning(
            f"ivjoin: the compiled blocks do not work on this platform ({str(got)[:200]}); joins take a slower path "
            f"with the same result. Set {VARIABLE}=0 to take it without a warning"
        ))  # fmt: skip
    return _found[0]


def _batch(columns: dict[str, list[Any]]) -> pa.RecordBatch:
    # `pa.array` would import pandas to learn whether a list belongs to it, which takes a third of a second.
    made = []
    for name, values in columns.items():
        data = b"".join(values) if name == "b" else struct.pack(f"<{len(values)}{_CODES[name]}", *values)
        made.append(pa.Array.from_buffers(_TYPES[name], len(values), [None, pa.py_buffer(data)]))
    return pa.RecordBatch.from_arrays(made, list(columns))


def _tried() -> list[tuple[Any, ...]]:
    # The fluent form, because the SQL parser takes longer to load than everything else here.
    from ivjoin.conditions.read.fluent import left as of_left
    from ivjoin.conditions.read.fluent import right as of_right

    if joining is None:
        import_module("ivjoin.operator.operator")
    band = of_left("t").between(of_right("t") - 3, of_right("t"))
    rows, right = _batch(_LEFT), _batch(_RIGHT)
    first, left = rows.slice(0, 1), rows.slice(1)
    op = joining(
        left.schema, right.schema, on="k", condition=band, how="full", left_order="t", right_order="t", batch_size=2
    )
    out: list[pa.RecordBatch] = []
    for side, batch in (("left", first), ("left", left), ("right", right)):
        out += op.push(side, batch)
    out += op.finish()
    for batch in out:
        batch.validate(full=True)
    return sorted((tuple(row.values()) for batch in out for row in batch.to_pylist()), key=repr)
