"""Aggregates and picks over intervals that contain a point visit few index entries."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ivjoin
from ivjoin.shj.store.values.value_blocks import ValueBlocks

CONTAINS = "r.a <= l.t AND l.t < r.b"


def tables(n: int, keys: int = 1, seed: int = 3) -> tuple[pa.Table, pa.Table]:
    """Points, and short intervals with a few long and a few open ones."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, n * 100, n)
    b = a + np.where(rng.random(n) < 0.01, n * 50, rng.integers(1, 1000, n))
    points = pa.table({"p": np.arange(n), "t": rng.integers(0, n * 100, n), "k": rng.integers(0, keys, n)})
    return points, pa.table({
        "id": np.arange(n), "a": a, "b": pa.array(b, mask=rng.random(n) < 0.005), "k": rng.integers(0, keys, n),
        "v": rng.integers(-9, 9, n),
    })  # fmt: skip


@pytest.mark.parametrize("swept", [True, False])
def test_aggregate_reads_only_its_pairs(swept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = tables(3000)
    made: list[int] = []
    find = ValueBlocks.swept if swept else ValueBlocks.pairs

    def counted(self: ValueBlocks, *args: Any) -> Any:
        out = find(self, *args)
        assert out is not None
        made.append(len(out[0]))
        return out

    monkeypatch.setattr(ValueBlocks, "swept", counted if swept else lambda *_: None)
    monkeypatch.setattr(ValueBlocks, "pairs", pytest.fail if swept else counted)
    out = ivjoin.window_join(left, right, condition=CONTAINS, how="inner", aggregate={"n": ("*", "count")}).to_arrow()
    matches = sum(out["n"].to_pylist())
    assert matches > 3000
    assert matches <= sum(made) <= 2 * matches


LOOKS = f"""
import runpy
globals().update(runpy.run_path({__file__!r}))
from ivjoin.shj.kernels.lookup import range_kernels

looks, look = [0], range_kernels._may_hold
def counted(*args):
    looks[0] += 1
    return look(*args)
range_kernels._may_hold = counted
left, right = tables(500)
for pick in ("first", "last"):
    pushed = dict(memory_limit="1GB")  # tables are not looked up whole
    rows = ivjoin.band_join(left, right, condition=CONTAINS, pick=ivjoin.Pick("a", pick), **pushed).to_arrow().num_rows
    assert rows > 400
print(looks[0])
"""


@pytest.mark.slow
def test_a_pick_skips_intervals_that_have_ended() -> None:
    out = subprocess.run(
        [sys.executable, "-c", LOOKS], env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True,
        check=False,
    )
    assert out.returncode == 0, out.stderr
    assert 500 < int(out.stdout) < 500 * 2 * 50  # 500 * 250 to look at each interval before the point
