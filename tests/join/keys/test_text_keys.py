"""Text that is part of the key is stored only in the key table: every emitted row has its own text."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest

from ivjoin import SymmetricHashJoin
from ivjoin.shj.store.values.texts import KeyTextColumn

BAND = "l.t BETWEEN r.t - 2 AND r.t + 1"
TEXT = ["", "a", "é", "seven b", "eight by", "nine byte", "fifteen bytes..", "sixteen bytes...", "x" * 61]
KEYS: dict[str, tuple[str, ...]] = {
    "text": ("s",), "text and number": ("s", "n"), "number and text": ("n", "s"), "three": ("s", "n", "b"),
    "bytes and text": ("b", "s"),
}
TYPES = {"narrow": (pa.string(), pa.binary()), "wide": (pa.large_string(), pa.large_binary())}
Row = tuple[Any, ...]


def rows(rng: np.random.Generator, first: int, n: int) -> list[Row]:
    out = []
    for i in range(n):
        s = None if rng.random() < 0.05 else TEXT[rng.integers(0, len(TEXT))] + str(int(rng.integers(0, 2)) * first)
        b = None if rng.random() < 0.05 else TEXT[rng.integers(0, 3)].encode()
        out.append((s, int(rng.integers(0, 2)), b, (first + i) // 4, first + i))
    return out


def batch(given: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*given, strict=True)
    return pa.record_batch([pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)], schema=schema)


def expected(left: list[Row], right: list[Row], keys: tuple[str, ...], how: str) -> Counter[Row]:
    equal = [(itemgetter(i), itemgetter(i), False) for i in map("snb".index, keys)]
    return oracle.join(left, right, how, equal, lambda x, y: y[3] - 2 <= x[3] <= y[3] + 1)


@pytest.mark.one_in(7)
@pytest.mark.nojit
@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("how", ["inner", "full", "left_anti"])
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("keys", KEYS)
def test_every_row_has_its_own_text(keys: str, types: str, how: str) -> None:
    text, octets = TYPES[types]
    schema = pa.schema([("s", text), ("n", pa.int64()), ("b", octets), ("t", pa.int64()), ("v", pa.int64())])
    equal = " AND ".join(f"l.{k} = r.{k}" for k in KEYS[keys])
    op = SymmetricHashJoin(
        schema, schema, condition=f"{equal} AND {BAND}", how=how, left_order="t", right_order="t", batch_size=7
    )
    held = [type(c) is KeyTextColumn for c in op._engine.stores[0].columns]
    assert sum(held) == sum(k != "n" for k in KEYS[keys])
    rng = np.random.default_rng(len(keys))
    given: tuple[list[Row], list[Row]] = [], []
    got: Counter[Row] = Counter()
    for i in range(12):
        for side, seen in zip(("left", "right"), given, strict=True):
            new = rows(rng, 10 * i, 10)
            seen += new
            whole = batch([new[0], *new, new[0]], schema)
            got += Counter(tuple(r.values()) for b in op.push(side, whole.slice(1, 10)) for r in b.to_pylist())
        if i % 6 == 2:
            op = SymmetricHashJoin.restore(op.snapshot())
    got += Counter(tuple(r.values()) for b in op.finish() for r in b.to_pylist())
    assert got == expected(*given, KEYS[keys], how)


def test_text_of_keys_that_come_and_go() -> None:
    """Keys are reclaimed and the arena is repacked while rows still refer to some of them."""
    types = {"s": pa.string(), "n": pa.int64(), "b": pa.binary(), "t": pa.int64(), "v": pa.int64()}
    schema = pa.schema(types)
    op = SymmetricHashJoin(
        schema, schema, condition=f"l.s = r.s AND l.n = r.n AND {BAND}", how="full", left_order="t", right_order="t"
    )
    got: list[tuple[Any, Any]] = []
    n, arenas = 400, set()
    for i in range(40):
        numbers = np.arange(n * i, n * i + n)
        for side in ("left", "right"):
            # one row in ten meets another; each text tells its row's number, and is long now and then
            own = numbers if side == "left" else np.where(numbers % 10 == 0, numbers, -numbers - 1)
            texts = [f"{v} {'.' * (v % 97 if v % 5 == 0 else 3)}" for v in own]
            made = {"s": texts, "n": own, "b": [b""] * n, "t": numbers // 8, "v": own}
            for out in op.push(side, pa.record_batch([pa.array(made[f.name], f.type) for f in schema], schema=schema)):
                got += [(r[s], r[v]) for r in out.to_pylist() for s, v in (("s", "v"), ("s_right", "v_right"))]
        arenas.add(len(op._engine.keys._arena))  # type: ignore[attr-defined]
    for out in op.finish():
        got += [(r[s], r[v]) for r in out.to_pylist() for s, v in (("s", "v"), ("s_right", "v_right"))]
    there = [(s, v) for s, v in got if s is not None]
    assert all(s == f"{v} {'.' * (v % 97 if v % 5 == 0 else 3)}" for s, v in there)
    assert len(there) == 2 * 40 * n
    assert op.metrics.state_rows == 0
    assert op._engine.keys.n_ids < 10 * n
    assert max(arenas) < 400_000


def test_one_text_for_both_sides_is_the_keys() -> None:
    left = pa.schema([("s", pa.string()), ("v", pa.int64())])
    op = SymmetricHashJoin(left, left, on="s", how="full")
    list(op.push("left", pa.record_batch([["a", "b", None], [1, 2, 3]], schema=left)))
    out = [tuple(r.values()) for b in op.push("right", pa.record_batch([["b", "c"], [4, 5]], schema=left))
           for r in b.to_pylist()]
    out += [tuple(r.values()) for b in op.finish() for r in b.to_pylist()]
    assert Counter(out) == Counter([("b", 2, 4), ("a", 1, None), ("c", None, 5)])
