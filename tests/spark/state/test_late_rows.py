"""Late rows of a stream end the query by default; its checkpoint continues with ``on_late="drop"``. Without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin import Order
from ivjoin.errors import LateRowError, SnapshotError
from ivjoin.plan.cache import plan_of
from ivjoin.plan.question import join_spec
from ivjoin.spark.rows.pack import in_two, packer
from ivjoin.spark.rows.results import Results
from ivjoin.spark.state import bucket
from ivjoin.spark.state.stateful import bucket_function

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])
LABEL, SECOND = 0, 5


class State:
    """A group's state as Spark keeps it."""

    def __init__(self) -> None:
        self.stored: Any = None

    @property
    def exists(self) -> bool:
        return self.stored is not None

    @property
    def get(self) -> Any:
        return self.stored

    def update(self, value: Any) -> None:
        self.stored = value


class Query:
    """One bucket with two groups; a failed micro-batch leaves the states as they were."""

    def __init__(self) -> None:
        self.log, self.base = State(), State()

    def run(self, on_late: str, left: list[int], right: list[int]) -> Counter[Any]:
        spec = join_spec(
            SCHEMA, SCHEMA, on="k", condition="l.t BETWEEN r.t - 50 AND r.t + 50", on_late=on_late,
            left_order=Order("t", slack=10), right_order=Order("t", slack=10),
        )  # fmt: skip
        function = bucket_function(spec, 1, Results(10_000))
        packed: list[pa.RecordBatch] = []
        for side, times in enumerate((left, right)):
            zeros = pa.array([0] * len(times), pa.int32())
            keys, values = pa.array([1] * len(times)), pa.array(times, pa.int64())
            rows = pa.record_batch([zeros, keys, values], ["bucket", "k", "t"])
            packed += in_two(packer(spec, side, [LABEL]), {LABEL: SECOND})(iter([rows]))
        frame = pa.Table.from_batches(packed).to_pandas()
        before = self.log.stored, self.base.stored
        found: Counter[Any] = Counter()
        try:
            for key, state in (((LABEL, None), self.log), ((LABEL, SECOND), self.base)):
                own = frame[frame["part"].isna() == (key[1] is None)]
                for out in function(key, frames(own), state):
                    for rows in out["rows"].dropna():
                        batch = pa.ipc.read_record_batch(rows, plan_of(spec).schema)
                        found.update(zip(*(c.to_pylist() for c in batch.columns), strict=True))
        except LateRowError:
            self.log.stored, self.base.stored = before
            raise
        return found


def frames(rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    yield rows


@pytest.mark.parametrize("cached", [True, False], ids=["cached operator", "operator from its state"])
def test_late_rows_end_the_query_until_they_are_dropped(cached: bool) -> None:
    query = Query()

    def run(on_late: str, left: list[int], right: list[int]) -> Counter[Any]:
        if not cached:
            bucket._kept.clear()
        return query.run(on_late, left, right)

    assert run("raise", [100], [100]) == {(1, 100, 100): 1}
    assert run("raise", [90, 300], [91, 400]) == {(1, 90, 91): 1, (1, 100, 91): 1, (1, 90, 100): 1}, "within the slack"
    for left, right, side, said in (([289, 300], [400], "left", "1 row "), ([300], [389, 388], "right", "2 rows ")):
        with pytest.raises(LateRowError, match=f"^{said}.*late on the {side} side.*l?r?.t.*on_late=\"drop\"") as error:
            run("raise", left, right)
        assert error.value.side == side
    assert run("drop", [289, 300], [350, 389, 400]) == {}
    assert run("raise", [500], [500]) == {(1, 500, 500): 1}, "replays the dropped row without an error"
    with pytest.raises(SnapshotError, match="on_late was 'drop or raise' and is now 'join'"):
        run("join", [500], [500])
