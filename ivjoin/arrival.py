"""What arrives: a batch's keys, axis values and lateness, worked out before the first row is touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.errors import EvaluationError, LateRowError
from ivjoin.expr.evaluate import Vector, evaluate, first_error
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import has_ordinal, ordinals
from ivjoin.order import Frontier, OrderTracker, shown
from ivjoin.plan import SIDES, JoinPlan
from ivjoin.row_layout import row_layouts
from ivjoin.shj import key_kernels
from ivjoin.shj.arrow import Bytes
from ivjoin.shj.keys import ByteKeys, IntKeys, KeyTable, NoKeys, pack

__all__ = ["Arrived", "Intake", "has_value"]

I64_MIN = -(2**63)


@dataclass(slots=True)
class Arrived:
    """A batch, evaluated: what the probe and the insert need of it.

    Attributes
    ----------
    batch : pa.RecordBatch
        Its rows, without late ones that were dropped.
    kids : int64[n]
        Key ids, -1 for a row that can never match.
    axes : int64[a, n]
    absent : dict of int to bool[n], or None
        Axis -> rows whose value there is unknown.
    careful : bool
        Some row here or before lies outside the plan's guards, or erred: the whole condition decides each pair.
    some_unusable : bool
        Whether any key id may be -1.
    kept : bool[n] or None
        Rows that may be stored; None for all whose key id is not -1.
    late : int
        Rows that broke an order or a bound.
    """

    batch: pa.RecordBatch
    kids: np.ndarray
    axes: np.ndarray
    absent: dict[int, np.ndarray] | None
    careful: bool
    some_unusable: bool
    kept: np.ndarray | None
    late: int


class Intake:
    """Evaluates batches of both sides; owns nothing but the lists of expressions."""

    def __init__(
        self, plan: JoinPlan, frontiers: tuple[Frontier, Frontier], keys: KeyTable, late_within: bool,
        errors_first: bool = False,
    ) -> None:
        self._plan = plan
        self._frontiers = frontiers
        self.keys = keys
        self.late_within = late_within
        self._errors_first = errors_first
        left, right = row_layouts(plan)
        self.index = left.index, right.index
        self._roots: list[list[Node]] = [[], []]
        self.refresh()

    def refresh(self) -> None:
        """The expressions to evaluate for each batch of a side, once each."""
        for s in (0, 1):
            side, frontier = self._plan.sides[s], self._frontiers[s]
            nodes = [*side.keys, *side.axes, *side.filters, *(g for g, _, _ in side.guards)]
            nodes += [t.node for t in frontier.trackers] + list(frontier.bounds) + list(frontier.promised)
            self._roots[s] = list(dict.fromkeys(nodes))

    def _evaluate(self, p: int, batch: pa.RecordBatch) -> dict[Node, Vector]:
        index = self.index[p]
        roots = self._roots[p]
        if not roots:
            return {}
        vectors = evaluate(roots, lambda _, name: batch.column(index[name]), batch.num_rows)
        return dict(zip(roots, vectors, strict=True))

    def take(
        self, p: int, batch: pa.RecordBatch, dead: bool, careful: bool, on_key_error: Callable[[], None]
    ) -> Arrived:
        """Evaluate a batch of side p. ``dead``: the other side has ended with nothing stored, so no row can match.

        ``on_key_error`` is called when a key erred for some row, before the ids of keys are asked for.

        Raises
        ------
        LateRowError, EvaluationError
        """
        values = self._evaluate(p, batch)
        images: dict[Node, np.ndarray] = {}
        late = self._late_rows(p, batch, values, images)
        count = 0
        if late is not None:
            count = int(np.count_nonzero(late))
            if self._plan.options["on_late"] == "drop":
                batch = batch.filter(pa.array(~late))
                values, images = self._evaluate(p, batch), {}
        return self._understood(p, batch, values, images, dead, careful, count, on_key_error)

    def screen(self, p: int, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """A batch without the late rows that are dropped, and how many were late; moves the orders, no more.

        Raises
        ------
        LateRowError, EvaluationError
        """
        frontier, index = self._frontiers[p], self.index[p]
        nodes = list(dict.fromkeys([*(t.node for t in frontier.trackers), *frontier.bounds, *frontier.promised]))
        vectors = evaluate(nodes, lambda _, name: batch.column(index[name]), batch.num_rows) if nodes else []
        late = self._late_rows(p, batch, dict(zip(nodes, vectors, strict=True)), {})
        if late is None:
            return batch, 0
        dropped = self._plan.options["on_late"] == "drop"
        return (batch.filter(pa.array(~late)) if dropped else batch), int(np.count_nonzero(late))

    def partitions(self, p: int, batch: pa.RecordBatch, count: int) -> np.ndarray:
        """Which of ``count`` partitions each row's keys fall into : int64[n]; equal keys of both sides into one."""
        nodes = self._plan.sides[p].keys
        n = batch.num_rows
        index = self.index[p]
        vectors = evaluate(nodes, lambda _, name: batch.column(index[name]), n)
        values, images = dict(zip(nodes, vectors, strict=True)), {}  # type: ignore[var-annotated]
        out = np.empty(n, dtype=np.int64)
        if self._plan.int_keys:
            key_kernels.spread_ints(np.ascontiguousarray(self.image(nodes[0], values, images)), count, out)
        else:
            packed = self._packed(p, n, values, images)
            key_kernels.spread_bytes(packed.offsets, packed.buffer, count, out)
        return out

    def image(self, node: Node, values: dict[Node, Vector], images: dict[Node, np.ndarray]) -> np.ndarray:
        found = images.get(node)
        if found is None:
            found = images[node] = ordinals(values[node].values, node.type)
        return found

    def _late_rows(
        self, p: int, batch: pa.RecordBatch, values: dict[Node, Vector], images: dict[Node, np.ndarray]
    ) -> np.ndarray | None:
        """Late rows, bool[n]; None for none. Raises under ``on_late="raise"``."""
        frontier = self._frontiers[p]
        if not frontier.trackers and not frontier.bounds and not frontier.promised:
            return None
        before = [t.save() for t in frontier.trackers]
        late: np.ndarray | None = None
        try:
            for t in frontier.trackers:
                v = values[t.node]
                if not self._errors_first:
                    self._refuse_errors(p, batch, t.node, v, "order")
                valid = has_value(v)
                was = t.edge
                bad = t.late(self.image(t.node, values, images), valid, self.late_within)
                if bad is not None:
                    seen = f"rows up to {self._edge(t, was, bad, images)} have come"
                    self._complain(p, t.name, t.node, bad, values, images, seen)
                    late = bad if late is None else late | bad
            for node in {**frontier.bounds, **frontier.promised}:
                what = "bounds" if node in frontier.bounds else "watermark"
                self._refuse_errors(p, batch, node, values[node], what)
                bad = frontier.outside_promises(node, self.image(node, values, images), has_value(values[node]))
                if bad is not None:
                    self._complain(p, str(node), node, bad, values, images, self._promise_text(p, node))
                    late = bad if late is None else late | bad
        except (LateRowError, EvaluationError):
            for t, state in zip(frontier.trackers, before, strict=True):
                t.load(state)
            raise
        return late

    def _refuse_errors(self, p: int, batch: pa.RecordBatch, node: Node, v: Vector, what: str) -> None:
        erred = _erred(v)
        if erred is not None:
            why = first_error(node, lambda _, name: batch.column(self.index[p][name]), int(erred.argmax()))
            raise EvaluationError(f"{what} of the {SIDES[p]} side: {why}")

    def _edge(self, t: OrderTracker, was: int, bad: np.ndarray, images: dict[Node, np.ndarray]) -> str:
        seen = images[t.node][: int(bad.argmax())]
        turned = ~seen if t.descending else seen
        if t.nulls == "last" and t.seen_null:
            return "a null"
        top = max(was, int(turned.max())) if len(turned) and self.late_within else was
        if top == I64_MIN:
            return "a null"
        text = shown(~top if t.descending else top, t.node.type)
        return text if not t.slack else f"{text} (slack {t.slack})"

    def _promise_text(self, p: int, node: Node) -> str:
        source = self._frontiers[p].bounds if node in self._frontiers[p].bounds else self._frontiers[p].promised
        low, high = source[node]
        return f"it was promised to lie from {shown(low, node.type)} to {shown(high, node.type)}"

    def _complain(
        self, p: int, name: str, node: Node, bad: np.ndarray, values: dict[Node, Vector],
        images: dict[Node, np.ndarray], limit: str,
    ) -> None:
        if self._plan.options["on_late"] == "raise":
            row = int(bad.argmax())
            valid = values[node].valid
            null = valid is not None and not valid[row]
            what = "null" if null else shown(int(images[node][row]), node.type)
            raise LateRowError(
                f"late row on the {SIDES[p]} side (row {row} of the batch): {name} is {what}, but {limit}. "
                'Declare a slack, or use on_late="drop" or on_late="join"'
            )

    def _understood(
        self, p: int, batch: pa.RecordBatch, values: dict[Node, Vector], images: dict[Node, np.ndarray], dead: bool,
        careful: bool, late: int, on_key_error: Callable[[], None],
    ) -> Arrived:
        """Key ids, axis values, and which rows can match at all."""
        wild: np.ndarray | None = None  # rows that err, or may with some partner
        for node in self._plan.sides[p].keys:
            wild = _either(wild, _erred(values[node]))
        if wild is not None:
            on_key_error()
        side = self._plan.sides[p]
        n = batch.num_rows
        keyed: np.ndarray | None = None  # rows whose keys can be equal to some other's; None: every row
        for node, safe in zip(side.keys, self._plan.null_safe, strict=True):
            if not safe:
                keyed = _both(keyed, values[node].valid)
        usable = keyed  # rows for which no conjunct of this side alone is FALSE or NULL
        absent: dict[int, np.ndarray] | None = None
        axes = np.empty((len(side.axes), n), dtype=np.int64)
        for a, node in enumerate(side.axes):
            v = values[node]
            axes[a] = self.image(node, values, images)
            erred = _erred(v)
            missing = v.valid if v.valid is None or not v.valid.all() else None
            if a < side.band_axes:
                usable = _both(usable, missing)
                wild = _either(wild, erred)
            if missing is not None or erred is not None:
                absent = {} if absent is None else absent
                absent[a] = _either(erred, None if missing is None else ~missing)  # type: ignore[assignment]
        for node in side.filters:
            v = values[node]
            usable = _both(usable, np.asarray(v.values if v.valid is None else v.values & v.valid, dtype=bool))
            wild = _either(wild, _erred(v))
        for node, low, high in side.guards:
            wild = _either(_either(wild, _outside(values[node], low, high)), _erred(values[node]))
        if self._plan.raises and n:
            wild = np.ones(n, dtype=bool)
        if self._plan.never or dead:
            usable = keyed = np.zeros(n, dtype=bool)
            wild = None
        careful = wild is not None or careful
        kept: np.ndarray | None = None
        if careful:
            # An error must come out for a pair that a conjunct further right would refuse, so all rows are probed;
            # of those that cannot match, only the ones that may raise are stored.
            kept = _either(usable, wild) if usable is not None else None
            usable = keyed
        kids = self.key_ids(p, n, values, images, usable)
        return Arrived(batch, kids, axes, absent, careful, usable is not None, kept, late)

    def key_ids(
        self, p: int, n: int, values: dict[Node, Vector], images: dict[Node, np.ndarray], usable: np.ndarray | None
    ) -> np.ndarray:
        side = self._plan.sides[p]
        if isinstance(self.keys, NoKeys):
            return self.keys.ids(n, usable)
        if isinstance(self.keys, IntKeys):
            return self.keys.ids(np.ascontiguousarray(self.image(side.keys[0], values, images)), usable)
        assert isinstance(self.keys, ByteKeys)
        return self.keys.ids(self._packed(p, n, values, images), usable)

    def _packed(self, p: int, n: int, values: dict[Node, Vector], images: dict[Node, np.ndarray]) -> Bytes:
        """All keys of a row as one byte string."""
        pieces = []
        for node, safe in zip(self._plan.sides[p].keys, self._plan.null_safe, strict=True):
            v = values[node]
            pieces.append(_key_bytes(node, v, lambda node=node: self.image(node, values, images)))  # type: ignore[misc]
            if safe:
                valid = np.ones(n, dtype=np.uint8) if v.valid is None else v.valid.astype(np.uint8)
                pieces.append(Bytes.fixed(valid.reshape(n, 1)))
        return pack(pieces)


def has_value(v: Vector) -> np.ndarray | None:
    """Rows with a value: neither null nor an error."""
    valid = v.valid
    if v.error is not None and v.error.any():
        valid = ~v.error if valid is None else valid & ~v.error
    return valid


def _both(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    if a is None:
        return b
    return a if b is None else a & b


def _either(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    if a is None:
        return b
    return a if b is None else a | b


def _erred(v: Vector) -> np.ndarray | None:
    return v.error if v.error is not None and v.error.any() else None


def _outside(v: Vector, low: int, high: int) -> np.ndarray | None:
    """bool[n] of the values that lie outside [low, high], None for none."""
    values = v.values
    if len(values) == 0 or (low <= int(values.min()) and int(values.max()) <= high):
        return None
    bad = np.asarray((values < low) | (values > high), dtype=bool)
    present = has_value(v)
    if present is not None:
        bad &= present
    return bad if bad.any() else None


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
