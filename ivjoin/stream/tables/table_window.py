"""Aggregate the matches of each left row of two tables, slice by slice, with any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivjoin.operator.lookup.aggregates.measures import measures, nothing
from ivjoin.operator.lookup.search import comes_in_order, search_of
from ivjoin.operator.lookup.tables.aggregated import Aggregated, Window
from ivjoin.operator.lookup.tables.one_run import OneRun
from ivjoin.operator.lookup.tables.ordered import BoundTerm
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.shj.arrow import byte_width, take
from ivjoin.shj.dictionaries import one_array
from ivjoin.shj.plain import from_plain, plain_type, to_plain
from ivjoin.shj.registers import I64_MAX
from ivjoin.stream.sort.dealing import rise
from ivjoin.stream.sources.inputs import Source
from ivjoin.stream.tables.table_lookup import TableLookup, parts_of
from ivjoin.stream.tables.table_rows import TableRows
from ivjoin.stream.tables.table_sides import OUT_ROWS, TableSides
from ivjoin.stream.workers import each

__all__ = ["TableWindow", "table_window"]

_SLICE_ROWS = 1 << 18  # rows of both sides
_BANDS = 8  # width of a slice in windows, so that few right rows are in two slices
_MOST_TEXT = 2**31 - 1  # bytes
_RUN_ROWS, _MOST_SLICES = 1 << 15, 64  # left rows of a slice that looks up one run, and slices; each starts with a pass
_SEEN = 64  # left rows whose window is sampled


class TableWindow(TableLookup):
    """The join of two tables with aggregates. ``right`` has all right rows."""

    def __init__(
        self, plan: JoinPlan, left: TableRows, right: pa.RecordBatch, found: Aggregated | OneRun, threads: int
    ) -> None:
        super().__init__(plan, left, right, threads)
        self._found: Aggregated | OneRun | None = found
        self._measures = measures(plan.spec.aggregates, plan.sides[1].schema)

    def close(self) -> None:
        super().close()
        self._found = None

    def _tasks(self) -> tuple[Sequence[slice], Callable[[slice], Iterator[pa.RecordBatch]]]:
        found = self._found
        assert found is not None
        slices = parts_of(len(found.left), _left_rows(found))
        if found.left.lies_in_order:

            def in_turn(part: slice) -> Iterator[pa.RecordBatch]:
                start = part.start
                for sizes, arrays in found.pieces(part):
                    yield from self._batches(slice(start, start + len(sizes)), sizes, arrays)
                    start += len(sizes)

            return slices, in_turn
        none = np.zeros(1, dtype=np.int64)
        made: list[list[tuple[np.ndarray, list[pa.Array]]]] = [[]] * len(slices)

        def aggregate(number: int) -> None:
            made[number] = list(found.pieces(slices[number]))

        each(range(len(slices)), lambda: aggregate, self._threads)
        pieces = [piece for part in made for piece in part]
        pieces.append((none, nothing(self._measures, 1, [a.type for a in pieces[0][1]] if pieces else None)))
        sizes = np.concatenate([sizes for sizes, _ in pieces])
        arrays = [_together(parts) for parts in zip(*(arrays for _, arrays in pieces), strict=True)]
        # The place of each left row's answer. Rows without a match use the last answer.
        at = np.full(self._left.rows, len(sizes) - 1, dtype=np.int64)
        every = np.arange(len(sizes) - 1)
        at[found.left.rows_at(every)] = every

        def batches(part: slice) -> Iterator[pa.RecordBatch]:
            some = at[part]
            return self._batches(part, sizes[some], [take(a, some, byte_width(a.type)) for a in arrays])

        return parts_of(self._left.rows, OUT_ROWS), batches

    def _batches(self, part: slice, sizes: np.ndarray, arrays: list[pa.Array]) -> Iterator[pa.RecordBatch]:
        columns = [*self._left.part(part.start, part.stop).columns, *arrays]
        if not self.plan.how.keep[0] and not sizes.all():
            there = np.flatnonzero(sizes)
            if not len(there):
                return
            columns = [take(a, there, byte_width(a.type)) for a in columns]
        types = self.plan.schema.types
        yield pa.RecordBatch.from_arrays(
            [from_plain(a, t) for a, t in zip(columns, types, strict=True)], schema=self.plan.schema
        )


def _together(parts: Sequence[pa.Array]) -> pa.Array:
    """Concatenate aggregates as plain arrays. Some parts may be dictionaries, and others have the output's type."""
    if len({part.type for part in parts}) > 1:
        parts = [part.dictionary_decode() if pa.types.is_dictionary(part.type) else part for part in parts]
    return one_array([to_plain(part, plain_type(part.type)) for part in parts])


