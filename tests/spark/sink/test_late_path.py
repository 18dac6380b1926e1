"""Late rows in the output of a streaming join, and in files of their own, each exactly once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from spark.backends import BACKENDS, store_for
from spark.script import Script, rows_of

from ivjoin.errors import IvjoinError, UnsupportedError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])
BAND = "l.t BETWEEN r.t - :w AND r.t + :w"
FILES: list[dict[str, list[tuple[int, int]]]] = [
    {"left": [(1, 100), (2, 100)], "right": [(1, 101), (2, 300)]},
    {"left": [(1, 99), (2, 310)], "right": [(2, 305), (1, 299)]},
    {"left": [(1, 400)], "right": [(1, 200), (1, 401)]},
]
PAIRS = Counter({(1, 100, 101, None): 1, (2, 310, 305, None): 1, (1, 400, 401, None): 1})
LATE = Counter({
    (1, 99, None, "left row after others that promise l.t >= 100"): 1,
    (1, None, 299, "right row after others that promise r.t >= 300"): 1,
    (1, None, 200, "right row after others that promise r.t >= 305"): 1,
})  # fmt: skip


def join(a: Any, b: Any, **given: Any) -> Any:
    orders = {"left_order": "t", "right_order": "t", "buckets": 2, "params": {"w": 5}}
    return a.band_join(b, **{"on": "k", "condition": BAND, **orders, **given})


@pytest.mark.parametrize("backend", BACKENDS)
def test_late_rows_are_written_to_files_of_their_own(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    from ivjoin.spark import write_stream
    from ivjoin.spark.sink import arguments

    if backend == BACKENDS[1]:
        monkeypatch.setattr(arguments, "_INLINE_BYTES", 0)  # the workers write

    out, late = tmp_path / "pairs", tmp_path / "late"
    script = Script(spark, tmp_path, lambda a, b: join(a, b, backend=backend), SCHEMA, SCHEMA)
    with store_for(spark, backend):
        for files in (FILES[:2], FILES[2:]):  # the second goes on from the checkpoint
            for file in files:
                script.add(**file)
            joined = script.join(script.source("left"), script.source("right"))
            given: dict[str, Any] = {"trigger": "availableNow", "late_path": late}
            assert write_stream(joined, out, tmp_path / "cp", **given).awaitTermination(300)
    read = {name: rows_of(spark.read.parquet(str(name)).toArrow()) for name in (out, late)}
    assert read[out] == Counter(row[:3] for row in PAIRS)
    assert read[late] == LATE
    for wrong, error, said in (
        (joined.where("k > 0"), UnsupportedError, "a filter stands before"), (joined, IvjoinError, "of the joined rows")
    ):  # fmt: skip
        with pytest.raises(error, match=f"late_path is .*{said}"):
            write_stream(wrong, late, tmp_path / "other", late_path=late)


def test_late_rows_are_kept_without_a_key_too(spark: Any, tmp_path: Path) -> None:
    """Slices of the band: a row near a cut has a copy in two buckets, and is emitted by one of them."""
    script = Script(
        spark, tmp_path, lambda a, b: join(a, b, on=None, condition=f"l.k = r.k + 0 AND {BAND}", on_late="keep"),
        SCHEMA, SCHEMA,
    )  # fmt: skip
    for file in FILES:
        script.add(**file)
    found = Counter({(r[0] or r[2], r[1], r[3], r[4] and r[4][:5]): n for r, n in script.run().items()})
    assert found == PAIRS + Counter((*row[:3], row[3][:5]) for row in LATE)
    static = [spark.createDataFrame(rows, "k long, t long") for rows in FILES[0].values()]
    assert list(map(tuple, join(*static, on_late="keep").collect())) == [(1, 100, 101, None)]
