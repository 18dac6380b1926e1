"""Joins of some thousand rows, so that chunks fill, are cut, compacted and given back; against all pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import oracle
import pyarrow as pa
import pytest
from join.conditions import rank
from seeds import each

from ivjoin import Order, SymmetricHashJoin

Matrix = Callable[[dict[str, np.ndarray], dict[str, np.ndarray]], np.ndarray]


@dataclass(frozen=True)
class Shape:
    """A condition over ``a`` (in order, with slack), ``x`` (any small number) and ``u`` (wide, unordered)."""

    condition: str | None
    holds: Matrix


SHAPES = {
    "band": Shape("l.a BETWEEN r.a - 7 AND r.a + 4", lambda p, q: (p["a"] - q["a"] >= -7) & (p["a"] - q["a"] <= 4)),
    "strict": Shape("l.a > r.a - 3 AND l.a < r.a + 30", lambda p, q: (p["a"] - q["a"] > -3) & (p["a"] - q["a"] < 30)),
    "absolute": Shape(
        "abs(l.a - r.a) < 12 AND l.x <> r.x", lambda p, q: (abs(p["a"] - q["a"]) < 12) & (p["x"] != q["x"])
    ),
    "or": Shape(
        "l.a = r.a OR l.a BETWEEN r.a + 10 AND r.a + 15",
        lambda p, q: (p["a"] == q["a"]) | ((p["a"] - q["a"] >= 10) & (p["a"] - q["a"] <= 15)),
    ),
    "two bands": Shape(
        "l.a <= r.a + 5 AND l.a >= r.a - 20 AND l.u <= r.u",
        lambda p, q: (p["a"] - q["a"] <= 5) & (p["a"] - q["a"] >= -20) & (p["u"] <= q["u"]),
    ),
    "filters": Shape(
        "l.a BETWEEN r.a - 9 AND r.a AND l.x > 1 AND r.x < 8",
        lambda p, q: (p["a"] - q["a"] >= -9) & (p["a"] <= q["a"]) & (p["x"] > 1) & (q["x"] < 8),
    ),
    "width": Shape(
        "l.a BETWEEN r.a - r.x AND r.a + l.x", lambda p, q: (p["a"] >= q["a"] - q["x"]) & (p["a"] <= q["a"] + p["x"])
    ),
    "remainder": Shape(
        "abs(l.a - r.a) <= 40 AND (l.u + r.u) % 7 = 3",
        lambda p, q: (abs(p["a"] - q["a"]) <= 40) & ((p["u"] + q["u"]) % 7 == 3),
    ),
    "no band": Shape(None, lambda p, q: (p["a"] == p["a"]) & (q["a"] == q["a"])),
}
KEYS = ("none", "few", "many", "text", "two", "null-safe")


class Side:
    """Random columns in the order of ``a`` but for some slack, nulls in the keys and in ``a``."""

    def __init__(self, rng: np.random.Generator, rows: int, span: int, slack: int, keys: int, falls: bool) -> None:
        a = np.sort(rng.integers(0, span, rows))
        a = a[np.argsort(a + rng.integers(0, slack + 1, rows), kind="stable")] if slack else a
        self.a = -a if falls else a
        self.a_null = rng.random(rows) < 0.03
        self.k = rng.integers(0, keys, rows)
        self.k_null = rng.random(rows) < 0.05
        self.x = rng.integers(0, 10, rows)
        self.u = rng.integers(0, 10_000, rows)
        words = np.array([f"{'key' * (i % 5)}{i}" for i in range(keys)])
        self.table = pa.table(
            {
                "n": pa.array(np.arange(rows)),
                "k": pa.array(self.k, mask=self.k_null),
                "s": pa.array(words[self.k], mask=self.k_null),
                "a": pa.array(self.a, mask=self.a_null),
                "x": pa.array(self.x),
                "u": pa.array(self.u),
                "text": pa.array([f"row {i} {'.' * (i % 30)}" for i in range(rows)]),
            }
        )

    def columns(self, axis: int) -> dict[str, np.ndarray]:
        """Columns shaped for broadcasting: left down, right across."""
        return {name: np.expand_dims(getattr(self, name), axis) for name in ("a", "x", "u")}


def wanted(left: Side, right: Side, shape: Shape, keys: str, how: str) -> list[tuple[int | None, int | None]]:
    met = shape.holds(left.columns(1), right.columns(0))
    if shape.condition is not None:
        met = met & ~left.a_null[:, None] & ~right.a_null[None, :]
    if keys != "none":
        equal = (left.k[:, None] == right.k[None, :]) & ~left.k_null[:, None] & ~right.k_null[None, :]
        if keys == "two":
            equal &= left.x[:, None] == right.x[None, :]
        if keys == "null-safe":
            equal |= left.k_null[:, None] & right.k_null[None, :]
        met = met & equal
    i, j = np.nonzero(met)
    pairs = list(zip(i.tolist(), j.tolist()))
    lone_left = [(int(v), None) for v in np.flatnonzero(~met.any(axis=1))]
    lone_right = [(None, int(v)) for v in np.flatnonzero(~met.any(axis=0))]
    return {
        "inner": pairs,
        "left": pairs + lone_left,
        "right": pairs + lone_right,
        "full": pairs + lone_left + lone_right,
        "left_semi": [(int(v), None) for v in np.flatnonzero(met.any(axis=1))],
        "left_anti": lone_left,
        "right_semi": [(None, int(v)) for v in np.flatnonzero(met.any(axis=0))],
        "right_anti": lone_right,
    }[how]


def play(seed: int) -> None:
    """One random join; the seed says everything."""
    rng = np.random.default_rng(seed)
    name = str(rng.choice(list(SHAPES)))
    shape, keys, how = SHAPES[name], str(rng.choice(KEYS)), str(rng.choice(oracle.HOWS))
    if name == "no band" and keys in ("none", "few", "null-safe"):
        keys = "many"
    falls, slack = bool(rng.random() < 0.3), int(rng.choice([0, 0, 5, 60]))
    rows = [int(rng.integers(200, 2200)) for _ in range(2)]
    span, key_count = int(rng.choice([300, 3000])), {"few": 3, "null-safe": 3}.get(keys, 400)
    left, right = (Side(rng, n, span, slack, key_count, falls) for n in rows)
    conjuncts = [shape.condition] if shape.condition else []
    if keys == "null-safe":
        conjuncts.append("l.k <=> r.k")
    condition = " AND ".join(f"({t})" for t in conjuncts) or None
    order = Order("a", descending=falls, slack=slack or None)
    ordered = [bool(rng.random() < 0.85) for _ in range(2)]
    batch_size = int(rng.choice([64, 1000, 65_536]))
    op = SymmetricHashJoin(
        left.table.schema,
        right.table.schema,
        on={"few": "k", "many": "k", "text": "s", "two": ["k", "x"]}.get(keys),
        condition=condition,
        how=how,
        left_order=order if ordered[0] else None,
        right_order=order if ordered[1] else None,
        batch_size=batch_size,
    )
    story = (
        f"seed {seed}: {how}, {name}, keys {keys}, {'falling' if falls else 'rising'}, slack {slack}, orders {ordered}"
    )
    tables = {"left": left.table.combine_chunks(), "right": right.table.combine_chunks()}
    at, out = {"left": 0, "right": 0}, []
    most = int(rng.choice([3, 40, 700]))
    lean = rng.uniform(0.2, 0.8)
    while at["left"] < rows[0] or at["right"] < rows[1]:
        side = "left" if (rng.random() < lean and at["left"] < rows[0]) or at["right"] >= rows[1] else "right"
        n = int(rng.integers(0, most + 1))
        piece = tables[side].slice(at[side], n).to_batches()
        at[side] += n
        for b in piece:
            out += op.push(side, b)
        if rng.random() < 0.02:
            op = SymmetricHashJoin.restore(op.snapshot())
        if rng.random() < 0.02 and at[side] < rows[side == "right"]:
            rest = tables[side].column("a").slice(at[side]).drop_null().to_pylist()
            if rest:
                out += op.advance(side, {"a": max(rest) if falls and ordered[side == "right"] else min(rest)})
        if at[side] >= rows[side == "right"] and rng.random() < 0.5:
            out += op.finish(side)
            at[side] = rows[side == "right"]
    out += op.finish()
    assert all(0 < b.num_rows <= batch_size for b in out), story
    table = pa.Table.from_batches(out, op.schema)
    table.validate(full=True)
    if how.startswith(("left_", "right_")):
        kept = table.column("n").to_pylist()
        got = [(v, None) if how.startswith("left_") else (None, v) for v in kept]
    else:
        got = list(zip(table.column("n").to_pylist(), table.column("n_right").to_pylist()))
    want = wanted(left, right, shape, keys, how)
    assert sorted(got, key=by_place) == sorted(want, key=by_place), story
    for number, text in (("n", "text"), ("n_right", "text_right")):
        if text in table.schema.names:
            for n, t in zip(table.column(number).to_pylist(), table.column(text).to_pylist()):
                assert t == (None if n is None else f"row {n} {'.' * (n % 30)}"), story
    assert op.metrics.state_rows == 0, story
    assert (op.metrics.left_rows_retired, op.metrics.right_rows_retired) == tuple(rows), story


def by_place(pair: tuple[int | None, int | None]) -> list[tuple[int, object]]:
    return [(-1, 0) if v is None else rank(v) for v in pair]


@pytest.mark.one_in(41)
@pytest.mark.parametrize("seed", range(40))
def test_many_rows(seed: int) -> None:
    play(seed)


@pytest.mark.soak
def test_many_rows_at_length() -> None:
    each(range(1000, 1600), play)
