"""Push rows of an input through the steps of a join: store them, and pass results from step to step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ivjoin.errors import MemoryLimitError
from ivjoin.multi.across import Across
from ivjoin.multi.shape.steps import Layout
from ivjoin.multi.spec import MultiSpec
from ivjoin.operator.match.step_join import StepJoin
from ivjoin.operator.protocol import Output
from ivjoin.plan.spec import SIDES

__all__ = ["Feeding"]


class Feeding:
    def __init__(self, spec: MultiSpec, layout: Layout, operators: Sequence[StepJoin], across: Across) -> None:
        self._layout, self._operators, self._across = layout, operators, across
        self._picks = {
            (i, alias): _order(layout.steps[i].aliases, _taker(spec, layout, i, alias), spec)
            for alias, route in layout.routes.items() for i, _ in route
        }
        self.begun = False  # whether a step has accepted rows of the current batch

    def push(self, alias: str, rows: pa.RecordBatch, reserve: bool) -> Iterator[pa.RecordBatch]:
        """Push rows to all of their steps. With ``reserve``, first request the memory to store them."""
        stores = self._layout.stores[alias]
        for i, p in stores if reserve else ():
            self._operators[i].reserve(SIDES[p], rows)
        for i, p in stores:
            if not self._across.closed[i][1 - p]:
                for _ in self._take(i, p, rows):
                    raise AssertionError("rows matched a side that stores no rows")
        yield from self._fed(alias, 0, rows)

    def _take(self, i: int, p: int, rows: pa.RecordBatch) -> Output:
        op = self._operators[i]
        try:
            out = op.push(SIDES[p], rows)
        except MemoryLimitError as e:
            self.begun = self.begun or bool(e.rows_taken) or not op.refused(e)
            raise
        self.begun = True
        return out

    def _fed(self, alias: str, at: int, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        route = self._layout.routes[alias]
        i, p = route[at]
        if self._across.closed[i][p]:  # they cannot be in a result
            return
        picks = self._picks[i, alias]
        for batch in self._take(i, p, rows):
            if picks is not None:
                order, schema = picks
                batch = pa.RecordBatch.from_arrays([batch.column(c) for c in order], schema=schema)
            if at + 1 < len(route):
                yield from self._fed(alias, at + 1, batch)
            else:
                yield batch


def _taker(spec: MultiSpec, layout: Layout, i: int, alias: str) -> tuple[str, ...]:
    """Return the inputs whose rows a step passes on, in their order; for results, all inputs."""
    route = layout.routes[alias]
    at = [step for step, _ in route].index(i) + 1
    if at == len(route):
        return tuple(spec.aliases)
    step, p = route[at]
    return layout.steps[step].sides[p].aliases


def _order(
    given: tuple[str, ...], wanted: tuple[str, ...], spec: MultiSpec
) -> tuple[list[int], pa.Schema] | None:
    """Return the positions of columns in another order of the inputs, and the schema; None if the order is the same."""
    if given == wanted:
        return None
    names = [n for a in given for n in spec.wide(a).names]
    schema = pa.schema([f for a in wanted for f in spec.wide(a)])
    return [names.index(n) for n in schema.names], schema