def _left_rows(found: Aggregated | OneRun) -> int:
    """Return the number of left rows of a slice: many windows, or all left rows if windows are too wide."""
    if isinstance(found, OneRun):
        return max(_RUN_ROWS, len(found.left) // _MOST_SLICES)
    left, right = found.left, found.right
    n, m = len(left), len(right)
    if not n or not m:
        return max(1, n)
    reached = [found.reach(slice(i, i + 1)) for i in range(0, n, max(1, n // _SEEN))]
    window = sum(end - begin for begin, end in reached) / len(reached)
    rows = max(1, _SLICE_ROWS * n // (n + m), int(_BANDS * window * n / m))
    return n if 2 * rows > n else rows


def _is_much_text(plan: JoinPlan, n: int, right: pa.RecordBatch) -> bool:
    """Return whether the text in the aggregates of n left rows may exceed one array.

    Then several batches are needed.
    """
    for a in plan.spec.aggregates:
        if a.node is None or a.function == "count" or a.node.type.kind not in ("string", "binary"):
            continue
        if a.node.op != "column":
            return True
        array = right.column(a.node.params[1])
        values = array.dictionary if pa.types.is_dictionary(array.type) else array
        known = pa.types.is_string(values.type) or pa.types.is_binary(values.type)
        longest = (pc.max(pc.binary_length(values)).as_py() or 0) if known else values.nbytes
        if longest * n > _MOST_TEXT:
            return True
    return False


def table_window(plan: JoinPlan, sources: tuple[Source, Source], threads: int) -> TableWindow | None:
    """Return the join of two tables with aggregates, or None if their rows must be pushed."""
    if plan.raises or plan.spec.include_previous:
        return None
    sides = TableSides.of(plan.own(), sources, threads)
    if sides is None or _is_much_text(sides.plan, sides.left.rows, sides.right):
        return None
    found = None if plan.separation.residual else _by_ranges(sides)
    answers = found or OneRun(sides.plan, sides.read, sides.batches, sides.keys)
    if not answers.left.lies_in_order and any(a.function == "array_agg" for a in plan.spec.aggregates):
        return None  # sorting the lists by the left table would require storing all of them
    return TableWindow(sides.plan, sides.left, sides.right, answers, threads)


def _by_ranges(sides: TableSides) -> Aggregated | None:
    """Return the answers by ranges of right rows in the order of all bands, or None without such an order."""
    plan = sides.plan
    terms, by, axis = search_of(plan)
    lows: list[BoundTerm] = [(t.left, t.right, -t.high) for t in terms if t.high is not None]
    highs: list[BoundTerm] = [(t.left, t.right, -t.low) for t in terms if t.low is not None]
    bounds = [*lows, *highs]
    if any(abs(by) > I64_MAX for _, _, by in bounds):
        return None
    ids, (left_kids, right_kids) = sides.ids()
    right = sides.in_order(1, right_kids, axis, {b for _, b, _ in bounds})
    if not all(rise(values, sides.threads) for line, values in right.lines.items() if line != axis):
        return None
    left = sides.in_order(0, left_kids, _most_used([a for a, _, _ in bounds]), {a for a, _, _ in bounds})
    columns = [sides.right.column(i) for i in plan.sides[1].stored]
    made = measures(plan.spec.aggregates, plan.sides[1].schema)
    rises_by = comes_in_order(plan, by, axis)
    return Aggregated(left, right, ids, Window(lows, highs), columns, row_layouts(plan)[1], made, by, rises_by)


def _most_used(lines: Sequence[int]) -> int | None:
    """Return the first of the lines that most bounds compare, or None without bounds."""
    return max(dict.fromkeys(lines), key=lines.count) if lines else None
