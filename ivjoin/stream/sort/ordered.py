"""Read rows in the order of an expression: a table through sorted indices, or row groups one after another.

Rows without a value (a NULL or an error) come first. A descending order inverts the ordinals, so that they rise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import NAN_ORDINAL, ordinal_of, ordinals
from ivjoin.operator.lookup.tables.ordered import rises
from ivjoin.outer.values import has_value
from ivjoin.shj.arrow import taken
from ivjoin.shj.dictionaries import combined
from ivjoin.shj.plain import from_plain, from_plain_rows, plain_rows, plain_type
from ivjoin.shj.registers import I64_MIN
from ivjoin.shj.sorting import in_order
from ivjoin.stream.sort.axis import indices
from ivjoin.stream.sort.dealing import rise, sort_order
from ivjoin.stream.sort.sweep import Ordered

if TYPE_CHECKING:
    from ivjoin.files.statistics import Ranges

__all__ = [
    "Ordinals", "Step", "evaluated", "gathered", "moves", "of_steps", "of_table", "steps",
]  # fmt: skip

_GATHERED = 65_536  # rows gathered at once


@dataclass
class Ordinals:
    """Ordinals of an expression over a table, in the sorted order. Rows without a value have the least ordinal."""

    values: np.ndarray
    errs: bool
    turned: bool  # the values are ``~ordinal``
    index: np.ndarray | None  # sorts the rows; None if they are already sorted
    missing: int = 0  # number of rows without a value, if the rows were sorted

    @classmethod
    def of(cls, table: pa.Table, node: Node, descending: bool, threads: int = 1) -> Ordinals:
        """Evaluate an expression, and sort the rows by it with ``threads`` threads."""
        values, valid, errs = evaluated(node, table.to_batches(), descending)
        if valid is None:
            if rise(values, threads):
                return cls(values, errs, descending, None)
            index, values = sort_order(values, threads)
            return cls(values, errs, descending, _short(index))
        seen = values[valid]
        if not errs and rise(seen, threads):
            return cls(np.maximum.accumulate(np.where(valid, values, I64_MIN)), errs, descending, None)
        none, (order, seen) = np.flatnonzero(~valid), sort_order(seen, threads)
        index = np.concatenate((none, np.flatnonzero(valid)[order]))
        values = np.concatenate((np.full(len(none), I64_MIN), seen))
        return cls(values, errs, descending, _short(index), len(none))


def _short(index: np.ndarray) -> np.ndarray:
    if index.dtype == np.int32:
        return index.view(np.uint32)
    return index.astype(np.uint32) if len(index) < 2**32 else index


def evaluated(
    node: Node, batches: Sequence[pa.RecordBatch], descending: bool
) -> tuple[np.ndarray, np.ndarray | None, bool]:
    """Return an expression's ordinals over batches : int64[n], the rows that have one, and whether a row has an error.

    Ordinals are ``~ordinal`` if ``descending``. The second array is bool[n], or None if every row has a value.
    """
    parts = [evaluate([node], lambda _, name: b.column(name), b.num_rows)[0] for b in batches]  # noqa: B023
    found = [np.ascontiguousarray(ordinals(v.values, node.type)) for v in parts]
    values = found[0] if len(found) == 1 else np.concatenate(found) if found else np.empty(0, np.int64)
    errs = any(v.error is not None and bool(v.error.any()) for v in parts)
    there = [has_value(v) for v in parts]
    valid = None
    if any(v is not None for v in there):
        valid = np.concatenate([np.ones(len(o), bool) if v is None else v for v, o in zip(there, found, strict=True)])
    return (~values if descending else values), valid, errs


def of_table(table: pa.Table, rows: Ordinals) -> Ordered:
    """Yield the rows of a table in order, in batches, with their ordinals."""
    batches = iter(table.to_batches()) if rows.index is None else gathered(table, rows.index)
    at = 0
    for batch in batches:
        yield batch, rows.values[at : at + batch.num_rows]
        at += batch.num_rows


def gathered(table: pa.Table, index: np.ndarray, most: int | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table at these positions, at most ``most`` in a batch."""
    schema, most = table.schema, most or _GATHERED
    whole = combined(plain_rows(table))  # ``take`` does not support views
    batches = whole.to_batches()
    for start in range(0, len(index), most):
        at = indices(index[start : start + most])
        if len(batches) == 1:
            some = [taken(batches[0], at)]
        else:  # the text does not fit into one array
            some = combined(taken(whole, at)).to_batches()
        for batch in some:
            yield from from_plain_rows(batch, schema)


