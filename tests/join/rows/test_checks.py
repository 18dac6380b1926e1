"""Joins whose residual the compiled probe decides, whole or in part: DuckDB's pairs, for all join types."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest
from join import duck
from join.fed import in_turn
from join.indexes import runs_at_once
from join.tables import Ids
from oracle import HOWS

import ivjoin
from ivjoin import EvaluationError, SymmetricHashJoin
from ivjoin.operator.match import pairs, residual

SCHEMA = pa.schema({
    "id": pa.int64(), "k": pa.int64(), "t": pa.int64(), "x": pa.int32(), "y": pa.int64(), "f": pa.float64(),
    "s": pa.string(),
})  # fmt: skip

DECIDED = [
    "(l.t BETWEEN r.t - 5 AND r.t - 1 OR l.t BETWEEN r.t + 2 AND r.t + 4)",
    "l.t BETWEEN r.t - 5 AND r.t + 5 AND CASE WHEN l.x > r.x THEN l.x <> 3 ELSE r.x > 1 END",
    "(l.s = 'a' AND l.t - r.t BETWEEN 0 AND 3) OR (l.s = 'b' AND r.t - l.t BETWEEN 0 AND 6)",
    "l.t - r.t IN (0, 2, 3)", "NOT (l.t - r.t BETWEEN -3 AND 3) AND abs(l.t - r.t) < 6",
    "l.x IS NULL OR l.x < r.x OR r.y IS NULL", "l.t >= r.t AND (l.f < r.f OR l.f > r.f + 1.0::DOUBLE)", "l.x <> r.x",
    "coalesce(l.x < r.x, l.y < r.y, r.x = 2)", "(l.x = r.x) IS NULL OR l.y = r.y + 1",
]  # fmt: skip
ASKED = [
    "l.t BETWEEN r.t - 5 AND r.t + 5 AND (l.x < r.x OR l.x * r.y < 3)", "l.s <> r.s AND (l.t < r.t OR l.x > r.x)",
    "(l.x = 1 AND l.t <= r.t) OR (r.x = 1 AND l.y * r.x > 2) OR l.t = r.t + 1",
]  # fmt: skip


def rows(rng: random.Random, n: int, nulls: float = 0.2) -> pa.Table:
    def maybe(v: Any) -> Any:
        return None if rng.random() < nulls else v

    t, out = 0, []
    for i in range(n):
        t += rng.choice([0, 0, 1, 2])
        out.append({
            "id": i, "k": rng.randrange(2), "t": t, "x": maybe(rng.randrange(4)), "y": maybe(rng.randrange(-2, 4)),
            "f": maybe(rng.choice([0.0, 0.5, 1.0, 2.5, float("nan")])), "s": maybe(rng.choice("abc")),
        })  # fmt: skip
    return pa.Table.from_pylist(out, SCHEMA)


def wanted(left: pa.Table, right: pa.Table, condition: str, how: str) -> Ids:
    return Counter(duck.pairs(left, right, how, f"l.k = r.k AND ({condition})"))


def joined(left: pa.Table, right: pa.Table, condition: str, how: str, size: int, **options: Any) -> Ids:
    options = {"left_order": "t", "right_order": "t", "batch_size": 37} | options
    restores = options.pop("restores", False)
    text = condition.replace("1.0::DOUBLE", "1D")
    op = SymmetricHashJoin(left.schema, right.schema, on="k", condition=text, how=how, **options)
    return in_turn(op, (left, right), how, size, restores)[0]


def never(*_: Any) -> None:
    raise AssertionError("Python was asked about a pair")


@pytest.mark.one_in(11)
@pytest.mark.parametrize("condition", DECIDED)
def test_probe_decides_without_the_residual(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "decide", never)
    rng = random.Random(condition)
    left, right = rows(rng, 60), rows(rng, 50)
    for how in HOWS:
        size = rng.choice([1, 7, 100])
        assert joined(left, right, condition, how, size) == wanted(left, right, condition, how), how


@pytest.mark.one_in(31)
@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("condition", [*DECIDED, *ASKED])
def test_with_snapshots_and_either_index(condition: str, runs: bool) -> None:
    rng = random.Random(f"{condition} {runs}")
    left, right = rows(rng, 45), rows(rng, 45)
    with runs_at_once(3) if runs else nullcontext():
        for how in rng.sample(HOWS, 4):
            assert joined(left, right, condition, how, 20, restores=not runs) == wanted(left, right, condition, how)


@pytest.mark.slow
@pytest.mark.parametrize("condition", ASKED)
def test_python_decides_only_some_pairs(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, all_pairs, holds = [], [], residual.holds
    decide = pairs.decide

    def noted(nodes: Any, column: Any, n: int) -> Any:
        asked.append(n)
        return holds(nodes, column, n)

    def counted(engine: Any, p: int, batch: pa.RecordBatch) -> None:
        all_pairs.append(engine.state.get("n_pairs"))
        decide(engine, p, batch)

    monkeypatch.setattr(residual, "holds", noted)
    monkeypatch.setattr(pairs, "decide", counted)
    rng = random.Random(condition)
    left, right = rows(rng, 60), rows(rng, 60)
    for how in HOWS:
        assert joined(left, right, condition, how, 30) == wanted(left, right, condition, how), how
    assert 0 < sum(asked) <= sum(all_pairs) < 8 * len(wanted(left, right, "TRUE", "inner"))


@pytest.mark.slow
def test_a_row_outside_the_guards_has_the_whole_condition_decide() -> None:
    rng = random.Random(4)
    left, right = rows(rng, 40), rows(rng, 40)
    condition = "(l.t - r.t BETWEEN 0 AND 2 AND l.x = 1) OR l.y - r.y < -1"
    far = pa.Table.from_pylist([{"id": 40, "k": 0, "t": 10**6, "y": -(2**62) - 5}], SCHEMA)
    left = pa.concat_tables([left.slice(0, 20), far, left.slice(20)]).set_column(0, "id", pa.array(range(41)))
    for how in HOWS:
        got = joined(left, right, condition, how, 8, left_order=None, right_order=None)
        assert got == wanted(left, right, condition, how), how
        assert any(r["y"] is not None and r["y"] < -100 for r in left.to_pylist())


def test_errors_come_where_they_are_promised() -> None:
    left = pa.table({"k": [1, 1], "t": [5, 6], "d": [0, 1]})
    right = pa.table({"k": [1], "t": [5], "d": [0]})

    def run(condition: str, n: int) -> int:
        op = SymmetricHashJoin(left.schema, right.schema, on="k", condition=condition)
        assert not list(op.push("right", right.to_batches()[0]))
        return sum(b.num_rows for b in op.push("left", left.slice(0, n).combine_chunks().to_batches()[0]))

    assert run("l.t = r.t OR l.t div r.d > 3", 1) == 1
    with pytest.raises(EvaluationError, match="division by zero"):
        run("l.t = r.t OR l.t div r.d > 3", 2)
    with pytest.raises(EvaluationError, match="division by zero"):
        run("l.t div r.d > 3 OR l.t = r.t", 1)
    with pytest.raises(EvaluationError, match="division by zero"):
        run("(l.t < r.t - 9 OR l.t = 6 OR NULL) AND l.t div r.d > 3", 1)
    assert run("(l.t < r.t - 9 OR l.t = 6) AND l.t div r.d > 3", 1) == 0


def test_a_branch_that_an_order_rules_out_prunes_still() -> None:
    condition = "(l.x = 1 AND l.t - r.t BETWEEN 0 AND 5) OR (l.x = 2 AND l.t - r.t BETWEEN 0 AND 50)"
    op = SymmetricHashJoin(SCHEMA, SCHEMA, on="k", condition=condition, left_order=["t", "x"])
    row = {"id": 0, "k": 0, "t": 7, "x": 1, "y": 0, "f": 0.0, "s": ""}
    assert not list(op.push("right", pa.RecordBatch.from_pylist([row], SCHEMA)))
    assert not list(op.push("left", pa.RecordBatch.from_pylist([row | {"k": 1, "x": 2}], SCHEMA)))
    assert op.metrics.state_rows == 2
    assert not list(op.push("left", pa.RecordBatch.from_pylist([row | {"k": 1, "x": 3}], SCHEMA)))
    op.advance("left", {"x": 3})
    assert op.metrics.right_rows_retired == 1


def test_windows_of_an_or_die_with_the_widest() -> None:
    condition = "l.t BETWEEN r.t - 5 AND r.t OR l.t BETWEEN r.t + 10 AND r.t + 20"
    op = SymmetricHashJoin(SCHEMA, SCHEMA, on="k", condition=condition, left_order="t", right_order="t")
    for t in range(0, 3000, 3):
        for side in ("left", "right"):
            row = {"id": t, "k": 0, "t": t, "x": None, "y": None, "f": None, "s": None}
            list(op.push(side, pa.RecordBatch.from_pylist([row], SCHEMA)))
    assert op.metrics.peak_state_rows < 16


def test_explain_tells_the_probe_from_python() -> None:
    both = "l.s <> r.s AND (l.t < r.t OR l.x > r.x) AND l.t * r.t < 9"
    lines = {
        line.split("    (")[0].split(None, 1)[1]: line.split("    (")[1]
        for line in ivjoin.explain(SCHEMA, SCHEMA, condition=both).splitlines() if line.startswith("  residual")
    }
    assert lines == {
        "l.s <> r.s": "evaluated on the pairs that the compiled probe leaves open)",
        "l.t < r.t OR l.x > r.x": "decided in the compiled probe)",
        "l.t * r.t < 9": "evaluated on the pairs that the compiled probe leaves open)",
    }
    assert "evaluated on each candidate pair" in ivjoin.explain(SCHEMA, SCHEMA, condition="l.t * r.t < 9")
