"""The rows of a slice of an axis, as a thread takes them; what one has not come to yet, another may take half of.

A share is a join of its own: the rows of the side that is cut whose values lie in the slice, and of the other side
those that can meet one of these. It is pushed piece by piece in the order of the axis. At a value that nothing pushed
so far has reached, it can be cut in two: rows below stay with the thread that is at work, the others are a share for
one that has nothing to do, with copies of the rows that can meet rows of both (work stealing, as in Cilk: Blumofe &
Leiserson 1999; here along the band).
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from time import perf_counter

import numpy as np
import pyarrow as pa

from ivjoin.plan.cutting import Cut
from ivjoin.stream.memory import Segment
from ivjoin.stream.pieces import I64_MAX, I64_MIN, Piece, Run

__all__ = ["OWNED", "Pushes", "Share", "Work", "marked"]

# Rows pushed at once: few enough for the state and a core's cache, enough for what Python does between two pushes.
_PIECE = 8_192
_LEAST = 16_384  # rows that are worth an operator of their own
_COPIED = 8  # a share of which one row in so many were a copy is not worth it
OWNED = "owned by this slice"

_Pieces = tuple[list[Piece], list[Piece]]


def marked(piece: Piece, cut: Cut) -> pa.RecordBatch:
    """A piece's rows; with a column of who owns them, where rows of both sides can come out alone."""
    return piece.batch.append_column(OWNED, pa.array(piece.marks())) if cut.both else piece.batch


@dataclass(slots=True)
class Push:
    """Rows that are pushed at once.

    Attributes
    ----------
    at : int
        No row of its side that comes later lies below; what is pushed goes by it.
    top : int
        None of these rows' ranges begins beyond.
    segment : Segment or None
        The file in which they lie.
    """

    at: int
    top: int
    side: int
    batch: pa.RecordBatch
    segment: Segment | None = None


@dataclass(slots=True)
class Share:
    """Rows of both sides, and along what they are cut.

    Attributes
    ----------
    start : int
        Where the slice begins: rows that meet nothing lie nowhere beyond.
    """

    cut: Cut
    pieces: _Pieces
    start: int

    @property
    def rows(self) -> int:
        return sum(piece.rows for side in self.pieces for piece in side)

    def split(self, end: int) -> tuple[Share, Share]:
        """What is a join of its own below a value, and what is from it on."""
        cut = self.cut
        mine: _Pieces = ([], [])
        kept: _Pieces = ([], [])
        reach = end
        for p in (1 - cut.own, cut.own):
            for piece in self.pieces[p]:
                if p != cut.own:
                    reach = max(reach, piece.top_of_homes(end)) if cut.both else reach
                    now, rest = piece.starting_below(end), piece.ending_from(end)
                else:
                    now = piece.starting_below(reach + 1 if cut.both else end)
                    rest = piece.starting_from(end)
                if now is not None:
                    mine[p].append(now.owned_below(end))
                if rest is not None:
                    kept[p].append(rest.owned_from(end))
        return Share(cut, mine, self.start), Share(cut, kept, end)


