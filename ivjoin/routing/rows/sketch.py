"""Count frequent keys of a stream in bounded memory, in independent tasks (Misra and Gries, 1982).

Counts are exact for few keys. If more keys come, all counts are lowered by one number, and keys without a count are
dropped. Counts of several tasks are merged in the same way (Agarwal et al., *Mergeable Summaries*, PODS 2012).
"""

from __future__ import annotations

import struct

import numpy as np

from ivjoin.errors import OptionError, SnapshotError, came
from ivjoin.expr.arguments import known_options, worker_count

__all__ = ["KeyCounts"]

_HEAD = struct.Struct("<4sBQQ")
_MAGIC, _VERSION = b"ivkc", 2


class KeyCounts:
    """The number of rows of each frequent key, by its hash.

    Every key with more than 1/``workers`` of all rows is found. The error of a count is at most 1/(2 ``workers``) of
    all rows. Up to ``exact`` distinct keys are counted exactly.
    """

    @known_options("KeyCounts")
    def __init__(self, workers: int, exact: int = 1 << 16) -> None:
        self.workers = worker_count(workers)
        if isinstance(exact, bool) or not isinstance(exact, int) or exact < 1:
            raise OptionError(f"exact is {came(exact)}; expected a whole number of keys, 1 or more")
        self._most = max(exact, 2 * self.workers)
        self.rows = 0
        self._keys = np.empty(0, dtype=np.uint64)
        self._counts = np.empty(0, dtype=np.int64)
        self._lowered = 0  # by how much counts are too low, at most

    @property
    def is_exact(self) -> bool:
        return self._lowered == 0

    def update(self, keys: np.ndarray) -> None:
        """Count the keys of a batch, uint64[n]."""
        fresh, counts = np.unique(keys, return_counts=True)
        self.rows += len(keys)
        self._add(fresh, counts)

    def merge(self, other: KeyCounts) -> None:
        self.rows += other.rows
        self._lowered += other._lowered
        self._add(other._keys, other._counts)

    def heavy(self) -> dict[int, int]:
        """Return keys with more than 1/workers of all rows, and an upper bound of their counts; some may have fewer."""
        most = self._counts + self._lowered
        found = most > self.rows / self.workers
        return dict(zip(self._keys[found].tolist(), most[found].tolist(), strict=True))

    def to_bytes(self) -> bytes:
        body = self._keys.astype("<u8").tobytes() + self._counts.astype("<i8").tobytes()
        return _HEAD.pack(_MAGIC, _VERSION, self.rows, self._lowered) + body

    @classmethod
    def from_bytes(cls, blob: bytes, workers: int) -> KeyCounts:
        """Return the counts of :meth:`to_bytes`, or raise SnapshotError."""
        self = cls(workers)
        if len(blob) < _HEAD.size or blob[:4] != _MAGIC or blob[4] != _VERSION:
            raise SnapshotError(f"{len(blob)} bytes are not key counts of this version; expected bytes of to_bytes()")
        _, _, self.rows, self._lowered = _HEAD.unpack_from(blob)
        n, rest = divmod(len(blob) - _HEAD.size, 16)
        if rest:
            raise SnapshotError("the key counts are truncated; expected the result of to_bytes()")
        self._keys = np.frombuffer(blob, "<u8", n, _HEAD.size).astype(np.uint64)
        self._counts = np.frombuffer(blob, "<i8", n, _HEAD.size + 8 * n).astype(np.int64)
        return self

    def _add(self, keys: np.ndarray, counts: np.ndarray) -> None:
        known, inverse = np.unique(np.concatenate([self._keys, keys]), return_inverse=True)
        total = np.zeros(len(known), dtype=np.int64)
        np.add.at(total, inverse, np.concatenate([self._counts, counts]))
        if len(known) > self._most:
            least = int(np.partition(total, -self._most - 1)[-self._most - 1])
            self._lowered += least
            total -= least
            known, total = known[total > 0], total[total > 0]
        self._keys, self._counts = known, total
