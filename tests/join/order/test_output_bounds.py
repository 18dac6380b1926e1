"""The bounds that an operator reports for its later output, against that output."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa
import pytest
from oracle import HOWS

from ivjoin import Order, ProtocolError, SymmetricHashJoin, band_join, multi_join
from ivjoin.stream.threads import sliced_stream

S = pa.schema({"k": pa.int64(), "t": pa.int64(), "x": pa.float64(), "s": pa.string()})
BAND = "l.t BETWEEN r.t - 5 AND r.t + 3"


def rows(ts: list[int | None], rng: random.Random) -> pa.RecordBatch:
    xs = [rng.choice([None, 0.5, -1.0, 7.25]) for _ in ts]
    return pa.record_batch([[rng.randrange(3) for _ in ts], ts, xs, ["a"] * len(ts)], schema=S)


def inside(bounds: dict[str, tuple[Any, Any]], batch: pa.RecordBatch) -> None:
    if batch.num_rows:
        assert bounds, "output came where none could come"
    for name, (inf, sup) in bounds.items():
        for value in batch.column(name).to_pylist():
            if value is not None:
                assert inf is None or value >= inf, (name, value, inf)
                assert sup is None or value <= sup, (name, value, sup)


@pytest.mark.one_in(17)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("on_late", ["drop", "join"])
def test_later_rows_lie_within(how: str, on_late: str) -> None:
    rng = random.Random(how + on_late)
    for _ in range(12):
        slack = rng.choice([None, 4])
        op = SymmetricHashJoin(
            S, S, on="k", condition=BAND, how=how, left_order=Order("t", slack=slack), on_late=on_late,
            right_order=Order("t", slack=slack) if rng.random() < 0.7 else None, batch_size=rng.choice([1, 1000]),
        )
        told: list[dict[str, tuple[Any, Any]]] = []

        def take(output: Any, told: list[dict[str, tuple[Any, Any]]] = told, op: SymmetricHashJoin = op) -> None:
            for batch in output:
                for bounds in told:
                    inside(bounds, batch)
                told.append(op.output_bounds())  # in the middle of a call, too

        at = 0
        for _ in range(15):
            at += rng.randrange(6)
            ts = sorted(at + rng.randrange(-3, 4) for _ in range(rng.randrange(5)))
            take(op.push(rng.choice(["left", "right"]), rows([*ts, None] if rng.random() < 0.2 else ts, rng)))
            told.append(op.output_bounds())
        take(op.finish("left"))
        told.append(op.output_bounds())
        take(op.finish())
        assert op.output_bounds() == {}


def test_bounds_follow_the_window() -> None:
    op = SymmetricHashJoin(S, S, on="k", condition=BAND, left_order="t", right_order="t")
    rng = random.Random(1)
    limits = -(2**63), 2**63 - 1
    assert op.output_bounds()["t"] == limits
    list(op.push("left", rows([100], rng)))
    list(op.push("right", rows([102], rng)))
    bounds = op.output_bounds()
    assert bounds["t"] == (100, limits[1])
    assert bounds["t_right"][0] == 102
    assert bounds["s"] == (None, None)
    list(op.push("left", rows([200], rng)))
    list(op.push("right", rows([150], rng)))
    assert op.output_bounds()["t_right"][0] == 197, "what a pair can still hold, by the condition"
    list(op.finish("right"))
    assert op.output_bounds() == {}, "nothing that is stored can be met any more"


def test_times_are_python_objects() -> None:
    schema = pa.schema({"ts": pa.timestamp("us", "UTC"), "d": pa.date32()})
    op = SymmetricHashJoin(schema, schema, condition="l.ts = r.ts", how="left", left_order="ts",
                           left_bounds={"d": (dt.date(2024, 1, 1), dt.date(2024, 2, 1))})  # fmt: skip
    at = dt.datetime(2024, 1, 5, tzinfo=dt.UTC)
    list(op.push("left", pa.record_batch([[at], [dt.date(2024, 1, 5)]], schema=schema)))
    bounds = op.output_bounds()
    assert bounds["ts"][0] == at
    assert bounds["d"] == (dt.date(2024, 1, 1), dt.date(2024, 2, 1))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_stream_gives_bounds_between_its_batches(threads: int) -> None:
    t = pa.table({"k": [1] * 50, "t": list(range(50))})
    band = "l.t BETWEEN r.t - 2 AND r.t"
    stream = band_join(
        t.to_reader(), t, on="k", condition=band, left_order="t", right_order="t", right_bounds={"t": (0, 60)},
        batch_size=7, threads=threads,
    )  # fmt: skip
    told: list[dict[str, tuple[Any, Any]]] = [stream.output_bounds()]
    for batch in stream:
        for bounds in told:
            inside(bounds, batch)
        told.append(stream.output_bounds())
    assert told[0]["t_right"] == (0, 60)
    assert stream.output_bounds() == {}


def test_bounds_are_empty_only_after_the_last_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A band that is too wide for slices is joined by one operator after both inputs have ended."""
    for name, value in {"_SLICE_ROWS": 4, "_MOST_ROWS": 10, "_COPIED": 8}.items():
        monkeypatch.setattr(sliced_stream, name, value)
    t = pa.table({"t": range(20)})
    stream = band_join(
        t.to_reader(), t.to_reader(), condition="l.t BETWEEN r.t - 1000 AND r.t + 1000", left_order="t",
        right_order="t", left_bounds={"t": (0, 90)}, batch_size=7, threads=2,
    )  # fmt: skip
    rows = 0
    while rows < 400:
        bounds = stream.output_bounds()
        assert bounds
        batch = next(stream)
        inside(bounds, batch)
        rows += batch.num_rows
    assert next(stream, None) is None
    assert stream.output_bounds() == {}
    assert isinstance(stream._run.operator, sliced_stream.SlicedStream)
    assert stream._run.operator._alone is not None


def test_closed_stream_raises() -> None:
    t = pa.table({"k": [1] * 50, "t": list(range(50))})
    ask: dict[str, Any] = {"left_order": "t", "right_order": "t", "batch_size": 7}
    streams = [
        band_join(t, t, on="k", condition="l.t BETWEEN r.t - 2 AND r.t", **ask),
        multi_join({"a": t, "b": t}, "a.k = b.k AND a.t BETWEEN b.t - 2 AND b.t", batch_size=7),
    ]
    for stream in streams:
        next(iter(stream))
        stream.close()
        with pytest.raises(ProtocolError, match="this stream was closed and gives nothing more"):
            stream.output_bounds()


@pytest.mark.parametrize("threads", [1, 2])
def test_of_tables_that_are_joined_in_slices(threads: int) -> None:
    n = 40_000
    t = pa.table({"k": pa.array(range(n)), "t": pa.array(range(n))})
    stream = band_join(t, t, on="k", condition="l.t BETWEEN r.t - 1 AND r.t", batch_size=9000, threads=threads)
    told: list[dict[str, tuple[Any, Any]]] = [stream.output_bounds()]
    for batch in stream:
        for bounds in told:
            inside(bounds, batch)
        told.append(stream.output_bounds())
    assert any(bounds["t"][0] for bounds in told if bounds)
    assert stream.output_bounds() == {}
