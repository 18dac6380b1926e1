"""The output of a join as an iterator and as an Arrow stream, which can be read once, by one reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from ivjoin.errors import ProtocolError
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.explaining.picture import Explanation
from ivjoin.stream.outputs import Outputs
from ivjoin.stream.running import CLOSED, ENDED, Change, Run, stopped_by

if TYPE_CHECKING:
    from ivjoin.expr.literals import Value

__all__ = ["JoinStream"]

_READ_ELSEWHERE = (
    "this stream is read by another thread at this moment, or by a call further up in this one; wait until that call "
    "has returned"
)


class JoinStream(Outputs):
    """The output of a join: an iterator of RecordBatches that reads the inputs while you read it.

    You can read the output once. A second loop continues where the first one stopped, and :meth:`read_all` returns the
    remaining rows. Reading raises :class:`ProtocolError` if

    - the output was read to its end,
    - another reader has begun to take it, or
    - the join ended with an error.

    You can also use ``async for``. In a ``with`` statement, the stream is closed at the end of the block.

    The output is also an Arrow stream (``__arrow_c_stream__``), so polars, duckdb and other libraries read it directly.
    They take the whole output, so pass the stream before you take a batch from it. Afterwards, pass :meth:`read_all` or
    :meth:`to_reader`. If several readers request the output, the last one gets it.

    Only one thread may read at a time. You can read ``metrics`` and ``schema`` at any time.
    """

    # Starts the same join with some output columns; None if only this stream can provide them.
    _again: Callable[[Sequence[str] | None], JoinStream] | None = None
    _repeats = False  # whether its inputs can be read more than once
    # If constants became columns, returns the join as written, for its explanation.
    _written: Callable[[None], JoinStream] | None = None
    _bounded = True  # whether the bounds of the join's columns are valid for the output

    def __init__(self, run: Run) -> None:
        self._run, self._schema, self._read_from = run, run.schema, run.read_from
        self._batches = run.batches()
        self._reading = False  # True while a call is running, like OneCall._busy
        self._begun = False
        self._reader: object | None = None  # the last reader that was created; None if the stream itself is read

    def _changed(
        self, schema: pa.Schema, change: Change, again: Callable[[Sequence[str] | None], JoinStream], repeats: bool
    ) -> JoinStream:
        """Return this stream, before any row is read, with batches of ``schema`` that ``change`` produces."""
        before = self._run.change
        self._run.change = change if before is None else lambda batches: change(before(batches))
        self._schema, self._bounded = schema, False
        self._again, self._repeats = again, repeats
        return self

    @property
    def _asked(self) -> Run:
        return self._run if self._written is None else self._written(None)._run

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._schema

    @property
    def metrics(self) -> JoinMetrics:
        """Counts so far."""
        return self._run.metrics

    @property
    def sorting(self) -> str:
        """One line that states what ivjoin did with inputs without an order, or "" if it did nothing."""
        return self._run.sorting

    @property
    def row_groups_skipped(self) -> tuple[int, int] | None:
        """Return how many row groups of each side are skipped; None unless both are Parquet files."""
        return self._run.skipped

    def explain(self) -> Explanation:
        """Return the plan of this join, as :func:`ivjoin.explain` does. Before the first row, this reads a sample."""
        return self._asked.explain()

    def __repr__(self) -> str:
        """Return the schema, the condition and the state so far."""
        columns = ", ".join(f"{f.name}: {f.type}" for f in self.schema)
        m = self.metrics
        state = f"{m.rows_out:,} rows emitted, {m.state_rows:,} rows in state" if self._begun else "not begun"
        return f"{type(self).__name__}({columns})\n  {self._asked.question}; {state}"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "the output of a join can be read once, so it cannot be pickled or copied; read_all() "
            "returns a table"
        )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._claim(None)
        return self

    def __next__(self) -> pa.RecordBatch:
        return self._next(None)

    def output_bounds(self) -> dict[str, tuple[Value | None, Value | None]]:
        """Return the bounds of the columns of later output batches; see :meth:`SymmetricHashJoin.output_bounds`.

        Raises
        ------
        ProtocolError
            After an error, once the stream is closed, or if the output is computed from joined rows, as by
            ``ivjoin.sql`` or ``maintain_order=``.
        """
        if not self._bounded:
            raise ProtocolError(
                "output_bounds() is not known for ivjoin.sql(), maintain_order=, indicator= and validate=; call "
                "band_join without these"
            )
        if self._run.over not in (None, ENDED):
            raise ProtocolError(self._run.over)
        bounds = self._run.output_bounds()
        return bounds if self._written is None else {n: bounds[n] for n in self._schema.names if n in bounds}

    def close(self) -> None:
        """Stop reading the inputs, and drop the rest of the output.

        Raises
        ------
        ProtocolError
            If another thread is reading the stream, or the call comes from inside such a read.
        """
        reading, self._reading = self._reading, True
        if reading:
            raise ProtocolError(_READ_ELSEWHERE)
        try:
            self._again = None
            self._batches.close()
            self._run.over = self._run.over or CLOSED
            self._run.release()  # closing a generator that has not started releases nothing
        finally:
            self._reading = False

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rest of the output as a RecordBatchReader.

        Raises
        ------
        ProtocolError
            As :meth:`read_all`.
        """
        reader = object()
        self._claim(reader)
        return pa.RecordBatchReader.from_batches(self.schema, iter(partial(self._next, reader, True), None))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        if self._begun and self._run.over is None:
            raise ProtocolError(
                "batches of this stream were taken already, and an Arrow stream is the whole output; "
                "pass read_all() or to_reader(), which are the rest"
            )
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _lazy(self) -> Callable[[Sequence[str] | None], JoinStream]:
        """Pass the output on. Return a function that starts it with some columns, for each scan of a lazy frame.

        A ProtocolError is raised if batches were already read. The function raises it for a second scan of an input
        that can be read only once.
        """
        if self._begun:
            raise ProtocolError("batches of this stream were taken already; call to_polars(lazy=True) before")
        reader, again = object(), self._again
        self._claim(reader)
        scans = 0

        def run(names: Sequence[str] | None) -> JoinStream:
            nonlocal scans
            scans += 1
            if self._repeats and again is not None:
                return again(names)
            if scans > 1:
                raise ProtocolError(
                    "this lazy frame reads inputs that come once, and was collected already; collect it once, and keep "
                    "the frame"
                )
            if self._reader is not reader or self._run.over is not None:
                raise ProtocolError("the output of this stream was passed to another reader, and can be read only once")
            if again is None:
                self._reader = None
                return self
            self._begun = True
            return again(names)

        return run

    def _claim(self, reader: object | None) -> None:
        """Assign the output to a reader. None represents the stream itself."""
        if self._run.over is not None:
            raise ProtocolError(self._run.over)
        if self._reader is not None and self._begun:
            raise ProtocolError(
                "another reader has begun to take the output of this stream, which can be "
                "read only once"
            )
        self._reader = reader

    def _next(self, reader: object | None, none_at_end: bool = False) -> Any:
        reading, self._reading = self._reading, True
        if reading:
            raise ProtocolError(_READ_ELSEWHERE)
        try:
            if self._reader is not reader:
                raise ProtocolError("the output of this stream was passed to another reader, and can be read only once")
            if self._run.broken:
                raise ProtocolError(self._run.over)
            self._begun = True
            self._again = None  # it refers to the inputs
            try:
                batch = next(self._batches, None)
            except BaseException as e:
                self._break(e)
                raise
        finally:
            self._reading = False
        if batch is None and not none_at_end:
            raise StopIteration
        return batch

    def _break(self, error: BaseException) -> None:
        """End the output after an error from the inputs or the join, or after an interrupt while a batch was returned.
        """
        if self._run.over is None:
            self._run.over, self._run.broken = stopped_by(error), True
            self._batches.close()
