"""``Pick`` against DuckDB's ranks, over expressions, ties, nulls, NaN, join types, orders, batches and snapshots."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from seeds import each, in_blocks

import ivjoin
from ivjoin import Pick

Row = tuple[int | None, int | None]


def side(rng: np.random.Generator, n: int, span: int, ordered: bool) -> pa.Table:
    t = rng.integers(0, span, n)
    t = np.sort(t) if ordered else t
    x = np.where(rng.random(n) < 0.05, np.nan, np.round(rng.normal(size=n) * 3))
    return pa.table({
        "i": np.arange(n), "k": pa.array(rng.integers(0, 3, n), mask=rng.random(n) < 0.05),
        "t": pa.array(t, mask=np.zeros(n, bool) if ordered else rng.random(n) < 0.05),
        "x": pa.array(x, mask=rng.random(n) < 0.2), "q": pa.array(rng.integers(0, 4, n), mask=rng.random(n) < 0.2),
        "s": pa.array(np.array(["a", "b", "é", ""])[rng.integers(0, 4, n)], mask=rng.random(n) < 0.2),
    })  # fmt: skip


def listed(by: list[str]) -> str:
    """Return SQL for the values as text, -0.0 as 0.0."""
    return "[" + ", ".join(f"replace(({b})::VARCHAR, '-0.0', '0.0')" for b in by) + "]"


def ranked(
    left: pa.Table, right: pa.Table, on: str | None, condition: str, pick: Pick, how: str
) -> tuple[Counter[Row], dict[int, Counter[Any]], dict[Row, str]]:
    """The rows with all ties, for each left row the values of what is taken without them, and those of all matches."""
    down = "DESC" if pick.keep == "last" else "ASC"
    by = [str(b) if str(b).find(".") >= 0 or "(" in str(b) else f"r.{b}" for b in pick.items]
    keys = f"l.{on} = r.{on} AND " if on else ""
    order = ", ".join(f"{b} {down} NULLS LAST" for b in by)
    with duckdb.connect(":memory:", config={"threads": 1}) as db:
        db.register("lt", left)
        db.register("rt", right)
        rows = db.sql(
            f"SELECT l.i, r.i, rank() OVER w, row_number() OVER w, {listed(by)} "
            f"FROM lt l JOIN rt r ON {keys}{condition} WINDOW w AS (PARTITION BY l.i ORDER BY {order})"
        ).fetchall()
    pairs: Counter[Row] = Counter((a, b) for a, b, rank, _, _ in rows if rank <= pick.k)
    values: dict[int, Counter[Any]] = {}
    for a, _, _, number, value in rows:
        if number <= pick.k:
            values.setdefault(a, Counter())[str(value)] += 1
    if how in ("left", "full"):
        pairs.update((a, None) for a in set(left["i"].to_pylist()) - {a for a, _ in pairs})
    if how in ("right", "full"):
        pairs.update((None, b) for b in set(right["i"].to_pylist()) - {b for _, b in pairs})
    return pairs, values, {(a, b): str(value) for a, b, _, _, value in rows}


def check(got: pa.Table, left: pa.Table, right: pa.Table, on: str | None, condition: str, pick: Pick, how: str) -> None:
    rows: Counter[Row] = Counter(zip(got["i"].to_pylist(), got["i_right"].to_pylist(), strict=True))
    pairs, values, value = ranked(left, right, on, condition, pick, how)
    if pick.ties == "all":
        assert rows == pairs
        return
    taken = {(a, b) for a, b in rows if a is not None and b is not None}
    assert all(n == 1 for n in rows.values())
    assert taken <= set(value)
    matches = Counter(a for a, _ in value)
    assert Counter(a for a, _ in taken) == Counter({a: min(pick.k, n) for a, n in matches.items()})
    found: dict[int, Counter[Any]] = {}
    for a, b in taken:
        found.setdefault(a, Counter())[value[a, b]] += 1
    assert found == values
    lone_left = {a for a, b in rows if b is None}
    lone_right = {b for a, b in rows if a is None}
    every_left, every_right = set(left["i"].to_pylist()), set(right["i"].to_pylist())
    assert lone_left == (every_left - {a for a, _ in taken} if how in ("left", "full") else set())
    assert lone_right == (every_right - {b for _, b in taken} if how in ("right", "full") else set())


BY: list[Any] = [
    "abs(l.t - r.t)", "t", ["abs(l.t - r.t)", "r.q"], "abs(l.x - r.x)", ["q", "t"], "s", "r.x * l.q", ["t", "x"],
    ["r.q % 2", "abs(l.t - r.t)"],
]  # fmt: skip
CONDITIONS = ["abs(l.t - r.t) <= 15", "r.t <= l.t", "r.t BETWEEN l.t - 30 AND l.t + 4 AND (l.x < r.x OR r.q > 1)"]
HOW = ["inner", "left", "right", "full"]


@pytest.mark.parametrize("seeds", in_blocks(range(len(BY) * 24), 29))
def test_against_duckdb(seeds: list[int]) -> None:
    each(seeds, play)


def play(seed: int) -> None:
    rng = np.random.default_rng(seed)
    by, how = BY[seed % len(BY)], HOW[seed // len(BY) % 4]
    keep, ties = ("first", "last")[seed % 2], ("any", "all")[seed // 3 % 2]
    pick = Pick(by, keep, int(rng.integers(1, 5)), ties)  # type: ignore[arg-type]
    condition, on = CONDITIONS[seed % 3], "k" if seed % 5 else None
    ordered = seed % 7 < 4
    left, right = side(rng, 50, 200, ordered), side(rng, 120, 200, ordered)
    options: dict[str, Any] = {"on": on, "condition": condition, "pick": pick, "how": how}
    if ordered:
        options |= {"left_order": "t", "right_order": "t"}
    sides: list[Any] = [left, right]
    if seed % 4 == 3:
        sides = [iter(left.to_batches(7)), iter(right.to_batches(11))]
    got = ivjoin.band_join(*sides, batch_size=int(rng.integers(1, 40)), **options).to_arrow()
    check(got, left, right, on, condition, pick, how)


@pytest.mark.parametrize("how", ["left", "full"])
def test_snapshots_keep_what_was_taken(how: str) -> None:
    rng = np.random.default_rng(3)
    left, right = side(rng, 60, 200, True), side(rng, 120, 200, True)
    pick, condition = Pick("abs(l.t - r.t)", k=2, ties="all"), "r.t BETWEEN l.t - 20 AND l.t + 5"
    op = ivjoin.SymmetricHashJoin(
        left.schema, right.schema, on="k", condition=condition, how=how, left_order="t", right_order="t", pick=pick,
    )
    out: list[pa.RecordBatch] = []
    for a, b in zip(left.to_batches(5), right.to_batches(10), strict=True):
        out += op.push("left", a)
        out += op.push("right", b)
        op = ivjoin.SymmetricHashJoin.restore(op.snapshot())
    assert out and op.metrics.state_rows < 60
    out += op.finish()
    check(pa.Table.from_batches(out), left, right, "k", condition, pick, how)


def test_one_row_along_the_axis_takes_the_fast_path() -> None:
    rows = pa.schema([("t", pa.int64()), ("x", pa.int64())])
    said = ivjoin.explain(rows, rows, condition="abs(l.t - r.t) <= 5", pick=Pick("abs(l.t - r.t)"))
    assert "the nearest by r.t to l.t" in said
    said = ivjoin.explain(rows, rows, condition="r.t <= l.t", pick=Pick(["t", "x"], keep="last"))
    assert "the last by r.t, ties by r.x" in said
    # A null could win here, which no right row decides alone.
    said = ivjoin.explain(rows, rows, condition="r.t <= l.t", pick=Pick("x", k=3, ties="all"))
    assert "the first 3 by r.x, and what ties with the last of them" in said


def test_nulls_sort_last_either_way() -> None:
    a, b = pa.table({"k": [1]}), pa.table({"k": [1, 1, 1], "x": [None, 2, 1]})
    for keep, wanted in (("first", [1, 2, None]), ("last", [2, 1, None])):
        for k in (1, 2, 3):
            got = ivjoin.band_join(a, b, on="k", pick=Pick("x", keep, k))  # type: ignore[arg-type]
            assert got.to_arrow()["x"].to_pylist() == wanted[:k]


@pytest.mark.parametrize("ties", ["any", "all"])
def test_few_rows_of_long_windows_are_compared(ties: Any) -> None:
    n = 20_000
    t = np.sort(np.random.default_rng(1).integers(0, n, n))
    rows = pa.table({"t": t, "i": np.arange(n)})
    got = ivjoin.band_join(rows, rows, condition="abs(l.t - r.t) <= 10000", pick=Pick("abs(l.t - r.t)", k=3, ties=ties))
    out = got.to_arrow()
    assert out.num_rows >= 3 * n and (ties == "all" or out.num_rows == 3 * n)
    i = int(np.flatnonzero(np.asarray(out["i"]) == n // 2)[0])
    near = np.sort(np.abs(t - t[n // 2]))[:3]
    assert abs(out["t"][i].as_py() - out["t_right"][i].as_py()) == near[0]


@pytest.mark.parametrize(("pick", "how", "said"), [
    ({"by": "nope"}, "left", "'nope'"), ({"by": "t", "keep": "nearest"}, "left", "keep"),
    ({"by": "t", "k": 0}, "left", "k is 0"), ({"by": "t", "ties": "some"}, "left", "ties"),
    ({"by": []}, "left", "by is"), ({"by": "t"}, "left_semi", "pick="),
    ({"by": "struct"}, "left", "expected a number"),
])  # fmt: skip
def test_refused(pick: Any, how: str, said: str) -> None:
    rows = pa.table({"t": [1], "struct": [{"a": 1}]})
    with pytest.raises(ivjoin.IvjoinError, match=said):
        ivjoin.band_join(rows, rows, condition="r.t <= l.t", pick=Pick(**pick), how=how)


def test_limits() -> None:
    rows = pa.table({"t": np.arange(30_000), "x": np.arange(30_000) % 7})
    options: dict[str, Any] = {"condition": "abs(l.t - r.t) <= 9000", "pick": Pick("r.x * l.x", k=2),
                               "memory_limit": "100kB"}  # fmt: skip
    with pytest.raises(ivjoin.UnsupportedError, match="'shed' cannot be used with pick"):
        ivjoin.band_join(rows, rows, when_full="shed", **options)
    with pytest.raises(ivjoin.MemoryLimitError, match="All columns are in files"):
        ivjoin.band_join(rows, rows, when_full="spill", **options).to_arrow()
    with pytest.raises(ivjoin.MemoryLimitError):
        ivjoin.band_join(rows, rows, **options).to_arrow()


def test_an_error_in_the_order() -> None:
    rows = pa.table({"t": [1, 2], "x": [0, 1]})
    with pytest.raises(ivjoin.EvaluationError, match="pick: .*zero"):
        ivjoin.band_join(rows, rows, condition="r.t <= l.t", pick=Pick("1 / r.x")).to_arrow()
