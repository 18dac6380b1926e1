"""Late rows are passed to a function; metrics count them for each side and show how late they were."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa
import pytest

import ivjoin

LEFT = [[1, 5, 3], [9, 2, 10]]
RIGHT = [[1, 5, 9], [10, 10, 4]]


def batches(values: list[list[Any]]) -> list[pa.RecordBatch]:
    return [pa.record_batch({"t": v, "id": list(range(len(v)))}) for v in values]


@pytest.mark.parametrize("options", [
    {}, {"how": "full"}, {"threads": 2}, {"pick": ivjoin.Pick("t", "last"), "how": "left"},
    {"aggregate": {"n": "count(*)"}}, {"memory_limit": "1MB"},
])  # fmt: skip
def test_a_function_receives_late_rows(options: dict[str, Any]) -> None:
    got: list[tuple[str, list[int]]] = []
    said = "r.t <= l.t" if "pick" in options else "l.t = r.t"
    question = {"condition": said, "left_order": "t", "right_order": "t", **options}
    call = ivjoin.window_join if "aggregate" in options else ivjoin.band_join
    stream = call(
        iter(batches(LEFT)), iter(batches(RIGHT)), on_late=lambda side, rows: got.append((side, rows["t"].to_pylist())),
        **question,
    )
    table = stream.read_all()
    assert sorted(got) == [("left", [2]), ("left", [3]), ("right", [4])]
    dropped = call(iter(batches(LEFT)), iter(batches(RIGHT)), on_late="drop", **question)
    assert dropped.read_all().sort_by("t") == table.sort_by("t")
    for m in (stream.metrics, dropped.metrics):
        assert (m.late_rows, m.left_late_rows, m.right_late_rows) == (3, 2, 1)
        assert (m.left_lateness, m.right_lateness) == (7, 6)
        assert m.as_dict()["left_late_rows"] == 2


def test_an_operator_takes_a_function_and_counts() -> None:
    got: list[pa.RecordBatch] = []
    schema = pa.schema({"t": pa.int64(), "w": pa.dictionary(pa.int8(), pa.string())})
    op = ivjoin.SymmetricHashJoin(
        schema, schema, condition="l.t = r.t", left_order="t", on_late=lambda side, rows: got.append(rows)
    )
    words = pa.array(["a", "b", "a"]).dictionary_encode().cast(schema.field("w").type)
    list(op.push("left", pa.record_batch([pa.array([7, 3, 4]), words], schema=schema)))
    assert [r.to_pylist() for r in got] == [[{"t": 3, "w": "b"}, {"t": 4, "w": "a"}]]
    assert got[0].schema == schema
    assert (op.metrics.left_late_rows, op.metrics.left_lateness) == (2, 4)
    again = ivjoin.SymmetricHashJoin.restore(op.snapshot())
    assert again.metrics.left_late_rows == 2


def test_inputs_of_many() -> None:
    got: list[tuple[str, list[str], list[int]]] = []
    stream = ivjoin.multi_join(
        {"a": iter(batches(LEFT)), "b": iter(batches(RIGHT))}, "a.t = b.t", orders={"a": "t", "b": "t"},
        on_late=lambda alias, rows: got.append((alias, rows.schema.names, rows["t"].to_pylist())),
    )
    stream.read_all()
    assert sorted(got) == [("a", ["t", "id"], [2]), ("a", ["t", "id"], [3]), ("b", ["t", "id"], [4])]
    assert stream.metrics.late == {"a": 2, "b": 1}
    assert stream.metrics.lateness == {"a": 7, "b": 6}


def test_rows_of_a_window_join() -> None:
    got: list[str] = []
    ivjoin.window_join(
        iter(batches([[5, 9, 7]])), iter(batches([[1, 2, 3]])), condition="r.t BETWEEN l.t - 9 AND l.t",
        aggregate={"n": "count(*)"}, left_order="t", right_order="t", on_late=lambda side, rows: got.append(side),
    ).read_all()
    assert got == ["left"]
    assert "band term" in ivjoin.explain(
        batches([[1]]), batches([[1]]), condition="l.t = r.t AND l.id <= r.id", on_late=lambda side, rows: None
    )


def test_rows_of_an_asof_join() -> None:
    got: list[str] = []
    trades, quotes = iter(batches([[5, 9, 7]])), iter(batches([[1, 2, 3]]))
    ivjoin.asof_join(trades, quotes, on="t", on_late=lambda side, rows: got.append(side)).read_all()
    assert got == ["left"]


@pytest.mark.parametrize("kind", ["int", "float", "timestamp", "date"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("slack", [0, 2])
def test_the_greatest_lateness_is_the_slack_that_is_missing(kind: str, descending: bool, slack: int) -> None:
    r = random.Random(f"{kind}{descending}{slack}")
    day = dt.datetime(2024, 1, 1)
    make: Any = {
        "int": lambda x: x, "float": lambda x: x / 2, "timestamp": lambda x: day + dt.timedelta(seconds=x),
        "date": lambda x: day.date() + dt.timedelta(days=x),
    }[kind]
    unit: Any = {"int": 1, "float": 0.5, "timestamp": dt.timedelta(seconds=1), "date": dt.timedelta(days=1)}[kind]
    numbers = [[r.choice((None, *range(-9, 10))) for _ in range(8)] for _ in range(4)]
    seen: list[int] = []
    expected = 0
    for n in (n for batch in numbers for n in batch if n is not None):
        top = (min(seen) if descending else max(seen)) if seen else n
        behind = n - top if descending else top - n
        expected = max(expected, behind if behind > slack else 0)
        seen.append(n)
    values = [pa.array([None if n is None else make(n) for n in batch]) for batch in numbers]
    stream = ivjoin.band_join(
        iter([pa.record_batch({"t": v}) for v in values]), pa.table({"t": values[0]}), condition="l.t = r.t",
        left_order=ivjoin.Order("t", descending=descending, slack=slack * unit), on_late="join",
    )
    stream.read_all()
    assert expected > 0
    assert stream.metrics.left_lateness == expected * unit
    assert stream.metrics.right_lateness is None
