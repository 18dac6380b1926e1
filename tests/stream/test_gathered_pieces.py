"""Small pieces of an input that are put together before they are pushed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import band_join
from ivjoin.stream.sources.gathering import Pieces


def _rows(pieces: Pieces) -> list[int]:
    found = []
    while (piece := pieces.next()) is not None:
        found += piece.column("i").to_pylist()
    return found


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("sizes", [[], [0], [1] * 20, [3, 0, 5, 1, 1, 30, 2], [0, 0, 4], [50]])
def test_every_row_is_emitted_once_and_in_order(sizes: list[int], whole: bool) -> None:
    ends = np.cumsum([0, *sizes])
    batches = [pa.record_batch({"i": np.arange(a, b)}) for a, b in pairwise(ends)]
    assert _rows(Pieces(iter(batches), 10, whole)) == list(range(sum(sizes)))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_a_table_of_many_pieces_joins_as_one_of_few(threads: int) -> None:
    n = 30_000
    rng = np.random.default_rng(5)
    tables = []
    for _ in range(2):
        t, k = np.sort(rng.integers(0, n, n)), rng.integers(0, 9, n)
        tables.append(pa.table({"k": k, "t": t, "i": np.arange(n)}))
    few, many = [], []
    for table in tables:
        few.append(table)
        many.append(pa.Table.from_batches([table.slice(a, 3).combine_chunks().to_batches()[0] for a in range(0, n, 3)]))
    found = [
        band_join(
            *pair, on="k", condition="l.t BETWEEN r.t - 2 AND r.t", left_order="t", right_order="t", threads=threads
        ).read_all().sort_by([("i", "ascending"), ("i_right", "ascending")])
        for pair in (few, many)
    ]
    assert found[0].num_rows > n / 9
    assert found[0].equals(found[1])


@pytest.mark.soak
def test_more_text_than_one_array_can_hold() -> None:
    text = pa.py_buffer(np.zeros(800 << 20, dtype=np.uint8))
    offsets = pa.py_buffer(np.array([0, 800 << 20], dtype=np.int32))
    one = pa.StringArray.from_buffers(1, offsets, text)
    batches = [pa.record_batch({"i": pa.array([i]), "s": one}) for i in range(4)]
    assert _rows(Pieces(iter(batches), 10, True)) == [0, 1, 2, 3]
