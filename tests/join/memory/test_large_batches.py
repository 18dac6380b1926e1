"""Output batches whose text exceeds 32-bit offsets are split into smaller ones, in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import ivjoin
from ivjoin.operator.lookup.answer import Answers
from ivjoin.outer.batches import BatchBuilder

BIG = "x" * (32 << 20)


@pytest.mark.slow
def test_rows_of_a_megabyte() -> None:
    left = pa.table({"k": [0] * 64, "s": ["x" * (1 << 20)] * 64, "i": range(64)})
    rows, batches = 0, 0
    for batch in ivjoin.band_join(left, pa.table({"k": [0] * 64}), on="k"):
        assert batch.nbytes < 1 << 31
        rows, batches = rows + batch.num_rows, batches + 1
    assert (rows, batches) == (4096, 4)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("make", [
    lambda text: pa.array([text]), lambda text: pa.array([text], pa.string_view()),
    lambda text: pa.array([{"a": text}]), lambda text: pa.array([[text]]), lambda text: pa.array([text.encode()]),
], ids=["string", "view", "struct", "list", "binary"])  # fmt: skip
def test_every_kind_of_text(make: Callable[[str], Any]) -> None:
    left = pa.table({"k": [1], "s": make(BIG)})
    right = pa.table({"k": [1] * 70, "i": range(70)})
    found = []
    for batch in ivjoin.band_join(left, right, on="k", columns=["s", "i"]):
        assert len(batch["s"][0].as_py()) in (1, len(BIG))
        found += batch["i"].to_pylist()
    assert sorted(found) == list(range(70))


ANSWERS: dict[str, Callable[[pa.Table, Any], ivjoin.JoinStream]] = {
    "as-of": lambda left, right: ivjoin.asof_join(left, right, on="t", by="k"),
    "first": lambda left, right: ivjoin.band_join(
        left, right, on="k", condition="l.t >= r.t", pick=ivjoin.Pick("t"), how="left"
    ),
    "aggregates": lambda left, right: ivjoin.window_join(
        left, right, on="k", condition="l.t >= r.t", right_order="t", how="left", aggregate={"s": ("s", "first")}
    ),
    "aggregates of pairs": lambda left, right: ivjoin.window_join(
        left, right, on="k", condition="l.t >= r.t AND l.t % 7 <> r.t + 1", right_order="t", how="left",
        aggregate={"s": ("s", "first")},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("make", [
    lambda text: pa.array([text]), lambda text: pa.array([text], pa.string_view()),
    lambda text: pa.array([{"a": text}]),
], ids=["string", "view", "struct"])  # fmt: skip
@pytest.mark.parametrize("answer", ["as-of", "first", "aggregates"])
def test_one_partner_of_many_rows(answer: str, make: Callable[[str], Any]) -> None:
    if answer == "aggregates" and pa.types.is_struct(make("").type):
        pytest.skip("an aggregate takes no struct")
    left, right = pa.table({"k": [1] * 70, "t": range(70)}), pa.table({"k": [1], "t": [0], "s": make(BIG)})
    found = []
    for batch in ANSWERS[answer](left, right):
        assert len(batch["s"][0].as_py()) in (1, len(BIG))
        found += batch["t"].to_pylist()
    assert found == list(range(70))


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("pieces", [1, 9])
def test_halves_of_a_batch_have_the_same_rows(answer: str, pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    left = pa.table({"k": [i % 3 for i in range(50)], "t": range(50)})
    right = pa.table({"k": [i % 2 for i in range(20)], "t": range(5, 25), "s": [f"text {i}" for i in range(20)]})
    whole = ANSWERS[answer](left, right).read_all()
    build, answered = BatchBuilder.batch, Answers._answer

    def at_most_three(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows > 3:
            raise pa.ArrowInvalid("offset overflow")
        return batch

    monkeypatch.setattr(BatchBuilder, "batch", lambda *args: at_most_three(build(*args)))
    monkeypatch.setattr(Answers, "_answer", lambda *args: at_most_three(answered(*args)))
    in_pieces = right.to_batches(max_chunksize=20 // pieces)
    table = pieces == 1 and "aggregates" not in answer  # which a table answers at once
    given = right if table else pa.RecordBatchReader.from_batches(right.schema, iter(in_pieces))
    halves = list(ANSWERS[answer](left, given))
    assert max(b.num_rows for b in halves) <= 3
    assert pa.Table.from_batches(halves).equals(whole)


@pytest.mark.slow
def test_an_aggregate_of_more_text_than_a_column_holds() -> None:
    schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "s": pa.string()})
    batch = pa.record_batch({"k": [1] * 100, "t": [0] * 100, "s": ["x" * (1 << 20)] * 100}, schema=schema)
    right = pa.RecordBatchReader.from_batches(schema, (batch for _ in range(23)))
    found = ANSWERS["aggregates"](pa.table({"k": [1], "t": [0]}), right).read_all()
    assert found["s"].to_pylist() == ["x" * (1 << 20)]
    right = pa.RecordBatchReader.from_batches(schema, (batch for _ in range(23)))
    found = ivjoin.band_join(
        pa.table({"k": [1], "t": [0]}), right, on="k", condition="l.t = r.t", pick=ivjoin.Pick("t")
    ).read_all()
    assert found.num_rows == 1