class _Line:
    """A side's rows that are yet to be pushed, in its own order of arrival and in pieces."""

    def __init__(self, pieces: list[Piece], cut: Cut, skip: int) -> None:
        self._next = 0
        self._batches: list[pa.RecordBatch | None] = []
        self._segments: list[Segment | None] = []
        spans: list[np.ndarray] = [np.empty((5, 0), dtype=np.int64)]  # whose, first row, end, at, top
        greatest = I64_MIN
        for piece in pieces:
            if skip >= piece.rows:
                skip -= piece.rows
                continue
            low, top = piece.spans(_PIECE)
            start = np.arange(0, piece.rows, _PIECE)
            end = np.minimum(start + _PIECE, piece.rows)
            at = np.maximum.accumulate(np.maximum(low, greatest))
            greatest = int(at[-1])
            whose = np.full(len(start), len(self._batches))
            spans.append(np.array([whose, np.maximum(start, skip), end, at, top])[:, skip // _PIECE :])
            skip = 0
            self._batches.append(marked(piece, cut))
            self._segments.append(piece.segment)
        self._spans = np.concatenate(spans, axis=1)
        self._rows: list[list[int]] = self._spans.T.tolist()

    @property
    def ahead(self) -> int:
        """No row that is left lies below; beyond all values where none is left."""
        return self._rows[self._next][3] if self._next < len(self._rows) else I64_MAX + 1

    def left(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each piece that is left, below what no later row lies, and how many rows it has : int64, both."""
        _, start, end, at, _ = self._spans[:, self._next :]
        return at, end - start

    def push(self, side: int) -> Push:
        """The next piece."""
        whose, start, end, at, top = self._rows[self._next]
        self._next += 1
        batch = self._batches[whose]
        assert batch is not None
        if end == batch.num_rows:
            self._batches[whose] = None
        return Push(at, top, side, batch.slice(start, end - start), self._segments[whose])


class Pushes:
    """Rows of a share in the order of the axis, without so many rows of either side; what is taken is let go."""

    def __init__(self, share: Share, done: tuple[int, int] = (0, 0)) -> None:
        self._lines = [_Line(share.pieces[p], share.cut, done[p]) for p in (0, 1)]

    def next(self) -> Push | None:
        """Rows of the side that lies ahead least; None at the end."""
        left, right = (line.ahead for line in self._lines)
        side = int(right < left)
        return None if min(left, right) > I64_MAX else self._lines[side].push(side)

    def middle(self, top: int) -> int | None:
        """The least value beyond ``top`` before which half of the rows lie, of those where pieces begin."""
        at, rows = (np.concatenate(both) for both in zip(*(line.left() for line in self._lines), strict=True))
        order = np.argsort(at, kind="stable")
        at, rows = at[order], rows[order]
        before = np.cumsum(rows) - rows
        found = np.flatnonzero((2 * before >= rows.sum()) & (at > top) & (at < I64_MAX))
        return int(at[found[0]]) if len(found) else None


class Work:
    """A share under way: what is left of it is asked for by the thread that joins it, and by one that would help.

    ``copies``: whether rows may be copied for one that helps. ``pace``: seconds that a row takes, as far as that is
    known; 0 for not.
    """

    def __init__(self, share: Share, copies: bool = True, pace: float = 0.0) -> None:
        self._share, self._copies = share, copies
        self._pushes = Pushes(share)
        self._done = [0, 0]  # rows pushed, of either side
        self._top = share.start  # where the ranges of rows that were pushed begin, at most
        self._lock = Lock()
        self._pace = pace
        self._begun = 0.0  # when, by the clock of perf_counter
        self._under_way = 0  # rows of the push that was taken last
        self._at_most = share.rows  # rows left, for it to be cut: not asked again of what could not
        self.left = share.rows

    def next(self) -> Push | None:
        """What to push next; None at the end."""
        with self._lock:
            push = self._pushes.next()
            if push is None:
                return None
            rows = self._under_way = push.batch.num_rows
            if not any(self._done):
                self._begun = perf_counter()
            self._done[push.side] += rows
            self._top = max(self._top, push.top)
            self.left -= rows
            return push

    def half(self, worth: float = 0.0) -> Work | None:
        """The farther half of what is left, to be joined at the same time; None where that is not worth it.

        ``worth``: so many seconds of joining are.
        """
        with self._lock:
            if not 2 * _LEAST <= self.left <= self._at_most:
                return None
            done = sum(self._done)
            if done > self._under_way:
                self._pace = (perf_counter() - self._begun) / (done - self._under_way)
            if self._pace and self._pace * self.left < 2 * worth:
                return None
            if not self._copies and not all(isinstance(p, Run) for side in self._share.pieces for p in side):
                return None
            asked, self._at_most = self._at_most, self.left // 2  # a look at where to cut takes time
            end = self._pushes.middle(self._top)
            if end is None:
                return None
            mine, other = self._share.split(end)
            copied = mine.rows + other.rows - self._share.rows
            if other.rows < _LEAST or _COPIED * copied > other.rows:
                return None
            self._at_most = asked
            self._share = mine
            self._pushes = Pushes(mine, (self._done[0], self._done[1]))
            self.left = mine.rows - done
            return Work(other, self._copies, self._pace)
