"""A stream whose batches are computed from another stream's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin.errors import ProtocolError
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.explaining.picture import Explanation
from ivjoin.stream.join_stream import JoinStream
from ivjoin.stream.running import Run

if TYPE_CHECKING:
    from ivjoin.expr.literals import Value

__all__ = ["WrappedStream"]

Change = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class _Changed(Run):
    def __init__(self, inner: JoinStream, change: Change) -> None:
        self._inner, self._change = inner, change

    def output(self) -> Iterator[pa.RecordBatch]:
        return self._change(iter(self._inner))

    def release(self) -> None:
        self._inner.close()


class WrappedStream(JoinStream):
    """The output of a join after a change; see :class:`JoinStream`. ``metrics`` counts the join.

    ``change`` takes the batches of ``inner`` and yields batches of ``schema``.
    """

    def __init__(self, inner: JoinStream, schema: pa.Schema, change: Change) -> None:
        self._inner, self._schema = inner, schema
        self._read_from = inner._read_from
        self._open(_Changed(inner, change))

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def _operator(self) -> Any:
        return self._inner._operator

    @property
    def metrics(self) -> JoinMetrics:
        return self._inner.metrics

    @property
    def sorting(self) -> str:
        return self._inner.sorting

    @property
    def row_groups_skipped(self) -> tuple[int, int] | None:
        return self._inner.row_groups_skipped

    def explain(self) -> Explanation:
        """As :meth:`JoinStream.explain`, of the join whose output this stream changes."""
        return self._inner.explain()

    def _question(self) -> str:
        return self._inner._question()

    def output_bounds(self) -> dict[str, tuple[Value | None, Value | None]]:
        """Return the bounds of the columns that the join itself emits.

        ProtocolError if the output is computed from joined rows, as by ``ivjoin.sql`` or ``maintain_order=``.
        """
        raise ProtocolError(
            "output_bounds() is not known for ivjoin.sql(), maintain_order=, indicator= and validate=; call band_join "
            "without these"
        )
