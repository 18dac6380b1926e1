"""The pull API: two Arrow streams in, one out, always reading from the side that holds the other back."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from ivjoin.errors import ProtocolError, UnsupportedError
from ivjoin.expr.arguments import MOST_ROWS, known_options, one_of, whole_number
from ivjoin.expr.nodes import columns_of
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.budget import Budget, budget_of
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.cache import planned
from ivjoin.plan.certain import passes_nulls
from ivjoin.plan.cutting import cut_of
from ivjoin.plan.planner import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.shj.plain import in_few_batches
from ivjoin.stream.columns import Chosen, chosen
from ivjoin.stream.inputs import ArrowStream, Source, SupportsArrowStream, first_line, open_inputs
from ivjoin.stream.memory import threads_within, to_the_end
from ivjoin.stream.outputs import Outputs
from ivjoin.stream.picked import arrange_picked
from ivjoin.stream.slices import SlicedJoin, slice_rows
from ivjoin.stream.sorting import Arranged, arrange, as_they_are

if TYPE_CHECKING:
    from ivjoin.expr.written import Expression, Value
    from ivjoin.plan.pick import PickBy
    from ivjoin.plan.question import Aggregates, DeclaredBounds, Keys, Orders

__all__ = ["ArrowStream", "JoinStream", "Pieces", "SupportsArrowStream", "band_join", "stream_of"]

# Rows pushed at once, whatever the size of the batches that come in: the state holds a pushed batch whole, so this
# is what keeps it near the window when the input is one large batch.
_PUSH_ROWS = 2048
# Sides that are all there are in memory anyway, and a piece of the one costs but a search in the other.
_SWEEP_ROWS = 8192
# The same where a row looks at all that are held: no key divides them, and nothing has a band of two ends to
# search between.
_WALKED_ROWS = 2048
# Smaller pieces of what is in memory as a whole are put together: waiting for more of them costs nothing, and a push of
# few rows as much as one of many.
_GATHERED_ROWS = 2048
# With threads, a piece is a good part of a slice, a quarter of one at most; of tables in memory, as much as one has.
_PARALLEL_ROWS = 65536
# Where each left row takes one partner of a side that was read before, a piece is sorted and compared as a whole.
_PICK_ROWS = 1 << 18
_LEAST_ROWS, _LIMIT_A_ROW = 1024, 4096  # the same within a limit: for each row so many bytes of it
_MOST_THREADS = 1024
_CLOSED = "this stream was closed and gives nothing more"

_READ_ELSEWHERE = (
    "this stream is read by another thread at this moment, or by a call further up in this one; wait until that call "
    "has returned"
)


class Pieces:
    """One input's batches, read one ahead at most; ``whole``: of an input that is in memory as a whole."""

    def __init__(self, batches: Iterator[pa.RecordBatch], coalesce: int, most: int, whole: bool = False) -> None:
        self._batches = batches
        self._coalesce = max(coalesce, _GATHERED_ROWS) if whole else coalesce
        self._most = most
        self._held: pa.RecordBatch | None = None
        self._gathered: list[pa.RecordBatch] = []  # the next ones, last first
        self._at = 0
        self.rows = 0

    def next(self) -> pa.RecordBatch | None:
        """The next piece, None at the end."""
        while self._held is None or self._at >= self._held.num_rows:
            self._held, self._at = self._read(), 0
            if self._held is None:
                return None
        piece = self._held.slice(self._at, self._most) if self._held.num_rows > self._most else self._held
        self._at += piece.num_rows
        self.rows += piece.num_rows
        return piece

    def _read(self) -> pa.RecordBatch | None:
        if self._gathered:
            return self._gathered.pop()
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
        self._gathered = in_few_batches(parts)[::-1]
        return self._gathered.pop() if self._gathered else batch


