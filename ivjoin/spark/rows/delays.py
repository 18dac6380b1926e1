"""Measure the production delay of a stream: from the arrival of the later row of a pair to the output of the pair.

A row arrives when a map task reads it. It is output when the stage that joins has passed it to Spark, or to the sink.
The rows of a micro-batch decide everything that it emits, so the arrival times in the ticks bound each delay. Times are
from the clocks of the machines.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

__all__ = ["DELAYS", "Arrived", "Delay"]

#: Counts of a turn: microseconds summed over the output rows, and the longest.
DELAYS = ("delay_us", "peak_delay_us")


@dataclass(slots=True)
class Arrived:
    """Arrival times of rows, in microseconds of the clock: their number, the first, and the sum."""

    rows: int = 0
    first: int = 0
    total: int = 0

    def show(self, rows: int) -> None:
        now = time.time_ns() // 1000
        self.merge((rows, now, rows * now))

    def merge(self, said: Sequence[int]) -> None:
        """Add the counts of another task, given as :attr:`as_json`."""
        rows, first, total = said
        if rows:
            self.first = min(self.first, first) if self.rows else first
            self.rows, self.total = self.rows + rows, self.total + total

    @property
    def as_json(self) -> list[int]:
        return [self.rows, self.first, self.total]


@dataclass(slots=True)
class Delay:
    """The delays of the output of one turn, in microseconds."""

    rows_out: int = 0
    total: int = 0  # over the output rows; each pair is assumed to arrive with the micro-batch's average row
    peak: int = 0  # from the first row of the micro-batch to the last output row; an upper bound for each pair

    def counted(self, out: Iterator[pa.RecordBatch], came: Arrived) -> Iterator[pa.RecordBatch]:
        """Yield the output, and count each batch after it has been consumed."""
        for batch in out:
            yield batch
            self.rows_out += batch.num_rows
            if came.rows and batch.num_rows:
                now = time.time_ns() // 1000
                self.total += batch.num_rows * max(0, now - came.total // came.rows)
                self.peak = max(self.peak, now - came.first)

    @property
    def counts(self) -> tuple[int, int]:
        return self.total, self.peak
