"""The edge of each declared order of an input, and its frontier: the values that a later row can still have."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from ivjoin.errors import OrderError
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import NAN_ORDINAL, has_ordinal
from ivjoin.frontier.order import ordinal_range
from ivjoin.frontier.slack import as_double, doubles_below, exactly_below, slack_ticks, ticks_below
from ivjoin.shj.registers import I64_MAX, I64_MIN, TRACKER, Register, words_in, words_of

__all__ = ["Frontier", "OrderTracker"]

_SEEN = slice(words_of(TRACKER)["edge"], words_of(TRACKER)["seen_null"] + 1)  # with limit and seen_value
_LIMIT, _SEEN_VALUE, _SEEN_NULL = map(words_of(TRACKER).__getitem__, ("limit", "seen_value", "seen_null"))


class OrderTracker:
    """Track one declared order of one side: how far it has advanced, and which rows break it.

    Values are ordinals, inverted (``~v``) for a descending order, so that they always rise. Kernels track the orders
    that they can read in the same record (``shj/kernels/push/order_kernels.py``).
    """

    edge = Register(TRACKER, "edge")  # greatest (inverted) ordinal seen
    limit = Register(TRACKER, "limit")  # no later row lies below it (inverted)
    seen_value = Register(TRACKER, "seen_value")
    seen_null = Register(TRACKER, "seen_null")

    def __init__(self, node: Node, name: str, descending: bool, slack: Any, nulls: str | None) -> None:
        if not has_ordinal(node.type):
            raise OrderError(
                f"order on {name}: a value of type {node.type} cannot be an order; "
                "expected a number, a date or a time (a decimal of at most 18 digits)"
            )
        self.node, self.name, self.descending, self.nulls = node, name, descending, nulls
        self.slack = slack_ticks(slack, node.type, name)
        self._float = node.type.kind == "float"
        # The slack of doubles if it is a double, which kernels and numpy support.
        self._double = as_double(self.slack) if self._float else None
        self._range = ordinal_range(node.type)
        self._registers = np.zeros(words_in(TRACKER), dtype=np.int64)
        self._words = self._registers.data  # the same; reading single words from it takes half the time
        self.edge = self.limit = I64_MIN

    def move_to(self, record: np.ndarray) -> None:
        """Use another record: the words of a TRACKER."""
        old, self._registers, self._words = self._registers, record, record.data
        record[_SEEN] = old[_SEEN]

    @property
    def in_python(self) -> bool:
        """Return whether :meth:`late` must track it. Kernels support slack in ticks and doubles, without ``nulls``."""
        return self.nulls is not None or (self._double is None if self._float else self.slack > 2**64 - 2)

    @property
    def slack_words(self) -> tuple[int, int]:
        """Return the slack for kernels: the bits of a double, or ticks in two numbers; zeros without support."""
        if self.in_python:
            return 0, 0
        if self._double is not None:
            return int(np.float64(self._double).view(np.int64)), 0
        most = min(int(self.slack), I64_MAX)
        return most, int(self.slack) - most

    def late(self, ordinals: np.ndarray, valid: np.ndarray | None, within: bool) -> np.ndarray | None:
        """Return bool[n] of the rows that break the order, or None if all follow it, and move the edge.

        With ``within=False``, compare only with rows of earlier batches.
        """
        v = ~ordinals if self.descending else ordinals
        n = len(v)
        if n == 0:
            return None
        quiet = valid
        if self._float:
            nan = ordinals == NAN_ORDINAL
            if nan.any():
                quiet = ~nan if valid is None else valid & ~nan
        if quiet is None and self.slack == 0 and v[0] >= self.edge and (n == 1 or bool((v[1:] >= v[:-1]).all())):
            if self.nulls == "last" and self.seen_null:
                return np.ones(n, dtype=bool)
            self.edge = self.limit = int(v[-1])
            self.seen_value = True
            return None
        if quiet is not None:
            v = np.where(quiet, v, I64_MIN)
        bad: np.ndarray | None
        if within:
            before = np.maximum.accumulate(np.concatenate((np.array([self.edge]), v[:-1])))
            bad = v < self._below(before)
        else:
            bad = v < self._below(np.array([self.edge]))[0]
        if quiet is not None:
            bad &= quiet
        if self.nulls is not None:
            bad = self._null_breaks(bad, valid, n, within)
        top = int(v.max())
        if top > self.edge:
            self.edge = top
            self.limit = int(self._below(np.array([top]))[0])
        known = quiet if self.nulls is None else valid  # a NaN has no order, but is one of the values
        self.seen_value |= bool(known is None or known.any())
        return bad if bad.any() else None

    def least_after(self, edge: int) -> int:
        """Return the least (inverted) ordinal of a later row if ``edge`` is the greatest one so far."""
        return int(self._below(np.array([edge]))[0])

    def reach(self, edge: int) -> None:
        """Count the (inverted) ordinal of a row that another operator has seen."""
        if not self.seen_value or edge > self.edge:
            self.edge, self.limit, self.seen_value = edge, self.least_after(edge), 1

    def _below(self, edges: np.ndarray) -> np.ndarray:
        """Return the least (inverted) ordinal that fulfils the promise, for each edge : int64[n]."""
        if self.slack == 0:
            return edges
        if not self._float:
            return ticks_below(edges, int(self.slack))
        if self._double is not None:
            return doubles_below(edges, self._double, int(self.descending))
        return exactly_below(edges, self.slack, int(self.descending))

    def _null_breaks(self, bad: np.ndarray, valid: np.ndarray | None, n: int, within: bool) -> np.ndarray:
        null = np.zeros(n, dtype=bool) if valid is None else ~valid
        first = self.nulls == "first"
        before = np.zeros(n, dtype=bool)  # rows after which such rows may not arrive
        before[0] = self.seen_value if first else self.seen_null
        if within:
            before[1:] = ~null[:-1] if first else null[:-1]
        bad = bad | ((null if first else ~null) & np.logical_or.accumulate(before))
        self.seen_null |= bool(null.any())
        return bad

    @property
    def seen(self) -> tuple[int, int, int]:
        """Return the inputs of the intervals: the limit, and whether a value and a null were seen."""
        words = self._words
        return words[_LIMIT], words[_SEEN_VALUE], words[_SEEN_NULL]

    def interval(self, seen: tuple[int, int, int] | None = None) -> tuple[int, int]:
        """Return the ordinals that a future row can have, besides null. ``seen``: the current state, if known."""
        low, high = self._range
        limit, _, seen_null = self.seen if seen is None else seen
        if self.nulls == "last" and seen_null:
            return high, low
        if limit == I64_MIN:
            return low, high
        if not self.descending:
            return (limit if limit > low else low), high
        return (low, high) if self._float else (low, min(high, ~limit))

    @property
    def numeric_high(self) -> int | None:
        """Return for a descending float order the greatest ordinal below NaN."""
        return ~self.limit if self.descending and self._float and self.limit != I64_MIN else None

    def save(self) -> dict[str, Any]:
        return {
            "edge": self.edge, "limit": self.limit, "value": bool(self.seen_value), "null": bool(self.seen_null),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.edge, self.limit = state["edge"], state["limit"]
        self.seen_value, self.seen_null = state["value"], state["null"]


class Frontier:
    """The closed ordinal intervals that enclose expressions of every future row of one side.

    ``intervals`` maps a node to (low, high, may be null). ``matching`` does the same for the rows that can match, in
    which ``numbers`` are not NaN. ``version`` changes whenever an interval narrows.
    """

    def __init__(
        self, trackers: list[OrderTracker], bounds: Mapping[Node, tuple[int, int]],
        never_null: Set[Node] = frozenset(), numbers: Set[Node] = frozenset(),
    ) -> None:
        self.trackers = trackers
        self.never_null = never_null
        self.numbers = numbers
        self.bounds = dict(bounds)
        self.promised: dict[Node, tuple[int, int]] = {}
        self.tops: dict[Node, int] = {}  # of falling floats: the greatest promised number; a NaN may also arrive
        self.ended = False
        self.version = 0
        self.intervals: dict[Node, tuple[int, int, bool]] = {}
        self.matching: dict[Node, tuple[int, int, bool]] = {}
        self._last: tuple[int, int, int] | None = None
        # If one order is the only source: whether its value may be null, and the last interval.
        self._may_null = len(trackers) != 1 or trackers[0].node not in never_null
        self._found: tuple[int, int, bool] | None = None
        self.refresh()

    def mark(self) -> list[bytes]:
        """Return how far the orders have advanced, for :meth:`reset`."""
        return [t._words[_SEEN].tobytes() for t in self.trackers]

    def reset(self, mark: list[bytes]) -> None:
        """Move the orders back to where they were at :meth:`mark`."""
        for t, words in zip(self.trackers, mark, strict=True):
            t._registers[_SEEN] = np.frombuffer(words, dtype=np.int64)

    def refresh(self) -> bool:
        """Recompute the intervals. Return True if one of them changed."""
        if len(self.trackers) == 1 and not self.bounds and not self.promised:
            t = self.trackers[0]
            now = t.seen
            if now == self._last:
                return False
            self._last = now
            low, high = t.interval(now)
            found = (low, high, self._may_null and not (t.nulls == "first" and bool(now[1])))
            if found == self._found and (t.numeric_high is None or t.node not in self.numbers):
                return False
            self._found = found
            self.intervals = self.matching = {t.node: found}
            if self.numbers:
                self.matching = self._of_numbers()
            self.version += 1
            return True
        self._found = None
        out: dict[Node, tuple[int, int, bool]] = {}
        for node, (low, high) in (*self.bounds.items(), *self.promised.items()):
            self._meet(out, node, low, high, True)
        for t in self.trackers:
            low, high = t.interval()
            known = out.get(t.node)
            if known is not None and known[1] < NAN_ORDINAL:
                high = min(high, *self._tops_of(t.node))  # bounds exclude NaN
            self._meet(out, t.node, low, high, not (t.nulls == "first" and t.seen_value))
        old, self.intervals = (self.intervals, self.matching), out
        self.matching = self._of_numbers()
        if old == (self.intervals, self.matching):
            return False
        self.version += 1
        return True

    def _of_numbers(self) -> dict[Node, tuple[int, int, bool]]:
        """Return the intervals, without NaN where a NaN cannot match."""
        floats = [n for n in self.intervals if n in self.numbers] if self.numbers else []
        if not floats:
            return self.intervals
        out = dict(self.intervals)
        for n in floats:
            low, high, null = out[n]
            out[n] = low, min(high, NAN_ORDINAL - 1, *self._tops_of(n)), null
        return out

    def _tops_of(self, node: Node) -> list[int]:
        """Return the greatest ordinals below NaN that falling orders and their watermarks allow a node."""
        tops = [t.numeric_high for t in self.trackers if t.node is node and t.numeric_high is not None]
        return [NAN_ORDINAL, *tops, self.tops.get(node, NAN_ORDINAL)]

    def _meet(self, out: dict[Node, tuple[int, int, bool]], node: Node, low: int, high: int, null: bool) -> None:
        null = null and node not in self.never_null
        if node in out:
            a, b, c = out[node]
            low, high, null = max(low, a), min(high, b), null and c
        out[node] = (low, high, null)

    def promise(self, node: Node, ordinal: int, descending: bool) -> None:
        """Promise that no later row is below (descending: above) an ordinal. A NaN has no order and may arrive."""
        low, high = self.promised.get(node) or ordinal_range(node.type)
        if not descending:
            low = max(low, ordinal)
        elif node.type.kind != "float":
            high = min(high, ordinal)
        else:
            self.tops[node] = min(ordinal, self.tops.get(node, NAN_ORDINAL))
        self.promised[node] = (low, high)
        self.refresh()

    def narrow(self, node: Node, low: int, high: int) -> None:
        """Promise that no later row that can match is outside these ordinals. A NaN is above all of them."""
        a, b = self.promised.get(node) or ordinal_range(node.type)
        self.promised[node] = (max(low, a), min(high, b))
        self.refresh()

    def outside_promises(self, node: Node, ordinals: np.ndarray, valid: np.ndarray | None) -> np.ndarray | None:
        """Return bool[n] of the rows outside the bounds and watermarks of an expression."""
        low, high, spares_nan = self.limits_of(node)
        bad = (ordinals < low) | (ordinals > high)
        if spares_nan:
            bad &= ordinals != NAN_ORDINAL
        if valid is not None:
            bad &= valid
        return bad if bad.any() else None

    def limits_of(self, node: Node) -> tuple[int, int, bool]:
        """Return the ordinals to which bounds and watermarks limit an expression, and whether a NaN may be above them.

        Without bounds, these are the ends of int64.
        """
        low, high = I64_MIN, I64_MAX
        for source in (self.bounds, self.promised):
            if node in source:
                low, high = max(low, source[node][0]), min(high, source[node][1])
        if (low, high) == ordinal_range(node.type):
            low, high = I64_MIN, I64_MAX
        if node in self.tops:
            return low, min(high, self.tops[node]), high >= NAN_ORDINAL
        return low, high, False
