"""A join in plain Python that says what comes out of each push: lists of rows, the promises of the sides, no index.

Values are numbers (None for null); a row is a dict of them with a number of its own, ``n``. Output rows are pairs of
these numbers, with None where a side is absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

Row = dict[str, Any]
Pairs = Counter[tuple[int | None, int | None]]


@dataclass(frozen=True)
class Question:
    """lo <= l.column - r.column <= hi for each term (None: no such end), equal keys, and a residual."""

    how: str
    terms: tuple[tuple[str, float | None, float | None], ...]
    keys: tuple[str, ...] = ()
    residual: Callable[[Row, Row], bool] | None = None
    # (column, descending, slack) for each order of a side
    orders: tuple[tuple[tuple[str, bool, float], ...], ...] = ((), ())
    bounds: tuple[dict[str, tuple[float | None, float | None]], ...] = field(default=({}, {}))
    on_late: str = "raise"
    is_float: bool = False

    def matches(self, a: Row, b: Row) -> bool:
        if any(a[k] is None or a[k] != b[k] for k in self.keys):
            return False
        for column, lo, hi in self.terms:
            x, y = a[column], b[column]
            if x is None or y is None:
                return False
            if lo is not None and not above(x, y + lo):
                return False
            if hi is not None and not above(y + hi, x):
                return False
        return self.residual is None or self.residual(a, b)


def above(x: float, y: float) -> bool:
    """``x >= y`` where NaN is the greatest value and equal to itself."""
    return x != x or x >= y


class Model:
    """What is stored and known after each call."""

    def __init__(self, question: Question) -> None:
        self.q = question
        self.stored: list[list[tuple[Row, list[bool]]]] = [[], []]
        self.edges: list[list[float | None]] = [[None] * len(o) for o in question.orders]
        self.promised: list[dict[str, list[float]]] = [
            {c: [-inf if lo is None else lo, inf if hi is None else hi] for c, (lo, hi) in b.items()}
            for b in question.bounds
        ]
        self.ended = [False, False]
        self.late = 0
        how = question.how
        self.owes = [how in ("left", "full", "left_anti"), how in ("right", "full", "right_anti")]
        self.single = {"left_semi": 0, "left_anti": 0, "right_semi": 1, "right_anti": 1}.get(how)

    @property
    def rows(self) -> int:
        return sum(map(len, self.stored))

    def span(self, p: int, column: str) -> tuple[float, float]:
        """Within which a column of later rows of side p lies."""
        low, high = self.promised[p].get(column, (-inf, inf))
        for (c, falling, slack), edge in zip(self.q.orders[p], self.edges[p], strict=True):
            if c != column or edge is None:
                continue
            if not falling:
                low = max(low, edge - slack)
            elif not self.q.is_float:  # a NaN may come at any time
                high = min(high, edge + slack)
        return low, high

    def dead(self, s: int, row: Row) -> bool:
        """Whether no later row of the other side can match."""
        if self.ended[1 - s] or any(row[k] is None for k in self.q.keys):
            return True
        for column, lo, hi in self.q.terms:
            v = row[column]
            if v is None:
                return True
            low, high = self.span(1 - s, column)
            least, most = (lo, hi) if s == 0 else (None if hi is None else -hi, None if lo is None else -lo)
            if (least is not None and v < low + least) or (most is not None and v > high + most):
                return True
        return False

    def _late(self, p: int, row: Row) -> bool:
        late = False
        for i, (column, falling, slack) in enumerate(self.q.orders[p]):
            v, edge = row[column], self.edges[p][i]
            if v is None or v != v:
                continue
            if edge is not None and (v > edge + slack if falling else v < edge - slack):
                late = True
            elif edge is None or (v < edge if falling else v > edge):
                self.edges[p][i] = v
        for column, (low, high) in self.promised[p].items():
            v = row[column]
            late |= v is not None and (v < low or v > high)
        return late

    def push(self, p: int, rows: list[Row]) -> Pairs | None:
        """The output; None if a row is late although none may be."""
        before = list(self.edges[p])
        late = [self._late(p, row) for row in rows]
        if any(late) and self.q.on_late == "raise":
            self.edges[p] = before
            return None
        self.late += sum(late)
        if self.q.on_late == "drop":
            rows = [row for row, is_late in zip(rows, late, strict=True) if not is_late]
        out: Pairs = Counter()
        others, found = self.stored[1 - p], []
        for row in rows:
            hits = [o for o in others if self._match(p, row, o[0])]
            found.append(bool(hits))
            for there in hits:
                if self.single is None:
                    out[self._pair(p, row, there[0])] += 1
                there[1][0] = True
        if self.single == 1 - p:
            if self.q.how.endswith("semi"):
                out.update(self._alone(1 - p, o) for o, met in others if met[0])
            self.stored[1 - p] = [o for o in others if not o[1][0]]
        for row, met in zip(rows, found, strict=True):
            if self.single == p and met:
                if self.q.how.endswith("semi"):
                    out[self._alone(p, row)] += 1
            elif not self.dead(p, row):
                self.stored[p].append((row, [met]))
            elif self.owes[p] and not met:
                out[self._alone(p, row)] += 1
        return out + self.prune(1 - p)

    def prune(self, s: int) -> Pairs:
        gone = [o for o in self.stored[s] if self.dead(s, o[0])]
        self.stored[s] = [o for o in self.stored[s] if not self.dead(s, o[0])]
        return Counter(self._alone(s, row) for row, met in gone if self.owes[s] and not met[0])

    def advance(self, p: int, column: str, value: float) -> Pairs:
        falling = any(c == column and down for c, down, _ in self.q.orders[p])
        span = self.promised[p].setdefault(column, [-inf, inf])
        if not falling:
            span[0] = max(span[0], value)
        elif not self.q.is_float:
            span[1] = min(span[1], value)
        return self.prune(1 - p)

    def finish(self, p: int) -> Pairs:
        self.ended[p] = True
        return self.prune(1 - p)

    def _match(self, p: int, row: Row, there: Row) -> bool:
        return self.q.matches(row, there) if p == 0 else self.q.matches(there, row)

    @staticmethod
    def _pair(p: int, row: Row, there: Row) -> tuple[int, int]:
        return (row["n"], there["n"]) if p == 0 else (there["n"], row["n"])

    @staticmethod
    def _alone(s: int, row: Row) -> tuple[int | None, int | None]:
        return (row["n"], None) if s == 0 else (None, row["n"])
