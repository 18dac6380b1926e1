"""One input of a join of many: its declared orders, its frontier, and its late rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import pyarrow as pa

from ivjoin.errors import EvaluationError, IvjoinError, LateRowError, ProtocolError, SchemaError, came
from ivjoin.expr.nodes import Node
from ivjoin.frontier.late import Report
from ivjoin.frontier.order import physical_ordinal
from ivjoin.frontier.tracking import Frontier
from ivjoin.multi.spec import widened
from ivjoin.multi.wording import of_input
from ivjoin.operator.intake import Intake
from ivjoin.plan.cache import plan_of
from ivjoin.plan.question import side_expression
from ivjoin.plan.spec import JoinSpec

__all__ = ["Input"]


class Input:
    """An input's frontier, and the check of its batches.

    ``spec`` is the input alone, with its wide names. If ``late_within`` is False, only rows of earlier batches can make
    a row late. ``certain`` are columns that are not NULL, and floats that are not NaN, in any result.
    """

    def __init__(
        self, alias: str, schema: pa.Schema, spec: JoinSpec, late_within: bool = True,
        certain: tuple[Set[Node], Set[Node]] = (frozenset(), frozenset()),
    ) -> None:
        self.alias, self.schema, self.spec = alias, schema, spec
        plan = plan_of(spec)
        try:
            frontiers = plan.frontiers()
        except IvjoinError as e:
            raise e.saying(of_input(str(e), alias)) from e
        own = frontiers[0]
        self.frontier = Frontier(own.trackers, own.bounds, own.never_null | certain[0], certain[1])
        frontiers = self.frontier, frontiers[1]
        self._intake = Intake(plan, frontiers, late_within)
        self.rows_in = self.late = 0

    @property
    def lateness(self) -> object:
        """Return the greatest lateness of a row; None if no row was late by an order."""
        return self._intake.lateness[0]

    def report_late(self, report: Report | None) -> None:
        if report is not None:
            names = self.schema.names
            self._intake.report = lambda _, rows: report(self.alias, rows.rename_columns(names))

    @property
    def ended(self) -> bool:
        return self.frontier.ended

    def wide(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with the wide names, or raise SchemaError."""
        if not isinstance(batch, pa.RecordBatch):
            raise SchemaError(
                f"push takes a pyarrow.RecordBatch; got a {type(batch).__name__}; push the batches of "
                "pa.table(x).to_batches()"
            )
        want, got = self.schema, batch.schema
        if got is not want and not got.equals(want):
            if got.names != want.names:
                raise SchemaError(
                    f"a batch of input {self.alias!r} has the columns {', '.join(got.names) or '(none)'}; expected "
                    f"{', '.join(want.names) or '(none)'}"
                )
            for a, b in zip(got, want, strict=True):
                if a.type != b.type:
                    raise SchemaError(
                        f"column {a.name!r} of a batch of input {self.alias!r} is {a.type}; expected {b.type}"
                    )
        for f, column in zip(want, batch.columns, strict=True):
            if not f.nullable and column.null_count:
                raise SchemaError(
                    f"column {f.name!r} of input {self.alias!r} is declared not nullable, and a batch has "
                    f"{column.null_count} null{'s' if column.null_count > 1 else ''} in it"
                )
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.spec.schemas[0])

    def screen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a wide batch to join, and move the frontier.

        Raise LateRowError or EvaluationError before anything has changed.
        """
        try:
            kept, late = self._intake.screen(0, batch) if batch.num_rows else (batch, 0)
        except (LateRowError, EvaluationError) as e:
            raise self._own(e) from e
        self.rows_in += batch.num_rows
        self.late += late
        self.frontier.refresh()
        return kept

    def _own(self, error: IvjoinError) -> IvjoinError:
        """Return the same error, with the alias of the input."""
        own = error.saying(of_input(str(error), self.alias))
        if isinstance(own, LateRowError):
            own.side, own.column = self.alias, of_input(str(own.column), self.alias)
        return own

    def save(self) -> tuple[list[dict[str, Any]], int, int]:
        return [t.save() for t in self.frontier.trackers], self.rows_in, self.late

    def load(self, saved: tuple[list[dict[str, Any]], int, int]) -> None:
        """Restore the state of :meth:`save`, after later rows were refused."""
        trackers, self.rows_in, self.late = saved
        for t, state in zip(self.frontier.trackers, trackers, strict=True):
            t.load(state)
        self.frontier.refresh()

    def refuse_late(self, batch: pa.RecordBatch) -> None:
        """Raise LateRowError or EvaluationError before a batch is pushed in pieces. Change nothing."""
        try:
            self._intake.refuse_first(0, batch)
        except (LateRowError, EvaluationError) as e:
            raise self._own(e) from e

    def reach(self, edges: Sequence[int | None]) -> None:
        trackers = self.frontier.trackers
        if len(edges) != len(trackers):
            raise ProtocolError(f"reach({self.alias!r}, ...) got {len(edges)} edges; it has {len(trackers)} orders")
        for t, edge in zip(trackers, edges, strict=True):
            if edge is not None:
                t.reach(edge)
        self.frontier.refresh()

    def promises(self, values: Any, timezone: str) -> list[tuple[Node, int, bool]]:
        """Return the arguments of :meth:`advance` as expressions over wide names, ordinals and directions."""
        if not isinstance(values, Mapping) or not values:
            raise IvjoinError(f"advance takes {{expression: value}}; got {came(values)}")
        out = []
        for name, value in values.items():
            try:
                own = side_expression(name, 0, self.schema, timezone, "watermark")
            except IvjoinError as e:
                raise self._own(e) from e
            node = widened(own, self.alias)
            falls = any(t.node is node and t.descending for t in self.frontier.trackers)
            out.append((node, physical_ordinal(value, node.type, f"the watermark of {name}", up=not falls), falls))
        return out
