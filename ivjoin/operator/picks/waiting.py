"""Left rows that wait, each with its best match so far, and the comparison of two matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ivjoin.expr.types import Type
from ivjoin.operator.picks.distance import compared
from ivjoin.operator.picks.offered import Run
from ivjoin.operator.picks.payload import Chunks, joined
from ivjoin.shj.arrow import taken, whole_numbers

__all__ = ["Better", "Waiting"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Better:
    """Which of two right rows a left row takes.

    Attributes
    ----------
    which : str
    n_sort : int
    near : int
        The left line that distances are measured from.
    type : Type or None
        The type of the values whose distances are compared.
    step : int
        Number of ticks of the first line in one tick of the second, if right rows have a coarser unit; else 0. A value
        past the range of the first line is its least or greatest value there. Its distance follows from the second.
    """

    which: str
    n_sort: int
    near: int
    type: Type | None
    step: int = 0

    def __call__(self, of: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return bool[n]: whether ``a`` is better than ``b`` : int64[lines, n]. ``of``: the values to be near to."""
        if self.type is not None:
            out = compared(of, a[0], b[0], self.type)
            if self.step:
                past = (np.minimum(a[0], b[0]) == I64_MIN) | (np.maximum(a[0], b[0]) == I64_MAX)
                for i in np.flatnonzero(past).tolist():
                    first, second = (abs(self._exact(x[:, i]) - int(of[i])) for x in (a, b))
                    out[i] = (first > second) - (first < second)
        else:
            out = np.zeros(a.shape[1], dtype=np.int8)
        for x, y in zip(a[: self.n_sort], b[: self.n_sort], strict=True):
            less = (x > y).astype(np.int8) - (x < y).astype(np.int8)
            out = np.where(out == 0, less, out)
        return out > 0 if self.which == "last" else out < 0

    def _exact(self, lines: np.ndarray) -> int:
        value = int(lines[0])
        if value not in (I64_MIN, I64_MAX):
            return value
        return int(lines[1]) * self.step if len(lines) > 1 else value << 64


@dataclass(slots=True)
class Waiting:
    """Left rows that are not emitted yet.

    Attributes
    ----------
    batch : pa.RecordBatch or None
        The stored columns; None if they lie in ``filed``.
    kids : int64[n]
        Key ids.
    vals : int64[lines, n]
    free : uint8[n]
        Rows that every right row of their key may match, because a term has an error for them; empty without such.
    best : int64[n]
        Numbers of the best matches so far, -1 for none.
    best_vals : int64[lines, n]
    seen : bool[n]
        Whether the row was compared with all right rows so far. If not, it was compared with none.
    filed : Chunks or None
        The stored columns in files.
    at : int64[n]
        The rows of ``filed``, which rise; empty if the columns are in memory.
    """

    batch: pa.RecordBatch | None
    kids: np.ndarray
    vals: np.ndarray
    free: np.ndarray
    best: np.ndarray
    best_vals: np.ndarray
    seen: np.ndarray
    filed: Chunks | None = None
    at: np.ndarray = field(default_factory=lambda: _NONE)
    low: list[int] = field(init=False)  # of each line
    high: list[int] = field(init=False)
    some_seen: bool = field(init=False)

    def __post_init__(self) -> None:
        self.summed_up()

    @classmethod
    def of(cls, batch: pa.RecordBatch, kids: np.ndarray, vals: np.ndarray, free: np.ndarray, n_sort: int) -> Waiting:
        """Return rows that have just arrived."""
        n = batch.num_rows
        return cls(
            batch, kids, vals, free, np.full(n, -1, dtype=np.int64), np.zeros((n_sort, n), dtype=np.int64),
            np.zeros(n, dtype=bool),
        )

    def __len__(self) -> int:
        return len(self.kids)

    @property
    def nbytes(self) -> int:
        arrays = (self.kids, self.vals, self.free, self.best, self.best_vals, self.seen, self.at)
        return (0 if self.batch is None else int(self.batch.nbytes)) + sum(a.nbytes for a in arrays)

    def column(self, i: int, rows: np.ndarray | slice) -> pa.Array:
        """Return the i-th stored column of some rows."""
        if self.filed is not None:
            return self.filed.column(i, self.at[rows])
        assert self.batch is not None
        column = self.batch.column(i)
        if isinstance(rows, slice):
            return column.slice(rows.start, rows.stop - rows.start)
        return taken(column, whole_numbers(rows))

    def stored(self) -> pa.RecordBatch:
        """Return all stored columns of the rows."""
        if self.batch is not None:
            return self.batch
        assert self.filed is not None
        schema = self.filed.schema
        return pa.RecordBatch.from_arrays([self.filed.column(i, self.at) for i in range(len(schema))], schema=schema)

    def lie_in(self, filed: Chunks) -> None:
        """Move the stored columns to the end of ``filed``."""
        if self.batch is not None and len(self.batch.schema):
            self.filed, self.at = filed, np.arange(filed.rows, filed.rows + len(self))
            filed.add(self.batch)
            self.batch = None

    def summed_up(self) -> None:
        """Update the extremes and ``some_seen`` after rows or matches have changed."""
        self.low = [int(line.min(initial=I64_MAX)) for line in self.vals]
        self.high = [int(line.max(initial=I64_MIN)) for line in self.vals]
        self.some_seen = bool(self.seen.any())

    def offer(self, rows: np.ndarray, run: Run, at: np.ndarray, better: Better) -> None:
        """Give rows, each named once, the rows of a run at ``at`` as their best match where these are better."""
        new = run.vals[0].take(at)[None] if better.n_sort == 1 else run.vals[: better.n_sort].take(at, axis=1)
        old = self.best[rows]
        if (old < 0).all():
            self.best[rows] = run.rows[at]
            self.best_vals[:, rows] = new
            return
        of = self.vals[better.near].take(rows) if better.near >= 0 else rows
        won = better(of, new, self.best_vals.take(rows, axis=1)) | (old < 0)
        rows, at = rows[won], at[won]
        self.best[rows] = run.rows[at]
        self.best_vals[:, rows] = new[:, won]

    def found(self, run: Run, at: np.ndarray) -> None:
        """Set the first match of all rows to the rows of a run at ``at``; -1 for no match."""
        none = at < 0
        run.rows.take(at, out=self.best, mode="wrap")
        run.vals[0].take(at, out=self.best_vals[0], mode="wrap")
        if none.any():
            self.best[none] = -1

    def only(self, keep: np.ndarray) -> Waiting:
        """Return the marked rows : bool[n]."""
        at = np.flatnonzero(keep)
        return Waiting(
            None if self.batch is None else self.batch.take(whole_numbers(at)), self.kids[at],
            np.ascontiguousarray(self.vals[:, at]), self.free[at] if len(self.free) else self.free, self.best[at],
            np.ascontiguousarray(self.best_vals[:, at]), self.seen[at], self.filed,
            self.at[at] if self.filed is not None else self.at,
        )

    @classmethod
    def joined(cls, parts: Sequence[Waiting]) -> Waiting:
        """Concatenate parts, in memory."""
        free = parts[0].free
        if any(len(p.free) for p in parts):
            free = np.concatenate([p.free if len(p.free) else np.zeros(len(p), dtype=np.uint8) for p in parts])
        return cls(
            joined([p.stored() for p in parts]), np.concatenate([p.kids for p in parts]),
            np.concatenate([p.vals for p in parts], axis=1), free, np.concatenate([p.best for p in parts]),
            np.concatenate([p.best_vals for p in parts], axis=1), np.concatenate([p.seen for p in parts]),
        )
