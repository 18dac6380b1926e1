"""Represent a table as one side of a join in slices: its sorted rows, and the axis values of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa

from ivjoin.errors import CapacityError, EvaluationError, LateRowError
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal, ordinal_of
from ivjoin.operator.intake import Intake
from ivjoin.operator.lookup.tables.ordered import count_to
from ivjoin.plan.cutting import Cut, Offset, shifted
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj.arrow import taken
from ivjoin.shj.dictionaries import combined, has_dictionaries
from ivjoin.shj.plain import no_rows, plain_rows
from ivjoin.shj.registers import I64_MIN
from ivjoin.stream.sort.axis import indices
from ivjoin.stream.sort.dealing import rise
from ivjoin.stream.sort.ordered import Ordinals, evaluated

__all__ = ["AxisValues", "Bounds", "TableRows", "any_late", "in_one_batch"]

_MOST_BYTES = 1 << 30  # bytes of the rows of a slice, because offsets of text and lists have 32 bits


class TableRows:
    """The rows of a table in an order.

    ``known`` is the expression that orders the rows, if they were sorted or checked. Falling values are inverted.
    ``threads`` threads check the order of other expressions.
    """

    def __init__(self, table: pa.Table, known: tuple[Node, Ordinals] | None = None, threads: int = 1) -> None:
        self._threads = threads
        self.rows = table.num_rows
        self.missing = 0 if known is None else known[1].missing  # first rows without a value
        self._index = None if known is None else known[1].index
        self._known = known
        self._found: dict[Node, AxisValues | None] = {}
        if self._index is not None or _has_dictionaries(table.schema):
            table = combined(plain_rows(table))  # views cannot be gathered, and run ends may be too narrow for the rows
        self._table = table
        self._batches = table.to_batches()
        self._starts = np.cumsum([0, *(b.num_rows for b in self._batches)])

    def is_cut(self, rows: int) -> bool:
        """Return whether any range of this many rows fits into one batch."""
        if len(self._batches) <= 1:
            return True
        if self._index is not None or _has_dictionaries(self._table.schema):
            return False
        return self._table.nbytes // max(1, self.rows) * rows < _MOST_BYTES

    def part(self, start: int, end: int) -> pa.RecordBatch:
        """Return the rows from ``start`` to ``end`` as one batch. Some columns may be plain.

        A CapacityError is raised if one batch cannot contain the text of these rows.
        """
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
        return in_one_batch(parts)

    def batches(self) -> Sequence[pa.RecordBatch]:
        """Return all rows in unspecified order."""
        return self._batches

    def values(self, node: Node, falls: bool) -> AxisValues | None:
        """Return an expression's ordinals in the order of the rows, inverted if they fall. Return None for an error."""
        if node not in self._found:
            self._found[node] = self._values(node, falls)
        return self._found[node]

    def _values(self, node: Node, falls: bool) -> AxisValues | None:
        if self._known is not None and node is self._known[0] and falls == self._known[1].turned:
            return AxisValues(self._known[1].values, False, True, falls)
        values, there, errs = evaluated(node, self._batches, falls)
        if errs:
            return None
        if self._index is not None:
            values, there = values[self._index], None if there is None else there[self._index]
        if there is None:
            return AxisValues(values, True, rise(values, self._threads), falls)
        filled = np.maximum.accumulate(np.where(there, values, I64_MIN))
        return AxisValues(filled, False, rise(values[there], self._threads), falls)

    def moved(self, offsets: Sequence[Offset], cut: Cut, ends: bool) -> Bounds | None:
        """Return each row's greatest (``ends``: least) sum of an expression and its offset.

        Return None if an expression has an error for a row, or its values fall.
        """
        found: list[Bounds] = []
        for node, by in offsets:
            one = self.values(node, cut.falling)
            if one is None or not one.rises:
                return None
            found.append(Bounds(one.values, -by if cut.falling else by))
        if len(found) == 1:
            return found[0]
        meet = np.minimum if ends else np.maximum
        return Bounds(reduce(meet, (shifted(bounds.values, bounds.by) for bounds in found)), 0)

    def keeps_order(self, node: Node, falls: bool) -> bool:
        """Return whether each row is known to have a value of an expression, and the values rise or fall."""
        found = self._found.get(node)
        known = found is not None and found.every and found.rises and found.turned == falls
        return known and node.type.kind != "float"

    def spans(self) -> dict[Node, tuple[int, int]]:
        """Return the least and the greatest value of expressions whose values are known to rise or fall."""
        out = {}
        for node, found in self._found.items():
            is_own = node.type.kind != "float" and has_ordinal(node.type) and ordinal_of(0, node.type) == 0
            if is_own and found is not None and found.every and found.rises and len(found.values):
                ends = int(found.values[0]), int(found.values[-1])
                out[node] = (~ends[1], ~ends[0]) if found.turned else ends
        return out


@dataclass(frozen=True, slots=True)
class AxisValues:
    """Ordinals of an expression for each row : int64[n]. A row without a value repeats the value before it.

    - ``every``: whether each row has a value.
    - ``rises``: whether values never fall.
    - ``turned``: whether the values are ``~ordinal``.
    """

    values: np.ndarray
    every: bool
    rises: bool
    turned: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """One bound for each row: ``values + by``, which never falls. Sums are exact."""

    values: np.ndarray
    by: int

    def __len__(self) -> int:
        return len(self.values)

    def at(self, row: int) -> int:
        return int(self.values[row]) + self.by

    def below(self, x: int) -> int:
        """Return the number of bounds less than x."""
        return count_to(self.values, x - self.by, False)

    def up_to(self, x: int) -> int:
        """Return the number of bounds that are at most x."""
        return count_to(self.values, x - self.by, True)


def in_one_batch(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return all rows as one batch. Some columns may be plain. If their text does not fit, raise a CapacityError."""
    if len(parts) == 1:
        return parts[0]
    # Use plain rows, because 16-bit run ends may not count the rows of a slice.
    one, *more = combined(plain_rows(pa.Table.from_batches(parts))).to_batches()
    if more:
        raise CapacityError(
            f"{sum(b.num_rows for b in parts):,} rows of a slice have more text than one array can contain; cast the "
            "columns of text to large_string"
        )
    return one


def _has_dictionaries(schema: pa.Schema) -> bool:
    return any(map(has_dictionaries, schema.types))


def any_late(plan: JoinPlan, sides: tuple[TableRows, TableRows], clean: Sequence[frozenset[Node]]) -> bool:
    """Return whether a row breaks an order or a bound, or has an error there.

    The order of ``clean`` expressions is known.
    """
    intake = Intake(plan, plan.frontiers(of_all=True))
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
