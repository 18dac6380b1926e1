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

import pyarrow as pa

from ivjoin.plan.cutting import Cut
from ivjoin.stream.memory import Segment
from ivjoin.stream.pieces import I64_MAX, I64_MIN, Piece, Run

__all__ = ["OWNED", "Share", "Work", "marked"]

_PIECE = 16_384  # rows pushed at once: few enough for the state, enough for what Python does between two pushes
_LEAST = 65_536  # rows that are worth an operator of their own
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

    def pushes(self, done: tuple[int, int] = (0, 0)) -> list[Push]:
        """In the order of the axis, and each side in its own order of arrival, without so many rows of either."""
        found: list[Push] = []
        for p in (0, 1):
            greatest, skip = I64_MIN, done[p]
            for piece in self.pieces[p]:
                if skip >= piece.rows:
                    skip -= piece.rows
                    continue
                batch = marked(piece, self.cut)
                for i, (low, top) in enumerate(piece.spans(_PIECE)):
                    greatest = max(greatest, low)
                    some = batch.slice(i * _PIECE, _PIECE)
                    if skip:
                        some, skip = some.slice(min(skip, some.num_rows)), max(0, skip - some.num_rows)
                    if some.num_rows:
                        found.append(Push(greatest, top, p, some, piece.segment))
        found.sort(key=lambda push: (push.at, push.side))
        return found


class Work:
    """A share under way: what is left of it is asked for by the thread that joins it, and by one that would help.

    ``copies``: whether rows may be copied for one that helps.
    """

    def __init__(self, share: Share, copies: bool = True) -> None:
        self._share, self._copies = share, copies
        self._pushes = share.pushes()
        self._at = 0
        self._done = [0, 0]  # rows pushed, of either side
        self._top = share.start  # where the ranges of rows that were pushed begin, at most
        self._lock = Lock()
        self.left = share.rows

    def next(self) -> Push | None:
        """What to push next; None at the end."""
        with self._lock:
            if self._at == len(self._pushes):
                return None
            push = self._pushes[self._at]
            self._at += 1
            rows = push.batch.num_rows
            self._done[push.side] += rows
            self._top = max(self._top, push.top)
            self.left -= rows
            return push

    def half(self) -> Work | None:
        """The farther half of what is left, to be joined at the same time; None where that is not worth it."""
        with self._lock:
            if self.left < 2 * _LEAST:
                return None
            if not self._copies and not all(isinstance(p, Run) for side in self._share.pieces for p in side):
                return None
            rows, end = 0, None
            for push in self._pushes[self._at :]:
                if 2 * rows >= self.left and self._top < push.at < I64_MAX:
                    end = push.at
                    break
                rows += push.batch.num_rows
            if end is None:
                return None
            mine, other = self._share.split(end)
            copied = mine.rows + other.rows - self._share.rows
            if other.rows < _LEAST or _COPIED * copied > other.rows:
                return None
            self._share = mine
            done = self._done[0], self._done[1]
            self._pushes, self._at = mine.pushes(done), 0
            self.left = mine.rows - sum(done)
            return Work(other, self._copies)
