"""Late rows of a stream end the query by default; its checkpoint continues with ``on_late="drop"``. Without Spark."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from spark.states import Property

from ivjoin import Order
from ivjoin.errors import ColumnError, LateRowError, UnsupportedError
from ivjoin.plan.question import join_spec
from ivjoin.spark.rows.late import LateRows, check_keeps, joined_schema, kept_late
from ivjoin.spark.rows.pack import packer
from ivjoin.spark.rows.results import Results
from ivjoin.spark.state import bucket
from ivjoin.spark.state.stateful import BucketFunction

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])
LABEL, SECOND = 0, 5


class Query:
    """One bucket with two groups; a failed micro-batch leaves the states as they were."""

    def __init__(self, apart: bool = False) -> None:
        self.states: dict[str, list[Any]] = {}
        self.apart = apart  # whether late rows leave by another way than joined ones
        self.late: list[Any] = []

    def run(self, on_late: str, left: list[int], right: list[int], suffix: str = "_right") -> Counter[Any]:
        spec = join_spec(
            SCHEMA, SCHEMA, on="k", condition="l.t BETWEEN r.t - 50 AND r.t + 50", on_late="drop",
            left_order=Order("t", slack=10), right_order=Order("t", slack=10), suffix=suffix,
        ).with_late(on_late)  # fmt: skip
        late = LateRows(spec, False) if self.apart else kept_late(spec)
        function = BucketFunction(spec, 1, Results(10_000, late=late))
        packed: list[pa.RecordBatch] = []
        for side, times in enumerate((left, right)):
            zeros = pa.array([0] * len(times), pa.int32())
            keys, values = pa.array([1] * len(times)), pa.array(times, pa.int64())
            rows = pa.record_batch([zeros, keys, values], ["bucket", "k", "t"])
            packed += packer(spec, side, [LABEL], two_groups=True)(iter([rows]))
        frame = pa.Table.from_batches(packed).to_pandas()
        before = dict(self.states)
        found: Counter[Any] = Counter()
        try:
            for key, name in (((LABEL, None), "log"), ((LABEL, SECOND), "base")):
                own = frame[frame["part"].isna() == (key[1] is None)]
                for out in function(key, iter([own]), Property(self.states, name)):
                    for rows in out["rows"].dropna():
                        batch = pa.ipc.read_record_batch(rows, joined_schema(spec))
                        found.update(zip(*(c.to_pylist() for c in batch.columns), strict=True))
        except LateRowError:
            self.states = before
            raise
        self.late = [tuple(row.values()) for batch in (late.taken() if late else ()) for row in batch.to_pylist()]
        return found


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
    assert run("join", [480], [500]) == {(1, 480, 500): 2, (1, 500, 500): 1}, "a late row meets what is stored"
    assert run("drop", [480], [500]) == {(1, 480, 500): 1, (1, 500, 500): 1}


REASONS = {
    "left": "left row after others that promise l.t >= 290", "right": "right row after others that promise r.t >= 390"
}


@pytest.mark.parametrize("cached", [True, False], ids=["cached operator", "operator from its state"])
def test_late_rows_are_kept_with_the_reason_once(cached: bool) -> None:
    """On the same checkpoint as "raise" and "drop"; what is replayed from the log is not emitted again."""
    query = Query()

    def run(on_late: str, left: list[int], right: list[int]) -> Counter[Any]:
        if not cached:
            bucket._kept.clear()
        return query.run(on_late, left, right)

    assert run("raise", [100, 300], [100, 400]) == {(1, 100, 100): 1}
    assert run("keep", [289, 300], [350, 389, 400]) == {
        (1, 289, None, REASONS["left"]): 1, (1, None, 389, REASONS["right"]): 1, (1, None, 350, REASONS["right"]): 1,
    }  # fmt: skip
    assert run("keep", [500], [500]) == {(1, 500, 500, None): 1}
    assert run("drop", [289], [500]) == {(1, 500, 500): 1}
    bucket._kept.clear()
    assert query.run("keep", [501], [1], suffix="_of_right") == {
        (1, 501, 500, None): 2, (1, None, 1, "right row after others that promise r.t >= 490"): 1,
    }, "names of the output are no part of the state"  # fmt: skip


def test_late_rows_leave_by_another_way_whatever_on_late_says() -> None:
    query = Query(apart=True)
    assert query.run("raise", [100, 300], [100, 400]) == {(1, 100, 100): 1}
    assert query.run("raise", [289], [400, 410]) == {}
    assert query.late == [(1, 289, None, REASONS["left"])]


@pytest.mark.parametrize("given, what", [
    ({"how": "left_semi"}, "how='left_semi'"), ({"aggregate": {"n": ("*", "count")}}, "window_join"),
])  # fmt: skip
def test_outputs_without_a_place_for_late_rows_are_refused(given: dict[str, Any], what: str) -> None:
    with pytest.raises(UnsupportedError, match=f"on_late is 'keep' with {what}.*late_path"):
        check_keeps(join_spec(SCHEMA, SCHEMA, on="k", **given))


def test_a_column_with_the_name_of_the_reason_is_refused() -> None:
    schema = SCHEMA.append(pa.field("late_reason", pa.string()))
    with pytest.raises(ColumnError, match="adds the column 'late_reason'"):
        check_keeps(join_spec(SCHEMA, schema, on="k"))
