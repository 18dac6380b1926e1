"""Joins of some thousand rows, so that chunks fill, are cut, compacted and given back; against all pairs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import oracle
import pyarrow as pa
import pytest
from join import duck
from join.tables import ids
from seeds import each

from ivjoin import Order, SymmetricHashJoin

# Conditions over ``a`` (in order, with slack), ``x`` (any small number) and ``u`` (wide, unordered).
SHAPES: dict[str, str | None] = {
    "band": "l.a BETWEEN r.a - 7 AND r.a + 4", "strict": "l.a > r.a - 3 AND l.a < r.a + 30",
    "absolute": "abs(l.a - r.a) < 12 AND l.x <> r.x", "or": "l.a = r.a OR l.a BETWEEN r.a + 10 AND r.a + 15",
    "two bands": "l.a <= r.a + 5 AND l.a >= r.a - 20 AND l.u <= r.u",
    "filters": "l.a BETWEEN r.a - 9 AND r.a AND l.x > 1 AND r.x < 8", "width": "l.a BETWEEN r.a - r.x AND r.a + l.x",
    "remainder": "abs(l.a - r.a) <= 40 AND (l.u + r.u) % 7 = 3", "no band": None,
}
KEYS = {
    "none": "TRUE", "few": "l.k = r.k", "many": "l.k = r.k", "text": "l.s = r.s", "two": "l.k = r.k AND l.x = r.x",
    "null-safe": "l.k IS NOT DISTINCT FROM r.k",
}


def drawn(rng: np.random.Generator, rows: int, span: int, slack: int, keys: int, falls: bool) -> pa.Table:
    """Random columns in the order of ``a`` but for some slack, nulls in the keys and in ``a``."""
    a = np.sort(rng.integers(0, span, rows))
    a = a[np.argsort(a + rng.integers(0, slack + 1, rows), kind="stable")] if slack else a
    k, no_key = rng.integers(0, keys, rows), rng.random(rows) < 0.05
    words = np.array([f"{'key' * (i % 5)}{i}" for i in range(keys)])
    return pa.table({
        "id": np.arange(rows), "k": pa.array(k, mask=no_key), "s": pa.array(words[k], mask=no_key),
        "a": pa.array(-a if falls else a, mask=rng.random(rows) < 0.03), "x": rng.integers(0, 10, rows),
        "u": rng.integers(0, 10_000, rows), "text": [f"row {i} {'.' * (i % 30)}" for i in range(rows)],
    })  # fmt: skip


def play(seed: int) -> None:
    """One random join; the seed says everything."""
    rng = np.random.default_rng(seed)
    name = str(rng.choice(list(SHAPES)))
    shape, keys, how = SHAPES[name], str(rng.choice(list(KEYS))), str(rng.choice(oracle.HOWS))
    if name == "no band" and keys in ("none", "few", "null-safe"):
        keys = "many"
    falls, slack = bool(rng.random() < 0.3), int(rng.choice([0, 0, 5, 60]))
    rows = [int(rng.integers(200, 2200)) for _ in range(2)]
    span, key_count = int(rng.choice([300, 3000])), {"few": 3, "null-safe": 3}.get(keys, 400)
    left, right = (drawn(rng, n, span, slack, key_count, falls) for n in rows)
    conjuncts = [shape] if shape else []
    if keys == "null-safe":
        conjuncts.append("l.k <=> r.k")
    condition = " AND ".join(f"({t})" for t in conjuncts) or None
    order = Order("a", descending=falls, slack=slack or None)
    ordered = [bool(rng.random() < 0.85) for _ in range(2)]
    batch_size = int(rng.choice([64, 1000, 65_536]))
    op = SymmetricHashJoin(
        left.schema, right.schema, on={"few": "k", "many": "k", "text": "s", "two": ["k", "x"]}.get(keys),
        condition=condition, how=how, left_order=order if ordered[0] else None,
        right_order=order if ordered[1] else None, batch_size=batch_size,
    )  # fmt: skip
    story = (
        f"seed {seed}: {how}, {name}, keys {keys}, {'falling' if falls else 'rising'}, slack {slack}, orders {ordered}"
    )
    tables = {"left": left.combine_chunks(), "right": right.combine_chunks()}
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
    want = duck.pairs(left, right, how, f"{KEYS[keys]} AND ({shape or 'TRUE'})")
    assert ids([table], how) == Counter(want), story
    for number, text in (("id", "text"), ("id_right", "text_right")):
        if text in table.schema.names:
            for n, t in zip(table.column(number).to_pylist(), table.column(text).to_pylist()):
                assert t == (None if n is None else f"row {n} {'.' * (n % 30)}"), story
    assert op.metrics.state_rows == 0, story
    assert (op.metrics.left_rows_retired, op.metrics.right_rows_retired) == tuple(rows), story


@pytest.mark.one_in(41)
@pytest.mark.parametrize("seed", range(40))
def test_many_rows(seed: int) -> None:
    play(seed)


@pytest.mark.soak
def test_many_rows_at_length() -> None:
    each(range(1000, 1600), play)
