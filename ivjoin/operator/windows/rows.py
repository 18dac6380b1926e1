"""Stored rows of one side: their columns, keys and axis values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import Vector, evaluate
from ivjoin.errors import CapacityError
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.operator.intake import Intake, outside
from ivjoin.outer.values import has_value
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import RowLayout
from ivjoin.shj.arrow import byte_width, take
from ivjoin.shj.dictionaries import one_array
from ivjoin.shj.store.keys import KeyTable

__all__ = ["Arrived", "Rows", "joined", "read"]


@dataclass(slots=True)
class Rows:
    """Rows of a side that may match.

    Attributes
    ----------
    base : list of pa.Array or pa.ChunkedArray
        The stored columns, in the plan's order; :meth:`column` gives their values for the rows.
    seq : int64[n]
        Order of arrival.
    kids : int64[n]
        Key ids.
    axes : list of int64[n]
        Ordinals, for each axis of the side.
    absent : dict of int to bool[n]
        For an axis, the rows without a value there.
    at : int64[n] or None
        Places of the rows in ``base``. A column is gathered only when it is read.
    """

    base: list[pa.Array | pa.ChunkedArray]
    seq: np.ndarray
    kids: np.ndarray
    axes: list[np.ndarray]
    absent: dict[int, np.ndarray] = field(default_factory=dict)
    at: np.ndarray | None = None
    _gathered: dict[int, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.seq)

    def take(self, at: np.ndarray) -> Rows:
        """Return the rows at these places : int64[m]."""
        absent = {k: m for k, a in self.absent.items() if (m := a[at]).any()}
        places = at if self.at is None else self.at.take(at)
        axes = [a.take(at) for a in self.axes]
        return Rows(self.base, self.seq.take(at), self.kids.take(at), axes, absent, places).near()

    def column(self, i: int) -> pa.Array:
        """Return a stored column."""
        array = self.base[i]
        if self.at is None and isinstance(array, pa.Array):
            return array
        if i not in self._gathered:
            whole = array if isinstance(array, pa.Array) else _whole(array)
            self._gathered[i] = whole if self.at is None else take(whole, self.at, byte_width(whole.type))
        return self._gathered[i]

    @property
    def columns(self) -> list[pa.Array]:
        """All stored columns."""
        return [self.column(i) for i in range(len(self.base))]

    def apart(self) -> Rows:
        """Return a copy that owns its memory."""
        every = np.arange(len(self))
        own = [take(c, every, byte_width(c.type)) for c in self.columns]
        return Rows(own, self.seq.copy(), self.kids.copy(), [a.copy() for a in self.axes], self.absent)

    def near(self) -> Rows:
        """Return the same rows, gathered if the columns are more than twice as long as the rows need."""
        if self.at is None or not self.base or len(self.base[0]) <= 2 * len(self) + _FEW:
            return self
        return Rows(self.columns, self.seq, self.kids, self.axes, self.absent)

    def slice(self, start: int, stop: int) -> Rows:
        """Return a range of the rows without a copy."""
        cut = slice(start, stop)
        base = self.base if self.at is not None else [c.slice(start, stop - start) for c in self.base]
        return Rows(
            base, self.seq[cut], self.kids[cut], [a[cut] for a in self.axes],
            {k: a[cut] for k, a in self.absent.items()}, None if self.at is None else self.at[cut],
        )

    @property
    def nbytes(self) -> int:
        """The bytes of the rows."""
        own = self.seq.nbytes + self.kids.nbytes + sum(a.nbytes for a in (*self.axes, *self.absent.values()))
        places = 0 if self.at is None else self.at.nbytes
        return own + places + sum(c.nbytes for c in (*self.base, *self._gathered.values()))

    def span(self, axis: int) -> tuple[int, int] | None:
        """Return the least and greatest ordinal of an axis; None if no row has a value."""
        values = self.axes[axis]
        if axis in self.absent:
            values = values[~self.absent[axis]]
        return (int(values.min()), int(values.max())) if len(values) else None

    def outside(self, bounds: Sequence[tuple[int, int]] | None) -> np.ndarray:
        """Return bool[n]: rows that no future row can match. ``bounds``: closed, by axis; None if no row follows."""
        out = np.full(len(self), bounds is None)
        for a, (low, high) in enumerate(bounds or ()):
            beyond = None
            if low > I64_MIN:
                beyond = self.axes[a] < low
            if high < I64_MAX:
                above = self.axes[a] > high
                beyond = above if beyond is None else beyond | above
            if beyond is not None:
                out |= beyond & ~self.absent[a] if a in self.absent else beyond
        return out


I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_FEW = 64  # rows that are not worth a check
_SHORT, _MOST = 512, 1 << 30  # chunks of fewer rows on average are concatenated, up to so many bytes


def joined(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows."""
    if len(parts) == 1:
        return parts[0]
    absent: dict[int, np.ndarray] = {}
    for a in {a for p in parts for a in p.absent}:
        absent[a] = np.concatenate([p.absent[a] if a in p.absent else np.zeros(len(p), dtype=bool) for p in parts])
    at = None
    if any(p.at is not None for p in parts) and parts[0].base:
        starts = np.cumsum([0, *(len(p.base[0]) for p in parts)])
        own = (np.arange(len(p)) if p.at is None else p.at for p in parts)
        at = np.concatenate([a + start for a, start in zip(own, starts[:-1], strict=True)])
    return Rows(
        [_laid([a for p in parts for a in _chunks(p.base[i])]) for i in range(len(parts[0].base))],
        np.concatenate([p.seq for p in parts]), np.concatenate([p.kids for p in parts]),
        [np.concatenate([p.axes[i] for p in parts]) for i in range(len(parts[0].axes))], absent, at,
    ).near()  # fmt: skip


