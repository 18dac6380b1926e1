"""Build output batches of the best matches of left rows that no later right row can match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate, first_error
from ivjoin.errors import EvaluationError
from ivjoin.expr import ops
from ivjoin.expr.nodes import Node, sides_of
from ivjoin.operator.lookup.aggregates.source import keys_of
from ivjoin.operator.lookup.answer import Answers, LookupPlan
from ivjoin.operator.lookup.pairs import Matches
from ivjoin.operator.lookup.picks.trim import trim_of
from ivjoin.operator.lookup.rows import Rows
from ivjoin.operator.lookup.run import Pairs, Run
from ivjoin.operator.lookup.tables.ordered import rises
from ivjoin.operator.lookup.taken import TakenRows
from ivjoin.operator.match.output import in_parts
from ivjoin.outer.batches import BatchBuilder, BatchRows
from ivjoin.plan.layout import RowLayout
from ivjoin.shj.arrow import bitmap, byte_width, taken
from ivjoin.shj.sorting import order_by_key

__all__ = ["BestAnswers", "BestMatches", "padded"]

_FEW = 256  # below this number of pairs, one sort of all keys is used
_WAY_OUT = "; asof_join(direction='nearest') with how='left' or 'inner', without ties='all', takes any distance"


class BestAnswers(Answers):
    """Choose the best of the stored right rows that match left rows."""

    def __init__(self, engine: LookupPlan) -> None:
        super().__init__(engine)
        plan = engine.plan
        assert plan.spec.pick is not None
        self._pick = plan.spec.pick
        self._builder = BatchBuilder(plan.schema, plan.fields, plan.spec.batch_size, plan.spec.timezone)
        self._trim = trim_of(plan, engine.axis)
        self.taken = TakenRows() if engine.how.keep[1] else None

    def limit_output(self, rows: int) -> None:
        self._builder.batch_size = min(self._builder.batch_size, rows)

    def _asks(self, runs: list[Run]) -> bool:
        return True

    def _pairs(self, run: Run, rows: Rows, most: int) -> tuple[Pairs, int]:
        trim = self._trim if all(map(self._near, self._engine.decides())) else None
        return run.pairs(rows, run.find(rows, self._engine.terms), most, trim)

    def _near(self, node: Node) -> bool:
        """Return whether a conjunct limits the distance that ranks rows. If so, checking the nearest rows suffices."""
        return node.op in (ops.LE, ops.LT) and node.args[0] is self._pick.by[0] and node.args[1].op == "literal"

    def untaken(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Yield output for right rows that no left row has taken and no later left row can match."""
        assert self.taken is not None
        at = np.flatnonzero(~self.taken.of(rows.seq))
        for piece in self._builder.slices(len(at)):
            yield self._builder.batch(None, StoredAt(rows, at[piece], self._engine.layouts[1]))

    def without(self, batch: pa.RecordBatch, s: int = 0) -> Iterator[pa.RecordBatch]:
        widths = [byte_width(t) for t in batch.schema.types]
        for piece in self._builder.slices(batch.num_rows):
            rows = BatchRows(batch.slice(piece.start, piece.stop - piece.start), None, widths)
            yield self._builder.batch(rows if s == 0 else None, rows if s == 1 else None)

    def of(self, rows: Rows, runs: list[Run]) -> Iterator[pa.RecordBatch]:
        for looked in self.look(rows, runs):
            yield from self.emitted(looked)

    def look(self, rows: Rows, runs: list[Run]) -> Iterator[BestMatches]:
        """Yield rows in pieces, with their best matches."""
        for some, pairs in self.blocks(rows, runs):
            found = Matches(self._engine.layouts, some, runs, pairs or [], self._checks())
            yield BestMatches(some, found, self.chosen(found))

    def _checks(self) -> list[Node]:
        """Return the conjuncts that remain to be evaluated for the pairs of runs."""
        return self._engine.decides()

    def emitted(self, looked: BestMatches, done: np.ndarray | None = None) -> Iterator[pa.RecordBatch]:
        """Yield left rows with their best matches. ``done`` : bool[n], if given, selects the rows."""
        chosen = looked.chosen
        if self.taken is not None:
            self.taken.add(looked.found.seq[chosen])
        counts = np.bincount(looked.here, minlength=len(looked.rows))
        if done is not None:
            counts, chosen = np.where(done, counts, 0), chosen[done[looked.here]]
        index, pairs = padded(counts, chosen, (True if done is None else done) if self._all else None)
        left, right = self._engine.layouts

        def built(cut: slice) -> pa.RecordBatch:
            there = PairRows(looked.found, pairs[cut], right)
            return self._builder.batch(StoredAt(looked.rows, index[cut], left), there)

        for piece in self._builder.slices(len(index)):
            yield from in_parts(built, piece.start, piece.stop)

    def chosen(self, found: Matches) -> np.ndarray:
        """Return the chosen pairs, sorted by left row and then by rank : int64[p]."""
        n = len(found.here)
        if self._engine.plan.spec.picks_one and bool((found.here[1:] > found.here[:-1]).all()):
            return np.arange(n)
        keys = self._keys(found)
        if n and self._pick.k == 1 and not self._pick.ties:
            return _least(found.here, [*keys, found.seq])
        order = _order(found.here, keys, found.seq)
        h = found.here[order]
        start = np.flatnonzero(np.concatenate((np.ones(min(n, 1), dtype=bool), h[1:] != h[:-1])))
        place = np.arange(n)
        if self._pick.ties and n:
            new = np.ones(n, dtype=bool)
            new[1:] = h[1:] != h[:-1]
            for key in keys:
                k = key[order]
                new[1:] |= k[1:] != k[:-1]
            place = np.maximum.accumulate(np.where(new, place, 0))  # the place of the first row of a tie
        first = np.repeat(start, np.diff(np.append(start, n)))
        return order[place - first < self._pick.k]

    def _keys(self, found: Matches) -> list[np.ndarray]:
        """Return arrays that rank the pairs, most significant first."""
        vectors = evaluate(self._pick.by, found.column, len(found.here))
        for node, v in zip(self._pick.by, vectors, strict=True):
            if v.error is not None and v.error.any():
                way_out = _WAY_OUT if sides_of(node) == {"left", "right"} else ""
                raise EvaluationError(f"pick: {first_error(node, found.column, int(v.error.argmax()))}{way_out}")
        return keys_of(vectors, self._pick.by, self._pick.which in ("greatest", "last"))


