"""Evaluate a batch of a join that picks: its keys, the values of all lines, and which rows can match at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import Vector, evaluate, first_error
from ivjoin.errors import EvaluationError
from ivjoin.expr.nodes import Node, is_met
from ivjoin.expr.ordinal import has_ordinal, ordinals
from ivjoin.operator.intake import Intake
from ivjoin.operator.picks.ranks import Moved, Ranks
from ivjoin.outer.values import has_value
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import Picking
from ivjoin.plan.spec import SIDES
from ivjoin.shj.store.keys import KeyTable

__all__ = ["Reader", "Rows"]


@dataclass(slots=True)
class Rows:
    """The evaluated rows of a batch.

    Attributes
    ----------
    kids : int64[n]
        Key ids; -1 for rows without a key.
    vals : int64[lines, n]
    usable : bool[n]
        Whether a row can match at all.
    wild : bool[n] or None
        Rows for which an expression has an error, or that lie where the condition may have one. The whole condition
        decides their pairs.
    odd : bool[n] or None
        Rows without a value on an axis because of an error.
    """

    kids: np.ndarray
    vals: np.ndarray
    usable: np.ndarray
    wild: np.ndarray | None
    odd: np.ndarray | None


class Reader:
    """Evaluates batches of both sides.

    Parameters
    ----------
    plan : JoinPlan
    picking : Picking
    intake : Intake
    moved : callable
        For a right line without ordinals: returns the function that ``Ranks`` calls when its labels change.
    """

    def __init__(self, plan: JoinPlan, picking: Picking, intake: Intake, moved: Callable[[int], Moved]) -> None:
        self._plan, self._picking, self._intake, self._moved = plan, picking, intake, moved
        # The lines that compare right rows and whose values have no ordinals.
        self.ranks = {
            i: Ranks() for i, node in enumerate(picking.lines[1])
            if i < picking.n_sort and i not in picking.flags and not has_ordinal(node.type)
        }
        pick, bands = plan.spec.pick, plan.kernel_terms
        # Bands of doubles, which keys of two wide types imply, only prune. They decide nothing and never overflow.
        self._unbounded = pick is not None and pick.unbounded and plan.decided and all(
            t.exact or t.left.type.kind == "float" for t in bands
        )
        # Whether values at the ends of int64 decide bands, after two events: a time came that the finer unit of the two
        # cannot represent, and a time of that unit came that lies beyond the guards.
        self._beyond = self._at_end = False
        self.blind: set[tuple[int, Node]] = set()  # axes that are null in some row that must be stored nevertheless

    @property
    def ends_decide(self) -> bool:
        """Whether values at the ends of int64 decide bands, so that the whole condition decides all pairs."""
        return self._beyond and self._at_end

    def read(self, s: int, batch: pa.RecordBatch, index: dict[str, int], keys: KeyTable) -> Rows:
        """Return the keys and values of a batch.

        Raises
        ------
        EvaluationError
            If a key, a ``pick_by`` expression or the expression to be near to has an error.
        """
        side, picking, n = self._plan.sides[s], self._picking, batch.num_rows
        nodes = picking.reads[s]

        def column(_: str, name: str) -> pa.Array:
            return batch.column(index[name])

        found = evaluate(nodes, column, n) if nodes else []
        values = dict(zip(nodes, found, strict=True))
        usable = np.ones(n, dtype=bool)
        wild: np.ndarray | None = np.ones(n, dtype=bool) if self._plan.raises else None
        odd: np.ndarray | None = None

        def errs(node: Node) -> np.ndarray | None:
            e = values[node].error
            return e if e is not None and e.any() else None

        for node, safe in zip(side.keys, self._plan.null_safe, strict=True):
            self._refuse(s, "the key", node, errs(node), column)
            if not safe and (valid := values[node].valid) is not None:
                usable &= valid
        if self._plan.never:
            usable[:] = False
        for node in side.filters:
            v, bad = values[node], errs(node)
            true = np.asarray(v.values if v.valid is None else v.values & v.valid, dtype=bool)
            usable &= true if bad is None else true | bad
            wild = _or(wild, bad)
        for node, low, high in side.guards:
            outside = _outside(values[node], low, high)
            if not self._unbounded:
                wild = _or(_or(wild, outside), errs(node))
            elif outside is not None and outside.any():
                self._at_end = True
        for node in side.axes[: side.band_axes]:
            v, bad = values[node], errs(node)
            if self._unbounded and is_met(node):
                low, high = node.type.limits
                self._beyond = self._beyond or _outside(v, low + 1, high - 1) is not None
            if v.valid is not None:
                usable &= v.valid if bad is None else v.valid | bad
            wild, odd = _or(wild, bad), _or(odd, bad)
        if self.ends_decide:
            wild = np.ones(n, dtype=bool)
        for node in side.axes[side.band_axes :]:
            wild = _or(wild, errs(node))
            if has_value(values[node]) is not None:
                self.blind.add((s, node))
        if s == 1:
            first = self._plan.spec.pick.by if self._plan.spec.pick is not None else ()
            for node in first:
                self._refuse(s, "pick_by", node, errs(node), column)
            if first and (valid := values[first[0]].valid) is not None:
                usable &= valid
        elif picking.near >= 0:
            near = picking.lines[0][picking.near]
            self._refuse(s, "the distance", near, errs(near), column)
            if (valid := values[near].valid) is not None:
                usable &= valid
        kids = self._kids(s, n, values, keys, None if usable.all() else usable)
        vals = self._lines(s, n, values, usable)
        return Rows(kids, vals, usable, None if wild is None else wild & usable, None if odd is None else odd & usable)

    def _kids(
        self, s: int, n: int, values: dict[Node, Vector], keys: KeyTable, usable: np.ndarray | None
    ) -> np.ndarray:
        """Return the key ids of a batch : int64[n]."""
        return self._intake.key_ids(s, n, values, keys, usable)

    def _lines(self, s: int, n: int, values: dict[Node, Vector], usable: np.ndarray) -> np.ndarray:
        """Return the ordinals of all lines : int64[lines, n]."""
        picking = self._picking
        lines = picking.lines[s]
        vals = np.empty((len(lines), n), dtype=np.int64)
        for i, node in enumerate(lines):
            v = values[node]
            if s == 1 and i in picking.flags:
                there = np.ones(n, dtype=bool) if v.valid is None else v.valid
                vals[i] = there if picking.which == "last" else ~there
            elif s == 1 and i in self.ranks:
                there = usable if v.valid is None else usable & v.valid
                vals[i] = self.ranks[i].labels(v.values, node.type, there, self._moved(i))
            else:
                vals[i] = ordinals(v.values, node.type)
                if s == 1 and i < picking.n_sort and v.valid is not None:
                    vals[i][~v.valid] = 0
        return vals

    def _refuse(self, s: int, what: str, node: Node, bad: np.ndarray | None, column: object) -> None:
        if bad is not None:
            raise EvaluationError(f"{what} of the {SIDES[s]} side: {first_error(node, column, int(bad.argmax()))}")  # type: ignore[arg-type]


def _or(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    return a if b is None else b.copy() if a is None else a | b


def _outside(v: Vector, low: int, high: int) -> np.ndarray | None:
    """Return bool[n] of the values outside [low, high], or None if all lie inside."""
    values = v.values
    if len(values) == 0 or (low <= int(values.min()) and int(values.max()) <= high):
        return None
    bad = np.asarray((values < low) | (values > high), dtype=bool)
    present = has_value(v)
    return bad if present is None else bad & present
