"""Right and full as-of joins, all ties, further conditions, offsets and interpolation, against DuckDB and numpy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin


def side(rng: np.random.Generator, n: int, span: int, ordered: bool, unique: bool = False) -> pa.Table:
    t = rng.choice(span, n, replace=False) if unique else rng.integers(0, span, n)
    t = np.sort(t) if ordered else t
    return pa.table({
        "i": np.arange(n), "k": pa.array(rng.integers(0, 3, n), mask=rng.random(n) < 0.05),
        "t": pa.array(t, mask=np.zeros(n, bool) if ordered else rng.random(n) < 0.05),
        "q": pa.array(rng.integers(0, 9, n), mask=rng.random(n) < 0.2),
    })  # fmt: skip


def test_offsets_of_times() -> None:
    at = datetime(2024, 1, 1)
    left = pa.table({"ts": pa.array([at], pa.timestamp("us", "UTC"))})
    right = pa.table({
        "ts": pa.array([at - timedelta(seconds=2), at, at + timedelta(seconds=5)], pa.timestamp("ms", "UTC")),
        "bid": [1.0, 2.0, 3.0],
    })  # fmt: skip
    offsets = ["-1s", timedelta(0), "5s", "1h30m", "-100ns"]
    names = [f"bid_{o}" for o in ("-1s", "0s", "5s", "1h30m", "-100ns")]
    got = ivjoin.asof_join(left, right, on="ts", offsets=offsets, columns=names)
    assert list(got.to_arrow().to_pylist()[0].values()) == [1.0, 2.0, 3.0, 3.0, 1.0]
    days = pa.table({"d": pa.array([date(2024, 1, 5)])})
    assert ivjoin.asof_join(days, days, on="d", offsets=["2 days", "-1d"]).to_arrow().to_pylist() == [
        {"d": date(2024, 1, 5), "d_2 days": date(2024, 1, 5), "d_-1d": None}
    ]
    with pytest.raises(ivjoin.ConditionError, match="whole days"):
        ivjoin.asof_join(days, days, on="d", offsets=["1h"])


@pytest.mark.parametrize("direction", ["backward", "forward"])
def test_interpolation_is_numpys(direction: Any) -> None:
    rng = np.random.default_rng(4)
    left = pa.table({"i": np.arange(200), "t": rng.integers(-20, 1020, 200)})
    at, x = np.sort(rng.choice(1000, 50, replace=False)), rng.normal(size=50)
    right = pa.table({"t": at, "x": x, "n": (x * 100).astype(np.int32), "w": pa.array(at * 3, pa.timestamp("us"))})
    got = ivjoin.asof_join(left, right, on="t", interpolate=["x", "n", "w"], direction=direction).to_arrow()
    got = got.sort_by("i")
    t = np.asarray(left["t"])
    wanted = np.interp(t, at, x, left=np.nan, right=np.nan)
    found = np.array([np.nan if v is None else v for v in got["x"].to_pylist()])
    assert np.allclose(found, wanted, equal_nan=True, rtol=1e-12)
    n = np.interp(t, at, (x * 100).astype(np.int32), left=np.nan, right=np.nan)
    assert np.allclose([np.nan if v is None else v for v in got["n"].to_pylist()], n, equal_nan=True)
    inside = (t >= at[0]) & (t <= at[-1])
    assert [v is not None for v in got["w"].to_pylist()] == inside.tolist()
    assert got["w"].cast(pa.int64()).drop_null().to_pylist() == (3 * t[inside]).tolist()
    assert got.schema.field("w").type == pa.timestamp("us") and got.schema.field("x").type == pa.float64()


@pytest.mark.parametrize(("mine", "theirs"), [("ns", "us"), ("us", "ns"), ("ns", "s"), ("s", "ns")])
def test_interpolation_is_exact_in_two_units(mine: str, theirs: str) -> None:
    """In doubles, nanoseconds of today are off by up to 128."""
    second, step = 1_700_000_000, {"s": 1, "us": 10**6, "ns": 10**9}
    at = second * step[mine] + (500_123 if mine == "ns" else 3)
    left = pa.table({"t": pa.array([at], pa.timestamp(mine))})
    ends = [second * step[theirs], (second + 5) * step[theirs]]
    right = pa.table({"t": pa.array(ends, pa.timestamp(theirs)), "x": [0.0, 5e9]})
    got = ivjoin.asof_join(left, right, on="t", interpolate="x", columns=["x"]).to_arrow()
    assert got["x"].to_pylist() == [(at - second * step[mine]) * (10**9 // step[mine])]


def test_more_lookups_than_a_byte_counts() -> None:
    left, right = pa.table({"t": range(0, 60, 20)}), pa.table({"t": range(0, 60, 7)})
    offsets = list(range(300))
    wanted = ivjoin.asof_join(left, right, on="t", offsets=offsets).read_all()
    got = ivjoin.asof_join(iter(left.to_batches(1)), iter(right.to_batches(2)), on="t", offsets=offsets).read_all()
    assert got.sort_by("t").equals(wanted)


def test_interpolation_with_keys_nulls_and_tolerance() -> None:
    left = pa.table({"k": ["a", "a", "b"], "t": [5, 50, 5]})
    right = pa.table({"k": ["a", "a", "a", "b"], "t": [0, 10, 100, 4], "x": [1.0, 3.0, None, 7.0]})
    got = ivjoin.asof_join(left, right, on="t", by="k", interpolate="x", tolerance=60, columns=["k", "t", "x"])
    assert sorted(map(tuple, (r.values() for r in got.to_arrow().to_pylist()))) == [
        ("a", 5, 2.0), ("a", 50, None), ("b", 5, None),
    ]  # fmt: skip


@pytest.mark.parametrize(("options", "said"), [
    ({"offsets": "5"}, "expected a list"), ({"offsets": []}, "expected a list"), ({"offsets": [1, "1"]}, "once"),
    ({"offsets": ["5s"]}, "give a number"), ({"interpolate": "no"}, "'no'"),
    ({"interpolate": "s"}, "numbers or times"),
    ({"offsets": [1], "how": "full"}, "leave how out"), ({"interpolate": "q", "ties": "all"}, "leave ties out"),
    ({"offsets": [True]}, "expected a number"), ({"how": "left_semi"}, "expected"), ({"ties": 5}, "'all'"),
    ({"condition": "l.nope = 1"}, "nope"),
])  # fmt: skip
def test_refused(options: Any, said: str) -> None:
    rows = pa.table({"t": [1], "q": [1], "s": ["x"]})
    with pytest.raises(ivjoin.IvjoinError, match=said):
        ivjoin.asof_join(rows, rows, on="t", **options)


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


@pytest.mark.parametrize("seed", range(12))
def test_several_lookups_of_streams_and_files_are_those_of_tables(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    n, m = rng.integers(0, 400, 2).tolist()
    left = pa.table({"i": np.arange(n), "k": rng.choice(["a", "b", "c"], n), "t": rng.integers(0, 900, n) // 3})
    right = pa.table({"k": rng.choice(["a", "b"], m), "t": np.arange(m) * 2, "x": rng.normal(size=m)}).slice(0, m)
    right = right.take(rng.permutation(m))
    asked: dict[str, Any] = {
        "on": "t", "by": "k", "direction": str(rng.choice(["backward", "forward", "nearest"])),
        "tolerance": None if rng.random() < 0.5 else 40, "columns": None if rng.random() < 0.5 else ["x_20", "i"],
        "offsets": [-7, 0, 20], "interpolate": None if rng.random() < 0.3 else "x",
        "condition": None if rng.random() < 0.7 else "r.x > -1.5 AND l.i >= 0",
    }
    slack = int(rng.integers(1, 30))
    wanted = rows_of(ivjoin.asof_join(left, right, **asked).to_arrow())
    assert len(wanted) == n

    def stream(table: pa.Table) -> Iterator[pa.RecordBatch]:
        order = np.argsort(np.asarray(table["t"]) + rng.integers(0, slack + 1, len(table)), kind="stable")
        return iter(table.take(order).to_batches(max_chunksize=int(rng.integers(1, 70))))

    given = [(left, right), (stream(left), stream(right)), (left, stream(right))]
    for name, table in (("left", left), ("right", right)):
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=64)
    given.append((tmp_path / "left.parquet", tmp_path / "right.parquet"))  # type: ignore[arg-type]
    for i, inputs in enumerate(given):
        more: dict[str, Any] = {1: {"slack": slack}, 2: {"right_order": ivjoin.Order("t", slack=slack)}}.get(i, {})
        more |= {"memory_limit": "64MB", "when_full": "spill"} if rng.random() < 0.3 else {}
        joined = ivjoin.asof_join(*inputs, batch_size=int(rng.integers(1, 200)), **asked, **more)
        assert rows_of(joined.read_all()) == wanted, (i, more)
        assert joined.metrics.rows_out == n and joined.metrics.state_rows == 0


@pytest.mark.parametrize("asked", [{"offsets": [25, -30, 0], "tolerance": 5}, {"interpolate": "x"}])
def test_row_groups_that_a_later_lookup_needs_are_read(asked: dict[str, Any], tmp_path: Path) -> None:
    """Rows were lost when the first lookup alone decided which row groups of the right file are read."""
    left, right = pa.table({"t": [3, 15]}), pa.table({"t": list(range(0, 40, 2)), "x": [float(i) for i in range(20)]})
    wanted = ivjoin.asof_join(left, right, on="t", **asked).read_all()
    for name, table in (("left", left), ("right", right)):
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=1)
    for more in ({}, {"left_order": "t", "right_order": "t"}):
        got = ivjoin.asof_join(tmp_path / "left.parquet", tmp_path / "right.parquet", on="t", **asked, **more)
        assert got.read_all().sort_by("t").equals(wanted)


def test_late_rows_of_several_lookups_are_dropped_once() -> None:
    late: list[tuple[str, list[Any]]] = []

    def stream(times: list[int]) -> Iterator[pa.RecordBatch]:
        return (pa.record_batch({"t": [t]}) for t in times)

    got = ivjoin.asof_join(
        stream([1, 5, 3, 9]), stream([0, 4, 2, 8]), on="t", offsets=[-2, 0, 3],
        on_late=lambda side, rows: late.append((side, rows.to_pylist())),
    )
    assert got.read_all().to_pylist() == [
        {"t": 1, "t_-2": None, "t_0": 0, "t_3": 4}, {"t": 5, "t_-2": 0, "t_0": 4, "t_3": 8},
        {"t": 9, "t_-2": 4, "t_0": 8, "t_3": 8},
    ]  # fmt: skip
    assert sorted(late) == [("left", [{"t": 3}]), ("right", [{"t": 2}])]
    assert (got.metrics.left_late_rows, got.metrics.right_late_rows) == (1, 1)


def test_rows_that_wait_for_a_lookup_count_against_the_limit() -> None:
    def stream() -> Iterator[pa.RecordBatch]:
        return (pa.record_batch({"t": np.arange(i, i + 4096), "x": np.zeros(4096)}) for i in range(0, 10**6, 4096))

    got = ivjoin.asof_join(stream(), stream(), on="t", offsets=[0, 900_000], memory_limit="8MB", when_full="spill")
    with pytest.raises(ivjoin.MemoryLimitError, match="fewer or nearer offsets"):
        got.read_all()


def test_params() -> None:
    rows = pa.table({"t": [1, 2], "q": [1, 5]})
    got = ivjoin.asof_join(rows, rows, on="t", condition="r.q < :most", params={"most": 4})
    assert got.to_arrow()["q_right"].to_pylist() == [1, 1]


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.date32(), pa.float64()])
def test_all_nearest_rows_are_the_same_for_every_type(kind: pa.DataType) -> None:
    rng = np.random.default_rng(6)
    sides = [side(rng, 60, 99, False), side(rng, 80, 99, False)]
    whole = pa.int32() if kind == pa.date32() else pa.int64()
    found = []
    for t in (pa.int64(), kind):
        tables = [x.set_column(2, "t", x["t"].cast(whole if t == kind else t).cast(t)) for x in sides]
        got = ivjoin.asof_join(*tables, on="t", by="k", direction="nearest", how="full", ties="all").to_arrow()
        found.append(Counter(zip(got["i"].to_pylist(), got["i_right"].to_pylist(), strict=True)))
    assert found[0] == found[1]
    assert found[0].total() > 80
