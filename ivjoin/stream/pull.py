"""The pull API: two Arrow streams in, one out, always reading from the side that holds the other back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from ivjoin.errors import IvjoinError, ProtocolError, SchemaError, came
from ivjoin.expr.arguments import MOST_ROWS, known_options, whole_number
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.cache import planned
from ivjoin.plan.cutting import cut_of
from ivjoin.stream.slices import SlicedJoin

if TYPE_CHECKING:
    from ivjoin.expr.written import Expression, Value
    from ivjoin.plan.question import DeclaredBounds, Keys, Orders

__all__ = ["ArrowStream", "JoinStream", "SupportsArrowStream", "band_join"]

# Rows pushed at once, whatever the size of the batches that come in: the state holds a pushed batch whole, so this
# is what keeps it near the window when the input is one large batch.
_PUSH_ROWS = 2048
# With threads, a piece has to be worth dealing out.
_PARALLEL_ROWS = 65536
_MOST_THREADS = 1024
_CLOSED = "this stream was closed and gives nothing more"

_READ_ELSEWHERE = (
    "this stream is read by another thread at this moment, or by a call further up in this one; wait until that call "
    "has returned"
)


class SupportsArrowStream(Protocol):
    """What gives record batches by the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


ArrowStream: TypeAlias = SupportsArrowStream | Iterable[pa.RecordBatch]


