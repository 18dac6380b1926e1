"""Tables for as-of joins, and the partners that a look at every pair gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

NAN, INFINITE = 2.0**53, 2.0**52  # above every value here, as these are above every number

ROWS = 2600, 6000


def times(rng: np.random.Generator, n: int, kind: str) -> pa.Array:
    """Values of the column that is compared: with ties, with nulls, and with values that lie in heaps."""
    if kind == "near":
        return pa.array(rng.integers(0, 20, n))
    if kind == "heaps":
        heaps = rng.choice(np.array([-(2**50), 0, 2**50]), n) + rng.integers(0, 300, n)
        return pa.array(heaps, mask=rng.random(n) < 0.02)
    if kind == "stamps":
        return pa.array(rng.integers(0, 50_000, n), mask=rng.random(n) < 0.02).cast(pa.timestamp("us"))
    values = np.round(rng.normal(0, 100, n), 1)
    for odd in (np.nan, -0.0, 0.0, np.inf, -np.inf):
        values[rng.random(n) < 0.01] = odd
    return pa.array(values, mask=rng.random(n) < 0.02, from_pandas=False)


def keys(rng: np.random.Generator, n: int, kind: str) -> pa.Array:
    if kind == "near":
        return pa.array(rng.integers(-20, 20, n), mask=rng.random(n) < 0.05)
    if kind == "far":
        return pa.array(rng.integers(0, 40, n) * 2**57)
    if kind == "many":
        return pa.array(rng.integers(0, 2500, n))
    if kind == "heavy":
        return pa.array(np.where(rng.random(n) < 0.7, 7, rng.integers(0, 2000, n)))
    return pa.array([f"name {i}" for i in rng.integers(0, 40, n)])


def numbers(values: pa.Array) -> np.ndarray:
    """As doubles, all of them finite."""
    t = values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values
    found = t.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    return np.nan_to_num(found, nan=NAN, posinf=INFINITE, neginf=-INFINITE)


def wanted(left: pa.Table, right: pa.Table, direction: str, tolerance: float | None, exact: bool) -> np.ndarray:
    """The time of each left row's partner, by all pairs; NaN for none."""
    a, b = (numbers(t["t"].combine_chunks()) for t in (left, right))
    there = [t["t"].is_valid().to_numpy() & t["k"].is_valid().to_numpy() for t in (left, right)]
    both = pa.chunked_array([*left["k"].chunks, *right["k"].chunks]).combine_chunks().dictionary_encode()
    codes = both.indices.fill_null(0).to_numpy()
    mine, theirs = codes[: len(a)], codes[len(a) :]
    out = np.full(len(a), np.nan)
    for i in np.flatnonzero(there[0]):
        d = np.abs(b - a[i])
        fits = there[1] & (theirs == mine[i]) & (exact | (b != a[i]))
        fits &= {"backward": b <= a[i], "forward": b >= a[i], "nearest": np.ones(len(b), dtype=bool)}[direction]
        if tolerance is not None:
            fits &= d <= tolerance
        at = np.flatnonzero(fits)
        if len(at):
            best = {"backward": b[at].max, "forward": b[at].min}.get(direction)
            out[i] = best() if best else b[at[np.lexsort((b[at], d[at]))[0]]]
    return out
