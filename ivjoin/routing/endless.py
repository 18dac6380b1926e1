"""Plans for streams: light keys by their hash, heavy keys in endless slices of one width, or in a grid.

The future is unknown, so slices are numbered without end. The number and the key of a slice select its bucket.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.plan.cutting import cut_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.routing.along import PlanList, Sent
from ivjoin.routing.grids.grid_sizes import Grid
from ivjoin.routing.rows.arrays import Copies, dealt, expanded, stacked
from ivjoin.routing.rows.hashing import hash_of_rows, mixed
from ivjoin.routing.rows.reach import Axis, reach_of
from ivjoin.routing.rows.reader import Features, Reader

__all__ = ["LEAST_WIDTH", "EndlessPlan", "buckets_of", "cell_keys", "endless_plans"]

_MOST_ACROSS = 1 << 16  # rows or columns of a grid that is read from a file; each row is copied so often
_BANDS = 4  # the first slices are this many bands wide: a row of the copied side has one and a quarter copies
_WIDEST = 1 << 60
LEAST_WIDTH = 8  # of a slice; three bits of an int64 remain for the number of the plan
_LIGHT = -(1 << 61)  # the cell of light keys; no slice has this number

@dataclass(frozen=True, eq=False)
class EndlessPlan:
    """How this plan spreads the rows of a stream."""

    reader: Reader
    axis: Axis
    both: bool  # rows of both sides have a home on the axis
    hot: np.ndarray  # uint64: rising hashes of the heavy keys; without a key, all rows are spread
    width: int  # of a slice, in ordinals
    grid: Grid | None = None  # rows and columns of the grid that replaces a heavy key's slices
    used: int | None = None  # the number of buckets in use, the first ones; None for all

    @property
    def how(self) -> str:
        return self.reader.plan.how.name

    @property
    def keyed(self) -> bool:
        return bool(self.reader.reach.keys[0])

    def features(self, s: int, batch: pa.RecordBatch) -> Features:
        return self.reader.features(s, batch, self.axis, self.both)

    def copies(self, s: int, batch: pa.RecordBatch, f: Features) -> Copies:
        spread = np.ones(f.n, dtype=bool) if f.key is None else _among(f.key, self.hot)
        if f.lone is not None:
            spread &= ~f.lone
        light, at = np.flatnonzero(~spread), np.flatnonzero(spread)
        parts: list[Copies] = [(light, np.full(len(light), _LIGHT), np.ones(len(light), dtype=bool))]
        if len(at):
            parts.append(self._in_slices(s, f, at) if self.grid is None else self._in_grid(s, batch, at, self.grid))
        return stacked(parts)

    def _in_slices(self, s: int, f: Features, at: np.ndarray) -> Copies:
        low, high, home = (None if x is None else x // self.width for x in f.range_of(at))
        assert low is not None
        assert high is not None
        assert home is not None
        rows, slices = expanded(low, high - low + 1)
        # For a copied side that is not preserved, every copy may be part of a pair.
        owns = s == self.axis.divided or self.both
        return at[rows], slices, slices == home[rows] if owns else np.ones(len(rows), dtype=bool)

    @staticmethod
    def _in_grid(s: int, batch: pa.RecordBatch, at: np.ndarray, grid: Grid) -> Copies:
        across = grid[1 - s]
        mine = np.repeat(dealt(hash_of_rows(batch, at), grid[s]), across)
        other = np.tile(np.arange(across), len(at))
        cells = mine * grid[1] + other if s == 0 else other * grid[1] + mine
        return np.repeat(at, across), cells, np.ones(len(cells), dtype=bool)

    def summary(self) -> str:
        how = f"a grid {self.grid[0]} x {self.grid[1]}" if self.grid else f"slices of {self.width} ordinals"
        where = "" if self.used is None else f", in {self.used} bucket{'s' if self.used > 1 else ''}"
        if not self.keyed:
            return f"all rows in {how}{where}"
        if not len(self.hot):
            return f"keys by their hash{where}"
        return f"keys by their hash, {len(self.hot)} heavy one{'s' if len(self.hot) > 1 else ''} in {how}{where}"

    @property
    def as_json(self) -> dict[str, Any]:
        return {"hot": self.hot.tolist(), "width": self.width, "grid": self.grid, "used": self.used}

    def with_json(self, said: dict[str, Any]) -> EndlessPlan:
        """Return the plan of :attr:`as_json`; text of another form raises a plain Python error."""
        hot = np.array(sorted(int(h) for h in said["hot"]), dtype=np.uint64)
        grid = said["grid"]
        if grid is not None:
            rows, columns = map(int, grid)
            grid = rows, columns
        width, used = int(said["width"]), said.get("used")
        wide = grid is not None and not 1 <= min(grid) <= max(grid) <= _MOST_ACROSS
        if not LEAST_WIDTH <= width < 2**63 or wide or (used is not None and int(used) < 1):
            raise ValueError(f"slices of {width} ordinals, grid {grid}, {used} buckets")
        return EndlessPlan(self.reader, self.axis, self.both, hot, width, grid, None if used is None else int(used))


def endless_plans(plan: JoinPlan, hot: Iterable[int] = (), by_keys: bool = True) -> PlanList | str:
    """Return the first list of plans of a stream, or the reason why the stream cannot be cut.

    ``hot`` has the hashes of the heavy keys. Without ``by_keys``, the rows of all keys are spread like rows of one key.
    """
    if plan.spec.pick is not None:
        return "each left row takes one partner, for which all of them are compared by one operator"
    cut = cut_of(plan)
    if isinstance(cut, str):
        return cut
    theirs = {node for node, _ in (*cut.lows, *cut.highs)}
    if len(theirs) > 1:
        return f"{' and '.join(map(str, theirs))} bound {cut.node}, so the width of a slice is unknown"
    for node in (cut.node, *theirs):
        if node.op != "column":
            return f"{node} is not a column, so it may have no value where the condition has one"
    width = _BANDS * (min(by for _, by in cut.highs) - max(by for _, by in cut.lows) + 1)
    if not 0 < width < _WIDEST:
        return f"the band of {cut.node} is {'empty' if width <= 0 else 'too wide'}"
    reach = reach_of(plan)
    if not by_keys:
        reach = replace(reach, keys=([], []), null_safe=[])
    elif plan.separation.keys and not reach.keys[0]:
        return "; ".join(reach.notes)
    axis = next((a for a in reach.axes if a.divided == cut.own and a.node is cut.node), None)
    both = plan.how.preserved[1 - cut.own]
    if axis is None or axis.width is None or (both and axis.home is None):
        return "; ".join(reach.notes) or f"rows of the other side have no place on {cut.node}"
    if (why := reach.why_it_may_raise(axis)) is not None:
        return why
    keys = np.array(sorted(hot), dtype=np.uint64)
    return PlanList(
        (EndlessPlan(Reader(plan, reach), axis, both, keys, max(LEAST_WIDTH, width)),), (), axis, both, cut.falling
    )


def buckets_of(plans: PlanList, sent: Sent, batch: pa.RecordBatch, count: int) -> np.ndarray:
    """Return the bucket, 0 to count - 1, of each copy, among the ones that its plan uses : int64[m]."""
    f, rows = sent.features, sent.rows
    hashes = np.zeros(f.n, dtype=np.uint64) if f.key is None else f.key
    shift = (hashes >> np.uint64(32)).astype(np.int64)
    if f.lone is not None:
        lone = np.flatnonzero(f.lone)
        hashes = hashes.copy()
        hashes[lone] = mixed(hash_of_rows(batch, lone))
    used = np.array([min(count, p.used or count) for p in plans.plans if isinstance(p, EndlessPlan)])
    own = used[0] if (used == used[0]).all() else used[sent.plans - plans.first]
    return np.where(sent.cells == _LIGHT, dealt(hashes[rows], own), (sent.cells % own + shift[rows] % own) % own)


def cell_keys(sent: Sent) -> np.ndarray:
    """Return a number for each copy, equal for copies of one cell of one plan : int64[m].

    It is unique among live plans; the fourth plan after it reuses the number of a plan.
    """
    return sent.cells * 4 + sent.plans % 4


def _among(keys: np.ndarray, known: np.ndarray) -> np.ndarray:
    if not len(known):
        return np.zeros(len(keys), dtype=bool)
    found: np.ndarray = known[np.minimum(np.searchsorted(known, keys), len(known) - 1)] == keys
    return found
