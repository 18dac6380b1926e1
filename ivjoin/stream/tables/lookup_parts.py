"""Give each left row one answer: read the right side first, and join each part of the left side as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ivjoin.metrics import JoinMetrics
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.spec import SIDES
from ivjoin.shj.dictionaries import combined
from ivjoin.shj.plain import from_plain_rows, plain_rows
from ivjoin.stream.known_bounds import known_bounds
from ivjoin.stream.sources.columns import Chosen
from ivjoin.stream.sources.gathering import table_of
from ivjoin.stream.sources.inputs import open_input
from ivjoin.stream.tables.looked_up import looked_up

__all__ = ["LookupParts"]

_LEAST_ROWS = 1 << 20  # left rows of a part; at least as many as right rows, which each part evaluates again


class LookupParts:
    """The join of two inputs without orders or bounds. The output has the order of the left rows."""

    def __init__(
        self, found: Chosen, batches: tuple[Iterator[pa.RecordBatch], Iterator[pa.RecordBatch]], threads: int
    ) -> None:
        self._found, self.plan, self._batches, self._threads = found, found.plan, batches, threads
        self._metrics = JoinMetrics()
        self._ended = False

    @property
    def schema(self) -> pa.Schema:
        return self.plan.schema

    @property
    def metrics(self) -> JoinMetrics:
        """Counts so far. The state is the right rows, and a part of the left rows."""
        return self._metrics

    def output(self) -> Iterator[pa.RecordBatch]:
        """Yield the output in the order of the left rows."""
        (left, right), m = self._batches, self._metrics
        # Plain rows in one piece, so that no part copies them again.
        theirs = combined(plain_rows(table_of(right, self.plan.sides[1].schema)))
        m.right_rows_in = theirs.num_rows
        for part in self._parts(left, max(_LEAST_ROWS, theirs.num_rows)):
            m.left_rows_in += part.num_rows
            m.state_rows, m.state_bytes = theirs.num_rows + part.num_rows, theirs.nbytes + part.nbytes
            m.peak_state_rows = max(m.peak_state_rows, m.state_rows)
            m.peak_state_bytes = max(m.peak_state_bytes, m.state_bytes)
            for batch in self._joined(part, theirs):
                m.rows_out += batch.num_rows
                yield batch
            m.left_rows_retired = m.left_rows_in
        m.right_rows_retired = m.right_rows_in
        m.state_rows = m.state_bytes = 0
        self._ended = True

    def _parts(self, batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
        """Yield at least one table, each of at least ``rows`` rows.

        If unmatched right rows are emitted, yield one table.
        """
        schema, whole = self.plan.sides[0].schema, self.plan.how.keep[1]
        some: list[pa.RecordBatch] = []
        n = first = 0
        for batch in batches:
            some.append(batch)
            n += batch.num_rows
            if n >= rows and not whole:
                yield table_of(some, schema)
                some, n, first = [], 0, 1
        if some or not first:
            yield table_of(some, schema)

    def _joined(self, left: pa.Table, right: pa.Table) -> Iterator[pa.RecordBatch]:
        sources, several = (open_input(left, SIDES[0]), open_input(right, SIDES[1])), self._found.several
        found = looked_up(self.plan, sources, self._threads, several)
        if found is not None:
            yield from found.output()
            return
        op = SymmetricHashJoin.from_plan(self.plan) if several is None else several.operator(self.plan, False, None)
        for p, table in ((1, right), (0, left)):
            for batch in table.to_batches():
                for piece in from_plain_rows(batch, self.plan.sides[p].schema):
                    yield from op.push(SIDES[p], piece)
            yield from op.finish(SIDES[p])

    def output_bounds(self) -> dict[str, tuple[Any, Any]]:
        """Return bounds of output rows, like ``SymmetricHashJoin.output_bounds``."""
        return known_bounds(self.plan, self._ended)

    def close(self) -> None:
        self._batches = iter(()), iter(())
