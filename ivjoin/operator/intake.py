"""What arrives: a batch's keys, axis values and lateness, worked out before the first row is touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import EvaluationError, LateRowError
from ivjoin.expr.evaluate import Vector, evaluate, first_error
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import NAN_ORDINAL, has_ordinal, ordinals, python_value
from ivjoin.frontier.order import Frontier, OrderTracker, ordinal_range, shown
from ivjoin.outer.values import has_value
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.planner import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.shj.arrow import Bytes
from ivjoin.shj.kernels import key_kernels
from ivjoin.shj.plain import rows_at
from ivjoin.shj.store.keys import ByteKeys, IntKeys, KeyTable, NoKeys, WordKeys, pack

__all__ = ["Intake", "outside"]

I64_MIN = -(2**63)


class Intake:
    """Evaluates batches of both sides; owns nothing but the lists of expressions."""

    def __init__(
        self, plan: JoinPlan, frontiers: tuple[Frontier, Frontier], late_within: bool = True, errors_first: bool = False
    ) -> None:
        self._plan = plan
        self._frontiers = frontiers
        self.late_within = late_within
        self._errors_first = errors_first
        left, right = row_layouts(plan)
        self.index = left.index, right.index

    def _ordered(self, p: int, batch: pa.RecordBatch) -> dict[Node, Vector]:
        """The values of everything that is ordered, bounded or promised."""
        frontier, index = self._frontiers[p], self.index[p]
        nodes = list(dict.fromkeys([*(t.node for t in frontier.trackers), *frontier.bounds, *frontier.promised]))
        vectors = evaluate(nodes, lambda _, name: batch.column(index[name]), batch.num_rows) if nodes else []
        return dict(zip(nodes, vectors, strict=True))

    def refuse_late(self, p: int, batch: pa.RecordBatch) -> None:
        """Say which row of a batch breaks an order or a bound, where one does.

        Raises
        ------
        LateRowError
        """
        self._late_rows(p, batch, self._ordered(p, batch), {})
        raise AssertionError("a row was found late that keeps every order")

    def refuse_first(self, p: int, batch: pa.RecordBatch) -> None:
        """Refuse a batch for its late rows before it is taken piece by piece; moves nothing.

        Raises
        ------
        LateRowError, EvaluationError
        """
        if self._plan.spec.on_late != "raise":
            return
        before = [t.save() for t in self._frontiers[p].trackers]
        self._late_rows(p, batch, self._ordered(p, batch), {})
        for t, saved in zip(self._frontiers[p].trackers, before, strict=True):
            t.load(saved)

    def late_by_python(self, p: int, batch: pa.RecordBatch, values: dict[Node, Vector]) -> np.ndarray | None:
        """bool[n] of the rows that break the orders which the kernels do not follow; None for none.

        Raises
        ------
        LateRowError
        """
        trackers = [t for t in self._frontiers[p].trackers if t.in_python]
        return self._broken(p, trackers, batch, values, {}) if trackers else None

    def screen(self, p: int, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """A batch without the late rows that are dropped, and how many were late; moves the orders, no more.

        Raises
        ------
        LateRowError, EvaluationError
        """
        late = self._late_rows(p, batch, self._ordered(p, batch), {})
        if late is None:
            return batch, 0
        dropped = self._plan.spec.on_late == "drop"
        return (rows_at(batch, np.flatnonzero(~late)) if dropped else batch), int(np.count_nonzero(late))

    def ordinals(self, node: Node, values: dict[Node, Vector], known: dict[Node, np.ndarray]) -> np.ndarray:
        found = known.get(node)
        if found is None:
            found = known[node] = ordinals(values[node].values, node.type)
        return found

    def _late_rows(
        self, p: int, batch: pa.RecordBatch, values: dict[Node, Vector], known: dict[Node, np.ndarray]
    ) -> np.ndarray | None:
        """Late rows, bool[n]; None for none. Raises under ``on_late="raise"``."""
        frontier = self._frontiers[p]
        if not frontier.trackers and not frontier.bounds and not frontier.promised:
            return None
        before = [t.save() for t in frontier.trackers]
        try:
            late = self._broken(p, frontier.trackers, batch, values, known)
            for node in {**frontier.bounds, **frontier.promised}:
                what = "bounds" if node in frontier.bounds else "watermark"
                self._refuse_errors(p, batch, node, values[node], what)
                bad = frontier.outside_promises(node, self.ordinals(node, values, known), has_value(values[node]))
                if bad is not None:
                    low, high, _ = frontier.limits_of(node)
                    edge = low if int(known[node][int(bad.argmax())]) < low else high
                    limit, fix = self._promise_text(p, node), "Promise less"
                    self._complain(p, str(node), node, bad, values, known, limit, fix, python_value(edge, node.type))
                    late = bad if late is None else late | bad
        except (LateRowError, EvaluationError):
            for t, state in zip(frontier.trackers, before, strict=True):
                t.load(state)
            raise
        return late

    def _broken(
        self, p: int, trackers: Sequence[OrderTracker], batch: pa.RecordBatch, values: dict[Node, Vector],
        known: dict[Node, np.ndarray],
    ) -> np.ndarray | None:
        """Rows that break some of the orders; moves these."""
        late: np.ndarray | None = None
        for t in trackers:
            v = values[t.node]
            if not self._errors_first:
                self._refuse_errors(p, batch, t.node, v, "order")
            was = t.edge
            bad = t.late(self.ordinals(t.node, values, known), has_value(v), self.late_within)
            if bad is not None:
                text, edge = self._edge(t, was, bad, known[t.node], v)
                seen = f"rows up to {text} have come"
                self._complain(p, t.name, t.node, bad, values, known, seen, "Declare a slack", edge)
                late = bad if late is None else late | bad
        return late

    def refuse_errors(self, p: int, batch: pa.RecordBatch, node: Node, v: Vector) -> None:
        """Say which row errs at an expression that is ordered, bounded or promised.

        Raises
        ------
        EvaluationError
        """
        frontier = self._frontiers[p]
        if any(t.node is node for t in frontier.trackers):
            if not self._errors_first:
                self._refuse_errors(p, batch, node, v, "order")
        elif node in frontier.bounds or node in frontier.promised:
            self._refuse_errors(p, batch, node, v, "bounds" if node in frontier.bounds else "watermark")

    def _refuse_errors(self, p: int, batch: pa.RecordBatch, node: Node, v: Vector, what: str) -> None:
        erred = _erred(v)
        if erred is not None:
            why = first_error(node, lambda _, name: batch.column(self.index[p][name]), int(erred.argmax()))
            raise EvaluationError(f"{what} of the {SIDES[p]} side: {why}")

    def _edge(self, t: OrderTracker, was: int, bad: np.ndarray, found: np.ndarray, v: Vector) -> tuple[str, Any]:
        """How far rows had come before the first that is late."""
        until = int(bad.argmax())
        seen, present = found[:until], has_value(v)
        if present is not None:
            seen = seen[present[:until]]
        if t.node.type.kind == "float":
            seen = seen[seen != NAN_ORDINAL]  # which has no order
        turned = ~seen if t.descending else seen
        if t.nulls == "last" and t.seen_null:
            return "a null", None
        top = max(was, int(turned.max())) if len(turned) and self.late_within else was
        if top == I64_MIN:
            return "a null", None
        last = ~top if t.descending else top
        text, away = shown(last, t.node.type), t.slack if t.descending else -t.slack
        if t.node.type.kind == "float":
            return f"{text} (slack {t.slack})" if t.slack else text, python_value(last, t.node.type) + float(away)
        edge = python_value(min(max(last + int(away), I64_MIN), -I64_MIN - 1), t.node.type)
        return f"{text} (slack {t.slack})" if t.slack else text, edge

    def _promise_text(self, p: int, node: Node) -> str:
        low, high, _ = self._frontiers[p].limits_of(node)
        least, most = ordinal_range(node.type)
        if high >= most:
            return f"it was promised to lie from {shown(low, node.type)} on"
        lower = "up" if low <= least else f"from {shown(low, node.type)}"
        return f"it was promised to lie {lower} to {shown(high, node.type)}"

    def _complain(
        self, p: int, name: str, node: Node, bad: np.ndarray, values: dict[Node, Vector],
        known: dict[Node, np.ndarray], limit: str, fix: str, edge: Any,
    ) -> None:
        if self._plan.spec.on_late == "raise":
            # No name here is the error's: its traceback refers to this call, and both would wait for the collector.
            raise self._late_row(p, name, node, int(bad.argmax()), values, known, limit, fix, edge)

    def _late_row(
        self, p: int, name: str, node: Node, row: int, values: dict[Node, Vector], known: dict[Node, np.ndarray],
        limit: str, fix: str, edge: Any,
    ) -> LateRowError:
        valid = values[node].valid
        null = valid is not None and not valid[row]
        what = "null" if null else shown(int(known[node][row]), node.type)
        error = LateRowError(
            f"late row on the {SIDES[p]} side (row {row} of the batch): {name} is {what}, but {limit}. "
            f'{fix}, or use on_late="drop" or on_late="join"'
        )
        error.side, error.column, error.frontier = SIDES[p], name, edge
        error.value = None if null else python_value(int(known[node][row]), node.type)
        return error

    def key_ids(
        self, p: int, n: int, values: dict[Node, Vector], keys: KeyTable, usable: np.ndarray | None
    ) -> np.ndarray:
        """Id of each row's key : int64[n], -1 where ``usable`` is False."""
        side = self._plan.sides[p]
        if isinstance(keys, NoKeys):
            return keys.ids(n, usable)
        if isinstance(keys, WordKeys):
            return keys.ids(self._words(p, values), usable)
        if isinstance(keys, IntKeys):
            return keys.ids(np.ascontiguousarray(self.ordinals(side.keys[0], values, {})), usable)
        assert isinstance(keys, ByteKeys)
        return keys.ids(self._packed(p, n, values, {}), usable)

    def key_hashes(self, p: int, n: int, column: Callable[[str, str], pa.Array]) -> np.ndarray:
        """63 bits of the keys of n rows : int64[n], alike for equal keys of both sides."""
        return self.hashed(self.packed_keys(p, n, column))

    def packed_keys(self, p: int, n: int, column: Callable[[str, str], pa.Array]) -> Bytes:
        """The keys of n rows as byte strings, alike for equal keys of both sides."""
        nodes = self._plan.sides[p].keys
        values = dict(zip(nodes, evaluate(nodes, column, n), strict=True))
        return self._packed(p, n, values, {})

    @staticmethod
    def hashed(keys: Bytes) -> np.ndarray:
        """63 bits of each key : int64[n]."""
        out = np.empty(len(keys.offsets) - 1, dtype=np.int64)
        key_kernels.hash_bytes(keys.offsets, keys.buffer, out)
        return out

    def _words(self, p: int, values: dict[Node, Vector]) -> np.ndarray:
        """All keys of a row as words : int64[words, n]."""
        words = []
        for node, safe in zip(self._plan.sides[p].keys, self._plan.null_safe, strict=True):
            o, valid = self.ordinals(node, values, {}), values[node].valid
            words.append(o if not safe or valid is None else np.where(valid, o, 0))
            if safe:
                words.append(np.ones(len(o)) if valid is None else valid)
        return np.array(words, dtype=np.int64)

    def _packed(self, p: int, n: int, values: dict[Node, Vector], known: dict[Node, np.ndarray]) -> Bytes:
        """All keys of a row as one byte string."""
        pieces = []
        for node, safe in zip(self._plan.sides[p].keys, self._plan.null_safe, strict=True):
            v = values[node]
            pieces.append(_key_bytes(node, v, lambda node=node: self.ordinals(node, values, known)))  # type: ignore[misc]
            if safe:
                valid = np.ones(n, dtype=np.uint8) if v.valid is None else v.valid.astype(np.uint8)
                pieces.append(Bytes.fixed(valid.reshape(n, 1)))
        return pack(pieces)


