"""Count frequent keys of a stream in bounded memory, in independent tasks.

Counts are exact for few keys. Beyond that, a frequent-items sketch of Apache DataSketches is used (extra ``routing``).
"""

from __future__ import annotations

import importlib
import struct
from typing import Any

import numpy as np

from ivjoin.arguments import known_options, worker_count
from ivjoin.errors import MissingPackageError, OptionError, SnapshotError, came

__all__ = ["KeyCounts"]

_HEAD = struct.Struct("<4sBBQ")
_MAGIC = b"ivkc"
_MOST_LG = 20


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
        self._exact = exact
        self.rows = 0
        self._keys = np.empty(0, dtype=np.uint64)
        self._counts = np.empty(0, dtype=np.int64)
        self._sketch: Any = None

    @property
    def is_exact(self) -> bool:
        return self._sketch is None

    def update(self, keys: np.ndarray) -> None:
        """Count the keys of a batch, uint64[n]; MissingPackageError if the sketch is needed and not installed."""
        fresh, counts = np.unique(keys, return_counts=True)
        self.rows += len(keys)
        self._add(fresh, counts)

    def merge(self, other: KeyCounts) -> None:
        self.rows += other.rows
        if other._sketch is not None:
            self._to_sketch()
            self._sketch.merge(other._sketch)
        else:
            self._add(other._keys, other._counts)

    def heavy(self) -> dict[int, int]:
        """Return keys with more than 1/workers of all rows, and an upper bound of their counts; some may have fewer."""
        least = self.rows / self.workers
        if self._sketch is None:
            found = self._counts > least
            return dict(zip(self._keys[found].tolist(), self._counts[found].tolist(), strict=True))
        kind = _datasketches().frequent_items_error_type.NO_FALSE_NEGATIVES
        items = self._sketch.get_frequent_items(kind, int(least))
        return {int(key, 16): upper for key, _, _, upper in items}

    def to_bytes(self) -> bytes:
        if self._sketch is not None:
            return _HEAD.pack(_MAGIC, 1, 1, self.rows) + bytes(self._sketch.serialize())
        body = self._keys.astype("<u8").tobytes() + self._counts.astype("<i8").tobytes()
        return _HEAD.pack(_MAGIC, 1, 0, self.rows) + body

    @classmethod
    def from_bytes(cls, blob: bytes, workers: int) -> KeyCounts:
        """Return the counts of :meth:`to_bytes`, or raise SnapshotError."""
        self = cls(workers)
        if len(blob) < _HEAD.size or blob[:4] != _MAGIC or blob[4] != 1:
            raise SnapshotError(f"{len(blob)} bytes are not key counts of this version; expected bytes of to_bytes()")
        _, _, sketched, self.rows = _HEAD.unpack_from(blob)
        body = blob[_HEAD.size :]
        if sketched:
            self._sketch = _datasketches().frequent_strings_sketch.deserialize(body)
            return self
        if len(body) % 16:
            raise SnapshotError("the key counts are truncated; expected the result of to_bytes()")
        n = len(body) // 16
        self._keys = np.frombuffer(body, dtype="<u8", count=n).astype(np.uint64)
        self._counts = np.frombuffer(body, dtype="<i8", offset=8 * n).astype(np.int64)
        return self

    def _add(self, keys: np.ndarray, counts: np.ndarray) -> None:
        if self._sketch is None and len(self._keys) + len(keys) > self._exact:
            known = np.union1d(self._keys, keys)
            if len(known) > self._exact:
                self._to_sketch()
        if self._sketch is not None:
            for key, n in zip(keys.tolist(), counts.tolist(), strict=True):
                self._sketch.update(f"{key:x}", n)
            return
        known, inverse = np.unique(np.concatenate([self._keys, keys]), return_inverse=True)
        total = np.zeros(len(known), dtype=np.int64)
        np.add.at(total, inverse, np.concatenate([self._counts, counts]))
        self._keys, self._counts = known, total

    def _to_sketch(self) -> None:
        if self._sketch is not None:
            return
        # the sketch's error is 3.5 / 2**lg of the rows, and no more than half of a worker's share is allowed
        lg = min(_MOST_LG, max(9, (7 * self.workers - 1).bit_length()))
        self._sketch = _datasketches().frequent_strings_sketch(lg)
        for key, n in zip(self._keys.tolist(), self._counts.tolist(), strict=True):
            self._sketch.update(f"{key:x}", n)
        self._keys, self._counts = self._keys[:0], self._counts[:0]


def _datasketches() -> Any:
    try:
        return importlib.import_module("datasketches")
    except ImportError as e:
        raise MissingPackageError(
            "too many distinct keys for exact counts: install datasketches (pip install 'ivjoin[routing]'), "
            "or pass a larger `exact` to KeyCounts"
        ) from e
