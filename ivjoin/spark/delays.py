"""Production delay of a stream: from when the later of two rows came to when their pair was put out.

A row comes to the join when a map task takes it in, and goes out when the stage that joins has handed it on to Spark or
to the sink that writes there. All that a micro-batch puts out is decided by what it brought: of a pair the later
row, of a row that comes out alone what moved the frontier. So what ticks say of when its rows came bounds each delay.
Clocks are those of the machines.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

__all__ = ["DELAYS", "Arrived", "Delay", "told_delays"]

#: What a turn counts: microseconds summed over the rows out, and the longest.
DELAYS = ("delay_us", "peak_delay_us")


@dataclass(slots=True)
class Arrived:
    """When rows came, in microseconds of the clock: how many, the first, and the sum."""

    rows: int = 0
    first: int = 0
    total: int = 0

    def show(self, rows: int) -> None:
        """Rows that come now."""
        now = time.time_ns() // 1000
        self.merge((rows, now, rows * now))

    def merge(self, said: Sequence[int]) -> None:
        """Take in what another task has counted, as :attr:`as_json`."""
        rows, first, total = said
        if rows:
            self.first = min(self.first, first) if self.rows else first
            self.rows, self.total = self.rows + rows, self.total + total

    @property
    def as_json(self) -> list[int]:
        return [self.rows, self.first, self.total]


@dataclass(slots=True)
class Delay:
    """The delays of what one turn puts out.

    Attributes
    ----------
    rows_out : int
    total : int
        Summed over the rows out, each pair taken to have come with the average row of the micro-batch.
    peak : int
        From the first row of the micro-batch to the last row out: no pair took longer.
    """

    rows_out: int = 0
    total: int = 0
    peak: int = 0

    def counted(self, out: Iterator[pa.RecordBatch], came: Arrived) -> Iterator[pa.RecordBatch]:
        """The output, counted as each batch has been handed on."""
        for batch in out:
            yield batch
            self.rows_out += batch.num_rows
            if came.rows and batch.num_rows:
                now = time.time_ns() // 1000
                self.total += batch.num_rows * max(0, now - came.total // came.rows)
                self.peak = max(self.peak, now - came.first)

    @property
    def counts(self) -> tuple[int, int]:
        """As ``DELAYS`` names them."""
        return self.total, self.peak


def told_delays(total: int, peak: int, rows_out: int) -> dict[str, int]:
    """As :func:`ivjoin.spark.metrics` tells them."""
    return {"production_delay_us": total // max(1, rows_out), "peak_production_delay_us": peak}
