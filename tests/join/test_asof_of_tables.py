"""As-of joins of tables of some thousand rows, in order and out of it, against every pair and DuckDB's ASOF."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import ivjoin

NAN, INFINITE = 2.0**53, 2.0**52  # above every value here, as these are above every number
ROWS = 2600, 6000


def times(rng: np.random.Generator, n: int, kind: str) -> pa.Array:
    """Values of the column that is compared: with ties, with nulls, and with values that lie in heaps."""
    if kind == "near":
        return pa.array(rng.integers(0, 20, n))
    if kind == "heaps":
        heaps = rng.choice(np.array([-(2**50), 0, 2**50]), n) + rng.integers(0, 300, n)
        return pa.array(heaps, mask=rng.random(n) < 0.02)
    if kind == "stamps":
        return pa.array(rng.integers(0, 50_000, n), mask=rng.random(n) < 0.02).cast(pa.timestamp("us"))
    values = np.round(rng.normal(0, 100, n), 1)
    for odd in (np.nan, -0.0, 0.0, np.inf, -np.inf):
        values[rng.random(n) < 0.01] = odd
    return pa.array(values, mask=rng.random(n) < 0.02, from_pandas=False)


def keys(rng: np.random.Generator, n: int, kind: str) -> pa.Array:
    if kind == "near":
        return pa.array(rng.integers(-20, 20, n), mask=rng.random(n) < 0.05)
    if kind == "far":
        return pa.array(rng.integers(0, 40, n) * 2**57)
    if kind == "many":
        return pa.array(rng.integers(0, 2500, n))
    if kind == "heavy":
        return pa.array(np.where(rng.random(n) < 0.7, 7, rng.integers(0, 2000, n)))
    return pa.array([f"name {i}" for i in rng.integers(0, 40, n)])


def numbers(values: pa.Array) -> np.ndarray:
    """As doubles, all of them finite."""
    t = values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values
    found = t.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    return np.nan_to_num(found, nan=NAN, posinf=INFINITE, neginf=-INFINITE)


def wanted(left: pa.Table, right: pa.Table, direction: str, tolerance: float | None, exact: bool) -> np.ndarray:
    """The time of each left row's partner, by all pairs; NaN for none."""
    a, b = (numbers(t["t"].combine_chunks()) for t in (left, right))
    there = [t["t"].is_valid().to_numpy() & t["k"].is_valid().to_numpy() for t in (left, right)]
    both = pa.chunked_array([*left["k"].chunks, *right["k"].chunks]).combine_chunks().dictionary_encode()
    codes = both.indices.fill_null(0).to_numpy()
    mine, theirs = codes[: len(a)], codes[len(a) :]
    out = np.full(len(a), np.nan)
    for i in np.flatnonzero(there[0]):
        d = np.abs(b - a[i])
        fits = there[1] & (theirs == mine[i]) & (exact | (b != a[i]))
        fits &= {"backward": b <= a[i], "forward": b >= a[i], "nearest": np.ones(len(b), dtype=bool)}[direction]
        if tolerance is not None:
            fits &= d <= tolerance
        at = np.flatnonzero(fits)
        if len(at):
            best = {"backward": b[at].max, "forward": b[at].min}.get(direction)
            out[i] = best() if best else b[at[np.lexsort((b[at], d[at]))[0]]]
    return out


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_every_pair(seed: int, direction: Any) -> None:
    rng = np.random.default_rng(seed)
    kind = ("near", "heaps", "stamps", "floats")[seed % 4]
    if kind == "floats" and direction == "nearest":
        kind = "heaps"  # distances of infinities are told in test_asof
    names = ("near", "far", "many", "heavy", "text")[seed % 5]
    left, right = (pa.table({"k": keys(rng, n, names), "t": times(rng, n, kind), name: np.arange(n)})
                   for n, name in zip(ROWS, ("id", "x"), strict=True))  # fmt: skip
    if seed % 3 == 0:
        right = right.sort_by("t").set_column(2, "x", pa.array(np.arange(len(right))))
    if seed % 6 == 0:
        left = left.sort_by("t")
    tolerance = None if seed % 2 else (40 if kind != "near" else 1)
    exact = seed % 7 != 0
    limit: Any = f"{tolerance} us" if tolerance is not None and kind == "stamps" else tolerance
    got = ivjoin.asof_join(
        left, right, on="t", by="k", direction=direction, tolerance=limit, allow_exact_matches=exact
    ).read_all()
    assert got["id"].to_pylist() == left["id"].to_pylist()
    none = got["x"].is_null().to_numpy()
    found = np.where(none, np.nan, numbers(got["t_right"].combine_chunks()))
    np.testing.assert_array_equal(found, wanted(left, right, direction, tolerance, exact))
    # it is a right row, of that key and time
    rows = right.take(got["x"].filter(pa.array(~none)))
    there = got.filter(pa.array(~none))
    assert rows["k"].to_pylist() == there["k"].to_pylist()
    np.testing.assert_array_equal(numbers(rows["t"].combine_chunks()), numbers(there["t_right"].combine_chunks()))


@pytest.mark.parametrize("kind", ["near", "heaps", "stamps", "floats"])
@pytest.mark.parametrize("names", ["near", "far", "many", "heavy", "text"])
@pytest.mark.parametrize("direction, sql", [("backward", ">="), ("forward", "<="), ("backward", ">"), ("forward", "<")])
def test_duckdb_finds_the_same_times(kind: str, names: str, direction: Any, sql: str) -> None:
    rng = np.random.default_rng(len(kind) + 100 * len(names))
    left, right = (pa.table({"k": keys(rng, n, names), "t": times(rng, n, kind), "id": np.arange(n)}) for n in ROWS)
    con = duckdb.connect()
    con.register("l", left)
    con.register("r", right)
    want = con.sql(f"SELECT r.t FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.t {sql} r.t ORDER BY l.id").to_arrow_table()
    exact = sql.endswith("=")
    got = ivjoin.asof_join(left, right, on="t", by="k", direction=direction, allow_exact_matches=exact).read_all()
    a, b = got["t_right"].combine_chunks(), want["t"].combine_chunks()
    assert (a.is_null().to_numpy(zero_copy_only=False) == b.is_null().to_numpy(zero_copy_only=False)).all()
    np.testing.assert_array_equal(numbers(a), numbers(b.cast(a.type)))


@pytest.mark.parametrize("direction", ["backward", "nearest"])
def test_a_right_side_in_many_pieces(direction: Any) -> None:
    rng = np.random.default_rng(8)
    left, right = (
        pa.table({"k": keys(rng, n, "text"), "t": times(rng, n, "stamps"), "id": np.arange(n)}) for n in ROWS
    )
    right = right.append_column("said", pa.array([f"said {i}" if i % 5 else None for i in range(len(right))]))
    whole = ivjoin.asof_join(left, right, on="t", by="k", direction=direction).read_all()
    # past what is put together before it is pushed
    pieces = (right.slice(start, 2100) for start in range(0, len(right), 2100))
    batches = [batch for piece in pieces for batch in piece.to_batches()]
    for size in (65_536, 1000):
        got = ivjoin.asof_join(left, batches, on="t", by="k", direction=direction, batch_size=size)
        table = got.read_all()
        assert table.select(["id", "t_right", "id_right", "said"]).equals(
            whole.select(["id", "t_right", "id_right", "said"])
        )
