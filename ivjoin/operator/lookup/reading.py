"""Evaluate the keys and axes of a side's rows, and find the rows that can match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.expr.ordinal import ordinals
from ivjoin.operator.evaluated import Evaluated, evaluated, of_stored
from ivjoin.operator.key_values import key_ids
from ivjoin.operator.lookup.rows import Rows, joined
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.shj.store.keys import KeyTable

__all__ = ["Arrived", "read"]


@dataclass(slots=True)
class Arrived:
    """The evaluated rows of a batch."""

    every: Rows
    usable: np.ndarray | None  # bool[n]: the rows that may match, or None for all rows
    found: Evaluated

    @property
    def kids(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the key ids of all rows, and ``usable``."""
        return self.every.kids, self.usable

    @property
    def rows(self) -> Rows:
        """Return the rows that may match."""
        return self.every if self.usable is None else self.every.take(np.flatnonzero(self.usable))

    @classmethod
    def of(cls, parts: Sequence[Arrived]) -> Arrived:
        usable = [np.ones(len(p.every), dtype=bool) if p.usable is None else p.usable for p in parts]
        every = all(p.usable is None for p in parts)
        return cls(joined([p.every for p in parts]), None if every else np.concatenate(usable), parts[0].found)


def read(
    plan: JoinPlan, s: int, columns: Sequence[pa.Array], seq: np.ndarray, keys: KeyTable,
    every: Sequence[pa.Array] | None = None,
) -> Arrived:
    """Evaluate rows of side s with :func:`evaluated`, and find their key ids.

    ``columns`` are the stored columns. ``every`` has all columns of newly arrived rows.
    """
    n, index = len(seq), row_layouts(plan)[s].index
    column = of_stored(plan, s, columns) if every is None else lambda _, name: every[index[name]]
    e = evaluated(plan, s, n, column, every is not None)
    whole = bool(e.usable.all())
    if e.key_erred:
        kids = np.zeros(n, dtype=np.int64)
    elif plan.int_keys:  # integer keys are their own ids
        key = plan.sides[s].keys[0]
        kids = np.ascontiguousarray(ordinals(e.values[key].values, key.type))
    else:
        kids = key_ids(plan, s, n, e.values, keys)
    rows = Rows(list(columns), seq, kids, e.axes, e.absent)
    return Arrived(rows, None if whole else e.usable, e)
