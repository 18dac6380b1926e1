"""Computed keys that raise for some row: from then on pairs are decided one by one, whatever is stored later."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import oracle
import pyarrow as pa
import pytest

import ivjoin
from ivjoin import SymmetricHashJoin

pytestmark = pytest.mark.slow

MOST = 2**31 - 1
LEFT = pa.schema({"i": pa.int64(), "a": pa.int32(), "c": pa.int32(), "w": pa.int64(), "t": pa.int64()})
RIGHT = pa.schema({"j": pa.int64(), "b": pa.int32(), "v": pa.int64(), "t": pa.int64()})
BAND = "l.t BETWEEN r.t - 2 AND r.t + 2"
# The w of a row whose key errs is 0, so that its pairs are refused before, and nothing is raised.
CONDITIONS = {
    "filter": ("l.w > 0 AND l.a + l.c = r.b", False),
    "residual": ("l.w > 0 AND l.a + l.c = r.b AND (l.w < r.v OR l.w > r.v + 1)", False),
    "band": (f"l.w > 0 AND l.a + l.c = r.b AND {BAND}", True),
    "two keys": (f"l.w > 0 AND l.a + l.c = r.b AND l.w = r.v AND {BAND}", True),
}
Row = dict[str, Any]


def rows(rng: random.Random, n: int) -> tuple[list[Row], list[Row]]:
    def some(*values: Any) -> Any:
        return rng.choice([None, *values])

    left, right = [], []
    for i in range(n):
        errs = rng.random() < 0.25
        a, c, w = (MOST, 1, 0) if errs else (some(0, 1, 2), some(0, 1), rng.choice([1, 2]))
        left.append({"i": i, "a": a, "c": c, "w": w, "t": 10 * i // 3})
        right.append({"j": i, "b": some(0, 1, 2, 3), "v": some(1, 2), "t": 10 * i // 3 + rng.randrange(3)})
    return left, right


def meets(name: str, x: Row, y: Row) -> bool:
    if not x["w"] or None in (x["a"], x["c"], y["b"]) or x["a"] + x["c"] != y["b"]:
        return False
    if name == "residual":
        return y["v"] is not None and (x["w"] < y["v"] or x["w"] > y["v"] + 1)
    near = -2 <= x["t"] - y["t"] <= 2
    return name == "filter" or (near and (name == "band" or x["w"] == y["v"]))


def pieces(given: list[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for row in given:
        yield pa.RecordBatch.from_pylist([row], schema)


def pushed(left: list[Row], right: list[Row], snapshots: bool, **ask: Any) -> pa.Table:
    op = SymmetricHashJoin(LEFT, RIGHT, **ask)
    out: list[pa.RecordBatch] = []
    for a, b in zip(pieces(left, LEFT), pieces(right, RIGHT), strict=True):
        for side, piece in (("left", a), ("right", b)):
            out += op.push(side, piece)
            if snapshots:
                op = SymmetricHashJoin.restore(op.snapshot())
    return pa.Table.from_batches([*out, *op.finish()], op.schema)


@pytest.mark.nojit
@pytest.mark.one_in(5)
@pytest.mark.parametrize("how", ["inner", "left", "full", "left_anti"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_pairs_are_those_of_the_condition(name: str, how: str) -> None:
    condition, ordered = CONDITIONS[name]
    ask: dict[str, Any] = {"condition": condition, "how": how}
    if ordered:
        ask |= {"left_order": "t", "right_order": ivjoin.Order("t", slack=2)}
    for seed in range(6):
        left, right = rows(random.Random(seed), 12)
        want = Counter(oracle.pairs(left, right, how, (), lambda x, y: meets(name, x, y)))
        streams = [pa.RecordBatchReader.from_batches(s, pieces(g, s)) for g, s in ((left, LEFT), (right, RIGHT))]
        for got in (
            pushed(left, right, False, **ask), pushed(left, right, True, **ask),
            ivjoin.band_join(*streams, **ask).read_all(),
        ):  # fmt: skip
            ids = [got[c].to_pylist() if c in got.column_names else [None] * got.num_rows for c in ("i", "j")]
            assert Counter(zip(*ids, strict=True)) == want, seed


@pytest.mark.parametrize("name", CONDITIONS)
def test_counts_are_those_of_the_condition(name: str) -> None:
    condition, ordered = CONDITIONS[name]
    ask: dict[str, Any] = {"condition": condition, "how": "left", "aggregate": {"n": ("*", "count")}}
    if ordered:
        ask |= {"left_order": "t", "right_order": ivjoin.Order("t", slack=2)}
    for seed in range(6):
        left, right = rows(random.Random(seed), 12)
        got = pushed(left, right, bool(seed % 2), **ask)
        want = {x["i"]: sum(meets(name, x, y) for y in right) for x in left}
        assert dict(zip(got["i"].to_pylist(), got["n"].to_pylist(), strict=True)) == want
