"""Sums and bands at the ends of int64: kernels and arrays, against whole numbers of Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ivjoin.plan.cutting import lies_within, shifted
from ivjoin.shj.kernels.compiling import I8, IN1, IO1, VOID, compiled
from ivjoin.shj.kernels.push import band_kernels
from ivjoin.shj.registers import I64_MAX, I64_MIN

pytestmark = pytest.mark.nojit
add_saturating, beyond, within, window = (
    band_kernels.add_saturating, band_kernels.beyond, band_kernels.lies_within, band_kernels.window
)  # fmt: skip
FAR = [2**31, 2**32, 2**53, 2**62, 2**63 - 3, 2**63 - 2]
EDGES = [0, *(n * sign + d for n in FAR for sign in (1, -1) for d in (-1, 0, 1)), 1, -1, 2, -2, 7, I64_MIN + 1, I64_MIN]


@compiled(VOID(IN1, I8, IO1, IO1))
def _sums(values: Any, by: Any, sums: Any, leaves: Any) -> None:
    for i in range(values.shape[0]):
        sums[i] = add_saturating(values[i], by)
        leaves[i] = beyond(values[i], by)


@compiled(VOID(IN1, IN1, I8, I8, IO1))
def _within(values: Any, probes: Any, low: Any, high: Any, out: Any) -> None:
    for i in range(values.shape[0]):
        out[i] = 1 if within(values[i], probes[i], low, high) else 0


@compiled(VOID(IN1, IN1, I8, IO1, IO1))
def _windows(probes: Any, bands: Any, n: Any, lows: Any, highs: Any) -> None:
    for i in range(probes.shape[0]):
        lows[i], highs[i] = window(probes, 0, bands, n, i)


def test_sums_stay_within_int64() -> None:
    values = np.array(EDGES)
    sums, leaves = np.empty_like(values), np.empty_like(values)
    for by in EDGES:
        exact = [v + by for v in EDGES]
        want = [max(I64_MIN, min(I64_MAX, x)) for x in exact]
        _sums(values, by, sums, leaves)
        assert sums.tolist() == want
        assert leaves.tolist() == [(x > I64_MAX) - (x < I64_MIN) for x in exact]
    for by in (*EDGES, I64_MIN - 5, I64_MAX + 5, 2**64, -(2**64)):
        assert shifted(values, by).tolist() == [max(I64_MIN, min(I64_MAX, v + by)) for v in EDGES]


def _holds(v: int, p: int, low: int, high: int) -> bool:
    return (low == I64_MIN or v >= p + low) and (high == I64_MAX or v <= p + high)


def test_bands_at_the_ends_of_int64() -> None:
    rng = np.random.default_rng(3)
    values, probes = (np.array(x).ravel() for x in np.meshgrid(EDGES, EDGES))
    out, lows, highs = np.empty_like(values), np.empty_like(values), np.empty_like(values)
    bands = np.zeros((2, 4), dtype=np.int64)
    for low, high in [*rng.choice(EDGES, (60, 2)).tolist(), (I64_MIN, I64_MAX), (I64_MIN, 0), (0, I64_MAX)]:
        want = [_holds(v, p, low, high) for v, p in zip(values.tolist(), probes.tolist(), strict=True)]
        _within(values, probes, low, high, out)
        assert out.astype(bool).tolist() == want
        assert lies_within(values, probes, low, high).tolist() == want
        bands[0, 2:] = low, high
        _windows(probes, bands.ravel(), 1, lows, highs)
        assert ((lows <= values) & (values <= highs)).tolist() == want
        bands[1, 2:] = low, high = rng.choice(EDGES, 2).tolist()
        _windows(probes, bands.ravel(), 2, lows, highs)
        want = [w and _holds(v, p, low, high) for w, v, p in zip(want, values.tolist(), probes.tolist(), strict=True)]
        assert ((lows <= values) & (values <= highs)).tolist() == want
