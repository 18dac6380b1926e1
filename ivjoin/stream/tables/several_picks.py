"""Pick several rows of one table for each row of another. Both sides are evaluated and sorted once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import pyarrow as pa

from ivjoin.errors import ProtocolError
from ivjoin.operator.match.output import in_parts
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.stream.sources.inputs import Source
from ivjoin.stream.tables.table_lookup import MatchedTables, TableLookup, parts_of
from ivjoin.stream.tables.table_pick import TablePick, table_pick
from ivjoin.stream.tables.table_sides import OUT_ROWS

__all__ = ["several_picks"]


class _SeveralPicks(TableLookup):
    """The picks of several joins of two tables, side by side. ``places`` are the output columns of each pick."""

    def __init__(self, picks: Sequence[MatchedTables], places: list[list[int]], raw: pa.Schema, threads: int) -> None:
        first = picks[0]
        super().__init__(first.plan, first._left, first._right, threads)
        self._picks, self._places, self._raw = picks, places, raw

    @property
    def schema(self) -> pa.Schema:
        return self._raw

    def close(self) -> None:
        super().close()
        for pick in self._picks:
            pick.close()

    def output_bounds(self) -> NoReturn:
        raise ProtocolError("output_bounds() is not known for offsets= and interpolate=; call asof_join without these")

    def _tasks(self) -> tuple[Sequence[slice], Callable[[slice], Iterator[pa.RecordBatch]]]:
        found = [pick._found() for pick in self._picks]
        self._metrics.state_bytes = self._metrics.peak_state_bytes = sum(f.nbytes for f in found)

        def built(part: slice) -> pa.RecordBatch:
            arrays = []
            for pick, rows, places in zip(self._picks, found, self._places, strict=True):
                batch = pick._batch(part.start, part.stop, rows[part])
                assert batch is not None  # these are left joins
                arrays += [batch.column(i) for i in places]
            return pa.RecordBatch.from_arrays(arrays, schema=self._raw)

        return parts_of(self._left.rows, OUT_ROWS), lambda part: in_parts(built, part.start, part.stop)


def several_picks(
    steps: list[tuple[JoinPlan, list[str]]], sources: tuple[Source, Source], threads: int, raw: pa.Schema
) -> TableLookup | None:
    """Return the picks of each plan, with the given columns of its output, or None if rows must be pushed."""
    picks: list[MatchedTables] = []
    for plan, _ in steps:
        pick = table_pick(plan, sources, threads, next((p for p in picks if isinstance(p, TablePick)), None))
        if pick is None:
            return None
        picks.append(pick)
    places = [[plan.schema.get_field_index(n) for n in names] for plan, names in steps]
    return _SeveralPicks(picks, places, raw, threads)
