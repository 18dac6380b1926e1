"""Joins that pick by text, bytes and long decimals: against a nested loop and DuckDB; what is held; errors."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drivers import picks
from taken import one_of

import ivjoin
from ivjoin import SymmetricHashJoin
from ivjoin.cli import main
from ivjoin.errors import ConditionError, EvaluationError


@pytest.mark.one_in(7)
@pytest.mark.parametrize("seed", range(60))
def test_random_joins_against_a_nested_loop(seed: int) -> None:
    rng = random.Random(seed)
    q = picks.worded(rng)
    picks.check(q, picks.pushed(q, rng, rng.choice((1, 3, 7, 50)), snapshots=seed % 4 == 0))
    picks.check(q, picks.pulled(q))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_more_random_joins(seed: int) -> None:
    rng = random.Random(seed)
    q = picks.worded(rng, 120)
    picks.check(q, picks.pushed(q, rng, rng.choice((1, 3, 7, 50)), snapshots=seed % 3 == 0))
    picks.check(q, picks.pulled(q))


def tables(seed: int, n: int, m: int, keys: int) -> tuple[pa.Table, pa.Table]:
    """Right rows with names, and numbers that tell them apart."""
    rng = np.random.default_rng(seed)
    words = np.array([f"{'name' * (i % 5)} {i * 7919 % 1000}" for i in range(500)])
    left = pa.table({"id": np.arange(n), "k": rng.integers(0, keys, n), "ts": np.sort(rng.integers(0, 1000, n))})
    names = pa.array(words[rng.integers(0, len(words), m)], mask=rng.random(m) < 0.05)
    right = pa.table({"k": rng.integers(0, keys, m), "ts": np.sort(rng.integers(0, 1000, m)), "name": names})
    return left, right.append_column("x", pa.array(np.arange(m)))


@pytest.mark.one_in(7)
@pytest.mark.parametrize("which, direction", [("last", "DESC"), ("first", "ASC")])
@pytest.mark.parametrize(
    "band", ["r.ts BETWEEN l.ts - 30 AND l.ts", "r.ts <= l.ts AND (l.id + r.x) % 3 <> 0", "r.ts > l.ts"]
)
def test_against_duckdb(which: Any, direction: str, band: str) -> None:
    left, right = tables(len(band), 2_000, 4_000, 25)
    con = duckdb.connect()
    con.register("l", left)
    con.register("r", right)
    want = dict(
        con.sql(
            f"SELECT l.id, x FROM l LEFT JOIN r ON l.k = r.k AND {band} AND r.name IS NOT NULL "
            f"QUALIFY row_number() OVER (PARTITION BY l.id ORDER BY r.name {direction}, r.x {direction}) = 1"
        ).fetchall()
    )
    asked: dict[str, Any] = {"on": "k", "condition": band, "how": "left"}
    asked["pick"] = one_of(left.schema, right.schema, which, ["name", "x"])
    got = ivjoin.band_join(left, right, **asked, columns=["id", "x"]).read_all().to_pylist()
    assert {r["id"]: r["x"] for r in got} == want and len(got) == 2_000
    asked |= {"left_order": "ts", "right_order": "ts"}
    encoded = right.set_column(2, "name", right["name"].dictionary_encode())
    streams = iter(left.to_batches(90)), iter(encoded.to_batches(170))
    got = ivjoin.band_join(*streams, **asked, columns=["id", "x"]).read_all().to_pylist()
    assert {r["id"]: r["x"] for r in got} == want and len(got) == 2_000


def test_the_command_line(tmp_path: Path) -> None:
    left, right = tables(1, 300, 500, 7)
    for name, table in (("l", left), ("r", right)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    files, out = [str(tmp_path / f"{name}.parquet") for name in ("l", "r")], str(tmp_path / "out.parquet")
    band = "r.ts BETWEEN l.ts - 30 AND l.ts"
    pick = ["join", *files, "--on", "k", "--where", band, "--how", "left", "--pick", "last by name, r.x"]
    assert main([*pick, "--columns", "id,name", "-q", "-o", out]) == 0
    want: dict[int, Any] = {}
    for a in left.to_pylist():
        fit = [
            r["name"] for r in right.to_pylist()
            if r["k"] == a["k"] and a["ts"] - 30 <= r["ts"] <= a["ts"] and r["name"] is not None
        ]
        want[a["id"]] = max(fit, default=None)
    assert {r["id"]: r["name"] for r in pq.read_table(out).to_pylist()} == want
    assert main(["asof", *files, "--on", "ts", "--by", "k", "--ties", "name", "-q", "-o", out]) == 0
    assert pq.read_table(out).num_rows == 300


def test_ties_of_an_as_of_join() -> None:
    left = pa.table({"t": [5, 9]})
    right = pa.table({"t": [4, 4, 4, 9], "version": ["v1", "v3", None, "v0"]})
    got = ivjoin.asof_join(left, right, on="t", ties="version").read_all()
    assert got["version"].to_pylist() == ["v3", "v0"]
    got = ivjoin.asof_join(left, right, on="t", ties="version", direction="nearest").read_all()
    assert got["version"].to_pylist() == ["v1", "v0"]


def test_what_has_no_distance_or_no_order() -> None:
    left = pa.table({"t": [1], "s": ["a"], "d": pa.array([Decimal(1)], pa.decimal128(30, 0))})
    for name, said in (("s", "is string"), ("d", r"is decimal\(30, ?0\)")):
        with pytest.raises(ConditionError, match=f"{said}, have no distances.*'backward' or 'forward'"):
            one_of(left.schema, left.schema, "nearest", name, name)
        with pytest.raises(ConditionError, match=f"on.*{said}.*a time"):
            ivjoin.asof_join(left, left, on=name)
    for value in ([1], {"a": 1}):
        with pytest.raises(ConditionError, match="expected a number, a bool, a time, text or bytes"):
            ivjoin.band_join(left, pa.table({"x": [value]}), pick=ivjoin.Pick("x", "last"))
    right = pa.table({"x": ["a"]})
    for pick in (
        ivjoin.Pick("cast(cast(x AS int) AS string)", "last"),
        one_of(left.schema, right.schema, "last", "cast(cast(x AS int) AS string)"),
    ):
        with pytest.raises(EvaluationError, match="cast"):
            list(ivjoin.band_join(left, right, pick=pick))


# -- what is held ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_text_of_rows_that_are_gone_is_forgotten() -> None:
    left, right = pa.schema({"t": pa.int64()}), pa.schema({"t": pa.int64(), "s": pa.string()})
    op = SymmetricHashJoin(
        left, right, condition="r.t BETWEEN l.t - 50 AND l.t", left_order="t", right_order="t",
        pick=one_of(left, right, "last", "s"),
    )
    rows = []
    for at in range(0, 40_000, 500):
        t = np.arange(at, at + 500)
        for side, columns in (("right", [t, [f"{i * 7919 % 40_009:060}" for i in t]]), ("left", [t])):
            for b in op.push(side, pa.record_batch(columns, schema=right if side == "right" else left)):
                rows += b.to_pylist()
    assert op.metrics.peak_state_rows <= 1_700
    assert op.metrics.state_bytes < 700_000
    assert all(r["s"] == max(f"{i * 7919 % 40_009:060}" for i in range(max(0, r["t"] - 50), r["t"] + 1)) for r in rows)
    assert len(rows) > 39_000
    assert not list(op.finish("left"))
    for at in range(40_000, 60_000, 500):  # which nobody can take
        t = np.arange(at, at + 500)
        late = [r["t"] for b in op.push("right", pa.record_batch([t, [f"{i:060}" for i in t]], schema=right))
                for r in b.to_pylist()]
        assert late == ([39_999] if at == 40_000 else [])
    assert op.metrics.state_rows == 0 and op.metrics.state_bytes < 700_000


@pytest.mark.slow
def test_one_row_a_key_is_held_of_those_that_every_left_row_can_take() -> None:
    left = pa.schema({"k": pa.int64(), "t": pa.int64(), "id": pa.int64()})
    right = pa.schema({"k": pa.int64(), "t": pa.int64(), "s": pa.string(), "n": pa.int64()})
    rng = np.random.default_rng(4)
    for by in ("s", ["n", "s"]):
        op = SymmetricHashJoin(
            left, right, on="k", condition="r.t <= l.t AND r.t >= 0", left_order="t", right_order="t",
            pick=one_of(left, right, "last", by), how="left",
        )
        best: dict[int, Any] = {}
        rows: dict[int, Any] = {}
        want: dict[int, Any] = {}
        for at in range(0, 20_000, 500):
            t, keys, numbers = np.arange(at, at + 500), rng.integers(0, 30, 500), rng.integers(0, 1 << 40, 500)
            words = [f"{n:015}" for n in numbers]
            out = [*op.push("right", pa.record_batch([keys, t, words, numbers], schema=right))]
            asked = rng.integers(0, 30, 500)
            out += op.push("left", pa.record_batch([asked, t, t], schema=left))
            rows |= {r["id"]: r["s"] for b in out for r in b.to_pylist()}
            for i in range(500):
                best[keys[i]] = max(best.get(keys[i], ""), words[i])
                want[at + i] = best.get(asked[i])
        assert op.metrics.peak_state_rows < 2_500 and op.metrics.state_rows < 1_100
        rows |= {r["id"]: r["s"] for b in op.finish() for r in b.to_pylist()}
        assert rows == want
