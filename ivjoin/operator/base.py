"""Drive an engine: the steps of each call, and the methods that only streams and workers call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import pyarrow as pa

from ivjoin.errors import MemoryLimitError, ProtocolError, came
from ivjoin.expr.nodes import Node
from ivjoin.frontier.late import Report
from ivjoin.frontier.tracking import Frontier
from ivjoin.operator import snapshot
from ivjoin.operator.engine import Engine
from ivjoin.operator.engines import engine_of
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.protocol import BUSY, NOTHING, OneCall, Output, of_one_process
from ivjoin.plan.derived.implied import with_edges
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.shj.store.account import Account

__all__ = ["Operator"]


class Operator(OneCall):
    """An engine, its memory limit, and the steps of each call."""

    _takes = True  # whether a new operator may reuse the memory of an earlier operator of the same plan
    _engine: Engine

    @classmethod
    def from_plan(
        cls, plan: JoinPlan, *, late_within: bool = True, errors_first: bool = False,
        keeps: tuple[bool, bool] = (True, True), budget: Budget | None = None,
    ) -> Self:
        """Return an operator for a plan.

        - ``late_within=False``: a row is late only if it breaks an order against earlier batches.
        - ``errors_first=True`` promises that rows for which an ordered expression has an error come before the others.
        - ``keeps``: for each side, whether its rows are stored, or only probe the other side (inner joins only).
        """
        self = cls.__new__(cls)
        self._begin()
        self._engine = engine_of(plan, late_within, keeps, cls._takes and budget is None)
        self._engine.intake.errors_first = errors_first
        self._limit(budget)
        return self

    def _limit(self, budget: Budget | None) -> None:
        if budget is None:
            return
        budget.check(self._engine.plan)
        if budget.when_full == "spill":
            of_one_process(self)
        self._engine.limit(budget)

    @classmethod
    def _restored(cls, blob: bytes, budget: Budget | None) -> Self:
        self = cls.__new__(cls)
        self._begin()

        def limit(engine: Engine) -> None:
            self._engine = engine
            self._limit(budget)

        self._engine = snapshot.read(blob, limit)
        return self

    @property
    def account(self) -> Account:
        return self._engine.account

    def rows_at_once(self, side: str, batch: pa.RecordBatch) -> int:
        """Return how many rows of a batch one step takes."""
        return self._engine.rows_at_once(self._side(side), batch)

    def _spares(self, error: BaseException) -> bool:
        return isinstance(error, MemoryLimitError) and self._engine.is_refused(error)

    @property
    def frontiers(self) -> tuple[Frontier, Frontier]:
        return self._engine.frontiers

    def report_late(self, report: Report | None) -> None:
        """Set a function that is called with the side and each batch of late rows."""
        self._engine.intake.report = report

    def _push(self, p: int, batch: pa.RecordBatch) -> Output:
        engine = self._engine
        engine.account.refused = False
        if engine.layouts[p].schema is not None:
            batch = engine.layouts[p].plain(batch)
        out = engine.push(p, batch)
        if out is None:
            return NOTHING
        if isinstance(out, pa.RecordBatch):
            return self._output("push", out)
        return self._start("push", out)

    def _promised(self, p: int, promises: list[tuple[Node, int, bool]]) -> Iterator[pa.RecordBatch]:
        known = [self._engine.promise(p, *promise) for promise in promises]
        if not all(known):
            self._engine.learn()
        yield from self._engine.frontier_moved(p)

    def _reached(self, p: int, edges: Sequence[int | None]) -> Iterator[pa.RecordBatch]:
        orders = [o for _, _, o in self._engine.plan.sides[p].orders]
        for t, edge in zip(self._engine.frontiers[p].trackers, with_edges(orders, edges), strict=True):
            if edge is not None:
                t.reach(edge)
        yield from self._engine.frontier_moved(p)

    def _finished(self, sides: Sequence[int]) -> Iterator[pa.RecordBatch]:
        self._engine.look()
        fresh = [p for p in sides if not self._engine.ended[p]]
        for p in fresh:
            self._engine.ended[p] = True
            self._engine.frontiers[p].ended = True
        yield from self._engine.end(fresh)

    def lagging(self, rows_left: int, rows_right: int) -> int:
        """Return the side to read next (0 left, 1 right), given the number of rows read from each side."""
        busy, self._busy = self._busy, True
        if busy:
            raise ProtocolError(BUSY)
        try:
            self._engine.frontiers[0].refresh()
            self._engine.frontiers[1].refresh()
            return self._engine.bounder.lagging(rows_left, rows_right)
        finally:
            self._busy = False

    def _stepped(self, ended: bool) -> None:
        self._engine.stepped()

    def _gave(self, batch: pa.RecordBatch) -> None:
        self._engine.metrics.rows_out += batch.num_rows
        if self._engine.account.files is not None:
            self._engine.metrics.reads += batch.num_rows

    def _let_go(self) -> None:
        self._engine.let_go()

    @staticmethod
    def _side(side: str) -> int:
        if isinstance(side, str) and side in SIDES:
            return SIDES.index(side)
        raise ProtocolError(f"side is {came(side)}; expected 'left' or 'right'")