class _Input:
    """One side's batches, read one ahead at most."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], coalesce: int) -> None:
        self.schema = schema
        self._batches = batches
        self._coalesce = coalesce
        self.most = max(_PUSH_ROWS, coalesce)
        self._held: pa.RecordBatch | None = None
        self._at = 0
        self.rows = 0

    def next(self) -> pa.RecordBatch | None:
        """The next piece, None at the end."""
        while self._held is None or self._at >= self._held.num_rows:
            self._held, self._at = self._read(), 0
            if self._held is None:
                return None
        piece = self._held.slice(self._at, self.most) if self._held.num_rows > self.most else self._held
        self._at += piece.num_rows
        self.rows += piece.num_rows
        return piece

    def _read(self) -> pa.RecordBatch | None:
        batch = next(self._batches, None)
        if batch is None or batch.num_rows >= self._coalesce:
            return batch
        parts, rows = [batch], batch.num_rows
        while rows < self._coalesce:
            more = next(self._batches, None)
            if more is None:
                break
            parts.append(more)
            rows += more.num_rows
        if len(parts) == 1:
            return batch
        whole = pa.Table.from_batches(parts).combine_chunks().to_batches()
        return whole[0] if whole else batch


def _opened(left: Any, right: Any, coalesce: int) -> tuple[_Input, _Input]:
    if left is right and (isinstance(left, Iterator) or hasattr(left, "read_next_batch")):
        raise ProtocolError(
            f"left and right are the same {type(left).__name__}, which gives each batch once; pass a table, or one "
            "stream for each side"
        )
    if _is_duckdb(left) and _is_duckdb(right):
        # A connection has one open result, and two relations may be of one connection.
        right = _guarded(right, "right", _duckdb_table)
    return _open(left, "left", coalesce), _open(right, "right", coalesce)


def _is_duckdb(source: Any) -> bool:
    return type(source).__name__ == "DuckDBPyRelation"


def _duckdb_table(relation: Any) -> Any:
    if hasattr(relation, "to_arrow_table"):
        return relation.to_arrow_table()
    return relation.fetch_arrow_table()


def _guarded(source: Any, side: str, take: Callable[[Any], Any]) -> Any:
    """What ``take`` makes of a source; its complaint that it is none, or is in use, as an error of ours."""
    try:
        return take(source)
    except IvjoinError:
        raise
    except (TypeError, ValueError, NotImplementedError) as e:
        raise SchemaError(
            f"the {side} input, a {type(source).__name__}, cannot be read as record batches ({_first_line(e)}); "
            "expected an Arrow stream of columns (pyarrow, polars, duckdb, ...) or an iterable of RecordBatches"
        ) from e
    except Exception as e:
        if not _is_duckdb(source) or "open result" not in str(e):
            raise
        raise ProtocolError(
            f"the {side} input is a DuckDB relation of a connection that is being read already; pass "
            "relation.to_arrow_table(), or give each relation a connection of its own: connection.cursor()"
        ) from e


def _first_line(e: BaseException) -> str:
    return (str(e).strip().splitlines() or [type(e).__name__])[0]


def _open(source: Any, side: str, coalesce: int) -> _Input:
    """Anything that holds Arrow batches as an input."""
    if isinstance(source, pa.RecordBatch):
        return _Input(source.schema, iter([source]), coalesce)
    if isinstance(source, pa.RecordBatchReader):
        # As it is: through the C stream its own errors would come out as Arrow's.
        return _Input(source.schema, iter(source), coalesce)
    if isinstance(source, pa.Table):
        return _Input(source.schema, iter(source.to_batches()), coalesce)
    if isinstance(source, type):
        raise SchemaError(f"the {side} input is the class {source.__name__}; expected an object of it")
    if hasattr(source, "__arrow_c_stream__"):
        reader = _guarded(source, side, pa.RecordBatchReader.from_stream)
        return _Input(reader.schema, iter(reader), coalesce)
    if hasattr(source, "__arrow_c_array__"):
        batch = _guarded(source, side, pa.record_batch)
        return _Input(batch.schema, iter([batch]), coalesce)
    if isinstance(source, Iterable) and not isinstance(source, (str, bytes, dict)):
        batches = _guarded(source, side, iter)
        first = next(batches, None)
        if first is None:
            raise SchemaError(
                f"the {side} input is an iterable without a batch, so its schema is unknown; "
                "pass a pyarrow.RecordBatchReader or a Table instead"
            )
        return _Input(_checked(first, side).schema, _chain(first, batches, side), coalesce)
    raise SchemaError(
        f"the {side} input is {came(source)}, a {type(source).__name__}; expected an Arrow stream (pyarrow, polars, "
        "duckdb, ...) or an iterable of RecordBatches"
    )


def _checked(batch: Any, side: str) -> pa.RecordBatch:
    if isinstance(batch, pa.RecordBatch):
        return batch
    if hasattr(batch, "__arrow_c_array__"):
        return _guarded(batch, side, pa.record_batch)
    raise SchemaError(f"the {side} input yields a {type(batch).__name__}; expected pyarrow.RecordBatch")


def _chain(first: Any, rest: Iterator[Any], side: str) -> Iterator[pa.RecordBatch]:
    yield _checked(first, side)
    for batch in rest:
        yield _checked(batch, side)


class JoinStream:
    """The output of a join: an iterator of RecordBatches that reads its inputs as it is read.

    The output comes once. A loop that was left goes on where it stopped, and :meth:`read_all` gives what is left;
    asking again for output that was read to its end, that another reader has begun to take, or that ended with an
    error, raises :class:`ProtocolError` rather than give nothing.

    Also an Arrow stream (``__arrow_c_stream__``), so that polars, duckdb and others take it directly, as a whole: it
    cannot be handed over once a batch was taken. Whoever asks last has the output; a reader handed out before, and not
    begun, raises when it is read. One thread at a time may read.
    ``metrics`` and ``schema`` may be read at any time.
    """

    def __init__(self, operator: SymmetricHashJoin | SlicedJoin, left: _Input, right: _Input) -> None:
        self._operator = operator
        self._inputs = (left, right)
        self._batches = self._run()
        self._reading = Lock()
        self._begun = False
        self._over: str | None = None  # why nothing more can come
        self._broken = False  # by an error, which is not to be taken for an end
        self._reader: object | None = None  # the one that was handed out last, where the output is not taken here

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._operator.schema

    @property
    def metrics(self) -> JoinMetrics:
        """Counts so far."""
        return self._operator.metrics

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._claim(None)
        return self

    def __next__(self) -> pa.RecordBatch:
        return self._next(None)

    def output_bounds(self) -> dict[str, tuple[Value | None, Value | None]]:
        """What later output batches can still hold, as :meth:`SymmetricHashJoin.output_bounds` says.

        Raises
        ------
        ProtocolError
            After an error, or with threads.
        """
        if not isinstance(self._operator, SymmetricHashJoin):
            raise ProtocolError("output_bounds() is of one operator; this stream has several (threads > 1)")
        return self._operator.output_bounds()

    def close(self) -> None:
        """Read no more of the inputs, and give up the rest of the output."""
        if not self._reading.acquire(blocking=False):
            raise ProtocolError(_READ_ELSEWHERE)
        try:
            self._batches.close()
            self._over = self._over or _CLOSED
        finally:
            self._reading.release()

    def read_all(self) -> pa.Table:
        """The rest of the output as a table.

        Raises
        ------
        ProtocolError
            If there is no rest: it was read to its end, or handed to another reader.
        """
        return pa.Table.from_batches(list(self), schema=self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rest of the output as a RecordBatchReader.

        Raises
        ------
        ProtocolError
            As :meth:`read_all`.
        """
        reader = object()
        self._claim(reader)
        return pa.RecordBatchReader.from_batches(self.schema, iter(partial(self._next, reader, True), None))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        if self._begun and self._over is None:
            raise ProtocolError(
                "batches of this stream were taken already, and an Arrow stream is the whole output; "
                "pass read_all() or to_reader(), which are the rest"
            )
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _claim(self, reader: object | None) -> None:
        """Make the output that of a reader, None for the stream itself."""
        if self._over is not None:
            raise ProtocolError(self._over)
        if self._reader is not None and self._begun:
            raise ProtocolError("another reader has begun to take the output of this stream, which comes once")
        self._reader = reader

    def _next(self, reader: object | None, none_at_end: bool = False) -> Any:
        if not self._reading.acquire(blocking=False):
            raise ProtocolError(_READ_ELSEWHERE)
        try:
            if self._reader is not reader:
                raise ProtocolError("the output of this stream was handed to another reader, and comes once")
            if self._broken:
                raise ProtocolError(self._over)
            self._begun = True
            return next(self._batches, None) if none_at_end else next(self._batches)
        finally:
            self._reading.release()

    def _run(self) -> Generator[pa.RecordBatch, None, None]:
        try:
            yield from self._joined()
            self._over = "the output was read to its end, and comes once: keep what was read, or call band_join() again"
        except GeneratorExit:
            self._over = _CLOSED
            raise
        except BaseException as e:
            self._over = f"this stream stopped with an error and gives nothing more: {_first_line(e)}"
            self._broken = True
            raise
        finally:
            if isinstance(self._operator, SlicedJoin):
                self._operator.close()

    def _joined(self) -> Iterator[pa.RecordBatch]:
        op, names = self._operator, ("left", "right")
        open_ = [True, True]
        while open_[0] or open_[1]:
            p = 0 if not open_[1] else 1 if not open_[0] else op.lagging(self._inputs[0].rows, self._inputs[1].rows)
            batch = self._inputs[p].next()
            if batch is None:
                open_[p] = False
                yield from op.finish(names[p])
            else:
                yield from op.push(names[p], batch)