class _Join:
    """A join that is yet to begin: what it reads is looked at, and sorted, with the first row."""

    def __init__(
        self, found: Chosen, sources: tuple[Source, Source], sort: bool, coalesce: int, threads: int,
        budget: Budget | None = None,
    ) -> None:
        self.budget = budget
        self.plan = found.plan
        self.chosen = found
        self.skipped: tuple[int, int] | None = None
        self._sort, self._coalesce, self._threads = sort, coalesce, threads_within(budget, threads)
        self._sources: tuple[Source, Source] | None = sources  # until the end
        known = all(source.in_memory for source in sources)
        self._rows = sum(source.rows or 0 for source in sources) if known else 0
        small = threads == 1 and not found.plan.spec.aggregates
        piece = _PUSH_ROWS if small else max(_PARALLEL_ROWS, slice_rows(self._rows, threads, False) // 4)
        self.most = max(piece, coalesce)

    def operator(
        self, plan: JoinPlan, errors_first: bool = False, copies: bool = False
    ) -> SymmetricHashJoin | SlicedJoin:
        cut = cut_of(plan) if self._threads > 1 else ""
        if isinstance(cut, str):  # one thread is asked for, or is all that can be used
            return SymmetricHashJoin.from_plan(plan, errors_first=errors_first, budget=self.budget)
        views = bool(self._rows) and not copies
        return SlicedJoin(plan, cut, self._threads, errors_first, self._rows, views, self.budget)

    def end(self) -> None:
        """Let go of the inputs."""
        self._sources = None

    def open(self) -> None:
        """Leave out the row groups that cannot matter, and read what must not wait."""
        assert self._sources is not None
        left, right = self._sources
        if left.ranges is not None and right.ranges is not None:
            ranges = left.ranges, right.ranges.of_side("right")
            from ivjoin.files.join_row_groups import meeting_groups

            kept = meeting_groups(self.plan, ranges)
            self.skipped = ranges[0].row_groups - len(kept[0]), ranges[1].row_groups - len(kept[1])
            for source, groups in zip(self._sources, kept, strict=True):
                source.keep_groups(groups)
        for source in self._sources:
            source.ready()

    def begin(self) -> tuple[Arranged, tuple[Pieces, Pieces]]:
        assert self._sources is not None
        if self.plan.spec.pick is not None:
            arranged = arrange_picked(self.plan, self._sources, self._sort, self.budget)
            self.most = max(_SWEEP_ROWS if arranged.leads is None else _PICK_ROWS, self._coalesce)
        else:
            arrange_ = arrange if self._sort else as_they_are
            arranged = arrange_(self.plan, self._sources, self._threads, self.budget)
            if isinstance(cut_of(arranged.plan), str):
                if not self.plan.spec.aggregates:
                    self.most = max(_PUSH_ROWS, self._coalesce)
            elif self._threads > 1 and self._rows and not arranged.copies and self.budget is None:
                self.most = max(_PARALLEL_ROWS, slice_rows(self._rows, self._threads, True), self._coalesce)
        if self.budget is not None and (self.plan.spec.pick is not None or self.plan.spec.aggregates):
            # A push is refused as a whole, so one is to be a small part of what is allowed.
            self.most = min(self.most, max(_LEAST_ROWS, self.budget.limit // _LIMIT_A_ROW))
        most = [self.most, self.most]
        if self.plan.spec.pick is not None and arranged.leads == 1 and self.budget is None:
            most[1] = MOST_ROWS  # held as a whole, and gathered from again and again, which is slow of many pieces
        left, right = (
            Pieces(batches, self._coalesce, rows, source.in_memory)
            for batches, source, rows in zip(arranged.batches, self._sources, most, strict=True)
        )
        return arranged, (left, right)


class JoinStream(Outputs):
    """The output of a join: an iterator of RecordBatches that reads its inputs as it is read.

    The output comes once. A loop that was left goes on where it stopped, and :meth:`read_all` gives what is left;
    asking again for output that was read to its end, that another reader has begun to take, or that ended with an
    error, raises :class:`ProtocolError` rather than give nothing.

    It is a context manager, which closes it, and may be iterated over by ``async for``. ``to_arrow``, ``to_polars``,
    ``to_pandas``, ``to_duckdb``, ``write_parquet``, ``write_ipc`` and ``write_csv`` take all of it at once.

    Also an Arrow stream (``__arrow_c_stream__``), so that polars, duckdb and others take it directly, as a whole: it
    cannot be handed over once a batch was taken. Whoever asks last has the output; a reader handed out before, and not
    begun, raises when it is read. One thread at a time may read.
    ``metrics`` and ``schema`` may be read at any time.
    """

    def __init__(self, join: _Join) -> None:
        self._join = join
        self._operator = join.operator(join.plan)
        self._arranged: Arranged | None = None
        self._open()

    def _open(self) -> None:
        self._batches = self._run()
        self._reading = Lock()
        self._begun = False
        self._over: str | None = None  # why nothing more can come
        self._broken = False  # by an error, which is not to be taken for an end
        self._reader: object | None = None  # the one that was handed out last, where the output is not taken here

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self._join.chosen.schema

    @property
    def metrics(self) -> JoinMetrics:
        """Counts so far."""
        return self._operator.metrics

    @property
    def sorting(self) -> str:
        """What was done to inputs without an order, in a line; "" before the first row, and where nothing was."""
        return "" if self._arranged is None else self._arranged.said

    @property
    def row_groups_skipped(self) -> tuple[int, int] | None:
        """How many row groups of either side cannot matter and are not read; None unless both are Parquet files."""
        return self._join.skipped

    def __reduce__(self) -> NoReturn:
        raise TypeError("the output of a join comes once: it cannot be pickled or copied; read_all() gives a table")

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
            self._left()  # nothing was left by the generator of one that has not begun
        finally:
            self._reading.release()

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
            yield from self._output()
            self._over = "the output was read to its end, and comes once: keep what was read, or join again"
        except GeneratorExit:
            self._over = _CLOSED
            raise
        except BaseException as e:
            self._over = f"this stream stopped with an error and gives nothing more: {first_line(e)}"
            self._broken = True
            raise
        finally:
            self._left()

    def _left(self) -> None:
        """Nothing more is read: let go of the inputs, as far as whoever holds the stream does not hold them, too."""
        if isinstance(self._operator, SlicedJoin):
            self._operator.close()
        self._join.end()
        if self._arranged is not None:
            self._arranged = replace(self._arranged, batches=(iter(()), iter(())), sweep=None)

    def _output(self) -> Iterator[pa.RecordBatch]:
        return map(self._join.chosen.pick, to_the_end(self._joined()))

    def _joined(self) -> Iterator[pa.RecordBatch]:
        self._arranged, inputs = self._join.begin()
        if self._arranged.plan is not self._join.plan:
            arranged = self._arranged
            self._operator = self._join.operator(arranged.plan, arranged.errors_first, arranged.copies)
        op, names, first = self._operator, ("left", "right"), self._arranged.first
        if self._arranged.sweep is not None:
            rows = min(_SWEEP_ROWS, _WALKED_ROWS) if _walks(self._arranged.plan) else _SWEEP_ROWS
            for p, piece in self._arranged.sweep.turns(max(rows, self._join.most)):
                yield from op.finish(names[p]) if piece is None else op.push(names[p], piece)
            return
        open_ = [True, True]
        while open_[0] or open_[1]:
            if first is not None and open_[first]:
                p = first
            else:
                p = 0 if not open_[1] else 1 if not open_[0] else op.lagging(inputs[0].rows, inputs[1].rows)
            batch = inputs[p].next()
            if batch is None:
                open_[p] = False
                yield from op.finish(names[p])
            else:
                yield from op.push(names[p], batch)


def _walks(plan: JoinPlan) -> bool:
    terms = plan.kernel_terms
    below = {n for t in terms if t.lo is not None for n in (t.left, t.right)}
    above = {n for t in terms if t.hi is not None for n in (t.left, t.right)}
    return not plan.sides[0].keys and not below & above


@known_options("band_join")
def band_join(
    left: ArrowStream, right: ArrowStream, on: Keys | None = None, condition: Expression | None = None,
    how: str = "inner", left_order: Orders | None = None, right_order: Orders | None = None,
    left_bounds: DeclaredBounds | None = None, right_bounds: DeclaredBounds | None = None, suffix: str = "_right",
    batch_size: int = 65536, on_late: str = "raise", timezone: str = "UTC", coalesce_rows: int = 0,
    threads: int = 1, sort: str = "auto", columns: Sequence[str] | None = None, aggregate: Aggregates | None = None,
    memory_limit: int | str | None = None, when_full: str = "raise", spill_dir: str | os.PathLike[str] | None = None,
    shed: str | None = None, shed_shared: bool = False, pick: str | None = None, pick_by: PickBy | None = None,
) -> JoinStream:
    """Join two tables or streams on keys and a band condition, holding only the rows that can still match.

    Parameters
    ----------
    left, right : table, frame, files or stream
        Anything with ``__arrow_c_stream__`` (pyarrow, polars, duckdb, pandas, ...), a polars LazyFrame, a path, several
        paths, a pattern, a folder or a URI of Parquet, CSV, JSON lines or Arrow files, what ``pyarrow.dataset`` makes
        of files, or an iterable of RecordBatches, tables or frames. A list has an end; an iterator, a generator and a
        RecordBatchReader are streams, which may have none.
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
        output rows is then another one, from one time to the next, and a slice of some 131,072 rows and eight bands is
        held for each thread beyond the window; of tables in memory, which are cut into as many slices as there are
        threads, as views. Once all input is read, who asks for the output may be one of them. Tables are sorted by as
        many threads. A join that cannot be cut runs on one thread; :func:`ivjoin.explain` says why.
    sort : {"auto", "never"}
        What to do with an input that has an end (a table, a frame, a list of batches) and no declared order: sort it
        along the band that lets the join hold the fewest rows, unless it is in order or small, or read it as it is.
    columns : list of str, optional
        The columns of the output, by their names and in their order; all by default. What neither they nor the
        question needs is not read.
    aggregate : mapping of str to (column, function), optional
        ``{"vwap": ("price", "mean"), "n": ("*", "count")}``: one row for each left row, its columns and then aggregates
        of the right rows that match it, found without making the pairs. A column is one of the right side or an
        expression over it; functions are count, sum, mean, min, max, first and last, which are as SQL's: null is
        passed over but by first and last, NaN is the greatest value, and a sum of whole numbers that is too great for
        int64 is an error. First and last are by the order of the right side that is declared first, else by the band.
        ``how`` is inner, which drops left rows that nothing matches, or left, which keeps them with count 0 and null.
    memory_limit : int or str, optional
        Bytes that the join may hold beside its inputs, or text such as "512MB"; see :class:`SymmetricHashJoin`. Threads
        share it, as far as each has 4 MB of it.
    when_full : {"raise", "spill", "shed"}
        What happens where the rows that can still match do not fit: MemoryLimitError; files (exact); or rows are
        dropped (a subset of the result, inner and semi joins alone, on one thread).
    spill_dir : path, optional
        Folder of the files, which have no names; the system's for temporary files by default.
    shed : {"prob", "life", "random"}, optional
        Which rows go first.
    shed_shared : bool
        Let both sides share the memory, and not half of it each.
    pick : {"last", "first", "nearest"}, optional
        Of the right rows that satisfy the whole condition each left row takes one; see :class:`SymmetricHashJoin`.
    pick_by : str, expression, or list of these
        Right columns by which rows are compared, text too; the later ones break ties.

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
    budget = budget_of(memory_limit, when_full, spill_dir, shed, shed_shared)
    sources = open_inputs(left, right)
    plan = planned(
        sources[0].schema, sources[1].schema, on=on, condition=condition, how=how, left_order=left_order,
        right_order=right_order, left_bounds=left_bounds, right_bounds=right_bounds, suffix=suffix,
        batch_size=batch_size, on_late=on_late, timezone=timezone, aggregate=aggregate, pick=pick, pick_by=pick_by,
    )
    return stream_of(sources, plan, coalesce_rows, threads, sort, columns, budget)


def _present(sources: tuple[Source, Source], plan: JoinPlan) -> tuple[frozenset[str], frozenset[str]]:
    """Columns of tables in memory that hold no null, where a null would be passed by."""
    if plan.condition is None or not passes_nulls([plan.condition]):
        return frozenset(), frozenset()
    asked = columns_of(plan.condition)
    left, right = (
        source.without_nulls(c.params[1] for c in asked if c.params[0] == side)
        for source, side in zip(sources, SIDES, strict=True)
    )
    return left, right


def stream_of(
    sources: tuple[Source, Source], plan: JoinPlan, coalesce_rows: int, threads: int, sort: str,
    columns: Sequence[str] | None, budget: Budget | None = None,
) -> JoinStream:
    """The join of two inputs that were opened; what the arguments mean is said of :func:`band_join`."""
    coalesce_rows = whole_number("coalesce_rows", coalesce_rows, 0, MOST_ROWS, "a whole number of rows")
    threads = whole_number("threads", threads, 1, _MOST_THREADS)
    one_of("sort", sort, ("auto", "never"))
    if budget is not None:
        budget.check(plan)
        if budget.when_full == "shed" and threads > 1:
            raise UnsupportedError(
                f"when_full='shed' with threads={threads}: which rows go is chosen among all that are held, by one "
                "operator; leave threads out, or use when_full='spill', which is exact"
            )
    found = chosen(plan, columns, (not sources[0].ends, not sources[1].ends), _present(sources, plan))
    for source, names in zip(sources, found.names, strict=True):
        source.keep(names)
    join = _Join(found, sources, sort == "auto", coalesce_rows, threads, budget)
    join.open()
    return JoinStream(join)
