"""``ivjoin join a=... b=... c=...`` and its explanation, in words and by exit code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ivjoin.cli import main

WHERE = "a.k = b.k AND b.k = c.k AND b.ts BETWEEN a.ts AND a.ts + 5 AND c.ts = b.ts"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for alias, ts in (("a", [1, 50, 20]), ("b", [4, 23, 99]), ("c", [23, 4, 4])):
        pq.write_table(pa.table({"k": [1, 1, 1], "ts": ts}), f"{alias}.parquet")
    return tmp_path


def test_join(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = ["a=a.parquet", "b=b.parquet", "c=c.parquet"]
    assert main(["join", *inputs, "--condition", WHERE, "-o", "out.parquet", "--metrics-json", "m.json"]) == 0
    rows = pq.read_table("out.parquet").sort_by("b_ts").to_pylist()
    assert [(r["a_ts"], r["b_ts"], r["c_ts"]) for r in rows] == [(1, 4, 4), (1, 4, 4), (20, 23, 23)]
    assert "3 + 3 + 3 rows in, 3 out" in capsys.readouterr().err
    assert json.loads(Path("m.json").read_text())["rows_in"] == {"a": 3, "b": 3, "c": 3}
    asked = ["--order", "b=ts SLACK 100", "--bounds", "a.ts=0..60", "--views", "a,b", "--sort", "never"]
    assert main(["join", *inputs, "--condition", WHERE, "-o", "out.csv", *asked]) == 0
    assert len(Path("out.csv").read_text().splitlines()) == 4


def test_two_inputs_by_alias(files: Path) -> None:
    assert main(["join", "x=a.parquet", "y=b.parquet", "--condition", "x.ts < y.ts", "-o", "out.parquet", "-q"]) == 0
    assert len(pq.read_table("out.parquet")) == 6


@pytest.mark.slow
def test_rows_that_do_not_fit_spill(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(3)
    for alias in "abc":
        ts = np.sort(rng.integers(0, 20_000, 10_000))
        table = pa.table({"k": rng.integers(0, 5, 10_000), "ts": ts, "s": [f"text {t}" for t in ts]})
        pq.write_table(table, f"{alias}.parquet")
    where = "a.k = b.k AND b.k = c.k AND b.ts BETWEEN a.ts AND a.ts + 50 AND c.ts = b.ts"
    asked = ["--condition", where, *(f"--order={a}=ts" for a in "abc"), "--views", "a,b", "--columns", "a_s,c_ts"]
    inputs = ["a=a.parquet", "b=b.parquet", "c=c.parquet"]
    assert main(["join", *inputs, *asked, "-q", "-o", "whole.parquet"]) == 0
    limit = ["--memory-limit", "600kB", "--when-full", "spill", "--spill-dir", "."]
    assert main(["join", *inputs, *asked, *limit, "-q", "-o", "out.parquet", "--metrics-json", "m.json"]) == 0
    m = json.loads(Path("m.json").read_text())
    assert m["peak_state_bytes"] <= 600_000 and m["spilled_bytes"] > 0
    by = [("a_s", "ascending"), ("c_ts", "ascending")]
    assert pq.read_table("out.parquet").sort_by(by).equals(pq.read_table("whole.parquet").sort_by(by))
    assert main(["join", *inputs, *asked, "--memory-limit", "9kB", "--when-full", "spill", "-o", "no.parquet"]) == 2
    assert "memory_limit" in capsys.readouterr().err


def test_explain(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = ["a=a.parquet", "b=b.parquet", "c=c.parquet"]
    assert main(["explain", *inputs, "--condition", WHERE, "--order", "a=ts", "--workers", "4"]) == 0
    said = capsys.readouterr().out
    assert "keeps the view" in said and "grid of 4 workers" in said and "through" in said


@pytest.mark.parametrize("arguments, said", [
    (["a=a.parquet", "a=b.parquet"], "the alias 'a' is used twice"),
    (["a.parquet", "b.parquet", "c.parquet"], "3 inputs; give each an alias"),
    (["a=a.parquet", "b.parquet", "c=c.parquet"], "the input 'b.parquet' has no alias"),
    (["a=a.parquet", "b=b.parquet", "--on", "k"], "--on is for two inputs without an alias"),
    (["a=a.parquet", "b=b.parquet", "--left-order", "ts"], "--left-order is for two inputs without an alias"),
    (["a=-", "b=-"], "two inputs are standard input"),
    (["a=a.parquet", "b=b.parquet", "--order", "ts"], "--order is 'ts'; expected ALIAS=ORDER"),
    (["a=a.parquet", "b=b.parquet", "--bounds", "ts=0..1"], "--bounds is 'ts=0..1'; expected ALIAS.NAME=A..B"),
    (["a=a.parquet", "b=b.parquet"], "not connected to each other by the condition"),
    (["a.parquet", "b.parquet", "--order", "a=ts"], "--order is for inputs by alias"),
    (["a=a.parquet", "b=b.parquet", "--condition", "a.k = b.k", "-o", "b.parquet"], "would replace the input"),
])  # fmt: skip
def test_what_is_wrong(files: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["join", *arguments]) == 2
    assert said in capsys.readouterr().err
