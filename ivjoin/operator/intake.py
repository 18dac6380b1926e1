"""Check the schema, the orders and the bounds of a batch before any of its rows is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import Vector, evaluate, first_error
from ivjoin.errors import EvaluationError, LateRowError, SchemaError
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import NAN_ORDINAL, ordinals, python_value
from ivjoin.frontier.late import Report, greatest_lateness
from ivjoin.frontier.order import ordinal_range, shown
from ivjoin.frontier.tracking import Frontier, OrderTracker
from ivjoin.metrics import JoinMetrics
from ivjoin.outer.values import errors_of, has_value
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.spec import SIDES
from ivjoin.shj.plain import from_plain_rows, rows_at
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["Intake", "outside"]


class Intake:
    """Evaluate and check the batches of both sides."""

    def __init__(self, plan: JoinPlan, frontiers: tuple[Frontier, Frontier], late_within: bool = True) -> None:
        self._plan = plan
        self._frontiers = frontiers
        self.late_within = late_within
        self.errors_first = False  # whether rows with an error in an ordered expression come before the others
        self.report: Report | None = None  # receives late rows
        self.late = [0, 0]  # late rows of each side, except refused ones
        self.lateness: list[Any] = [None, None]  # the greatest lateness of each side
        left, right = row_layouts(plan)
        self.index = left.index, right.index
        self._never_null = left.never_null, right.never_null

    def check_schema(self, p: int, batch: pa.RecordBatch) -> None:
        """Raise SchemaError if the names or types of a batch differ from the schema of side p."""
        if not isinstance(batch, pa.RecordBatch):
            raise SchemaError(
                f"push takes a pyarrow.RecordBatch; got a {type(batch).__name__}; push the batches of "
                "pa.table(x).to_batches()"
            )
        got, want = batch.schema, self._plan.sides[p].schema
        if got is want or got.equals(want):
            return
        if got.names != want.names:
            raise SchemaError(f"a {SIDES[p]} batch has columns {got.names}; expected {want.names}")
        for a, b in zip(got, want, strict=True):
            if a.type != b.type:
                raise SchemaError(f"column {a.name!r} of a {SIDES[p]} batch is {a.type}; expected {b.type}")

    def check_nulls(self, p: int, batch: pa.RecordBatch) -> None:
        """Raise SchemaError if a column that is not nullable has nulls."""
        for i in self._never_null[p]:
            if batch.column(i).null_count:
                name = self._plan.sides[p].schema.names[i]
                raise SchemaError(f"column {name!r} of a {SIDES[p]} batch has nulls but is not nullable")

    def _ordered(self, p: int, batch: pa.RecordBatch) -> dict[Node, Vector]:
        frontier, index = self._frontiers[p], self.index[p]
        nodes = list(dict.fromkeys([*(t.node for t in frontier.trackers), *frontier.bounds, *frontier.promised]))
        vectors = evaluate(nodes, lambda _, name: batch.column(index[name]), batch.num_rows) if nodes else []
        return dict(zip(nodes, vectors, strict=True))

    def refuse_late(self, p: int, batch: pa.RecordBatch) -> None:
        """Raise the LateRowError for the first row of a batch that breaks an order or a bound."""
        self._late_rows(p, batch)
        raise AssertionError("a row was reported late, but it breaks no order")

    def refuse_first(self, p: int, batch: pa.RecordBatch) -> None:
        """Refuse a batch with late rows, as :meth:`screen` does, but do not move the orders."""
        if self._plan.spec.on_late != "raise":
            return
        before = self._frontiers[p].mark()
        self._late_rows(p, batch)
        self._frontiers[p].reset(before)

    def late_by_python(self, p: int, batch: pa.RecordBatch, values: dict[Node, Vector]) -> np.ndarray | None:
        """Return bool[n] of the rows that break an order that only Python checks, or None.

        Kernels check the other orders.
        """
        trackers = [t for t in self._frontiers[p].trackers if t.in_python]
        return self._broken(p, trackers, batch, values, {}) if trackers else None

    def screen(self, p: int, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Return a batch without the late rows to drop, and the number of late rows. Only the orders change.

        If ``on_late`` is ``"raise"``, a late row raises a LateRowError. An EvaluationError is raised if an ordered,
        bounded or promised expression fails for a row.
        """
        late = self._late_rows(p, batch)
        if late is None:
            return batch, 0
        self.late[p] += int(np.count_nonzero(late))
        if self.report is not None:
            schema = self._plan.sides[p].schema
            for rows in from_plain_rows(rows_at(batch, np.flatnonzero(late)), schema):
                self.report(SIDES[p], rows)
        dropped = self._plan.spec.on_late == "drop"
        return (rows_at(batch, np.flatnonzero(~late)) if dropped else batch), int(np.count_nonzero(late))

    def count_into(self, m: JoinMetrics, late: int = 0) -> None:
        """Add the late rows of each side to metrics. ``late`` is added to their total."""
        m.late_rows += late
        m.left_late_rows += self.late[0]
        m.right_late_rows += self.late[1]
        m.left_lateness, m.right_lateness = self.lateness

    def count_late(self, p: int, batch: pa.RecordBatch, before: list[bytes]) -> None:
        """Count and report the late rows of a batch that kernels have processed.

        ``before`` are the orders before it.
        """
        after = self._frontiers[p].mark()
        self._frontiers[p].reset(before)
        self.screen(p, batch)
        self._frontiers[p].reset(after)

    def _late_rows(self, p: int, batch: pa.RecordBatch) -> np.ndarray | None:
        """Return bool[n] of the late rows, or None. If ``on_late`` is ``"raise"``, raise a LateRowError."""
        frontier = self._frontiers[p]
        if not frontier.trackers and not frontier.bounds and not frontier.promised:
            return None
        before, values, known = frontier.mark(), self._ordered(p, batch), dict[Node, np.ndarray]()
        try:
            late = self._broken(p, frontier.trackers, batch, values, known)
            for node in {**frontier.bounds, **frontier.promised}:
                what = "bounds" if node in frontier.bounds else "watermark"
                self._refuse_errors(p, batch, node, values[node], what)
                bad = frontier.outside_promises(node, _ordinals(node, values, known), has_value(values[node]))
                if bad is not None:
                    if self._plan.spec.on_late == "raise":
                        raise self._outside_promise(p, node, known[node], values[node], int(bad.argmax()))
                    late = bad if late is None else late | bad
        except (LateRowError, EvaluationError):
            frontier.reset(before)
            raise
        return late

    def _broken(
        self, p: int, trackers: Sequence[OrderTracker], batch: pa.RecordBatch, values: dict[Node, Vector],
        known: dict[Node, np.ndarray],
    ) -> np.ndarray | None:
        """Return bool[n] of the rows that break an order of ``trackers``, or None. This moves the orders."""
        late: np.ndarray | None = None
        for t in trackers:
            v = values[t.node]
            if not self.errors_first:
                self._refuse_errors(p, batch, t.node, v, "order")
            was = t.edge
            bad = t.late(_ordinals(t.node, values, known), has_value(v), self.late_within)
            if bad is not None:
                if self._plan.spec.on_late == "raise":
                    raise self._out_of_order(p, t, was, known[t.node], v, int(bad.argmax()))
                far = greatest_lateness(t, was, bad, known[t.node], has_value(v), self.late_within)
                if far is not None and (self.lateness[p] is None or far > self.lateness[p]):
                    self.lateness[p] = far
                late = bad if late is None else late | bad
        return late

    def refuse_errors(self, p: int, batch: pa.RecordBatch, node: Node, v: Vector) -> None:
        """Raise an EvaluationError if an ordered, bounded or promised expression fails for a row."""
        frontier = self._frontiers[p]
        if any(t.node is node for t in frontier.trackers):
            if not self.errors_first:
                self._refuse_errors(p, batch, node, v, "order")
        elif node in frontier.bounds or node in frontier.promised:
            self._refuse_errors(p, batch, node, v, "bounds" if node in frontier.bounds else "watermark")

    def _refuse_errors(self, p: int, batch: pa.RecordBatch, node: Node, v: Vector, what: str) -> None:
        erred = errors_of(v)
        if erred is not None:
            why = first_error(node, lambda _, name: batch.column(self.index[p][name]), int(erred.argmax()))
            raise EvaluationError(f"{what} of the {SIDES[p]} side: {why}")

    def _out_of_order(
        self, p: int, t: OrderTracker, was: int, found: np.ndarray, v: Vector, row: int
    ) -> LateRowError:
        text, edge = self._edge(t, was, found, v, row)
        why = f"rows up to {text} have arrived. Declare a slack"
        return self._late_row(p, t.name, t.node, found, v, row, why, edge)

    def _edge(self, t: OrderTracker, was: int, found: np.ndarray, v: Vector, row: int) -> tuple[str, Any]:
        """Return the order's position before the first late row as text, and the least value that it allowed there."""
        seen, present = found[:row], has_value(v)
        if present is not None:
            seen = seen[present[:row]]
        if t.node.type.kind == "float":
            seen = seen[seen != NAN_ORDINAL]  # NaN has no position in the order
        turned = ~seen if t.descending else seen
        if t.nulls == "last" and t.seen_null:
            return "a null", None
        top = max(was, int(turned.max())) if len(turned) and self.late_within else was
        if top == I64_MIN:
            return "a null", None
        last = ~top if t.descending else top
        text, away = shown(last, t.node.type), t.slack if t.descending else -t.slack
        if t.slack:
            text = f"{text} (slack {t.slack})"
        if t.node.type.kind == "float":
            return text, python_value(last, t.node.type) + float(away)
        return text, python_value(min(max(last + int(away), I64_MIN), I64_MAX), t.node.type)

    def _outside_promise(self, p: int, node: Node, found: np.ndarray, v: Vector, row: int) -> LateRowError:
        low, high, _ = self._frontiers[p].limits_of(node)
        least, most = ordinal_range(node.type)
        if high >= most:
            where = f"from {shown(low, node.type)} on"
        else:
            where = f"{'up' if low <= least else f'from {shown(low, node.type)}'} to {shown(high, node.type)}"
        edge = python_value(low if int(found[row]) < low else high, node.type)
        return self._late_row(p, str(node), node, found, v, row, f"it was promised to be {where}. Promise less", edge)

    @staticmethod
    def _late_row(
        p: int, name: str, node: Node, found: np.ndarray, v: Vector, row: int, why: str, edge: Any
    ) -> LateRowError:
        # Do not name the error here: a local name would form a reference cycle with the traceback.
        null = v.valid is not None and not v.valid[row]
        what = "null" if null else shown(int(found[row]), node.type)
        error = LateRowError(
            f"late row on the {SIDES[p]} side (row {row} of the batch): {name} is {what}, but {why}, "
            'or use on_late="drop" or on_late="join"'
        )
        error.side, error.column, error.frontier = SIDES[p], name, edge
        error.value = None if null else python_value(int(found[row]), node.type)
        return error


def _ordinals(node: Node, values: dict[Node, Vector], known: dict[Node, np.ndarray]) -> np.ndarray:
    found = known.get(node)
    if found is None:
        found = known[node] = ordinals(values[node].values, node.type)
    return found


def outside(v: Vector, low: int, high: int) -> np.ndarray | None:
    """Return bool[n] of the values outside [low, high], or None if all values are inside."""
    values = v.values
    if len(values) == 0 or (low <= int(values.min()) and int(values.max()) <= high):
        return None
    bad = np.asarray((values < low) | (values > high), dtype=bool)
    present = has_value(v)
    if present is not None:
        bad &= present
    return bad if bad.any() else None