def outside(v: Vector, low: int, high: int) -> np.ndarray | None:
    """bool[n] of the values that lie outside [low, high], None for none."""
    values = v.values
    if len(values) == 0 or (low <= int(values.min()) and int(values.max()) <= high):
        return None
    bad = np.asarray((values < low) | (values > high), dtype=bool)
    present = has_value(v)
    if present is not None:
        bad &= present
    return bad if bad.any() else None


def _erred(v: Vector) -> np.ndarray | None:
    return v.error if v.error is not None and v.error.any() else None


def _key_bytes(node: Node, v: Vector, image: Callable[[], np.ndarray]) -> Bytes:
    """A key column as bytes of equal values, whatever its Arrow form."""
    if has_ordinal(node.type):
        o = np.ascontiguousarray(image())
        if v.valid is not None:
            o = np.where(v.valid, o, 0)
        return Bytes.fixed(o.view(np.uint8).reshape(len(o), 8))
    if isinstance(v.values, (pa.Array, pa.ChunkedArray)):
        array = v.values if v.valid is None else _blank(v.values, v.valid)
        return Bytes.of(array)
    # Both sides have one type, so they agree. More than its digits need: nothing checks a column for too long numbers.
    size = 32 if node.type.kind == "decimal" else 33 + node.type.precision // 2
    wide = [b"" if v.valid is not None and not ok else int(x).to_bytes(size, "little", signed=True)
            for x, ok in zip(v.values, v.valid if v.valid is not None else [True] * len(v.values), strict=True)]
    return Bytes.of(pa.array(wide, type=pa.large_binary()))


def _blank(array: pa.Array, valid: np.ndarray) -> pa.Array:
    import pyarrow.compute as pc

    empty = pa.scalar(b"" if pa.types.is_large_binary(array.type) or pa.types.is_binary(array.type) else "", array.type)
    return pc.if_else(pa.array(valid), array, empty)