def moves(schema: pa.Schema) -> bool:
    """Return whether ``take`` supports every column of a schema."""
    at = pa.nulls(0, pa.uint32())
    try:
        for t in schema.types:
            from_plain(taken(pa.nulls(0, plain_type(t)), at), t)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, TypeError):
        return False
    return True


# -- row groups -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """Row groups to read together, and the ordinal below which no later group has rows; None at the end."""

    groups: list[int]
    whole_to: int | None


def steps(ranges: Ranges, groups: Sequence[int], node: Node, descending: bool) -> list[Step] | None:
    """Return the order in which to read row groups, so that a column is sorted, from the statistics in footers.

    Return None if a row group lacks statistics, or if at least half of the row groups would be in memory at once.
    """
    spans = []
    for group in groups:
        dom = ranges.of_group(group, [node]).get(node)
        if dom is None or (not dom.is_empty and (dom.lo is None or dom.hi is None)):
            return None
        if dom.is_empty:
            spans.append((I64_MIN, I64_MIN, group))
            continue
        low, high = ordinal_of(dom.lo, node.type), ordinal_of(dom.hi, node.type)
        spans.append((~high, ~low, group) if descending else (low, high, group))
    spans.sort()
    lows = np.array([low for low, _, _ in spans], dtype=np.int64)
    # For each row group, how many earlier ones overlap its start. The greatest number is read at a time.
    highs = np.sort(np.array([high for _, high, _ in spans], dtype=np.int64))
    waiting = np.arange(len(lows)) - np.searchsorted(highs, lows, side="right")
    width = max(1, int(waiting.max(initial=0)))
    if 2 * width >= len(spans):
        return None
    return [
        Step([g for _, _, g in spans[i : i + width]], int(lows[i + width]) if i + width < len(spans) else None)
        for i in range(0, len(spans), width)
    ]


def of_steps(
    found: Sequence[Step], tables: Iterable[pa.Table], node: Node, descending: bool
) -> Ordered:
    """Yield the rows of row groups in order. Rows beyond the start of a later row group wait for it.

    ``tables`` are the row groups of each step.
    """
    top = I64_MIN
    waiting: pa.Table | None = None
    for step, table in zip(found, tables, strict=True):
        if waiting is not None:
            table = pa.concat_tables([waiting, table])
        keys = _keys(table, node, descending)
        index = None
        if not rises(keys):
            order, keys = in_order(keys)
            index = _short(order)
        cut = len(keys) if step.whole_to is None else int(np.searchsorted(keys, step.whole_to, side="right"))
        rows = Ordinals(np.maximum(keys[:cut], top), False, descending, None if index is None else index[:cut])
        yield from of_table(table.slice(0, cut) if index is None else table, rows)
        top = int(rows.values[-1]) if cut else top
        waiting = table.slice(cut)
        if index is not None:
            waiting = pa.Table.from_batches(gathered(table, index[cut:]), table.schema)


def _keys(table: pa.Table, node: Node, descending: bool) -> np.ndarray:
    """Return the ordinals of a column. NULL and NaN have no order and get the least ordinal."""
    keys, valid, _ = evaluated(node, table.to_batches(), descending)
    if node.type.kind == "float":
        number = keys != (~NAN_ORDINAL if descending else NAN_ORDINAL)
        valid = number if valid is None else valid & number
    return keys if valid is None else np.where(valid, keys, I64_MIN)
