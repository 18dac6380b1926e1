"""A table as one side of a join in slices: its rows in the order of an axis, and the axis values of each row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ivjoin.errors import EvaluationError, LateRowError
from ivjoin.expr.evaluate import evaluate
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.operator.core import frontiers_of
from ivjoin.operator.intake import Intake, has_value
from ivjoin.plan.cutting import Cut, Offset, shifted
from ivjoin.plan.planner import JoinPlan
from ivjoin.shj.arrow import taken
from ivjoin.shj.dictionaries import combined, has_dictionaries
from ivjoin.shj.plain import in_few_batches, no_rows, plain_rows
from ivjoin.stream.axis import indices
from ivjoin.stream.ordered import Ordinals

__all__ = ["TableRows", "any_late", "rises"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_MOST_BYTES = 1 << 30  # of the rows of a slice: offsets of text and lists have 32 bits


class TableRows:
    """The rows of a table in an order.

    Parameters
    ----------
    table : pa.Table
    known : (Node, Ordinals), optional
        An expression whose order the rows take, where they were sorted or looked at; falling values are turned.
    """

    def __init__(self, table: pa.Table, known: tuple[Node, Ordinals] | None = None) -> None:
        self.rows = table.num_rows
        self.missing = 0 if known is None else known[1].missing  # first rows without a value
        self._index = None if known is None else known[1].index
        self._known = known
        if self._index is not None:
            table = combined(plain_rows(table))  # rows of views cannot be taken
        elif _has_dictionaries(table.schema):
            table = combined(table)
        self._table = table
        self._batches = table.to_batches()
        self._starts = np.cumsum([0, *(b.num_rows for b in self._batches)])

    def is_cut(self, rows: int) -> bool:
        """Whether any so many rows fit into one batch."""
        if len(self._batches) <= 1:
            return True
        if self._index is not None or _has_dictionaries(self._table.schema):
            return False
        return self._table.nbytes // max(1, self.rows) * rows < _MOST_BYTES

    def part(self, start: int, end: int) -> pa.RecordBatch:
        """The rows from ``start`` to ``end`` as one batch."""
        if start >= end:
            return no_rows(self._table.schema)
        if self._index is not None:
            batch: pa.RecordBatch = taken(self._batches[0], indices(self._index[start:end]))
            return batch
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        parts = []
        while start < end:
            here = start - int(self._starts[first])
            parts.append(self._batches[first].slice(here, end - start))
            start += parts[-1].num_rows
            first += 1
        return parts[0] if len(parts) == 1 else in_few_batches(parts)[0]

    def batches(self) -> Sequence[pa.RecordBatch]:
        """All rows, in no order."""
        return self._batches

    def values(self, node: Node, falls: bool) -> tuple[np.ndarray, bool] | None:
        """Ordinals of an expression in the order of the rows, and whether each row has a value; None where one errs.

        A row without a value repeats the value before it. Values are turned if they fall.
        """
        if self._known is not None and node is self._known[0]:
            return self._known[1].values, False
        if not self._batches:
            return np.empty(0, dtype=np.int64), True
        parts = [evaluate([node], lambda _, name: b.column(name), b.num_rows)[0] for b in self._batches]  # noqa: B023
        if any(v.error is not None and v.error.any() for v in parts):
            return None
        found = [np.ascontiguousarray(ordinals(v.values, node.type)) for v in parts]
        values = found[0] if len(found) == 1 else np.concatenate(found)
        values = ~values if falls else values
        present = [has_value(v) for v in parts]
        if any(p is not None for p in present):
            pairs = zip(present, found, strict=True)
            there = np.concatenate([np.ones(len(o), bool) if p is None else p for p, o in pairs])
            values = np.where(there, values, I64_MIN)
            values = values if self._index is None else values[self._index]
            return np.maximum.accumulate(values), False
        return values if self._index is None else values[self._index], True

    def moved(self, offsets: Sequence[Offset], cut: Cut, ends: bool) -> np.ndarray | None:
        """The greatest of some expressions and offsets of each row (``ends``: the least); None if one errs or falls."""
        out: np.ndarray | None = None
        for node, by in offsets:
            found = self.values(node, cut.falling)
            if found is None or not rises(found[0]):
                return None
            one = shifted(found[0], -by if cut.falling else by)
            if out is None:
                out = one
            else:
                out = np.minimum(out, one) if ends else np.maximum(out, one)
        return out


def _has_dictionaries(schema: pa.Schema) -> bool:
    return any(map(has_dictionaries, schema.types))


def rises(values: np.ndarray) -> bool:
    """Whether values never fall."""
    return bool((values[1:] >= values[:-1]).all())


def any_late(plan: JoinPlan, sides: tuple[TableRows, TableRows], clean: Sequence[frozenset[Node]]) -> bool:
    """Whether some row breaks an order or a bound, or errs there. ``clean``: expressions whose order is known."""
    intake = Intake(plan, frontiers_of(plan, of_all=True))
    for s, side in enumerate(sides):
        if not plan.sides[s].bounds and {n for n, _, _ in plan.sides[s].orders} <= clean[s]:
            continue
        for batch in side.batches():
            try:
                if intake.screen(s, batch)[1]:
                    return True
            except (LateRowError, EvaluationError):
                return True
    return False