def _least(here: np.ndarray, keys: Sequence[np.ndarray]) -> np.ndarray:
    """Return the least pair of each left row by ``keys``, most significant first : int64[left rows]."""
    at = None if rises(here) else np.argsort(here, kind="stable")
    for key in keys:
        of = here if at is None else here.take(at)
        edges = np.flatnonzero(np.concatenate(([True], of[1:] != of[:-1])))
        if len(edges) == len(of):
            break
        values = key if at is None else key.take(at)
        least = np.repeat(np.minimum.reduceat(values, edges), np.diff(np.append(edges, len(of))))
        best = np.flatnonzero(values == least)
        at = best if at is None else at.take(best)
    return np.arange(len(here)) if at is None else at


def _order(here: np.ndarray, keys: list[np.ndarray], seq: np.ndarray) -> np.ndarray:
    """Return the order of pairs by left row, keys and arrival : int64[p]."""
    if len(here) < _FEW or not rises(here):
        return np.lexsort((seq, *keys[::-1], here))
    order: np.ndarray | None = None  # pairs of one run are sorted by left row: sort only within each row
    same = here[1:] == here[:-1]
    for key in (seq, *keys[::-1]):
        values = key if order is None else key.take(order)
        if bool((same & (values[1:] < values[:-1])).any()):
            at = order_by_key(here, values.astype(np.int64, copy=False), int(here[-1]) + 1)[2]
            order = at if order is None else order.take(at)
    return np.arange(len(here)) if order is None else order


class BestMatches:
    """Left rows with their best matches among the stored right rows."""

    def __init__(self, rows: Rows, found: Matches, chosen: np.ndarray) -> None:
        # ``chosen`` and ``here`` : int64[p] are the places of the best matches in ``found``, and their left rows.
        self.rows, self.found, self.chosen, self.here = rows, found, chosen, found.here[chosen]

    @property
    def best(self) -> np.ndarray:
        """Return the place in ``found`` of each row's only best match : int64[n], or -1."""
        out = np.full(len(self.rows), -1, dtype=np.int64)
        out[self.here] = self.chosen
        return out


class StoredAt:
    """Stored rows at given places, as a BatchBuilder reads them."""

    def __init__(self, rows: Rows, at: np.ndarray, layout: RowLayout) -> None:
        self._rows, self._at, self._layout = rows, at, layout

    def __len__(self) -> int:
        return len(self._at)

    def column(self, index: int) -> pa.Array:
        return self._rows.some(self._layout.places[index], self._at)


class PairRows:
    """The right rows of pairs, as a BatchBuilder reads them. -1 is a row of NULLs."""

    def __init__(self, found: Matches, at: np.ndarray, layout: RowLayout) -> None:
        self._found, self._at = found, at
        self._names = {i: name for name, i in layout.index.items()}
        there = at >= 0
        self._there = None if there.all() else there

    def __len__(self) -> int:
        return len(self._at)

    def column(self, index: int) -> pa.Array:
        name, there = self._names[index], self._there
        if there is None:
            return self._found.right(name, self._at)
        array = self._found.right(name, self._at[there])
        if not len(array):
            return pa.nulls(len(self), array.type)
        places = pa.py_buffer(np.where(there, np.cumsum(there) - 1, 0))
        return taken(array, pa.Array.from_buffers(pa.int64(), len(self), [bitmap(there), places]))


def padded(counts: np.ndarray, found: np.ndarray, alone: np.ndarray | bool | None) -> tuple[np.ndarray, np.ndarray]:
    """Return output rows, and the match of each or -1 : (int64[m], intN[m]).

    ``found`` has ``counts[i]`` entries for row i, in the order of the rows. ``alone`` selects the rows that are emitted
    once if they have no match.
    """
    many = counts if alone is None else np.maximum(counts, np.asarray(alone, dtype=np.int64))
    index = np.repeat(np.arange(len(counts)), many)
    if len(index) == len(found):
        return index, found
    out = np.full(len(index), -1, dtype=found.dtype)
    out[counts.take(index) > 0] = found
    return index, out
