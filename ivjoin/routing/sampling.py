"""Estimate from samples of both sides the rows and output of each key, and their places on an axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.routing.counting import best_band, groups, matched
from ivjoin.routing.rows.hashing import hash_of_rows
from ivjoin.routing.rows.reach import Axis
from ivjoin.routing.rows.reader import Features, Reader
from ivjoin.shj.arrow import byte_width

__all__ = ["KeyStats", "Profile", "Ramp", "Sample"]

_MOST = 2.0
_LOOKED_AT = 1 << 15  # rows of a sample that show which columns distinguish rows


@dataclass(slots=True)
class KeyStats:
    """The estimates for each distinct key of the samples."""

    key: np.ndarray  # uint64: hashes; a single 0 without a key
    rows: tuple[np.ndarray, np.ndarray]  # left and right rows
    seen: np.ndarray  # rows in the samples
    out: np.ndarray  # output rows
    lone: float  # the number of rows that cannot match


class Sample:
    """Samples of both sides, and how many rows each sampled row represents."""

    def __init__(
        self, reader: Reader, batches: tuple[pa.RecordBatch, pa.RecordBatch], rows: tuple[float, float]
    ) -> None:
        self.reader = reader
        self.batches = batches
        self.rows = rows
        self.scale = (rows[0] / batches[0].num_rows, rows[1] / batches[1].num_rows)
        self.how = reader.plan.how
        self._band = best_band(reader, *batches)
        f = [reader.features(s, batches[s], self._band, False) for s in (0, 1)]
        self.ids = groups(f[0], f[1])
        self.lone = tuple(x.lone for x in f)
        # Output rows that each row represents. The first entry counts pairs for left rows, the second for right rows.
        self.gains = self._gains(f)
        self.keys = self._stats(f)

    @property
    def is_whole(self) -> bool:
        return self.scale[0] <= 1 and self.scale[1] <= 1

    def is_most(self, s: int) -> bool:
        """Return whether the sample of a side is large enough for its shares to be better than chance."""
        return self.scale[s] < _MOST

    def there(self, s: int) -> np.ndarray:
        """Return the rows of side s that can match : int64."""
        lone = self.lone[s]
        return np.arange(self.batches[s].num_rows) if lone is None else np.flatnonzero(~lone)

    def _gains(self, f: list[Features]) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        axis = self._band
        d = 0 if axis is None else axis.divided
        m = matched(axis, f, self.ids)
        counts = {d: m.met() * self.scale[1 - d], 1 - d: m.reached * self.scale[d]}
        laid = []
        for side in (0, 1):
            gains = []
            for s in (0, 1):
                gain = np.zeros(self.batches[s].num_rows)
                if self.how.pairs and s == side:
                    gain += self.scale[s] * counts[s]
                # many rows without a match in the sample have one; their number is not estimated
                if self.how.owes(s):
                    gain += self.scale[s] * (counts[s] == 0)
                elif self.how.semi == s:
                    gain += self.scale[s] * (counts[s] > 0)
                gains.append(gain)
            laid.append((gains[0], gains[1]))
        return laid[0], laid[1]

    def _stats(self, f: list[Features]) -> KeyStats:
        there = [self.there(s) for s in (0, 1)]
        if f[0].key is None or f[1].key is None:
            key = np.zeros(1, dtype=np.uint64)
        else:
            key = np.zeros(1 + max(int(i.max(initial=-1)) for i in self.ids), dtype=np.uint64)
            for s in (0, 1):
                hashes = f[s].key
                assert hashes is not None
                key[self.ids[s]] = hashes
        n = len(key)
        seen = [np.bincount(self.ids[s][there[s]], minlength=n) for s in (0, 1)]
        out = np.zeros(n)
        for s in (0, 1):
            out += np.bincount(self.ids[s][there[s]], weights=self.gains[0][s][there[s]], minlength=n)
        lone = sum((self.batches[s].num_rows - len(there[s])) * self.scale[s] for s in (0, 1))
        return KeyStats(key, (seen[0] * self.scale[0], seen[1] * self.scale[1]), seen[0] + seen[1], out, lone)

    def profile(self, axis: Axis, both: bool) -> Profile:
        f = [self.reader.features(s, self.batches[s], axis, both) for s in (0, 1)]
        # a pair is owned at the home of its left row, and found at the place of its divided row
        return Profile(self, axis, f, self.gains[0 if both else axis.divided])

    def dealt(self, s: int) -> tuple[list[int], float]:
        """Return columns that distinguish rows of side s almost as well as all do, and the share of distinct rows."""
        batch = self.batches[s].slice(0, _LOOKED_AT)
        n = batch.num_rows
        cheap = [i for i, t in enumerate(batch.schema.types) if byte_width(t) is not None and byte_width(t) != 1]
        whole = len(np.unique(hash_of_rows(batch))) / n
        picked: list[int] = []
        share = 0.0
        for i in cheap:
            more = len(np.unique(hash_of_rows(batch.select([*picked, i])))) / n
            if more > share * 1.01:
                picked, share = [*picked, i], more
            if share >= 0.95 * whole:
                return picked, share
        return list(range(batch.num_columns)), whole


class Profile:
    """Rows in order of key and place, so that four lookups describe any slice of any key."""

    def __init__(self, sample: Sample, axis: Axis, f: list[Features], gains: tuple[np.ndarray, np.ndarray]) -> None:
        self.axis = axis
        self.scale = sample.scale
        n = len(sample.keys.key)
        self._low: list[np.ndarray] = []
        self._high: list[np.ndarray] = []
        self._at: list[np.ndarray] = []
        self._gain: list[np.ndarray] = []
        self._ends: list[np.ndarray] = []
        for s in (0, 1):
            mine = sample.there(s)
            lone = f[s].lone
            if lone is not None:
                mine = mine[~lone[mine]]
            ids = sample.ids[s][mine]
            low, high, home = f[s].low, f[s].high, f[s].home
            assert low is not None
            assert high is not None
            assert home is not None
            self._ends.append(np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=n))]).astype(np.int64))
            self._low.append(low[mine][np.lexsort([low[mine], ids])])
            self._high.append(high[mine][np.lexsort([high[mine], ids])])
            order = np.lexsort([home[mine], ids])
            self._at.append(home[mine][order])
            self._gain.append(np.concatenate([[0.0], np.cumsum(gains[s][mine][order])]))

    def of(self, k: int, most: int, beta: float) -> Ramp:
        """Return the places at which a key can be cut, and the rows on either side of each."""
        d = self.axis.divided
        a, b = self._ends[d][k], self._ends[d][k + 1]
        places = self._at[d][a:b]
        fresh = np.flatnonzero(places[1:] != places[:-1]) + 1
        if len(fresh) > most:
            fresh = fresh[np.linspace(0, len(fresh) - 1, most).astype(np.int64)]
        below, above = places[fresh - 1], places[fresh]
        # A cut in the middle of a gap lets fewer rows reach both slices; a cut at its end lets no row from beyond it.
        middle = below + ((above.view(np.uint64) - below.view(np.uint64)) >> np.uint64(1)).view(np.int64)
        middle = np.where((middle > below) & (middle <= above), middle, above)
        cuts = np.unique(np.concatenate([above, middle]))
        begun = np.zeros((2, len(cuts) + 1))
        ended = np.zeros((2, len(cuts) + 1))
        gain = np.zeros(len(cuts) + 1)
        for s in (0, 1):
            a, b = self._ends[s][k], self._ends[s][k + 1]
            begun[s, :-1] = np.searchsorted(self._low[s][a:b], cuts) * self.scale[s]
            begun[s, -1] = (b - a) * self.scale[s]
            ended[s, 1:] = np.searchsorted(self._high[s][a:b], cuts) * self.scale[s]
            sums = self._gain[s]
            gain[:-1] += sums[a + np.searchsorted(self._at[s][a:b], cuts)] - sums[a]
            gain[-1] += sums[b] - sums[a]
        return Ramp(cuts, begun, ended, gain, beta)


@dataclass(slots=True)
class Ramp:
    """The slices of a key. Slice i to j is from cut i - 1 (0 is the beginning) to cut j (the last is the end).

    ``begun`` and ``ended`` (float64[2, m + 1]) are rows of each side that begin before cut j, and end before cut i - 1.
    ``gain`` is the output of the divided rows before cut j.
    """

    cuts: np.ndarray
    begun: np.ndarray
    ended: np.ndarray
    gain: np.ndarray
    beta: float

    def slice(self, i: int, j: int) -> tuple[float, float, float]:
        """Return the left rows, right rows and output from cut i - 1 to cut j."""
        left, right = (float(self.begun[s, j] - self.ended[s, i]) for s in (0, 1))
        return left, right, float(self.gain[j] - (self.gain[i - 1] if i else 0.0))

    def cut(
        self, size: float, slack: float, most: int, grid: tuple[int, int] = (1, 1)
    ) -> list[tuple[int, int]] | None:
        """Return slices (i, j) with a load of about ``size`` at most if possible; None for more than ``most`` slices.

        Among the places that make a slice smaller by at most ``slack``, a slice ends where the fewest rows reach both
        sides. With ``grid``, each slice is a grid, and the load is the load of its cells.
        """
        begun, ended = (rows[0] / grid[0] + rows[1] / grid[1] for rows in (self.begun, self.ended))
        beta = self.beta / (grid[0] * grid[1])
        reached = begun + beta * self.gain
        passed = ended + beta * np.concatenate([[0.0], self.gain[:-1]])
        m = len(self.cuts)
        doubled = reached[:m] - passed[1:]
        out: list[tuple[int, int]] = []
        i = 0
        while i <= m:
            if len(out) == most:
                return None
            full = float(passed[i] + size)
            j = int(np.searchsorted(reached, full, side="right")) - 1
            if j >= m:
                out.append((i, m))
                break
            j = max(j, i)
            if j < m and slack:
                least = max(i, int(np.searchsorted(reached, passed[i] + (1 - slack) * size)))
                if least < j:
                    # the fewest copied rows for the load of the slice: RecPart's measure, along one axis
                    window = slice(least, j + 1)
                    load = reached[window] - passed[i]
                    j = least + int(np.argmin((doubled[window] + 1e-3 * size) / load))
            out.append((i, j))
            i = j + 1
        return out
