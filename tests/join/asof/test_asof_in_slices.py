"""As-of joins of tables in slices of a few rows, by one thread and by several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from drivers.lookup_inputs import in_small_slices

import ivjoin


def test_an_error_of_a_key_is_that_of_the_join() -> None:
    left, right = pa.table({"t": [1, 2], "k": ["1", "x"]}), pa.table({"t": [1, 2], "k": [1, 2]})
    with pytest.raises(ivjoin.IvjoinError, match="x"):
        ivjoin.asof_join(left, right, on="t", by="k", threads=2).read_all()


def test_a_stream_that_is_left_releases_its_threads() -> None:
    left = pa.table({"t": np.arange(20_000)})
    right = pa.table({"t": np.arange(20_000), "x": np.arange(20_000)})
    with in_small_slices(100, 50):
        stream = ivjoin.asof_join(left, right, on="t", threads=3)
        assert next(iter(stream)).num_rows == 50
        stream.close()
        with pytest.raises(ivjoin.ProtocolError, match="closed"):
            stream.read_all()


@pytest.mark.parametrize("direction", ["backward", "nearest"])
def test_a_right_side_in_many_pieces(direction: Any) -> None:
    rng = np.random.default_rng(8)
    left, right = (
        pa.table({"k": rng.integers(0, 40, n), "t": rng.integers(0, 50_000, n), name: np.arange(n)})
        for n, name in ((2600, "id"), (6000, "x"))
    )
    right = right.append_column("said", pa.array([f"said {i}" if i % 5 else None for i in range(len(right))]))
    whole = ivjoin.asof_join(left, right, on="t", by="k", direction=direction).read_all()
    # more rows than are concatenated before a push
    batches = [batch for start in range(0, len(right), 2100) for batch in right.slice(start, 2100).to_batches()]
    for size in (65_536, 1000):
        got = ivjoin.asof_join(left, batches, on="t", by="k", direction=direction, batch_size=size).read_all()
        columns = ["id", "t_right", "said"]
        assert got.select(columns).equals(whole.select(columns))
