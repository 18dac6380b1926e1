"""``asof_join``: tolerances, units, streams and files, mistakes, the command line."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin.cli import main
from ivjoin.errors import ColumnError, ConditionError, IvjoinError, LateRowError
from ivjoin.stream.threads import sliced_stream


def tables(seed: int, n: int, m: int, keys: int, ordered: bool) -> tuple[pa.Table, pa.Table]:
    """Tables in which no two right rows of a key have one time."""
    rng = np.random.default_rng(seed)
    left_t, right_t = rng.integers(0, 10 * m, n), rng.permutation(10 * m)[:m]
    if ordered:
        left_t, right_t = np.sort(left_t), np.sort(right_t)
    names = np.array([f"name {i}" for i in range(keys)])
    left = pa.table({"id": np.arange(n), "s": names[rng.integers(0, keys, n)], "ts": left_t})
    right = pa.table({"s": names[rng.integers(0, keys, m)], "ts": right_t, "x": np.arange(m)})
    return left, right


@pytest.mark.one_in(7)
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("streams", [False, True])
def test_tolerances_finer_and_longer_than_the_unit(direction: str, streams: bool) -> None:
    top, bottom = 2**63 - 1, -(2**63)
    values = [bottom, 0, 1, 1000, top]
    nanos = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
    limits = [timedelta(microseconds=1), timedelta(milliseconds=1500), timedelta(days=10_000), timedelta(days=999_999)]
    kinds = [(kind(u), nanos[u]) for u in nanos for kind in (pa.timestamp, pa.duration)]
    for kind, step in kinds:
        for limit in limits:
            most = limit // timedelta(microseconds=1) * 1000 // step
            t = pa.array(values, pa.int64()).cast(kind)
            tables = [pa.table({name: range(5), "t": t}) for name in ("id", "rid")]
            left, right = (t.to_reader() for t in tables) if streams else tables
            got = ivjoin.asof_join(
                left, right, on="t", direction=direction, tolerance=limit, allow_exact_matches=False  # type: ignore[arg-type]
            ).read_all()  # fmt: skip
            want: list[int | None] = []
            for a in values:
                side = [b for b in values if b < a or (b > a and direction != "backward")]
                near = [b for b in side if abs(a - b) <= most and (b > a or direction != "forward")]
                want.append(values.index(min(near, key=lambda b: (abs(a - b), b))) if near else None)
            assert dict(zip(got["id"].to_pylist(), got["rid"].to_pylist(), strict=True)) == dict(enumerate(want))


def test_tolerances_of_dates_and_beyond_a_duration() -> None:
    days = pa.array([-(2**31), -5, 0, 2**31 - 1], pa.int32()).cast(pa.date32())
    left, right = (pa.table({name: range(4), "t": days}) for name in ("id", "rid"))
    for limit in (timedelta(days=5), timedelta(days=999_999_999)):
        got = ivjoin.asof_join(left, right, on="t", tolerance=limit, allow_exact_matches=False).read_all()
        assert got["rid"].to_pylist() == [None, None, 1, None]
    nanos = pa.table({"t": pa.array([0, 1500], pa.timestamp("ns")), "x": [0, 1]})
    later = pa.table({"t": pa.array([1000, 3001], pa.timestamp("ns"))})
    spans: list[Any] = [pd.Timedelta(nanoseconds=1500), np.timedelta64(1500, "ns"), timedelta(microseconds=1)]
    for limit, want in zip(spans, ([0, None], [0, None], [0, None]), strict=True):
        got = ivjoin.asof_join(later, nanos, on="t", tolerance=limit).read_all()
        assert got["x"].to_pylist() == want
    spans = [pd.Timedelta(nanoseconds=1501), np.timedelta64(2, "us"), np.timedelta64(1, "D")]
    for limit in spans:
        assert ivjoin.asof_join(later, nanos, on="t", tolerance=limit).read_all()["x"].to_pylist() == [0, 1]
    whole = pa.table({"t": [1, 5], "x": [1, 5]})
    counts: list[Any] = [np.int64(3), np.float32(3.5), Decimal("3.9")]
    for limit in counts:
        got = ivjoin.asof_join(pa.table({"t": [4, 9]}), whole, on="t", tolerance=limit).read_all()
        assert got["x"].to_pylist() == [1, None]
    with pytest.raises(ConditionError, match="106751 days, 23:47:16.854775 at most"):
        ivjoin.asof_join(nanos, nanos, on="t", tolerance=timedelta(days=106_752))


def test_streams_are_taken_to_be_in_order() -> None:
    left, right = pa.table({"t": [3, 1]}), pa.table({"t": [1, 2], "x": [1, 2]})
    with pytest.raises(LateRowError):
        ivjoin.asof_join(iter(left.to_batches()), right, on="t").read_all()
    got = ivjoin.asof_join(iter(left.to_batches()), iter(right.to_batches()), on="t", slack=2).read_all()
    assert sorted(r["x"] for r in got.to_pylist()) == [1, 2]


def test_mistakes() -> None:
    t = pa.table({"t": [1], "s": ["a"]})
    for change, error, said in (
        ({"on": "nothing"}, ColumnError, "not in left"), ({"on": 3}, ColumnError, "expected the column of time"),
        ({"direction": "backwards"}, IvjoinError, "expected 'backward'"), ({"how": "anti"}, ConditionError, "'inner'"),
        ({"tolerance": -1}, ConditionError, "zero or more"), ({"tolerance": "5 s"}, ConditionError, "give a number"),
        ({"tolerance": "soon"}, ConditionError, "5 minutes"), ({"tolerance": True}, ConditionError, "a number"),
        ({"allow_exact_matches": 1}, ConditionError, "True or False"), ({"on": "s"}, ConditionError, "a time"),
        ({"tolerance": float("nan")}, ConditionError, "zero or more"), ({"ties": "nothing"}, ColumnError, "nothing"),
        ({"ties": 3}, ColumnError, "ties is 3"),
        ({"tolerance": np.timedelta64("NaT")}, ConditionError, "expected a number"),
    ):
        with pytest.raises(error, match=said):
            ivjoin.asof_join(t, t, **({"on": "t"} | change))


@pytest.mark.slow
def test_parquet_in_the_order_of_its_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_stream, "_SLICE_ROWS", 2_000)
    left, right = tables(3, 20_000, 30_000, 5, True)
    for name, table in (("l", left), ("r", right)):
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=1_000)
    files = [str(tmp_path / f"{name}.parquet") for name in ("l", "r")]
    stream = ivjoin.asof_join(files[0], files[1], on="ts", by="s")
    got = stream.read_all()
    want = ivjoin.asof_join(left, right, on="ts", by="s").read_all()
    assert Counter(map(str, got.to_pylist())) == Counter(map(str, want.to_pylist()))
    assert "row groups" in stream.sorting and stream.metrics.peak_state_rows < 10_000


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left, right = tables(4, 200, 300, 3, False)
    for name, table in (("l", left), ("r", right)):
        pa.csv.write_csv(table, tmp_path / f"{name}.csv")
    files, out = [str(tmp_path / f"{name}.csv") for name in ("l", "r")], str(tmp_path / "out.parquet")
    assert main(["asof", *files, "--on", "ts", "--by", "s", "--tolerance", "40", "--how", "inner", "-o", out]) == 0
    want = ivjoin.asof_join(left, right, on="ts", by="s", tolerance=40, how="inner").read_all()
    assert pq.read_table(out).to_pylist() == want.to_pylist() and want.num_rows
    assert "the right side was read first" in capsys.readouterr().err
    pick = ["join", *files, "--on", "s", "--condition", "r.ts >= l.ts", "--pick", "first by r.ts, r.x", "-q"]
    assert main([*pick, "--how", "left", "--columns", "id,x", "-o", out]) == 0
    want = ivjoin.asof_join(left, right, on="ts", by="s", direction="forward", columns=["id", "x"]).read_all()
    assert pq.read_table(out).to_pylist() == want.to_pylist()
    assert main(["asof", *files, "--on", "ts", "--direction", "back"]) == 2
    assert "expected 'backward'" in capsys.readouterr().err


LOW, HIGH = -(2**63), 2**63 - 1


@pytest.mark.parametrize("units", [("ns", "us"), ("us", "ns"), ("s", "ns"), ("ms", "s")])
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("streams", [False, True])
def test_units_that_differ_at_their_ends(units: tuple[str, str], direction: Any, streams: bool) -> None:
    per = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
    coarser = per[units[1]] > per[units[0]]
    lefts = [LOW, LOW + 1, 5, HIGH - 1, HIGH]
    # of two distances which the finer unit cannot hold, neither is known
    rights = [5] if direction == "nearest" and coarser else lefts
    left = pa.table({"i": lefts, "t": pa.array(lefts, pa.timestamp(units[0]))})
    right = pa.table({"j": rights, "t": pa.array(rights, pa.timestamp(units[1]))})
    want: dict[int, int | None] = {}
    for i in lefts:
        x = i * per[units[0]]
        ys = [(j * per[units[1]], j) for j in rights]
        if direction == "nearest":
            want[i] = min(ys, key=lambda y: (abs(y[0] - x), y[0]))[1]
        else:
            there = [y for y in ys if (y[0] <= x if direction == "backward" else y[0] >= x)]
            want[i] = (max if direction == "backward" else min)(there, default=(0, None))[1]
    a, b = (iter(t.to_batches(2)) if streams else t for t in (left, right))
    out = ivjoin.asof_join(a, b, on="t", direction=direction).read_all()
    assert dict(zip(out["i"].to_pylist(), out["j"].to_pylist(), strict=True)) == want
