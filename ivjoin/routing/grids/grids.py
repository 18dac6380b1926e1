"""Grids of the heavy keys of a streaming equi-join (Streaming HyperCube: Qiu, Papadias, Yi, EDBT 2019)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from ivjoin.arguments import known_options, worker_count
from ivjoin.errors import OptionError, came

__all__ = ["heavy_grids"]


@known_options("heavy_grids")
def heavy_grids(
    heavy: Mapping[Hashable, tuple[float, float]], workers: int,
    current: Mapping[Hashable, tuple[int, int]] | None = None,
) -> dict[Hashable, tuple[int, int]]:
    """Return powers of two for the grid of each heavy key, with as few changes as possible.

    ``heavy`` has the left and right rows of each key, and ``current`` the grids in use. With OUT, the sum of left x
    right rows over all keys, the desired sizes are rows * sqrt(workers / OUT). A size above twice the desired one is
    halved, and a size below half of it doubled. A new key starts at the nearest power of two, at the midpoint (sqrt(2)
    times) the smaller one.
    """
    workers = worker_count(workers)
    if not isinstance(heavy, Mapping):
        raise OptionError(f"heavy is {came(heavy)}; expected {{key: (left rows, right rows)}}")
    if current is not None and not isinstance(current, Mapping):
        raise OptionError(f"current is {came(current)}; expected {{key: (left size, right size)}}, or None")
    counts = {key: _counts(key, pair) for key, pair in heavy.items()}
    out = sum((a * b for a, b in counts.values()), Fraction(0))
    before = {key: _sizes(key, pair) for key, pair in (current or {}).items()}
    grids = {}
    for key, pair in counts.items():
        # exact squares of the desired sizes
        squares = [n * n * workers / out if out else Fraction(0) for n in pair]
        now = before.get(key)
        sizes = [_nearest(q) for q in squares] if now is None else [_kept(n, q) for n, q in zip(now, squares)]
        grids[key] = (sizes[0], sizes[1])
    return grids


def _nearest(square: Fraction) -> int:
    """Return the power of two with the nearest ratio to the root of ``square``; at least 1."""
    size = 1
    while square > 2 * size * size:
        size *= 2
    return size


def _kept(size: int, square: Fraction) -> int:
    while size > 1 and size * size > 4 * square:
        size //= 2
    while 4 * size * size < square:
        size *= 2
    return size


def _counts(key: Any, pair: Any) -> tuple[Fraction, Fraction]:
    plain = isinstance(pair, (tuple, list)) and len(pair) == 2
    if not plain or not all(_is_count(n) for n in pair):
        raise OptionError(f"key {came(key)} has {came(pair)} rows; expected (left rows, right rows), 0 or more")
    a, b = (Fraction(n.item() if isinstance(n, np.generic) else n) for n in pair)
    return a, b


def _is_count(n: Any) -> bool:
    number = isinstance(n, (int, float, np.integer, np.floating)) and not isinstance(n, bool)
    return number and 0 <= n < float("inf")


def _sizes(key: Any, pair: Any) -> tuple[int, int]:
    plain = isinstance(pair, (tuple, list)) and len(pair) == 2
    whole = plain and all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n > 0 for n in pair)
    if not whole or any(int(n) & (int(n) - 1) for n in pair):
        raise OptionError(f"key {came(key)} has the grid {came(pair)}; expected two powers of two, 1 or more")
    return int(pair[0]), int(pair[1])
