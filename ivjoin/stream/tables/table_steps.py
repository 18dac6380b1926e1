"""Join many tables or small Parquet files step by step. Each step joins two tables on all threads.

The result of a step is stored as a table until the next step has joined it. Estimates select the steps, so results are
usually small. If they have many more rows than the inputs, the rows are pushed instead, and only a window of them is
stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from ivjoin.errors import IvjoinError, ProtocolError
from ivjoin.metrics import JoinMetrics, MultiJoinMetrics
from ivjoin.multi.inputs import Input
from ivjoin.multi.question import MultiSpec
from ivjoin.multi.shape.steps import Shape, Step, laid_out
from ivjoin.multi.wording import by_their_names, in_own_names, own_names
from ivjoin.plan.cache import plan_of
from ivjoin.shj.arrow import byte_width
from ivjoin.stream.pull import stream_of
from ivjoin.stream.sources.inputs import Source, open_inputs

if TYPE_CHECKING:
    from ivjoin.expr.literals import Value
    from ivjoin.stream.join_stream import JoinStream

__all__ = ["BY_TABLES", "TableSteps", "table_steps"]

BY_TABLES = "  tables: each step joins two of them on all threads; its result is stored until the next step"

_LEAST_ROWS = 1 << 16  # rows of all inputs; pushing fewer costs less than a stream for each step
_MOST_READ, _TEXT = 64 << 20, 32  # bytes of files that are read into tables; estimated bytes of a text
_MOST_TIMES = 2  # the results of steps may have _MOST_TIMES the rows of all inputs


class TableSteps:
    """The join of many tables.

    Parameters
    ----------
    spec : MultiSpec
        With the orders and bounds that were declared.
    steps : list of Step
        Of a tree.
    sources : mapping of alias to Source
        Files are read when the join begins.
    threads : int or "auto"
    """

    def __init__(
        self, spec: MultiSpec, steps: list[Step], sources: Mapping[str, Source], threads: int | Literal["auto"]
    ) -> None:
        self._spec, self._steps, self._threads = spec, steps, threads
        self._sources, self._rows = dict(sources), {a: s.rows or 0 for a, s in sources.items()}
        self._ready: dict[tuple[str, ...], pa.Table] = {}  # inputs and results that no step has joined yet
        self._read: dict[tuple[str, ...], int] = {}  # bytes of the inputs that were read from files
        self._names = own_names(spec.schemas)
        self._at = self._joined = 0  # the running step, and the bytes of its inputs from files
        self._stream: JoinStream | None = None  # the stream of the running step
        self._views: dict[tuple[str, ...], pa.Table] = {}  # stored results
        self._peak = 0, 0  # rows and bytes before this step
        self._said: list[str] = []

    def prepare(self) -> bool:
        """Join all steps except the last one.

        Return False if the rows must be pushed, because one breaks a promise or the results have many rows.
        """
        for alias, source in self._sources.items():
            table = source.table()
            if _breaks_a_promise(self._spec, alias, table):
                return False
            self._ready[alias,] = table.rename_columns(self._spec.wide(alias).names)
            self._read[alias,] = 0 if source.in_memory else table.nbytes
        most = _MOST_TIMES * sum(self._rows.values())
        for step in self._steps[:-1]:
            stream, batches, rows = self._join(step, None), [], 0
            with by_their_names(self._names):
                for batch in stream:
                    batches.append(batch)
                    rows += batch.num_rows
                    if rows + sum(t.num_rows for t in self._views.values()) > most:
                        stream.close()
                        return False
            self._end_step(step)
            self._stream = None
            name = step.sides[0].aliases + step.sides[1].aliases
            self._ready[name] = self._views[name] = pa.Table.from_batches(batches, stream.schema)
        return True

    def output(self) -> Iterator[pa.RecordBatch]:
        """Yield the output of the last step."""
        schema = self._spec.schema
        stream = self._join(self._steps[-1], schema.names)
        with by_their_names(self._names):
            for batch in stream:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        self._end_step(self._steps[-1])

    def _join(self, step: Step, columns: list[str] | None) -> JoinStream:
        left, right = (self._ready.pop(side.aliases) for side in step.sides)
        self._joined = sum(self._read.pop(side.aliases, 0) for side in step.sides)  # freed after the step
        with by_their_names(self._names):
            self._stream = stream_of(open_inputs(left, right), plan_of(step.spec), self._threads, "auto", columns)
        return self._stream

    def _end_step(self, step: Step) -> None:
        m, stream = self.metrics, self._stream
        assert stream is not None
        self._peak = m.peak_state_rows, m.peak_state_bytes
        if stream.sorting:
            self._said.append(in_own_names(stream.sorting, self._names))
        for side in step.sides:
            self._views.pop(side.aliases, None)
        self._at, self._joined = self._at + 1, 0

    @property
    def sorting(self) -> str:
        """Description of how inputs without an order were sorted, by step."""
        return "; ".join(dict.fromkeys(self._said))

    @property
    def metrics(self) -> MultiJoinMetrics:
        """Counts so far. The state consists of the rows of the running step and the stored results."""
        m = JoinMetrics() if self._stream is None else self._stream.metrics
        came, gone = dict.fromkeys(self._rows, 0), dict.fromkeys(self._rows, 0)
        for i, step in enumerate(self._steps[: self._at + 1]):
            counts = (m.left_rows_in, m.left_rows_retired), (m.right_rows_in, m.right_rows_retired)
            for side, (now, retired) in zip(step.sides, counts, strict=True):
                if not side.is_joined:
                    alias, done = side.aliases[0], i < self._at
                    came[alias] = self._rows[alias] if done else now
                    gone[alias] = self._rows[alias] if done else retired
        views = {", ".join(s.aliases): 0 for step in self._steps for s in step.sides if s.is_view}
        views |= {", ".join(name): t.num_rows for name, t in self._views.items()}
        rows = m.state_rows + sum(views.values())
        size = m.state_bytes + sum(t.nbytes for t in self._views.values()) + sum(self._read.values()) + self._joined
        return MultiJoinMetrics(
            rows_in=came, rows_retired=gone, late=dict.fromkeys(came, 0), lateness=dict.fromkeys(came),
            stored={a: came[a] - gone[a] for a in came}, views=views,
            rows_out=m.rows_out if self._at >= len(self._steps) - 1 else 0, state_rows=rows, state_bytes=size,
            peak_state_rows=max(self._peak[0], rows, m.peak_state_rows),
            peak_state_bytes=max(self._peak[1], size, m.peak_state_bytes),
        )

    def output_bounds(self) -> dict[str, tuple[Value | None, Value | None]] | None:
        """Return the bounds of the columns of later output, or None before the last step."""
        if self._stream is None or self._at < len(self._steps) - 1:
            return None
        return self._stream.output_bounds()

    def close(self) -> None:
        """Release the tables."""
        self._sources.clear()
        self._ready.clear()
        self._views.clear()
        if self._stream is not None:
            with suppress(ProtocolError):
                self._stream.close()


def table_steps(
    spec: MultiSpec, shape: Shape, sources: Mapping[str, Source], threads: int | Literal["auto"]
) -> TableSteps | None:
    """Return the join of tables in steps, or None if rows are pushed: for streams, large files, cascades or few rows.
    """
    if isinstance(shape, (dict, str)) or not all(s.in_memory or s.ranges is not None for s in sources.values()):
        return None
    if sum(s.rows or 0 for s in sources.values()) < _LEAST_ROWS:
        return None
    if sum(_bytes(s) for s in sources.values() if not s.in_memory) > _MOST_READ:
        return None
    return TableSteps(spec, laid_out(spec, shape).steps, sources, threads)


def _bytes(source: Source) -> int:
    """Return the estimated bytes of an input."""
    return (source.rows or 0) * sum(byte_width(t) or _TEXT for t in source.schema.types)


def _breaks_a_promise(spec: MultiSpec, alias: str, table: pa.Table) -> bool:
    """Return whether a row is late, or its order cannot be evaluated. A push then raises an error or drops the row."""
    own = spec.inputs[alias]
    if not own.orders[0] and not own.bounds[0]:
        return False
    found = Input(alias, spec.schemas[alias], own, certain=spec.certain)
    try:
        for batch in table.to_batches():
            found.screen(found.wide(batch))
    except IvjoinError:
        return True
    return bool(found.late)
