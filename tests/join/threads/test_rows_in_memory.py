"""How many rows of ordered files wait for their slice or are joined in slices, without a limit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivjoin import band_join
from ivjoin.stream.threads.sliced_stream import SlicedStream

ROWS, KEYS = 140_000, 5000  # of each file; the rows of a key are further apart than the bands

pytestmark = pytest.mark.usefixtures("small_slices")  # of 250 rows


@pytest.mark.parametrize(("band", "threads"), [(200, 2), (900, 1), (900, 3), (3000, 16)])
def test_rows_of_files_stay_near_the_window(band: int, threads: int, tmp_path: Path) -> None:
    """At most a thousand rows a thread and the rows that show how wide the band is, or the window alone."""
    rows = pa.table({"t": range(ROWS), "k": [t % KEYS for t in range(ROWS)]})
    for side in ("left", "right"):
        pq.write_table(rows, tmp_path / f"{side}.parquet", row_group_size=500)
    stream = band_join(
        tmp_path / "left.parquet", tmp_path / "right.parquet", on="k", left_order="t", right_order="t",
        condition=f"l.t BETWEEN r.t - {band} AND r.t + {band}", threads=threads, columns=["t"],
    )  # fmt: skip
    assert sum(batch.num_rows for batch in stream) == ROWS
    assert isinstance(stream._run.operator, SlicedStream)
    window = 2 * (2 * band + 1)
    assert stream.metrics.peak_state_rows <= max(8 * 250 + threads * 4 * 250, window) + 2 * 500
