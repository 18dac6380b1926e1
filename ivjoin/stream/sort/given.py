"""Read an input of a join as far as the reserved memory allows, before it is sorted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from ivjoin.operator.memory.budget import Budget
from ivjoin.stream.sort.outside import capacity_for, fits
from ivjoin.stream.sources.inputs import Source
from ivjoin.stream.sources.row_groups import batches_of

__all__ = ["Given"]


@dataclass
class Given:
    """A side that was read as far as the reserved memory allows.

    ``table`` has the first rows (None: row groups are read on request), and ``rest`` the other rows (None: no others).
    """

    source: Source
    table: pa.Table | None = None
    rest: Iterator[pa.RecordBatch] | None = None
    budget: Budget | None = None

    @classmethod
    def of(cls, source: Source, budget: Budget | None, read: bool) -> Given:
        given = cls(source, budget=budget)
        if read:
            given.read()
        return given

    @property
    def capacity(self) -> int | None:
        """Return the bytes that rows in memory may use, or None without a memory limit."""
        return None if self.budget is None else capacity_for(self.budget.limit)

    def read(self) -> pa.Table:
        """Return the first rows. Without a memory limit, these are all rows."""
        if self.table is None:
            capacity = self.capacity
            self.table, self.rest = (self.source.table(), None) if capacity is None else self.source.head(capacity)
            if capacity is not None and self.rest is None and not fits(self.table, self.source.in_memory, capacity):
                self.rest = iter(())
        return self.table

    @property
    def rows(self) -> int | None:
        return self.source.rows if self.table is None or self.rest is not None else self.table.num_rows

    def batches(self, threads: int) -> Iterator[pa.RecordBatch]:
        """Return an iterator of all rows in the given order. ``threads`` threads read row groups."""
        if self.table is None:
            return batches_of(self.source, 0 if self.budget is not None else threads)
        first = iter(self.table.to_batches())
        return first if self.rest is None else chain(first, self.rest)
