"""The keys that may get their own cells, and the cost of a division of all keys into cells."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ivjoin.routing.grids.grid_sizes import FREE, LEFT, RIGHT, TWOFOLD
from ivjoin.routing.grids.placing import placed
from ivjoin.routing.plan import RoutingPlan
from ivjoin.routing.rows.cells import Layout
from ivjoin.routing.rows.reach import Axis
from ivjoin.routing.sampling import Sample
from ivjoin.routing.spreading import HeavyKey, Spread

__all__ = ["Division", "HeavyKeys"]

_MOST_GRID = 4096  # rows or columns
_MOST_CUTS = 1 << 16  # places that are tried for one key
_LIGHT = 16  # light cells a worker
_FEWEST_SEEN = 6  # rows of a key in a sample, to count as evidence
_SHARE = 1 / 8  # a key lighter than this part of a worker's share is placed by its hash


@dataclass
class Division:
    """One division of all keys, along an axis or without one, with its load and copies."""

    axis: Axis | None
    both: bool
    spreads: list[Spread]
    light: np.ndarray
    worker_of: np.ndarray
    load: float

    @property
    def received(self) -> float:
        return sum(s.received for s in self.spreads)

    @property
    def in_grids(self) -> bool:
        return any(s.in_grids for s in self.spreads)


class HeavyKeys:
    """The keys of a sample that may get their own cells, and the load of the other keys."""

    def __init__(self, sample: Sample, workers: int, scheme: str, beta: float, current: RoutingPlan | None) -> None:
        self.sample = sample
        self.workers = workers
        self.scheme = scheme
        self.beta = beta
        self.never = sample.reader.plan.never
        keys = sample.keys
        self.load = keys.rows[0] + keys.rows[1] + beta * keys.out
        # The load of a worker under an even division, but at least two matching rows, which no plan divides.
        self.share = max((float(self.load.sum()) + keys.lone) / workers, 2 + beta)
        self.keyed = bool(sample.reader.reach.keys[0])
        self.mode = self._mode()
        self.heavy = self._heavy(current)
        self.light = self._light()
        self._made: dict[tuple[Axis | None, bool], list[HeavyKey]] = {}

    def _mode(self) -> str | None:
        """Return the grids that the join type allows, if the scheme uses grids."""
        if self.scheme not in ("auto", "grid") or self.never:
            return None
        left, right = self.sample.how.preserved
        return TWOFOLD if left and right else LEFT if left else RIGHT if right else FREE

    def _heavy(self, current: RoutingPlan | None) -> np.ndarray:
        """Return the keys that get cells of their own, heaviest first."""
        if not self.keyed:
            return np.zeros(1, dtype=np.int64)
        if self.scheme == "hash":
            return np.empty(0, dtype=np.int64)
        least = np.full(len(self.load), _SHARE * self.share)
        if current is not None:
            least[np.isin(self.sample.keys.key, current.layout.keys)] /= 2
        enough = self.sample.keys.seen >= (1 if self.sample.is_whole else _FEWEST_SEEN)
        found = np.flatnonzero((self.load > least) & enough)
        return found[np.argsort(-self.load[found], kind="stable")]

    def _light(self) -> np.ndarray:
        """Return the load of each light cell, without differences that chance explains."""
        if not self.keyed:
            return np.empty(0)
        n = min(_LIGHT * self.workers, max(self.workers, 1 << 15))
        keys = self.sample.keys
        mine = np.ones(len(self.load), dtype=bool)
        mine[self.heavy] = False
        cell = Layout(n, ()).light(keys.key[mine])
        loads = np.bincount(cell, weights=self.load[mine], minlength=n)
        if not self.sample.is_whole and len(cell):
            seen = np.bincount(cell, weights=keys.seen[mine], minlength=n)
            spread = float(seen.var())
            signal = max(0.0, spread - float(seen.mean())) / spread if spread else 0.0
            loads = loads.mean() + signal * (loads - loads.mean())
        return loads + keys.lone / n

    def along(self, axis: Axis | None, both: bool) -> list[HeavyKey]:
        """Return the heavy keys with the places at which the axis can be cut, if one is given."""
        if (axis, both) not in self._made:
            self._made[axis, both] = self._make(axis, both)
        return self._made[axis, both]

    def _make(self, axis: Axis | None, both: bool) -> list[HeavyKey]:
        keys = self.sample.keys
        profile = self.sample.profile(axis, both) if axis is not None else None
        most = min(_MOST_GRID, 4 * self.workers)
        return [
            HeavyKey(
                int(keys.key[k]) if self.keyed else None, float(keys.rows[0][k]), float(keys.rows[1][k]),
                float(keys.out[k]), self.beta,
                profile.of(int(k), _MOST_CUTS, self.beta) if profile is not None else None,
                # If both sides have a home, slices cannot be grids: a copy is owned by a slice, not by a cell of it.
                None if both else self.mode, not both, most, (self.sample.is_most(0), self.sample.is_most(1)),
            )
            for k in self.heavy
        ]

    def sized(self, axis: Axis | None, both: bool, heavy: list[HeavyKey], size: float, slack: float) -> Division:
        """Return the division in which no cell of a key exceeds ``size``, if possible."""
        return self.division(axis, both, [h.spread(size, slack) if h.load > size else h.one for h in heavy])

    def division(self, axis: Axis | None, both: bool, spreads: list[Spread]) -> Division:
        light = self.light
        if not self.keyed:
            cells = len(spreads[0].loads)
            spreads = [replace(spreads[0], loads=spreads[0].loads + self.sample.keys.lone / cells)]
        loads = np.concatenate([light, *(s.loads for s in spreads)]) if spreads else light
        where, load = placed(loads, self.workers)
        return Division(axis, both, spreads, light, where, load)
