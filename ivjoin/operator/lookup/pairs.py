"""Find the pairs of left rows and stored right rows that satisfy the condition, and gather their columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from ivjoin.expr.nodes import Node
from ivjoin.operator.lookup.rows import Rows, gathered
from ivjoin.operator.lookup.run import Pairs, Run
from ivjoin.operator.match.residual import holds
from ivjoin.plan.layout import RowLayout

__all__ = ["Matches", "pair_columns", "true_pairs"]

Layouts = tuple[RowLayout, RowLayout]


def pair_columns(
    layouts: Layouts, rows: Rows, stored: Rows, here: np.ndarray, there: np.ndarray
) -> Callable[[str, str], pa.Array]:
    """Return a function that gathers a column of pairs for an evaluation."""

    def column(side: str, name: str) -> pa.Array:
        s, of, at = (0, rows, here) if side == "left" else (1, stored, there)
        return of.some(layouts[s].places[layouts[s].index[name]], at)

    return column


def true_pairs(
    nodes: Sequence[Node], layouts: Layouts, rows: Rows, stored: Rows, here: np.ndarray, there: np.ndarray
) -> Pairs:
    """Return the pairs for which every conjunct is TRUE. An error in a conjunct raises an EvaluationError."""
    if nodes and len(here):
        true = holds(nodes, pair_columns(layouts, rows, stored, here, there), len(here))
        here, there = here[true], there[true]
    return here, there


class Matches:
    """The pairs of left rows and right rows of all runs for which the whole condition is TRUE."""

    def __init__(
        self, layouts: Layouts, rows: Rows, runs: list[Run], pairs: list[Pairs], nodes: Sequence[Node]
    ) -> None:
        self._rows, self._layouts = rows, layouts
        self._stored: list[Rows] = []
        self._there: list[np.ndarray] = []
        heres = [np.zeros(0, dtype=np.int64)]
        seqs = [np.zeros(0, dtype=np.int64)]
        for run, (here, there) in zip(runs, pairs, strict=True):
            here, there = true_pairs(nodes, layouts, rows, run.rows, here, there)
            if len(here):
                self._stored.append(run.rows)
                self._there.append(there)
                heres.append(here)
                seqs.append(run.rows.seq[there])
        self.here, self.seq = np.concatenate(heres), np.concatenate(seqs)
        self._ends = np.cumsum([len(t) for t in self._there])
        self._kept: dict[tuple[str, str], pa.Array] = {}

    @property
    def runs(self) -> int:
        """Return the number of runs that contain at least one pair."""
        return len(self._there)

    def column(self, side: str, name: str) -> pa.Array:
        if (side, name) not in self._kept:
            if side == "left":
                layout = self._layouts[0]
                self._kept[side, name] = self._rows.some(layout.places[layout.index[name]], self.here)
            else:
                self._kept[side, name] = self.right(name, np.arange(len(self.here)))
        return self._kept[side, name]

    def axis(self, s: int, axis: int) -> np.ndarray:
        if s == 0:
            return self._rows.axes[axis].take(self.here)
        parts = [rows.axes[axis].take(there) for rows, there in zip(self._stored, self._there, strict=True)]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def right(self, name: str, at: np.ndarray) -> pa.Array:
        """Return a right column for the pairs at places ``at`` : int64[m]."""
        layout = self._layouts[1]
        place = layout.places[layout.index[name]]
        if not self._stored or not len(at):
            return pa.nulls(0, layout.stored[place])
        if len(self._stored) == 1:
            return self._stored[0].some(place, self._there[0].take(at))
        run = np.searchsorted(self._ends, at, side="right")
        parts, places = [], []
        for i, (rows, there) in enumerate(zip(self._stored, self._there, strict=True)):
            mine = np.flatnonzero(run == i)
            if len(mine):
                parts.append(rows.some(place, there[at[mine] - (int(self._ends[i]) - len(there))]))
                places.append(mine)
        return gathered(parts, places)
