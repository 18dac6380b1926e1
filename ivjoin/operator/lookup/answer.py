"""Build output batches of aggregates for left rows that no later right row can match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ivjoin.expr.nodes import Node
from ivjoin.operator.lookup.aggregates.measure import Partial
from ivjoin.operator.lookup.aggregates.measures import measures, nothing
from ivjoin.operator.lookup.aggregates.previous import previous_rows
from ivjoin.operator.lookup.aggregates.reduce import Ranges
from ivjoin.operator.lookup.aggregates.source import RightValues
from ivjoin.operator.lookup.pairs import true_pairs
from ivjoin.operator.lookup.rows import Rows
from ivjoin.operator.lookup.run import Pairs, Run, Term
from ivjoin.operator.lookup.search import comes_in_order
from ivjoin.operator.match.output import in_parts
from ivjoin.outer.batches import pieces_of
from ivjoin.outer.jointype import JoinType
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import RowLayout
from ivjoin.shj.arrow import byte_width, take
from ivjoin.shj.plain import from_plain, plain_type, to_plain

__all__ = ["MOST_PAIRS", "Answers", "LookupPlan", "parts_within"]

_MOST_ROWS = 65_536  # left rows per lookup
MOST_PAIRS = 1 << 18  # pairs that are evaluated at once
_FIRST_ROWS = 1 << 13  # left rows of the first piece whose pairs are evaluated


class LookupPlan(Protocol):
    """A plan and its search for matches, as answers use them."""

    plan: JoinPlan
    how: JoinType
    layouts: tuple[RowLayout, RowLayout]
    terms: list[Term]
    order: tuple[Node, bool] | None

    axis: int | None  # the right axis that sorts the right rows

    def decides(self) -> list[Node]: ...


class Answers:
    """Aggregate the stored right rows that match left rows."""

    def __init__(self, engine: LookupPlan) -> None:
        self._engine = engine
        plan = engine.plan
        self._schema = plan.schema
        self._measures = measures(plan.spec.aggregates, plan.sides[1].schema)
        self._places = engine.layouts[0].places
        self._lists = any(a.function == "array_agg" for a in plan.spec.aggregates)
        self._previous = plan.spec.include_previous
        self._all = engine.how.keep[0]
        self._in_order = comes_in_order(plan, engine.order, engine.axis)
        self._most = min(plan.spec.batch_size, _MOST_ROWS)  # greatest number of rows in an output batch

    def limit_output(self, rows: int) -> None:
        self._most = min(self._most, rows)

    def without(self, batch: pa.RecordBatch, s: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield output for rows of side s without a match. Only left rows have such output."""
        for piece in pieces_of(batch, self._engine.plan.spec.batch_size):
            n = piece.num_rows
            columns = [from_plain(a, t) for a, t in zip(piece.columns, self._schema.types, strict=False)]
            yield pa.RecordBatch.from_arrays([*columns, *nothing(self._measures, n)], schema=self._schema)

    def of(self, rows: Rows, runs: list[Run]) -> Iterator[pa.RecordBatch]:
        size = self._most
        for start in range(0, len(rows), size):
            some = rows if len(rows) <= size else rows.slice(start, min(start + size, len(rows)))
            for block, pairs in self.blocks(some, runs):
                for batch in self._answers(block, runs, pairs):
                    if batch.num_rows:
                        yield batch

    def blocks(self, rows: Rows, runs: list[Run]) -> Iterator[tuple[Rows, list[Pairs] | None]]:
        """Yield rows in pieces whose pairs can be evaluated at once, with their pairs in each run."""
        if not self._asks(runs):
            for part in self._parts(rows, runs) if self._lists else [slice(0, len(rows))]:
                yield rows.slice(part.start, part.stop) if part.stop - part.start < len(rows) else rows, None
            return
        start, size = 0, _FIRST_ROWS
        while start < len(rows):
            stop = min(start + size, len(rows))
            some = rows if stop - start == len(rows) else rows.slice(start, stop)
            pairs = [self._pairs(run, some, MOST_PAIRS) for run in runs]
            done = min((n for _, n in pairs), default=len(some))
            yield some.slice(0, done), [_of_rows(found, 0, done) for found, _ in pairs]
            start, size = start + done, 2 * done  # rows beyond the limit of pairs would be looked up twice

    def _parts(self, rows: Rows, runs: list[Run]) -> Iterator[slice]:
        """Yield ranges of rows whose lists can be built at once."""
        sizes = sum((run.find(rows, self._engine.terms).ranges.sizes for run in runs), np.zeros(len(rows), np.int64))
        yield from parts_within(sizes, MOST_PAIRS)

    def _pairs(self, run: Run, rows: Rows, most: int) -> tuple[Pairs, int]:
        """Return pairs of a run, and the number of left rows that they cover."""
        return run.pairs(rows, run.find(rows, self._engine.terms), most)

    def _asks(self, runs: list[Run]) -> bool:
        return bool(self._engine.decides()) or any(run.asks(self._engine.terms) for run in runs)

    def _answers(self, rows: Rows, runs: list[Run], pairs: list[Pairs] | None) -> Iterator[pa.RecordBatch]:
        def built(cut: slice) -> pa.RecordBatch:
            if cut.stop - cut.start == len(rows):
                return self._answer(rows, runs, pairs)
            some = None if pairs is None else [_of_rows(found, cut.start, cut.stop) for found in pairs]
            return self._answer(rows.slice(cut.start, cut.stop), runs, some)

        yield from in_parts(built, 0, len(rows))

    def _answer(self, rows: Rows, runs: list[Run], pairs: list[Pairs] | None) -> pa.RecordBatch:
        partners, made = self.reduced(rows, runs, pairs)
        if not self._all and not partners.all():
            keep, plain = np.flatnonzero(partners), [to_plain(a, plain_type(a.type)) for a in made]
            rows, made = rows.take(keep), [take(a, keep, byte_width(a.type)) for a in plain]
        arrays = [from_plain(a, m.type) for a, m in zip(made, self._measures, strict=True)]
        return pa.RecordBatch.from_arrays([*self._left(rows), *arrays], schema=self._schema)

    def reduced(
        self, rows: Rows, runs: list[Run], pairs: list[Pairs] | None
    ) -> tuple[np.ndarray, list[pa.Array]]:
        """Return the number of matches of each left row : int64[n], and its aggregates. Some are plain arrays."""
        n = len(rows)
        partners = np.zeros(n, dtype=np.int64)
        parts: list[Partial] | None = None
        nodes = self._engine.decides()
        before = previous_rows(runs, rows, self._engine.terms, self._engine.axis) if self._previous else None
        for i, run in enumerate(runs):
            whole = self._source(run.rows, run.kept)
            if pairs is None:
                found = [(whole, run.find(rows, self._engine.terms).ranges)]
            else:
                here, there = true_pairs(nodes, self._engine.layouts, rows, run.rows, *pairs[i])
                ends = np.cumsum(np.bincount(here, minlength=n))
                found = [(self._source(run.rows.take(there), {}), Ranges(np.append(0, ends[:-1]), ends))]
            if before is not None:
                found.append((whole, before[i]))
            for source, ranges in found:
                if not ranges.total:
                    continue
                partners += ranges.sizes
                more = [m.over(source, ranges) for m in self._measures]
                if parts is None:
                    parts = more
                else:
                    parts = [m.joined(a, b) for m, a, b in zip(self._measures, parts, more, strict=True)]
        if parts is None:
            return partners, nothing(self._measures, n)
        return partners, [m.finish(p) for m, p in zip(self._measures, parts, strict=True)]

    def _source(self, rows: Rows, kept: dict[Any, Any]) -> RightValues:
        return RightValues(rows, self._engine.layouts[1], kept, self._engine.order, self._in_order)

    def _left(self, rows: Rows) -> list[pa.Array]:
        columns = [rows.column(i) for i in self._places]
        return [from_plain(a, t) for a, t in zip(columns, self._schema.types, strict=False)]


def parts_within(sizes: np.ndarray, most: int) -> Iterator[slice]:
    """Split rows into parts whose sizes : int64[n] add up to at most ``most``. A part has at least one row."""
    ends, start = np.cumsum(sizes), 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(start, stop)
        start = stop


def _of_rows(pairs: Pairs, start: int, stop: int) -> Pairs:
    here, there = pairs
    first, end = np.searchsorted(here, (start, stop)).tolist()
    return here[first:end] - start, there[first:end]