def _laid(chunks: list[pa.Array]) -> pa.Array | pa.ChunkedArray:
    """Return chunks as one column; concatenated if they are short, because each chunk costs time and memory."""
    if len(chunks) * _SHORT > sum(map(len, chunks)) and sum(c.nbytes for c in chunks) < _MOST:
        return one_array(chunks)
    return pa.chunked_array(chunks)


def _chunks(array: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return [array] if isinstance(array, pa.Array) else array.chunks


@dataclass(slots=True)
class Arrived:
    """The evaluated rows of a batch.

    Attributes
    ----------
    rows : Rows
        The rows that may match.
    usable : bool[n] or None
        Which rows of the batch these are; None for all.
    wild : bool
        Whether the whole condition has to decide the pairs of some row.
    key_erred : bool
        Whether a computed key has an error for some row.
    """

    rows: Rows
    usable: np.ndarray | None
    wild: bool
    key_erred: bool


def read(
    plan: JoinPlan, s: int, columns: Sequence[pa.Array], seq: np.ndarray, layout: RowLayout, intake: Intake,
    keys: KeyTable, every: Sequence[pa.Array] | None = None,
) -> Arrived:
    """Evaluate rows of side s: keys, axes, filters and guards.

    Parameters
    ----------
    columns : list of pa.Array
        The stored columns.
    keys : KeyTable
        Gives ids to keys that are not one whole number.
    every : list of pa.Array, optional
        All columns of the side, to evaluate filters. Stored rows have passed them.
    """
    side, n = plan.sides[s], len(seq)
    filters = side.filters if every is not None else []
    guards = [g for g, _, _ in side.guards] if every is not None else []
    nodes = list(dict.fromkeys([*side.keys, *side.axes, *filters, *guards]))
    from_all = every

    def column(_: str, name: str) -> pa.Array:
        i = layout.index[name]
        return from_all[i] if from_all is not None else columns[layout.places[i]]

    values = dict(zip(nodes, evaluate(nodes, column, n), strict=True)) if nodes else {}
    usable, wild, key_erred = np.ones(n, dtype=bool), plan.raises, False
    for node in filters:
        v = values[node]
        true = np.asarray(v.values if v.valid is None else v.values & v.valid, dtype=bool)
        erred = _erred(v)
        if erred is not None:
            true, wild = true | erred, True
        usable &= true
    for node, low, high in side.guards if every is not None else ():
        wild = wild or outside(values[node], low, high) is not None or _erred(values[node]) is not None
    if plan.never:
        usable[:] = False
    for node, safe in zip(side.keys, plan.null_safe, strict=True):
        v = values[node]
        if _erred(v) is not None:
            key_erred = True
        if not safe and v.valid is not None:
            usable &= v.valid
    axes, absent = [], {}
    for a, node in enumerate(side.axes):
        v = values[node]
        axes.append(np.ascontiguousarray(ordinals(v.values, node.type)))
        erred = _erred(v)
        if a < side.band_axes:
            if v.valid is not None:
                usable &= v.valid if erred is None else v.valid | erred
            wild = wild or erred is not None
        elif node in side.checked:
            wild = wild or erred is not None
        there = has_value(v)
        if there is not None and not there.all():
            absent[a] = ~there
    kids = _kids(plan, s, values, n, intake, keys) if not key_erred else np.zeros(n, dtype=np.int64)
    rows = Rows(list(columns), seq, kids, axes, absent)
    if usable.all():
        return Arrived(rows, None, wild, key_erred)
    return Arrived(rows.take(np.flatnonzero(usable)), usable, wild, key_erred)


def _kids(
    plan: JoinPlan, s: int, values: dict[Node, Vector], n: int, intake: Intake, keys: KeyTable
) -> np.ndarray:
    """Return the key ids of n rows : int64[n]. A key of one whole number is its own id."""
    side = plan.sides[s]
    if plan.int_keys:
        return np.ascontiguousarray(ordinals(values[side.keys[0]].values, side.keys[0].type))
    return intake.key_ids(s, n, values, keys, None)


def _erred(v: Vector) -> np.ndarray | None:
    return v.error if v.error is not None and v.error.any() else None


def _whole(array: pa.ChunkedArray) -> pa.Array:
    try:
        return one_array(array.chunks)
    except (pa.ArrowCapacityError, pa.ArrowInvalid) as e:
        raise CapacityError(
            f"an aggregate reads {array.nbytes:,} bytes of stored rows in a column of type {array.type}, which holds "
            "at most 2,147,483,647; cast text to large_string, and bytes to large_binary, in the input") from e