@known_options("band_join")
def band_join(
    left: ArrowStream, right: ArrowStream, on: Keys | None = None, condition: Expression | None = None,
    how: str = "inner", left_order: Orders | None = None, right_order: Orders | None = None,
    left_bounds: DeclaredBounds | None = None, right_bounds: DeclaredBounds | None = None, suffix: str = "_right",
    batch_size: int = 65536, on_late: str = "raise", timezone: str = "UTC", coalesce_rows: int = 0,
    threads: int = 1,
) -> JoinStream:
    """Join two Arrow streams on keys and a band condition, holding only the rows that can still match.

    Parameters
    ----------
    left, right : Arrow stream
        Anything with ``__arrow_c_stream__`` (pyarrow, polars, duckdb, pandas, ...) or an iterable of RecordBatches.
    on : str, list of str, or list of (str, str), optional
        Key columns.
    condition : str, SymPy relation or ivjoin expression, optional
        SQL text (Spark's dialect) such as ``"l.ts >= r.ts - INTERVAL 10 SECONDS AND l.ts <= r.ts"``.
    how : str, default "inner"
        inner, left, right, full, left_semi, left_anti, right_semi, right_anti, or Spark's aliases.
    left_order, right_order : str, expression, Order, or a list of these, optional
        Promises about the order of arrival; without one, nothing of the other side can be dropped before the end.
    left_bounds, right_bounds : mapping of column to (least, greatest), optional
        Closed bounds that every row keeps.
    suffix : str, default "_right"
        For right columns whose name collides.
    batch_size : int, default 65536
        Greatest number of rows of an output batch.
    on_late : {"raise", "drop", "join"}
        What to do with a row that breaks its side's order.
    timezone : str, default "UTC"
        Zone of calendar arithmetic.
    coalesce_rows : int, default 0
        Gather small input batches until they have this many rows; 0 never waits.
    threads : int, default 1
        Join slices of an ordered axis at the same time, each on the next free thread: whatever the keys, where a side
        whose rows may be spread has a declared order and the condition a band on it with both ends. The order of the
        output rows is then another one, and for each thread a slice of some 65,536 rows and eight bands is held
        beyond the window. A join that cannot be cut so runs on one thread; :func:`ivjoin.explain` says why.

    Returns
    -------
    JoinStream
        An iterable of RecordBatches with ``schema``, ``read_all()``, ``metrics`` and ``__arrow_c_stream__``.

    Raises
    ------
    IvjoinError
        A subclass that says what came, what was expected, and the nearest fix.

    Examples
    --------
    >>> import pyarrow as pa
    >>> a = pa.table({"k": [1, 1, 2], "x": [1, 5, 9]})
    >>> b = pa.table({"k": [1, 2, 2], "x": [2, 9, 30]})
    >>> s = band_join(a, b, on="k", condition="abs(l.x - r.x) <= 1", left_order="x", right_order="x")
    >>> s.read_all().to_pylist()
    [{'k': 1, 'x': 1, 'x_right': 2}, {'k': 2, 'x': 9, 'x_right': 9}]
    """
    coalesce_rows = whole_number("coalesce_rows", coalesce_rows, 0, MOST_ROWS, "a whole number of rows")
    threads = whole_number("threads", threads, 1, _MOST_THREADS)
    a, b = _opened(left, right, coalesce_rows)
    plan = planned(
        a.schema, b.schema, on=on, condition=condition, how=how, left_order=left_order, right_order=right_order,
        left_bounds=left_bounds, right_bounds=right_bounds, suffix=suffix, batch_size=batch_size, on_late=on_late,
        timezone=timezone,
    )
    cut = cut_of(plan) if threads > 1 else ""
    if isinstance(cut, str):  # one thread is asked for, or is all that can be used
        return JoinStream(SymmetricHashJoin.from_plan(plan), a, b)
    a.most = b.most = max(_PARALLEL_ROWS, coalesce_rows)
    return JoinStream(SlicedJoin(plan, cut, threads), a, b)
