"""Check the rows of a snapshot: only rows that a push would have stored may be restored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import Vector, evaluate
from ivjoin.conditions.saved import damaged
from ivjoin.operator.cores import AnyCore
from ivjoin.operator.intake import outside
from ivjoin.plan.spec import SIDES

__all__ = ["check_rows"]


def check_rows(core: AnyCore, s: int, arrays: Sequence[pa.Array], n: int, careful: bool) -> bool:
    """Raise SnapshotError if a push would not have stored one of n rows; return whether some pair needs the whole condition.

    ``arrays`` are the stored columns of side s. With ``careful``, the whole condition decides each pair, so that rows
    without a key or a place may be stored. Otherwise the probe does not look at keys, bands and filters again.
    """
    plan, side, layout = core.plan, core.plan.sides[s], core.layouts[s]
    for column, array in zip(side.stored, arrays, strict=True):
        if array.null_count and not side.schema.field(column).nullable:
            raise damaged(f"column {side.schema.names[column]!r} is declared not nullable, and stored rows have nulls")
    bands, checked = side.axes[: side.band_axes], [n for n in side.axes if n in side.checked]
    guards = [node for node, _, _ in side.guards]
    nodes = list(dict.fromkeys([*side.keys, *side.filters, *bands, *checked, *guards]))
    vectors = evaluate(nodes, lambda _, name: arrays[layout.places[layout.index[name]]], n) if nodes else []
    values = dict(zip(nodes, vectors, strict=True))
    usable = np.full(n, not plan.never)
    for node, safe in zip(side.keys, plan.null_safe, strict=True):
        if not safe and values[node].valid is not None:
            usable &= values[node].valid
    for node in bands:
        v = values[node]
        if v.valid is not None:
            usable &= v.valid if v.error is None else v.valid | v.error
    for node in side.filters:
        v = values[node]
        true = np.asarray(v.values if v.valid is None else v.values & v.valid, dtype=bool)
        usable &= true if v.error is None else true | v.error
    if not (careful or plan.raises or usable.all()):
        row = int(np.argmin(usable))
        raise damaged(f"row {row} of the {SIDES[s]} side can match no row, by a null or a filter, and is stored")
    wild = any(_errs(values[node]) for node in (*side.filters, *bands, *checked, *guards))
    return wild or any(outside(values[node], low, high) is not None for node, low, high in side.guards)


def _errs(v: Vector) -> bool:
    return v.error is not None and bool(v.error.any())
