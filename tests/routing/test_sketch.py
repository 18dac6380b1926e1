"""Counts of frequent keys: exact ones, sketches, merged and sent to another process."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from ivjoin import OptionError, SnapshotError, UnsupportedError
from ivjoin.routing.rows.sketch import KeyCounts

WITH_SKETCHES = pytest.mark.skipif(find_spec("datasketches") is None, reason="datasketches is not installed")


def stream(n: int, seed: int) -> np.ndarray:
    """A third of the rows have one key, a tenth another, the others one of a million."""
    rng = np.random.default_rng(seed)
    which = rng.random(n)
    keys = rng.integers(10, 1_000_000, n).astype(np.uint64)
    keys[which < 0.43] = 2**64 - 5
    keys[which < 0.1] = 3
    return keys


def counted(n: int, exact: int, workers: int = 8) -> KeyCounts:
    counts = KeyCounts(workers, exact)
    for seed in range(4):
        counts.update(stream(n, seed))
    return counts


def test_few_keys_are_counted_exactly() -> None:
    counts = counted(1000, 1 << 16)
    assert counts.is_exact and counts.rows == 4000
    keys = np.concatenate([stream(1000, s) for s in range(4)])
    assert counts.heavy() == {2**64 - 5: int(np.count_nonzero(keys == 2**64 - 5))}
    again = KeyCounts.from_bytes(counts.to_bytes(), 8)
    assert again.heavy() == counts.heavy() and again.rows == 4000
    again.merge(counts)
    assert again.heavy() == {k: 2 * n for k, n in counts.heavy().items()}
    assert KeyCounts(8).heavy() == {} and KeyCounts.from_bytes(KeyCounts(8).to_bytes(), 8).rows == 0


@WITH_SKETCHES
def test_a_sketch_misses_no_heavy_key() -> None:
    counts = counted(20_000, 100, workers=16)
    assert not counts.is_exact
    keys = np.concatenate([stream(20_000, s) for s in range(4)])
    heavy = counts.heavy()
    for key in (2**64 - 5, 3):
        true = int(np.count_nonzero(keys == key))
        assert true <= heavy[key] <= true + counts.rows / 32
    assert len(heavy) <= 32
    other = KeyCounts.from_bytes(counts.to_bytes(), 16)
    assert other.heavy() == heavy and other.rows == counts.rows
    exact = counted(100, 1 << 16, workers=16)
    exact.merge(other)
    assert not exact.is_exact and set(exact.heavy()) >= {2**64 - 5}


@pytest.mark.skipif(find_spec("datasketches") is not None, reason="datasketches is installed")
def test_too_many_keys_name_the_extra() -> None:
    with pytest.raises(UnsupportedError, match=r"pip install 'ivjoin\[routing\]'"):
        counted(1000, 100)


def test_mistakes_are_named() -> None:
    with pytest.raises(OptionError, match="workers is 0"):
        KeyCounts(0)
    with pytest.raises(OptionError, match="exact is 0"):
        KeyCounts(8, exact=0)
    with pytest.raises(SnapshotError, match="are not key counts"):
        KeyCounts.from_bytes(b"abc", 8)
    with pytest.raises(SnapshotError, match="are truncated"):
        KeyCounts.from_bytes(counted(10, 1000).to_bytes()[:-3], 8)
