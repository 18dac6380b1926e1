"""Every join type, with late rows: the rows of each micro-batch by a model, and of all of them by DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from oracle import HOWS
from spark.decisions import (
    BAND,
    CLOSING,
    COLUMNS,
    ROWS,
    SLACK,
    as_table,
    drawn,
    first_decided,
    kept_and_late,
    spec_for,
)
from spark.script import Script, rows_of
from spark.second_opinion import joined

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin.frontier.order import Order
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.cache import plan_of
from ivjoin.plan.question import join_spec
from ivjoin.plan.spec import JoinSpec
from ivjoin.spark.rows.pack import Seen
from ivjoin.spark.state.bucket import Arrivals, new_operator, play


@pytest.mark.spark
@pytest.mark.one_in(7)
@pytest.mark.parametrize("how", HOWS)
def test_rows_are_emitted_in_the_first_micro_batch_that_decides_them(spark: Any, tmp_path: Path, how: str) -> None:
    def join(a: Any, b: Any) -> Any:
        return a.band_join(
            b, on="k", condition=BAND, how=how, left_order=Order("t", slack=SLACK), right_order="t", buckets=3,
            on_late="drop",
        )

    left, right = [*drawn(1), CLOSING[0]], [*drawn(2), CLOSING[1]]
    script = Script(spark, tmp_path, join, ROWS, ROWS)
    script.add_all(left, right)
    got = script.run_by_batch()
    kept, late = kept_and_late(left, right)
    assert late > 5
    assert sum(c["late_rows"] for c in script.counts()) == late
    assert got == first_decided(*kept, how)
    tables = [as_table(rows[:-1]) for rows in kept]
    whole = sum(got, Counter())
    without_closing = Counter({row: n for row, n in whole.items() if row[0] not in (-1, -2)})
    assert without_closing == joined(*tables, how, f"l.k = r.k AND {BAND}", COLUMNS)


@pytest.mark.one_in(29)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("restored", [0.0, 0.5, 1.0], ids=["kept", "now and then restored", "always restored"])
def test_buckets_decide_as_the_model_does(how: str, restored: float) -> None:
    """The same without Spark, over more draws: three buckets, with operators in memory or read back."""
    spec = spec_for(how, 65536)
    for seed in range(8):
        rng = random.Random(seed)
        left, right = [*drawn(seed), CLOSING[0]], [*drawn(seed + 1000), CLOSING[1]]
        operators = [new_operator(spec) for _ in range(3)]
        got = []
        for new in zip(left, right, strict=True):
            out: Counter[Any] = Counter()
            for bucket, op in enumerate(operators):
                for batch in play(op, spec, _arrivals(spec, new, bucket)):
                    out += rows_of(pa.Table.from_batches([batch]))
                if rng.random() < restored:
                    operators[bucket] = SymmetricHashJoin.restore(op.snapshot())
            got.append(out)
        assert got == first_decided(*kept_and_late(left, right)[0], how), seed


def _arrivals(spec: JoinSpec, new: tuple[list[Any], list[Any]], bucket: int) -> Arrivals:
    """A bucket's rows (keys are divided by three) and how far all rows of each side have come."""
    seen = (Seen(plan_of(spec), 0), Seen(plan_of(spec), 1))
    packed: tuple[list[bytes], list[bytes]] = ([], [])
    for side, rows in enumerate(new):
        for batch in _batches(rows):
            seen[side].show(batch)
        for batch in _batches([r for r in rows if (r[0] or 0) % 3 == bucket]):
            packed[side].append(batch.serialize().to_pybytes())
    return Arrivals(packed, seen)


def _batches(rows: list[Any]) -> Iterator[pa.RecordBatch]:
    """The rows in one batch, if there are any."""
    if rows:
        yield from as_table([rows]).to_batches()


def test_a_bucket_takes_what_is_seen_of_orders_that_follow_from_others() -> None:
    """A side ordered by ``t + 5`` is compared by ``t``: of both it is seen how far they have come."""
    schema = pa.schema({"k": pa.int64(), "t": pa.int64()})
    spec = join_spec(
        schema, schema, on="k", condition="abs(l.t - r.t) <= 2", how="left_anti", left_order="-t", right_order="t + 5",
        on_late="drop",
    )
    seen = (Seen(plan_of(spec), 0), Seen(plan_of(spec), 1))
    left = pa.record_batch([pa.array([1, 1, 1]), pa.array([13, 12, 7])], schema=schema)
    seen[0].show(left)
    seen[1].show(pa.record_batch([pa.array([2]), pa.array([10])], schema=schema))
    came = Arrivals(([left.serialize().to_pybytes()], []), seen)
    out = [r["t"] for batch in play(new_operator(spec), spec, came) for r in batch.to_pylist()]
    assert out == [7], "no later right row is below 10"
