"""Joined rows on their way out of a stateful function: packed there, counted by Spark, opened in a last map stage.

::

    rows (Arrow IPC) | counts               Spark adds the counts up and drops those rows;
    -----------------+---------             the others are opened:      k | ts | ts_right | ...
      <65,536 rows>  | null       -->                                   --+----+----------+----
      <12 rows>      | null
      null           | "5,3,..."

PySpark puts two more columns of Python ints and four of state beside *each* row that a stateful function returns. That
costs more than the join where many rows come out; on a packed row it costs nothing, and the types survive exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from ivjoin.errors import LateRowError
from ivjoin.spark.rows.delays import DELAYS

if TYPE_CHECKING:
    import pandas as pd

    from ivjoin.spark.rows.pack import MapStage

__all__ = [
    "COUNTS", "COUNTS_COLUMN", "GROWING", "RESULT_SCHEMA", "ROWS_COLUMN", "Results", "late_rows", "opener",
    "packed_row",
]

ROWS_COLUMN, COUNTS_COLUMN = "rows", "counts"
RESULT_SCHEMA = StructType([StructField(ROWS_COLUMN, BinaryType()), StructField(COUNTS_COLUMN, StringType())])
# What one turn counts, in the order of its text; times in microseconds.
COUNTS = (
    "left_rows_in", "right_rows_in", "rows_out", "left_rows_retired", "right_rows_retired", "late_rows", "state_rows",
    "state_bytes", "bytes_written", "restored", "caught_up", *DELAYS, "read_us", "join_us", "write_us",
)
GROWING = COUNTS[:6]
# Packed rows gathered before PySpark is made to pass them on: one Arrow column holds less than 2 GB.
_FLUSH_BYTES = 64 << 20
_MOST_FLUSH_BYTES = 1 << 30


class Results:
    """Frames of ``RESULT_SCHEMA``, of the buckets that one worker plays.

    PySpark passes results on when it has gathered more rows than ``spark.sql.execution.arrow.maxRecordsPerBatch``, over
    all groups of a task. Packed rows are too few for that, so rows of nulls come after ``flush_bytes`` bytes of them.

    Parameters
    ----------
    most_rows : int
        That setting; zero or less for no limit, and then nothing is flushed.
    flush_bytes : int, optional
        By default 64 MiB, more where the setting makes flushing dear.
    """

    def __init__(self, most_rows: int, flush_bytes: int | None = None) -> None:
        self._most_rows = most_rows
        self._flush = flush_bytes or min(max(_FLUSH_BYTES, most_rows << 10), _MOST_FLUSH_BYTES)
        self._held = 0

    # Nanoseconds of the last turn that went into writing its rows, not into joining them.
    sink_ns = 0

    def frames(self, batches: Iterator[pa.RecordBatch], label: int) -> Iterator[pd.DataFrame]:
        """The joined rows of a bucket's turn, as the stateful function hands them on."""
        del label
        return (self.output(batch) for batch in batches)

    def output(self, batch: pa.RecordBatch) -> pd.DataFrame:
        """Joined rows."""
        rows: list[bytes | None] = [batch.serialize().to_pybytes()]
        self._held += batch.nbytes
        if self._held >= self._flush and self._most_rows > 0:
            self._held = 0
            rows += [None] * (self._most_rows + 1)
        return _frame(rows, [None] * len(rows))

    def packed(self, rows: bytes) -> pd.DataFrame:
        """One packed row."""
        return _frame([rows], [None])

    def counts(self, text: str) -> pd.DataFrame:
        """The counts of one turn."""
        return _frame([None], [text])


def _frame(rows: list[bytes | None], counts: list[str | None]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({ROWS_COLUMN: pd.Series(rows, dtype=object), COUNTS_COLUMN: pd.Series(counts, dtype=object)})


def packed_row(batch: pa.RecordBatch | None, counts: str | None) -> pa.RecordBatch:
    """One row of ``RESULT_SCHEMA``, for a map stage."""
    rows = None if batch is None else batch.serialize().to_pybytes()
    columns = [pa.array([rows], pa.binary()), pa.array([counts], pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=[ROWS_COLUMN, COUNTS_COLUMN])


def opener(schema: pa.Schema) -> MapStage:
    """A map stage from packed rows to the rows themselves, whose Arrow schema is given.

    It needs pyarrow alone: a worker that only opens rows starts without loading the join.
    """

    def open_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0):
                yield pa.ipc.read_record_batch(packed.as_buffer(), schema)

    return open_rows


def late_rows(count: int, side: str | None = None, promised: Sequence[object] = ()) -> LateRowError:
    """Return the error for late rows of a micro-batch, of one side or of any input."""
    rows = "1 row of this micro-batch is" if count == 1 else f"{count} rows of this micro-batch are"
    where = "" if side is None else f" on the {side} side"
    which = f" ({', '.join(map(str, promised))})" if promised else ""
    error = LateRowError(
        f"{rows} late{where}: below what the order, watermark or bounds of its input promised{which}. To drop and "
        'count late rows, start the query again with on_late="drop": it continues from its checkpoint. A greater '
        "slack or watermark delay needs a new checkpoint"
    )
    error.side = side
    return error
