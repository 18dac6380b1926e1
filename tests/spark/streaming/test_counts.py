"""The counters of streaming joins, read from a query's progress."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin.spark.rows.metrics import metrics
from ivjoin.spark.rows.results import COUNTS, DELAYS


def text(bucket: int, begin: int) -> str:
    return ",".join(str(begin + i) for i in range(len(COUNTS))) + f",{bucket}"


def progress(batch: int, **observed: Any) -> dict[str, Any]:
    return {"batchId": batch, "observedMetrics": {name.replace("_", "#"): row for name, row in observed.items()}}


def test_counts_of_turns_are_summed_and_reported_by_bucket() -> None:
    first = progress(0, ivjoin_7={"turns": [text(1, 100), text(0, 10)]})
    [counts] = metrics(first)
    assert (counts["batch"], counts["join"]) == (0, "ivjoin")
    told = [(i, name) for i, name in enumerate(COUNTS) if name not in DELAYS]
    assert [counts[name] for _, name in told] == [110 + 2 * i for i, _ in told]
    total, peak = (COUNTS.index(name) for name in DELAYS)
    assert counts["production_delay_us"] == (110 + 2 * total) // counts["rows_out"]
    assert counts["peak_production_delay_us"] == 100 + peak, "the greatest of any bucket"
    names = ("left_rows_in", "right_rows_in", "rows_out", "state_rows")
    assert counts["buckets"] == [
        {"bucket": bucket} | {n: begin + COUNTS.index(n) for n in names} | {
            "production_delay_us": (begin + total) // (begin + COUNTS.index("rows_out")),
            "peak_production_delay_us": begin + peak,
        }
        for bucket, begin in ((0, 10), (1, 100))
    ]  # fmt: skip


@pytest.mark.parametrize("row", [{"turns": []}, {"turns": None}, {"state_rows": None}])
def test_a_micro_batch_without_turns_counts_nothing(row: dict[str, Any]) -> None:
    assert metrics(progress(3, ivjoin_1=row)) == []


def test_sums_by_spark_are_reported_unchanged() -> None:
    sums = {"state_rows": 5, "rows_out": 2}
    query = SimpleNamespace(recentProgress=[progress(0, ivjoin_2=sums), progress(1, ivjoin_2={"turns": [text(4, 0)]})])
    first, second = metrics(query)
    assert first == {"batch": 0, "join": "ivjoin", "buckets": [], **sums}
    assert second["buckets"][0]["bucket"] == 4  # type: ignore[index]


def test_sums_of_delays_are_reported_like_other_counts() -> None:
    row = {"state_rows": 5, "rows_out": 4, "delay_us": 10, "peak_delay_us": 7}
    [counts] = metrics(progress(0, ivjoin_1=row))
    assert (counts["production_delay_us"], counts["peak_production_delay_us"]) == (2, 7)
    assert not set(DELAYS) & set(counts)
    [counts] = metrics(progress(0, ivjoin_1=row | {"rows_out": 0, "delay_us": 0, "peak_delay_us": 0}))
    assert counts["production_delay_us"] == 0


def test_values_and_schema_apart_as_connect_gives_them() -> None:
    apart = {"values": [[text(0, 1)]], "schema": {"fields": [{"name": "turns"}]}}
    [counts] = metrics(progress(0, ivjoin_1=apart))
    assert counts["left_rows_in"] == 1
