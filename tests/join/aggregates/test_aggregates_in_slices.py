"""Aggregates of tables in slices of a few rows, by one thread and by several."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from drivers.lookup_inputs import in_small_slices

import ivjoin


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_sums_are_the_same_for_any_number_of_threads(threads: int) -> None:
    rng = np.random.default_rng(3)
    left = pa.table({"t": rng.integers(0, 5000, 3000), "id": np.arange(3000)})
    right = pa.table({"t": rng.permutation(5000), "v": rng.normal(size=5000)})
    options = {"condition": "r.t BETWEEN l.t - 90 AND l.t", "how": "left", "aggregate": {"s": ("v", "sum")}}
    with in_small_slices(301, 97):
        one = ivjoin.window_join(left, right, threads=1, **options).read_all()
        several = ivjoin.window_join(left, right, threads=threads, **options).read_all()
    assert one["id"].to_pylist() == list(range(3000))
    assert several.equals(one)


def test_an_error_of_an_aggregate_comes_from_a_thread() -> None:
    n = 20_000
    left, right = pa.table({"t": np.arange(n)}), pa.table({"t": np.arange(n), "d": np.arange(n) - 15_000})
    with in_small_slices(500, 500), pytest.raises(ivjoin.EvaluationError):
        ivjoin.window_join(
            left, right, condition="r.t = l.t", how="left", aggregate={"s": ("1 / d", "sum")}, threads=3
        ).read_all()
