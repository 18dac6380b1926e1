"""Return joined rows from a stateful function: it packs them, and a last map stage opens them.

::

    rows (Arrow IPC) | counts               Spark adds up the counts and drops their rows;
    -----------------+---------             the last stage opens the others:  k | ts | ts_right | ...
      <65,536 rows>  | null       -->                                         --+----+----------+----
      <12 rows>      | null
      null           | "5,3,..."

PySpark adds two columns of Python ints and four columns of state to *each* row that a stateful function returns. For
many rows, that costs more than the join. On a packed row the cost is negligible, and all types are preserved.

The counts contain the production delay: from the arrival of the later row of a pair in a map task to its output. The
rows of a micro-batch decide everything that it emits, so the arrival times in the ticks bound each delay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from ivjoin.errors import LateRowError, MemoryLimitError

if TYPE_CHECKING:
    import pandas as pd

    from ivjoin.spark.rows.late import LateRows

__all__ = [
    "COUNTS", "COUNTS_COLUMN", "DELAYS", "GROWING", "MapStage", "RESULT_SCHEMA", "ROWS_COLUMN", "Arrived", "Delay",
    "Results", "late_rows", "limit_explained", "opener", "packed_row",
]  # fmt: skip

#: Counts of a turn: microseconds summed over the output rows, and the longest.
DELAYS = ("delay_us", "peak_delay_us")


@dataclass(slots=True)
class Arrived:
    """Arrival times of rows, in microseconds: their number, the first one, and the sum."""

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
    """The delays of the output of one turn, in microseconds, and the time of its join."""

    joining: int = 0  # nanoseconds inside the join, without the time of its consumer
    rows_out: int = 0
    total: int = 0  # over the output rows; each pair is assumed to arrive with the micro-batch's average row
    peak: int = 0  # from the first row of the micro-batch to the last output row; an upper bound for each pair

    def counted(self, out: Iterator[pa.RecordBatch], came: Arrived) -> Iterator[pa.RecordBatch]:
        """Yield the output, and count each batch after it has been consumed."""
        while True:
            begin = perf_counter_ns()
            batch = next(out, None)
            self.joining += perf_counter_ns() - begin
            if batch is None:
                return
            yield batch
            self.rows_out += batch.num_rows
            if came.rows and batch.num_rows:
                now = time.time_ns() // 1000
                self.total += batch.num_rows * max(0, now - came.total // came.rows)
                self.peak = max(self.peak, now - came.first)

    @property
    def counts(self) -> tuple[int, int]:
        return self.total, self.peak

    def stages(self, start: int, read: int) -> tuple[int, int, int]:
        """Return the microseconds of reading, joining and writing, given when a turn began and had read its state."""
        writing = perf_counter_ns() - read - self.joining
        return (read - start) // 1000, self.joining // 1000, writing // 1000


MapStage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
ROWS_COLUMN, COUNTS_COLUMN = "rows", "counts"
RESULT_SCHEMA = StructType([StructField(ROWS_COLUMN, BinaryType()), StructField(COUNTS_COLUMN, StringType())])
# The counts of one turn, in the order of its text; times in microseconds.
COUNTS = (
    "left_rows_in", "right_rows_in", "rows_out", "left_rows_retired", "right_rows_retired", "late_rows", "state_rows",
    "state_bytes", "bytes_written", "restored", "caught_up", *DELAYS, "read_us", "join_us", "write_us",
)
GROWING = COUNTS[:6]
# Bytes of packed rows after which PySpark is forced to pass them on. One Arrow column stores less than 2 GB.
_FLUSH_BYTES = 64 << 20
_MOST_FLUSH_BYTES = 1 << 30


class Results:
    """Make frames of ``RESULT_SCHEMA`` for the buckets that one worker runs.

    PySpark passes results on when it has collected more rows than ``most_rows``, over all groups of a task. Packed rows
    seldom reach that number. Therefore this class adds enough rows of nulls after ``flush_bytes`` bytes of packed rows.
    That is 64 MiB by default, and up to 1 GiB for a large ``most_rows``. If ``most_rows`` is not positive, PySpark has
    no limit.
    """

    def __init__(self, most_rows: int, flush_bytes: int | None = None, late: LateRows | None = None) -> None:
        self.late = late
        self._most_rows = most_rows
        self._flush = flush_bytes or min(max(_FLUSH_BYTES, most_rows << 10), _MOST_FLUSH_BYTES)
        self._unflushed = 0

    def frames(self, batches: Iterator[pa.RecordBatch], label: int) -> Iterator[pd.DataFrame]:
        """Yield the joined rows of a bucket's turn, in the form that the stateful function returns."""
        del label
        return (self.output(batch) for batch in self.with_late(batches))

    def with_late(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches if self.late is None or not self.late.joined else self.late.after(batches)

    def output(self, batch: pa.RecordBatch) -> pd.DataFrame:
        """Return a frame of joined rows, packed, with rows of nulls if a flush is due."""
        rows: list[bytes | None] = [batch.serialize().to_pybytes()]
        self._unflushed += batch.nbytes
        if self._unflushed >= self._flush and self._most_rows > 0:
            self._unflushed = 0
            rows += [None] * (self._most_rows + 1)
        return _frame(rows, [None] * len(rows))

    def packed(self, rows: bytes) -> pd.DataFrame:
        return _frame([rows], [None])

    def counts(self, text: str) -> pd.DataFrame:
        return _frame([None], [text])


def _frame(rows: list[bytes | None], counts: list[str | None]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({ROWS_COLUMN: pd.Series(rows, dtype=object), COUNTS_COLUMN: pd.Series(counts, dtype=object)})


def packed_row(batch: pa.RecordBatch | None, counts: str | None) -> pa.RecordBatch:
    rows = None if batch is None else batch.serialize().to_pybytes()
    columns = [pa.array([rows], pa.binary()), pa.array([counts], pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=[ROWS_COLUMN, COUNTS_COLUMN])


def opener(schema: pa.Schema) -> MapStage:
    """Return a map stage from packed rows to the rows themselves. Its worker does not load the join."""

    def open_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0):
                yield pa.ipc.read_record_batch(packed.as_buffer(), schema)

    return open_rows


@contextmanager
def limit_explained(how: str) -> Iterator[None]:
    """Replace the fixes in a MemoryLimitError by the fixes that a user of Spark has."""
    try:
        yield
    except MemoryLimitError as e:
        raise MemoryLimitError(f"{str(e).partition(' Fixes:')[0]} {how}") from e


def late_rows(count: int, side: str | None = None, promised: Sequence[object] = ()) -> LateRowError:
    """Return the error for late rows of a micro-batch, of one side or of any input."""
    rows = "1 row of this micro-batch is" if count == 1 else f"{count} rows of this micro-batch are"
    where = "" if side is None else f" on the {side} side"
    which = f" ({', '.join(map(str, promised))})" if promised else ""
    # A join of many inputs does not support a change of the slack.
    slack = "" if side is None else ". It may also have a greater slack or watermark delay, which applies to later rows"
    error = LateRowError(
        f"{rows} late{where}: below what the order, watermark or bounds of its input promised{which}. To drop and "
        f'count late rows, start the query again with on_late="drop": it continues from its checkpoint{slack}'
    )
    error.side = side
    return error
